/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/site_script.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stepd/base/clock.h"
#include "stepd/base/fs.h"
#include "stepd/base/proc.h"
#include "stepd/process/process.h"

#define SHOWN_SIZE      512 /* of the output */
#define KILL_TIMEOUT_MS 2000

struct running {
	const struct site_script *script;
	struct pidref process;
	int output, output_end; /* the reader's, and the script's */
	char shown[SHOWN_SIZE];
	size_t shown_size;
};

/* As root's process, which has no ids of the user's. */
static int execute(void *userdata)
{
	const struct running *r = userdata;
	char *const argv[] = {(char *)r->script->path, NULL};
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (setpgid(0, 0) < 0 || chdir("/") < 0 || fd < 0 || dup2(fd, STDIN_FILENO) < 0 ||
		dup2(r->output_end, STDOUT_FILENO) < 0 || dup2(r->output_end, STDERR_FILENO) < 0)
		return -errno;
	(void)execve(r->script->path, argv, r->script->env);
	return -errno;
}

/* 0: its end. */
static ssize_t read_output(struct running *r)
{
	char piece[4096];
	size_t left = sizeof(r->shown) - 1 - r->shown_size;
	ssize_t n;

	do
		n = read(r->output, piece, sizeof(piece));
	while (n < 0 && errno == EINTR);
	if (n > 0) {
		left = left < (size_t)n ? left : (size_t)n;
		memcpy(r->shown + r->shown_size, piece, left);
		r->shown_size += left;
	}
	return n;
}

/* Until the script has ended: what it has started may have the output still. */
static int wait_for_end(struct running *r, int64_t until_ms)
{
	struct pollfd fds[2] = {
		{.fd = r->process.fd, .events = POLLIN}, {.fd = r->output, .events = POLLIN}};
	int64_t left_ms;
	int n;

	for (;;) {
		left_ms = until_ms - clock_now_ms();
		if (left_ms <= 0)
			return -ETIMEDOUT;
		n = poll(fds, 2, left_ms < INT_MAX ? (int)left_ms : INT_MAX);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n <= 0)
			continue;
		if (fds[1].revents && read_output(r) <= 0)
			fds[1].fd = -1;
		if (fds[0].revents)
			return 0;
	}
}

/* One that even KILL does not end stays behind. */
static int reap(struct running *r, int *ret_status)
{
	pid_t pid;

	(void)killpg(r->process.pid, SIGKILL);
	if (fs_wait_readable(r->process.fd, clock_now_ms() + KILL_TIMEOUT_MS) <= 0)
		return -ETIMEDOUT;
	do
		pid = waitpid(r->process.pid, ret_status, 0);
	while (pid < 0 && errno == EINTR);
	return pid < 0 ? -errno : 0;
}

static int check_status(struct running *r, int status, struct err *err)
{
	const struct site_script *s = r->script;
	const char *says = r->shown_size > 0 ? "; it says: " : "";

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	while (r->shown_size > 0 && r->shown[r->shown_size - 1] == '\n')
		r->shown_size--;
	r->shown[r->shown_size] = '\0';
	return WIFEXITED(status)
		? err_set_text(err, -EREMOTEIO, "%s '%s' has failed with status %d%s%s", s->setting,
			  s->path, WEXITSTATUS(status), says, r->shown)
		: err_set_text(err, -EREMOTEIO, "%s '%s' was ended by signal %d%s%s", s->setting,
			  s->path, WTERMSIG(status), says, r->shown);
}

static int check_file(const struct site_script *s, struct err *err)
{
	_cleanup_close_ int fd = -1;

	if (*s->path != '/')
		return err_set_text(
			err, -EINVAL, "%s '%s' is no absolute path", s->setting, s->path);
	fd = open(s->path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "%s '%s'", s->setting, s->path);
	if (fs_check_file(fd, s->path, err) < 0)
		return err_prefix(err, "%s", s->setting);
	return 0;
}

static int run(struct running *r, struct err *err)
{
	const struct site_script *s = r->script;
	int status = 0, ended, e = process_execute(execute, r, &r->process);

	r->output_end = close_fd(r->output_end);
	if (e < 0)
		return err_set(err, e, "execute %s '%s'", s->setting, s->path);
	ended = wait_for_end(r, clock_now_ms() + s->timeout_ms);
	e = reap(r, &status);
	if (ended == -ETIMEDOUT)
		return err_set_text(err, -ETIMEDOUT, "%s '%s' has not ended within %u ms",
			s->setting, s->path, s->timeout_ms);
	if (ended < 0 || e < 0)
		return err_set(err, ended < 0 ? ended : e, "wait for %s '%s'", s->setting, s->path);
	return check_status(r, status, err);
}

int site_script_run(const struct site_script *script, struct err *err)
{
	struct running running = {.script = script, .process = PIDREF_INIT};
	int fds[2], r = check_file(script, err);

	if (r < 0)
		return r;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, -errno, "execute %s '%s'", script->setting, script->path);
	running.output = fds[0];
	running.output_end = fds[1];
	r = run(&running, err);
	pidref_close(&running.process);
	(void)close_fd(running.output_end);
	(void)close_fd(running.output);
	return r;
}
