/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Attached clients, for attach.c, which has their life and sends them the tasks' output, and
 * attach_input.c, which has what they send: input, and the sizes of their windows.
 */
#ifndef STEPD_STDIO_ATTACH_IMPL_H
#define STEPD_STDIO_ATTACH_IMPL_H

#include <ev.h>
#include <sys/ioctl.h>
#include <sys/queue.h>

#include "stepd/base/buffer.h"
#include "stepd/stdio/attach.h"
#include "stepd/stdio/ring.h"

struct attach_stream {
	struct attach *attach;
	struct ring ring;
	uint32_t rank;
	int stream;
	bool ended;
	bool is_terminal; /* which has returned the carriage at the ends of lines */
	size_t number;    /* in the array, and of clients' positions */
};

struct attach_input {
	uint32_t rank;
	bool is_terminal, by_default;
};

/* What a rank has not taken yet of the client's first message. */
struct piece {
	LIST_ENTRY(piece) list;
	struct attach_client *client;
	uint32_t rank;
	int fd; /* a copy: the rank's input does not end before it has these bytes */
	size_t at;
	ev_io io;
};

LIST_HEAD(piece_list, piece);

struct attach_client {
	TAILQ_ENTRY(attach_client) list;
	struct attach *attach;
	int fd; /* -1: it is gone, and is about to be freed */
	uid_t uid;
	ev_io in_io, out_io;

	uint32_t *ranks; /* NULL: all */
	size_t ranks_count;
	unsigned streams;   /* as in struct attach_choice */
	uint64_t *position; /* by the streams' numbers */
	size_t positions;
	size_t turn;        /* the stream that is served first */
	bool blocked;       /* its channel is full */
	bool progress;      /* it has taken bytes since the last round of attach_finish() */
	bool finished;      /* it has the last record, but for the rest */
	struct buffer rest; /* of a record of which the channel has taken a part */

	bool takes_input;
	bool unread_due, unread_sent; /* the record ATTACH_UNREAD */
	struct buffer in;             /* received; the first message may wait for ranks */
	struct piece_list pieces;
	bool has_window;
	struct winsize window;
};

TAILQ_HEAD(client_list, attach_client);

struct attach {
	struct ev_loop *loop;
	const struct log *log;
	size_t ring_size;
	struct attach_inputs functions;
	struct attach_stream **streams;
	size_t streams_count, streams_capacity;
	size_t next_known; /* attach_restore(): the stream that is likely added next */
	bool restored;
	struct attach_input *inputs;
	size_t inputs_count, inputs_capacity, terminals_count;
	struct client_list clients, gone; /* the one whose window counts is the first */
	unsigned clients_count;
	int hup_fd; /* an epoll(7) that knows when clients hang up */
	ev_io hup_io;
	bool finishing;
	ev_timer patience;
	unsigned rounds;
	void (*done)(void *userdata); /* NULL: not finishing, or done */
	void *userdata;
};

/* ---- attach.c ------------------------------------------------------------------------------ */

/* ranks: ascending; NULL: all. */
bool attach_has_rank(const uint32_t *ranks, size_t count, uint32_t rank);

/* Closes its channel. It is freed by attach_reap(), at the end of the event. */
void attach_client_fail(struct attach_client *client);

/* At the end of each event: it may call done(), which may free the object. */
void attach_reap(struct attach *a);

/* Sends the record ATTACH_UNREAD if it is due and can be sent. */
void attach_client_send_unread(struct attach_client *client);

/* ---- attach_input.c ------------------------------------------------------------------------ */

/* Whether the rank's input is a terminal. */
bool attach_rank_has_terminal(const struct attach *a, uint32_t rank);

/* The callback of in_io. */
void attach_client_on_readable(struct ev_loop *loop, ev_io *io, int revents);

/* It is gone. What it sent before still counts, as far as the tasks take it now. */
void attach_client_read_rest(struct attach_client *client);

/* Tasks get no more of what it sent. */
void attach_client_clear_pieces(struct attach_client *client);

/* The client whose window counted has left. */
void attach_window_lost(struct attach *a);

/* At a re-exec: the tasks' inputs, and what a client has sent. */
void attach_inputs_save(const struct attach *a, struct handover *h, struct json_t *object);
int attach_inputs_restore(struct attach *a, const struct json_t *object) _must_check_;
void attach_client_save_input(
	const struct attach_client *client, struct handover *h, struct json_t *object);
int attach_client_restore_input(struct attach_client *client, const struct handover *h,
	const struct json_t *object) _must_check_;

#endif
