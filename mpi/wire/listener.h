/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A listening socket in an event loop. Where descriptors or memory are short, a connection stays in
 * the socket's queue and would wake the loop without end: then the listener pauses, and tries again
 * a moment later.
 */
#ifndef MPI_WIRE_LISTENER_H
#define MPI_WIRE_LISTENER_H

#include <ev.h>
#include <stdbool.h>

/* An accepted connection, non-blocking and O_CLOEXEC, which the callee takes over; or -errno: there
 * is a shortage, the listener pauses, and the callee may close something. May stop the
 * listener. */
typedef void (*wire_listener_fn)(int fd, void *userdata);

struct wire_listener {
	struct ev_loop *loop;
	ev_io readable;
	ev_timer pause;
	wire_listener_fn accepted;
	void *userdata;
};

#define WIRE_LISTENER_PAUSE_MS 200

/* Whether accept(2) fails for lack of something that comes back. */
bool wire_listener_is_shortage(int error);

void wire_listener_init(struct wire_listener *listener, struct ev_loop *loop,
	wire_listener_fn accepted, void *userdata);

/* fd is non-blocking, and stays the caller's. */
void wire_listener_start(struct wire_listener *listener, int fd);

/* Of one that was initialised; may be called more than once. */
void wire_listener_stop(struct wire_listener *listener);

#endif
