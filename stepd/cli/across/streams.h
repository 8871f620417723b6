/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Steprun's own streams.
 *
 * An input reads the standard input on its way to tasks. No more than INPUT_WINDOW bytes are under
 * way at a time: input_taken() reports how many have arrived in all.
 *
 * An output is the standard output, or error, of a step over several nodes: what nodes send, in the
 * order in which it comes, and lines in one piece. The beginning of a line waits for its end, but
 * not for long: a prompt has none. A line longer than OUTPUT_LINE_MAX may be divided. Little is
 * held in memory: when much waits for the reader, full(true) is called, and full(false) when it has
 * gone.
 */
#ifndef STEPD_CLI_ACROSS_STREAMS_H
#define STEPD_CLI_ACROSS_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"

struct ev_loop;
struct input;
struct output;
struct output_source; /* what one node writes */

#define INPUT_WINDOW      (256u << 10)
#define OUTPUT_LINE_MAX   65536u
#define OUTPUT_TIMEOUT_MS 100 /* how long the beginning of a line waits */

struct input_events {
	void (*bytes)(const void *bytes, size_t size, void *userdata);
	void (*end)(void *userdata); /* once */
};

/* Reads from fd, which is borrowed, and whose flags stay as they are. events outlives the object,
 * here and below. NULL: no memory. */
struct input *input_new(
	struct ev_loop *loop, int fd, const struct input_events *events, void *userdata);
void input_taken(struct input *input, uint64_t total);
void input_stop(struct input *input); /* reads no more */
struct input *input_free(struct input *input);

struct output_events {
	void (*full)(bool full, void *userdata);
	void (*empty)(void *userdata); /* all is written, or dropped */
	/* Nothing can be written any more: -errno, once. What comes is dropped. */
	void (*failed)(int error, void *userdata);
};

/* As input_new(). */
struct output *output_new(
	struct ev_loop *loop, int fd, const struct output_events *events, void *userdata);

/* NULL: no memory. Freed before its output is. */
struct output_source *output_add_source(struct output *output);

void output_write(struct output_source *source, const void *bytes, size_t size);

/* No more comes from there: the beginning of a line goes out as it is. */
void output_end_source(struct output_source *source);

/* Whether all that could be written is written. */
bool output_is_empty(const struct output *output);

struct output_source *output_source_free(struct output_source *source);
struct output *output_free(struct output *output);

#endif
