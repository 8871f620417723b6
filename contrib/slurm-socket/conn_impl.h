/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A connection as its two halves know it: conn.c, which has its life, and conn_ask.c, which asks
 * the agent for it.
 */
#ifndef SLURM_SOCKET_CONN_IMPL_H
#define SLURM_SOCKET_CONN_IMPL_H

#include <ev.h>
#include <sys/socket.h>

#include "contrib/slurm-socket/call.h"
#include "contrib/slurm-socket/server.h"

enum conn_state {
	CONN_HELLO,
	CONN_READING,
	CONN_ASKING,
	CONN_WRITING,
	CONN_STATE_MAX
};

/* What the client, or we for it, are given time for. */
enum conn_wait {
	WAIT_NOTHING,
	WAIT_IDLE,
	WAIT_REQUEST,
	WAIT_TURN,
	WAIT_ANSWER,
	WAIT_MAX
};

/* What a state's function comes to. */
enum conn_next {
	NEXT_STATE,
	NEXT_EVENT,
	NEXT_END
};

struct conn {
	LIST_ENTRY(conn) link;
	TAILQ_ENTRY(conn) queue_link;
	struct listener *listener;
	int fd;
	struct ucred peer; /* as the kernel had it when the client connected */
	enum conn_state state;
	enum conn_wait wait;
	bool deaf;        /* it has sent more than is read now */
	bool eof;         /* the client sends no more; it may wait for answers */
	bool last_answer; /* the end, once that is written */
	bool queued;      /* in the listener's queue */
	bool counted;     /* among the listener's queries at the agent */
	uint16_t version;
	uint8_t in[WIRE_REQUEST_MAX];
	size_t in_size;
	struct requests_plan plan;
	struct call *call;
	struct wire_answer out;
	size_t memory; /* of out, as the server counts it */
	ev_io io;
	ev_timer timer;
};

/* ---- conn.c ---------------------------------------------------------------------------------- */

/* Goes as far as it goes without waiting. c may be no more afterwards. */
void conn_advance(struct conn *c);

/* The time for something begins, unless it runs already. */
void conn_set_wait(struct conn *c, enum conn_wait wait);

void conn_drop_answer(struct conn *c);
void conn_leave_queue(struct conn *c);

/* Its place at the agent is free for the next. */
void conn_leave_agent(struct conn *c);

/* All of it, and the socket. */
void conn_free(struct conn *c);

/* ---- conn_ask.c ------------------------------------------------------------------------------ */

/* Begins the call of c's plan: 0, or a code of libstepd. */
int conn_ask(struct conn *c) _must_check_;

/* What there is of an answer goes out. */
enum conn_next conn_write_answer(struct conn *c);

/* It came to nothing: told, where the request has words for that. */
enum conn_next conn_fail(struct conn *c, int error);

#endif
