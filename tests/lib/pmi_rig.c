/* SPDX-License-Identifier: BSD-3-Clause */
#include "pmi_rig.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rig_fence {
	struct rig_fence *next;
	uint64_t id;
	struct {
		bool begun, vain;
		void *data;
		size_t size;
		wire_fence_fn done;
		void *userdata;
	} node[RIG_NODES_MAX];
	unsigned long nodes; /* a bit each */
	char why[600];       /* it has failed */
};

struct rig_mail {
	struct rig_mail *next;
	uint32_t from, to;
	uint16_t channel;
	size_t size;
	char data[];
};

static void require(bool holds)
{
	if (!holds)
		abort();
}

/* ---- mpi/serve and mpi/wire, as the server has them: a node is its serve and its wire -------- */

static uint64_t now_ms(void *userdata)
{
	return ((struct rig_node *)userdata)->rig->now_ms;
}

static void attend(void *userdata, struct pmi_task *task)
{
	(void)userdata;
	(void)task;
}

static struct rig_fence *get_fence(struct rig *rig, const struct wire_set *set)
{
	struct rig_fence **at, *f;
	uint32_t i;

	for (at = &rig->fences; *at; at = &(*at)->next) {
		if ((*at)->id == set->id)
			return *at;
	}
	f = calloc(1, sizeof(*f));
	require(f != NULL);
	f->id = set->id;
	for (i = 0; i < rig->count; i++)
		f->nodes |= bitset_test(&set->nodes, i) ? 1ul << i : 0;
	*at = f;
	return f;
}

int wire_fence(struct wire *w, const struct wire_set *set, const struct iovec *iov, int iovcnt,
	_unused_ uint64_t timeout_ms, wire_fence_fn done, void *data, _unused_ struct err *err)
{
	struct rig_node *node = (struct rig_node *)w;
	struct rig_fence *f = get_fence(node->rig, set);

	require(!f->node[node->node].begun && (f->nodes >> node->node & 1));
	f->node[node->node].begun = true;
	f->node[node->node].done = done;
	f->node[node->node].userdata = data;
	if (iovcnt > 0) {
		f->node[node->node].size = iov[0].iov_len;
		f->node[node->node].data = malloc(iov[0].iov_len + 1);
		require(f->node[node->node].data != NULL);
		memcpy(f->node[node->node].data, iov[0].iov_base, iov[0].iov_len);
	}
	return 0;
}

int wire_fence_fail(struct wire *w, const struct wire_set *set, const char *why)
{
	struct rig_node *node = (struct rig_node *)w;

	node->rig->fence_fails++;
	(void)snprintf(
		get_fence(node->rig, set)->why, sizeof(((struct rig_fence *)0)->why), "%s", why);
	return 0;
}

int wire_fence_abandon(struct wire *w, const struct wire_set *set, uint64_t timeout_ms,
	const char *why, wire_fence_fn done, void *data, struct err *err)
{
	struct rig_node *node = (struct rig_node *)w;
	struct rig_fence *f = get_fence(node->rig, set);
	char text[300];
	uint32_t i;

	for (i = 0; i < node->rig->count && !why; i++) {
		if (!(f->nodes >> i & 1) || (f->node[i].begun && !f->node[i].vain))
			continue;
		text[0] = '\0';
		pmi_missing(node->rig->nodes[i].pmi, set->id, text, sizeof(text));
		(void)snprintf(f->why + strlen(f->why), sizeof(f->why) - strlen(f->why),
			"%s%s on n%u", f->why[0] ? ", " : "missing are ", text, i);
	}
	if (why && !f->why[0])
		(void)wire_fence_fail(w, set, why);
	f->node[node->node].vain = true;
	return wire_fence(w, set, NULL, 0, timeout_ms, done, data, err);
}

int wire_send(struct wire *w, uint32_t node, uint16_t channel, const struct iovec *iov, int iovcnt,
	struct err *err)
{
	struct rig_node *from = (struct rig_node *)w;
	size_t size = iov[0].iov_len + (iovcnt > 1 ? iov[1].iov_len : 0);
	struct rig_mail *mail = calloc(1, sizeof(*mail) + size), **at = &from->rig->mail;

	require(mail != NULL && node < from->rig->count && iovcnt <= 2);
	if (from->rig->refuse_mail) {
		free(mail);
		return err_set_text(err, -EHOSTUNREACH, "node %u can't be reached", node);
	}
	mail->from = from->node;
	mail->to = node;
	mail->channel = channel;
	mail->size = size;
	memcpy(mail->data, iov[0].iov_base, iov[0].iov_len);
	if (iovcnt > 1)
		memcpy(mail->data + iov[0].iov_len, iov[1].iov_base, iov[1].iov_len);
	while (*at)
		at = &(*at)->next;
	*at = mail;
	return 0;
}

int wire_broadcast(
	struct wire *w, uint16_t channel, const struct iovec *iov, int iovcnt, struct err *err)
{
	struct rig_node *from = (struct rig_node *)w;
	uint32_t i;
	int r = 0;

	for (i = 0; i < from->rig->count && r == 0; i++) {
		if (i != from->node)
			r = wire_send(w, i, channel, iov, iovcnt, err);
	}
	return r;
}

static void note_command(struct rig *rig, const struct spawn_command *c)
{
	size_t at = strlen(rig->spawned), i;

#define NOTE(...)                                                                                  \
	at += at < sizeof(rig->spawned)                                                            \
		? (size_t)snprintf(rig->spawned + at, sizeof(rig->spawned) - at, __VA_ARGS__)      \
		: 0
	for (i = 0; c->argv[i]; i++)
		NOTE(i ? " %s" : "%s", c->argv[i]);
	NOTE(" x %u", c->count);
	if (c->cwd)
		NOTE(" in %s", c->cwd);
	for (i = 0; c->hosts && c->hosts[i]; i++)
		NOTE(" on %s", c->hosts[i]);
	NOTE("; ");
#undef NOTE
}

/* All of its tasks are put on the requesting node, in a space that the others know of. */
static void add_spawned(struct rig_node *node, uint32_t parent, const struct spawn_request *request)
{
	struct rig *rig = node->rig;
	uint32_t *nodes = calloc(rig->spawn_size + 1, sizeof(*nodes)), i;
	uint32_t *ranks = calloc(rig->spawn_size + 1, sizeof(*ranks));
	struct pmi_layout layout = {.number = ++rig->last_spawn,
		.first_rank = 1000 * rig->last_spawn,
		.size = rig->spawn_size,
		.nodes = nodes,
		.ranks = ranks,
		.parent = parent,
		.preput = request->data,
		.preput_size = request->size};
	struct err err = ERR_INIT;

	require(nodes && ranks);
	for (i = 0; i < rig->spawn_size; i++) {
		nodes[i] = node->node;
		ranks[i] = i;
	}
	for (i = 0; i < rig->count; i++) {
		layout.local_count = i == node->node ? rig->spawn_size : 0;
		require(pmi_add_space(rig->nodes[i].pmi, &layout, &err) == 0);
	}
	free(nodes);
	free(ranks);
}

int spawn_start(struct serve *s, uint32_t parent, const struct spawn_request *request,
	spawn_done_fn done, void *data, struct err *err)
{
	struct rig_node *node = (struct rig_node *)s;
	struct rig *rig = node->rig;
	size_t i;

	rig->spawned[0] = '\0';
	rig->spawn_size = 0;
	for (i = 0; i < request->count; i++) {
		note_command(rig, &request->commands[i]);
		rig->spawn_size += request->commands[i].count;
	}
	if (rig->spawn_error || rig->spawn_size > 64 || rig->spawn_done)
		return err_set_text(
			err, rig->spawn_error ? rig->spawn_error : -EAGAIN, "no spawn today");
	add_spawned(node, parent, request);
	rig->spawn_done = done;
	rig->spawn_data = data;
	return 0;
}

void serve_abort(struct serve *s, int code, const char *text)
{
	struct rig *rig = ((struct rig_node *)s)->rig;

	rig->abort_code = code;
	(void)snprintf(rig->abort_text, sizeof(rig->abort_text), "%s", text);
}

void serve_log(struct serve *s, _unused_ enum log_level level, const char *fmt, ...)
{
	struct rig *rig = ((struct rig_node *)s)->rig;
	char text[ERR_TEXT_SIZE];
	size_t at = strlen(rig->log);
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	(void)snprintf(rig->log + at, sizeof(rig->log) - at, "%s\n", text);
}

struct wire *serve_get_wire(const struct serve *s)
{
	return (struct wire *)s;
}

static const struct pmi_ops ops = {
	.now_ms = now_ms,
	.attend = attend,
};

/* ---- its life ------------------------------------------------------------------------------- */

static void open_node(
	struct rig *rig, uint32_t node, uint32_t size, const uint32_t *layout, uint64_t timeout_ms)
{
	uint32_t *ranks = calloc(size + 1, sizeof(*ranks)), i;
	struct pmi_layout space = {.size = size, .nodes = layout, .ranks = ranks, .parent = -1};
	struct pmi_config config = {.serve = (struct serve *)&rig->nodes[node],
		.label = "7.0",
		.node_name = rig->nodes[node].name,
		.node = node,
		.node_count = rig->count,
		.universe_size = size,
		.timeout_ms = timeout_ms};
	struct err err = ERR_INIT;

	require(ranks != NULL);
	for (i = 0; i < size; i++) {
		if (!layout || layout[i] == node)
			ranks[space.local_count++] = i;
	}
	rig->nodes[node] = (struct rig_node){.rig = rig, .node = node};
	(void)snprintf(rig->nodes[node].name, sizeof(rig->nodes[node].name), "n%u", node);
	require(pmi_new(&config, &ops, &rig->nodes[node], &rig->nodes[node].pmi, &err) == 0);
	require(pmi_add_space(rig->nodes[node].pmi, &space, &err) == 0);
	free(ranks);
}

void rig_open(
	struct rig *rig, uint32_t nodes, uint32_t size, const uint32_t *layout, uint64_t timeout_ms)
{
	uint32_t i;

	require(nodes <= RIG_NODES_MAX);
	*rig = (struct rig){.count = nodes, .abort_code = -1, .now_ms = 1000};
	for (i = 0; i < nodes; i++)
		open_node(rig, i, size, layout, timeout_ms);
}

static void free_fence(struct rig_fence *f)
{
	uint32_t i;

	for (i = 0; i < RIG_NODES_MAX; i++)
		free(f->node[i].data);
	free(f);
}

void rig_close(struct rig *rig)
{
	struct rig_fence *f;
	struct rig_mail *mail;
	uint32_t i;

	if (rig->spawn_done)
		rig_finish_spawn(rig, -ECANCELED);
	for (i = 0; i < rig->count; i++)
		rig->nodes[i].pmi = pmi_free(rig->nodes[i].pmi);
	while ((f = rig->fences)) {
		rig->fences = f->next;
		free_fence(f);
	}
	while ((mail = rig->mail)) {
		rig->mail = mail->next;
		free(mail);
	}
}

/* ---- what happens --------------------------------------------------------------------------- */

struct pmi_task *rig_task(struct rig *rig, uint32_t step_rank)
{
	struct pmi_task *task = NULL;
	uint32_t i;

	for (i = 0; i < rig->count && !task; i++)
		task = pmi_find_task(rig->nodes[i].pmi, step_rank);
	require(task != NULL);
	return task;
}

void rig_send_bytes(struct rig *rig, uint32_t step_rank, const void *data, size_t size)
{
	pmi_input(rig_task(rig, step_rank), data, size);
	rig_settle(rig);
}

void rig_send(struct rig *rig, uint32_t step_rank, const char *text)
{
	rig_send_bytes(rig, step_rank, text, strlen(text));
}

void rig_send2(struct rig *rig, uint32_t step_rank, const char *body)
{
	size_t size = strlen(body);
	char *message = NULL;

	require(asprintf(&message, "%-6zu%s", size, body) > 0);
	rig_send(rig, step_rank, message);
	free(message);
}

const char *rig_heard(struct rig *rig, uint32_t step_rank)
{
	static char *text;
	struct pmi_task *task = rig_task(rig, step_rank);
	struct slice out = pmi_output(task);

	free(text);
	text = slice_dup(out);
	require(text != NULL);
	pmi_written(task, out.size);
	rig_settle(rig);
	return text;
}

static void end_fence(struct rig *rig, struct rig_fence *f)
{
	struct wire_block blocks[RIG_NODES_MAX];
	struct err err = ERR_INIT;
	size_t count = 0;
	uint32_t i;

	for (i = 0; i < rig->count; i++) {
		if (f->nodes >> i & 1)
			blocks[count++] = (struct wire_block){
				.node = i, .data = f->node[i].data, .size = f->node[i].size};
	}
	if (f->why[0])
		(void)err_set_text(&err, -ECANCELED, "%s", f->why);
	for (i = 0; i < rig->count; i++) {
		if (f->node[i].begun)
			f->node[i].done(f->node[i].userdata, err.code, f->why[0] ? NULL : blocks,
				f->why[0] ? 0 : count, &err);
	}
	rig->fences_done++;
	free_fence(f);
}

static bool is_complete(const struct rig *rig, const struct rig_fence *f)
{
	bool any = false;
	uint32_t i;

	for (i = 0; i < rig->count; i++) {
		any |= f->node[i].begun;
		if ((f->nodes >> i & 1) && !f->node[i].begun && !f->why[0])
			return false;
	}
	return any; /* a failure stays until somebody comes to it */
}

static bool settle_once(struct rig *rig)
{
	struct rig_fence **at, *f;
	struct rig_mail *mail = rig->mail;

	if (mail) {
		struct wire_block block = {
			.node = mail->from, .data = mail->data, .size = mail->size};

		rig->mail = mail->next;
		pmi_message(rig->nodes[mail->to].pmi, mail->from, mail->channel, &block);
		free(mail);
		return true;
	}
	for (at = &rig->fences; (f = *at); at = &f->next) {
		if (!is_complete(rig, f))
			continue;
		*at = f->next;
		end_fence(rig, f);
		return true;
	}
	if (rig->spawn_done && !rig->hold_spawns) {
		rig_finish_spawn(rig, 0);
		return true;
	}
	return false;
}

void rig_settle(struct rig *rig)
{
	while (settle_once(rig))
		;
}

void rig_finish_spawn(struct rig *rig, int r)
{
	spawn_done_fn done = rig->spawn_done;
	struct err err = ERR_INIT;
	uint32_t i;

	require(done != NULL);
	rig->spawn_done = NULL;
	if (r < 0) {
		(void)err_set_text(&err, r, "the spawn has failed");
		for (i = 0; i < rig->count; i++)
			pmi_remove_space(rig->nodes[i].pmi, rig->last_spawn);
	}
	done(rig->spawn_data, r, rig->last_spawn, rig->spawn_size, NULL, &err);
}

void rig_pass(struct rig *rig, uint64_t ms)
{
	uint32_t i;

	rig->now_ms += ms;
	for (i = 0; i < rig->count; i++)
		pmi_expire(rig->nodes[i].pmi);
	rig_settle(rig);
}
