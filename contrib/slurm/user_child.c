/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/user_child.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stepd/base/clock.h"
#include "stepd/base/fs.h"
#include "stepd/process/identity.h"
#include "stepd/process/mount_namespace.h"

#define KILL_TIMEOUT_MS 1000

/* What comes through the pipe. */
struct outcome {
	int r; /* of run() */
	_Alignas(max_align_t) char result[USER_CHILD_RESULT_MAX];
};

#define OUTCOME_SIZE(child_) (offsetof(struct outcome, result) + (child_)->result_size)

static _noreturn_ void run_child(const struct user_child *c, int namespace_fd, int to)
{
	struct outcome o = {0};

	if (namespace_fd >= 0 && mount_namespace_enter(namespace_fd) < 0)
		_exit(EXIT_FAILURE);
	if (identity_become(c->identity) < 0)
		_exit(EXIT_FAILURE);
	o.r = c->run(c->userdata, o.result);
	_exit(fs_write_all(to, &o, OUTCOME_SIZE(c)) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

static int read_outcome(int fd, int64_t until_ms, void *data, size_t size)
{
	size_t at = 0;
	ssize_t n;
	int r;

	while (at < size) {
		r = fs_wait_readable(fd, until_ms);
		if (r <= 0)
			return r < 0 ? r : -ETIMEDOUT;
		n = read(fd, (char *)data + at, size - at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		at += (size_t)n;
	}
	return 0;
}

/* from ends with the child. One that even KILL does not end, in a file system whose server is gone,
 * stays behind. */
static void end_child(pid_t pid, int from, bool kills)
{
	if (kills) {
		(void)kill(pid, SIGKILL);
		if (fs_wait_readable(from, clock_now_ms() + KILL_TIMEOUT_MS) <= 0)
			return;
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

int user_child_run(const struct user_child *c, void *ret_result, struct err *err)
{
	_cleanup_close_ int from = -1, to = -1, namespace_fd = -1;
	struct outcome o = {0};
	int fds[2], r;
	pid_t pid;

	assert(c->result_size <= sizeof(o.result));
	if (c->mount_namespace && *c->mount_namespace) {
		namespace_fd = mount_namespace_open(c->mount_namespace, err);
		if (namespace_fd < 0)
			return namespace_fd;
	}
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, -errno, "start a process as uid %u", c->identity->uid);
	from = fds[0];
	to = fds[1];
	pid = fork();
	if (pid < 0)
		return err_set(err, -errno, "start a process as uid %u", c->identity->uid);
	if (pid == 0)
		run_child(c, namespace_fd, to);
	to = close_fd(to);
	r = read_outcome(from, clock_now_ms() + c->timeout_ms, &o, OUTCOME_SIZE(c));
	end_child(pid, from, r < 0);
	if (r < 0)
		return err_set(err, r, "wait for a process of uid %u", c->identity->uid);
	if (o.r < 0)
		return err_set(err, o.r, "as uid %u", c->identity->uid);
	if (c->result_size > 0)
		memcpy(ret_result, o.result, c->result_size);
	return 0;
}
