/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Steprun's standard input on its way to tasks. No more than INPUT_WINDOW bytes are under way at a
 * time: input_taken() says how many have arrived in all.
 */
#ifndef STEPD_CLI_ACROSS_INPUT_H
#define STEPD_CLI_ACROSS_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"

struct ev_loop;
struct input;

#define INPUT_WINDOW (256u << 10)

struct input_events {
	void (*bytes)(const void *bytes, size_t size, void *userdata);
	void (*end)(void *userdata); /* once */
};

/* Reads from fd, which is borrowed, and whose flags stay as they are. NULL: no memory. */
struct input *input_new(
	struct ev_loop *loop, int fd, const struct input_events *events, void *userdata);

void input_taken(struct input *input, uint64_t total);

/* Reads no more. */
void input_stop(struct input *input);

struct input *input_free(struct input *input);

#endif
