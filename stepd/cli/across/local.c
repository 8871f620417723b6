/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A step on this node alone: one agent, without a launcher, which has steprun's own streams.
 */
#include <ev.h>
#include <jansson.h>

#include "stepd/base/status.h"
#include "stepd/cli/across/session.h"
#include "stepd/cli/relay/relay_doc.h"
#include "stepd/cli/relay/streams.h"
#include "stepd/cli/relay/supervisor.h"

struct local {
	const struct steprun_options *options;
	struct ev_loop *loop;
	struct user user;
	struct supervisor *supervisor;
	struct running running;
	struct strv args;
	int code;

	/* Of a terminal, which an agent in a group of its own can't read. */
	struct input input;
	struct inlet inlet;
};

/* ---- the user ----------------------------------------------------------------------------- */

static void on_signal(const char *name, void *userdata)
{
	const struct local *l = userdata;

	supervisor_signal(l->supervisor, name);
}

static void on_terminate(bool now, void *userdata)
{
	const struct local *l = userdata;

	supervisor_terminate(l->supervisor, now);
}

static void on_suspend(bool on, void *userdata)
{
	const struct local *l = userdata;

	supervisor_suspend(l->supervisor, on);
}

static void on_status(void *userdata)
{
	const struct local *l = userdata;

	running_print(&l->running);
}

/* ---- the agent ---------------------------------------------------------------------------- */

static void on_task_ended(uint32_t rank, _unused_ int wait_status, void *userdata)
{
	struct local *l = userdata;

	running_end(&l->running, rank);
}

static void on_report(const char *text, _unused_ void *userdata)
{
	session_print("%s", text);
}

static void on_ended(int exit_code, _unused_ const char *result, void *userdata)
{
	struct local *l = userdata;
	int by_user = l->user.ended_by;

	l->code = exit_code;
	/* Ended by ^C: the agent got another signal. */
	if (by_user && exit_code > STATUS_SIGNAL_BASE)
		l->code = STATUS_SIGNAL_BASE + by_user;
	l->supervisor = supervisor_free(l->supervisor);
	ev_break(l->loop, EVBREAK_ALL);
}

/* ---- a terminal --------------------------------------------------------------------------- */

static void on_taken(size_t size, void *userdata)
{
	struct local *l = userdata;

	input_taken(&l->input, l->input.taken + size);
}

static void on_refused(void *userdata)
{
	struct local *l = userdata;

	input_stop(&l->input);
}

static void on_input(const void *bytes, size_t size, void *userdata)
{
	struct local *l = userdata;

	if (size > 0)
		inlet_write(&l->inlet, bytes, size);
	else
		inlet_end(&l->inlet);
}

/* *ret_fd: what the agent reads. */
static int open_terminal(struct local *l, int *ret_fd, struct err *err)
{
	static const struct inlet_events inlet_events = {.taken = on_taken, .refused = on_refused};
	int r;

	if (!isatty(STDIN_FILENO) || !relay_doc_reads_stdin(l->options->run.doc, "0"))
		return 0;
	r = inlet_open(&l->inlet, l->loop, &inlet_events, l, ret_fd);
	if (r < 0)
		return err_set(err, r, "make a pipe for standard input");
	input_start(&l->input, l->loop, on_input, l);
	return 0;
}

/* ---- life --------------------------------------------------------------------------------- */

/* 0 or -ENOMEM, as all that adds to a vector. */
static int add_option(struct strv *args, const char *option, const char *value)
{
	return value ? strv_addf(args, "--%s=%s", option, value) : 0;
}

int session_agent_args(const struct run_options *o, struct strv *args)
{
	int r = add_option(args, "config", o->config);

	r |= add_option(args, "plugin-dir", o->plugin_dir);
	r |= add_option(args, "runtime-dir", o->runtime_dir);
	if (o->usage)
		r |= strv_add(args, "--usage");
	if (o->verbosity)
		r |= strv_add(args, o->verbosity > 0 ? "--verbose" : "--quiet");
	return r;
}

static int make_args(const struct run_options *o, struct strv *args)
{
	int r = session_agent_args(o, args) | strv_add(args, "--keep-result=0");

	r |= add_option(args, "trace", o->trace);
	r |= add_option(args, "result", o->result);
	if (!o->sample)
		return r;
	r |= strv_add(args, "--sample");
	r |= strv_addf(args, "%llums", (unsigned long long)o->sample_interval_ms);
	return r | strv_add(args, o->sample);
}

static void local_clear(struct local *l)
{
	inlet_close(&l->inlet);
	input_stop(&l->input);
	l->supervisor = supervisor_free(l->supervisor);
	user_clear(&l->user);
	running_clear(&l->running);
	strv_clear(&l->args);
	if (l->loop)
		ev_loop_destroy(l->loop);
}

static int start_agent(struct local *l, struct err *err)
{
	static const struct supervisor_events events = {
		.task_ended = on_task_ended, .report = on_report, .ended = on_ended};
	_cleanup_close_ int read_fd = -1;
	int r = open_terminal(l, &read_fd, err);

	if (r < 0)
		return r;
	return supervisor_new(l->loop,
		&(const struct supervisor_start){.program = l->options->launcher.program,
			.args = &l->args,
			.runtime_dir = l->options->run.runtime_dir,
			.doc = l->options->run.doc,
			.stdio = {read_fd >= 0 ? read_fd : STDIN_FILENO, STDOUT_FILENO,
				STDERR_FILENO}},
		&events, l, &l->supervisor, err);
}

int session_run_local(const struct steprun_options *options, int *ret_code, struct err *err)
{
	static const struct user_events events = {.signal = on_signal,
		.terminate = on_terminate,
		.suspend = on_suspend,
		.status = on_status};
	_cleanup_(local_clear) struct local l = {
		.options = options, .code = STATUS_FAILED, .inlet = INLET_INIT};
	int r;

	l.loop = ev_loop_new(EVFLAG_AUTO);
	if (!l.loop || make_args(&options->run, &l.args) < 0 ||
		running_init(&l.running, options->layout.ntasks) < 0)
		return err_set(err, -ENOMEM, "prepare the step");
	r = user_watch(&l.user, l.loop, &events, &l, err);
	if (r == 0)
		r = start_agent(&l, err);
	if (r < 0)
		return r;
	(void)ev_run(l.loop, 0);
	*ret_code = l.code;
	return 0;
}
