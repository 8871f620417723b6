/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/ending.h"

#include <assert.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "proctrack/proctrack.h"
#include "stepd/account/account.h"
#include "stepd/base/clock.h"
#include "stepd/base/err.h"
#include "stepd/base/failpoint.h"
#include "stepd/base/proc.h"
#include "stepd/record/events.h"
#include "stepd/snapshot/handover.h"
#include "stepd/stdio/stdio.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/join.h"
#include "stepd/step/mpi_link.h"
#include "stepd/step/reaping.h"
#include "stepd/step/reexec.h"
#include "stepd/step/result.h"

#define UNKILLABLE_NAMED_MAX 16

/* After that many events a step's signals are no longer recorded: its owner can send any number,
 * while the file may be in memory, and a successor must be able to read it. */
#define SIGNALS_REPORTED_MAX (1u << 18)

/* ---- ending -------------------------------------------------------------------------------- */

void ending_settle(struct agent *a)
{
	if (!a->end.streams_done || mpi_link_is_open(a))
		return;
	a->state = AGENT_ENDED;
	ev_break(a->loop, EVBREAK_ALL);
}

void ending_streams_done(void *userdata)
{
	struct agent *a = userdata;

	a->end.streams_done = true;
	a->end.output_lost = a->stdio && stdio_has_lost(a->stdio);
	a->end.input_dropped = a->stdio ? stdio_get_input_dropped(a->stdio) : 0;
	ending_settle(a);
}

/* A limit has no effect once the step is ending, except the time limit where only the tasks have
 * ended and the service may wait for other nodes. */
static void stop_limits(struct agent *a)
{
	if (a->reason != AGENT_REASON_COMPLETED || !mpi_link_is_open(a))
		pausable_stop(&a->limits.time);
	pausable_stop(&a->limits.signal);
	pausable_stop(&a->limits.wait);
	pausable_stop(&a->limits.bad_exit_grace);
}

static void begin_draining(struct agent *a)
{
	a->state = AGENT_DRAINING;
	join_step_ends(a);
	failpoint("draining");
	a->end.time_ns = clock_now_ns();
	account_finish(&a->account, !a->end.unkillable);
	killseq_stop(&a->end.killseq);
	member_watch_stop(&a->watch.member);
	stop_limits(a);
	suspend_end(a);
	frontend_state_changed(a);
	/* Other nodes' tasks may need this node's service to reach each other; not when the step
	 * is being ended. */
	mpi_link_over(a, a->reason != AGENT_REASON_COMPLETED);
	if (mpi_link_is_open(a))
		log_debug(a->log,
			"the tasks have ended; the MPI service process goes on for as "
			"long as other nodes need it");
	if (a->stdio)
		stdio_finish(a->stdio, ending_streams_done, a);
	else
		ending_streams_done(a);
}

/* Records the tasks that run now: their end by a signal counts as requested. */
static void ending_before_signal(struct agent *a, int signal)
{
	reaping_poll(a); /* a task that has ended by now has not ended on request */
	if (signal != SIGCONT && a->state == AGENT_ENDING)
		tasks_mark_requested(&a->tasks);
}

int ending_send_kill(struct agent *a)
{
	struct event event = EVENT_INIT(EVENT_SIGNAL);
	int r;

	ending_before_signal(a, SIGKILL);
	r = requests_kill(&a->requests);
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
		(void)ending_send_kill(a); /* has reported it */
		return;
	}
	r = requests_add(&a->requests, REQUEST_SIGNAL, signal);
	if (r < 0) {
		log_error(a->log, "can't signal the step: %s", strerror(-r));
		killseq_delivered(&a->end.killseq, signal);
	}
}

/* Names the processes that SIGKILL did not end: in the log, and for the result. */
static void name_unkillable(struct agent *a)
{
	_cleanup_free_ pid_t *pids = NULL;
	char one[256];
	size_t size;
	FILE *f;
	int n = 0, i;

	if (proctrack_get_pids(a->pt, a->plan.job.cont_id, &pids, &n) < 0)
		n = 0; /* logged below: not even their list could be read */
	free(a->end.unkillable_text);
	a->end.unkillable_text = NULL;
	f = open_memstream(&a->end.unkillable_text, &size);
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
	a->end.unkillable = true;
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
	join_step_ends(a);
	result_publish_state(a, agent_state_names[a->state]);
	service_notify_state(a);
}

void ending_begin(struct agent *a, enum agent_reason reason)
{
	set_ending(a, reason);
	if (a->state != AGENT_ENDING)
		return;
	failpoint("ending");
	suspend_give_up(a);
	killseq_start(&a->end.killseq);
}

/* A task that aborts may be reaped before its abort is reported: the report counts as long as the
 * result is not made. */
void ending_abort(struct agent *a, int code, enum log_level level, const char *why)
{
	bool late = a->state == AGENT_DRAINING && a->reason == AGENT_REASON_COMPLETED;

	if (a->state != AGENT_RUNNING && !late)
		return;
	log_line(a->log, level, "%s", why);
	a->end.abort_code = code;
	if (late)
		a->reason = AGENT_REASON_ABORT;
	else
		ending_begin(a, AGENT_REASON_ABORT);
}

void ending_terminate_take(struct agent *a, struct spec_kill *steps, size_t count)
{
	struct spec_kill *old = a->end.kill_steps;

	if (steps && !killseq_shorten(&a->end.killseq, steps, count)) {
		free(steps);
	} else if (steps) {
		a->end.kill_steps = steps;
		free(old);
	}
	if (a->state < AGENT_ENDING)
		a->end.signal = SIGTERM;
	ending_begin(a, AGENT_REASON_SIGNAL);
}

void ending_kill(struct agent *a, enum agent_reason reason)
{
	set_ending(a, reason);
	if (a->state == AGENT_ENDING)
		killseq_kill_now(&a->end.killseq);
}

/* The last member may end between the first check and the next: then there is no member to watch,
 * and nothing would report the end. */
static bool has_members(struct agent *a)
{
	uint64_t cont_id = a->plan.job.cont_id;

	if (!proctrack_is_populated(a->pt, cont_id))
		return false;
	if (a->watch.container.fd >= 0 || member_watch_any(&a->watch.member, a->pt, cont_id))
		return true;
	return proctrack_is_populated(a->pt, cont_id);
}

void ending_check(struct agent *a)
{
	const struct spec *spec = a->plan.spec;

	if (a->state < AGENT_RUNNING || a->state > AGENT_ENDING || a->tasks.running)
		return;
	if (spec->kind == STEPD_STEP_EXTERN && a->state == AGENT_RUNNING)
		return; /* holds added processes until its end is requested */
	if (!has_members(a)) {
		begin_draining(a);
		return;
	}
	if (a->state == AGENT_RUNNING && spec->background == SPEC_BACKGROUND_KILL) {
		log_debug(a->log, "the tasks have ended and left processes behind: killing them");
		ending_kill(a, AGENT_REASON_COMPLETED);
	}
}

void ending_on_oom(void *userdata)
{
	struct agent *a = userdata;

	if (a->account.oom.kills == 0 || !a->plan.spec->oom_kill_step || a->state != AGENT_RUNNING)
		return;
	log_error(a->log, "a task ran out of memory: ending the step (oom_kill_step)");
	ending_begin(a, AGENT_REASON_OOM);
}

/* ---- watchers ------------------------------------------------------------------------------ */

static void on_container(void *userdata)
{
	assert(userdata);
	ending_check(userdata);
	suspend_check(userdata);
}

/* Its parent may have been a child that is not reaped yet. */
static void on_member_end(void *userdata)
{
	assert(userdata);
	reaping_on_child(userdata);
}

/* Stops the waits that are pointless while the streams drain. */
static bool hurry_draining(struct agent *a)
{
	if (a->state != AGENT_DRAINING)
		return false;
	mpi_link_over(a, true);
	ending_streams_done(a);
	return true;
}

static void on_end_signal(struct agent *a, int signal)
{
	char name[SIGNALS_NAME_SIZE];

	if (hurry_draining(a))
		return;
	(void)signals_name(signal, name, sizeof(name));
	if (signal == SIGINT && a->end.killseq.started) {
		log_info(a->log, "got %s again: killing the step", name);
		ending_kill(a, AGENT_REASON_SIGNAL);
		return;
	}
	if (a->state < AGENT_ENDING) {
		log_info(a->log, "got %s: ending the step", name);
		a->end.signal = signal;
	}
	ending_begin(a, AGENT_REASON_SIGNAL);
}

static void on_supervisor_gone(void *userdata)
{
	struct agent *a = userdata;

	assert(a);
	if (hurry_draining(a))
		return;
	if (a->state < AGENT_ENDING) {
		log_info(a->log, "the program that supervises the step is gone: ending the step");
		a->end.signal = SIGTERM;
	}
	ending_begin(a, AGENT_REASON_SIGNAL);
}

static void on_signals(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct agent *a = w->data;
	struct signalfd_siginfo info;

	assert(a);
	while (read(a->watch.signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			reaping_on_child(a);
		else if (info.ssi_signo == SIGUSR2)
			reexec_request(a);
		else if (info.ssi_signo == SIGTSTP || info.ssi_signo == SIGCONT)
			suspend_on_signal(a, &info);
		else if (info.ssi_signo == SIGWINCH && a->stdio)
			stdio_resize_terminal(a->stdio);
		else if (info.ssi_signo == SIGWINCH)
			continue;
		else
			on_end_signal(a, (int)info.ssi_signo);
	}
}

/* ---- what is done to the container (requests.h) -------------------------------------------- */

static void report_signal(const struct agent *a, const struct request *request, const char *name)
{
	const struct request_target *target = &request->target;
	struct event event = EVENT_INIT(EVENT_SIGNAL);

	if (events_last(a->events) >= SIGNALS_REPORTED_MAX)
		return;
	event.text = name;
	if (target->whom == REQUEST_PROCESS)
		event.pid = target->pid;
	if (target->whom == REQUEST_TASKS && target->ranks_count == 1)
		event.rank = target->ranks[0];
	if (target->whom == REQUEST_TASKS)
		event.count = (int64_t)target->ranks_count;
	events_add(a->events, &event);
}

static void on_signalled(
	struct agent *a, const struct request *request, int r, const struct err *err)
{
	char name[SIGNALS_NAME_SIZE];

	(void)signals_name(request->signal, name, sizeof(name));
	if (r < 0 && r != -ESRCH && !request->answer.fn) {
		log_error(a->log, "%s", err->text);
	} else if (r == 0) {
		log_debug(a->log, "sent %s to the step", name);
		report_signal(a, request, name);
	}
	if (request->target.whom == REQUEST_STEP)
		killseq_delivered(&a->end.killseq, request->signal);
	if (worker_is_lost(r))
		suspend_thaw(a);
}

/* What a tracker learns of the members during the worker's signals stays in the worker. A tracker
 * that loses the children of an added process with their parent, unless it has seen them, reads
 * them now.
 */
static void see_added(struct agent *a)
{
	if (a->origin.added.n > 0 || a->origin.recover.adopted > 0)
		(void)proctrack_is_populated(a->pt, a->plan.job.cont_id);
}

static void on_request_begin(const struct request *request, void *userdata)
{
	struct agent *a = userdata;

	assert(a);
	if (request->kind != REQUEST_SIGNAL)
		return;
	ending_before_signal(a, request->signal);
	see_added(a);
}

static size_t find_executing(int fds[2], void *userdata)
{
	const struct agent *a = userdata;
	size_t n = 0;

	if (a->start.launch.report_fd >= 0)
		fds[n++] = a->start.launch.report_fd;
	if (join_get_report_fd(a) >= 0)
		fds[n++] = join_get_report_fd(a);
	return n;
}

static void on_request_done(
	const struct request *request, int r, const struct err *err, void *userdata)
{
	struct agent *a = userdata;

	assert(a);
	if (request->kind == REQUEST_SUSPEND)
		suspend_done(a, r, err);
	else if (request->kind == REQUEST_RESUME)
		suspend_resume_done(a, r, err);
	else
		on_signalled(a, request, r, err);
	ending_check(a);
	if (a->suspend.to_check)
		suspend_check(a);
	join_go_on(a);
}

static void on_requests_rested(void *userdata)
{
	assert(userdata);
	reexec_go_on(userdata);
}

/* ---- the limits of its time ---------------------------------------------------------------- */

/* A signal some time before the step's time limit, so that its tasks can save what they have:
 * once in the step's life, whichever agents it has. If the limit itself is nearer than that when
 * the tasks start, they get it at once. */

/* The first processes of all running tasks; to be freed. NULL: no memory. */
static uint32_t *running_ranks(const struct agent *a, size_t *ret_count)
{
	uint32_t *ranks = calloc(a->tasks.n + 1u, sizeof(*ranks)), i;
	size_t count = 0;

	for (i = 0; ranks && i < a->tasks.n; i++) {
		if (a->tasks.v[i].state == TASK_RUNNING)
			ranks[count++] = a->tasks.v[i].rank;
	}
	*ret_count = count;
	return ranks;
}

static int send_limit_signal(struct agent *a)
{
	const struct spec *spec = a->plan.spec;
	struct request_target target = {.whom = REQUEST_STEP};
	struct request_answer nobody = {.fn = NULL};
	_cleanup_free_ uint32_t *ranks = NULL;

	if (spec->time_limit_signal_to == SPEC_SIGNAL_TASKS) {
		target.whom = REQUEST_TASKS;
		target.alone = true;
		target.ranks = ranks = running_ranks(a, &target.ranks_count);
		if (!ranks)
			return -ENOMEM;
		if (target.ranks_count == 0)
			return 0; /* they have ended; their remaining processes end with the step */
	}
	return requests_add_signal(&a->requests, spec->time_limit_signal, &target, &nobody);
}

static void on_limit_signal(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	struct agent *a = w->data;
	char name[SIGNALS_NAME_SIZE];
	int r;

	assert(a);
	if (a->state != AGENT_RUNNING)
		return;
	pausable_stop(&a->limits.signal);
	(void)signals_name(a->plan.spec->time_limit_signal, name, sizeof(name));
	log_info(a->log, "the time limit of %.10g s is near: sending %s to the %s",
		(double)a->plan.spec->time_limit_ms / 1e3, name,
		spec_signal_to_names[a->plan.spec->time_limit_signal_to]);
	a->limits.signal_sent = true;
	/* An adopter must not send it again. */
	result_publish_state(a, suspend_state_name(a));
	r = send_limit_signal(a);
	if (r < 0)
		log_error(a->log, "can't signal the step: %s", strerror(-r));
}

static void start_limit_signal(struct agent *a, uint64_t left_ms)
{
	const struct spec *spec = a->plan.spec;

	if (!spec->time_limit_signal || a->limits.signal_sent)
		return;
	pausable_start(&a->limits.signal,
		left_ms > spec->time_limit_signal_ms ? left_ms - spec->time_limit_signal_ms : 0);
}

static void on_time_limit(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	struct agent *a = w->data;

	assert(a);
	if (a->state >= AGENT_ENDING) {
		if (mpi_link_is_open(a))
			log_warning(a->log,
				"the time limit of %.10g s is reached: not waiting for "
				"the step's other nodes any longer",
				(double)a->plan.spec->time_limit_ms / 1e3);
		mpi_link_over(a, true);
		return;
	}
	log_error(a->log, "the time limit of %.10g s is reached: ending the step",
		(double)a->plan.spec->time_limit_ms / 1e3);
	ending_begin(a, AGENT_REASON_TIME_LIMIT);
}

static void on_wait_limit(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	struct agent *a = w->data;

	assert(a);
	/* Not an error: --wait requests this, and the exit status is the tasks'. */
	log_warning(a->log,
		"tasks that still run %.10g s after the first one's end: %u; ending the step",
		(double)a->plan.spec->wait_ms / 1e3, a->tasks.running);
	ending_begin(a, AGENT_REASON_WAIT);
}

static void on_bad_exit_grace(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	struct agent *a = w->data;

	assert(a);
	log_error(a->log, "a task failed: ending the step (kill_on_bad_exit)");
	ending_begin(a, AGENT_REASON_BAD_EXIT);
}

static int watch_container(struct agent *a, struct err *err)
{
	int fd = proctrack_event_fd(a->pt, a->plan.job.cont_id), r;

	if (fd == -EOPNOTSUPP)
		return 0; /* each SIGCHLD leads to a check; for other members see reaping.h */
	r = fd < 0 ? fd : pri_watch_start(&a->watch.container, a->loop, fd, on_container, a);
	return r < 0 ? err_set(err, r, "watch the step's container") : 0;
}

int ending_watch(struct agent *a, struct err *err)
{
	ev_io_init(&a->watch.signal_io, on_signals, a->watch.signal_fd, EV_READ);
	a->watch.signal_io.data = a;
	ev_io_start(a->loop, &a->watch.signal_io);
	supervisor_line_watch(&a->watch.supervisor, a->loop, on_supervisor_gone, a);
	a->watch.member.loop = a->loop;
	a->watch.member.ended = on_member_end;
	a->watch.member.userdata = a;
	pausable_init(&a->limits.time, a->loop, on_time_limit, a);
	pausable_init(&a->limits.signal, a->loop, on_limit_signal, a);
	pausable_init(&a->limits.wait, a->loop, on_wait_limit, a);
	pausable_init(&a->limits.bad_exit_grace, a->loop, on_bad_exit_grace, a);
	a->end.killseq = (struct killseq){
		.loop = a->loop,
		.steps = a->plan.spec->kill_sequence,
		.count = a->plan.spec->kill_sequence_count,
		.unkillable_timeout_ms = a->plan.spec->unkillable_timeout_ms,
		.send = send_to_step,
		.unkillable = on_unkillable,
		.userdata = a,
	};
	a->requests = (struct requests){
		.pt = a->pt,
		.job = &a->plan.job,
		.suspend_timeout_ms = a->plan.spec->suspend_timeout_ms,
		.begin = on_request_begin,
		.done = on_request_done,
		.executing = find_executing,
		.rested = on_requests_rested,
		.userdata = a,
	};
	if (requests_init(&a->requests, a->loop) < 0)
		return err_set(err, -ENOMEM, "prepare the requests to the step's container");
	return watch_container(a, err);
}

/* The whole time limit; an adopted step began earlier. */
static uint64_t time_left_ms(const struct agent *a)
{
	uint64_t now_ns = clock_now_ns(), gone_ns = now_ns - a->origin.recover.running_ns;
	uint64_t limit_ms = a->plan.spec->time_limit_ms, stood_ns = a->suspend.total_ns, gone_ms;

	if (a->suspend.stands)
		stood_ns += now_ns - a->suspend.since_ns;
	gone_ms = gone_ns > stood_ns ? (gone_ns - stood_ns) / 1000000 : 0;
	if (a->origin.recover.adopted == 0)
		return limit_ms;
	return gone_ms < limit_ms ? limit_ms - gone_ms : 0;
}

/* Waits of the policies that the dead agent began start anew. */
static void resume_policies(struct agent *a)
{
	const struct spec *spec = a->plan.spec;
	uint32_t i, failed = 0, ended = 0;

	if (a->origin.recover.adopted == 0 || a->tasks.running == 0 || a->state != AGENT_RUNNING)
		return;
	for (i = 0; i < a->tasks.n; i++) {
		failed += task_failed(&a->tasks.v[i]);
		ended += a->tasks.v[i].state == TASK_ENDED && !a->tasks.v[i].spawn;
	}
	if (failed && spec->kill_on_bad_exit)
		pausable_start(&a->limits.bad_exit_grace, spec->kill_on_bad_exit_grace_ms);
	if (ended && spec->wait_given)
		pausable_start(&a->limits.wait, spec->wait_ms);
}

void ending_started(struct agent *a)
{
	reaping_watch_reports(a);
	if (a->plan.spec->time_limit_ms && a->state == AGENT_RUNNING) {
		pausable_start(&a->limits.time, time_left_ms(a));
		start_limit_signal(a, time_left_ms(a));
	}
	resume_policies(a);
}

void ending_go_on(struct agent *a)
{
	requests_rest(&a->requests, false);
	suspend_check(a);
	reaping_on_child(a); /* a pending signal would do, too, but only for one */
	join_go_on(a);
}

void ending_unwatch(struct agent *a)
{
	killseq_stop(&a->end.killseq);
	free(take_ptr(a->end.kill_steps));
	ev_io_stop(a->loop, &a->watch.signal_io);
	supervisor_line_pause(&a->watch.supervisor, true);
	ev_io_stop(a->loop, &a->start.report_io);
	pri_watch_stop(&a->watch.container);
	member_watch_stop(&a->watch.member);
	stop_limits(a);
	join_clear(a);
	requests_clear(&a->requests);
}

/* ---- re-exec ------------------------------------------------------------------------------- */

/* If the end was requested with a sequence other than the step's own. */
static void save_kill_steps(const struct agent *a, struct handover *h, json_t *array)
{
	size_t i;

	for (i = 0; a->end.kill_steps && i < a->end.killseq.count; i++) {
		handover_append_int(h, array, a->end.kill_steps[i].signal);
		handover_append_int(h, array, (int64_t)a->end.kill_steps[i].wait_ms);
	}
}

static int restore_kill_steps(struct agent *a, const json_t *array)
{
	size_t n = json_array_size(array) / 2, i;

	if (n == 0)
		return 0;
	a->end.kill_steps = calloc(n, sizeof(*a->end.kill_steps));
	if (!a->end.kill_steps)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		a->end.kill_steps[i] = (struct spec_kill){
			.signal = (int)json_integer_value(json_array_get(array, 2 * i)),
			.wait_ms = (uint64_t)json_integer_value(json_array_get(array, 2 * i + 1)),
		};
	a->end.killseq.steps = a->end.kill_steps;
	a->end.killseq.count = n;
	return 0;
}

void ending_save(struct agent *a, struct handover *h, struct json_t *object)
{
	json_t *suspend;

	save_kill_steps(a, h, handover_put_array(h, object, "kill_steps"));
	killseq_save(&a->end.killseq, h, handover_put_object(h, object, "killseq"));
	pausable_save(&a->limits.time, h, handover_put_object(h, object, "time_limit"));
	pausable_save(&a->limits.signal, h, handover_put_object(h, object, "limit_signal"));
	pausable_save(&a->limits.wait, h, handover_put_object(h, object, "wait_limit"));
	pausable_save(
		&a->limits.bad_exit_grace, h, handover_put_object(h, object, "bad_exit_grace"));
	suspend = handover_put_object(h, object, "suspend");
	suspend_save(&a->suspend, h, suspend);
	requests_save(&a->requests, h, handover_put_object(h, suspend, "requests"));
}

int ending_restore(struct agent *a, _unused_ const struct handover *h, const struct json_t *object,
	struct err *err)
{
	const json_t *suspend = json_get_object(object, "suspend");
	int r = ending_watch(a, err);

	if (r == 0 && restore_kill_steps(a, json_get_array(object, "kill_steps")) < 0)
		r = err_set(err, -ENOMEM, "restore the kill sequence");
	if (r < 0)
		return r;
	killseq_restore(&a->end.killseq, json_get_object(object, "killseq"));
	pausable_restore(&a->limits.time, json_get_object(object, "time_limit"));
	pausable_restore(&a->limits.signal, json_get_object(object, "limit_signal"));
	pausable_restore(&a->limits.wait, json_get_object(object, "wait_limit"));
	pausable_restore(&a->limits.bad_exit_grace, json_get_object(object, "bad_exit_grace"));
	suspend_restore(&a->suspend, suspend);
	r = requests_restore(&a->requests, json_get_object(suspend, "requests"));
	reaping_watch_reports(a);
	return r < 0 ? handover_err_part("requests", err) : 0;
}
