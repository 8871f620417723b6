/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/doctor/doctor_supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "stepd/base/clock.h"
#include "stepd/base/fs.h"
#include "stepd/base/status.h"
#include "stepd/cli/doctor/doctor_dir.h"
#include "stepd/process/process.h"

#define END_TIMEOUT_MS  3000u /* for an agent that was told to end its step */
#define GONE_TIMEOUT_MS 1000u /* for a process that was killed */

static _noreturn_ void be_agent(const struct supervisor *k, pid_t supervisor)
{
	sigset_t none;
	int i;

	(void)sigemptyset(&none); /* can't fail with valid arguments, nor can the next two */
	process_default_signals();
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != supervisor)
		_exit(STATUS_FAILED); /* nobody wants the step any more */
	for (i = 0; i < 3; i++) {
		if (dup2(k->stdio[i], i) < 0)
			_exit(STATUS_FAILED);
	}
	(void)execve("/proc/self/exe", k->argv, k->env);
	(void)dprintf(STDERR_FILENO, "stepd: execute stepd run: %s\n", strerror(errno));
	_exit(STATUS_FAILED);
}

static void complain(const struct supervisor *k, const char *what, int error)
{
	(void)dprintf(k->stdio[2], "stepd: %s: %s\n", what, strerror(error));
}

/* 1: it has ended; 0: it has not within that time, or other has; -errno. */
static int wait_end(const struct pidref *agent, const struct pidref *other, uint64_t limit_ms)
{
	struct pollfd p[] = {{.fd = agent->fd, .events = POLLIN},
		{.fd = other ? other->fd : -1, .events = POLLIN}};
	uint64_t until_ms = clock_now_ms() + limit_ms, now;
	int n;

	do {
		now = clock_now_ms();
		n = poll(p, ARRAY_SIZE(p), now < until_ms ? (int)(until_ms - now) : 0);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : p[0].revents != 0;
}

static void kill_children(void)
{
	_cleanup_free_ char *text = NULL;
	char path[64], *rest, *word;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	if (fs_read(AT_FDCWD, path, 1u << 20, &text, NULL) < 0)
		return; /* a kernel without that list */
	for (rest = text; (word = strsep(&rest, " "));) {
		if (*word)
			(void)kill((pid_t)atoi(word), SIGKILL); /* not reaped: it can be no other */
	}
}

/* Whom a killed process leaves becomes a child, too. One that the kernel doesn't let go is not
 * waited for. */
static void end_children(const sigset_t *child)
{
	const struct timespec limit = {.tv_sec = GONE_TIMEOUT_MS / 1000};
	pid_t pid;

	do {
		kill_children();
		while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0)
			;
	} while (pid == 0 && (sigtimedwait(child, NULL, &limit) >= 0 || errno == EINTR));
}

static enum supervisor_status watch(const struct supervisor *k, const struct pidref *agent)
{
	bool late = false;
	int status = 0, r = wait_end(agent, &k->doctor, SUPERVISOR_STEP_TIMEOUT_MS);

	if (r == 0) {
		late = true;
		(void)!pidref_signal(agent, SIGTERM); /* gone: the better */
		r = wait_end(agent, NULL, END_TIMEOUT_MS);
	}
	if (r <= 0)
		(void)!pidref_signal(agent, SIGKILL);
	if (r < 0)
		complain(k, "watch the agent", -r);
	while (waitpid(agent->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r < 0)
		return SUPERVISOR_LOST;
	if (late)
		return SUPERVISOR_LATE;
	return status == 0 ? SUPERVISOR_GOOD : SUPERVISOR_FAILED;
}

/* 0, or -errno, which is told. */
static int start_agent(const struct supervisor *k, struct pidref *ret_agent)
{
	pid_t supervisor = getpid(), pid;
	int r = prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ? -errno : 0;

	if (r == 0) {
		pid = fork();
		if (pid == 0)
			be_agent(k, supervisor);
		r = pid < 0 ? -errno : pidref_open(pid, 0, ret_agent);
	}
	if (r < 0)
		complain(k, "start the agent", -r);
	return r;
}

_noreturn_ void supervisor_run(const struct supervisor *k)
{
	enum supervisor_status status = SUPERVISOR_LOST;
	struct pidref agent = PIDREF_INIT;
	sigset_t all, child;

	process_default_signals();
	(void)sigfillset(&all); /* can't fail with valid arguments, nor can the next three */
	(void)sigemptyset(&child);
	(void)sigaddset(&child, SIGCHLD);
	/* What a terminal sends ends the doctor, and so the step. */
	(void)sigprocmask(SIG_BLOCK, &all, NULL);
	if (start_agent(k, &agent) == 0)
		status = watch(k, &agent);
	end_children(&child);
	doctor_dir_remove(k->runtime_dir, k->plugin_dir);
	_exit(status);
}
