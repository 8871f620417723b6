/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A child that stands for a container: a fork of the agent that no wait for any child sees without
 * __WALL, for its exit signal is 0.
 */
#ifndef PROCTRACK_HIDDEN_CHILD_H
#define PROCTRACK_HIDDEN_CHILD_H

#include <signal.h>
#include <sys/types.h>

#include "stepd/base/cleanup.h"

/* Runs in the child, with all signals blocked, so that no handler of the agent's does. */
typedef _noreturn_ void (*hidden_child_fn)(void *userdata);

/* The child's pid, or -errno. The caller closes *ret_pidfd. Needs clone3, of Linux 5.3. */
pid_t hidden_child_start(hidden_child_fn run, void *userdata, int *ret_pidfd) _must_check_;

/* As waitid(2): 0 or -errno. */
int hidden_child_wait(int pidfd, int options, siginfo_t *ret_info) _must_check_;

/* Waits for its end and closes pidfd. */
void hidden_child_reap(int pidfd);

#endif
