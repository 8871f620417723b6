/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The user of steprun: its own streams, and its signals. Most signals are for the tasks. ^C once
 * prints which tasks run, again within a second ends the step, and once more kills it; ^\ ends it
 * at once. ^Z stops the step, and steprun with it.
 */
#ifndef STEPD_CLI_ACROSS_USER_H
#define STEPD_CLI_ACROSS_USER_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepd/base/bitset.h"
#include "stepd/base/buffer.h"
#include "stepd/base/err.h"

/* ---- streams ------------------------------------------------------------------------------- */

/* An input reads the standard input on its way to tasks. No more than INPUT_WINDOW bytes are
 * under way at a time: input_taken() reports how many have arrived in all, which may be less than
 * before where the one that had most has gone. The members of these structures are for user.c
 * alone.
 *
 * An output is the standard output, or error, of a step over several nodes: what nodes send, in
 * the order of arrival, with lines in one piece. An incomplete line waits for its end, but not
 * for long: it may be a prompt. A line longer than OUTPUT_LINE_MAX may be divided. Memory is
 * bounded: when much is pending, full(true) is called, and full(false) when it is written. What
 * comes through a pipe can be moved to the output without being copied.
 *
 * Lines with labels are never divided by those of other nodes, as an agent has it (pump.h): the
 * beginning of one waits for its end, or that of its node. One that is longer comes in pieces while
 * it grows, and others wait; if it then pauses for OUTPUT_IDLE_MS, or OUTPUT_HELD_MAX bytes wait of
 * senders that can't be held up, it is broken there by a newline, and what follows of it has its
 * label again. Behind a node's last line that has no end, another's line begins a new one. */

#define INPUT_WINDOW      (256u << 10)
#define OUTPUT_LINE_MAX   65536u
#define OUTPUT_TIMEOUT_MS 100 /* how long an incomplete line waits */
#define OUTPUT_IDLE_MS    5000
#define OUTPUT_HELD_MAX   (1u << 20)
#define OUTPUT_LABEL_SIZE 16u /* bytes of a label, and a NUL */

/* size 0: the end, once. */
typedef void input_fn(const void *bytes, size_t size, void *userdata);

/* All zero: not started. */
struct input {
	struct ev_loop *loop;
	ev_io io;
	uint64_t sent, taken;
	bool raw; /* a terminal's, for a task's pseudo-terminal */
	bool paused, ended;
	input_fn *on_bytes;
	void *userdata;
};

/* The descriptor's flags stay as they are. */
void input_start(struct input *input, struct ev_loop *loop, input_fn *on_bytes, void *userdata);
void input_taken(struct input *input, uint64_t total);
void input_pause(struct input *input, bool pause);
void input_stop(struct input *input); /* reads no more */

struct output_source;

struct output_events {
	void (*full)(bool full, void *userdata);
	void (*empty)(void *userdata); /* all is written, or dropped */
	/* What comes of this source has to wait for another's line, or no longer: holds its sender
	 * up. NULL: that is not possible, which OUTPUT_HELD_MAX bounds. */
	void (*waits)(struct output_source *source, bool on, void *userdata);
	/* Nothing can be written any more: -errno, once. Further output is dropped. */
	void (*failed)(int error, void *userdata);
};

enum output_kind {
	OUTPUT_FILE,   /* a write waits for no reader */
	OUTPUT_PIPE,   /* splice() into it can be told not to wait */
	OUTPUT_SOCKET, /* so can send() */
	OUTPUT_OTHER,  /* a write of PIPE_BUF does not wait once it is writable */
	OUTPUT_MAX,
};

struct output {
	struct ev_loop *loop;
	int fd;
	enum output_kind kind;
	bool moves; /* by splice(), from a pipe */
	bool full, failed;
	bool crlf; /* it is a terminal that is raw: a newline needs a carriage return */

	/* With labels: */
	bool labelled;
	unsigned idle_ms;
	bool unended;                /* what is written so far ends without a newline */
	bool idle;                   /* the owner has paused for long */
	struct output_source *owner; /* whose long line is being written; NULL: nobody's */
	struct output_source *sources;
	size_t held;    /* bytes that wait for the owner's line */
	int stage[2];   /* a pipe of our own: what is next for fd. -1: not made yet */
	int scratch[2]; /* the same, for what is looked through */
	int null_fd;
	size_t staged;
	struct buffer queue; /* behind what is staged */
	uint32_t sources_count;
	ev_io io;
	const struct output_events *events;
	void *userdata;
};

/* What one node writes. */
struct output_source {
	struct output *output;
	struct output_source *next;
	struct buffer begun; /* a line without its end, and what waits for another's */
	ev_timer timeout;
	bool is_terminal; /* a person's, who waits for each byte: it has its carriage returns */
	char last;        /* byte, where they are added */
	bool broken;      /* its long line was: the rest needs the label */
	bool ended;       /* output_flush() of the last line */
	bool waits;       /* as reported */
	char label[OUTPUT_LABEL_SIZE];
};

/* fd is borrowed, its flags stay as they are; events outlives the object. */
void output_init(struct output *output, struct ev_loop *loop, int fd,
	const struct output_events *events, void *userdata);
/* Its lines have labels. idle_ms: OUTPUT_IDLE_MS, but for a test. */
void output_set_labelled(struct output *output, unsigned idle_ms);
void output_source_init(struct output_source *source, struct output *output);

void output_write(struct output_source *source, const void *bytes, size_t size);

/* Moves lines from a pipe that has at least some of size bytes for this source: how many bytes. 0:
 * they have to be read, for output_write(). */
size_t output_move(struct output_source *source, int pipe_fd, size_t size);

/* The node has ended: writes an incomplete line as it is. */
void output_flush(struct output_source *source);

/* Whether all that could be written is written. */
bool output_is_empty(const struct output *output);

/* Sources before their output. All zero is fine. */
void output_source_clear(struct output_source *source);
void output_clear(struct output *output);

/* ---- signals ------------------------------------------------------------------------------- */

struct user_events {
	void (*signal)(const char *name, void *userdata); /* for the tasks */
	void (*terminate)(bool now, void *userdata);
	void (*suspend)(bool on, void *userdata);
	void (*status)(void *userdata);  /* print it, a line on standard error */
	void (*resized)(void *userdata); /* the terminal */
};

/* All zero: not watched. */
struct user {
	int ended_by; /* the signal by which the user has ended the step; 0: not */

	/* For user.c alone. */
	struct ev_loop *loop;
	ev_io io;
	int64_t interrupted_ms; /* the last ^C */
	const struct user_events *events;
	void *userdata;
};

/* After process_prepare(). events outlives the object. */
int user_watch(struct user *user, struct ev_loop *loop, const struct user_events *events,
	void *userdata, struct err *err) _must_check_;
void user_clear(struct user *user);

/* A line on standard error, whose terminal may be raw; and one with what other nodes have sent. */
void user_print(const char *fmt, ...) _printf_(1, 2);
void user_report(const char *fmt, ...) _printf_(1, 2);

/* Which tasks of a step run, as far as is known. */
struct running {
	struct bitset ended;
	uint32_t ntasks;
};

/* 0 or -ENOMEM. */
int running_init(struct running *running, uint32_t ntasks) _must_check_;
void running_end(struct running *running, uint32_t rank);

/* Whether that task has ended (true for ranks that the step does not have); whether any has. */
bool running_has_ended(const struct running *running, uint32_t rank);
bool running_any_ended(const struct running *running);

void running_print(const struct running *running);
void running_clear(struct running *running);

#endif
