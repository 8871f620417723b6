/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What happens in a step, numbered from 1: each event a line of JSON in <directory>/events.jsonl,
 * as the method Events tells it. The file is all that is kept of them, in the agent's memory there
 * is nothing that grows with them; who follows reads it from where it stands. An agent that takes
 * the step over goes on in it, and learns from it which tasks had ended and how.
 *
 * A line is written before the thing is told to anybody, that a task has ended before it is reaped.
 * Where the file can't take it (a full disk), a file in memory takes its place, which is told in
 * the log once.
 */
#ifndef STEPD_RECORD_EVENTS_H
#define STEPD_RECORD_EVENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

struct events;
struct handover;
struct json_t;
struct log;

/* In the order of the interface's EventKind. */
enum event_kind {
	EVENT_STATE,
	EVENT_TASK_START,
	EVENT_TASK_EXIT,
	EVENT_OOM,
	EVENT_SUSPEND,
	EVENT_RESUME,
	EVENT_LIMITS,
	EVENT_SIGNAL,
	EVENT_ADD,
	EVENT_NOTIFY,
	EVENT_ADOPT,
	EVENT_REEXEC,
	EVENT_LOST,
	EVENT_MPI_LOST, /* the MPI service process, before the step */
	EVENT_KIND_MAX,
};

extern const char *const event_kind_words[EVENT_KIND_MAX];

/* What is -1, or NULL, is not told. */
struct event {
	enum event_kind kind;
	const char *state;
	int64_t rank, pid, wait_status, exit_code, count;
	const char *text;
};

#define EVENT_INIT(k)                                                                              \
	{                                                                                          \
		.kind = (k), .rank = -1, .pid = -1, .wait_status = -1, .exit_code = -1,            \
		.count = -1                                                                        \
	}

/* Has the file system keep the blocks that the events of a step of so many tasks usually take. */
void events_reserve(struct events *ev, size_t tasks);

/* Opens the file in a step's directory: a new, empty one, or with inherit the one that is there,
 * whose last line is cut off where it is not whole. log outlives the object. */
int events_open(int dir_fd, bool inherit, const struct log *log, struct events **ret_events,
	struct err *err) _must_check_;
struct events *events_close(struct events *ev);

/* Lets the step's owner and the operator group read the file, as the method Events lets them; at
 * first only the agent's user may. */
void events_set_readers(struct events *ev, uid_t owner, gid_t operators);

/* For the program that goes on with them (handover.h). Where followers stand counts on. */
void events_save(const struct events *ev, struct handover *h, struct json_t *object);
int events_restore(const struct json_t *object, const struct log *log, struct events **ret_events,
	struct err *err) _must_check_;

/* Adds an event. NULL is fine: nothing is kept. Between events_begin() and events_end() lines are
 * collected and written together. */
void events_add(struct events *ev, const struct event *event);
void events_begin(struct events *ev);
void events_end(struct events *ev);

/* The last number, 0 if there is none. */
uint64_t events_last(const struct events *ev);

/* Calls fn after each write, until it is called with NULL. One listener. */
void events_set_listener(struct events *ev, void (*fn)(void *userdata), void *userdata);

/* Where a reader stands. */
struct events_cursor {
	uint64_t next; /* number of the next event */
	off_t offset;  /* where its line begins */
	uint64_t lost; /* how many between were lost, to be told first */
};

/* Stands before event number from, the first that is still there at least; 0: behind the last. */
int events_seek(struct events *ev, uint64_t from, struct events_cursor *ret_cursor) _must_check_;

/* Whole lines from the cursor on, at most size bytes, into buf, each ended by a newline: their
 * length, 0 where there is none, or -errno. The cursor moves behind them. */
ssize_t events_read(
	struct events *ev, struct events_cursor *cursor, char *buf, size_t size) _must_check_;

#endif
