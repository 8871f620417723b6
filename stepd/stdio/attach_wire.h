/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The records on the channel between the agent and a client that is attached (operation Attach):
 * the connection of the call itself, once the reply has been sent. Both are on one node: numbers
 * are in the host's byte order. A record is a head, and the bytes that it counts.
 */
#ifndef STEPD_STDIO_ATTACH_WIRE_H
#define STEPD_STDIO_ATTACH_WIRE_H

#include <stdint.h>

enum attach_kind {
	/* From the agent. */
	ATTACH_DATA = 1, /* of the stream, from offset on; count is 1 where it is a terminal's */
	ATTACH_LOST,     /* count bytes, up to offset, are not in the ring any more */
	ATTACH_END,      /* the stream has ended at offset */
	ATTACH_UNREAD,   /* no task reads the client's input any more */
	ATTACH_FINISHED, /* the step's streams have ended; the last record */

	/* From the client. */
	ATTACH_INPUT = 16, /* bytes for the tasks' standard input */
	ATTACH_WINDOW,     /* struct attach_window: the size of the client's terminal */
	ATTACH_INPUT_END,  /* the client's input has ended */
};

struct attach_head {
	uint32_t kind; /* enum attach_kind */
	uint32_t rank;
	uint32_t stream; /* STDOUT_FILENO or STDERR_FILENO */
	uint32_t size;   /* bytes behind it */
	uint64_t offset, count;
};

struct attach_window {
	uint16_t rows, columns, x_pixels, y_pixels;
};

/* Bytes of a record. */
#define ATTACH_DATA_MAX  65536u
#define ATTACH_INPUT_MAX 16384u

#endif
