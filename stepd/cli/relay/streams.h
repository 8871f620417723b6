/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The streams of a step between its agent, to which they are pipes, and steprun's channel: what
 * "stepd relay" carries. Neither side waits: output rests in its pipe while the channel is full,
 * and steprun sends no more input than it has acknowledgements for.
 */
#ifndef STEPD_CLI_RELAY_STREAMS_H
#define STEPD_CLI_RELAY_STREAMS_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"
#include "stepd/control/buffer.h"

struct channel;
struct channel_line;

/* Where they go: borrowed, and living longer. */
struct carrier {
	struct ev_loop *loop;
	struct channel *channel;
	uint32_t index; /* of the relay */
};

/* An output stream of the step. */
struct outlet {
	const struct carrier *to;
	const char *verb; /* "out" or "err" */
	int fd;           /* -1: it is closed, or was never open */
	ev_io io;
	bool untaken; /* nobody listens: it is read, so that tasks can go on, and dropped */
};

#define OUTLET_INIT                                                                                \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* *ret_fd is the writing end, for the agent. 0 or -errno; the caller closes the outlet anyway. */
int outlet_open(
	struct outlet *o, const struct carrier *to, const char *verb, int *ret_fd) _must_check_;

/* The channel has room again, or nobody listens any more. */
void outlet_resume(struct outlet *o);

/* What is left in the pipe is carried, to a limit; then it is closed. */
void outlet_drain(struct outlet *o);

void outlet_close(struct outlet *o);

/* Its standard input. */
struct inlet {
	const struct carrier *from;
	int fd; /* -1: as above */
	ev_io io;
	struct buffer bytes;
	bool ends; /* no more will come */
};

#define INLET_INIT                                                                                 \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* *ret_fd is the reading end. 0 or -errno. */
int inlet_open(struct inlet *in, const struct carrier *from, int *ret_fd) _must_check_;

/* A line "in", and one "eof". */
void inlet_take(struct inlet *in, const struct channel_line *line);
void inlet_end(struct inlet *in);

void inlet_close(struct inlet *in);

#endif
