/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Hands one input to several tasks: each gets every byte. A piece is read when all have taken the
 * one before, so the slowest reader sets the pace and one buffer serves them all. A task that
 * closed its stdin is left out; when the input ends, each has the end of its pipe.
 */
#ifndef STEPD_STDIO_STDIN_WRITER_H
#define STEPD_STDIO_STDIN_WRITER_H

#include "stepd/base/cleanup.h"

struct ev_loop;
struct stdin_writer;
struct handover;
struct json_t;
struct log;

/* fd is borrowed. */
int stdin_writer_new(struct ev_loop *loop, const struct log *log, int fd,
	struct stdin_writer **ret_writer) _must_check_;

/* fd is the writing end of a task's pipe, not blocking; the writer's from the call on, on failure
 * too. */
int stdin_writer_add_take(struct stdin_writer *writer, int fd) _must_check_;

void stdin_writer_start(struct stdin_writer *writer);

/* For the program that goes on with it (handover.h), with the piece that not all tasks have. */
void stdin_writer_save(
	const struct stdin_writer *writer, struct handover *h, struct json_t *object);
int stdin_writer_restore(struct ev_loop *loop, const struct log *log, const struct handover *h,
	const struct json_t *object, struct stdin_writer **ret_writer) _must_check_;

struct stdin_writer *stdin_writer_free(struct stdin_writer *writer);
DEFINE_CLEANUP(struct stdin_writer *, stdin_writer_free);
#define _cleanup_stdin_writer_ _cleanup_(stdin_writer_free_p)

#endif
