/* SPDX-License-Identifier: BSD-3-Clause
 *
 * PMI-2: after a line of PMI-1's kind, messages with their length before them. Its commands, and
 * what each is answered: COMMAND-response, with the thread's id if it sent one.
 */
#include <string.h>

#include "mpi/pmi2/names.h"
#include "mpi/pmi2/pmi_impl.h"
#include "mpi/pmi2/spawn.h"

int pmi2_answer_init(struct pmi_task *task)
{
	bytes_add_text(&task->out, "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n");
	pmi_make_ready(task);
	return 0;
}

static int run_fullinit(struct ask *ask, const struct pmi_message *m)
{
	struct pmi_task *task = ask->task;
	struct pmi_space *parent = NULL, *space;
	struct answer a;

	(void)m; /* rank and job are the descriptor's, whatever it says */
	TAILQ_FOREACH(space, &task->pmi->spaces, link)
	{
		if (task->space->parent >= space->first_rank &&
			task->space->parent - space->first_rank < space->size)
			parent = space;
	}
	answer_open(&a, ask);
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

static int run_finalize(struct ask *ask, const struct pmi_message *m)
{
	(void)m;
	answer_ok(ask);
	conn_restart(ask->task, PMI_NONE);
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

static int run_abort2(struct ask *ask, const struct pmi_message *m)
{
	struct slice text = {"", 0}, world = {"", 0};

	(void)pmi_message_get(m, "msg", &text);
	(void)pmi_message_get(m, "isworld", &world);
	if (slice_is(world, "FALSE")) {
		ask->task->gave_up = true;
		pmi_log(ask->task->pmi, LOG_LEVEL_INFO, "%s: rank %u gives up by itself: %.*s",
			ask->task->space->name, ask->task->rank,
			(int)(text.size < 500 ? text.size : 500), text.data);
		return 0;
	}
	return run_abort(ask, find_exit_code(text), text);
}

/* ---- jobs ---------------------------------------------------------------------------------- */

static int run_job_getid(struct ask *ask, const struct pmi_message *m)
{
	struct answer a;

	(void)m;
	answer_open(&a, ask);
	answer_int(&a, "rc", PMI_OK);
	answer_text(&a, "jobid", ask->task->space->name);
	answer_close(&a);
	return 0;
}

/* The space that jobid names; its own without one. NULL: it is answered. */
static struct pmi_space *find_job(struct ask *ask, const struct pmi_message *m)
{
	struct pmi_space *space;
	struct slice name;

	if (!pmi_message_get(m, "jobid", &name) || name.size == 0)
		return ask->task->space;
	space = pmi_find_space_by_name(ask->task->pmi, name);
	if (!space)
		answer_fail(ask, PMI_ARG, "jobid '%.*s' is unknown in this step",
			(int)(name.size < 100 ? name.size : 100), name.data);
	return space;
}

static int run_job_connect(struct ask *ask, const struct pmi_message *m)
{
	struct answer a;

	if (!find_job(ask, m))
		return 0;
	answer_open(&a, ask);
	answer_int(&a, "rc", PMI_OK);
	answer_text(&a, "kvscopy", "FALSE"); /* kvs-get reads it by its jobid */
	answer_close(&a);
	return 0;
}

static int run_job_disconnect(struct ask *ask, const struct pmi_message *m)
{
	if (find_job(ask, m))
		answer_ok(ask);
	return 0;
}

/* ---- keys and values ----------------------------------------------------------------------- */

static int run_put(struct ask *ask, const struct pmi_message *m)
{
	struct slice key = {"", 0}, value = {"", 0};

	(void)pmi_message_get(m, "key", &key);
	(void)pmi_message_get(m, "value", &value);
	if (!put_is_allowed(ask, key, value))
		return 0;
	if (kvs_put(&ask->task->space->kvs, ask->task->rank, key, value) < 0)
		answer_fail(ask, PMI_NOMEM, "there is no memory for it");
	else
		answer_ok(ask);
	return 0;
}

static int run_get(struct ask *ask, const struct pmi_message *m)
{
	struct pmi_space *space = find_job(ask, m);
	struct slice key, value;

	if (!space)
		return 0;
	if (!pmi_message_get(m, "key", &key) || key.size == 0)
		answer_fail(ask, PMI_KEY, "a key is missing");
	else if (kvs_get(&space->kvs, key, &value))
		answer_value(ask, &value);
	else if (!bitset_test(&space->node_set, ask->task->pmi->config.node))
		return remote_get(ask, space, key);
	else
		answer_value(ask, NULL);
	return 0;
}

static int run_fence(struct ask *ask, const struct pmi_message *m)
{
	(void)m;
	return fence_run(ask, NULL);
}

/* ---- messages ------------------------------------------------------------------------------ */

static const struct command commands[] = {
	{"fullinit", "fullinit-response", run_fullinit, true},
	{"finalize", "finalize-response", run_finalize, false},
	{"abort", NULL, run_abort2, true},
	{"job-getid", "job-getid-response", run_job_getid, false},
	{"job-connect", "job-connect-response", run_job_connect, false},
	{"job-disconnect", "job-disconnect-response", run_job_disconnect, false},
	{"kvs-put", "kvs-put-response", run_put, false},
	{"kvs-get", "kvs-get-response", run_get, false},
	{"kvs-fence", "kvs-fence-response", run_fence, false},
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
	struct ask ask = {.task = task, .epoch = task->epoch, .protocol = PMI_2};
	struct pmi_message *m = &task->pmi->message;
	const struct command *command;
	struct slice name, thrid = {"", 0};
	int r;

	r = pmi2_parse(body, size, m);
	if (r < 0)
		return r;
	(void)pmi_message_get(m, "thrid", &thrid);
	if (!slice_is(m->fields[0].key, "cmd") || thrid.size >= sizeof(ask.thrid))
		return -EBADMSG;
	name = m->fields[0].value;
	(void)snprintf(ask.thrid, sizeof(ask.thrid), "%.*s", (int)thrid.size, thrid.data);
	(void)snprintf(ask.answer, sizeof(ask.answer), "%.*s-response",
		(int)(name.size < 40 ? name.size : 40), name.data);
	/* Some clients begin with the first message of this kind. */
	if (task->protocol == PMI_NONE) {
		conn_restart(task, PMI_2);
		ask.epoch = task->epoch;
	}
	command = command_find(commands, ARRAY_SIZE(commands), name);
	if (command)
		return command->run(&ask, m);
	answer_fail(&ask, PMI_OTHER, "unknown command");
	return 0;
}
