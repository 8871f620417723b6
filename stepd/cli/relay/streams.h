/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The streams of a step that is not given its client's own: pipes to its agent. An outlet carries
 * output into the channel to steprun and leaves it in its pipe while the channel is full; much of
 * it goes from pipe to pipe without a copy. An inlet writes what comes for standard input; the
 * sender limits how much that is, by what was taken.
 */
#ifndef STEPD_CLI_RELAY_STREAMS_H
#define STEPD_CLI_RELAY_STREAMS_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/buffer.h"
#include "stepd/base/cleanup.h"

struct channel;

/* The destination, borrowed for as long as the streams live. */
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
	bool large;       /* the pipe, because much is written */
	ev_io io;
	void (*ended)(void *userdata); /* of itself, and closed. NULL: not reported */
	void *userdata;
};

#define OUTLET_INIT                                                                                \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* *ret_fd is the writing end, for the agent. 0 or -errno. */
int outlet_open(
	struct outlet *o, const struct carrier *to, const char *verb, int *ret_fd) _must_check_;

/* fd does not block: the reading end of a pipe, a socket, or the master of a terminal. */
void outlet_init_take(struct outlet *o, const struct carrier *to, const char *verb, int fd);

/* The channel has capacity again, or steprun is gone. */
void outlet_resume(struct outlet *o);

/* Carries what is left in the pipe, up to a limit, and closes it. */
void outlet_drain(struct outlet *o);

void outlet_close(struct outlet *o);

struct inlet_events {
	void (*taken)(size_t size, void *userdata); /* so many bytes are in the pipe */
	void (*refused)(void *userdata);            /* the step reads no more; it is closed */
};

/* Its standard input. */
struct inlet {
	struct ev_loop *loop;
	int fd; /* -1: as above */
	ev_io io;
	struct buffer bytes;
	bool ends; /* no more will come */
	const struct inlet_events *events;
	void *userdata;
};

#define INLET_INIT                                                                                 \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* *ret_fd is the reading end. 0 or -errno. */
int inlet_open(struct inlet *in, struct ev_loop *loop, const struct inlet_events *events,
	void *userdata, int *ret_fd) _must_check_;

/* fd does not block: the writing end of a pipe, a socket, or the master of a terminal. */
void inlet_init_take(struct inlet *in, struct ev_loop *loop, const struct inlet_events *events,
	void *userdata, int fd);

void inlet_write(struct inlet *in, const void *bytes, size_t size);
void inlet_end(struct inlet *in); /* closed once all is written */
void inlet_close(struct inlet *in);

#endif
