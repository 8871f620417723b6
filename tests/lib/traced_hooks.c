/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library of step hooks for tests. It adds a line for each function to the file that its
 * descriptor is: as whom it runs, in the agent or in a task, and what it has in memory. The step's
 * variables HOOKS_FAIL=FUNCTION and HOOKS_STATUS=FUNCTION:STATUS have a function fail, the rank 100
 * has task_forked fail.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stepd/api/env.h"
#include "stepd/api/step_hooks.h"

static int trace_fd = -1, calls, fails_forked;
static pid_t agent;

static const char *value_of(const stepd_step_hook_t *hook, const char *name)
{
	const char *value = hook->env ? stepd_env_get(*hook->env, name) : NULL;

	return value ? value : "";
}

static void trace(const stepd_step_hook_t *hook, const char *name)
{
	char line[1024], cwd[512] = "";
	int n;

	calls++;
	if (!getcwd(cwd, sizeof(cwd)))
		cwd[0] = '\0';
	n = snprintf(line, sizeof(line), "%s %s uid=%d/%d calls=%d task=%d pid=%s%s cwd=%s %s\n",
		name, getpid() == agent ? "agent" : "child", (int)getuid(), (int)geteuid(), calls,
		hook->task ? (int)hook->task->gtid : -1,
		!hook->task                           ? "-"
			: hook->task->pid == getpid() ? "own"
			: hook->task->pid > 0         ? "other"
						      : "0",
		hook->env ? " env" : "", cwd, hook->env ? value_of(hook, "HOOKS_SEEN") : "");
	if (write(trace_fd, line, (size_t)n) != n)
		abort();
}

static int end_of(const stepd_step_hook_t *hook, const char *name)
{
	const char *status = value_of(hook, "HOOKS_STATUS");
	size_t n = strlen(name);

	return strncmp(status, name, n) == 0 && status[n] == ':' ? atoi(status + n + 1) : 0;
}

/* The variable has the names of all that have changed it. */
static void change(const stepd_step_hook_t *hook, const char *name)
{
	char value[256];

	(void)snprintf(value, sizeof(value), "%s%s,", value_of(hook, "HOOKS_SEEN"), name);
	if (stepd_env_set(hook->env, "HOOKS_SEEN", value) < 0)
		abort();
	stepd_env_unset(*hook->env, "HOOKS_GONE");
}

static int on_step(const stepd_step_hook_t *hook, const char *name)
{
	trace(hook, name);
	change(hook, name);
	return strcmp(value_of(hook, "HOOKS_FAIL"), name) == 0 ? -1 : 0;
}

static int on_begin(const stepd_step_hook_t *hook, int fd)
{
	agent = getpid();
	trace_fd = fd;
	fails_forked = strcmp(value_of(hook, "HOOKS_FAIL"), "task_forked") == 0;
	return on_step(hook, "begin");
}

static int on_before_tasks(const stepd_step_hook_t *hook)
{
	return on_step(hook, "before_tasks");
}

static int on_task_privileged(const stepd_step_hook_t *hook)
{
	trace(hook, "task_privileged");
	change(hook, "task_privileged");
	return end_of(hook, "task_privileged");
}

static int on_task_forked(const stepd_step_hook_t *hook)
{
	trace(hook, "task_forked");
	return fails_forked ? -1 : 0;
}

static int on_task(const stepd_step_hook_t *hook)
{
	trace(hook, "task");
	change(hook, "task");
	return end_of(hook, "task");
}

static void on_task_ended(const stepd_step_hook_t *hook)
{
	trace(hook,
		WIFEXITED(hook->wait_status) && WEXITSTATUS(hook->wait_status) == 3 ? "task_ended_3"
										    : "task_ended");
}

static void on_end(const stepd_step_hook_t *hook)
{
	trace(hook, "end");
}

const stepd_step_hooks_t stepd_step_hooks = {
#ifndef OTHER_VERSION
	.version = STEPD_STEP_HOOKS_VERSION,
#endif
	.begin = on_begin,
	.before_tasks = on_before_tasks,
	.task_privileged = on_task_privileged,
	.task_forked = on_task_forked,
	.task = on_task,
	.task_ended = on_task_ended,
	.end = on_end,
};
