/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/across/here.h"

#include <ev.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>

#include "stepd/api/client.h"
#include "stepd/base/status.h"
#include "stepd/cli/across/input.h"
#include "stepd/cli/across/running.h"
#include "stepd/cli/across/user.h"
#include "stepd/cli/relay/relay_doc.h"
#include "stepd/cli/relay/supervisor.h"
#include "stepd/control/buffer.h"

struct here {
	const struct steprun_options *options;
	struct ev_loop *loop;
	struct user *user;
	struct supervisor *supervisor;
	struct running running;
	struct strv args;
	int code;

	/* Of a terminal, which an agent in a group of its own can't read. */
	struct input *input;
	struct buffer typed;
	int typed_fd; /* -1: the agent has standard input itself */
	ev_io typed_io;
	uint64_t taken;
	bool typed_ends;
};

/* ---- the user ----------------------------------------------------------------------------- */

static void on_signal(const char *name, void *userdata)
{
	const struct here *h = userdata;

	supervisor_signal(h->supervisor, name);
}

static void on_terminate(bool now, void *userdata)
{
	const struct here *h = userdata;

	supervisor_terminate(h->supervisor, now);
}

static void on_suspend(bool on, void *userdata)
{
	const struct here *h = userdata;

	supervisor_suspend(h->supervisor, on);
}

static void on_tell(void *userdata)
{
	const struct here *h = userdata;

	running_tell(&h->running);
}

/* ---- the agent ---------------------------------------------------------------------------- */

static void on_started(void *userdata)
{
	(void)userdata;
}

static void on_event(const struct stepd_event *event, void *userdata)
{
	struct here *h = userdata;

	if (strcmp(event->kind, "task_exit") == 0 && event->rank >= 0)
		running_end(&h->running, (uint32_t)event->rank);
}

static void on_say(const char *text, void *userdata)
{
	(void)userdata;
	fprintf(stderr, "steprun: %s\n", text);
}

static void on_ended(int exit_code, const char *result, void *userdata)
{
	struct here *h = userdata;
	int by_user = user_ended_by(h->user);

	(void)result;
	h->code = exit_code;
	/* Ended by ^C: the agent was told by another signal. */
	if (by_user && exit_code > STATUS_SIGNAL_BASE)
		h->code = STATUS_SIGNAL_BASE + by_user;
	h->supervisor = supervisor_free(h->supervisor);
	ev_break(h->loop, EVBREAK_ALL);
}

/* ---- a terminal --------------------------------------------------------------------------- */

static void close_typed(struct here *h)
{
	if (h->typed_fd >= 0)
		ev_io_stop(h->loop, &h->typed_io);
	h->typed_fd = close_fd(h->typed_fd);
	buffer_clear(&h->typed);
	if (h->input)
		input_stop(h->input);
}

static void push_typed(struct here *h)
{
	ssize_t n = 0;

	if (buffer_size(&h->typed) > 0)
		n = write(h->typed_fd, buffer_bytes(&h->typed), buffer_size(&h->typed));
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		close_typed(h);
		return;
	}
	buffer_drop(&h->typed, n > 0 ? (size_t)n : 0);
	h->taken += n > 0 ? (uint64_t)n : 0;
	input_taken(h->input, h->taken);
	if (buffer_size(&h->typed) > 0)
		ev_io_start(h->loop, &h->typed_io);
	else
		ev_io_stop(h->loop, &h->typed_io);
	if (buffer_size(&h->typed) == 0 && h->typed_ends)
		close_typed(h);
}

static void on_typed_room(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)revents;
	push_typed(w->data);
}

static void on_typed(const void *bytes, size_t size, void *userdata)
{
	struct here *h = userdata;

	if (h->typed_fd < 0)
		return;
	if (buffer_add(&h->typed, bytes, size) < 0)
		close_typed(h);
	else
		push_typed(h);
}

static void on_typed_end(void *userdata)
{
	struct here *h = userdata;

	h->typed_ends = true;
	if (h->typed_fd >= 0)
		push_typed(h);
}

/* *ret_fd: what the agent reads. */
static int open_terminal(struct here *h, int *ret_fd, struct err *err)
{
	static const struct input_events events = {.bytes = on_typed, .end = on_typed_end};
	int fds[2];

	if (!isatty(STDIN_FILENO) || !relay_doc_reads_stdin(h->options->run.doc, "0"))
		return 0;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, -errno, "make a pipe for what is typed");
	*ret_fd = fds[0];
	h->typed_fd = fds[1];
	if (fcntl(h->typed_fd, F_SETFL, O_NONBLOCK) < 0)
		return err_set(err, -errno, "make a pipe for what is typed");
	ev_io_init(&h->typed_io, on_typed_room, h->typed_fd, EV_WRITE);
	h->typed_io.data = h;
	h->input = input_new(h->loop, STDIN_FILENO, &events, h);
	return h->input ? 0 : err_set(err, -ENOMEM, "make a pipe for what is typed");
}

/* ---- life --------------------------------------------------------------------------------- */

static int add_text(struct strv *args, const char *option, const char *value)
{
	return value ? strv_addf(args, "--%s=%s", option, value) : 0;
}

static int make_args(const struct run_options *o, struct strv *args)
{
	int r = strv_add(args, "--keep-result=0");

	if (r == 0)
		r = add_text(args, "config", o->config);
	if (r == 0)
		r = add_text(args, "plugin-dir", o->plugin_dir);
	if (r == 0)
		r = add_text(args, "runtime-dir", o->runtime_dir);
	if (r == 0)
		r = add_text(args, "trace", o->trace);
	if (r == 0)
		r = add_text(args, "result", o->result);
	if (r == 0 && o->usage)
		r = strv_add(args, "--usage");
	if (r == 0 && o->verbosity)
		r = strv_add(args, o->verbosity > 0 ? "--verbose" : "--quiet");
	if (r == 0 && o->sample)
		r = strv_add(args, "--sample");
	if (r == 0 && o->sample)
		r = strv_addf(args, "%llums", (unsigned long long)o->sample_interval_ms);
	return r == 0 && o->sample ? strv_add(args, o->sample) : r;
}

static void here_clear(struct here *h)
{
	if (h->typed_fd >= 0)
		close_typed(h);
	h->input = input_free(h->input);
	h->supervisor = supervisor_free(h->supervisor);
	h->user = user_free(h->user);
	running_clear(&h->running);
	strv_clear(&h->args);
	if (h->loop)
		ev_loop_destroy(h->loop);
}

static int begin(struct here *h, struct err *err)
{
	static const struct supervisor_events events = {
		.started = on_started, .event = on_event, .say = on_say, .ended = on_ended};
	_cleanup_close_ int read_fd = -1;
	int r = open_terminal(h, &read_fd, err);

	if (r < 0)
		return r;
	return supervisor_new(h->loop,
		&(const struct supervisor_start){.program = h->options->launcher.program,
			.args = h->args.v,
			.runtime_dir = h->options->run.runtime_dir,
			.doc = h->options->run.doc,
			.stdio = {read_fd >= 0 ? read_fd : STDIN_FILENO, STDOUT_FILENO,
				STDERR_FILENO}},
		&events, h, &h->supervisor, err);
}

int here_run(const struct steprun_options *options, int *ret_code, struct err *err)
{
	static const struct user_events events = {.signal = on_signal,
		.terminate = on_terminate,
		.suspend = on_suspend,
		.tell = on_tell};
	_cleanup_(here_clear) struct here h = {
		.options = options, .code = STATUS_FAILED, .typed_fd = -1};
	int r;

	h.loop = ev_loop_new(EVFLAG_AUTO);
	if (!h.loop || make_args(&options->run, &h.args) < 0 ||
		running_init(&h.running, options->layout.ntasks) < 0)
		return err_set(err, -ENOMEM, "prepare the step");
	r = user_new(h.loop, &events, &h, &h.user, err);
	if (r == 0)
		r = begin(&h, err);
	if (r < 0)
		return r;
	(void)ev_run(h.loop, 0);
	*ret_code = h.code;
	return 0;
}
