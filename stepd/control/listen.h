/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A listening Unix socket in a directory, for everybody to connect to.
 */
#ifndef STEPD_CONTROL_LISTEN_H
#define STEPD_CONTROL_LISTEN_H

#include "stepd/base/err.h"

#define LISTEN_NAME "socket"

/* Makes "socket" in the directory, mode 0666 whatever the umask, in the place of what is there.
 * path is the same directory, of any length. Returns the descriptor. */
int listen_at(int dir_fd, const char *path, struct err *err) _must_check_;

#endif
