/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Step hooks: functions of a library that the agent calls at points of a step's life. The library
 * is root's, and is named by who starts the agent ("stepd serve --step-hooks"), never by a spec. It
 * is loaded once, into the agent of root, and stays until that ends; what it keeps in memory is
 * there in all of its functions: tasks are made as copies of the agent. A function that takes long
 * stops the agent for that time.
 *
 * An upgrade of the agent (stepctl reexec) is refused, and so are tasks that join the step. After
 * an agent that was killed no function is called any more. Of an extern step only begin,
 * task_forked and end are called.
 */
#ifndef STEPD_API_STEP_HOOKS_H
#define STEPD_API_STEP_HOOKS_H

#include "step.h"

#ifdef __cplusplus
extern "C" {
#endif

#define STEPD_STEP_HOOKS_VERSION 1u

/* What a function is about. All of it is the agent's, and valid during the call. */
typedef struct {
	const stepd_step_rec_t *step;
	/* The task, with its pid; NULL: the function is about the step. */
	const stepd_step_task_info_t *task;
	int wait_status; /* of task_ended, as of wait(2) */
	/* The environment of the tasks that are yet to come, or in task() of this one:
	 * <stepd/env.h>. Changes count. NULL in task_forked, task_ended and end: there is nothing
	 * to change. */
	char ***env;
} stepd_step_hook_t;

/* Each may be NULL. */
typedef struct {
	unsigned version; /* STEPD_STEP_HOOKS_VERSION */

	/* In the agent, as root, before the tasks' streams are opened. fd is that of
	 * --step-hooks-fd, or -1, and is the library's from now on. Below 0: the step fails, and
	 * no other function is called. */
	int (*begin)(const stepd_step_hook_t *hook, int fd);

	/* In the agent, with the effective ids of the user and in the step's directory, before the
	 * first task is forked. Below 0: the step fails. */
	int (*before_tasks)(const stepd_step_hook_t *hook);

	/* In the task's process, as root, within the container. Other than 0: the task ends with
	 * that exit status. */
	int (*task_privileged)(const stepd_step_hook_t *hook);

	/* In the agent, as root, for each task: all have been forked, and none is executed yet. Of
	 * an extern step, which begins without tasks, once, with task NULL: its container is there,
	 * and it is not reported to run yet. Below 0: the step fails. */
	int (*task_forked)(const stepd_step_hook_t *hook);

	/* In the task's process, as the user, with its streams, just before its program is
	 * executed. Other than 0: the task ends with that exit status. */
	int (*task)(const stepd_step_hook_t *hook);

	/* In the agent, as root. */
	void (*task_ended)(const stepd_step_hook_t *hook);
	/* Once all processes of the step have ended; also of a step that has failed after begin. */
	void (*end)(const stepd_step_hook_t *hook);
} stepd_step_hooks_t;

/* What the library has to define. */
__attribute__((visibility("default"))) extern const stepd_step_hooks_t stepd_step_hooks;

#ifdef __cplusplus
}
#endif

#endif
