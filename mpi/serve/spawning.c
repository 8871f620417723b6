/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spawns: the messages among their sides, and the node that requests one. spawning_impl.h has the
 * whole.
 */
#include "mpi/serve/spawning.h"

#include <string.h>

#include "mpi/serve/spawning_impl.h"
#include "stepd/base/json.h"

/* ==== the node that requests a spawn ========================================================= */

struct spawning_request {
	LIST_ENTRY(spawning_request) link;
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
			return err_set_text(
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
		(void)err_set_text(
			err, -EILSEQ, "spawn: arguments, environment and directory must be UTF-8");
	return object;
}

static int request_check(const struct spawn_request *request, struct err *err)
{
	uint64_t size = 0;
	size_t i;

	for (i = 0; i < request->count; i++) {
		if (!request->commands[i].argv || !request->commands[i].argv[0] ||
			!request->commands[i].argv[0][0])
			return err_set_text(err, -EINVAL, "spawn: command %zu names no program", i);
		if (request->commands[i].count == 0)
			return err_set_text(err, -EINVAL, "spawn: command %zu is for no task", i);
		size += request->commands[i].count;
	}
	if (request->count == 0)
		return err_set_text(err, -EINVAL, "spawn: there is no command");
	if (size > SPAWNING_SIZE_MAX)
		return err_set_text(err, -E2BIG, "a spawn can have %u tasks, and this one has %llu",
			SPAWNING_SIZE_MAX, (unsigned long long)size);
	return request->size > SPAWNING_BYTES_MAX
		? err_set_text(err, -E2BIG, "a spawn can have %u bytes of data", SPAWNING_BYTES_MAX)
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
	return spawning_send_take(sp, 0, SPAWNING_REQUEST,
		json_pack("{s:I, s:I, s:o}", "token", (json_int_t)token, "parent",
			(json_int_t)parent, "commands", commands),
		request->data, request->size, err);
}

int spawn_start(struct serve *s, uint32_t parent, const struct spawn_request *request,
	spawn_done_fn done, void *userdata, struct err *err)
{
	struct err own = ERR_INIT;
	struct spawning *sp = s->spawning;
	struct spawning_request *pending;
	int r;

	err = err ? err : &own;
	r = request_check(request, err);
	if (r < 0)
		return r;
	pending = calloc(1, sizeof(*pending));
	if (!pending)
		return err_set(err, -ENOMEM, "spawn");
	*pending = (struct spawning_request){
		.token = ++sp->last_token, .done = done, .userdata = userdata};
	r = send_request(sp, pending->token, parent, request, err);
	if (r < 0) {
		free(pending);
		return r;
	}
	LIST_INSERT_HEAD(&sp->requests, pending, link);
	return 0;
}

/* ---- and back ------------------------------------------------------------------------------- */

static struct spawning_request *take_request(struct spawning *sp, uint64_t token)
{
	struct spawning_request *pending;

	LIST_FOREACH(pending, &sp->requests, link)
	{
		if (pending->token != token)
			continue;
		LIST_REMOVE(pending, link);
		return pending;
	}
	return NULL;
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

static void spawning_request_done(struct spawning *sp, const struct spawning_message *m)
{
	json_int_t token = json_integer_value(json_object_get(m->object, "token"));
	struct spawning_request *pending = take_request(sp, (uint64_t)token);
	_cleanup_free_ int *codes = NULL;
	uint32_t number = 0, size = 0;
	struct err err = ERR_INIT;
	int r;

	if (!pending)
		return;
	r = spawning_get_error(m->object, &err);
	if (!spawning_get(m->object, "number", UINT32_MAX, &number) ||
		!spawning_get(m->object, "size", SPAWNING_SIZE_MAX, &size))
		r = err_set_text(&err, -EPROTO, "node 0 answers a spawn with a malformed message");
	codes = r == 0 ? calloc(size + 1u, sizeof(*codes))
		       : read_errcodes(json_object_get(m->object, "errcodes"), size);
	pending->done(pending->userdata, r, number, size, codes, r < 0 ? &err : NULL);
	free(pending);
}

static void spawning_requests_lost(struct spawning *sp, const struct err *err)
{
	struct err why = *err;
	struct spawning_request *pending;

	(void)err_prefix(&why, "spawn: the way to node 0 is lost");
	while ((pending = LIST_FIRST(&sp->requests))) {
		LIST_REMOVE(pending, link);
		pending->done(
			pending->userdata, why.code < 0 ? why.code : -EPIPE, 0, 0, NULL, &why);
		free(pending);
	}
}

/* ==== the messages of all sides ============================================================== */

/* ---- messages ------------------------------------------------------------------------------ */

int spawning_send_take(struct spawning *sp, uint32_t node, enum spawning_channel channel,
	json_t *object, const void *data, size_t size, struct err *err)
{
	_cleanup_free_ char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	struct iovec iov[2];

	json_decref(object);
	if (!text)
		return err_set(err, -ENOMEM, "spawn");
	iov[0] = (struct iovec){.iov_base = text, .iov_len = strlen(text) + 1};
	iov[1] = (struct iovec){.iov_base = (void *)data, .iov_len = size};
	return wire_send(sp->serve->wire, node, (uint16_t)channel, iov, size ? 2 : 1, err);
}

static bool read_message(const struct wire_block *block, struct spawning_message *ret_message)
{
	const char *text = block->data, *end;
	json_t *object;

	end = block->size ? memchr(text, '\0', block->size) : NULL;
	object = end ? json_loadb(text, (size_t)(end - text), JSON_REJECT_DUPLICATES, NULL) : NULL;
	if (!json_is_object(object)) {
		json_decref(object);
		return false;
	}
	*ret_message = (struct spawning_message){
		.object = object,
		.data = end + 1,
		.size = block->size - (size_t)(end + 1 - text),
	};
	return true;
}

bool spawning_get(const json_t *object, const char *name, uint32_t most, uint32_t *ret_number)
{
	int64_t n;

	if (!json_get_range(object, name, 0, most, &n))
		return false;
	*ret_number = (uint32_t)n;
	return true;
}

int spawning_get_error(const json_t *object, struct err *err)
{
	const char *why = json_string_value(json_object_get(object, "why"));
	uint32_t error = EIO;

	(void)spawning_get(object, "error", 4095, &error);
	if (error == 0)
		return 0;
	return err_set_text(err, -(int)error, "%s", why ? why : strerror((int)error));
}

struct wire_tree spawning_tree(const struct spawning *sp)
{
	uint32_t fanout = serve_get_host(sp->serve)->wire->fanout;

	return (struct wire_tree){.count = serve_get_job(sp->serve)->nnodes,
		.fanout = fanout ? fanout : WIRE_FANOUT_DEFAULT};
}

/* Each message has one side that sends it, and one that it is for. */
static void spawning_dispatch(
	struct spawning *sp, uint32_t from, uint16_t channel, struct spawning_message *m)
{
	bool root = serve_get_job(sp->serve)->nodeid == 0;

	if (channel == SPAWNING_REQUEST && root)
		spawning_root_request(sp, from, m);
	else if (channel == SPAWNING_STARTED && root)
		spawning_root_started(sp, from, m);
	else if (channel == SPAWNING_START && from == 0)
		spawning_part_start(sp, m);
	else if (channel == SPAWNING_END && from == 0)
		spawning_part_end(sp, m);
	else if (channel == SPAWNING_DONE && from == 0)
		spawning_request_done(sp, m);
}

void spawning_take_message(
	struct spawning *sp, uint32_t from, uint16_t channel, const struct wire_block *block)
{
	struct spawning_message m = {0};

	if (!read_message(block, &m)) {
		serve_log(sp->serve, LOG_LEVEL_ERROR,
			"node %u sends a malformed message of a spawn, ignoring", from);
		return;
	}
	spawning_dispatch(sp, from, channel, &m);
	json_decref(m.object);
}

/* ---- what happens meanwhile ---------------------------------------------------------------- */

void spawning_node_lost(struct spawning *sp, uint32_t node, const struct err *err)
{
	const struct wire_tree tree = spawning_tree(sp);
	uint32_t own = serve_get_job(sp->serve)->nodeid;

	if (own == 0) {
		spawning_root_lost(sp, node, err);
	} else if (node == wire_tree_parent(&tree, own)) {
		spawning_requests_lost(sp, err);
		spawning_part_lost(sp);
	}
}

/* ---- life ---------------------------------------------------------------------------------- */

void spawn_set_events(struct serve *s, const struct spawn_events *events, void *userdata)
{
	s->spawning->events = events;
	s->spawning->userdata = userdata;
}

struct spawning *spawning_new(struct serve *s)
{
	struct spawning *sp = calloc(1, sizeof(*sp));

	if (sp)
		sp->serve = s;
	return sp;
}

struct spawning *spawning_free(struct spawning *sp)
{
	struct spawning_request *pending;

	if (!sp)
		return NULL;
	while ((pending = LIST_FIRST(&sp->requests))) {
		LIST_REMOVE(pending, link);
		free(pending);
	}
	spawning_root_free(sp);
	spawning_part_free(sp);
	free(sp);
	return NULL;
}
