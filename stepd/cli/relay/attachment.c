/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/relay/attachment.h"

#include <assert.h>
#include <endian.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "stepd/base/bitset.h"
#include "stepd/base/json.h"
#include "stepd/base/proc.h"
#include "stepd/cli/relay/channel.h"
#include "stepd/client/client.h"
#include "stepd/process/process.h"
#include "stepd/spec/spec.h"
#include "stepd/state/steps.h"

#define CALL_TIMEOUT_MS 10000 /* for the agent's reply */

/* ---- to steprun ---------------------------------------------------------------------------- */

static void attachment_end(struct attachment *a, int code)
{
	attachment_close(a);
	a->ended(code, a->userdata);
}

static void attachment_fail(struct attachment *a, const char *text)
{
	channel_send_lines(
		a->to->channel, a->to->index, "say", text, strnlen(text, CHANNEL_PIECE_MAX));
	attachment_end(a, STATUS_FAILED);
}

static void attachment_absent(struct attachment *a, const char *what)
{
	channel_send(a->to->channel, a->to->index, "absent", what);
	attachment_end(a, 0);
}

/* ---- the step's agent here ----------------------------------------------------------------- */

/* What is looked for, and was found. */
struct search {
	const char *step, *node;
	const char *path; /* of the directory that is looked at */
	char *directory;  /* NULL: none yet */
	char *name;       /* of the agent's node */
	json_t *tasks;    /* of its state: a new reference */
	size_t others;    /* agents of the step under other nodes' names */
	bool named;       /* this one has the node's name */
};

static void search_clear(struct search *s)
{
	free(take_ptr(s->directory));
	free(take_ptr(s->name));
	json_decref(take_ptr(s->tasks));
}

static int search_take(const struct step_entry *entry, void *userdata)
{
	struct search *s = userdata;
	bool named = strcmp(entry->node, s->node) == 0;

	if (strcmp(entry->step, s->step) != 0 || !entry->alive)
		return 0;
	s->others += !named;
	if (s->named || (s->directory && !named))
		return 0;
	search_clear(s);
	s->named = named;
	s->directory = strdup(s->path);
	s->name = strdup(entry->node);
	s->tasks = json_incref(json_object_get(entry->doc, "tasks"));
	return s->directory && s->name ? 0 : -ENOMEM;
}

static int search_visit(int dir_fd, const char *path, void *userdata)
{
	struct search *s = userdata;

	s->path = path;
	return steps_show(dir_fd, search_take, s);
}

/* The agent with this node's name, or the only one of the step: it may have another name for the
 * node. *ret_found: there is one. */
static int search_agent(struct search *s, const char *runtime_dir, bool *ret_found, struct err *err)
{
	int r = steps_each_dir(runtime_dir, search_visit, s, err);

	if (r < 0)
		return err->text[0] ? r : err_set(err, r, "look for step %s", s->step);
	*ret_found = s->directory && (s->named || s->others == 1);
	return 0;
}

/* ---- ranks --------------------------------------------------------------------------------- */

/* Those of a list that are this node's: "" where none is. */
static int choose_ranks(const char *chosen, const json_t *tasks, char **ret_text)
{
	_cleanup_bitset_ struct bitset all = {0}, here = {0};
	const json_t *task;
	json_int_t rank;
	size_t i, size;
	int r = bitset_init(&all, SPEC_NTASKS_MAX);

	if (r == 0)
		r = bitset_init(&here, SPEC_NTASKS_MAX);
	if (r == 0)
		r = bitset_add_list(&all, chosen);
	if (r < 0)
		return r;
	json_array_foreach (tasks, i, task) {
		rank = json_get_int(task, "rank", -1);
		if (rank >= 0 && rank < SPEC_NTASKS_MAX && bitset_test(&all, (uint32_t)rank))
			(void)bitset_set(&here, (uint32_t)rank);
	}
	size = bitset_format_list(&here, NULL, 0) + 1;
	*ret_text = malloc(size);
	if (!*ret_text)
		return -ENOMEM;
	(void)bitset_format_list(&here, *ret_text, size);
	return 0;
}

/* ---- the connection ------------------------------------------------------------------------ */

struct agent_call {
	const json_t *attach; /* of the document */
	const char *ranks;
	bool input;
	json_t *reply; /* a new reference */
	int fd;        /* the channel, and what has come of it */
	struct buffer rest;
};

static void agent_call_clear(struct agent_call *c)
{
	json_decref(c->reply);
	c->fd = close_fd(c->fd);
	buffer_clear(&c->rest);
}

/* NULL: no memory. */
static json_t *pack_parameters(const struct agent_call *c)
{
	return json_pack("{s:s*, s:O*, s:O*, s:O*, s:b}", "ranks", c->ranks, "stream",
		json_object_get(c->attach, "stream"), "since", json_object_get(c->attach, "since"),
		"tail", json_object_get(c->attach, "tail"), "input", (int)c->input);
}

/* Input may be that of other nodes alone: without it then. */
static int agent_call_run(
	struct agent_call *c, struct stepd_client *client, struct stepd_error *error)
{
	json_t *parameters = pack_parameters(c);
	int r;

	if (!parameters)
		return client_no_memory(error);
	r = client_upgrade_take(client, "Attach", parameters, &c->reply, &c->fd, &c->rest, error);
	if (r != -EOPNOTSUPP || !c->input)
		return r;
	c->input = false;
	return agent_call_run(c, client, error);
}

static void attachment_on_taken(size_t size, void *userdata)
{
	const struct attachment *a = userdata;

	assert(a);
	channel_sendf(a->to->channel, a->to->index, "ack", "%zu", size);
}

/* The agent has gone, which its output's end shows. */
static void attachment_on_refused(_unused_ void *userdata)
{
}

static void attachment_on_end(void *userdata)
{
	assert(userdata);
	attachment_end(userdata, 0);
}

static int attachment_carry(struct attachment *a, struct agent_call *c)
{
	static const struct inlet_events events = {
		.taken = attachment_on_taken, .refused = attachment_on_refused};
	int in = fcntl(c->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	int r = in < 0 ? -errno : stdfd_set_nonblock(c->fd, true);

	if (r < 0) {
		(void)close_fd(in);
		return r;
	}
	if (buffer_size(&c->rest) > 0)
		channel_send_bytes(a->to->channel, a->to->index, "out", buffer_bytes(&c->rest),
			buffer_size(&c->rest));
	inlet_init_take(&a->in, a->to->loop, &events, a, in);
	outlet_init_take(&a->out, a->to, "out", take_fd(&c->fd));
	a->out.large = true; /* a socket has no size to change */
	a->out.ended = attachment_on_end;
	a->out.userdata = a;
	return 0;
}

/* The name is the step's owner's choice. */
static void report_attached(
	const struct attachment *a, const struct agent_call *c, const char *node)
{
	char name[256];

	err_printable(name, sizeof(name), node);
	channel_sendf(a->to->channel, a->to->index, "attached",
		"order=%d terminal=%d input=%d ntasks=%lld nodes=%lld node=%s", BYTE_ORDER,
		json_get_bool(c->reply, "terminal", false), c->input,
		(long long)json_get_int(c->reply, "ntasks", 1),
		(long long)json_get_int(c->reply, "nodes", 0), name);
}

static int attachment_call(struct attachment *a, const struct search *s, const json_t *attach,
	const char *ranks, struct stepd_error *error)
{
	_cleanup_(agent_call_clear) struct agent_call c = {.attach = attach,
		.ranks = ranks,
		.input = json_get_bool(attach, "input", false),
		.fd = -1};
	struct stepd_client *client = NULL;
	int r = stepd_connect_directory(s->directory, CALL_TIMEOUT_MS, &client, error);

	if (r == 0)
		r = agent_call_run(&c, client, error);
	client = stepd_disconnect(client);
	if (r < 0)
		return r;
	report_attached(a, &c, s->name);
	r = attachment_carry(a, &c);
	return r < 0 ? client_error_errno(error, r, "step %s: carry its streams", s->step) : 0;
}

/* ---- life ---------------------------------------------------------------------------------- */

void attachment_close(struct attachment *a)
{
	outlet_close(&a->out);
	inlet_close(&a->in);
}

void attachment_start(struct attachment *a, const struct carrier *to, const json_t *doc,
	const char *node, void (*ended)(int code, void *userdata), void *userdata)
{
	const json_t *attach = json_object_get(doc, "attach");
	const char *chosen = json_get_text(attach, "ranks", NULL);
	_cleanup_(search_clear) struct search s = {
		.step = json_get_text(attach, "step", ""), .node = node};
	_cleanup_free_ char *ranks = NULL;
	struct stepd_error error = {0};
	struct err err = ERR_INIT;
	bool found = false;
	int r;

	a->to = to;
	a->ended = ended;
	a->userdata = userdata;
	r = search_agent(&s, json_get_text(doc, "runtime_dir", NULL), &found, &err);
	if (r == 0 && found && chosen)
		r = choose_ranks(chosen, s.tasks, &ranks);
	if (r < 0 && !err.text[0])
		(void)err_set(&err, r, "choose the ranks %.200s", chosen);
	if (r < 0) {
		attachment_fail(a, err.text);
		return;
	}
	if (!found || (ranks && !*ranks)) {
		attachment_absent(a, found ? "ranks" : "step");
		return;
	}
	r = attachment_call(a, &s, attach, ranks, &error);
	if (r == -ECONNREFUSED || r == -ENOENT) /* it has just ended */
		attachment_absent(a, "step");
	else if (r < 0)
		attachment_fail(a, error.text);
}
