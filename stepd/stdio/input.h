/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tasks' standard input, where the agent writes it: from its own, to several tasks, or from
 * tools.
 */
#ifndef STEPD_STDIO_INPUT_H
#define STEPD_STDIO_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepd/stdio/backlog.h"

struct ev_loop;
struct handover;
struct json_t;
struct log;
struct stdin_writer;
struct toolin;
struct winsize;

/* ---- one input for several tasks ----------------------------------------------------------- */

/* Copies one input to several tasks: each gets every byte. A piece is read when some task has
 * taken all before it, so the fastest reader sets the pace; what the others lack is in one backlog
 * for all (backlog.h). Where that can't grow, reading waits for the slowest, or drops what it
 * lacks. A task that closed its stdin is skipped; when the input ends, each task gets the end of
 * its pipe after its last byte. */

struct stdin_overflow {
	struct backlog_options backlog;
	bool drops; /* what a task lacks that is further behind than the backlog has space */
};

/* fd is borrowed. */
int stdin_writer_new(struct ev_loop *loop, const struct log *log, int fd,
	const struct stdin_overflow *overflow, struct stdin_writer **ret_writer) _must_check_;

/* fd is the writing end of a task's pipe, non-blocking; the writer owns it from the call on, on
 * failure too. */
int stdin_writer_add_take(struct stdin_writer *writer, int fd, uint32_t rank) _must_check_;

/* fd is the master of a pseudo-terminal, likewise. At the end of the input it is not closed: the
 * terminal's character for an end of file is typed, at once unless the task reads. */
int stdin_writer_add_pty_take(
	struct stdin_writer *writer, int fd, uint32_t rank, bool reads) _must_check_;

/* The rank has written to its pseudo-terminal. A program that has changed the mode since the end
 * was typed would not find it, so that it is typed again. */
void stdin_writer_pty_output(struct stdin_writer *writer, uint32_t rank);

/* Nobody has the rank's pseudo-terminal open any more. The master stays open as long as the writer:
 * a program that has closed its streams, as many do before they end, would be sent SIGHUP. */
void stdin_writer_pty_ended(struct stdin_writer *writer, uint32_t rank);

/* Sets the size of all pseudo-terminals. */
void stdin_writer_resize(struct stdin_writer *writer, const struct winsize *size);

/* The descriptor that a rank's input is written to, borrowed, until the next event; -1: it takes no
 * more. A pseudo-terminal still does when the writer's own input has ended. */
int stdin_writer_find(const struct stdin_writer *writer, uint32_t rank);

/* Stops reading, or continues. A writer to pseudo-terminals pauses by itself where the terminal
 * that it reads is given to another process group. */
void stdin_writer_pause(struct stdin_writer *writer, bool pause);

/* Whether a task still takes input. */
bool stdin_writer_is_read(const struct stdin_writer *writer);

/* Bytes that tasks have not got. */
uint64_t stdin_writer_get_dropped(const struct stdin_writer *writer);

void stdin_writer_start(struct stdin_writer *writer);

/* At a re-exec (handover.h), with the bytes that some tasks lack. */
void stdin_writer_save(
	const struct stdin_writer *writer, struct handover *h, struct json_t *object);
int stdin_writer_restore(struct ev_loop *loop, const struct log *log, const struct handover *h,
	const struct json_t *object, const struct stdin_overflow *overflow,
	struct stdin_writer **ret_writer) _must_check_;

struct stdin_writer *stdin_writer_free(struct stdin_writer *writer);
DEFINE_CLEANUP(struct stdin_writer *, stdin_writer_free);
#define _cleanup_stdin_writer_ _cleanup_(stdin_writer_free_p)

/* ---- input from tools ---------------------------------------------------------------------- */

/* Standard inputs from tools, by way of the MPI service process: a pipe for each task, and one
 * piece at a time for each. The next piece is accepted when the pipe has the one before, so the
 * reading task sets the sender's pace, and no queue grows here. */

#define TOOLIN_SIZE 65536u

/* The piece of this id is in the pipe (0), or the task has closed its stdin (-EPIPE). From the
 * loop, or from toolin_free(). */
typedef void (*toolin_done_fn)(void *userdata, int64_t id, int r);

int toolin_new(struct ev_loop *loop, struct toolin **ret_input) _must_check_;
void toolin_on_done(struct toolin *input, toolin_done_fn done, void *userdata);

/* fd is the writing end of a task's pipe, non-blocking; the input owns it from the call on, on
 * failure too. */
int toolin_add_take(struct toolin *input, int fd, uint32_t rank) _must_check_;

/* Copies size bytes, at most TOOLIN_SIZE; end: they are the last. 1: done already; 0: done() will
 * be called; -ESRCH: the task has no such pipe; -EBUSY: the piece before is pending; -EPIPE: the
 * task has closed its stdin, or it has ended. */
int toolin_put(struct toolin *input, uint32_t rank, int64_t id, const void *data, size_t size,
	bool end) _must_check_;

/* As stdin_writer_find(); and the end of a rank's input, behind its pending piece. */
int toolin_find(const struct toolin *input, uint32_t rank);
void toolin_end(struct toolin *input, uint32_t rank);

/* At a re-exec (handover.h), with the pending pieces. */
void toolin_save(const struct toolin *input, struct handover *h, struct json_t *object);
int toolin_restore(struct ev_loop *loop, const struct handover *h, const struct json_t *object,
	struct toolin **ret_input) _must_check_;

struct toolin *toolin_free(struct toolin *input);
DEFINE_CLEANUP(struct toolin *, toolin_free);
#define _cleanup_toolin_ _cleanup_(toolin_free_p)

#endif
