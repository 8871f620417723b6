/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The streams of a step that is not given its client's own: pipes to its agent. An outlet carries
 * output into the channel to steprun and leaves it in its pipe while the channel is full; much of
 * it goes from pipe to pipe without a copy. An inlet writes what comes for standard input; the
 * sender limits how much that is, by what was stored and taken. Where other nodes' tasks set the
 * pace, what this node's lack is stored in a backlog.
 */
#ifndef STEPD_CLI_RELAY_STREAMS_H
#define STEPD_CLI_RELAY_STREAMS_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/buffer.h"
#include "stepd/base/cleanup.h"

struct backlog;
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
	bool held;        /* nothing is read yet */
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

/* What is written waits, until it is released or drained. */
void outlet_hold(struct outlet *o);
void outlet_release(struct outlet *o);

/* The channel has capacity again, or steprun is gone. */
void outlet_resume(struct outlet *o);

/* Carries what is left in the pipe, up to a limit, and closes it. */
void outlet_drain(struct outlet *o);

void outlet_close(struct outlet *o);

struct inlet_events {
	/* So many bytes more need no memory but that of a backlog, or of what waits without one.
	 * May be NULL. */
	void (*stored)(size_t size, void *userdata);
	void (*taken)(size_t size, void *userdata); /* so many are in the pipe, or left out */
	void (*refused)(void *userdata);            /* the step reads no more; it is closed */
	/* A message for the user: the backlog can't grow, or bytes are left out. Only with one. */
	void (*warn)(const char *text, void *userdata);
};

/* Its standard input. */
struct inlet {
	struct ev_loop *loop;
	int fd; /* -1: as above */
	ev_io io;
	struct buffer bytes;     /* not stored yet */
	struct backlog *backlog; /* NULL: all that waits is in bytes */
	int64_t at;              /* in the backlog: the next byte for the pipe */
	uint64_t read_back;      /* bytes of its file since its space was given back */
	uint64_t dropped;        /* bytes that were left out */
	bool drops, warned;
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

/* Before the first bytes: what the step has not read is stored there, which the inlet owns. drops:
 * where that can't grow the oldest bytes are left out; else the next ones wait. */
void inlet_store_in_take(struct inlet *in, struct backlog *backlog, bool drops);

void inlet_write(struct inlet *in, const void *bytes, size_t size);
void inlet_end(struct inlet *in); /* closed once all is written */
void inlet_close(struct inlet *in);

#endif
