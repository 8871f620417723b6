/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Descriptors beside the standard ones. O_NONBLOCK belongs to an open file, which the agent's 0, 1
 * and 2 share with the process that started it: it is never set there, but on an open file of our
 * own.
 */
#ifndef STEPD_PROCESS_STDFD_H
#define STEPD_PROCESS_STDFD_H

#include <stdbool.h>

#include "stepd/base/cleanup.h"

/* What this process was started with as 0, 1 or 2. False where it was closed, and where one of our
 * own (O_CLOEXEC) descriptors has taken the number since. */
bool stdfd_inherited(int fd);

/* Takes fd and gives it, or its copy where it is one of 0, 1 and 2, so that a child's dup2() to
 * those can't overwrite it. -errno: fd is closed. */
int stdfd_move_above(int fd) _must_check_;

/* A pipe, both ends above 2 and O_CLOEXEC; ours (ends[0] if we_read) does not block. */
int stdfd_pipe(bool we_read, int ret_ends[2]) _must_check_;

int stdfd_set_nonblock(int fd, bool on) _must_check_;

/* Opens the FIFO, pipe or terminal behind fd once more, not blocking, for O_RDONLY or O_WRONLY.
 * -errno where that can't be: another kind, another user's, or the other end is closed. */
int stdfd_reopen(int fd, int access) _must_check_;

#endif
