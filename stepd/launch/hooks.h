/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The host's side of <stepd/step_hooks.h>: loads the library, and calls its functions with the
 * environment and the identity that they are to have.
 */
#ifndef STEPD_LAUNCH_HOOKS_H
#define STEPD_LAUNCH_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct child_context;
struct hooks;
struct plan;

/* Loads it. Refused are a library that others than root could change, and an agent that is not
 * root's. fd is the library's, which gets it by hooks_begin(); -1: none. */
int hooks_open(const char *library, int fd, struct hooks **ret_hooks, struct err *err) _must_check_;

/* The library, for messages. */
const char *hooks_get_library(const struct hooks *hooks);

/* In the agent. NULL hooks: there is nothing to do. */
int hooks_begin(struct hooks *hooks, struct plan *plan, struct err *err) _must_check_;
int hooks_task_forked(struct hooks *hooks, const struct plan *plan, uint32_t local_id,
	struct err *err) _must_check_;
/* Of an extern step, in the place of the one before: it has no task. */
int hooks_extern_started(
	struct hooks *hooks, const struct plan *plan, struct err *err) _must_check_;
void hooks_task_ended(struct hooks *hooks, const struct plan *plan, uint32_t local_id, pid_t pid,
	int wait_status);

/* The step is over: the last call. Returns NULL. */
struct hooks *hooks_end(struct hooks *hooks, const struct plan *plan);

/* Before the first fork: calls the function as the user in the step's directory, and leaves the
 * agent there, since tasks are to begin there; hooks_after_forks() goes back. */
int hooks_before_tasks(struct hooks *hooks, struct plan *plan, struct err *err) _must_check_;
void hooks_after_forks(struct hooks *hooks);

/* In a task's process that has memory of its own. 0, the exit status that the task is to end with,
 * or -errno. */
int hooks_task_privileged(struct hooks *hooks, struct plan *plan, struct child_context *context);
int hooks_task(struct hooks *hooks, struct plan *plan, struct child_context *context);

#endif
