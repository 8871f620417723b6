/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The pump's parts, for pump.c, which moves bytes, pump_copy.c, which sees to copies of them, and
 * pump_save.c, which hands them over to a new program. Nobody else looks inside.
 */
#ifndef STEPD_STDIO_PUMP_IMPL_H
#define STEPD_STDIO_PUMP_IMPL_H

#include <ev.h>

#include "stepd/stdio/pump.h"

struct copy;
struct sink;

#define PUMP_LABEL_SIZE 16 /* "4294967295: " */

struct pump_source {
	struct pump_source *next;         /* in the pump */
	struct pump_source *next_waiting; /* in the destination's queue */
	struct pump_dest *dest;
	ev_io io; /* active while bytes are wanted */
	int fd;   /* -1: its end was reached */
	bool ended;
	bool waiting; /* its bytes find no room, or another task's line is not at its end */
	uint32_t rank;
	int stream;    /* STDOUT_FILENO or STDERR_FILENO */
	bool copied;   /* what is read goes to the pump's copy, too */
	uint64_t lost; /* bytes that were left out of the copy since it was told last */
	char label[PUMP_LABEL_SIZE];
	size_t label_size;
	int left;  /* pump_finish(): bytes to read yet */
	char *buf; /* PUMP_LINE_SIZE, NULL while empty */
	size_t start, size;
	size_t seen;   /* of size, without a newline for sure */
	int64_t place; /* set by pump_save(), for itself */
};

struct pump_dest {
	struct pump_dest *next;
	struct pump *pump;
	struct sink *sink;
	struct pump_source *owner; /* in the middle of its line: the next byte is its */
	struct pump_source *first_waiting, **last_waiting;
	ev_timer idle; /* active while the owner pauses and others wait */
	bool mid_line; /* the last byte was no newline */
	bool settled;  /* its sources have ended and all is written */
	bool counted;  /* among the unsettled; it has had sources */
	size_t sources;
	int64_t number; /* set by pump_save(), for itself */
};

struct pump {
	struct ev_loop *loop;
	const struct log *log;
	struct pump_source *sources, **last_source;
	struct pump_dest *dests;
	size_t unsettled; /* destinations with sources or with bytes to write */
	int label_width;
	bool raw;          /* bytes as they come: no lines, no labels */
	struct copy *copy; /* borrowed; NULL: there is none */
	bool started;
	bool finishing;
	pump_done_fn done;
	void *userdata;
};

/* Makes dest, which has its sink, one of the pump's. */
void pump_take_dest(struct pump *pump, struct pump_dest *dest);

/* pump_copy.c: bytes were read; the source's end was reached. */
void pump_copy_bytes(struct pump_source *src, const char *data, size_t size);
void pump_copy_end(struct pump_source *src);

/* The source waits for its destination, behind those that do so already. */
void pump_wait_for_dest(struct pump_source *src);

#endif
