/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The listening Unix sockets of a step's directory. One is for everybody. The kernel keeps for each
 * socket a queue of connections that nobody has accepted yet, and connect(2) waits where it is
 * full; so those who must never wait for others have sockets that nobody else can connect to, and
 * with them queues of their own: root (and the agent's user), and the step's owner, whose tasks may
 * do as they like. A client tries them in this order (stepd/client/client.c).
 */
#ifndef STEPD_CONTROL_LISTEN_H
#define STEPD_CONTROL_LISTEN_H

#include <stdbool.h>
#include <sys/types.h>

#include "stepd/base/err.h"

enum listener_kind {
	LISTENER_AGENT,
	LISTENER_OWNER, /* only where the owner is neither root nor the agent's user */
	LISTENER_ALL,
	LISTENER_MAX,
};

/* Their names in the directory: "socket.agent", "socket.owner", "socket". */
extern const char *const listener_names[LISTENER_MAX];

/* Makes the socket in the directory, whatever the umask, in the place of what is there: mode 0666
 * for all, else 0600, that of the owner with him as the file's owner. path is the same directory,
 * of any length. Returns the descriptor. */
int listen_at(int dir_fd, const char *path, enum listener_kind kind, uid_t owner,
	struct err *err) _must_check_;

#endif
