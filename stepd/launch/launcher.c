/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/launch/launcher.h"

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
#include "stepd/base/fs.h"
#include "stepd/base/status.h"
#include "stepd/launch/launch.h"
#include "stepd/launch/plan.h"
#include "stepd/stdio/stdio.h"

/* Below this many a copy of the memory for each is as quick as the launcher's own. */
#define TASKS_MIN 6

/* Where each is a copy of the agent: how many between two looks at what else is asked of it. */
#define FORKS_PER_TURN 16

/* Of a child: child_main() and what it calls take less than 15 KiB, with three paths of PATH_MAX
 * where userpath.c walks by itself. */
#define STACK_BYTES (24u << 10)

/* What the launcher leaves the agent, in memory that both write. */
struct shared_result {
	struct err err;
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
	return l->into && l->setup.plan->job.node_tasks >= TASKS_MIN && !stdio_carries(l->io) &&
		child_can_share_memory(&l->setup);
#endif
}

/* ---- in the launcher ----------------------------------------------------------------------- */

/* Pointers in the vector that stands beside a context. One that a plugin changes is from the heap.
 */
static size_t room_for_vector(const struct launch *l)
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

/* The context stands at the top, next to where its stack begins: small tasks touch few pages. */
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

/* A child shares this heap and frees nothing of it; nor does the launcher, which ends soon. */
static int prepare(
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
	size_t vars = room_for_vector(l);
	struct child_context *context;
	struct slab slab;
	char *stack;
	uint32_t i;
	int r = slab_map(&slab, plan->job.node_tasks, vars);

	if (r < 0)
		return err_set(&shared->err, r, "get memory for the tasks' start");
	for (i = 0; r == 0 && i < plan->job.node_tasks; i++) {
		context = slab_context(&slab, i, vars, &stack);
		l->spawn.stack = stack;
		l->spawn.stack_size = (size_t)((char *)context - stack);
		r = prepare(l, i, context, &shared->err);
		if (r == 0)
			r = launch_fork(l, i, context, &shared->pid[i], &shared->err);
		if (l->setup.mpi)
			mpi_task_forked(l->setup.mpi, i);
	}
	return r;
}

/* Children get it from here instead of writing it one by one. */
static int set_oom_score_adj(struct launch *l, struct err *err)
{
	const char *text = l->setup.oom_score_adj;
	int r = text ? fs_write(AT_FDCWD, "/proc/self/oom_score_adj", text) : 0;

	l->setup.oom_score_adj = NULL;
	return r < 0 ? err_set(err, r, "set oom_score_adj %s for the tasks", text) : 0;
}

_noreturn_ static void launcher_main(struct launch *l, struct shared_result *shared, pid_t agent)
{
	int r;

	/* Nobody would read what comes of it. Tasks don't inherit this. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != agent)
		_exit(STATUS_NOT_EXECUTABLE);
	if (setpgid(0, 0) < 0) /* the step's process group: tasks are born in it */
		_exit(STATUS_NOT_EXECUTABLE);
	l->group = -1;
	l->spawn.siblings = true;
	r = set_oom_score_adj(l, &shared->err);
	if (r == 0)
		r = make_all(l, shared);
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
		return err_say(err, -EIO,
			"the launcher of the tasks was killed by signal %d; is memory short?",
			WTERMSIG(status));
	if (status == 0)
		return 0;
	*err = shared->err;
	return err->code < 0 ? err->code : err_set(err, -EIO, "start the tasks");
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
	int r;

	shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return err_set(err, -errno, "get memory for the tasks' start");
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		launcher_main(l, shared, self);
	if (pid > 0 && l->meanwhile)
		l->meanwhile(pidfd, l->userdata);
	r = pid < 0 ? err_set(err, -errno, "fork the launcher of the tasks")
		    : await(pid, shared, err);
	l->rss_kib += (long)(n * context_bytes(l->setup.plan->task_env.capacity) / 1024);
	l->next_clone_fd = close_fd(l->next_clone_fd); /* the launcher has used its own of it */
	for (i = 0; i < n; i++)
		pids[i] = l->setup.plan->job.task[i].pid = shared->pid[i];
	(void)munmap(shared, size); /* our own mapping */
	return r;
}

int launcher_fork_all(struct launch *l, pid_t *pids, struct err *err)
{
	struct child_context context = {.env = l->setup.plan->task_env};
	struct rusage own;
	uint32_t i;
	int r = 0;

	(void)getrusage(RUSAGE_SELF, &own); /* valid arguments can't fail */
	l->rss_kib = own.ru_maxrss;
	if (is_of_use(l))
		return run_launcher(l, pids, err);
	for (i = 0; r == 0 && i < l->setup.plan->job.node_tasks; i++) {
		r = launch_fork(l, i, &context, &pids[i], err);
		if (l->setup.mpi)
			mpi_task_forked(l->setup.mpi, i);
		if (l->meanwhile && (i + 1) % FORKS_PER_TURN == 0)
			l->meanwhile(-1, l->userdata);
	}
	return r;
}
