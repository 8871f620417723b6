/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tasks' standard streams. Wherever it can be, a task writes straight to its end (a file it
 * opened as the user, the agent's own descriptor) and no byte passes through the agent. The agent
 * carries bytes only to put labels before lines, to copy its stdin to tasks, where the spec lets
 * tools have copies of the output (forward) or give the tasks their stdin, and where tasks have
 * pseudo-terminals (pump.h, input.h, pty.h).
 *
 * Life: stdio_open() before the first fork opens what tasks share; stdio_task_open() right before
 * a task's fork and stdio_task_close() after it; stdio_start() when all are forked;
 * stdio_finish() when the container is empty: what is in the pipes still comes out, then done()
 * is called. Descriptors are O_CLOEXEC; a child dup2()s them to 0, 1 and 2.
 */
#ifndef STEPD_STDIO_STDIO_H
#define STEPD_STDIO_STDIO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

struct attach_choice;
struct ev_loop;
struct handover;
struct identity;
struct json_t;
struct log;
struct spec;
struct stdio;

/* How a child gets one stream: by fd, or by opening path (relative to its working directory) as
 * the user, with flags, mode 0666 less umask, and O_NONBLOCK cleared afterwards; or, for stderr
 * alone, by dup2(1, 2) once stdout is set. Streams are set in the order 0, 1, 2. */
struct stdio_stream {
	int fd;           /* for dup2(): above 2, its own number, or 1 for stderr */
	const char *path; /* with fd -1; owned by struct stdio */
	int flags;
	bool as_stdout; /* stderr with fd -1 and no path: the file that stdout has just opened */
};

struct stdio_task {
	struct stdio_stream stream[3];
	uint32_t local_id;
	uint32_t rank; /* in the step */
	bool joins;    /* the task joined after the streams were started */
	bool terminal; /* stdin is to be the controlling terminal of its session */
};

typedef void (*stdio_done_fn)(void *userdata);

/* Checks spec's streams and opens their files. Files that several tasks share are opened here, as
 * the user (identity_assume()), relative to cwd, and O_NONBLOCK so that a FIFO can't block the
 * agent. mask is the tasks' umask. spec, id, loop and log outlive the object; cwd is copied. */
int stdio_open(const struct spec *spec, const struct identity *id, const char *cwd, mode_t mask,
	struct ev_loop *loop, const struct log *log, struct stdio **ret_stdio,
	struct err *err) _must_check_;

/* The file of a task's stream, expanded, or the pattern if it can't be expanded: for messages. */
void stdio_file_name(const struct spec *spec, const struct identity *id, int stream, uint32_t rank,
	char *text, size_t size);

/* The streams of the task with this local id; creates its pipes. Once for each task. In the
 * launcher the agent's ends of them go to the agent, and the call may wait for that. */
int stdio_task_open(struct stdio *io, uint32_t local_id, struct stdio_task *ret_task,
	struct err *err) _must_check_;

/* For tasks that join, with local ids from first on: their streams are like those of the others,
 * except the agent's stdin that is copied to all, which has begun. Shared files are opened again,
 * and closed by stdio_join_end(). -EOPNOTSUPP: the step was adopted.
 */
int stdio_join(struct stdio *io, uint32_t first, const uint32_t *ranks, uint32_t count,
	struct err *err) _must_check_;
void stdio_join_end(struct stdio *io);

/* Whether bytes pass through the agent, which then has an end of each task's pipes. */
bool stdio_carries(const struct stdio *io);

/* Closes the task's ends in the calling process. */
void stdio_task_close(struct stdio *io, struct stdio_task *task);

/* ---- where the launcher (launch.h) opens the tasks' streams -------------------------------- */

/* In the agent, before it forks the launcher: from now on its loop takes the ends that the launcher
 * sends. */
int stdio_transfer_open(struct stdio *io, struct err *err) _must_check_;

/* In the launcher, before the first task, and after the last one. */
void stdio_transfer_begin(struct stdio *io);
int stdio_transfer_flush(struct stdio *io, struct err *err) _must_check_;

/* In the agent, once the launcher has ended: takes what it has sent. Fails, with the reason, if an
 * end could not be taken; the launcher, which was refused further ones, has failed then, too. */
int stdio_transfer_close(struct stdio *io, struct err *err) _must_check_;

/* ---- the tasks run ------------------------------------------------------------------------- */

/* Starts to carry bytes, and closes the shared files that only tasks write to. */
void stdio_start(struct stdio *io);

/* ---- tools, by way of the MPI service process (mpi/link.h) --------------------------------- */

/* Copies from now on these streams of these tasks (NULL: of all, else ascending). *ret_fd: a new
 * descriptor to send to the reader and to close, or -1: it already has one. -EOPNOTSUPP: none of
 * these streams passes through the agent. */
int stdio_copy(struct stdio *io, const uint32_t *ranks, size_t count, unsigned streams,
	int *ret_fd) _must_check_;

/* For tasks that are opened from now on, until the next call: copied from their first byte. The
 * rest as above, but it is not an error if there is nothing to copy. */
int stdio_join_copy(struct stdio *io, unsigned streams, int *ret_fd) _must_check_;

/* Whether output passes through the agent. */
bool stdio_can_copy(const struct stdio *io);

/* Ends all copies: the reader is gone, or all streams have ended. */
void stdio_copy_stop(struct stdio *io);

/* toolin_put(), with -EBUSY also for a task that has the step's own stdin, and -EOPNOTSUPP for
 * one that has /dev/null or a file. done may be called after stdio_finish(). */
typedef void (*stdio_input_fn)(void *userdata, int64_t id, int r);
void stdio_input_on_done(struct stdio *io, stdio_input_fn done, void *userdata);
int stdio_input(struct stdio *io, uint32_t rank, int64_t id, const void *data, size_t size,
	bool end) _must_check_;

/* ---- clients (attach.h) -------------------------------------------------------------------- */

/* Whether a client may be attached so: 0, and *ret_terminal is whether its input is a terminal's;
 * -EOPNOTSUPP, -EUSERS. */
int stdio_attach(struct stdio *io, const struct attach_choice *choice, bool *ret_terminal,
	struct err *err) _must_check_;

/* attach_client_take(), after stdio_attach(). */
int stdio_attach_take(struct stdio *io, int fd, const struct attach_choice *choice) _must_check_;

/* ---- the agent's own lines, terminal and end ----------------------------------------------- */

/* Writes a line of the agent's own, with its newline, to the step's standard error, without
 * waiting: bytes that the reader does not take now are written later. -EAGAIN: it takes none at
 * all; -EOPNOTSUPP: there is no such stream. To be called once the streams have been started. */
int stdio_note(struct stdio *io, const char *line, size_t size, struct err *err) _must_check_;

/* The step is suspended: what is typed at the agent's terminal is no task's until it continues.
 * Also called to continue when a shell may have given the terminal back to the agent. */
void stdio_pause_terminal(struct stdio *io, bool pause);

/* The agent's terminal has another size (SIGWINCH). */
void stdio_resize_terminal(struct stdio *io);

/* All writers are gone (or given up): carries the rest, then calls done, once, from the loop or
 * from this call. It waits for a reader that does not read; stdio_free() ends that. */
void stdio_finish(struct stdio *io, stdio_done_fn done, void *userdata);

/* Calls fn for each destination of the tasks' output through the agent that lacks some of it
 * (output.h). */
struct sink_loss;
typedef void (*stdio_loss_fn)(const struct sink_loss *loss, void *userdata);
void stdio_each_loss(const struct stdio *io, stdio_loss_fn fn, void *userdata);

/* Whether there is one. */
bool stdio_has_lost(const struct stdio *io);

/* Bytes of the agent's standard input that tasks have not got (spec.h, SPEC_OVERFLOW_DROP). */
uint64_t stdio_get_input_dropped(const struct stdio *io);

/* ---- for an adopter, if this agent is killed (hold.h) --------------------------------------- */

/* After stdio_start(), and again when tasks have joined: has the streams that pass through the
 * agent held for an adopter. dir_fd is the step's directory. A failure is logged; then an adopter
 * does without them. */
void stdio_hold(struct stdio *io, int dir_fd, const char *label);
void stdio_hold_joined(struct stdio *io);

/* The pid of the agent's child that holds them; 0: there is none. */
pid_t stdio_get_holder(const struct stdio *io);

/* In an adopter: goes on with the streams of a dead agent, and logs what is lost. -ENOENT: nobody
 * holds them; -EPERM: not for this process; -errno. Then stdio_finish() is to be called as ever. */
int stdio_adopt(const struct spec *spec, const struct identity *id, struct ev_loop *loop,
	const struct log *log, int dir_fd, const char *label, struct stdio **ret_stdio,
	struct err *err) _must_check_;

/* At a re-exec (handover.h), after stdio_start(). restore: done is that of stdio_finish(), if
 * that was called before. */
void stdio_save(const struct stdio *io, struct handover *h, struct json_t *object);
int stdio_restore(const struct spec *spec, const struct identity *id, struct ev_loop *loop,
	const struct log *log, const struct handover *h, const struct json_t *object,
	stdio_done_fn done, void *userdata, struct stdio **ret_stdio, struct err *err) _must_check_;

struct stdio *stdio_free(struct stdio *io);
DEFINE_CLEANUP(struct stdio *, stdio_free);
#define _cleanup_stdio_ _cleanup_(stdio_free_p)

#endif
