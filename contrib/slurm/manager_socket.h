/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The process manager's end of the link that mpi/pmi/manager.h describes: a socket in the directory
 * of the step's FIFOs, at which the step's user, by the kernel's word, is accepted once.
 */
#ifndef SLURM_MANAGER_SOCKET_H
#define SLURM_MANAGER_SOCKET_H

#include <sys/types.h>

#include "contrib/slurm/fifos.h"
#include "mpi/pmi/manager.h"

struct ev_loop;
struct log;
struct manager_socket;

struct manager_socket_options {
	struct ev_loop *loop;
	const struct log *log;
	const char *label; /* the step's, for messages */
	const struct fifos *fifos;
	const char *name; /* of the socket */
	uid_t uid;
	/* A server that does not read so many bytes is given up, and one that sends a larger frame.
	 */
	size_t out_max, in_max;
	/* A frame has come; its body is valid until this returns. */
	void (*frame)(void *userdata, const struct manager_frame *frame);
	/* The server has ended or is given up, or the socket is closed: no frame comes any more.
	 * May be NULL. */
	void (*lost)(void *userdata);
	void *userdata;
};

int manager_socket_open(const struct manager_socket_options *options,
	struct manager_socket **ret_socket, struct err *err) _must_check_;

/* Where the server connects to. */
const char *manager_socket_get_path(const struct manager_socket *socket);

/* Sent now, or as soon as the server reads, which may be yet to come; nobody gets it once that has
 * gone. */
void manager_socket_send(
	struct manager_socket *socket, enum manager_type type, const struct bytes *body);

/* Gives the server up, for which why is the reason: "the server ...". May be called by frame(). */
void manager_socket_lose(struct manager_socket *socket, const char *why);

/* NULL is fine. Returns NULL. */
struct manager_socket *manager_socket_close(struct manager_socket *socket);

#endif
