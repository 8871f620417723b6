/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/launch/launch.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "config.h"
#include "mpi/mpi.h"
#include "proctrack/proctrack.h"
#include "stepd/base/fs.h"
#include "stepd/base/proc.h"
#include "stepd/launch/plan.h"
#include "stepd/process/mount_namespace.h"
#include "stepd/process/process.h"
#include "stepd/stdio/stdio.h"

#define REPORT_FD_LEAST 64

/* Moves a descriptor up while the MPI plugin's hook may run in tasks: the hook may use a low
 * descriptor for the program. */
static int move_up(int *fd)
{
	int moved = fcntl(*fd, F_DUPFD_CLOEXEC, REPORT_FD_LEAST);

	if (moved < 0)
		return errno == EINVAL ? 0 : -errno; /* so few are allowed */
	(void)close_fd(*fd);
	*fd = moved;
	return 0;
}

/* A session for each task, where the tracker allows it: with autogrouping, each task gets its
 * share of the CPUs. Tasks at a terminal stay in its session, with its job control, if they run
 * as its user. */
static int choose_session(struct launch *l, struct err *err)
{
	const struct plan *plan = l->setup.plan;
	const struct spec *spec = plan->spec;
	bool terminal = process_has_terminal(), able = proctrack_spans_sessions(l->pt);

	if (spec->session == SPEC_SESSION_TASK && !able)
		return err_set_text(err, -EOPNOTSUPP,
			"session: task: %s needs a step's tasks in one process group; use auto or agent, "
			"or another proctrack plugin",
			proctrack_get_type(l->pt));
	if (spec->pty_count > 0 && !able)
		return err_set_text(err, -EOPNOTSUPP,
			"pty: %s needs a step's tasks in one process group, and a task with a terminal "
			"leads a session of its own; use another proctrack plugin",
			proctrack_get_type(l->pt));
	l->setup.own_session = spec->session == SPEC_SESSION_TASK || spec->pty_count > 0 ||
		(spec->session == SPEC_SESSION_AUTO && able && (plan->id.switches || !terminal));
	l->setup.leave_terminal = terminal && plan->id.switches;
	l->setup.hide_memory = plan->id.switches && process_is_exposed();
	if (l->setup.own_session)
		l->group = -1;
	if (spec->nice_given)
		(void)snprintf(l->setup.nice_text, sizeof(l->setup.nice_text), "%d", spec->nice);
	return 0;
}

static int open_namespace(struct launch *l, struct err *err)
{
	const char *path = l->setup.plan->spec->mount_namespace;

	if (path) {
		l->namespace_fd = mount_namespace_open(path, err);
		if (l->namespace_fd < 0)
			return l->namespace_fd;
		l->root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (l->root_fd < 0)
			return err_set(err, -errno, "open '/'");
	}
	l->setup.namespace_fd = l->namespace_fd;
	l->setup.root_fd = l->root_fd;
	return 0;
}

int launch_open(struct launch *l, struct proctrack *pt, bool hold, struct err *err)
{
	int report[2], held[2], fd;

	l->pt = pt;
	if (choose_session(l, err) < 0 || open_namespace(l, err) < 0)
		return err->code;
	fd = proctrack_clone_fd(pt, &l->setup.plan->job, l->first);
	if (fd < 0 && fd != -EOPNOTSUPP)
		return err_set(err, fd, "make the container of task %u",
			l->setup.plan->job.task[l->first].gtid);
	l->into = fd >= 0;
	l->hold = hold || !l->into;
	l->next_clone_fd = fd >= 0 ? fd : -1;
	if (pipe2(report, O_CLOEXEC) < 0)
		return err_set(err, -errno, "make the pipe for the tasks' reports");
	l->report_fd = report[0];
	l->task_report_fd = report[1];
	if (fcntl(l->report_fd, F_SETFL, O_NONBLOCK) < 0 ||
		(l->setup.mpi && move_up(&l->task_report_fd) < 0))
		return err_set(err, -errno, "make the pipe for the tasks' reports");
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

/* The agent moves held tasks: first into the step's process group, unless they lead sessions,
 * since a backend that works by groups then moves them into its own. */
static int adopt_held(struct launch *l, uint32_t rank, pid_t pid, struct err *err)
{
	stepd_step_rec_t *job = &l->setup.plan->job;
	int r;

	if (!l->setup.own_session && setpgid(pid, l->group ? l->group : pid) < 0)
		r = err_set(err, -errno, "put task %u into the step's process group", rank);
	else if ((r = proctrack_add(l->pt, job, pid)) == -ESRCH)
		r = 0; /* it ended before it was held: its report has the reason */
	else if (r < 0)
		(void)err_set(err, r, "put task %u into the step's container", rank);
	if (r < 0)
		(void)kill(pid, SIGKILL); /* our own child, not reaped; r has the reason */
	return r;
}

static int let_go(const struct launch *l, struct err *err)
{
	/* The byte stays in the pipe for every task that polls. */
	return write(l->hold_write_fd, "", 1) == 1 ? 0 : err_set(err, -errno, "release the tasks");
}

/* What is short is no reason to make the tasks in another way. */
static bool is_shortage(int r)
{
	return r == -EAGAIN || r == -ENOMEM || r == -EMFILE || r == -ENFILE;
}

/* Below a cgroup that was once killed SIGKILL is sent to what is born (proctrack(7), "The poison
 * rule"). It may have been taken by now. */
static bool is_being_killed(pid_t pid)
{
	struct procstat st;

	return procstat_read(pid, &st) == 0 &&
		(st.pending & (1u << (SIGKILL - 1)) || WTERMSIG((int)st.exit_code) == SIGKILL);
}

/* The first birth shows whether one is possible, with r from its clone: 0, or -errno with
 * l->birth_failed. The task is held and has executed nothing: another can be made for it. */
static int prove_birth(struct launch *l, int r, pid_t pid, struct err *err)
{
	if (l->born || is_shortage(r))
		return r;
	if (r == 0 && !is_being_killed(pid)) {
		l->born = true;
		return l->hold ? 0 : let_go(l, err);
	}
	l->birth_failed = true;
	return r < 0 ? r : -EOPNOTSUPP;
}

static void run_child(void *context)
{
	child_main(context);
}

/* The process group that the next task joins. */
static void note_group(struct launch *l, pid_t first)
{
	if (!l->into) { /* a backend may have put it into a group of its own */
		l->group = getpgid(first);
		return;
	}
	/* The task does this itself, too, but maybe after the next one joins. EACCES: it has been
	 * executed already. */
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
	l->clone.cgroup_fd = cgroup_fd;
	r = clone_child(&l->clone, run_child, context, &context->own_signals, ret_pid);
	if (l->into)
		r = prove_birth(l, r, *ret_pid, err);
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

/* In the agent, whose child pid is; 0: none was made. From here on tasks are added. */
static void give_up_births(struct launch *l, pid_t *pid)
{
	if (*pid > 0) {
		while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	*pid = 0;
	l->birth_failed = l->into = false;
	l->hold = true;
	l->clone.cgroup_fd = -1;
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
	if (l->birth_failed && !l->clone.siblings) {
		give_up_births(l, ret_pid);
		r = fork_into(l, context, ret_pid, err);
	}
	stdio_task_close(l->io, &io);
	return r;
}

int launch_release(struct launch *l, struct err *err)
{
	int r = 0;

	l->task_report_fd = close_fd(l->task_report_fd);
	/* Our own reading end is open until then, as all tasks may have failed before. */
	if (l->hold)
		r = let_go(l, err);
	else
		l->hold_write_fd = close_fd(l->hold_write_fd);
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
	l->namespace_fd = close_fd(l->namespace_fd);
	l->root_fd = close_fd(l->root_fd);
}

/* ---- the launcher -------------------------------------------------------------------------- */

/* With fewer tasks, copies of the memory are as fast as the launcher. */
#define TASKS_MIN 4

/* Without the launcher: how many forks between two turns of the loop. */
#define FORKS_PER_TURN 16

/* Of a child: child_main() and what it calls take less than 15 KiB, with three paths of PATH_MAX
 * where userpath_open() walks by itself. */
#define STACK_BYTES (24u << 10)

/* The launcher's result, in memory shared with the agent. */
struct shared_result {
	struct err err;
	bool birth_failed; /* of the first task */
	pid_t pid[];
};

/* Contexts and stacks of the children, in the launcher's memory. */
struct slab {
	char *at;
	size_t context_bytes, size;
};

static bool is_of_use(const struct launch *l)
{
#ifdef STEPD_SANITIZERS
	(void)l;
	return false; /* their run-time library is thread-local state */
#else
	return l->into && l->setup.plan->job.node_tasks >= TASKS_MIN &&
		child_can_share_memory(&l->setup);
#endif
}

/* ---- in the launcher ----------------------------------------------------------------------- */

/* Pointers of the vector beside a context. A vector that a plugin changes is on the heap.
 */
static size_t vector_capacity(const struct launch *l)
{
	return l->setup.mpi ? 0 : l->setup.plan->task_env.capacity;
}

/* Of one child, whose environment has capacity for vars. */
static size_t context_bytes(size_t vars)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes = sizeof(struct child_context) + vars * sizeof(char *) + STACK_BYTES;

	return (bytes + page - 1) / page * page;
}

static int slab_map(struct slab *slab, uint32_t n, size_t vars)
{
	slab->context_bytes = context_bytes(vars);
	slab->size = slab->context_bytes * n;
	slab->at = mmap(NULL, slab->size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return slab->at == MAP_FAILED ? -errno : 0;
}

/* The context is at the top, next to the beginning of its stack: small tasks touch few pages. */
static struct child_context *slab_context(
	const struct slab *slab, uint32_t i, size_t vars, char **stack)
{
	char *top = slab->at + slab->context_bytes * (i + 1u);
	char **v = (char **)(void *)(top - vars * sizeof(char *));
	uintptr_t at = (uintptr_t)v - sizeof(struct child_context);
	struct child_context *context = (void *)(at - at % 16);

	*stack = top - slab->context_bytes;
	*context = (struct child_context){.env = {.v = vars ? v : NULL, .capacity = vars}};
	return context;
}

/* Children share this heap and free nothing; nor does the launcher, which ends soon. */
static int launcher_prepare(
	const struct launch *l, uint32_t i, struct child_context *context, struct err *err)
{
	int r = l->setup.mpi ? child_prepare(&l->setup, i, context) : 0;

	return r < 0 ? err_set(err, r, "make the environment of task %u",
			       l->setup.plan->job.task[i].gtid)
		     : 0;
}

static int make_all(struct launch *l, struct shared_result *shared)
{
	const struct plan *plan = l->setup.plan;
	size_t vars = vector_capacity(l);
	struct child_context *context;
	struct slab slab;
	char *stack;
	uint32_t i;
	int r = slab_map(&slab, plan->job.node_tasks, vars);

	if (r < 0)
		return err_set(&shared->err, r, "get memory for the tasks' start");
	for (i = 0; r == 0 && i < plan->job.node_tasks; i++) {
		context = slab_context(&slab, i, vars, &stack);
		l->clone.stack = stack;
		l->clone.stack_size = (size_t)((char *)context - stack);
		r = launcher_prepare(l, i, context, &shared->err);
		if (r == 0)
			r = launch_fork(l, i, context, &shared->pid[i], &shared->err);
		if (l->setup.mpi)
			mpi_task_forked(l->setup.mpi, i);
	}
	return r;
}

/* Children inherit it from here instead of writing it one by one. */
static int set_oom_score_adj(struct launch *l, struct err *err)
{
	const char *text = l->setup.oom_score_adj;
	int r = text ? fs_write(AT_FDCWD, "/proc/self/oom_score_adj", text) : 0;

	l->setup.oom_score_adj = NULL;
	return r < 0 ? err_set(err, r, "set oom_score_adj %s for the tasks", text) : 0;
}

/* Each task has a copy of this table, and closes it by its exec. */
static void leave_descriptors(struct launch *l)
{
	size_t i;

	for (i = 0; i < l->agent_fds_count; i++) {
		if (l->agent_fds[i] >= 0)
			(void)close(l->agent_fds[i]);
	}
	l->report_fd = close_fd(l->report_fd);
	l->setup.lock_fd = close_fd(l->setup.lock_fd);
	if (l->hold) /* else the first birth is still to be proven */
		l->hold_write_fd = close_fd(l->hold_write_fd);
}

_noreturn_ static void launcher_main(struct launch *l, struct shared_result *shared, pid_t agent)
{
	int r;

	/* Its core dump would be useless. Tasks don't inherit this. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != agent)
		_exit(STATUS_NOT_EXECUTABLE);
	if (setpgid(0, 0) < 0) /* the step's process group: tasks are born in it */
		_exit(STATUS_NOT_EXECUTABLE);
	l->group = -1;
	l->clone.siblings = true;
	leave_descriptors(l);
	stdio_transfer_begin(l->io);
	r = set_oom_score_adj(l, &shared->err);
	if (r == 0)
		r = make_all(l, shared);
	shared->birth_failed = l->birth_failed;
	if (r == 0)
		r = stdio_transfer_flush(l->io, &shared->err);
	else if (!l->birth_failed) /* so that the output of tasks that are not held is not lost */
		(void)!stdio_transfer_flush(l->io, NULL);
	_exit(r < 0 ? STATUS_NOT_EXECUTABLE : 0);
}

/* ---- in the agent -------------------------------------------------------------------------- */

static int await(pid_t pid, const struct shared_result *shared, struct err *err)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return err_set(err, -errno, "wait for the launcher");
	}
	if (WIFSIGNALED(status))
		return err_set_text(err, -EIO,
			"the launcher of the tasks was killed by signal %d; is memory short?",
			WTERMSIG(status));
	if (status == 0)
		return 0;
	*err = shared->err;
	return err->code < 0 ? err->code : err_set(err, -EIO, "start the tasks");
}

/* An end of a pipe that the agent could not take is the reason of the launcher's failure. */
static int finish_launcher(
	struct launch *l, pid_t pid, const struct shared_result *shared, struct err *err)
{
	struct err taken = ERR_INIT;
	int r = await(pid, shared, err);

	if (stdio_transfer_close(l->io, &taken) == 0)
		return r;
	*err = taken;
	return err->code;
}

static int run_launcher(struct launch *l, pid_t *pids, struct err *err)
{
	uint32_t n = l->setup.plan->job.node_tasks, i;
	size_t size = sizeof(struct shared_result) + n * sizeof(pid_t);
	_cleanup_close_ int pidfd = -1;
	struct clone_args args = {
		.flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&pidfd, .exit_signal = SIGCHLD};
	struct shared_result *shared;
	pid_t pid, self = getpid();
	int r = stdio_transfer_open(l->io, err);

	if (r < 0)
		return r;
	shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return err_set(err, -errno, "get memory for the tasks' start");
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		launcher_main(l, shared, self);
	if (pid > 0)
		l->meanwhile(pidfd, l->userdata);
	r = pid < 0 ? err_set(err, -errno, "fork the launcher of the tasks")
		    : finish_launcher(l, pid, shared, err);
	l->rss_kib += (long)(n * context_bytes(l->setup.plan->task_env.capacity) / 1024);
	l->next_clone_fd = close_fd(l->next_clone_fd); /* the launcher has used its own of it */
	for (i = 0; i < n; i++)
		pids[i] = l->setup.plan->job.task[i].pid = shared->pid[i];
	l->birth_failed = shared->birth_failed || (pid < 0 && !is_shortage(r));
	(void)munmap(shared, size); /* our own mapping */
	return r;
}

int launch_fork_all(struct launch *l, pid_t *pids, struct err *err)
{
	struct child_context context = {.env = l->setup.plan->task_env};
	struct rusage own;
	uint32_t i;
	int r = 0;

	(void)getrusage(RUSAGE_SELF, &own); /* valid arguments can't fail */
	l->rss_kib = own.ru_maxrss;
	if (is_of_use(l)) {
		r = run_launcher(l, pids, err);
		if (!l->birth_failed)
			return r;
		if (proctrack_was_killed(l->pt)) /* by a request, which must hold */
			return err_set_text(err, -ECANCELED,
				"the step was killed while its tasks were started");
		give_up_births(l, &pids[0]);
		*err = (struct err)ERR_INIT;
		r = 0;
	}
	for (i = 0; r == 0 && i < l->setup.plan->job.node_tasks; i++) {
		r = launch_fork(l, i, &context, &pids[i], err);
		if (l->setup.mpi)
			mpi_task_forked(l->setup.mpi, i);
		if ((i + 1) % FORKS_PER_TURN == 0)
			l->meanwhile(-1, l->userdata);
	}
	return r;
}
