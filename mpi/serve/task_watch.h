/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tasks of this node once their agent has died and nobody reports their ends. Until then only
 * their pids are noted; then each one that lives is held by a pidfd (Linux 5.3). One that can't be
 * held, as there are no descriptors left, is forgotten: only its connection shows its end.
 */
#ifndef MPI_SERVE_TASK_WATCH_H
#define MPI_SERVE_TASK_WATCH_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

struct task_watch;

/* The task has ended, nobody knows how. */
typedef void (*task_watch_fn)(void *userdata, uint32_t rank);

struct task_watch *task_watch_new(struct ev_loop *loop, task_watch_fn ended, void *userdata);
struct task_watch *task_watch_free(struct task_watch *watch); /* NULL is fine */

/* While the agent lives: it reports both. */
int task_watch_add(struct task_watch *watch, uint32_t rank, pid_t pid) _must_check_;
void task_watch_remove(struct task_watch *watch, uint32_t rank);

/* The agent has died. Calls ended for those that have gone already, from the loop. */
void task_watch_begin(struct task_watch *watch);

/* Whether one of them is still thought to live. */
bool task_watch_has_any(const struct task_watch *watch);

#endif
