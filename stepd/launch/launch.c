/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/launch/launch.h"

#include <fcntl.h>
#include <signal.h>

#include "proctrack/proctrack.h"
#include "stepd/launch/plan.h"
#include "stepd/process/process.h"
#include "stepd/stdio/stdio.h"

#define REPORT_FD_LEAST 64

/* What tasks report through as long as the MPI plugin's hook runs in them, which may take a low
 * descriptor of its choice for their program. */
static int move_up(int *fd)
{
	int moved = fcntl(*fd, F_DUPFD_CLOEXEC, REPORT_FD_LEAST);

	if (moved < 0)
		return errno == EINVAL ? 0 : -errno; /* so few are allowed */
	(void)close_fd(*fd);
	*fd = moved;
	return 0;
}

/* A session for each task, where the tracker can follow: the kernel shares the processors out by
 * sessions, so that each gets its part beside other programs. But those at a terminal keep it, and
 * its job control, if they run as who has it. */
static int choose_session(struct launch *l, struct err *err)
{
	const struct plan *plan = l->setup.plan;
	const struct spec *spec = plan->spec;
	bool terminal = process_has_terminal(), able = proctrack_spans_sessions(l->pt);

	if (spec->session == SPEC_SESSION_TASK && !able)
		return err_say(err, -EOPNOTSUPP,
			"session: task: %s needs a step's tasks in one process group; use auto or agent, "
			"or another proctrack plugin",
			proctrack_get_type(l->pt));
	l->setup.own_session = spec->session == SPEC_SESSION_TASK ||
		(spec->session == SPEC_SESSION_AUTO && able && (plan->id.switches || !terminal));
	l->setup.leave_terminal = terminal && plan->id.switches;
	l->setup.hide_memory = plan->id.switches && process_is_exposed();
	if (l->setup.own_session)
		l->group = -1;
	if (spec->nice_given)
		(void)snprintf(l->setup.nice_text, sizeof(l->setup.nice_text), "%d", spec->nice);
	return 0;
}

int launch_open(
	struct launch *l, struct proctrack *pt, struct stdio *io, bool hold, struct err *err)
{
	int report[2], held[2], fd;

	l->pt = pt;
	l->io = io;
	if (choose_session(l, err) < 0)
		return err->code;
	fd = proctrack_clone_fd(pt, &l->setup.plan->job, l->first);
	if (fd < 0 && fd != -EOPNOTSUPP)
		return err_set(err, fd, "make the container of task %u",
			l->setup.plan->job.task[l->first].gtid);
	l->into = fd >= 0;
	l->next_clone_fd = fd >= 0 ? fd : -1;
	if (pipe2(report, O_CLOEXEC) < 0)
		return err_set(err, -errno, "make the pipe for the tasks' reports");
	l->report_fd = report[0];
	l->task_report_fd = report[1];
	if (fcntl(l->report_fd, F_SETFL, O_NONBLOCK) < 0 || move_up(&l->task_report_fd) < 0)
		return err_set(err, -errno, "make the pipe for the tasks' reports");
	if (!hold && l->into)
		return 0;
	if (pipe2(held, O_CLOEXEC) < 0)
		return err_set(err, -errno, "make the pipe that holds the tasks");
	l->hold_fd = held[0];
	l->hold_write_fd = held[1];
	return 0;
}

static int next_clone_fd(struct launch *l, uint32_t local_id)
{
	if (!l->into)
		return -1;
	if (l->next_clone_fd >= 0)
		return take_fd(&l->next_clone_fd);
	return proctrack_clone_fd(l->pt, &l->setup.plan->job, local_id);
}

/* Held tasks are put where they belong by the agent: into the step's process group first, unless
 * they lead sessions, for a backend that works by groups then takes them into its own. */
static int adopt_held(struct launch *l, uint32_t rank, pid_t pid, struct err *err)
{
	stepd_step_rec_t *job = &l->setup.plan->job;
	int r;

	if (!l->setup.own_session && setpgid(pid, l->group ? l->group : pid) < 0)
		r = err_set(err, -errno, "put task %u into the step's process group", rank);
	else if ((r = proctrack_add(l->pt, job, pid)) == -ESRCH)
		r = 0; /* it ended before it was held: its report tells why */
	else if (r < 0)
		(void)err_set(err, r, "put task %u into the step's container", rank);
	if (r < 0)
		(void)kill(pid, SIGKILL); /* our own child, not reaped; r says more */
	return r;
}

static void run_child(void *context)
{
	child_main(context);
}

/* Where the next task joins. */
static void note_group(struct launch *l, pid_t first)
{
	if (!l->into) { /* a backend may have put it into a group of its own */
		l->group = getpgid(first);
		return;
	}
	/* It does that itself too, but maybe later than the next one wants to join. EACCES: it runs
	 * its program already. */
	(void)setpgid(first, first);
	l->group = first;
}

static int fork_into(
	struct launch *l, struct child_context *context, pid_t *ret_pid, struct err *err)
{
	stepd_step_rec_t *job = &l->setup.plan->job;
	uint32_t local_id = context->io.local_id, rank = job->task[local_id].gtid;
	_cleanup_close_ int cgroup_fd = next_clone_fd(l, local_id);
	int r;

	if (l->into && cgroup_fd < 0)
		return err_set(err, cgroup_fd, "make the container of task %u", rank);
	context->setup = &l->setup;
	context->group = l->into ? l->group : -1;
	context->adopted = !l->into;
	context->report_fd = l->task_report_fd;
	context->hold_fd = l->hold_fd;
	context->hold_write_fd = l->hold_write_fd;
	l->spawn.cgroup_fd = cgroup_fd;
	r = spawn_child(&l->spawn, run_child, context, &context->own_signals, ret_pid);
	if (r < 0)
		return err_set(err, r, "fork task %u", rank);
	job->task[local_id].pid = *ret_pid;
	if (!l->into) {
		r = adopt_held(l, rank, *ret_pid, err);
		if (r < 0) {
			*ret_pid = 0;
			return r;
		}
	}
	if (l->group == 0)
		note_group(l, *ret_pid);
	return 0;
}

int launch_fork(struct launch *l, uint32_t local_id, struct child_context *context, pid_t *ret_pid,
	struct err *err)
{
	struct stdio_task io;
	int r;

	r = stdio_task_open(l->io, local_id, &io, err);
	if (r < 0)
		return r;
	context->io = io;
	r = fork_into(l, context, ret_pid, err);
	stdio_task_close(l->io, &io);
	return r;
}

int launch_release(struct launch *l, struct err *err)
{
	int r = 0;

	l->task_report_fd = close_fd(l->task_report_fd);
	l->released = true;
	/* The byte stays in the pipe: everyone who polls finds it. Our own reading end is open
	 * until then, for all tasks may have failed before. */
	if (l->hold_write_fd >= 0 && write(l->hold_write_fd, "", 1) != 1)
		r = err_set(err, -errno, "release the tasks");
	l->hold_fd = close_fd(l->hold_fd);
	return r;
}

/* The pipe holds whole records: each is written in one piece below PIPE_BUF. */
bool launch_read_reports(struct launch *l, launch_report_fn fn, void *userdata)
{
	struct child_report reports[64];
	ssize_t n, i;

	while (l->report_fd >= 0) {
		n = read(l->report_fd, reports, sizeof(reports));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return false;
		for (i = 0; i < n / (ssize_t)sizeof(reports[0]); i++)
			fn(&reports[i], userdata);
		if (n <= 0)
			break;
	}
	return true;
}

void launch_close(struct launch *l)
{
	l->task_report_fd = close_fd(l->task_report_fd);
	l->hold_fd = close_fd(l->hold_fd);
	l->next_clone_fd = close_fd(l->next_clone_fd);
	l->report_fd = close_fd(l->report_fd);
	l->hold_write_fd = close_fd(l->hold_write_fd);
}
