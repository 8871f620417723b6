/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The client's side of an attached step (stepd/stdio/attach_wire.h): output with or without labels,
 * input, and the terminal while it is a task's. It knows no command line and no step.
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

#endif
