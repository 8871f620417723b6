/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Carries the tasks' output line by line, each line behind the label of its task, from a pipe per
 * task and stream to destinations that several tasks may share.
 *
 * A line goes out when its end has come, whole, and no byte of another task stands in it. A last
 * line without an end comes out when its writer is gone, with no byte added; should another line
 * follow it to the same destination, a newline is put in between. A line longer than PUMP_LINE_SIZE
 * goes out in pieces while it grows; if its writer then pauses for PUMP_IDLE_S while lines of other
 * tasks wait, it is broken there by a newline, and what follows of it has a label of its own.
 *
 * A pump can be raw: then bytes come out as they come in, in any order among the tasks.
 *
 * Memory is bounded: a destination holds SINK_SIZE bytes, a task's pipe is not read while its
 * bytes find no space there.
 */
#ifndef STEPD_STDIO_PUMP_H
#define STEPD_STDIO_PUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"

#define PUMP_LINE_SIZE 65536u
#define PUMP_IDLE_S    1.0

struct attach;
struct copy;
struct ev_loop;
struct handover;
struct json_t;
struct log;
struct pump;
struct pump_dest;
struct tally;

typedef void (*pump_done_fn)(void *userdata);

/* copy, which outlives the pump, gets the copies. Labels are right-aligned to the digits of
 * rank_max. */
int pump_new(struct ev_loop *loop, const struct log *log, struct copy *copy, uint32_t rank_max,
	bool raw, struct pump **ret_pump) _must_check_;

/* fd as in sink_new(). The destination lives as long as the pump. */
int pump_add_dest(struct pump *pump, int fd, bool own, const char *name,
	struct pump_dest **ret_dest) _must_check_;

/* As sink_describe(). */
void pump_describe_dest(struct pump_dest *dest, int stream, int64_t rank);

/* fd is the reading end of a pipe, non-blocking; the pump owns it from the call on, on failure
 * too. stream: STDOUT_FILENO or STDERR_FILENO, of the task. */
int pump_add_source_take(
	struct pump *pump, int fd, uint32_t rank, int stream, struct pump_dest *dest) _must_check_;

/* The same for the master of a pseudo-terminal, which ends when nobody has its other end open.
 * is_terminal: it is one for a person (pty.h), whose lines end with a carriage return. */
int pump_add_pty_take(struct pump *pump, int fd, uint32_t rank, int stream, struct pump_dest *dest,
	bool is_terminal) _must_check_;

/* Called when a rank's terminal for a person has had output, and when it has ended. */
typedef void (*pump_terminal_fn)(uint32_t rank, bool ended, void *userdata);
void pump_on_terminal(struct pump *pump, pump_terminal_fn on_terminal, void *userdata);

/* The destination is a terminal that is raw now: lines of other sources, and the agent's own, get
 * a carriage return. */
void pump_set_crlf(struct pump_dest *dest, bool crlf);

/* For sources that are added from now on: clients may be attached to them. attach outlives the
 * pump. */
void pump_set_attach(struct pump *pump, struct attach *attach);

/* Sources added later are carried from then on. */
void pump_start(struct pump *pump);

/* Whether the destination is done: all its sources have ended, or it can't be written. */
bool pump_has_ended(const struct pump_dest *dest);

/* Puts a line of the agent's own between those of the tasks; the rest of a partly written line
 * gets a label again. -EAGAIN: no space; -EPIPE: the destination is done. */
int pump_put_note(struct pump_dest *dest, const char *line, size_t size) _must_check_;

/* Copies from now on these streams (enum link_stream, 0: none) of these tasks, or of all (NULL);
 * ranks ascend. Ends of streams that have ended go to the copy. found[i], zero before, gets the
 * streams of ranks[i] that pass here; it may be NULL. Returns their number.
 */
size_t pump_copy_ranks(
	struct pump *pump, const uint32_t *ranks, size_t count, unsigned streams, char *found);

/* Whether a copy is made of any stream. */
bool pump_copies(const struct pump *pump);

/* Carries the bytes that are in the pipes now, and no more even if a writer still holds one, then
 * calls done once, from here or from the loop. done may free the pump. */
void pump_finish(struct pump *pump, pump_done_fn done, void *userdata);

/* Counts from now on, for an adopter, what is read and written (tally.h). The tally has as many
 * sources and destinations as the pump, by their numbers, and outlives it or is replaced; NULL:
 * nothing is counted. */
void pump_set_tally(struct pump *pump, struct tally *tally);
size_t pump_count_sources(const struct pump *pump);
size_t pump_count_dests(const struct pump *pump);

/* Called before a descriptor is closed that somebody at its other end waits for. */
typedef void (*pump_closing_fn)(int fd, void *userdata);
void pump_on_closing(struct pump *pump, pump_closing_fn on_closing, void *userdata);

/* After pump_restore() of a dead agent's streams: goes on where it stopped, and logs what it had
 * read and not written. Whether there is any such. */
bool pump_recover(struct pump *pump, const struct tally *left);

/* At a re-exec (handover.h): each byte that was read and not written yet, the line's owner, and
 * the waiting sources. restore: it continues from the loop; done is that of pump_finish() where
 * that was called before. */
void pump_save(const struct pump *pump, struct handover *h, struct json_t *object);
int pump_restore(struct ev_loop *loop, const struct log *log, struct copy *copy,
	struct attach *attach, const struct handover *h, const struct json_t *object,
	pump_done_fn done, void *userdata, struct pump **ret_pump) _must_check_;

/* The destination by its number, and its number, from 0. NULL, -1: none. */
struct pump_dest *pump_get_dest(const struct pump *pump, int64_t number);
int64_t pump_number_of(const struct pump_dest *dest);

/* Calls fn for each destination that lacks some of the tasks' output. */
struct sink_loss;
typedef void (*pump_loss_fn)(const struct sink_loss *loss, void *userdata);
void pump_each_loss(const struct pump *pump, pump_loss_fn fn, void *userdata);

struct pump *pump_free(struct pump *pump);
DEFINE_CLEANUP(struct pump *, pump_free);
#define _cleanup_pump_ _cleanup_(pump_free_p)

#endif
