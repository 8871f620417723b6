/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A spawn on the node that asks for it: what it is goes to node 0, and the end of it comes back.
 */
#include <string.h>

#include "mpi/serve/spawning_impl.h"

struct spawning_ask {
	struct spawning_ask *next;
	uint64_t token;
	spawn_done_fn done;
	void *userdata;
};

/* ---- to node 0 ------------------------------------------------------------------------------ */

/* NULL: no memory, or a text that is no UTF-8. */
static json_t *pack_texts(char *const *texts)
{
	json_t *array = json_array();

	for (; array && texts && *texts; texts++) {
		if (json_array_append_new(array, json_string(*texts)) < 0) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

static int find_node(const stepd_step_rec_t *job, const char *name, uint32_t *ret_node)
{
	uint32_t i;

	for (i = 0; job->node_names && i < job->nnodes; i++) {
		if (strcmp(job->node_names[i], name) == 0) {
			*ret_node = i;
			return 0;
		}
	}
	return -ENOENT;
}

/* In the order of the nodes, each once. */
static int pack_hosts(
	const stepd_step_rec_t *job, const char *const *hosts, json_t *array, struct err *err)
{
	_cleanup_free_ bool *chosen = calloc(job->nnodes + 1u, sizeof(*chosen));
	uint32_t node, i;
	int r = chosen ? 0 : -ENOMEM;

	for (; r == 0 && hosts && *hosts; hosts++) {
		if (find_node(job, *hosts, &node) < 0)
			return err_say(
				err, -ENOENT, "spawn: '%.100s' is no node of the step", *hosts);
		chosen[node] = true;
	}
	for (i = 0; r == 0 && i < job->nnodes; i++) {
		if (chosen[i])
			r = json_array_append_new(array, json_integer(i)) < 0 ? -ENOMEM : 0;
	}
	return r < 0 ? err_set(err, r, "spawn") : 0;
}

static json_t *pack_command(
	const stepd_step_rec_t *job, const struct spawn_command *command, struct err *err)
{
	json_t *hosts = json_array(), *object;

	if (pack_hosts(job, command->hosts, hosts, err) < 0) {
		json_decref(hosts);
		return NULL;
	}
	object = json_pack("{s:o, s:I, s:s?, s:o, s:o}", "argv", pack_texts(command->argv), "count",
		(json_int_t)command->count, "cwd", command->cwd, "env", pack_texts(command->env),
		"hosts", hosts);
	if (!object)
		(void)err_say(
			err, -EILSEQ, "spawn: arguments, environment and directory must be UTF-8");
	return object;
}

static int check(const struct spawn_request *request, struct err *err)
{
	uint64_t size = 0;
	size_t i;

	for (i = 0; i < request->count; i++) {
		if (!request->commands[i].argv || !request->commands[i].argv[0] ||
			!request->commands[i].argv[0][0])
			return err_say(err, -EINVAL, "spawn: command %zu names no program", i);
		if (request->commands[i].count == 0)
			return err_say(err, -EINVAL, "spawn: command %zu is for no task", i);
		size += request->commands[i].count;
	}
	if (request->count == 0)
		return err_say(err, -EINVAL, "spawn: there is no command");
	if (size > SPAWNING_SIZE_MAX)
		return err_say(err, -E2BIG, "a spawn can have %u tasks, and this one has %llu",
			SPAWNING_SIZE_MAX, (unsigned long long)size);
	return request->size > SPAWNING_BYTES_MAX
		? err_say(err, -E2BIG, "a spawn can have %u bytes of data", SPAWNING_BYTES_MAX)
		: 0;
}

static int send_request(struct spawning *sp, uint64_t token, uint32_t parent,
	const struct spawn_request *request, struct err *err)
{
	json_t *commands = json_array(), *command;
	size_t i;

	for (i = 0; i < request->count; i++) {
		command = pack_command(serve_get_job(sp->serve), &request->commands[i], err);
		if (json_array_append_new(commands, command) < 0) {
			json_decref(commands);
			return command ? err_set(err, -ENOMEM, "spawn") : err->code;
		}
	}
	return spawning_send_take(sp, 0, SPAWNING_ASK,
		json_pack("{s:I, s:I, s:o}", "token", (json_int_t)token, "parent",
			(json_int_t)parent, "commands", commands),
		request->data, request->size, err);
}

int spawn_start(struct serve *s, uint32_t parent, const struct spawn_request *request,
	spawn_done_fn done, void *userdata, struct err *err)
{
	struct err own = ERR_INIT;
	struct spawning *sp = s->spawning;
	struct spawning_ask *ask;
	int r;

	err = err ? err : &own;
	r = check(request, err);
	if (r < 0)
		return r;
	ask = calloc(1, sizeof(*ask));
	if (!ask)
		return err_set(err, -ENOMEM, "spawn");
	*ask = (struct spawning_ask){
		.next = sp->asks, .token = ++sp->last_token, .done = done, .userdata = userdata};
	r = send_request(sp, ask->token, parent, request, err);
	if (r < 0) {
		free(ask);
		return r;
	}
	sp->asks = ask;
	return 0;
}

/* ---- and back ------------------------------------------------------------------------------- */

static struct spawning_ask *take_ask(struct spawning *sp, uint64_t token)
{
	struct spawning_ask **at = &sp->asks, *ask;

	while (*at && (*at)->token != token)
		at = &(*at)->next;
	ask = *at;
	if (ask)
		*at = ask->next;
	return ask;
}

/* NULL: there are none, or no memory. */
static int *read_errcodes(const json_t *array, uint32_t size)
{
	int *codes = json_array_size(array) == size ? calloc(size + 1u, sizeof(*codes)) : NULL;
	uint32_t i;

	for (i = 0; codes && i < size; i++)
		codes[i] = (int)json_integer_value(json_array_get(array, i));
	return codes;
}

void spawning_ask_done(struct spawning *sp, const struct spawning_message *m)
{
	json_int_t token = json_integer_value(json_object_get(m->object, "token"));
	struct spawning_ask *ask = take_ask(sp, (uint64_t)token);
	_cleanup_free_ int *codes = NULL;
	uint32_t number = 0, size = 0;
	struct err err = ERR_INIT;
	int r;

	if (!ask)
		return;
	r = spawning_get_error(m->object, &err);
	if (!spawning_get(m->object, "number", UINT32_MAX, &number) ||
		!spawning_get(m->object, "size", SPAWNING_SIZE_MAX, &size))
		r = err_say(&err, -EPROTO, "node 0 answers a spawn with what is none");
	codes = r == 0 ? calloc(size + 1u, sizeof(*codes))
		       : read_errcodes(json_object_get(m->object, "errcodes"), size);
	ask->done(ask->userdata, r, number, size, codes, r < 0 ? &err : NULL);
	free(ask);
}

void spawning_ask_lost(struct spawning *sp, const struct err *err)
{
	struct err why = *err;
	struct spawning_ask *ask;

	(void)err_prefix(&why, "spawn: the way to node 0 is lost");
	while ((ask = sp->asks)) {
		sp->asks = ask->next;
		ask->done(ask->userdata, why.code < 0 ? why.code : -EPIPE, 0, 0, NULL, &why);
		free(ask);
	}
}

void spawning_ask_free(struct spawning *sp)
{
	struct spawning_ask *ask;

	while ((ask = sp->asks)) {
		sp->asks = ask->next;
		free(ask);
	}
}
