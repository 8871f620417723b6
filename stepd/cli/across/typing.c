/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The user's terminal while ranks with a pseudo-terminal read it. It is raw then, so that those
 * terminals interpret what is typed, and it is read only then. An agent with such ranks has a
 * terminal like it in its place (relay.c), and reports when it reads that and when not: before the
 * tasks run, and while the step is suspended. The user's has its own settings again whenever nobody
 * reads it, and as soon as the step is to end, as only then ^C reaches steprun.
 */
#include <assert.h>
#include <jansson.h>
#include <sys/stat.h>

#include "stepd/cli/across/session.h"
#include "stepd/cli/relay/relay_doc.h"
#include "stepd/spec/spec.h"

/* A task's end is known before its last output has come, which has its carriage returns: the
 * terminal stays raw for as long, or until steprun ends. */
#define RELEASE_MS 1000

static bool typing_is_reader(const struct spec *spec, uint32_t rank)
{
	return spec->in.mode == SPEC_STREAM_ALL ||
		(spec->in.mode == SPEC_STREAM_RANK && spec->in.rank == rank);
}

bool typing_wanted(const struct steprun_options *o)
{
	const struct spec *spec = o->run.spec;

	return spec->pty_count > 0 && spec->in.mode != SPEC_STREAM_NONE && isatty(STDIN_FILENO);
}

/* The file that is standard input, which is a terminal. */
static bool typing_is_same(int fd)
{
	struct stat in, st;

	return fstat(STDIN_FILENO, &in) == 0 && fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) &&
		in.st_rdev == st.st_rdev;
}

void typing_begin(struct session *s)
{
	s->typing.active = typing_wanted(s->options);
	if (s->typing.active)
		terminal_find(&s->typing.terminal);
}

void typing_add_node(struct session *s, struct node *n)
{
	bool is_out = typing_is_same(STDOUT_FILENO);

	if (!s->typing.active || !n->has_pty || !n->reads_stdin)
		return;
	n->out.is_terminal = is_out;
	n->err.is_terminal = !is_out && typing_is_same(STDERR_FILENO);
}

json_t *typing_pack(const struct session *s)
{
	struct relay_terminal t = {
		.is_out = typing_is_same(STDOUT_FILENO), .is_err = typing_is_same(STDERR_FILENO)};

	if (tcgetattr(STDIN_FILENO, &t.modes) < 0)
		return NULL;                                   /* it is gone: agents have none */
	(void)terminal_get_size(&s->typing.terminal, &t.size); /* it may have none */
	return relay_terminal_pack(&t);
}

/* Whether a task reads what is typed. */
static bool typing_is_read(const struct session *s)
{
	const struct spec *spec = s->options->run.spec;
	const struct node *n;
	size_t i;

	for (i = 0; i < spec->pty_count; i++) {
		if (!typing_is_reader(spec, spec->pty_ranks[i]) ||
			running_has_ended(&s->running, spec->pty_ranks[i]))
			continue;
		n = &s->nodes[s->by_id[s->options->layout.rank_nodes[spec->pty_ranks[i]]]];
		if (n->state == NODE_CONNECTED && n->reads_terminal && n->reads_stdin)
			return true;
	}
	return false;
}

static void typing_set(struct session *s, bool raw)
{
	if (raw)
		raw = terminal_take(&s->typing.terminal); /* else a shell has it: until its fg */
	else
		terminal_release(&s->typing.terminal);
	ev_timer_stop(s->loop, &s->typing.release);
	s->out.crlf = raw && typing_is_same(STDOUT_FILENO);
	s->err.crlf = raw && typing_is_same(STDERR_FILENO);
	input_pause(&s->input, !raw);
}

static void on_release(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	assert(w->data);
	typing_set(w->data, false);
}

void typing_update(struct session *s)
{
	if (!s->typing.active || !s->assigned)
		return;
	s->input.raw = true;
	if (s->stopped) {
		typing_set(s, false);
	} else if (!s->ending && typing_is_read(s)) {
		typing_set(s, true);
	} else if (s->typing.terminal.raw && !ev_is_active(&s->typing.release)) {
		input_pause(&s->input, true);
		ev_timer_init(&s->typing.release, on_release, RELEASE_MS / 1e3, 0.);
		s->typing.release.data = s;
		ev_timer_start(s->loop, &s->typing.release);
	}
}

void typing_resize(struct session *s)
{
	struct winsize size;
	uint32_t i;

	if (!s->typing.active || !s->assigned || !terminal_get_size(&s->typing.terminal, &size))
		return;
	for (i = 0; i < s->count; i++) {
		const struct node *n = &s->nodes[i];

		if (n->has_pty && n->conn->channel)
			channel_sendf(n->conn->channel, n->relay, "size", "%u %u %u %u",
				size.ws_row, size.ws_col, size.ws_xpixel, size.ws_ypixel);
	}
}
