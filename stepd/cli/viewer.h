/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The client's side of an attached step (stepd/stdio/attach_wire.h): output with or without labels,
 * input, and the terminal while it is a task's. It knows no command line and no step. What it shows
 * comes from one agent, or from one on each node of a step.
 *
 * Under labels a line is written whole: none of another stream stands in it. One longer than
 * VIEWER_LINE_MAX is written in pieces, and is broken by a newline if another stream has a line
 * meanwhile.
 */
#ifndef STEPD_CLI_VIEWER_H
#define STEPD_CLI_VIEWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct buffer;

#define VIEWER_LINE_MAX   65536u
#define DETACH_KEYS_MAX   16
#define DETACH_KEYS_USUAL "ctrl-p,ctrl-q"

/* The keys that end the client alone, typed one after the other. count 0: there are none. */
struct detach_keys {
	char bytes[DETACH_KEYS_MAX];
	size_t count;
};

/* "ctrl-p,ctrl-q", "ctrl-\\,d": letters, and ctrl- with a letter or one of @ [ \ ] ^ _. "": none.
 */
int detach_keys_parse(const char *text, struct detach_keys *ret_keys, struct err *err) _must_check_;

struct viewer_options {
	const char *program; /* before messages */
	int in_fd, out_fd, err_fd;
	bool label;
	uint32_t ntasks; /* for the labels' width */
	bool input;      /* what in_fd has is sent */
	bool terminal;   /* to a task's terminal: in_fd's own is raw meanwhile, if it is one */
	struct detach_keys keys;
};

enum viewer_end {
	VIEWER_FINISHED,   /* the step's streams have ended */
	VIEWER_DETACHED,   /* by its keys, or its terminal is gone */
	VIEWER_AGENT_GONE, /* the channel ended before */
	VIEWER_OUTPUT,     /* output could not be written: err */
};

/* Runs until an end. channel is borrowed; rest is what came from it before, and is taken over. A
 * signal that ends the program does so once the terminal is as it was before. */
enum viewer_end viewer_run(
	const struct viewer_options *options, int channel, struct buffer *rest, struct err *err);

/* ---- several agents ------------------------------------------------------------------------ */

/* For a caller with a loop of its own, which passes on what it has read, and sends what comes of
 * the user. Nothing but output waits here: until it is written, or a signal has ended the viewer.
 */

struct viewer;
struct viewer_source;

/* A record for the agents. */
typedef void viewer_send_fn(uint32_t kind, const void *data, size_t size, void *userdata);

/* options are borrowed; ntasks may change until the first bytes come, and terminal until
 * viewer_begin(). err gets the reason of VIEWER_OUTPUT. NULL: no memory. */
struct viewer *viewer_new(const struct viewer_options *options, viewer_send_fn *send,
	void *userdata, struct err *err) _must_check_;

/* An agent; reads: it takes input. NULL: no memory. */
struct viewer_source *viewer_add_source(struct viewer *viewer, bool reads) _must_check_;

/* Bytes that have come from it; and no more will. */
void viewer_feed(
	struct viewer *viewer, struct viewer_source *source, const void *bytes, size_t size);
void viewer_end_source(struct viewer *viewer, struct viewer_source *source);

/* Whether all of its streams have ended. */
bool viewer_source_is_finished(const struct viewer_source *source);

/* All sources have been added: the terminal is the task's, and once all have ended the viewer
 * has. */
void viewer_begin(struct viewer *viewer);

/* A line on standard error. */
void viewer_message(struct viewer *viewer, const char *text);

/* Whether in_fd is to be read where pending bytes have not been taken, and most may be; it can be.
 */
bool viewer_wants_input(const struct viewer *viewer, size_t pending);
void viewer_on_input(struct viewer *viewer);

/* Of the signals that are handled while the terminal is raw; -1: none. It is readable. */
int viewer_signal_fd(const struct viewer *viewer);
void viewer_on_signal(struct viewer *viewer);

bool viewer_is_over(const struct viewer *viewer);

/* Writes what is left, and gives the terminal back: a signal that has ended the viewer ends the
 * program here. Returns why it is over. */
enum viewer_end viewer_free(struct viewer *viewer);

#endif
