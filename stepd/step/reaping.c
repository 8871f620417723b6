/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/reaping.h"

#include <assert.h>
#include <sys/wait.h>

#include "proctrack/proctrack.h"
#include "stepd/account/account.h"
#include "stepd/base/clock.h"
#include "stepd/base/failpoint.h"
#include "stepd/base/log.h"
#include "stepd/record/events.h"
#include "stepd/record/report.h"
#include "stepd/step/ending.h"
#include "stepd/step/exit_watch.h"
#include "stepd/step/join.h"
#include "stepd/step/mpi_link.h"
#include "stepd/step/singletons.h"

/* ---- reports ------------------------------------------------------------------------------- */

/* ended: the task as it will be, once it has ended. */
static void add_exit(struct agent *a, const struct task *ended, struct event *event)
{
	char words[TASK_TEXT_SIZE];

	event->rank = ended->rank;
	event->pid = ended->pid;
	if (event->exit_code != 0)
		event->text = task_text(ended, words, sizeof(words));
	events_add(a->events, event);
}

static void tell_task_end(struct agent *a, const struct task *task, int wait_status)
{
	struct event event = EVENT_INIT(EVENT_TASK_EXIT);
	struct task ended = *task;

	ended.state = TASK_ENDED;
	ended.wait_status = wait_status;
	event.wait_status = wait_status;
	event.exit_code = task_exit_code(&ended);
	add_exit(a, &ended, &event);
}

void reaping_report_lost(struct agent *a, const struct task *task)
{
	struct event event = EVENT_INIT(EVENT_TASK_EXIT);
	struct task ended = *task;

	ended.state = TASK_ENDED;
	ended.lost = true;
	add_exit(a, &ended, &event);
}

/* ---- what follows from an end -------------------------------------------------------------- */

/* The policies for one task's end. */
static void apply_policies(struct agent *a, const struct task *task)
{
	const struct spec *spec = a->plan.spec;
	char words[TASK_TEXT_SIZE];

	if (a->state != AGENT_RUNNING || task->exec_status || task->dropped)
		return;
	if (task_failed(task))
		log_info(a->log, "task %u %s", task->rank, task_text(task, words, sizeof(words)));
	if (a->tasks.running == 0)
		return;
	if (task_failed(task) && spec->kill_on_bad_exit &&
		!pausable_is_set(&a->limits.bad_exit_grace))
		pausable_start(&a->limits.bad_exit_grace, spec->kill_on_bad_exit_grace_ms);
	/* The tasks of a spawn may come and go while those that requested them work on. */
	if (spec->wait_given && !task->spawn && !pausable_is_set(&a->limits.wait))
		pausable_start(&a->limits.wait, spec->wait_ms);
}

/* Others that wait for a rank which has died between MPI_Init and MPI_Finalize would wait for ever:
 * so they end with it where nothing else was requested. With a grace time they have that. */
static bool ends_mpi_step(const struct agent *a, const struct task *task)
{
	const struct spec *spec = a->plan.spec;

	if (a->state != AGENT_RUNNING || task->requested || task->exec_status || task->dropped)
		return false;
	if (!spec->kill_on_bad_exit_given)
		return true;
	return spec->kill_on_bad_exit && spec->kill_on_bad_exit_grace_ms == 0;
}

/* It has ended: nothing of it stays but its record. */
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
	settle_task(a, task);
}

void reaping_adopted_task(struct agent *a, uint32_t index, bool known, int wait_status)
{
	struct task *task = index < a->tasks.n ? &a->tasks.v[index] : NULL;

	if (!task || task->state != TASK_RUNNING)
		return;
	if (known)
		tell_task_end(a, task, wait_status);
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

static void on_report(const struct child_report *report, void *userdata)
{
	struct err err = ERR_INIT;
	struct agent *a = userdata;
	struct task *task;

	if (report->local_id >= a->tasks.n)
		return; /* a child can't write that; nothing to name */
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
	/* A new program has the pipe and no more of the launch. */
	a->start.launch.setup.plan = &a->plan;
	if (!launch_read_reports(&a->start.launch, on_report, a))
		return;
	ev_io_stop(a->loop, &a->start.report_io);
	a->start.launch.report_fd = close_fd(a->start.launch.report_fd);
	trace_phase(a->trace, "exec", a->start.release_ns);
}

/* ---- children ------------------------------------------------------------------------------ */

/* As of wait(2). */
static int wait_status_of(const siginfo_t *info)
{
	if (info->si_code == CLD_EXITED)
		return W_EXITCODE(info->si_status, 0);
	return info->si_status | (info->si_code == CLD_DUMPED ? WCOREFLAG : 0);
}

/* A task's end is written down before the kernel forgets it: should the agent be killed in between,
 * the next one finds there what nobody else knows any more. */
void reaping_poll(struct agent *a)
{
	siginfo_t info = {0};
	const struct task *task;
	struct rusage usage;
	int wait_status;

	exit_watch_poll(a->origin.exits);
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
		if (!mpi_link_reaped(a, info.si_pid, wait_status))
			on_child_end(a, info.si_pid, wait_status, &usage);
		info.si_pid = 0;
	}
}

/* Not within reaping_poll(): first all that has ended is noted. */
void reaping_act(struct agent *a)
{
	if (a->start.exec_failed)
		ending_begin(a, AGENT_REASON_EXEC);
	ending_on_oom(a);
	join_act(a);
}

void reaping_settled(struct agent *a)
{
	reaping_act(a);
	ending_check(a);
}

void reaping_on_child(struct agent *a)
{
	reaping_poll(a);
	reaping_settled(a);
}

static void on_report_fd(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	assert(w->data);
	read_reports(w->data);
	reaping_act(w->data);
}

void reaping_watch_reports(struct agent *a)
{
	if (a->start.launch.report_fd < 0)
		return;
	ev_io_init(&a->start.report_io, on_report_fd, a->start.launch.report_fd, EV_READ);
	a->start.report_io.data = a;
	ev_io_start(a->loop, &a->start.report_io);
}
