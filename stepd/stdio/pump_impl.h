/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The pump, for pump.c, which carries the bytes; pump_copies.c, which has what tools get of them;
 * and pump_counts.c, which counts them for an adopter.
 */
#ifndef STEPD_STDIO_PUMP_IMPL_H
#define STEPD_STDIO_PUMP_IMPL_H

#include <ev.h>
#include <stddef.h>

#include "stepd/base/buffer.h"
#include "stepd/stdio/pump.h"

struct attach_stream;
struct sink;

#define PUMP_LABEL_SIZE 16 /* "4294967295: ", and the end of a line */

struct pump_source {
	struct pump_source *next;         /* in the pump */
	struct pump_source *next_waiting; /* in the destination's queue */
	struct pump_dest *dest;
	ev_io io; /* active while bytes are wanted */
	int fd;   /* -1: its end was reached */
	bool ended;
	bool waiting;     /* the destination has no space, or another task's line is incomplete */
	bool is_pty;      /* the master of a pseudo-terminal, not a pipe */
	bool is_terminal; /* which has returned the carriage at the ends of lines */
	uint32_t rank;
	int stream;    /* STDOUT_FILENO or STDERR_FILENO */
	bool copied;   /* its bytes go to the pump's copy, too */
	uint64_t lost; /* bytes dropped from the copy since the last count was sent */
	struct attach_stream *attached; /* of clients; may be NULL */
	char label[PUMP_LABEL_SIZE];
	size_t label_size;
	int left;  /* pump_finish(): bytes to read yet */
	char *buf; /* PUMP_LINE_SIZE, NULL while empty */
	size_t start, size;
	size_t seen;      /* of size, known to hold no newline */
	int64_t position; /* used by pump_save() */
	uint32_t number;  /* in the pump */
};

struct pump_dest {
	struct pump *pump;
	struct sink *sink;
	struct pump_source *owner; /* task with an incomplete line: the next byte is its */
	struct pump_source *first_waiting, **last_waiting;
	ev_timer idle; /* active while the owner is silent and others wait */
	bool crlf;     /* pump_set_crlf() */
	bool mid_line; /* the last byte was no newline */
	bool settled;  /* its sources have ended and all bytes are written */
	bool counted;  /* among the unsettled; it has had sources */
	size_t sources;
	size_t number;       /* in the pump's array */
	struct buffer parts; /* pump_counts.c: of the sink's bytes, with a tally */
};

struct pump {
	struct ev_loop *loop;
	const struct log *log;
	struct pump_source *sources, **last_source;
	struct pump_dest **dests;
	size_t dests_count, dests_capacity;
	size_t unsettled; /* destinations with sources or with bytes to write */
	int label_width;
	bool raw;              /* bytes unchanged: no lines, no labels */
	struct copy *copy;     /* borrowed */
	struct attach *attach; /* may be NULL */
	bool started;
	bool finishing;
	pump_done_fn done;
	void *userdata;
	pump_terminal_fn on_terminal; /* may be NULL */
	void *terminal_userdata;
	uint32_t sources_count;
	struct tally *tally; /* borrowed; NULL: nothing is counted */
	pump_closing_fn on_closing;
	void *closing_userdata;
};

/* ---- pump_copies.c ------------------------------------------------------------------------- */

/* What was read from the task, and the stream's end. */
void pump_copy_bytes(struct pump_source *src, const char *data, size_t size);
void pump_copy_end(struct pump_source *src);

/* ---- pump_counts.c ------------------------------------------------------------------------- */

/* Before and after each read; an agent that is killed in between may have read more. */
void pump_count_reading(const struct pump_source *src);
void pump_count_read(const struct pump_source *src, size_t size);

/* Bytes of the source that are written, or dropped and logged. */
void pump_count_written(const struct pump_source *src, size_t size);

/* What the sink has more than the before bytes that it had: payload bytes of it are the source's
 * (NULL: no source's), the others its label. They count as written once the sink has written them.
 */
void pump_count_put(
	struct pump_dest *dest, const struct pump_source *src, size_t before, size_t payload);

/* At a re-exec. */
void pump_counts_save(const struct pump_dest *dest, struct handover *h, struct json_t *object);
int pump_counts_restore(
	struct pump_dest *dest, const struct handover *h, const struct json_t *object) _must_check_;

#endif
