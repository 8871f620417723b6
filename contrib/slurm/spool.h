/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The directory in which Slurm's clients search for sockets: SlurmdSpoolDir of the slurm.conf that
 * they use. One adapter at a time has it, by a lock on <spool>/.lock. It must not be that of a
 * slurmd, which takes every socket that answers there for a running step of its own.
 */
#ifndef SLURM_SOCKET_SPOOL_H
#define SLURM_SOCKET_SPOOL_H

#include <stdbool.h>

#include "stepd/base/err.h"

struct spool;

/* Makes the directory if it does not exist, locks it, and removes the sockets that a killed adapter
 * left there. -EBUSY: another adapter has it. -EEXIST: it is a slurmd's (unless force is set). */
int spool_open(
	const char *path, bool force, struct spool **ret_spool, struct err *err) _must_check_;

/* That of a slurmd, for a step which it has started: others make sockets there, too. */
int spool_open_slurmds(const char *path, struct spool **ret_spool, struct err *err) _must_check_;

/* NULL is fine. Returns NULL. */
struct spool *spool_close(struct spool *spool);

const char *spool_get_path(const struct spool *spool);

/* Whether somebody listens at a socket whose name begins so, but for this one. */
bool spool_has_listener(const struct spool *spool, const char *prefix, const char *except);

struct spool_socket;

/* Listens at <spool>/<name>, for all users (mode 0666). A socket without a listener is replaced
 * atomically: a client that connects finds a listener. spool is borrowed until it is closed.
 * -EADDRINUSE: another process listens there. -ENAMETOOLONG: no client could connect. */
int spool_listen(const struct spool *spool, const char *name, struct spool_socket **ret_socket,
	struct err *err) _must_check_;

int spool_socket_get_fd(const struct spool_socket *socket);

/* Removes its name if that is still ours: nobody connects any more. Those that have are there. */
void spool_socket_unlink(const struct spool_socket *socket);

/* Closes the socket, and removes its name if that is still ours. NULL is fine. Returns NULL. */
struct spool_socket *spool_socket_close(struct spool_socket *socket);

#endif
