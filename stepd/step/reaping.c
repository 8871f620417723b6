/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/reaping.h"

#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "proctrack/proctrack.h"
#include "stepd/account/account.h"
#include "stepd/base/buffer.h"
#include "stepd/base/clock.h"
#include "stepd/base/err.h"
#include "stepd/base/failpoint.h"
#include "stepd/base/fs.h"
#include "stepd/base/proc.h"
#include "stepd/launch/hooks.h"
#include "stepd/record/events.h"
#include "stepd/record/report.h"
#include "stepd/snapshot/handover.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/ending.h"
#include "stepd/step/join.h"
#include "stepd/step/mpi_link.h"

/* ---- the ends of tasks --------------------------------------------------------------------- */

/* ---- reports ------------------------------------------------------------------------------- */

/* ended: a copy of the task with its end. */
static void add_exit_event(struct agent *a, const struct task *ended, struct event *event)
{
	char outcome[TASK_TEXT_SIZE];

	event->rank = ended->rank;
	event->pid = ended->pid;
	if (event->exit_code != 0)
		event->text = task_text(ended, outcome, sizeof(outcome));
	events_add(a->events, event);
}

static void report_task_end(struct agent *a, const struct task *task, int wait_status)
{
	struct event event = EVENT_INIT(EVENT_TASK_EXIT);
	struct task ended = *task;

	ended.state = TASK_ENDED;
	ended.wait_status = wait_status;
	event.wait_status = wait_status;
	event.exit_code = task_exit_code(&ended);
	add_exit_event(a, &ended, &event);
}

void reaping_report_lost(struct agent *a, const struct task *task)
{
	struct event event = EVENT_INIT(EVENT_TASK_EXIT);
	struct task ended = *task;

	ended.state = TASK_ENDED;
	ended.lost = true;
	add_exit_event(a, &ended, &event);
}

/* ---- what follows from an end -------------------------------------------------------------- */

/* The policies for one task's end. */
static void apply_policies(struct agent *a, const struct task *task)
{
	const struct spec *spec = a->plan.spec;
	char outcome[TASK_TEXT_SIZE];

	if (a->state != AGENT_RUNNING || task->exec_status || task->dropped)
		return;
	if (task_failed(task))
		log_info(a->log, "task %u %s", task->rank,
			task_text(task, outcome, sizeof(outcome)));
	if (a->tasks.running == 0)
		return;
	if (task_failed(task) && spec->kill_on_bad_exit &&
		!pausable_is_set(&a->limits.bad_exit_grace))
		pausable_start(&a->limits.bad_exit_grace, spec->kill_on_bad_exit_grace_ms);
	/* Spawned tasks may come and go while those that requested them continue. */
	if (spec->wait_given && !task->spawn && !pausable_is_set(&a->limits.wait))
		pausable_start(&a->limits.wait, spec->wait_ms);
}

/* Ranks that wait for one that died between MPI_Init and MPI_Finalize would wait for ever: they
 * end with it unless the spec requests otherwise. A grace time is granted first. */
static bool ends_mpi_step(const struct agent *a, const struct task *task)
{
	const struct spec *spec = a->plan.spec;

	if (a->state != AGENT_RUNNING || task->requested || task->exec_status || task->dropped)
		return false;
	if (!spec->kill_on_bad_exit_given)
		return true;
	return spec->kill_on_bad_exit && spec->kill_on_bad_exit_grace_ms == 0;
}

/* It has ended: only its record stays. */
static void settle_task(struct agent *a, struct task *task)
{
	a->plan.job.task[task - a->tasks.v].pid = 0;
	proctrack_task_ended(a->pt, &a->plan.job, (uint32_t)(task - a->tasks.v));
	trace_task(a->trace, "task", task->rank, task->start_ns, task->end_ns);
	mpi_link_task_exit(a, task, ends_mpi_step(a, task));
	join_task_ended(a, (uint32_t)(task - a->tasks.v));
	apply_policies(a, task);
}

static void on_child_end(struct agent *a, pid_t pid, int wait_status, const struct rusage *usage)
{
	struct task *task = tasks_find(&a->tasks, pid);

	account_reaped(&a->account, task, usage, a->start.launch.rss_kib);
	if (!task) {
		log_debug(a->log, "pid %d, which a task left behind, ended", (int)pid);
		return;
	}
	tasks_ended(&a->tasks, task, wait_status, clock_now_ns());
	hooks_task_ended(a->hooks, &a->plan, (uint32_t)(task - a->tasks.v), pid, wait_status);
	settle_task(a, task);
}

void reaping_adopted_task(struct agent *a, uint32_t index, bool known, int wait_status)
{
	struct task *task = index < a->tasks.n ? &a->tasks.v[index] : NULL;

	if (!task || task->state != TASK_RUNNING)
		return;
	account_read_oom(&a->account);
	if (known)
		report_task_end(a, task, wait_status);
	else
		reaping_report_lost(a, task);
	account_poll_task(&a->account, task);
	if (known)
		tasks_ended(&a->tasks, task, wait_status, clock_now_ns());
	else
		tasks_lost(&a->tasks, task, clock_now_ns());
	settle_task(a, task);
}

/* ---- the report pipe ----------------------------------------------------------------------- */

static void reaping_on_report(const struct child_report *report, void *userdata)
{
	struct err err = ERR_INIT;
	struct agent *a = userdata;
	struct task *task;

	if (report->local_id >= a->tasks.n)
		return; /* no child writes that: invalid */
	task = &a->tasks.v[report->local_id];
	if (report->stage == CHILD_STAGE_EXEC && report->error == 0) {
		trace_task(a->trace, "exec", task->rank, report->time_ns, report->time_ns);
		return;
	}
	if (report->stage == CHILD_STAGE_LINKED) {
		singletons_linked(a, report->detail);
		return;
	}
	task->exec_status = child_report_explain(&a->start.launch.setup, report, &err);
	log_error(a->log, "%s", err.text);
	a->start.exec_failed = true;
}

static void read_reports(struct agent *a)
{
	join_read_reports(a);
	if (a->start.launch.report_fd < 0)
		return;
	/* A new program has only the pipe of the launch. */
	a->start.launch.setup.plan = &a->plan;
	if (!launch_read_reports(&a->start.launch, reaping_on_report, a))
		return;
	ev_io_stop(a->loop, &a->start.report_io);
	a->start.launch.report_fd = close_fd(a->start.launch.report_fd);
	trace_phase(a->trace, "exec", a->start.release_ns);
}

/* ---- children ------------------------------------------------------------------------------ */

/* status as of wait(2). */
static int wait_status_of(const siginfo_t *info)
{
	if (info->si_code == CLD_EXITED)
		return W_EXITCODE(info->si_status, 0);
	return info->si_status | (info->si_code == CLD_DUMPED ? WCOREFLAG : 0);
}

/* Ends that are recorded by one write. */
#define ENDS_MAX 64

/* Children that have ended and are not reaped: tasks, or one that is no task. */
struct ends {
	struct {
		pid_t pid;
		int wait_status;
	} v[ENDS_MAX];
	size_t n;
};

static bool add_end(struct ends *ends, idtype_t type, pid_t pid)
{
	siginfo_t info = {0};

	if (waitid(type, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
		return false;
	ends->v[ends->n].pid = info.si_pid;
	ends->v[ends->n++].wait_status = wait_status_of(&info);
	failpoint("waited");
	return true;
}

/* Any child, and where it is a task those behind it in the table, up to one that runs: tasks that
 * began together mostly end together. */
static bool find_ends(struct agent *a, struct ends *ends)
{
	const struct task *task, *end = a->tasks.v + a->tasks.n;

	ends->n = 0;
	if (!add_end(ends, P_ALL, 0))
		return false;
	task = tasks_find(&a->tasks, ends->v[0].pid);
	while (task && ++task < end && task->state == TASK_RUNNING && ends->n < ENDS_MAX) {
		if (!add_end(ends, P_PID, task->pid))
			break;
	}
	return true;
}

static void record_ends(struct agent *a, const struct ends *ends)
{
	const struct task *task;
	size_t i;

	account_read_oom(&a->account);
	events_begin(a->events);
	for (i = 0; i < ends->n; i++) {
		task = tasks_find(&a->tasks, ends->v[i].pid);
		if (task)
			report_task_end(a, task, ends->v[i].wait_status);
	}
	events_end(a->events);
}

/* Only what is no task, and so alone, may act on the step here and have others reaped. */
static bool reap_ends(struct agent *a, const struct ends *ends)
{
	struct rusage usage;
	int wait_status;
	size_t i;

	for (i = 0; i < ends->n; i++) {
		failpoint("task-recorded");
		if (wait4(ends->v[i].pid, &wait_status, WNOHANG, &usage) != ends->v[i].pid)
			return false; /* our own child that has ended: can't be */
		failpoint("reaped");
		if (!mpi_link_reaped(a, ends->v[i].pid, wait_status))
			on_child_end(a, ends->v[i].pid, wait_status, &usage);
	}
	return true;
}

/* A task's end is recorded before it is reaped: if the agent is killed in between, its adopter
 * finds the status there, which exists nowhere else any more. */
void reaping_poll(struct agent *a)
{
	struct ends ends;

	exit_watch_poll(a->origin.exits);
	while (find_ends(a, &ends)) {
		/* A task that could not be executed has written the reason before it ended. */
		read_reports(a);
		record_ends(a, &ends);
		if (!reap_ends(a, &ends))
			return;
	}
}

/* Not within reaping_poll(): all ends are recorded first. */
/* Acts on the recorded ends: a task that could not be executed, or ran out of memory, may end the
 * step. */
static void reaping_act(struct agent *a)
{
	if (a->start.exec_failed)
		ending_begin(a, AGENT_REASON_EXEC);
	ending_on_oom(a);
	join_act(a);
}

static void reaping_settled(struct agent *a)
{
	reaping_act(a);
	ending_check(a);
}

void reaping_on_child(struct agent *a)
{
	reaping_poll(a);
	reaping_settled(a);
}

static void reaping_on_report_fd(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	assert(w->data);
	read_reports(w->data);
	reaping_act(w->data);
}

void reaping_watch_reports(struct agent *a)
{
	if (a->start.launch.report_fd < 0)
		return;
	ev_io_init(&a->start.report_io, reaping_on_report_fd, a->start.launch.report_fd, EV_READ);
	a->start.report_io.data = a;
	ev_io_start(a->loop, &a->start.report_io);
}

/* ---- the tasks of an adopted step ---------------------------------------------------------- */

#define EVENTS_MAX    64
#define PATIENCE_S    1.
#define INFO_EXIT     (1u << 3)
#define PIDFD_INFO_NR 11

/* <linux/pidfd.h> of Linux 6.13; the ioctl's number has the size. */
struct pidfd_info_v0 {
	uint64_t mask, cgroupid;
	uint32_t pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
	int32_t exit_code; /* as wait(2) has it; Linux 6.15 */
};

struct entry {
	struct pidref ref; /* fd -1: reported */
	uint32_t index;    /* of the task */
	bool late;         /* it has ended, and its parent has not reaped it */
};

struct exit_watch {
	struct agent *a;
	/* All pidfds are in here, edge-triggered: a zombie's would be readable all the time. The
	 * first edge is the end, the second, which is a hang-up, that it was reaped. */
	int epoll_fd;
	ev_io io;
	ev_timer patience;
	struct entry *v;
	size_t n, capacity, count; /* count: not reported */
};

/* 1: known, 0: not yet, or never, -errno: not with this kernel. */
static int exit_watch_read_status(int pidfd, int *ret_status)
{
	struct pidfd_info_v0 info = {.mask = INFO_EXIT};

	if (ioctl(pidfd, _IOWR(0xff, PIDFD_INFO_NR, struct pidfd_info_v0), &info) < 0)
		return -errno;
	if (!(info.mask & INFO_EXIT))
		return 0;
	*ret_status = info.exit_code;
	return 1;
}

/* Whether /proc shows us all of that process: hidden values read as 0. The link has the same
 * condition as the status (PTRACE_MODE_READ_FSCREDS), also for a zombie. */
static bool is_open_to_us(pid_t pid)
{
	char path[64], target[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	return readlink(path, target, sizeof(target)) > 0;
}

/* Of a zombie: the last field of its /proc/PID/stat (Linux 3.5). */
static bool exit_watch_read_zombie(const struct pidref *ref, int *ret_status)
{
	_cleanup_free_ char *text = NULL;
	const char *last;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)ref->pid);
	if (!is_open_to_us(ref->pid) || fs_read(AT_FDCWD, path, 8192, &text, NULL) < 0)
		return false;
	last = strrchr(text, ' ');
	if (!last || pidref_signal(ref, 0) < 0)
		return false; /* it was reaped meanwhile: the process that was read may be another
				 with that pid */
	*ret_status = (int)strtol(last, NULL, 10);
	return true;
}

static void exit_watch_report(struct exit_watch *w, size_t i, bool known, int wait_status)
{
	pidref_close(&w->v[i].ref);
	w->v[i].late = false;
	w->count--;
	reaping_adopted_task(w->a, w->v[i].index, known, wait_status);
}

static void exit_watch_poll_one(struct exit_watch *w, size_t i, bool reaped)
{
	int status = 0, r;

	if (w->v[i].ref.fd < 0)
		return;
	r = exit_watch_read_status(w->v[i].ref.fd, &status);
	if (r <= 0 && !reaped && exit_watch_read_zombie(&w->v[i].ref, &status))
		r = 1;
	if (r > 0 || r < 0 || reaped) {
		exit_watch_report(w, i, r > 0, status);
		return;
	}
	w->v[i].late = true;
	if (!ev_is_active(&w->patience)) {
		ev_now_update(w->a->loop);
		ev_timer_set(&w->patience, PATIENCE_S, 0.);
		ev_timer_start(w->a->loop, &w->patience);
	}
}

static void exit_watch_on_patience(
	_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct exit_watch *w = timer->data;
	size_t i;

	assert(w);
	for (i = 0; i < w->n; i++) {
		if (w->v[i].late)
			exit_watch_report(w, i, false, 0);
	}
	reaping_settled(w->a);
}

void exit_watch_poll(struct exit_watch *w)
{
	struct epoll_event events[EVENTS_MAX];
	int n = w ? EVENTS_MAX : 0, i;

	while (n == EVENTS_MAX) {
		n = epoll_wait(w->epoll_fd, events, EVENTS_MAX, 0);
		for (i = 0; i < n; i++)
			exit_watch_poll_one(w, events[i].data.u64, events[i].events & EPOLLHUP);
	}
}

static void exit_watch_on_ends(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct exit_watch *w = io->data;

	assert(w);
	exit_watch_poll(w);
	reaping_settled(w->a);
}

int exit_watch_open(struct agent *a)
{
	struct exit_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->a = a;
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (w->epoll_fd < 0) {
		free(w);
		return -errno;
	}
	ev_io_init(&w->io, exit_watch_on_ends, w->epoll_fd, EV_READ);
	ev_init(&w->patience, exit_watch_on_patience);
	w->io.data = w->patience.data = w;
	ev_io_start(a->loop, &w->io);
	a->origin.exits = w;
	return 0;
}

int exit_watch_add_take(struct exit_watch *w, struct pidref *ref, uint32_t index)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};

	if (w->count == 0)
		w->n = 0;
	event.data.u64 = w->n;
	if (array_reserve(w->v, w->capacity, w->n + 1) < 0)
		return -ENOMEM;
	if (epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, ref->fd, &event) < 0)
		return -errno;
	w->v[w->n++] = (struct entry){.ref = *ref, .index = index};
	w->count++;
	*ref = (struct pidref)PIDREF_INIT;
	return 0;
}

void exit_watch_save(const struct exit_watch *w, struct handover *h, json_t *object)
{
	json_t *array = handover_put_array(h, object, "processes"), *one;
	size_t i;

	for (i = 0; i < w->n; i++) {
		if (w->v[i].ref.fd < 0)
			continue;
		one = handover_append_object(h, array);
		handover_put_fd(h, one, "pidfd", w->v[i].ref.fd);
		handover_put_int(h, one, "pid", w->v[i].ref.pid);
		handover_put_int(h, one, "start_ticks", (int64_t)w->v[i].ref.start_ticks);
		handover_put_int(h, one, "index", w->v[i].index);
	}
}

/* A descriptor's first edge after it is added reports earlier events, too. A late one gets
 * another second. */
int exit_watch_restore(struct agent *a, const json_t *object, struct err *err)
{
	const json_t *array = json_get_array(object, "processes"), *one;
	_cleanup_pidref_ struct pidref ref = PIDREF_INIT;
	size_t i;
	int r = exit_watch_open(a);

	for (i = 0; r == 0 && i < json_array_size(array); i++) {
		one = json_array_get(array, i);
		ref.pid = (pid_t)json_get_int(one, "pid", 0);
		ref.fd = handover_get_fd(one, "pidfd");
		ref.start_ticks = (uint64_t)json_get_int(one, "start_ticks", 0);
		if (ref.pid <= 0 || ref.fd < 0)
			return handover_err_part("processes", err);
		r = exit_watch_add_take(
			a->origin.exits, &ref, (uint32_t)json_get_int(one, "index", 0));
	}
	return r < 0 ? err_set(err, r, "restore the watch of the step's processes") : 0;
}

struct exit_watch *exit_watch_close(struct exit_watch *w)
{
	size_t i;

	if (!w)
		return NULL;
	ev_io_stop(w->a->loop, &w->io);
	ev_timer_stop(w->a->loop, &w->patience);
	for (i = 0; i < w->n; i++)
		pidref_close(&w->v[i].ref);
	(void)close_fd(w->epoll_fd);
	free(w->v);
	free(w);
	return NULL;
}

/* ---- members that nothing watches ---------------------------------------------------------- */

/* Listings in which every member ended before it could be held. */
#define TRIES_MAX 8

#define AGAIN_S 1.

static void member_watch_on_end(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct member_watch *w = io->data;

	assert(w);
	member_watch_stop(w);
	w->ended(w->userdata);
}

static void member_watch_on_again(
	_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct member_watch *w = timer->data;

	assert(w);
	w->ended(w->userdata);
}

/* Holds a member. A pid may have been reused since it was listed. */
static int member_watch_hold(struct proctrack *pt, uint64_t cont_id, const pid_t *pids, int n)
{
	struct pidref ref = PIDREF_INIT;
	int i;

	for (i = 0; i < n; i++) {
		if (pidref_open(pids[i], 0, &ref) < 0)
			continue;
		if (proctrack_has_pid(pt, cont_id, pids[i]))
			return take_fd(&ref.fd);
		pidref_close(&ref);
	}
	return -1;
}

static void member_watch_retry(struct member_watch *w)
{
	if (ev_is_active(&w->again))
		return;
	ev_now_update(w->loop);
	ev_timer_init(&w->again, member_watch_on_again, AGAIN_S, 0.);
	w->again.data = w;
	ev_timer_start(w->loop, &w->again);
}

bool member_watch_any(struct member_watch *w, struct proctrack *pt, uint64_t cont_id)
{
	int try, n = 1;

	for (try = 0; w->pidfd < 0 && n > 0 && try < TRIES_MAX; try++) {
		_cleanup_free_ pid_t *pids = NULL;

		if (proctrack_get_pids(pt, cont_id, &pids, &n) < 0)
			break;
		w->pidfd = member_watch_hold(pt, cont_id, pids, n);
	}
	if (w->pidfd < 0) {
		member_watch_retry(w);
		return false;
	}
	if (!ev_is_active(&w->io)) {
		ev_io_init(&w->io, member_watch_on_end, w->pidfd, EV_READ);
		w->io.data = w;
		ev_io_start(w->loop, &w->io);
	}
	return true;
}

void member_watch_stop(struct member_watch *w)
{
	if (ev_is_active(&w->again))
		ev_timer_stop(w->loop, &w->again);
	if (w->pidfd < 0)
		return;
	ev_io_stop(w->loop, &w->io);
	w->pidfd = close_fd(w->pidfd);
}
