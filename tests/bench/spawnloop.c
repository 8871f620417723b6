/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The floor that a launch is measured against: a clone, execve(2) and waitid(2) of N programs in a
 * loop, with nothing around it.
 *
 *	spawnloop [-k KIND] [-g CGROUP [-d]] [-w] [-m MIB] N PROGRAM [ARG...]
 *
 *	-k clone3   a copy of the parent, as fork(2) makes (default)
 *	-k fork     fork(2)
 *	-k vfork    the parent's memory, the parent waits for the exec (CLONE_VM | CLONE_VFORK)
 *	-k share    the parent's memory, a stack of its own, the parent goes on (CLONE_VM)
 *	-g CGROUP   with clone3 or share: born in this cgroup's directory (CLONE_INTO_CGROUP)
 *	-d          with -g: each in a group of its own below that, made before and removed at the
 *		    end
 *	-w          with clone3 or share: they wait, and are executed once all are born
 *	-m MIB      so much memory of the parent is touched before
 */
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stepd/base/proc.h"
#include "stepd/base/rawcall.h"

extern char **environ;

enum kind {
	KIND_CLONE3,
	KIND_FORK,
	KIND_VFORK,
	KIND_SHARE,
	KIND_MAX
};

static const char *const kinds[KIND_MAX] = {
	[KIND_CLONE3] = "clone3",
	[KIND_FORK] = "fork",
	[KIND_VFORK] = "vfork",
	[KIND_SHARE] = "share",
};

struct loop {
	enum kind kind;
	int parent_fd; /* of the cgroups to make, -1: none are made */
	int cgroup_fd;
	char **argv;
	char *stacks; /* with KIND_SHARE */
	int gate[2];  /* -w: a pipe that has a byte once all are born, -1: none */
};

#define STACK_BYTES 16384

/* No C library below: the parent's memory may be shared. */
static void wait_for_all(const struct loop *l)
{
	struct pollfd gate = {.fd = l->gate[0], .events = POLLIN};

	if (l->gate[0] >= 0)
		(void)rawcall(SYS_ppoll, &gate, 1, NULL, NULL, 0);
}

static void run_shared(void *arg)
{
	const struct loop *l = arg;

	wait_for_all(l);
	(void)rawcall(SYS_execve, l->argv[0], l->argv, environ);
	(void)rawcall(SYS_exit_group, 127);
}

static pid_t share_one(struct loop *l, int i)
{
	struct clone how = {.cgroup_fd = l->cgroup_fd,
		.stack = l->stacks + (size_t)i * STACK_BYTES,
		.stack_size = STACK_BYTES};
	bool cleared;
	pid_t pid;
	int r = clone_child(&how, run_shared, l, &cleared, &pid);

	errno = -r;
	return r < 0 ? -1 : pid;
}

static pid_t clone_one(const struct loop *l)
{
	struct clone_args args = {.exit_signal = SIGCHLD};

	if (l->cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)l->cgroup_fd;
	}
	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static pid_t spawn_one(struct loop *l, int i)
{
	pid_t pid;

	if (l->kind == KIND_SHARE)
		return share_one(l, i);

	if (l->kind == KIND_VFORK) {
		pid = vfork();
		if (pid == 0) {
			execve(l->argv[0], l->argv, environ);
			_exit(127);
		}
		return pid;
	}
	pid = l->kind == KIND_FORK ? fork() : clone_one(l);
	if (pid == 0) {
		wait_for_all(l);
		execve(l->argv[0], l->argv, environ);
		_exit(127);
	}
	return pid;
}

static int make_group(struct loop *l, int i)
{
	char name[24];

	(void)snprintf(name, sizeof(name), "task_%d", i);
	if (mkdirat(l->parent_fd, name, 0755) < 0)
		return -1;
	l->cgroup_fd = openat(l->parent_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return l->cgroup_fd;
}

static int remove_group(const struct loop *l, int i)
{
	char name[24];

	(void)snprintf(name, sizeof(name), "task_%d", i);
	return unlinkat(l->parent_fd, name, AT_REMOVEDIR);
}

static int parse_kind(const char *text)
{
	int i;

	for (i = 0; i < KIND_MAX && strcmp(kinds[i], text) != 0; i++)
		;
	return i;
}

static int usage(void)
{
	fprintf(stderr,
		"Usage: spawnloop [-k clone3|fork|vfork|share] [-g CGROUP [-d]] [-w] [-m MIB] N PROGRAM\n");
	return 2;
}

int main(int argc, char **argv)
{
	struct loop l = {.parent_fd = -1, .cgroup_fd = -1, .gate = {-1, -1}};
	size_t mib = 0;
	bool hold = false;
	int opt, n, i;
	pid_t *pids;
	siginfo_t info;
	char *memory;

	while ((opt = getopt(argc, argv, "+k:g:dwm:")) != -1) {
		if (opt == 'k')
			l.kind = (enum kind)parse_kind(optarg);
		else if (opt == 'g')
			l.cgroup_fd = open(optarg, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		else if (opt == 'd')
			l.parent_fd = l.cgroup_fd;
		else if (opt == 'w')
			hold = true;
		else if (opt == 'm')
			mib = (size_t)atoi(optarg);
		else
			return usage();
	}
	if (argc - optind < 2 || l.kind == KIND_MAX)
		return usage();
	if (hold && (l.kind == KIND_VFORK || pipe2(l.gate, O_CLOEXEC) < 0))
		return usage();
	n = atoi(argv[optind]);
	l.argv = argv + optind + 1;
	pids = calloc((size_t)n + 1, sizeof(*pids));
	memory = malloc(mib << 20);
	if (n <= 0 || !pids || (mib && !memory))
		return usage();
	if (l.kind == KIND_SHARE)
		l.stacks = aligned_alloc(4096, (size_t)n * STACK_BYTES);
	if (l.kind == KIND_SHARE && !l.stacks)
		return usage();
	if (mib)
		memset(memory, 1, mib << 20);
	for (i = 0; i < n; i++) {
		if (l.parent_fd >= 0 && make_group(&l, i) < 0) {
			perror("mkdir");
			return 1;
		}
		pids[i] = spawn_one(&l, i);
		if (l.parent_fd >= 0)
			(void)close(l.cgroup_fd);
		if (pids[i] < 0) {
			perror(kinds[l.kind]);
			return 1;
		}
	}
	if (l.gate[1] >= 0 && write(l.gate[1], "", 1) != 1) {
		perror("write");
		return 1;
	}
	for (i = 0; i < n; i++) {
		if (waitid(P_PID, (id_t)pids[i], &info, WEXITED) < 0) {
			perror("waitid");
			return 1;
		}
	}
	for (i = 0; l.parent_fd >= 0 && i < n; i++) {
		if (remove_group(&l, i) < 0) {
			perror("rmdir");
			return 1;
		}
	}
	return 0;
}
