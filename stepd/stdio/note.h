/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lines of the agent's own in the step's standard error, where that is one: the agent's, a file
 * that the tasks share, or what the labelled lines go to. Where each task opens a file of its own
 * there is none: the files' offsets are the tasks', and the paths the user's.
 */
#ifndef STEPD_STDIO_NOTE_H
#define STEPD_STDIO_NOTE_H

#include <stdbool.h>
#include <stddef.h>

#include "stepd/base/err.h"

struct ev_loop;
struct handover;
struct json_t;
struct log;
struct pump_dest;
struct sink;

enum note_kind {
	NOTE_NONE,     /* not known yet */
	NOTE_NULL,     /* /dev/null */
	NOTE_PER_TASK, /* a file for each task */
	NOTE_FIFO,     /* or the like, which the agent must not hold open beside the tasks */
	NOTE_FD,
	NOTE_DEST, /* with the tasks' lines */
	NOTE_KIND_MAX,
};

struct note {
	enum note_kind kind;
	int fd;   /* of NOTE_FD */
	bool own; /* it is closed with this */
	struct pump_dest *dest;
	struct sink *sink; /* to fd, once it is needed */
};

#define NOTE_INIT                                                                                  \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Writes a line, its newline included, without waiting: what the reader does not take now goes out
 * later. -EAGAIN: it takes nothing at all; -EOPNOTSUPP: there is no such stream. */
int note_put(struct note *note, struct ev_loop *loop, const struct log *log, const char *line,
	size_t size, struct err *err) _must_check_;
void note_clear(struct note *note);

/* For the program that goes on with it; dest is the caller's to set. */
void note_save(const struct note *note, struct handover *h, struct json_t *object);
int note_restore(struct note *note, struct ev_loop *loop, const struct log *log,
	const struct handover *h, const struct json_t *object) _must_check_;

#endif
