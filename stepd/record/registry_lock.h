/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The file "lock" of a step's directory, by fcntl(2)'s locks of open files: they end with the
 * process, and asking for one (F_OFD_GETLK) takes none, so that who asks whether an agent lives is
 * never taken for one.
 *   byte 0        an agent's, for as long as it lives
 *   all others    an agent's, too, or of who tidies up after a dead one, for a moment
 * An agent takes byte 0 first and waits for the others; who tidies up takes those and never waits,
 * and then looks whether byte 0 is taken. So neither disturbs the other.
 */
#ifndef STEPD_RECORD_REGISTRY_LOCK_H
#define STEPD_RECORD_REGISTRY_LOCK_H

#include "stepd/base/cleanup.h"

/* A descriptor that holds the lock. -EWOULDBLOCK: an agent lives; or one that was killed a moment
 * ago has children that have not executed their programs yet and share its open files. For these
 * patience_ms is waited. -ESTALE: the directory was removed meanwhile. */
int registry_lock_for_agent(int dir_fd, unsigned patience_ms) _must_check_;

/* Likewise; -EWOULDBLOCK also where somebody else tidies up. */
int registry_lock_for_cleaning(int dir_fd) _must_check_;

#endif
