/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Clients that are attached to the tasks' streams (stepctl attach): each has a channel
 * (attach_wire.h), over which it gets the output of the ranks that it chose, and may send them
 * input.
 *
 * A ring of the last output for each stream, of all clients; a client is a position in each of
 * them. What a task writes is sent at once to the clients whose channel takes it; one that has
 * fallen behind by more than a ring is told how much it lacks. Nobody waits for a client.
 *
 * Memory: a ring for each stream, once it has had output; for each client eight bytes a stream, the
 * record that its channel took in part, and a piece of input that a task has not read yet; the
 * kernel holds what the client has not read, at most net.core.wmem_default.
 */
#ifndef STEPD_STDIO_ATTACH_H
#define STEPD_STDIO_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/cleanup.h"

struct attach;
struct attach_stream;
struct ev_loop;
struct handover;
struct json_t;
struct log;
struct winsize;

#define ATTACH_CLIENTS_MAX 64u /* in all */
#define ATTACH_OTHERS_MAX  48u /* of them, of users other than root */

/* The tasks' inputs. */
struct attach_inputs {
	/* The descriptor that a rank's input is written to, non-blocking and borrowed; -1: it takes
	 * no more. */
	int (*find)(uint32_t rank, void *userdata);

	/* The end of a rank's input, which comes from clients alone. */
	void (*end)(uint32_t rank, void *userdata);

	/* The last client with a window has left. */
	void (*no_window)(void *userdata);
	void *userdata;
};

int attach_new(struct ev_loop *loop, const struct log *log, size_t ring_size,
	const struct attach_inputs *inputs, struct attach **ret_attach) _must_check_;

/* A stream of a rank, which lives as long as the object; after attach_restore() the one of before.
 * NULL: no memory. */
struct attach_stream *attach_add_stream(struct attach *attach, uint32_t rank, int stream);

/* A rank whose input may come from clients; before its streams. by_default: also of one that chose
 * no ranks. 0 or -ENOMEM. */
int attach_add_input(
	struct attach *attach, uint32_t rank, bool is_terminal, bool by_default) _must_check_;

/* What the task has written, and its end. NULL is allowed. */
void attach_put(struct attach_stream *stream, const void *data, size_t size);
void attach_end(struct attach_stream *stream);

/* ---- clients ------------------------------------------------------------------------------- */

enum attach_from {
	ATTACH_FROM_NOW,
	ATTACH_FROM_TAIL,   /* what the rings have */
	ATTACH_FROM_OFFSET, /* of each stream; one that is not there yet: from there on */
};

struct attach_choice {
	const uint32_t *ranks; /* ascending; NULL: all */
	size_t ranks_count;
	unsigned streams; /* 1 << STDOUT_FILENO, 1 << STDERR_FILENO */
	enum attach_from from;
	uint64_t offset;
	bool input; /* it may send some */
	uid_t uid;  /* its user */
};

/* Whether there is a terminal, or any input, among the chosen ranks. */
bool attach_has_terminal(const struct attach *attach, const struct attach_choice *choice);
bool attach_has_input(const struct attach *attach, const struct attach_choice *choice);

/* Whether there may be one client more: 0, or the limit that it would exceed. */
unsigned attach_admit(const struct attach *attach, uid_t uid);

/* Owns fd, a non-blocking socket, from the call on. */
int attach_client_take(
	struct attach *attach, int fd, const struct attach_choice *choice) _must_check_;

/* All streams have ended: sends the rest, waits for clients as long as they take it, some seconds
 * at most, and calls done, once, from here or from the loop. done may free the object. */
void attach_finish(struct attach *attach, void (*done)(void *userdata), void *userdata);

/* ---- re-exec (handover.h) ------------------------------------------------------------------ */

/* restore: before streams and inputs are added again. done as of attach_finish(). */
void attach_save(const struct attach *attach, struct handover *h, struct json_t *object);
int attach_restore(struct attach *attach, const struct handover *h, const struct json_t *object,
	void (*done)(void *userdata), void *userdata) _must_check_;

struct attach *attach_free(struct attach *attach);
DEFINE_CLEANUP(struct attach *, attach_free);
#define _cleanup_attach_ _cleanup_(attach_free_p)

#endif
