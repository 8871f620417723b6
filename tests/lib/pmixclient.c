/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A PMIx client that does one thing a run, for the tests of mpi/pmix: "pmixclient VERB [ARG...]".
 * Its findings go to standard output, "VERB RANK: ..."; a failure of what ought to succeed to
 * standard error, with exit status 1.
 */
#include "tests/lib/pmixclient.h"

#include <errno.h>
#include <pmix_tool.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

pmix_proc_t me;
pmix_proc_t everybody;
uint32_t size;

/* As libpmix 4 has it: "TIMEOUT" also of what newer ones call PMIX_ERR_TIMEOUT. */
const char *status_name(pmix_status_t status)
{
	static char name[128];
	const char *text = PMIx_Error_string(status);

	if (strncmp(text, "PMIX_ERR_", 9) == 0)
		text += 9;
	else if (strncmp(text, "PMIX_", 5) == 0)
		text += 5;
	snprintf(name, sizeof(name), "%s", text);
	for (char *c = name; *c; c++) {
		if (*c == '_')
			*c = '-';
	}
	return name;
}

void die(const char *what, pmix_status_t status)
{
	fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, status_name(status));
	_exit(1);
}

void must(pmix_status_t status, const char *what)
{
	if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
		die(what, status);
}

void report(const char *verb, const char *text)
{
	printf("%s %u: %s\n", verb, me.rank, text);
	fflush(stdout);
}

void report_status(const char *verb, const char *what, pmix_status_t status)
{
	char text[200];

	snprintf(text, sizeof(text), "%s %s", what, status_name(status));
	report(verb, text);
}

static void init(void)
{
	pmix_value_t *value;

	must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
	PMIX_LOAD_PROCID(&everybody, me.nspace, PMIX_RANK_WILDCARD);
	must(PMIx_Get(&everybody, PMIX_JOB_SIZE, NULL, 0, &value), "PMIX_JOB_SIZE");
	size = value->data.uint32;
	PMIX_VALUE_RELEASE(value);
}

void fence(bool collect)
{
	pmix_info_t info;

	PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
	must(PMIx_Fence(&everybody, 1, &info, 1), "PMIx_Fence");
}

void begin_sem(sem_t *sem)
{
	if (sem_init(sem, 0, 0) < 0)
		die("sem_init", PMIX_ERROR);
}

void await_post(sem_t *sem)
{
	while (sem_wait(sem) < 0) {
		if (errno != EINTR)
			die("sem_wait", PMIX_ERROR);
	}
}

static int verb_init(char **args)
{
	char text[64];

	(void)args;
	snprintf(text, sizeof(text), "of %u", size);
	report("init", text);
	return 0;
}

/* ---- keys ---- */

static void show_value(const char *key, const pmix_value_t *v)
{
	char text[700];

	switch (v->type) {
	case PMIX_STRING:
		snprintf(text, sizeof(text), "%s=%s", key, v->data.string);
		break;
	case PMIX_UINT32:
		snprintf(text, sizeof(text), "%s=%u", key, v->data.uint32);
		break;
	case PMIX_UINT64:
		snprintf(text, sizeof(text), "%s=%llu", key, (unsigned long long)v->data.uint64);
		break;
	case PMIX_UINT16:
		snprintf(text, sizeof(text), "%s=%u", key, v->data.uint16);
		break;
	case PMIX_PROC_RANK:
		snprintf(text, sizeof(text), "%s=%u", key, v->data.rank);
		break;
	case PMIX_BOOL:
		snprintf(text, sizeof(text), "%s=%s", key, v->data.flag ? "true" : "false");
		break;
	case PMIX_PROC:
		snprintf(text, sizeof(text), "%s=%s:%u", key, v->data.proc->nspace,
			v->data.proc->rank);
		break;
	case PMIX_SIZE:
		snprintf(text, sizeof(text), "%s=%zu", key, v->data.size);
		break;
	case PMIX_STATUS:
		snprintf(text, sizeof(text), "%s=%s", key, status_name(v->data.status));
		break;
	case PMIX_DATA_ARRAY:
		snprintf(text, sizeof(text), "%s=[%zu]", key, v->data.darray->size);
		break;
	default:
		snprintf(text, sizeof(text), "%s=(%s)", key, PMIx_Data_type_string(v->type));
	}
	report("value", text);
}

/* Job keys, then "-" and those of this rank; "@RANK" changes the rank. "node:NUMBER" and
 * "app:NUMBER": from there on those of a node and of a command line;
 * "session:": those of the session. */
/* "hold FIFO": connected until somebody writes to it. */
static int verb_hold(char **args)
{
	FILE *fifo;

	report("hold", "connected");
	fifo = args[0] ? fopen(args[0], "r") : NULL;
	if (!fifo)
		return 1;
	(void)fgetc(fifo);
	return fclose(fifo);
}

static int verb_get(char **args)
{
	pmix_proc_t whom = everybody;
	pmix_info_t of[2];
	size_t nof = 0;
	bool yes = true;
	uint32_t number;
	pmix_value_t *value;
	pmix_status_t status;
	char text[128];

	for (; *args; args++) {
		if (strcmp(*args, "-") == 0) {
			whom = me;
			continue;
		}
		if (**args == '@') {
			whom.rank = (pmix_rank_t)atoi(*args + 1);
			continue;
		}
		if (strcmp(*args, "session:") == 0) {
			PMIX_INFO_LOAD(&of[0], PMIX_SESSION_INFO, &yes, PMIX_BOOL);
			nof = 1;
			whom = everybody;
			continue;
		}
		if (strncmp(*args, "node:", 5) == 0 || strncmp(*args, "app:", 4) == 0) {
			number = (uint32_t)atoi(strchr(*args, ':') + 1);
			PMIX_INFO_LOAD(&of[0], **args == 'n' ? PMIX_NODE_INFO : PMIX_APP_INFO, &yes,
				PMIX_BOOL);
			PMIX_INFO_LOAD(&of[1], **args == 'n' ? PMIX_NODEID : PMIX_APPNUM, &number,
				PMIX_UINT32);
			nof = 2;
			whom = everybody;
			continue;
		}
		status = PMIx_Get(&whom, *args, nof ? of : NULL, nof, &value);
		if (status != PMIX_SUCCESS) {
			snprintf(text, sizeof(text), "%s: %s", *args, status_name(status));
			report("value", text);
			continue;
		}
		show_value(*args, value);
		PMIX_VALUE_RELEASE(value);
	}
	return 0;
}

/* Whether the directories that it is given are there, private and writable. */
static int verb_dirs(char **args)
{
	static const char *const keys[] = {PMIX_TMPDIR, PMIX_NSDIR, PMIX_PROCDIR};
	struct stat st;

	(void)args;
	for (size_t i = 0; i < 3; i++) {
		pmix_value_t *value;

		must(PMIx_Get(i == 2 ? &me : &everybody, keys[i], NULL, 0, &value), keys[i]);
		if (stat(value->data.string, &st) < 0 || !S_ISDIR(st.st_mode) ||
			(st.st_mode & 0777) != 0700 || st.st_uid != geteuid() ||
			access(value->data.string, W_OK) < 0)
			die(value->data.string, PMIX_ERR_NO_PERMISSIONS);
		show_value(keys[i], value);
		PMIX_VALUE_RELEASE(value);
	}
	return 0;
}

/* ---- put, fence, get ---- */

void put_own(void)
{
	pmix_value_t value;
	char text[32];

	snprintf(text, sizeof(text), "data of %u", me.rank);
	PMIX_VALUE_LOAD(&value, text, PMIX_STRING);
	must(PMIx_Put(PMIX_GLOBAL, "test.own", &value), "PMIx_Put");
	must(PMIx_Commit(), "PMIx_Commit");
}

/* libpmix waits for what another rank of the node has not committed yet, but without a deadline no
 * longer than two seconds. */
void get_of(uint32_t rank)
{
	pmix_value_t *value;
	pmix_proc_t peer;
	pmix_info_t info;
	char text[32];
	int seconds = 50;

	snprintf(text, sizeof(text), "data of %u", rank);
	PMIX_LOAD_PROCID(&peer, me.nspace, rank);
	PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_INT);
	must(PMIx_Get(&peer, "test.own", &info, 1, &value), "PMIx_Get");
	if (value->type != PMIX_STRING || strcmp(value->data.string, text) != 0)
		die("another value than was put", PMIX_ERROR);
	PMIX_VALUE_RELEASE(value);
}

/* "modex collect", "modex direct", "modex none": the last without any fence before it. */
static int verb_modex(char **args)
{
	put_own();
	if (strcmp(args[0], "none") != 0)
		fence(strcmp(args[0], "collect") == 0);
	for (uint32_t i = 0; i < size; i++)
		get_of((me.rank + i) % size);
	fence(false);
	report("modex", "all");
	return 0;
}

/* Many fences in a row. */
static int verb_fences(char **args)
{
	for (int i = atoi(args[0]); i > 0; i--)
		fence(i & 1);
	report("fences", "done");
	return 0;
}

/* Even ranks and odd ranks, each among themselves, unlike often. */
static int verb_halves(char **args)
{
	pmix_proc_t *procs = calloc(size, sizeof(*procs));
	size_t n = 0;

	(void)args;
	for (uint32_t i = me.rank % 2; i < size; i += 2, n++)
		PMIX_LOAD_PROCID(&procs[n], me.nspace, i);
	for (uint32_t i = 0; i < 3 + me.rank % 2; i++)
		must(PMIx_Fence(procs, n, NULL, 0), "PMIx_Fence of a half");
	fence(false);
	report("halves", "met");
	free(procs);
	return 0;
}

/* "absent [SECONDS]": the last rank does not come. With a deadline it ends when the others have
 * found that out, else when it is killed. */
static int verb_absent(char **args)
{
	pmix_info_t info;
	int seconds = args[0] ? atoi(args[0]) : 0;
	pmix_status_t status;

	report("begun", "");
	if (me.rank == size - 1) {
		if (!seconds)
			pause();
		for (uint32_t i = 0; i < size - 1; i++)
			get_of(i);
		return 0;
	}
	PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_INT);
	status = PMIx_Fence(&everybody, 1, &info, seconds ? 1 : 0);
	report("absent", status_name(status));
	if (seconds)
		put_own();
	return 0;
}

/* A key that nobody puts. */
static int verb_nokey(char **args)
{
	pmix_value_t *value;
	pmix_proc_t peer;
	pmix_info_t info;
	int seconds = 1;
	pmix_status_t status;

	(void)args;
	put_own();
	fence(false);
	PMIX_LOAD_PROCID(&peer, me.nspace, (me.rank + 1) % size);
	PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_INT);
	status = PMIx_Get(&peer, "test.none", &info, 1, &value);
	if (status == PMIX_SUCCESS)
		die("a key that nobody put", status);
	fence(false);
	report("nokey", "not found");
	return 0;
}

static void put_text(const char *key, const char *text)
{
	pmix_value_t value;

	PMIX_VALUE_LOAD(&value, text, PMIX_STRING);
	must(PMIx_Put(PMIX_GLOBAL, key, &value), "PMIx_Put");
	must(PMIx_Commit(), "PMIx_Commit");
	PMIX_VALUE_DESTRUCT(&value);
}

static pmix_status_t get_text(
	uint32_t rank, const char *key, const pmix_info_t *info, size_t ninfo, char text[64])
{
	pmix_value_t *value = NULL;
	pmix_status_t status;
	pmix_proc_t peer;

	PMIX_LOAD_PROCID(&peer, me.nspace, rank);
	status = PMIx_Get(&peer, key, info, ninfo, &value);
	snprintf(text, 64, "%s",
		status != PMIX_SUCCESS               ? status_name(status)
			: value->type == PMIX_STRING ? value->data.string
						     : "no text");
	if (value)
		PMIX_VALUE_RELEASE(value);
	return status;
}

/* Rank 0 changes what it has put; the others have read it, and read it anew. */
static int verb_refresh(char **args)
{
	pmix_info_t info;
	char text[64];
	bool yes = true;

	(void)args;
	if (me.rank == 0)
		put_text("test.changing", "first");
	fence(true);
	if (me.rank != 0)
		must(get_text(0, "test.changing", NULL, 0, text), "PMIx_Get");
	fence(false);
	if (me.rank == 0)
		put_text("test.changing", "second");
	fence(true);
	PMIX_INFO_LOAD(&info, PMIX_GET_REFRESH_CACHE, &yes, PMIX_BOOL);
	if (me.rank != 0) {
		(void)get_text(0, "test.changing", &info, 1, text);
		report("refresh", text);
	}
	fence(false);
	return 0;
}

/* "again COUNT": each time with a connection of its own. */
static int verb_again(char **args)
{
	fence(false);
	for (int i = atoi(args[0]); i > 0; i--) {
		must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
		init();
		fence(i & 1);
	}
	report("again", "done");
	return 0;
}

static char late_text[64];
static sem_t late_got;

static void on_late(pmix_status_t status, pmix_value_t *value, void *cbdata)
{
	(void)cbdata;
	snprintf(late_text, sizeof(late_text), "%s",
		status == PMIX_SUCCESS && value->type == PMIX_STRING ? value->data.string
								     : status_name(status));
	(void)sem_post(&late_got);
}

/* The last rank gets a key of rank 0's, which has committed others; once its server has the
 * request, rank 0 puts that, too. */
static int verb_latekey(char **args)
{
	pmix_proc_t first;
	pmix_info_t guard;
	int seconds = 50;

	(void)args;
	begin_sem(&late_got);
	put_own();
	fence(false);
	PMIX_LOAD_PROCID(&first, me.nspace, 0);
	PMIX_INFO_LOAD(&guard, PMIX_TIMEOUT, &seconds, PMIX_INT);
	if (me.rank == size - 1)
		must(PMIx_Get_nb(&first, "test.late", &guard, 1, on_late, NULL), "PMIx_Get_nb");
	fence(false);
	if (me.rank == 0)
		put_text("test.late", "at last");
	if (me.rank == size - 1) {
		await_post(&late_got);
		report("latekey", late_text);
	}
	fence(false);
	return 0;
}

/* ---- publish ---- */

static pmix_status_t lookup(const char *key, bool wait, int seconds, char *text, size_t capacity)
{
	pmix_pdata_t data;
	pmix_info_t info[2];
	pmix_status_t status;
	int all = 0;

	PMIX_PDATA_CONSTRUCT(&data);
	PMIX_LOAD_KEY(data.key, key);
	PMIX_INFO_LOAD(&info[0], PMIX_WAIT, &all, PMIX_INT);
	PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
	status = PMIx_Lookup(&data, 1, wait ? info : NULL, wait ? 2 : 0);
	if (status == PMIX_SUCCESS)
		snprintf(text, capacity, "%s from %u", data.value.data.string, data.proc.rank);
	PMIX_PDATA_DESTRUCT(&data);
	return status;
}

static pmix_status_t publish(
	const char *key, const char *value, pmix_data_range_t range, pmix_persistence_t persistence)
{
	pmix_info_t info[3];

	PMIX_INFO_LOAD(&info[0], key, value, PMIX_STRING);
	PMIX_INFO_LOAD(&info[1], PMIX_RANGE, &range, PMIX_DATA_RANGE);
	PMIX_INFO_LOAD(&info[2], PMIX_PERSISTENCE, &persistence, PMIX_PERSIST);
	return PMIx_Publish(info, 3);
}

void expect(pmix_status_t got, pmix_status_t wanted, const char *what)
{
	if (got != wanted)
		die(what, got);
}

/* Rank 0 publishes, rank 1 looks up. */
static int verb_publish(char **args)
{
	char read_key[] = "test.read", port_key[] = "test.port", *none[] = {read_key, NULL},
	     text[64];

	(void)args;
	if (me.rank == 1) {
		expect(lookup("test.port", true, 20, text, sizeof(text)), PMIX_SUCCESS,
			"a lookup that waits");
		if (strcmp(text, "a port from 0") != 0)
			die(text, PMIX_ERROR);
	}
	if (me.rank == 0) {
		must(publish("test.port", "a port", PMIX_RANGE_SESSION, PMIX_PERSIST_SESSION),
			"PMIx_Publish");
		expect(publish("test.port", "again", PMIX_RANGE_SESSION, PMIX_PERSIST_SESSION),
			PMIX_ERR_DUPLICATE_KEY, "a key that is there");
		must(publish("test.mine", "mine", PMIX_RANGE_PROC_LOCAL, PMIX_PERSIST_SESSION),
			"PMIx_Publish");
		must(publish("test.read", "once", PMIX_RANGE_NAMESPACE, PMIX_PERSIST_FIRST_READ),
			"PMIx_Publish");
		expect(lookup("test.mine", false, 0, text, sizeof(text)), PMIX_SUCCESS,
			"one's own");
	}
	fence(false);
	if (me.rank == 1) {
		expect(lookup("test.mine", false, 0, text, sizeof(text)), PMIX_ERR_NOT_FOUND,
			"another's own");
		expect(lookup("test.read", false, 0, text, sizeof(text)), PMIX_SUCCESS,
			"the first read");
		expect(lookup("test.read", false, 0, text, sizeof(text)), PMIX_ERR_NOT_FOUND,
			"the second read");
		none[0] = port_key;
		must(PMIx_Unpublish(none, NULL, 0), "PMIx_Unpublish of another's");
		expect(lookup("test.port", false, 0, text, sizeof(text)), PMIX_SUCCESS,
			"what another has tried to unpublish");
	}
	fence(false);
	if (me.rank == 0) {
		none[0] = port_key;
		must(PMIx_Unpublish(none, NULL, 0), "PMIx_Unpublish");
		expect(lookup("test.port", false, 0, text, sizeof(text)), PMIX_ERR_NOT_FOUND,
			"what is unpublished");
		expect(lookup("test.never", true, 1, text, sizeof(text)), PMIX_ERR_TIMEOUT,
			"what nobody publishes");
	}
	fence(false);
	report("publish", "as it ought to be");
	return 0;
}

/* ---- connect and groups ---- */

static int verb_connect(char **args)
{
	(void)args;
	must(PMIx_Connect(&everybody, 1, NULL, 0), "PMIx_Connect");
	must(PMIx_Disconnect(&everybody, 1, NULL, 0), "PMIx_Disconnect");
	report("connect", "and disconnected");
	return 0;
}

static size_t make_group(const char *name)
{
	pmix_info_t info, *results = NULL;
	size_t n = 0, id = SIZE_MAX;
	bool yes = true;

	PMIX_INFO_LOAD(&info, PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
	must(PMIx_Group_construct(name, &everybody, 1, &info, 1, &results, &n),
		"PMIx_Group_construct");
	for (size_t i = 0; i < n; i++) {
		if (PMIX_CHECK_KEY(&results[i], PMIX_GROUP_CONTEXT_ID))
			id = results[i].value.data.size;
	}
	if (id == SIZE_MAX)
		die("no context id", PMIX_ERR_NOT_FOUND);
	PMIX_INFO_FREE(results, n);
	return id;
}

static int verb_group(char **args)
{
	char text[64];
	size_t a, b;

	(void)args;
	a = make_group("test-a");
	b = make_group("test-b");
	if (a == b)
		die("one context id for two groups", PMIX_ERROR);
	snprintf(text, sizeof(text), "%zx", a);
	report("context", text);
	must(PMIx_Group_destruct("test-a", NULL, 0), "PMIx_Group_destruct");
	must(PMIx_Group_destruct("test-b", NULL, 0), "PMIx_Group_destruct");
	if (PMIx_Group_destruct("test-a", NULL, 0) == PMIX_SUCCESS)
		die("a group was destructed twice", PMIX_ERROR);
	report("group", "gone");
	return 0;
}

/* ---- events ---- */

static pthread_mutex_t event_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t event_came = PTHREAD_COND_INITIALIZER;
static pmix_status_t event_code;
static pmix_proc_t event_source;

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
	size_t ninfo, pmix_info_t results[], size_t nresults,
	pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata)
{
	(void)id;
	(void)info;
	(void)ninfo;
	(void)results;
	(void)nresults;
	pthread_mutex_lock(&event_lock);
	event_code = status;
	event_source = *source;
	pthread_cond_broadcast(&event_came);
	pthread_mutex_unlock(&event_lock);
	cbfunc(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

void listen_for(pmix_status_t code)
{
	must(PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL) < 0
			? PMIX_ERROR
			: PMIX_SUCCESS,
		"PMIx_Register_event_handler");
}

void await_event(const char *verb)
{
	char text[128];

	pthread_mutex_lock(&event_lock);
	while (event_code == 0)
		pthread_cond_wait(&event_came, &event_lock);
	snprintf(text, sizeof(text), "%s from %u", status_name(event_code), event_source.rank);
	pthread_mutex_unlock(&event_lock);
	report(verb, text);
}

#define OWN_EVENT (PMIX_EXTERNAL_ERR_BASE - 7)

static int verb_event(char **args)
{
	(void)args;
	if (me.rank != 0)
		listen_for(OWN_EVENT);
	fence(false);
	if (me.rank == 0)
		must(PMIx_Notify_event(OWN_EVENT, &me, PMIX_RANGE_GLOBAL, NULL, 0, NULL, NULL),
			"PMIx_Notify_event");
	else
		await_event("event");
	fence(false);
	return 0;
}

/* The last rank dies; the others hear of it, and their fence with it fails. */
static int verb_death(char **args)
{
	(void)args;
	if (me.rank != size - 1)
		listen_for(PMIX_ERR_PROC_ABORTED_BY_SIG);
	fence(false);
	if (me.rank == size - 1)
		(void)kill(getpid(), SIGKILL);
	await_event("death");
	return 0;
}

/* The last rank dies in a fence that the others have begun or begin: it fails, but where libpmix
 * has seen the death before any of them came, and takes the fence for one of those that are left.
 */
static int verb_deathfence(char **args)
{
	pmix_status_t status;

	(void)args;
	fence(false);
	if (me.rank == size - 1)
		(void)kill(getpid(), SIGKILL);
	status = PMIx_Fence(&everybody, 1, NULL, 0);
	report("deathfence", status == PMIX_SUCCESS ? "of the others" : "failed");
	return 0;
}

/* ---- abort and control ---- */

/* "abort CODE [RANK]" */
static int verb_abort(char **args)
{
	pmix_proc_t one;

	fence(false);
	if (me.rank == 0 && args[1]) {
		PMIX_LOAD_PROCID(&one, me.nspace, (pmix_rank_t)atoi(args[1]));
		must(PMIx_Abort(atoi(args[0]), "one too many", &one, 1), "PMIx_Abort");
		report("abort", "one");
		return 0;
	}
	if (me.rank == 0)
		(void)PMIx_Abort(atoi(args[0]), "enough of it", NULL, 0);
	if (!args[1] || (pmix_rank_t)atoi(args[1]) == me.rank)
		pause();
	return 0;
}

/* "aborts [MESSAGE]": all of them, without a message by itself. */
static int verb_aborts(char **args)
{
	fence(false);
	if (me.rank == 0)
		(void)PMIx_Abort(7, args[0], NULL, 0);
	(void)pause();
	return 0;
}

static void control(const char *key, const void *value, pmix_data_type_t type, uint32_t rank,
	pmix_status_t wanted, const char *what)
{
	pmix_info_t info, *results = NULL;
	pmix_proc_t target;
	size_t n = 0;

	PMIX_LOAD_PROCID(&target, me.nspace, rank);
	PMIX_INFO_LOAD(&info, key, value, type);
	expect(PMIx_Job_control(&target, 1, &info, 1, &results, &n), wanted, what);
}

static sem_t got_signal;

/* In whatever thread. */
static void on_signal(int number)
{
	(void)number;
	(void)sem_post(&got_signal);
}

/* Rank 0 signals, pauses, resumes and ends the last rank. */
static int verb_control(char **args)
{
	uint32_t last = size - 1;
	int usr1 = SIGUSR1;
	bool yes = true;

	(void)args;
	begin_sem(&got_signal);
	(void)signal(SIGUSR1, on_signal);
	fence(false);
	if (me.rank == 0) {
		control(PMIX_JOB_CTRL_SIGNAL, &usr1, PMIX_INT, last, PMIX_SUCCESS, "a signal");
		control(PMIX_JOB_CTRL_PAUSE, &yes, PMIX_BOOL, last, PMIX_SUCCESS, "a pause");
		control(PMIX_JOB_CTRL_RESUME, &yes, PMIX_BOOL, last, PMIX_SUCCESS, "to go on");
		control(PMIX_JOB_CTRL_CHECKPOINT, "x", PMIX_STRING, last, PMIX_ERR_NOT_SUPPORTED,
			"a checkpoint");
		control(PMIX_JOB_CTRL_KILL, &yes, PMIX_BOOL, size + 7, PMIX_ERR_NOT_FOUND,
			"the end of a rank that there is not");
	}
	if (me.rank == last) {
		await_post(&got_signal);
		report("control", "signalled");
	}
	fence(false);
	if (me.rank == 0)
		control(PMIX_JOB_CTRL_TERMINATE, &yes, PMIX_BOOL, last, PMIX_SUCCESS, "the end");
	if (me.rank == last)
		for (;;)
			pause();
	return 0;
}

/* ---- queries ---- */

static void show_table(const pmix_value_t *value)
{
	const pmix_proc_info_t *p;
	char text[300];

	if (value->type != PMIX_DATA_ARRAY || value->data.darray->type != PMIX_PROC_INFO)
		return;
	p = value->data.darray->array;
	for (size_t i = 0; i < value->data.darray->size; i++, p++) {
		snprintf(text, sizeof(text), "%u is %d: %s", p->proc.rank, p->pid,
			PMIx_Proc_state_string(p->state));
		report("table", text);
	}
}

/* PMIX_QUERY_NAMESPACE_INFO: programs take all that stands in one for text. */
static void show_namespaces(const pmix_info_t *info)
{
	const pmix_info_t *one, *member;
	char text[600];
	size_t len = 0;

	if (!PMIX_CHECK_KEY(info, PMIX_QUERY_NAMESPACE_INFO) || info->value.type != PMIX_DATA_ARRAY)
		return;
	one = info->value.data.darray->array;
	for (size_t i = 0; i < info->value.data.darray->size; i++, one++) {
		if (one->value.type != PMIX_DATA_ARRAY)
			die(one->key, PMIX_ERR_TYPE_MISMATCH);
		member = one->value.data.darray->array;
		for (size_t k = 0; k < one->value.data.darray->size; k++, member++) {
			if (member->value.type != PMIX_STRING)
				die(member->key, PMIX_ERR_TYPE_MISMATCH);
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s",
				k ? " runs " : "", member->value.data.string);
		}
		report("namespace", text);
		len = 0;
	}
}

static int verb_query(char **args)
{
	pmix_query_t query;
	pmix_info_t *results = NULL;
	pmix_status_t status;
	size_t n = 0;
	char text[32];

	fence(false);
	PMIX_QUERY_CONSTRUCT(&query);
	for (; *args; args++)
		PMIX_ARGV_APPEND(status, query.keys, *args);
	status = PMIx_Query_info(&query, 1, &results, &n);
	report("query", status_name(status));
	snprintf(text, sizeof(text), "%d", getpid());
	report("pid", text);
	for (size_t i = 0; i < n; i++) {
		show_value(results[i].key, &results[i].value);
		show_table(&results[i].value);
		show_namespaces(&results[i]);
	}
	PMIX_QUERY_DESTRUCT(&query);
	fence(false);
	return 0;
}

static int verb_log(char **args)
{
	pmix_info_t info;

	PMIX_INFO_LOAD(&info, PMIX_LOG_STDERR, args[0], PMIX_STRING);
	must(PMIx_Log(&info, 1, NULL, 0), "PMIx_Log");
	report("log", "told");
	return 0;
}

/* "monitor file NAME", "monitor heartbeat": rank 0 has itself watched, and the others are told that
 * its file does not grow, or its heart does not beat. */
static int verb_monitor(char **args)
{
	bool yes = true, beats = strcmp(args[0], "heartbeat") == 0;
	pmix_status_t alert = beats ? PMIX_MONITOR_HEARTBEAT_ALERT : PMIX_MONITOR_FILE_ALERT;
	uint32_t one = 1;
	pmix_info_t what, how[3], *results = NULL;
	size_t n = 0;

	if (me.rank != 0)
		listen_for(alert);
	fence(false);
	if (beats) {
		PMIX_INFO_LOAD(&what, PMIX_MONITOR_HEARTBEAT, NULL, PMIX_POINTER);
		PMIX_INFO_LOAD(&how[0], PMIX_MONITOR_HEARTBEAT_TIME, &one, PMIX_UINT32);
		PMIX_INFO_LOAD(&how[1], PMIX_MONITOR_HEARTBEAT_DROPS, &one, PMIX_UINT32);
	} else {
		PMIX_INFO_LOAD(&what, PMIX_MONITOR_FILE, args[1], PMIX_STRING);
		PMIX_INFO_LOAD(&how[0], PMIX_MONITOR_FILE_CHECK_TIME, &one, PMIX_UINT32);
		PMIX_INFO_LOAD(&how[1], PMIX_MONITOR_FILE_DROPS, &one, PMIX_UINT32);
	}
	PMIX_INFO_LOAD(&how[2], PMIX_MONITOR_FILE_SIZE, &yes, PMIX_BOOL);
	if (me.rank == 0)
		must(PMIx_Process_monitor(&what, alert, how, 3, &results, &n),
			"PMIx_Process_monitor");
	else
		await_event("monitor");
	fence(false);
	return 0;
}

/* ---- spawn ---- */

/* The process sets, and the members of one of them. */
static void show_sets(const char *name)
{
	pmix_query_t query[2];
	pmix_info_t *results = NULL;
	pmix_status_t status;
	size_t n = 0;

	PMIX_QUERY_CONSTRUCT(&query[0]);
	PMIX_QUERY_CONSTRUCT(&query[1]);
	PMIX_ARGV_APPEND(status, query[0].keys, PMIX_QUERY_NUM_PSETS);
	PMIX_ARGV_APPEND(status, query[0].keys, PMIX_QUERY_PSET_NAMES);
	PMIX_ARGV_APPEND(status, query[1].keys, PMIX_QUERY_PSET_MEMBERSHIP);
	PMIX_INFO_CREATE(query[1].qualifiers, 1);
	query[1].nqual = 1;
	PMIX_INFO_LOAD(&query[1].qualifiers[0], PMIX_PSET_NAME, name, PMIX_STRING);
	must(status, "PMIX_ARGV_APPEND");
	must(PMIx_Query_info(query, 2, &results, &n), "PMIx_Query_info");
	for (size_t i = 0; i < n; i++)
		show_value(results[i].key, &results[i].value);
	PMIX_QUERY_DESTRUCT(&query[0]);
	PMIX_QUERY_DESTRUCT(&query[1]);
}

/* "spawn PROGRAM COUNT [SET]": the children are "PROGRAM child", and a process set. */
static int verb_spawn(char **args)
{
	char nspace[PMIX_MAX_NSLEN + 1];
	pmix_proc_t both[2];
	pmix_status_t status;
	pmix_app_t app;

	PMIX_APP_CONSTRUCT(&app);
	if (args[2]) {
		PMIX_INFO_CREATE(app.info, 1);
		app.ninfo = 1;
		PMIX_INFO_LOAD(&app.info[0], PMIX_PSET_NAME, args[2], PMIX_STRING);
		PMIX_INFO_REQUIRED(&app.info[0]);
	}
	app.cmd = strdup(args[0]);
	PMIX_ARGV_APPEND(status, app.argv, args[0]);
	PMIX_ARGV_APPEND(status, app.argv, "child");
	PMIX_ARGV_APPEND(status, app.env, "TEST_SPAWNED=yes");
	app.maxprocs = atoi(args[1]);
	if (me.rank == 0) {
		status = PMIx_Spawn(NULL, 0, &app, 1, nspace);
		if (status != PMIX_SUCCESS) {
			report("spawn", status_name(status));
			PMIX_APP_DESTRUCT(&app);
			fence(false); /* the others are on their way into it */
			return 0;
		}
		PMIX_LOAD_PROCID(&both[0], me.nspace, 0);
		PMIX_LOAD_PROCID(&both[1], nspace, PMIX_RANK_WILDCARD);
		must(PMIx_Connect(both, 2, NULL, 0), "PMIx_Connect with the children");
		must(PMIx_Disconnect(both, 2, NULL, 0), "PMIx_Disconnect from the children");
		report("spawn", "connected");
		if (args[2])
			show_sets(args[2]);
	}
	PMIX_APP_DESTRUCT(&app);
	fence(false);
	return 0;
}

static int verb_child(char **args)
{
	pmix_value_t *value;
	pmix_proc_t both[2];
	char of[] = "app:0", argv[] = PMIX_APP_ARGV, *own[] = {of, argv, NULL};
	char text[600];

	(void)args;
	(void)verb_get(own);
	must(PMIx_Get(&everybody, PMIX_SPAWNED, NULL, 0, &value), "PMIX_SPAWNED");
	if (!value->data.flag || !getenv("TEST_SPAWNED"))
		die("a child that was not spawned", PMIX_ERROR);
	PMIX_VALUE_RELEASE(value);
	must(PMIx_Get(&everybody, PMIX_PARENT_ID, NULL, 0, &value), "PMIX_PARENT_ID");
	both[0] = *value->data.proc;
	PMIX_VALUE_RELEASE(value);
	must(PMIx_Get(&me, PMIX_PARENT_ID, NULL, 0, &value), "PMIX_PARENT_ID of one's own");
	if (!PMIX_CHECK_PROCID(value->data.proc, &both[0]))
		die("another parent for a rank than for the job", PMIX_ERROR);
	PMIX_VALUE_RELEASE(value);
	PMIX_LOAD_PROCID(&both[1], me.nspace, PMIX_RANK_WILDCARD);
	put_own();
	fence(true);
	for (uint32_t i = 0; i < size; i++)
		get_of(i);
	must(PMIx_Connect(both, 2, NULL, 0), "PMIx_Connect with the parent");
	must(PMIx_Disconnect(both, 2, NULL, 0), "PMIx_Disconnect from the parent");
	snprintf(text, sizeof(text), "of %u, parent %s:%u", size, both[0].nspace, both[0].rank);
	report("child", text);
	return 0;
}

/* ---- tools ---- */

/* "tool URI": connects and queries the namespaces. */
static int tool(char **args)
{
	char key[] = PMIX_QUERY_NAMESPACES, *keys[] = {key, NULL};
	pmix_query_t query = {.keys = keys};
	pmix_info_t info, *results = NULL;
	pmix_status_t status;
	size_t n = 0;

	PMIX_INFO_LOAD(&info, PMIX_SERVER_URI, args[0], PMIX_STRING);
	status = PMIx_tool_init(&me, &info, 1);
	if (status != PMIX_SUCCESS) {
		report("tool", status_name(status));
		return 1;
	}
	status = PMIx_Query_info(&query, 1, &results, &n);
	report("tool", me.nspace);
	if (n)
		show_value("namespaces", &results[0].value);
	(void)PMIx_tool_finalize();
	return status == PMIX_SUCCESS ? 0 : 1;
}

static const struct verb verbs[] = {
	{"init", verb_init},
	{"hold", verb_hold},
	{"get", verb_get},
	{"dirs", verb_dirs},
	{"modex", verb_modex},
	{"fences", verb_fences},
	{"halves", verb_halves},
	{"absent", verb_absent},
	{"nokey", verb_nokey},
	{"refresh", verb_refresh},
	{"again", verb_again},
	{"latekey", verb_latekey},
	{"publish", verb_publish},
	{"connect", verb_connect},
	{"group", verb_group},
	{"event", verb_event},
	{"death", verb_death},
	{"deathfence", verb_deathfence},
	{"abort", verb_abort},
	{"aborts", verb_aborts},
	{"control", verb_control},
	{"query", verb_query},
	{"log", verb_log},
	{"monitor", verb_monitor},
	{"spawn", verb_spawn},
	{"child", verb_child},
	{NULL, NULL},
};

static const struct verb *find(const struct verb *verb, const char *name)
{
	while (verb->name && strcmp(verb->name, name) != 0)
		verb++;
	return verb->name ? verb : NULL;
}

static const struct verb *find_any(const char *name)
{
	const struct verb *const tables[] = {verbs, failure_verbs, invite_verbs, watch_verbs},
				 *verb = NULL;

	for (size_t i = 0; !verb && i < sizeof(tables) / sizeof(tables[0]); i++)
		verb = find(tables[i], name);
	return verb;
}

/* All but the first rank never call PMIx_Init. */
static int late(void)
{
	const char *rank = getenv("PMIX_RANK");
	pmix_info_t info;
	int seconds = 1;

	if (rank && strcmp(rank, "0") != 0) {
		pause();
		return 0;
	}
	init();
	PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_INT);
	report("late", status_name(PMIx_Fence(&everybody, 1, &info, 1)));
	must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
	return 3;
}

int main(int argc, char **argv)
{
	const struct verb *verb;
	int r;

	if (argc >= 3 && strcmp(argv[1], "tool") == 0)
		return tool(argv + 2);
	if (argc == 2 && strcmp(argv[1], "late") == 0)
		return late();
	if (argc == 2 && strcmp(argv[1], "alone") == 0) {
		/* What a client does before it finds no server, for tests/bench/run-pmix. */
		(void)PMIx_Init(&me, NULL, 0);
		return 0;
	}
	verb = argc < 2 ? NULL : find_any(argv[1]);
	if (verb) {
		init();
		r = verb->run(argv + 2);
		must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
		return r;
	}
	fputs("usage: pmixclient VERB [ARG...]\n", stderr);
	return 2;
}
