/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Operations that fail, are refused, or must not reach somebody: more verbs of pmixclient. A line
 * has the status that libpmix returned.
 */
#include "tests/lib/pmixclient.h"

#include <pmix_tool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_last(void)
{
	return me.rank == size - 1;
}

/* ---- together ---- */

/* A group without a context id libpmix 4.2 takes for one of this node. */
static pmix_status_t construct(void)
{
	pmix_info_t info, *results = NULL;
	pmix_status_t status;
	bool yes = true;
	size_t n = 0;

	PMIX_INFO_LOAD(&info, PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
	status = PMIx_Group_construct("test-group", &everybody, 1, &info, 1, &results, &n);
	if (results)
		PMIX_INFO_FREE(results, n);
	return status;
}

static pmix_status_t together(const char *what)
{
	if (strcmp(what, "fence") == 0)
		return PMIx_Fence(&everybody, 1, NULL, 0);
	if (strcmp(what, "connect") == 0)
		return PMIx_Connect(&everybody, 1, NULL, 0);
	if (strcmp(what, "disconnect") == 0)
		return PMIx_Disconnect(&everybody, 1, NULL, 0);
	return construct();
}

/* "missed WHAT": the last rank does not come, and ends when rank 0 has found that out by the step's
 * deadline. Of its own it must give none: libpmix 4.2 has one for connections and groups that fires
 * when they have ended, too. */
static int verb_missed(char **args)
{
	if (is_last()) {
		get_of(0);
		return 0;
	}
	report_status("missed", args[0], together(args[0]));
	put_own();
	return 0;
}

/* "awaited WHAT": the last rank never comes. */
static int verb_awaited(char **args)
{
	fence(false);
	if (strcmp(args[0], "disconnect") == 0)
		must(together("connect"), "PMIx_Connect");
	if (is_last())
		(void)pause();
	report_status("awaited", args[0], together(args[0]));
	return 0;
}

/* "idle [WHAT...]": they do each together, then nothing until their standard input ends. */
static int verb_idle(char **args)
{
	char byte;

	for (; *args; args++)
		must(together(*args), *args);
	report("idle", "");
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}

/* Until it is killed. */
static int verb_orphan(char **args)
{
	(void)args;
	fence(false);
	report("orphan", "");
	(void)pause();
	return 0;
}

/* "died WHAT": the last rank dies in the middle of what the others have begun or begin. */
static int verb_died(char **args)
{
	pmix_status_t status;

	if (strcmp(args[0], "disconnect") == 0)
		must(together("connect"), "PMIx_Connect");
	fence(false);
	if (is_last())
		_exit(9);
	status = together(args[0]);
	report("died", status == PMIX_SUCCESS ? "of the others" : "failed");
	return 0;
}

/* "left WHAT": the last rank finalizes and ends before the others have begun, or while they wait.
 */
static int verb_left(char **args)
{
	fence(false);
	if (!is_last())
		report_status("left", args[0], together(args[0]));
	return 0;
}

/* ---- who is not there ---- */

/* "nobody SECONDS": requests for a rank or a namespace that does not exist. */
static int verb_nobody(char **args)
{
	char key[] = PMIX_QUERY_JOB_STATUS, *keys[] = {key, NULL};
	pmix_query_t query = {.keys = keys, .nqual = 1};
	pmix_info_t qualifier, guard, *results = NULL;
	pmix_proc_t rank, job[2];
	pmix_value_t *value = NULL;
	int seconds = atoi(args[0]);
	size_t n = 0;

	PMIX_LOAD_PROCID(&rank, me.nspace, size + 7);
	PMIX_INFO_LOAD(&guard, PMIX_TIMEOUT, &seconds, PMIX_INT);
	(void)PMIx_Abort(1, "nobody", &rank, 1); /* whose failure libpmix keeps to itself */
	report_status("nobody", "get", PMIx_Get(&rank, "test.own", &guard, 1, &value));
	PMIX_INFO_LOAD(&qualifier, PMIX_NSPACE, "no.such.job", PMIX_STRING);
	query.qualifiers = &qualifier;
	report_status("nobody", "query", PMIx_Query_info(&query, 1, &results, &n));
	job[0] = me;
	PMIX_LOAD_PROCID(&job[1], "no.such.job", PMIX_RANK_WILDCARD);
	report_status("nobody", "connect", PMIx_Connect(job, 2, NULL, 0));
	return 0;
}

/* "unput SECONDS": the last rank ends without a word while the others ask for what it has not put.
 */
static int verb_unput(char **args)
{
	pmix_value_t *value = NULL;
	pmix_proc_t last;
	int seconds = atoi(args[0]);
	pmix_info_t guard;

	PMIX_LOAD_PROCID(&last, me.nspace, size - 1);
	PMIX_INFO_LOAD(&guard, PMIX_TIMEOUT, &seconds, PMIX_INT);
	fence(false);
	if (is_last())
		_exit(9);
	report_status("unput", "get", PMIx_Get(&last, "test.own", &guard, 1, &value));
	return 0;
}

/* ---- events ---- */

static sem_t event_heard; /* for "ends" and "lost" */

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
	size_t ninfo, pmix_info_t results[], size_t nresults,
	pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata)
{
	char text[128];
	int code = -1;

	(void)id;
	(void)results;
	(void)nresults;
	for (size_t i = 0; i < ninfo; i++) {
		if (PMIX_CHECK_KEY(&info[i], PMIX_EXIT_CODE))
			code = info[i].value.data.integer;
	}
	snprintf(text, sizeof(text), "%s of %u, exit code %d", status_name(status), source->rank,
		code);
	report("heard", text);
	(void)sem_post(&event_heard);
	cbfunc(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static size_t listen_to(pmix_status_t code)
{
	pmix_status_t r = PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL);

	if (r < 0)
		die("PMIx_Register_event_handler", r);
	return (size_t)r;
}

#define EVENT(n) (PMIX_EXTERNAL_ERR_BASE - (n))

static void notify(int n, pmix_data_range_t range)
{
	must(PMIx_Notify_event(EVENT(n), &me, range, NULL, 0, NULL, NULL), "PMIx_Notify_event");
}

/* Rank 0 notifies itself, its node, and all; a rank without its handler gets no event. */
static int verb_ranges(char **args)
{
	size_t handler;

	(void)args;
	if (me.rank != 0) {
		handler = listen_to(EVENT(31));
		must(PMIx_Deregister_event_handler(handler, NULL, NULL),
			"PMIx_Deregister_event_handler");
		listen_to(EVENT(32));
		listen_to(EVENT(33));
		listen_for(EVENT(34));
	}
	fence(false);
	if (me.rank == 0) {
		notify(31, PMIX_RANGE_GLOBAL);
		notify(32, PMIX_RANGE_PROC_LOCAL);
		notify(33, PMIX_RANGE_LOCAL);
		notify(34, PMIX_RANGE_GLOBAL);
	} else {
		await_event("ranges");
	}
	fence(false);
	return 0;
}

/* "ends CODE": the last rank ends with it, after PMIx_Finalize or ("lost CODE") without; the others
 * hear how. */
static int end_with(const char *code, bool finalize)
{
	static const pmix_status_t codes[] = {
		PMIX_ERR_EXIT_NONZERO_TERM, PMIX_ERR_PROC_TERM_WO_SYNC, PMIX_EVENT_PROC_TERMINATED};

	begin_sem(&event_heard);
	for (size_t i = 0; !is_last() && i < sizeof(codes) / sizeof(codes[0]); i++)
		listen_to(codes[i]);
	fence(false);
	if (is_last()) {
		if (finalize)
			must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
		_exit(atoi(code));
	}
	await_post(&event_heard);
	return 0;
}

static int verb_ends(char **args)
{
	return end_with(args[0], true);
}

static int verb_lost(char **args)
{
	return end_with(args[0], false);
}

/* ---- refused ---- */

struct pushed {
	sem_t is_answered;
	pmix_status_t status;
};

static void on_pushed(pmix_status_t status, void *cbdata)
{
	struct pushed *pushed = cbdata;

	pushed->status = status;
	(void)sem_post(&pushed->is_answered);
}

/* Where PMIx_IOF_push is left to wait by itself, libpmix 4.2 misses the answer now and then. */
static void refuse_streams(void)
{
	char text[] = "input";
	pmix_byte_object_t bytes = {.bytes = text, .size = sizeof(text)};
	struct pushed pushed;

	begin_sem(&pushed.is_answered);
	report_status("refused", "iof",
		PMIx_IOF_pull(&everybody, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, NULL, NULL, NULL));
	must(PMIx_IOF_push(&everybody, 1, &bytes, NULL, 0, on_pushed, &pushed), "PMIx_IOF_push");
	await_post(&pushed.is_answered);
	report_status("refused", "stdin", pushed.status);
}

static void refuse_credentials(void)
{
	char text[] = "me";
	pmix_byte_object_t credential = {.bytes = NULL, .size = 0},
			   made_up = {.bytes = text, .size = sizeof(text)};
	pmix_info_t *results = NULL;
	size_t n = 0;

	report_status("refused", "credential", PMIx_Get_credential(NULL, 0, &credential));
	report_status(
		"refused", "validation", PMIx_Validate_credential(&made_up, NULL, 0, &results, &n));
}

/* Operations that are not supported return that status. */
static int verb_refused(char **args)
{
	pmix_info_t info, *results = NULL;
	uint64_t nodes = 2;
	size_t n = 0;

	(void)args;
	PMIX_INFO_LOAD(&info, PMIX_ALLOC_NUM_NODES, &nodes, PMIX_UINT64);
	report_status("refused", "allocation",
		PMIx_Allocation_request(PMIX_ALLOC_NEW, &info, 1, &results, &n));
	refuse_streams();
	refuse_credentials();
	PMIX_INFO_LOAD(&info, PMIX_LOG_JOB_RECORD, "note", PMIX_STRING);
	report_status("refused", "record", PMIx_Log(&info, 1, NULL, 0));
	return 0;
}

/* ---- job control and spawn ---- */

/* "cleanup FILE": it is to be removed at the end; and that it may be preempted changes nothing. */
static int verb_cleanup(char **args)
{
	pmix_info_t info[2], *results = NULL;
	bool yes = true;
	size_t n = 0;

	PMIX_INFO_LOAD(&info[0], PMIX_REGISTER_CLEANUP, args[0], PMIX_STRING);
	report_status("cleanup", "file", PMIx_Job_control(&me, 1, info, 1, &results, &n));
	PMIX_INFO_LOAD(&info[1], PMIX_JOB_CTRL_PREEMPTIBLE, &yes, PMIX_BOOL);
	report_status("cleanup", "preemptible",
		PMIx_Job_control(&everybody, 1, info + 1, 1, &results, &n));
	return 0;
}

static pmix_status_t spawn(const char *what, const char *value, bool required)
{
	char nspace[PMIX_MAX_NSLEN + 1], *argv[4];
	char shell[] = "/bin/sh", option[] = "-c", script[] = "echo spawned in $PWD, WORD=$WORD";
	pmix_envar_t envar = {.separator = ':'};
	pmix_info_t info;
	pmix_app_t app;

	PMIX_APP_CONSTRUCT(&app);
	app.cmd = argv[0] = shell;
	argv[1] = option;
	argv[2] = script;
	argv[3] = NULL;
	app.argv = argv;
	app.maxprocs = 1;
	app.info = &info;
	app.ninfo = 1;
	if (strncmp(what, "env-", 4) == 0) {
		envar.envar = (char *)"WORD";
		envar.value = (char *)value;
		PMIX_INFO_LOAD(&info,
			strcmp(what, "env-set") == 0 ? PMIX_SET_ENVAR : PMIX_ADD_ENVAR, &envar,
			PMIX_ENVAR);
	} else {
		PMIX_INFO_LOAD(&info, what, value, PMIX_STRING);
	}
	if (required)
		PMIX_INFO_REQUIRED(&info);
	return PMIx_Spawn(NULL, 0, &app, 1, nspace);
}

/* "spawns KEY VALUE [required]": a shell that prints its directory and WORD; rank 0 requests it. */
static int verb_spawns(char **args)
{
	if (me.rank == 0)
		report_status("spawns", args[0], spawn(args[0], args[1], args[2] != NULL));
	fence(false);
	return 0;
}

const struct verb failure_verbs[] = {
	{"missed", verb_missed},
	{"awaited", verb_awaited},
	{"idle", verb_idle},
	{"orphan", verb_orphan},
	{"died", verb_died},
	{"left", verb_left},
	{"nobody", verb_nobody},
	{"unput", verb_unput},
	{"ranges", verb_ranges},
	{"ends", verb_ends},
	{"lost", verb_lost},
	{"refused", verb_refused},
	{"cleanup", verb_cleanup},
	{"spawns", verb_spawns},
	{NULL, NULL},
};
