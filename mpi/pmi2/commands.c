/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The commands of PMI-1 and PMI-2, and what each is answered.
 */
#include <string.h>

#include "mpi/pmi2/pmi_impl.h"

/* So that an answer with it fits into a message, whatever else it has. */
#define VALUE_ESCAPED_MAX (PMI2_BODY_MAX - 1024u)

struct command {
	const char *name;
	const char *answer; /* its name; NULL: none */
	int (*run)(struct request *request, const struct pmi_message *m);
	bool before_init;
};

/* NULL: there is none of this name. */
static const struct command *command_find(
	const struct command *table, size_t count, struct slice name)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (slice_is(name, table[i].name))
			return &table[i];
	}
	return NULL;
}

bool put_is_allowed(struct request *request, struct slice key, struct slice value)
{
	if (key.size == 0)
		answer_fail(request, PMI_KEY, "a key is missing");
	else if (key.size > PMI_KEY_MAX)
		answer_fail(request, PMI_KEYLEN, "the key has %zu bytes, more than %u", key.size,
			PMI_KEY_MAX);
	else if (pmi2_escaped_size(value) > VALUE_ESCAPED_MAX)
		answer_fail(request, PMI_VALLEN, "the value has %zu bytes, more than %u",
			value.size, VALUE_ESCAPED_MAX);
	else
		return true;
	return false;
}

/* The space that a field names; its own without one. NULL: it is answered. */
static struct pmi_space *find_named_space(
	struct request *request, const struct pmi_message *m, const char *field)
{
	struct pmi_space *space;
	struct slice name;

	if (!pmi_message_get(m, field, &name) || (name.size == 0 && request->protocol == PMI_2))
		return request->task->space;
	space = pmi_find_space_by_name(request->task->pmi, name);
	if (!space)
		answer_fail(request, PMI_ARG, "%s '%.*s' is unknown in this step", field,
			(int)(name.size < 100 ? name.size : 100), name.data);
	return space;
}

bool get_key(struct request *request, const struct pmi_message *m, struct slice *ret_key)
{
	if (pmi_message_get(m, "key", ret_key) && ret_key->size > 0)
		return true;
	answer_fail(request, PMI_KEY, "a key is missing");
	return false;
}

/* Into the task's own space. */
static void space_put(struct request *request, struct slice key, struct slice value)
{
	if (!put_is_allowed(request, key, value))
		return;
	if (kvs_put(&request->task->space->kvs, request->task->rank, key, value) < 0)
		answer_fail(request, PMI_NOMEM, "there is no memory for it");
	else
		answer_ok(request);
}

static int get(struct request *request, struct pmi_space *space, struct slice key)
{
	struct slice value;

	if (kvs_get(&space->kvs, key, &value))
		answer_value(request, &value);
	else if (!bitset_test(&space->node_set, request->task->pmi->config.node))
		return remote_get(request, space, key);
	else
		answer_value(request, NULL);
	return 0;
}

static int run_abort(struct request *request, int code, struct slice text)
{
	struct pmi_task *task = request->task;
	struct pmi *pmi = task->pmi;
	char sentence[800], of[32] = "";
	int status = code & 0xff;

	while (text.size > 0 && text.data[text.size - 1] == '\n')
		text.size--;
	if (task->space->number > 0)
		(void)snprintf(of, sizeof(of), " of spawn %u", task->space->number);
	(void)snprintf(sentence, sizeof(sentence),
		"rank %u%s called MPI_Abort() with code %d%s%.*s", task->rank, of, code,
		text.size > 0 ? ": " : "", (int)(text.size < 600 ? text.size : 600), text.data);
	/* A failure must not become a success by being cut to eight bits. */
	if (status == 0 && code != 0)
		status = 1;
	/* The manager ends the step on all nodes, this one among them. */
	if (!pmi->config.manager || !managed_abort(pmi, status, sentence))
		serve_abort(pmi->config.serve, status, sentence);
	return 0;
}

/* ==== PMI-1 ==================================================================================
 *
 * PMI-1: a line a message. Its commands, and what each is answered.
 */

#define MAPPING_KEY "PMI_process_mapping"

/* ---- beginning and end --------------------------------------------------------------------- */

/* PMI-2 begins with a line of PMI-1's kind. */
static int pmi1_answer_init2(struct request *request)
{
	struct answer a;

	answer_open(&a, request);
	answer_int(&a, "rc", PMI_OK);
	answer_int(&a, "pmi_version", 2);
	answer_int(&a, "pmi_subversion", 0);
	answer_close(&a);
	return 0;
}

static int pmi1_run_init(struct request *request, const struct pmi_message *m)
{
	struct pmi_task *task = request->task;
	int64_t version, subversion = 0;
	struct answer a;

	if (pmi_message_get_int(m, "pmi_version", 0, INT32_MAX, &version) < 0)
		return -EBADMSG;
	if (pmi_message_get_int(m, "pmi_subversion", 0, INT32_MAX, &subversion) < 0)
		subversion = 0;
	conn_restart(task, version == 2 ? PMI_2 : version == 1 ? PMI_1 : PMI_NONE);
	request->epoch = task->epoch;
	if (version == 2)
		return pmi1_answer_init2(request);
	answer_open(&a, request);
	/* Of PMI-1 there are 1.0, 1.1 and 1.2; the lower of the client's and ours is used. */
	answer_int(&a, "pmi_version", version == 1 ? 1 : 2);
	answer_int(&a, "pmi_subversion",
		version == 1 && subversion < 2 ? subversion
			: version == 1         ? 2
					       : 0);
	answer_int(&a, "rc", version == 1 ? PMI_OK : PMI_FAIL);
	answer_close(&a);
	return 0;
}

/* The beginning over TCP; pmi2.c has identified the task. */
static int run_initack(struct request *request, _unused_ const struct pmi_message *m)
{
	struct pmi_task *task = request->task;

	bytes_addf(&task->out, "cmd=initack\ncmd=set size=%u\ncmd=set rank=%u\ncmd=set debug=0\n",
		task->space->size, task->rank);
	pmi_make_ready(task);
	return 0;
}

static int pmi1_run_finalize(struct request *request, _unused_ const struct pmi_message *m)
{
	struct pmi_task *task = request->task;
	struct answer a;

	answer_open(&a, request);
	answer_close(&a);
	conn_restart(task, PMI_NONE);
	return 0;
}

static int pmi1_run_abort(struct request *request, const struct pmi_message *m)
{
	struct slice text = {"", 0};
	int64_t code;

	if (pmi_message_get_int(m, "exitcode", INT32_MIN, INT32_MAX, &code) < 0)
		code = 1;
	if (!pmi_message_get(m, "msg", &text))
		(void)pmi_message_get(m, "message", &text);
	return run_abort(request, (int)code, text);
}

/* ---- what is known ------------------------------------------------------------------------- */

static int run_maxes(struct request *request, _unused_ const struct pmi_message *m)
{
	struct answer a;

	answer_open(&a, request);
	answer_int(&a, "kvsname_max", PMI_NAME_MAX);
	answer_int(&a, "keylen_max", PMI_KEY_MAX);
	answer_int(&a, "vallen_max", PMI_VALUE_MAX);
	answer_close(&a);
	return 0;
}

static int pmi1_answer_number(struct request *request, const char *key, uint32_t n)
{
	struct answer a;

	answer_open(&a, request);
	answer_int(&a, key, n);
	answer_close(&a);
	return 0;
}

static int run_appnum(struct request *request, _unused_ const struct pmi_message *m)
{
	return pmi1_answer_number(request, "appnum", request->task->appnum);
}

static int run_universe_size(struct request *request, _unused_ const struct pmi_message *m)
{
	return pmi1_answer_number(request, "size", request->task->pmi->config.universe_size);
}

static int run_kvsname(struct request *request, _unused_ const struct pmi_message *m)
{
	struct answer a;

	answer_open(&a, request);
	answer_text(&a, "kvsname", request->task->space->name);
	answer_close(&a);
	return 0;
}

/* ---- keys and values ----------------------------------------------------------------------- */

static int pmi1_run_put(struct request *request, const struct pmi_message *m)
{
	struct pmi_space *space = find_named_space(request, m, "kvsname");
	struct slice key = {"", 0}, value = {"", 0};

	if (!space)
		return 0;
	(void)pmi_message_get(m, "key", &key);
	if (!pmi_message_get(m, "value", &value)) {
		answer_fail(request, PMI_VAL, "a value is missing");
		return 0;
	}
	if (space != request->task->space)
		answer_fail(request, PMI_ARG, "kvsname '%s' is not the task's own", space->name);
	else if (slice_is(key, MAPPING_KEY))
		answer_fail(request, PMI_KEY, "key '%s' is the server's", MAPPING_KEY);
	else if (value.size > PMI_VALUE_MAX)
		answer_fail(request, PMI_VALLEN, "the value has %zu bytes, more than %u",
			value.size, PMI_VALUE_MAX);
	else
		space_put(request, key, value);
	return 0;
}

/* Some clients cut blanks off, others do not; but a line ends at its newline. */
static bool fits_line(struct slice value)
{
	return value.size <= PMI_VALUE_MAX && !memchr(value.data, '\n', value.size) &&
		!memchr(value.data, '\0', value.size);
}

static void pmi1_answer_value(struct request *request, const struct slice *value)
{
	struct answer a;

	if (!value) {
		answer_fail(request, PMI_KEY, "key_not_found");
		return;
	}
	if (!fits_line(*value)) {
		answer_fail(request, PMI_VALLEN, "the value can't be sent in PMI-1");
		return;
	}
	answer_open(&a, request);
	answer_int(&a, "rc", PMI_OK);
	answer_text(&a, "msg", "success");
	answer_add(&a, "value", *value);
	answer_close(&a);
}

void answer_value(struct request *request, const struct slice *value)
{
	struct answer a;

	if (request->protocol == PMI_1) {
		pmi1_answer_value(request, value);
		return;
	}
	answer_open(&a, request);
	answer_int(&a, "rc", PMI_OK);
	answer_text(&a, "found", value ? "TRUE" : "FALSE");
	if (value)
		answer_add(&a, "value", *value);
	answer_close(&a);
}

static int pmi1_run_get(struct request *request, const struct pmi_message *m)
{
	static const char head[] = "cmd=get_result rc=0 msg=success value=\n";
	struct pmi_space *space = find_named_space(request, m, "kvsname");
	struct slice key, value;

	if (!space)
		return 0;
	if (!get_key(request, m, &key))
		return 0;
	if (!slice_is(key, MAPPING_KEY))
		return get(request, space, key);
	value = (struct slice){space->mapping, space->mapping ? strlen(space->mapping) : 0};
	/* No answer is better than one that the client can't read whole. */
	answer_value(request,
		value.size > 0 && value.size + sizeof(head) <= PMI1_READ_MAX ? &value : NULL);
	return 0;
}

static int run_getbyidx(struct request *request, const struct pmi_message *m)
{
	struct pmi_space *space = find_named_space(request, m, "kvsname");
	struct slice key, value;
	struct answer a;
	int64_t first;
	uint32_t index;
	bool found;

	if (!space)
		return 0;
	if (pmi_message_get_int(m, "idx", 0, UINT32_MAX, &first) < 0) {
		answer_fail(request, PMI_ARG, "an idx is missing");
		return 0;
	}
	index = (uint32_t)first;
	while ((found = kvs_next(&space->kvs, &index, &key, &value)) &&
		(!fits_line(key) || !fits_line(value)))
		index++; /* what only PMI-2 can send */
	answer_open(&a, request);
	answer_int(&a, "rc", found ? 0 : -2);
	if (found) {
		answer_int(&a, "nextidx", (int64_t)index + 1);
		answer_add(&a, "key", key);
		answer_add(&a, "val", value);
	} else {
		answer_text(&a, "reason", "no_more_keyvals");
	}
	answer_close(&a);
	return 0;
}

static int run_barrier(struct request *request, const struct pmi_message *m)
{
	struct slice group;

	return fence_run(request, pmi_message_get(m, "group", &group) ? &group : NULL);
}

/* ---- lines --------------------------------------------------------------------------------- */

static const struct command pmi1_commands[] = {
	{"init", "response_to_init", pmi1_run_init, true},
	{"initack", NULL, run_initack, true},
	{"finalize", "finalize_ack", pmi1_run_finalize, false},
	{"abort", NULL, pmi1_run_abort, true},
	{"get_maxes", "maxes", run_maxes, false},
	{"get_appnum", "appnum", run_appnum, false},
	{"get_universe_size", "universe_size", run_universe_size, false},
	{"get_my_kvsname", "my_kvsname", run_kvsname, false},
	{"put", "put_result", pmi1_run_put, false},
	{"get", "get_result", pmi1_run_get, false},
	{"getbyidx", "getbyidx_results", run_getbyidx, false},
	{"barrier_in", "barrier_out", run_barrier, false},
	{"publish_name", "publish_result", name_publish, false},
	{"unpublish_name", "unpublish_result", name_unpublish, false},
	{"lookup_name", "lookup_result", name_lookup, false},
};

int pmi1_run_line(struct pmi_task *task, struct slice line)
{
	struct request request = {.task = task, .epoch = task->epoch, .protocol = PMI_1};
	struct pmi_message *m = &task->pmi->message;
	const struct command *command;
	struct slice name;
	int r;

	if (task->in_block || (line.size >= 5 && memcmp(line.data, "mcmd=", 5) == 0))
		return spawn1_run_line(task, line);
	r = pmi1_parse(line, m);
	if (r < 0)
		return r;
	if (bytes_size(&task->block) > 0 || !slice_is(m->fields[0].key, "cmd"))
		return -EBADMSG;
	name = m->fields[0].value;
	command = command_find(pmi1_commands, ARRAY_SIZE(pmi1_commands), name);
	if (command && command->answer)
		(void)snprintf(request.answer, sizeof(request.answer), "%s", command->answer);
	else
		(void)snprintf(request.answer, sizeof(request.answer), "%.*s_result",
			(int)(name.size < 40 ? name.size : 40), name.data);
	if (!command)
		answer_fail(&request, PMI_OTHER, "unknown_command");
	else if (task->protocol != PMI_1 && !command->before_init)
		answer_fail(&request, PMI_INIT, "init comes first");
	else
		return command->run(&request, m);
	return 0;
}

/* ==== PMI-2 ==================================================================================
 *
 * PMI-2: after a line of PMI-1's kind, messages with their length before them. Its commands, and
 * what each is answered: COMMAND-response, with the thread's id if it sent one.
 */

static int pmi2_run_fullinit(struct request *request, const struct pmi_message *m)
{
	struct pmi_task *task = request->task;
	struct pmi_space *parent = NULL, *space;
	struct answer a;

	(void)m; /* rank and job are the descriptor's, not the message's */
	TAILQ_FOREACH(space, &task->pmi->spaces, link)
	{
		if (task->space->parent >= space->first_rank &&
			task->space->parent - space->first_rank < space->size)
			parent = space;
	}
	answer_open(&a, request);
	answer_int(&a, "rc", PMI_OK);
	answer_int(&a, "pmi-version", 2);
	answer_int(&a, "pmi-subversion", 0);
	answer_int(&a, "rank", task->rank);
	answer_int(&a, "size", task->space->size);
	answer_int(&a, "appnum", task->appnum);
	if (task->space->number > 0 && parent)
		answer_text(&a, "spawner-jobid", parent->name);
	answer_text(&a, "debugged", "FALSE");
	answer_text(&a, "pmiverbose", "FALSE");
	answer_close(&a);
	return 0;
}

static int pmi2_run_finalize(struct request *request, _unused_ const struct pmi_message *m)
{
	answer_ok(request);
	conn_restart(request->task, PMI_NONE);
	return 0;
}

/* The exit status that the program has given stands in the text of MPICH's clients alone:
 * "application called MPI_Abort(MPI_COMM_WORLD, 7) - process 0". */
static int find_exit_code(struct slice text)
{
	static const char call[] = "MPI_Abort(";
	const char *at = memmem(text.data, text.size, call, sizeof(call) - 1), *end;
	struct slice digits;
	int64_t code;

	end = at ? memchr(at, ')', text.size - (size_t)(at - text.data)) : NULL;
	at = end ? memrchr(at, ',', (size_t)(end - at)) : NULL;
	if (!at)
		return 1;
	for (at++; at < end && *at == ' '; at++)
		;
	digits = (struct slice){at, (size_t)(end - at)};
	return slice_parse_int(digits, INT32_MIN, INT32_MAX, &code) < 0 ? 1 : (int)code;
}

static int pmi2_run_abort(struct request *request, const struct pmi_message *m)
{
	struct slice text = {"", 0}, world = {"", 0};

	(void)pmi_message_get(m, "msg", &text);
	(void)pmi_message_get(m, "isworld", &world);
	if (slice_is(world, "FALSE")) {
		request->task->has_aborted = true;
		serve_log(request->task->pmi->config.serve, LOG_LEVEL_INFO,
			"%s: rank %u aborts itself alone: %.*s", request->task->space->name,
			request->task->rank, (int)(text.size < 500 ? text.size : 500), text.data);
		return 0;
	}
	return run_abort(request, find_exit_code(text), text);
}

/* ---- jobs ---------------------------------------------------------------------------------- */

static int run_job_getid(struct request *request, _unused_ const struct pmi_message *m)
{
	struct answer a;

	answer_open(&a, request);
	answer_int(&a, "rc", PMI_OK);
	answer_text(&a, "jobid", request->task->space->name);
	answer_close(&a);
	return 0;
}

static int run_job_connect(struct request *request, const struct pmi_message *m)
{
	struct answer a;

	if (!find_named_space(request, m, "jobid"))
		return 0;
	answer_open(&a, request);
	answer_int(&a, "rc", PMI_OK);
	answer_text(&a, "kvscopy", "FALSE"); /* kvs-get reads it by its jobid */
	answer_close(&a);
	return 0;
}

static int run_job_disconnect(struct request *request, const struct pmi_message *m)
{
	if (find_named_space(request, m, "jobid"))
		answer_ok(request);
	return 0;
}

/* ---- keys and values ----------------------------------------------------------------------- */

static int pmi2_run_put(struct request *request, const struct pmi_message *m)
{
	struct slice key = {"", 0}, value = {"", 0};

	(void)pmi_message_get(m, "key", &key);
	(void)pmi_message_get(m, "value", &value);
	space_put(request, key, value);
	return 0;
}

static int pmi2_run_get(struct request *request, const struct pmi_message *m)
{
	struct pmi_space *space = find_named_space(request, m, "jobid");
	struct slice key;

	return space && get_key(request, m, &key) ? get(request, space, key) : 0;
}

static int pmi2_run_fence(struct request *request, _unused_ const struct pmi_message *m)
{
	return fence_run(request, NULL);
}

/* ---- messages ------------------------------------------------------------------------------ */

static const struct command pmi2_commands[] = {
	{"fullinit", "fullinit-response", pmi2_run_fullinit, true},
	{"finalize", "finalize-response", pmi2_run_finalize, false},
	{"abort", NULL, pmi2_run_abort, true},
	{"job-getid", "job-getid-response", run_job_getid, false},
	{"job-connect", "job-connect-response", run_job_connect, false},
	{"job-disconnect", "job-disconnect-response", run_job_disconnect, false},
	{"kvs-put", "kvs-put-response", pmi2_run_put, false},
	{"kvs-get", "kvs-get-response", pmi2_run_get, false},
	{"kvs-fence", "kvs-fence-response", pmi2_run_fence, false},
	{"info-getjobattr", "info-getjobattr-response", attr_get_job, false},
	{"info-putnodeattr", "info-putnodeattr-response", attr_put_node, false},
	{"info-getnodeattr", "info-getnodeattr-response", attr_get_node, false},
	{"name-publish", "name-publish-response", name_publish, false},
	{"name-unpublish", "name-unpublish-response", name_unpublish, false},
	{"name-lookup", "name-lookup-response", name_lookup, false},
	{"spawn", "spawn-response", spawn2_run, false},
	{"ring", "ring-response", ring_run, false},
};

int pmi2_run_body(struct pmi_task *task, char *body, size_t size)
{
	struct request request = {.task = task, .epoch = task->epoch, .protocol = PMI_2};
	struct pmi_message *m = &task->pmi->message;
	const struct command *command;
	struct slice name, thrid = {"", 0};
	int r;

	r = pmi2_parse(body, size, m);
	if (r < 0)
		return r;
	(void)pmi_message_get(m, "thrid", &thrid);
	if (!slice_is(m->fields[0].key, "cmd") || thrid.size >= sizeof(request.thrid))
		return -EBADMSG;
	name = m->fields[0].value;
	(void)snprintf(request.thrid, sizeof(request.thrid), "%.*s", (int)thrid.size, thrid.data);
	(void)snprintf(request.answer, sizeof(request.answer), "%.*s-response",
		(int)(name.size < 40 ? name.size : 40), name.data);
	/* Some clients begin with the first message of this kind. */
	if (task->protocol == PMI_NONE) {
		conn_restart(task, PMI_2);
		request.epoch = task->epoch;
	}
	command = command_find(pmi2_commands, ARRAY_SIZE(pmi2_commands), name);
	if (command)
		return command->run(&request, m);
	answer_fail(&request, PMI_OTHER, "unknown command");
	return 0;
}
