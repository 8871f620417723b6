/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For unit tests of proctrack/cgroup: a cgroup of the test's own, processes born in it, and a
 * count of what is left. Needs a cgroup2 mount that the test may write (root, or a delegated
 * cgroup); rig_open() returns false where there is none, and the test skips.
 */
#ifndef TESTS_LIB_CGROUP_RIG_H
#define TESTS_LIB_CGROUP_RIG_H

#include <err.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "proctrack/cgroup/group.h"
#include "proctrack/cgroup/root.h"
#include "proctrack/cgroup/step.h"
#include "stepd/base/fs.h"
#include "tests/lib/scratch.h"

#define RIG_WAIT_MS 300000 /* what should happen at once; a guard against hanging */

struct rig {
	int fd;     /* the test's cgroup */
	char *path; /* of it, absolute */
	char name[64];
	int root_fd;
	int fds; /* open when the test began */
};

/* Opens, made if needed, the group name below fd. */
static inline int rig_group(int fd, const char *name)
{
	int child;

	if (mkdirat(fd, name, 0755) < 0 && errno != EEXIST)
		err(99, "make cgroup '%s'", name);
	child = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (child < 0)
		err(99, "open cgroup '%s'", name);
	return child;
}

static inline bool rig_open(struct rig *rig)
{
	_cleanup_cgroup_root_ struct cgroup_root *root = NULL;

	if (root_open(NULL, &root, NULL) < 0 || faccessat(root->fd, ".", W_OK, AT_EACCESS) < 0)
		return false;
	rig->fds = scratch_count_fds() - 1; /* the place's */
	(void)snprintf(rig->name, sizeof(rig->name), "stepd-test-%d", (int)getpid());
	rig->root_fd = fcntl(root->fd, F_DUPFD_CLOEXEC, 3);
	if (mkdirat(rig->root_fd, rig->name, 0755) < 0) {
		(void)close_fd(rig->root_fd);
		return false; /* read-only, most likely */
	}
	rig->fd = rig_group(rig->root_fd, rig->name);
	rig->path = scratch_path(root->path, rig->name);
	return true;
}

/* A process born in the group at fd: 0 in the child, which must _exit(). */
static inline pid_t rig_fork(int fd)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)fd};
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

	if (pid < 0)
		err(99, "clone3 into a cgroup");
	return pid;
}

/* A process that waits for signals. */
static inline pid_t rig_sleeper(int fd)
{
	pid_t pid = rig_fork(fd);

	while (pid == 0)
		(void)pause();
	return pid;
}

/* The wait status of a child that ends now. */
static inline int rig_status(pid_t pid)
{
	int status = -1;

	if (waitpid(pid, &status, 0) != pid)
		err(99, "wait for pid %d", (int)pid);
	return status;
}

static inline void rig_write(int fd, const char *name, const char *text)
{
	int r = fs_write(fd, name, text);

	if (r < 0)
		errx(99, "write '%s' to %s: %s", text, name, strerror(-r));
}

/* Ends what is left and removes the test's cgroup. The number of descriptors that were lost. */
static inline int rig_close(struct rig *rig)
{
	int r = group_kill(rig->fd);

	if (r < 0 && r != -ESRCH)
		errx(99, "kill what the test left: %s", strerror(-r));
	if (group_wait_empty(rig->fd, RIG_WAIT_MS) < 0)
		errx(99, "what the test left in '%s' does not end", rig->path);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	if (tree_remove_below(rig->fd) < 0 || unlinkat(rig->root_fd, rig->name, AT_REMOVEDIR) < 0)
		err(99, "remove '%s'", rig->path);
	rig->fd = close_fd(rig->fd);
	rig->root_fd = close_fd(rig->root_fd);
	free(rig->path);
	return scratch_count_fds() - rig->fds;
}

/* For cmocka's tear down: 0, or -1 and a line where the test left descriptors open. */
static inline int rig_tear_down(struct rig *rig)
{
	int lost = rig->fd < 0 ? 0 : rig_close(rig);

	if (lost)
		warnx("%d descriptors were left open", lost);
	return lost ? -1 : 0;
}

/* Skips the test where there is no cgroup to be had. In the test's own function. */
#define need_rig(rig)                                                                              \
	do {                                                                                       \
		if ((rig)->fd < 0)                                                                 \
			skip();                                                                    \
	} while (0)

/* step_make() by a step's names alone. */
static inline int make_step(const struct cgroup_root *root, uint32_t job_id, const char *step_name,
	struct step_dir *ret_dir)
{
	const stepd_step_rec_t job = {.job_id = job_id, .step_name = step_name, .nnodes = 1};

	return step_make(root, &job, ret_dir);
}

#endif
