/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/agent/ending.h"

#include <assert.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "proctrack/proctrack.h"
#include "stepd/agent/account/account.h"
#include "stepd/agent/events.h"
#include "stepd/agent/methods/methods.h"
#include "stepd/agent/reexec/handover.h"
#include "stepd/agent/recover/exit_watch.h"
#include "stepd/agent/result.h"
#include "stepd/agent/service.h"
#include "stepd/agent/stdio/stdio.h"
#include "stepd/agent/trace.h"
#include "stepd/base/failpoint.h"
#include "stepd/base/log.h"
#include "stepd/base/procstat.h"
#include "stepd/base/signals.h"

#define UNKILLABLE_NAMED_MAX 16

/* ---- ending ------------------------------------------------------------------------------- */

void ending_streams_done(void *userdata)
{
	struct agent *a = userdata;

	a->state = AGENT_ENDED;
	ev_break(a->loop, EVBREAK_ALL);
}

/* A limit has nothing to say any more where the step is ending already. */
static void stop_limits(struct agent *a)
{
	pausable_stop(&a->time_limit);
	pausable_stop(&a->wait_limit);
	pausable_stop(&a->bad_exit_grace);
}

static void begin_draining(struct agent *a)
{
	a->state = AGENT_DRAINING;
	failpoint("draining");
	a->end_ns = trace_now_ns();
	account_finish(a);
	killseq_stop(&a->killseq);
	stop_limits(a);
	suspend_end(a);
	methods_state_changed(a->methods);
	if (a->stdio)
		stdio_finish(a->stdio, ending_streams_done, a);
	else
		ending_streams_done(a);
}

static void reap(struct agent *a);

void ending_before_signal(struct agent *a, int signal)
{
	reap(a); /* who has ended by now has not ended on request */
	if (signal != SIGCONT && a->state == AGENT_ENDING)
		tasks_mark_requested(&a->tasks);
}

int ending_send_kill(struct agent *a)
{
	struct event event = EVENT_INIT(EVENT_SIGNAL);
	int r;

	ending_before_signal(a, SIGKILL);
	r = requests_kill(&a->suspend.requests);
	if (r < 0 && r != -ESRCH) {
		log_error(a->log, "can't send KILL to the step: %s", strerror(-r));
	} else {
		log_debug(a->log, "sent KILL to the step");
		event.text = "KILL";
		events_add(a->events, &event);
	}
	suspend_overtaken(a);
	ending_check(a);
	return r;
}

static void send_to_step(int signal, void *userdata)
{
	struct agent *a = userdata;
	int r;

	if (signal == SIGKILL) {
		(void)ending_send_kill(a); /* has told it */
		return;
	}
	r = requests_add(&a->suspend.requests, REQUEST_SIGNAL, signal);
	if (r < 0)
		log_error(a->log, "can't signal the step: %s", strerror(-r));
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
	if (a->state != AGENT_ENDING)
		return;
	failpoint("ending");
	suspend_give_up(a);
	killseq_start(&a->killseq);
}

void ending_terminate_take(struct agent *a, struct spec_kill *steps, size_t count)
{
	struct spec_kill *old = a->kill_steps;

	if (steps && !killseq_shorten(&a->killseq, steps, count)) {
		free(steps);
	} else if (steps) {
		a->kill_steps = steps;
		free(old);
	}
	if (a->state < AGENT_ENDING)
		a->end_signal = SIGTERM;
	ending_begin(a, AGENT_REASON_SIGNAL);
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

/* The policies that look at one task's end. */
static void apply_policies(struct agent *a, const struct task *task)
{
	const struct spec *spec = a->plan.spec;
	char words[TASK_WORDS_SIZE];

	if (a->state != AGENT_RUNNING || task->exec_status)
		return;
	if (task_failed(task))
		log_info(a->log, "task %u %s", task->rank, task_words(task, words, sizeof(words)));
	if (a->tasks.running == 0)
		return;
	if (task_failed(task) && spec->kill_on_bad_exit && !pausable_is_set(&a->bad_exit_grace))
		pausable_start(&a->bad_exit_grace, spec->kill_on_bad_exit_grace_ms);
	if (spec->wait_given && !pausable_is_set(&a->wait_limit))
		pausable_start(&a->wait_limit, spec->wait_ms);
}

/* It has ended: nothing of it stays but what is told of it. */
static void settle_task(struct agent *a, struct task *task)
{
	a->plan.job.task[task - a->tasks.v].pid = 0;
	proctrack_task_ended(a->pt, &a->plan.job, (uint32_t)(task - a->tasks.v));
	trace_task(a->trace, "task", task->rank, task->start_ns, task->end_ns);
	apply_policies(a, task);
}

static void on_child_end(struct agent *a, pid_t pid, int wait_status, const struct rusage *usage)
{
	struct task *task = tasks_find(&a->tasks, pid);

	account_reaped(a, task, usage);
	if (!task) {
		log_debug(a->log, "pid %d, which a task left behind, ended", (int)pid);
		return;
	}
	tasks_ended(&a->tasks, task, wait_status, trace_now_ns());
	settle_task(a, task);
}

static void tell_task_end(struct agent *a, const struct task *task, int wait_status);

void ending_tell_lost(struct agent *a, const struct task *task)
{
	struct event event = EVENT_INIT(EVENT_TASK_EXIT);
	struct task ended = *task;
	char words[TASK_WORDS_SIZE];

	ended.state = TASK_ENDED;
	ended.lost = true;
	event.rank = task->rank;
	event.pid = task->pid;
	event.text = task_words(&ended, words, sizeof(words));
	events_add(a->events, &event);
}

void ending_adopted_task(struct agent *a, struct task *task, bool known, int wait_status)
{
	if (known)
		tell_task_end(a, task, wait_status);
	else
		ending_tell_lost(a, task);
	account_look_at_task(a, task);
	if (known)
		tasks_ended(&a->tasks, task, wait_status, trace_now_ns());
	else
		tasks_lost(&a->tasks, task, trace_now_ns());
	settle_task(a, task);
}

static void read_reports(struct agent *a);

/* As wait(2) would tell it. */
static int wait_status_of(const siginfo_t *info)
{
	if (info->si_code == CLD_EXITED)
		return W_EXITCODE(info->si_status, 0);
	return info->si_status | (info->si_code == CLD_DUMPED ? WCOREFLAG : 0);
}

static void tell_task_end(struct agent *a, const struct task *task, int wait_status)
{
	struct event event = EVENT_INIT(EVENT_TASK_EXIT);
	struct task ended = *task;
	char words[TASK_WORDS_SIZE];

	ended.state = TASK_ENDED;
	ended.wait_status = wait_status;
	event.rank = task->rank;
	event.pid = task->pid;
	event.wait_status = wait_status;
	event.exit_code = task_exit_code(&ended);
	if (event.exit_code != 0)
		event.text = task_words(&ended, words, sizeof(words));
	events_add(a->events, &event);
}

/* A task's end is written down before the kernel forgets it: should the agent be killed in between,
 * the next one finds there what nobody can tell any more. */
static void reap(struct agent *a)
{
	siginfo_t info = {0};
	const struct task *task;
	struct rusage usage;
	int wait_status;

	exit_watch_look(a->exits);
	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0) {
		/* A task that could not be executed has written why before it ended. */
		read_reports(a);
		task = tasks_find(&a->tasks, info.si_pid);
		failpoint("waited");
		if (task)
			tell_task_end(a, task, wait_status_of(&info));
		failpoint("task-told");
		if (wait4(info.si_pid, &wait_status, WNOHANG, &usage) != info.si_pid)
			return; /* our own child that has ended: can't be */
		failpoint("reaped");
		on_child_end(a, info.si_pid, wait_status, &usage);
		info.si_pid = 0;
	}
}

/* Not within reap(): first all that has ended is noted. */
static void act_on_reports(struct agent *a)
{
	if (a->exec_failed)
		ending_begin(a, AGENT_REASON_EXEC);
	oom_apply_policy(a);
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

static void on_container(void *userdata)
{
	assert(userdata);
	ending_check(userdata);
}

static void on_end_signal(struct agent *a, int signal)
{
	char name[SIGNALS_NAME_SIZE];

	if (a->state == AGENT_DRAINING) {
		ending_streams_done(a); /* whoever reads the rest is not waited for any longer */
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
		else if (info.ssi_signo == SIGUSR2)
			reexec_ask(a);
		else if (info.ssi_signo == SIGTSTP || info.ssi_signo == SIGCONT)
			suspend_on_signal(a, (int)info.ssi_signo, info.ssi_code == SI_KERNEL);
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

static int watch_container(struct agent *a, struct err *err)
{
	int fd = proctrack_event_fd(a->pt, a->plan.job.cont_id), r;

	if (fd == -EOPNOTSUPP)
		return 0; /* every SIGCHLD is looked at: the agent is the tasks' subreaper */
	r = fd < 0 ? fd : pri_watch_start(&a->container, a->loop, fd, on_container, a);
	return r < 0 ? err_set(err, r, "watch the step's container") : 0;
}

int ending_watch(struct agent *a, struct err *err)
{
	int r;

	ev_io_init(&a->signal_io, on_signals, a->signal_fd, EV_READ);
	a->signal_io.data = a;
	ev_io_start(a->loop, &a->signal_io);
	pausable_init(&a->time_limit, a->loop, on_time_limit, a);
	pausable_init(&a->wait_limit, a->loop, on_wait_limit, a);
	pausable_init(&a->bad_exit_grace, a->loop, on_bad_exit_grace, a);
	a->killseq = (struct killseq){
		.loop = a->loop,
		.steps = a->plan.spec->kill_sequence,
		.count = a->plan.spec->kill_sequence_count,
		.unkillable_timeout_ms = a->plan.spec->unkillable_timeout_ms,
		.send = send_to_step,
		.unkillable = on_unkillable,
		.userdata = a,
	};
	r = suspend_init(a, err);
	return r < 0 ? r : watch_container(a, err);
}

static void watch_reports(struct agent *a)
{
	if (a->launch.report_fd < 0)
		return;
	ev_io_init(&a->report_io, on_report_fd, a->launch.report_fd, EV_READ);
	a->report_io.data = a;
	ev_io_start(a->loop, &a->report_io);
}

/* All of it but for a step that was taken over: that one began before. */
static uint64_t time_left_ms(const struct agent *a)
{
	uint64_t gone_ns = trace_now_ns() - a->recover.running_ns;
	uint64_t limit_ms = a->plan.spec->time_limit_ms, gone_ms;

	gone_ms = gone_ns > a->suspend.total_ns ? (gone_ns - a->suspend.total_ns) / 1000000 : 0;
	if (a->recover.adopted == 0)
		return limit_ms;
	return gone_ms < limit_ms ? limit_ms - gone_ms : 0;
}

void ending_settled(struct agent *a)
{
	act_on_reports(a);
	ending_check(a);
}

/* What the policies began to wait for under the agent that died, they wait for anew. */
static void resume_policies(struct agent *a)
{
	const struct spec *spec = a->plan.spec;
	uint32_t i, failed = 0;

	if (a->recover.adopted == 0 || a->tasks.running == 0 || a->state != AGENT_RUNNING)
		return;
	for (i = 0; i < a->tasks.n; i++)
		failed += task_failed(&a->tasks.v[i]);
	if (failed && spec->kill_on_bad_exit)
		pausable_start(&a->bad_exit_grace, spec->kill_on_bad_exit_grace_ms);
	if (a->tasks.running < a->tasks.n && spec->wait_given)
		pausable_start(&a->wait_limit, spec->wait_ms);
}

void ending_started(struct agent *a)
{
	watch_reports(a);
	if (a->plan.spec->time_limit_ms && a->state == AGENT_RUNNING)
		pausable_start(&a->time_limit, time_left_ms(a));
	resume_policies(a);
}

/* Where the step was told to end by another sequence than its own. */
static void save_kill_steps(const struct agent *a, struct handover *h, json_t *array)
{
	size_t i;

	for (i = 0; a->kill_steps && i < a->killseq.count; i++) {
		handover_append_int(h, array, a->kill_steps[i].signal);
		handover_append_int(h, array, (int64_t)a->kill_steps[i].wait_ms);
	}
}

static int restore_kill_steps(struct agent *a, const json_t *array)
{
	size_t n = json_array_size(array) / 2, i;

	if (n == 0)
		return 0;
	a->kill_steps = calloc(n, sizeof(*a->kill_steps));
	if (!a->kill_steps)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		a->kill_steps[i] = (struct spec_kill){
			.signal = (int)json_integer_value(json_array_get(array, 2 * i)),
			.wait_ms = (uint64_t)json_integer_value(json_array_get(array, 2 * i + 1)),
		};
	a->killseq.steps = a->kill_steps;
	a->killseq.count = n;
	return 0;
}

void ending_save(struct agent *a, struct handover *h, struct json_t *object)
{
	save_kill_steps(a, h, handover_put_array(h, object, "kill_steps"));
	killseq_save(&a->killseq, h, handover_put_object(h, object, "killseq"));
	pausable_save(&a->time_limit, h, handover_put_object(h, object, "time_limit"));
	pausable_save(&a->wait_limit, h, handover_put_object(h, object, "wait_limit"));
	pausable_save(&a->bad_exit_grace, h, handover_put_object(h, object, "bad_exit_grace"));
	suspend_save(&a->suspend, h, handover_put_object(h, object, "suspend"));
}

int ending_restore(
	struct agent *a, const struct handover *h, const struct json_t *object, struct err *err)
{
	int r = ending_watch(a, err);

	(void)h;
	if (r == 0 && restore_kill_steps(a, handover_get_array(object, "kill_steps")) < 0)
		r = err_set(err, -ENOMEM, "go on with the kill sequence");
	if (r < 0)
		return r;
	killseq_restore(&a->killseq, handover_get_object(object, "killseq"));
	pausable_restore(&a->time_limit, handover_get_object(object, "time_limit"));
	pausable_restore(&a->wait_limit, handover_get_object(object, "wait_limit"));
	pausable_restore(&a->bad_exit_grace, handover_get_object(object, "bad_exit_grace"));
	r = suspend_restore(&a->suspend, handover_get_object(object, "suspend"));
	watch_reports(a);
	return r < 0 ? handover_say_bad("requests", err) : 0;
}

void ending_go_on(struct agent *a)
{
	requests_rest(&a->suspend.requests, false);
	on_sigchld(a); /* of which a pending signal tells, too, but for one at most */
}

void ending_unwatch(struct agent *a)
{
	killseq_stop(&a->killseq);
	free(take_ptr(a->kill_steps));
	ev_io_stop(a->loop, &a->signal_io);
	ev_io_stop(a->loop, &a->report_io);
	pri_watch_stop(&a->container);
	stop_limits(a);
	suspend_clear(a);
}
