/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/agent/ending.h"

#include <assert.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "proctrack/proctrack.h"
#include "stepd/agent/result.h"
#include "stepd/agent/service.h"
#include "stepd/agent/stdio.h"
#include "stepd/agent/trace.h"
#include "stepd/base/log.h"
#include "stepd/base/procstat.h"
#include "stepd/base/signals.h"

#define UNKILLABLE_NAMED_MAX 16

/* ---- ending ------------------------------------------------------------------------------- */

static void on_streams_done(void *userdata)
{
	struct agent *a = userdata;

	a->state = AGENT_ENDED;
	ev_break(a->loop, EVBREAK_ALL);
}

/* A limit has nothing to say any more where the step is ending already. */
static void stop_limits(struct agent *a)
{
	ev_timer_stop(a->loop, &a->time_limit);
	ev_timer_stop(a->loop, &a->wait_limit);
	ev_timer_stop(a->loop, &a->bad_exit_grace);
}

static void begin_draining(struct agent *a)
{
	a->state = AGENT_DRAINING;
	a->end_ns = trace_now_ns();
	killseq_stop(&a->killseq);
	stop_limits(a);
	if (a->stdio)
		stdio_finish(a->stdio, on_streams_done, a);
	else
		on_streams_done(a);
}

static void reap(struct agent *a);

static void send_to_step(int signal, void *userdata)
{
	struct agent *a = userdata;
	char name[SIGNALS_NAME_SIZE];
	int r;

	reap(a); /* who has ended by now has not ended on request */
	if (signal != SIGCONT)
		tasks_mark_requested(&a->tasks);
	r = proctrack_signal(a->pt, a->plan.job.cont_id, signal);
	if (r < 0 && r != -ESRCH)
		log_error(a->log, "can't send %s to the step: %s",
			signals_name(signal, name, sizeof(name)), strerror(-r));
	else
		log_debug(a->log, "sent %s to the step", signals_name(signal, name, sizeof(name)));
	ending_check(a);
}

/* Names what SIGKILL did not end: in the log, and for the result. */
static void name_unkillable(struct agent *a)
{
	_cleanup_free_ pid_t *pids = NULL;
	char one[256];
	size_t size;
	FILE *f;
	int n = 0, i;

	if (proctrack_get_pids(a->pt, a->plan.job.cont_id, &pids, &n) < 0)
		n = 0; /* said below: not even their list could be had */
	free(a->unkillable_text);
	a->unkillable_text = NULL;
	f = open_memstream(&a->unkillable_text, &size);
	for (i = 0; i < n && i < UNKILLABLE_NAMED_MAX; i++) {
		procstat_describe(pids[i], one, sizeof(one));
		log_error(a->log, "SIGKILL did not end %s", one);
		if (f)
			fprintf(f, "%s%s", i ? "; " : "", one);
	}
	if (f && n > UNKILLABLE_NAMED_MAX)
		fprintf(f, "; and %d more", n - UNKILLABLE_NAMED_MAX);
	if (f)
		(void)fclose(f); /* no text then */
	log_error(
		a->log, "%d process%s can't be ended; the step is given up", n, n == 1 ? "" : "es");
}

static void on_unkillable(void *userdata)
{
	struct agent *a = userdata;

	assert(a);
	ending_check(a); /* the end of members that are not our children may have gone unseen */
	if (a->state >= AGENT_DRAINING)
		return;
	a->unkillable = true;
	name_unkillable(a);
	begin_draining(a);
}

static void set_ending(struct agent *a, enum agent_reason reason)
{
	if (a->state >= AGENT_ENDING)
		return;
	a->state = AGENT_ENDING;
	a->reason = reason;
	stop_limits(a);
	result_publish_state(a, agent_state_words[a->state]);
	service_tell_state(a);
}

void ending_begin(struct agent *a, enum agent_reason reason)
{
	set_ending(a, reason);
	if (a->state == AGENT_ENDING)
		killseq_start(&a->killseq);
}

void ending_kill(struct agent *a, enum agent_reason reason)
{
	set_ending(a, reason);
	if (a->state == AGENT_ENDING)
		killseq_kill_now(&a->killseq);
}

void ending_check(struct agent *a)
{
	const struct spec *spec = a->plan.spec;
	bool populated;

	if (a->state < AGENT_RUNNING || a->state > AGENT_ENDING || a->tasks.running)
		return;
	if (spec->kind == STEPD_STEP_EXTERN && a->state == AGENT_RUNNING)
		return; /* holds what others add until it is told to end */
	populated = proctrack_is_populated(a->pt, a->plan.job.cont_id);
	if (!populated) {
		begin_draining(a);
	} else if (a->state == AGENT_RUNNING && spec->background == SPEC_BACKGROUND_KILL) {
		log_debug(a->log, "the tasks have ended and left processes behind: killing them");
		ending_kill(a, AGENT_REASON_COMPLETED);
	}
}

/* ---- tasks -------------------------------------------------------------------------------- */

static void start_timer(struct agent *a, ev_timer *w, uint64_t ms)
{
	ev_now_update(a->loop);
	ev_timer_set(w, (double)ms / 1e3, 0.);
	ev_timer_start(a->loop, w);
}

/* The policies that look at one task's end. */
static void apply_policies(struct agent *a, const struct task *task)
{
	const struct spec *spec = a->plan.spec;
	char words[96];

	if (a->state != AGENT_RUNNING || task->exec_status)
		return;
	if (task_failed(task))
		log_info(a->log, "task %u %s", task->rank, task_words(task, words, sizeof(words)));
	if (a->tasks.running == 0)
		return;
	if (task_failed(task) && spec->kill_on_bad_exit && !ev_is_active(&a->bad_exit_grace))
		start_timer(a, &a->bad_exit_grace, spec->kill_on_bad_exit_grace_ms);
	if (spec->wait_given && !ev_is_active(&a->wait_limit))
		start_timer(a, &a->wait_limit, spec->wait_ms);
}

static void on_child_end(struct agent *a, pid_t pid, int wait_status, const struct rusage *usage)
{
	struct task *task = tasks_find(&a->tasks, pid);

	if (!task) {
		log_debug(a->log, "pid %d, which a task left behind, ended", (int)pid);
		return;
	}
	a->plan.job.task[task - a->tasks.v].pid = 0;
	tasks_ended(&a->tasks, task, wait_status, usage, trace_now_ns());
	proctrack_task_ended(a->pt, &a->plan.job, (uint32_t)(task - a->tasks.v));
	trace_task(a->trace, "task", task->rank, task->start_ns, task->end_ns);
	apply_policies(a, task);
}

static void read_reports(struct agent *a);

static void reap(struct agent *a)
{
	struct rusage usage;
	int wait_status;
	pid_t pid;

	while ((pid = wait4(-1, &wait_status, WNOHANG, &usage)) > 0) {
		/* A task that could not be executed has written why before it ended. */
		read_reports(a);
		on_child_end(a, pid, wait_status, &usage);
	}
}

/* Not within reap(): first all that has ended is noted. */
static void act_on_reports(struct agent *a)
{
	if (a->exec_failed)
		ending_begin(a, AGENT_REASON_EXEC);
}

static void on_sigchld(struct agent *a)
{
	reap(a);
	act_on_reports(a);
	ending_check(a);
}

static void on_report(struct agent *a, const struct child_report *report)
{
	struct err err = ERR_INIT;
	struct task *task;

	if (report->local_id >= a->tasks.n)
		return; /* a child can't write that; nothing to name */
	task = &a->tasks.v[report->local_id];
	if (report->stage == CHILD_STAGE_EXEC && report->error == 0) {
		trace_task(a->trace, "exec", task->rank, report->time_ns, report->time_ns);
		return;
	}
	task->exec_status = child_report_explain(&a->plan, report, &err);
	log_error(a->log, "%s", err.text);
	a->exec_failed = true;
}

/* The pipe holds whole records: each is written in one piece below PIPE_BUF. */
static void read_reports(struct agent *a)
{
	struct child_report reports[64];
	ssize_t n, i;

	while (a->launch.report_fd >= 0) {
		n = read(a->launch.report_fd, reports, sizeof(reports));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		for (i = 0; i < n / (ssize_t)sizeof(reports[0]); i++)
			on_report(a, &reports[i]);
		if (n > 0)
			continue;
		ev_io_stop(a->loop, &a->report_io);
		a->launch.report_fd = close_fd(a->launch.report_fd);
		trace_phase(a->trace, "exec", a->release_ns);
	}
}

/* ---- watchers ----------------------------------------------------------------------------- */

static void on_report_fd(struct ev_loop *loop, ev_io *w, int revents)
{
	assert(w->data);
	(void)loop;
	(void)revents;
	read_reports(w->data);
	act_on_reports(w->data);
}

static void on_container(struct ev_loop *loop, ev_io *w, int revents)
{
	struct agent *a = w->data;
	char text[256];

	assert(a);
	(void)loop;
	(void)revents;
	/* Reading is what takes the event; what it says is asked of the plugin. */
	if (pread(a->container_fd, text, sizeof(text), 0) < 0 && errno == ENODEV)
		ev_io_stop(a->loop, &a->container_io); /* the group is gone */
	ending_check(a);
}

static void on_end_signal(struct agent *a, int signal)
{
	char name[SIGNALS_NAME_SIZE];

	if (a->state == AGENT_DRAINING) {
		on_streams_done(a); /* whoever reads the rest is not waited for any longer */
		return;
	}
	(void)signals_name(signal, name, sizeof(name));
	if (signal == SIGINT && a->killseq.started) {
		log_info(a->log, "got %s again: killing the step", name);
		ending_kill(a, AGENT_REASON_SIGNAL);
		return;
	}
	if (a->state < AGENT_ENDING) {
		log_info(a->log, "got %s: ending the step", name);
		a->end_signal = signal;
	}
	ending_begin(a, AGENT_REASON_SIGNAL);
}

static void on_signals(struct ev_loop *loop, ev_io *w, int revents)
{
	struct agent *a = w->data;
	struct signalfd_siginfo info;

	assert(a);
	(void)loop;
	(void)revents;
	while (read(a->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			on_sigchld(a);
		else
			on_end_signal(a, (int)info.ssi_signo);
	}
}

static void on_time_limit(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct agent *a = w->data;

	assert(a);
	(void)loop;
	(void)revents;
	log_error(a->log, "the time limit of %.10g s is reached: ending the step",
		(double)a->plan.spec->time_limit_ms / 1e3);
	ending_begin(a, AGENT_REASON_TIME_LIMIT);
}

static void on_wait_limit(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct agent *a = w->data;

	assert(a);
	(void)loop;
	(void)revents;
	log_error(a->log,
		"tasks that still run %.10g s after the first one's end: %u; ending the step",
		(double)a->plan.spec->wait_ms / 1e3, a->tasks.running);
	ending_begin(a, AGENT_REASON_WAIT);
}

static void on_bad_exit_grace(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct agent *a = w->data;

	assert(a);
	(void)loop;
	(void)revents;
	log_error(a->log, "a task failed: ending the step (kill_on_bad_exit)");
	ending_begin(a, AGENT_REASON_BAD_EXIT);
}

/* cgroup.events is always readable; what tells is EPOLLPRI, which libev can't ask for: an epoll
 * descriptor of its own around it is readable when there is news. */
static int watch_container(struct agent *a, struct err *err)
{
	struct epoll_event event = {.events = EPOLLPRI};
	char text[256];
	int fd = proctrack_event_fd(a->pt, a->plan.job.cont_id);

	if (fd == -EOPNOTSUPP)
		return 0; /* every SIGCHLD is looked at: the agent is the tasks' subreaper */
	if (fd < 0)
		return err_set(err, fd, "watch the step's container");
	a->container_fd = fd;
	a->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (a->epoll_fd < 0 || epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ||
		pread(fd, text, sizeof(text), 0) < 0)
		return err_set(err, -errno, "watch the step's container");
	ev_io_init(&a->container_io, on_container, a->epoll_fd, EV_READ);
	a->container_io.data = a;
	ev_io_start(a->loop, &a->container_io);
	return 0;
}

int ending_watch(struct agent *a, struct err *err)
{
	ev_io_init(&a->signal_io, on_signals, a->signal_fd, EV_READ);
	a->signal_io.data = a;
	ev_io_start(a->loop, &a->signal_io);
	ev_init(&a->time_limit, on_time_limit);
	ev_init(&a->wait_limit, on_wait_limit);
	ev_init(&a->bad_exit_grace, on_bad_exit_grace);
	a->time_limit.data = a->wait_limit.data = a->bad_exit_grace.data = a;
	a->killseq = (struct killseq){
		.loop = a->loop,
		.steps = a->plan.spec->kill_sequence,
		.count = a->plan.spec->kill_sequence_count,
		.unkillable_timeout_ms = a->plan.spec->unkillable_timeout_ms,
		.send = send_to_step,
		.unkillable = on_unkillable,
		.userdata = a,
	};
	return watch_container(a, err);
}

void ending_started(struct agent *a)
{
	if (a->launch.report_fd >= 0) {
		ev_io_init(&a->report_io, on_report_fd, a->launch.report_fd, EV_READ);
		a->report_io.data = a;
		ev_io_start(a->loop, &a->report_io);
	}
	if (a->plan.spec->time_limit_ms && a->state == AGENT_RUNNING)
		start_timer(a, &a->time_limit, a->plan.spec->time_limit_ms);
}

void ending_unwatch(struct agent *a)
{
	killseq_stop(&a->killseq);
	ev_io_stop(a->loop, &a->signal_io);
	ev_io_stop(a->loop, &a->report_io);
	ev_io_stop(a->loop, &a->container_io);
	stop_limits(a);
	a->epoll_fd = close_fd(a->epoll_fd);
	a->container_fd = close_fd(a->container_fd);
}
