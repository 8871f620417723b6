/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Standard output, or error, of a step over several nodes: what nodes send, in the order in which
 * it comes, and lines in one piece. The beginning of a line waits for its end, but not for long: a
 * prompt has none. A line longer than OUTPUT_LINE_MOST is not kept together.
 *
 * Little is held in memory: when much waits for the reader, full(true) is called, and full(false)
 * when it has gone.
 */
#ifndef STEPD_CLI_ACROSS_OUTPUT_H
#define STEPD_CLI_ACROSS_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "stepd/base/cleanup.h"

struct ev_loop;
struct output;
struct output_source; /* what one node writes */

#define OUTPUT_LINE_MOST   65536u
#define OUTPUT_PATIENCE_MS 100 /* how long the beginning of a line waits */

struct output_events {
	void (*full)(bool full, void *userdata);
	void (*empty)(void *userdata); /* all is written, or dropped */
	/* Nothing can be written any more: -errno, once. What comes is dropped. */
	void (*failed)(int error, void *userdata);
};

/* fd is borrowed; its flags stay as they are. events outlives the object. NULL: no memory. */
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
