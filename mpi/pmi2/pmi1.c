/* SPDX-License-Identifier: BSD-3-Clause
 *
 * PMI-1: a line a message. Its commands, and what each is answered.
 */
#include <string.h>

#include "mpi/pmi2/names.h"
#include "mpi/pmi2/pmi_impl.h"

#define MAPPING_KEY "PMI_process_mapping"

/* ---- beginning and end --------------------------------------------------------------------- */

static int run_init(struct ask *ask, const struct pmi_message *m)
{
	struct pmi_task *task = ask->task;
	int64_t version, subversion = 0;
	struct answer a;

	if (pmi_message_get_int(m, "pmi_version", 0, INT32_MAX, &version) < 0)
		return -EBADMSG;
	if (pmi_message_get_int(m, "pmi_subversion", 0, INT32_MAX, &subversion) < 0)
		subversion = 0;
	conn_restart(task, version == 2 ? PMI_2 : version == 1 ? PMI_1 : PMI_NONE);
	ask->epoch = task->epoch;
	if (version == 2)
		return pmi2_answer_init(task);
	answer_open(&a, ask);
	/* Of PMI-1 there are 1.0, 1.1 and 1.2; the lower of the client's and ours is spoken. */
	answer_int(&a, "pmi_version", version == 1 ? 1 : 2);
	answer_int(&a, "pmi_subversion",
		version == 1 && subversion < 2 ? subversion
			: version == 1         ? 2
					       : 0);
	answer_int(&a, "rc", version == 1 ? PMI_OK : PMI_FAIL);
	answer_close(&a);
	return 0;
}

/* The beginning over TCP; who it is was found out by who accepted the connection. */
static int run_initack(struct ask *ask, const struct pmi_message *m)
{
	struct pmi_task *task = ask->task;

	(void)m;
	bytes_addf(&task->out, "cmd=initack\ncmd=set size=%u\ncmd=set rank=%u\ncmd=set debug=0\n",
		task->space->size, task->rank);
	pmi_make_ready(task);
	return 0;
}

static int run_finalize(struct ask *ask, const struct pmi_message *m)
{
	struct pmi_task *task = ask->task;
	struct answer a;

	(void)m;
	answer_open(&a, ask);
	answer_close(&a);
	conn_restart(task, PMI_NONE);
	return 0;
}

static int run_abort1(struct ask *ask, const struct pmi_message *m)
{
	struct slice text = {"", 0};
	int64_t code;

	if (pmi_message_get_int(m, "exitcode", INT32_MIN, INT32_MAX, &code) < 0)
		code = 1;
	if (!pmi_message_get(m, "msg", &text))
		(void)pmi_message_get(m, "message", &text);
	return run_abort(ask, (int)code, text);
}

/* ---- what is known ------------------------------------------------------------------------- */

static int run_maxes(struct ask *ask, const struct pmi_message *m)
{
	struct answer a;

	(void)m;
	answer_open(&a, ask);
	answer_int(&a, "kvsname_max", PMI_NAME_MAX);
	answer_int(&a, "keylen_max", PMI_KEY_MAX);
	answer_int(&a, "vallen_max", PMI_VALUE_MAX);
	answer_close(&a);
	return 0;
}

static int answer_number(struct ask *ask, const char *key, uint32_t n)
{
	struct answer a;

	answer_open(&a, ask);
	answer_int(&a, key, n);
	answer_close(&a);
	return 0;
}

static int run_appnum(struct ask *ask, const struct pmi_message *m)
{
	(void)m;
	return answer_number(ask, "appnum", ask->task->appnum);
}

static int run_universe_size(struct ask *ask, const struct pmi_message *m)
{
	(void)m;
	return answer_number(ask, "size", ask->task->pmi->config.universe_size);
}

static int run_kvsname(struct ask *ask, const struct pmi_message *m)
{
	struct answer a;

	(void)m;
	answer_open(&a, ask);
	answer_text(&a, "kvsname", ask->task->space->name);
	answer_close(&a);
	return 0;
}

/* ---- keys and values ----------------------------------------------------------------------- */

static struct pmi_space *find_kvs(struct ask *ask, const struct pmi_message *m)
{
	struct pmi_space *space;
	struct slice name;

	if (!pmi_message_get(m, "kvsname", &name))
		return ask->task->space;
	space = pmi_find_space_by_name(ask->task->pmi, name);
	if (!space)
		answer_fail(ask, PMI_ARG, "kvsname '%.*s' is unknown",
			(int)(name.size < 100 ? name.size : 100), name.data);
	return space;
}

static int run_put(struct ask *ask, const struct pmi_message *m)
{
	struct pmi_space *space = find_kvs(ask, m);
	struct slice key = {"", 0}, value = {"", 0};

	if (!space)
		return 0;
	(void)pmi_message_get(m, "key", &key);
	if (!pmi_message_get(m, "value", &value)) {
		answer_fail(ask, PMI_VAL, "a value is missing");
		return 0;
	}
	if (space != ask->task->space)
		answer_fail(ask, PMI_ARG, "kvsname '%s' is not one's own", space->name);
	else if (slice_is(key, MAPPING_KEY))
		answer_fail(ask, PMI_KEY, "key '%s' is the server's", MAPPING_KEY);
	else if (value.size > PMI_VALUE_MAX)
		answer_fail(ask, PMI_VALLEN, "the value has %zu bytes, more than %u", value.size,
			PMI_VALUE_MAX);
	else if (put_is_allowed(ask, key, value)) {
		if (kvs_put(&space->kvs, ask->task->rank, key, value) < 0)
			answer_fail(ask, PMI_NOMEM, "there is no memory for it");
		else
			answer_ok(ask);
	}
	return 0;
}

/* Blanks are cut off by some clients and kept by others, but a line ends at its end. */
static bool fits_line(struct slice value)
{
	return value.size <= PMI_VALUE_MAX && !memchr(value.data, '\n', value.size) &&
		!memchr(value.data, '\0', value.size);
}

void answer_get(struct ask *ask, const struct slice *value)
{
	struct answer a;

	if (!value) {
		answer_fail(ask, PMI_KEY, "key_not_found");
		return;
	}
	if (!fits_line(*value)) {
		answer_fail(ask, PMI_VALLEN, "the value can't be told in PMI-1");
		return;
	}
	answer_open(&a, ask);
	answer_int(&a, "rc", PMI_OK);
	answer_text(&a, "msg", "success");
	answer_add(&a, "value", *value);
	answer_close(&a);
}

static int run_get(struct ask *ask, const struct pmi_message *m)
{
	static const char head[] = "cmd=get_result rc=0 msg=success value=\n";
	struct pmi_space *space = find_kvs(ask, m);
	struct slice key, value;

	if (!space)
		return 0;
	if (!pmi_message_get(m, "key", &key) || key.size == 0) {
		answer_fail(ask, PMI_KEY, "a key is missing");
		return 0;
	}
	if (slice_is(key, MAPPING_KEY)) {
		value = (struct slice){space->mapping, space->mapping ? strlen(space->mapping) : 0};
		/* One that the client could not read whole would be worse than none. */
		answer_get(ask,
			value.size > 0 && value.size + sizeof(head) <= PMI1_READ_MAX ? &value
										     : NULL);
	} else if (kvs_get(&space->kvs, key, &value)) {
		answer_get(ask, &value);
	} else if (!bitset_test(&space->node_set, ask->task->pmi->config.node)) {
		return remote_get(ask, space, key);
	} else {
		answer_get(ask, NULL);
	}
	return 0;
}

static int run_getbyidx(struct ask *ask, const struct pmi_message *m)
{
	struct pmi_space *space = find_kvs(ask, m);
	struct slice key, value;
	struct answer a;
	int64_t first;
	uint32_t index;
	bool found;

	if (!space)
		return 0;
	if (pmi_message_get_int(m, "idx", 0, UINT32_MAX, &first) < 0) {
		answer_fail(ask, PMI_ARG, "an idx is missing");
		return 0;
	}
	index = (uint32_t)first;
	while ((found = kvs_next(&space->kvs, &index, &key, &value)) &&
		(!fits_line(key) || !fits_line(value)))
		index++; /* what only PMI-2 can tell */
	answer_open(&a, ask);
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

static int run_barrier(struct ask *ask, const struct pmi_message *m)
{
	struct slice group;

	return fence_run(ask, pmi_message_get(m, "group", &group) ? &group : NULL);
}

/* ---- lines --------------------------------------------------------------------------------- */

static const struct command commands[] = {
	{"init", "response_to_init", run_init, true},
	{"initack", NULL, run_initack, true},
	{"finalize", "finalize_ack", run_finalize, false},
	{"abort", NULL, run_abort1, true},
	{"get_maxes", "maxes", run_maxes, false},
	{"get_appnum", "appnum", run_appnum, false},
	{"get_universe_size", "universe_size", run_universe_size, false},
	{"get_my_kvsname", "my_kvsname", run_kvsname, false},
	{"put", "put_result", run_put, false},
	{"get", "get_result", run_get, false},
	{"getbyidx", "getbyidx_results", run_getbyidx, false},
	{"barrier_in", "barrier_out", run_barrier, false},
	{"publish_name", "publish_result", name_publish, false},
	{"unpublish_name", "unpublish_result", name_unpublish, false},
	{"lookup_name", "lookup_result", name_lookup, false},
};

int pmi1_run_line(struct pmi_task *task, struct slice line)
{
	struct ask ask = {.task = task, .epoch = task->epoch, .protocol = PMI_1};
	struct pmi_message *m = &task->pmi->message;
	const struct command *command;
	struct slice name;
	int r;

	if (task->in_block || (line.size >= 5 && memcmp(line.data, "mcmd=", 5) == 0))
		return spawn1_run_line(task, line);
	r = pmi1_parse(line, m);
	if (r < 0)
		return r;
	if (task->block.size > 0 || !slice_is(m->fields[0].key, "cmd"))
		return -EBADMSG;
	name = m->fields[0].value;
	command = command_find(commands, ARRAY_SIZE(commands), name);
	if (command && command->answer)
		(void)snprintf(ask.answer, sizeof(ask.answer), "%s", command->answer);
	else
		(void)snprintf(ask.answer, sizeof(ask.answer), "%.*s_result",
			(int)(name.size < 40 ? name.size : 40), name.data);
	if (!command)
		answer_fail(&ask, PMI_OTHER, "unknown_command");
	else if (task->protocol != PMI_1 && !command->before_init)
		answer_fail(&ask, PMI_INIT, "init comes first");
	else
		return command->run(&ask, m);
	return 0;
}
