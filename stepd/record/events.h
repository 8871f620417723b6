/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What happens in a step, numbered from 1: each event a line of JSON in <directory>/events.jsonl,
 * as the method Events sends it. Nothing in the agent's memory grows with them: whatever follows
 * the events reads the file, from a cursor of its own. An agent that takes the step over goes on in
 * it, and learns from it which tasks had ended and how.
 *
 * A line is written before anything else reports the event, the end of a task before it is reaped.
 * Where the file can't take it (a full disk), a file in memory replaces it, which is logged once.
 */
#ifndef STEPD_RECORD_EVENTS_H
#define STEPD_RECORD_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

struct event;
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

extern const char *const event_kind_names[EVENT_KIND_MAX];

/* Members that are -1 or NULL are omitted. */
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

/* Reserves the disk blocks that the events of a step of that many tasks usually take. */
void events_reserve(struct events *ev, size_t tasks);

/* Opens the file in a step's directory: a new, empty one, or with inherit the existing one,
 * without an incomplete last line. log outlives the object. */
int events_open(int dir_fd, bool inherit, const struct log *log, struct events **ret_events,
	struct err *err) _must_check_;
struct events *events_close(struct events *ev);

/* Grants the step's owner and the operator group read access to the file, as to the method
 * Events; before, only the agent's user has it. */
void events_set_readers(struct events *ev, uid_t owner, gid_t operators);

/* At a re-exec (handover.h). Followers' cursors stay valid. */
void events_save(const struct events *ev, struct handover *h, struct json_t *object);
int events_restore(const struct json_t *object, const struct log *log, struct events **ret_events,
	struct err *err) _must_check_;

/* Adds an event. ev may be NULL: nothing is recorded. Between events_begin() and events_end()
 * lines are collected and written together. */
void events_add(struct events *ev, const struct event *event);
void events_begin(struct events *ev);
void events_end(struct events *ev);

/* The last event's number, or 0. */
uint64_t events_last(const struct events *ev);

/* Calls fn after each write, until it is called with NULL. One listener. */
void events_set_listener(struct events *ev, void (*fn)(void *userdata), void *userdata);

/* A reader's position. */
struct events_cursor {
	uint64_t next; /* number of the next event */
	off_t offset;  /* where its line begins */
	uint64_t lost; /* dropped events before it, to be reported first */
};

/* Sets the cursor before event number from, or before the oldest one still available; 0: after
 * the last. */
int events_seek(struct events *ev, uint64_t from, struct events_cursor *ret_cursor) _must_check_;

/* Copies complete lines from the cursor on, at most size bytes, to buf, each with its newline.
 * Returns their length, 0 at the end, or -errno. The cursor moves past them. */
ssize_t events_read(
	struct events *ev, struct events_cursor *cursor, char *buf, size_t size) _must_check_;

/* ---- lines --------------------------------------------------------------------------------- */

/* The longest line, with its newline and a NUL: a longer text is cut. */
#define EVENT_LINE_MAX 8192

/* Writes the event's JSON and a newline to line; returns the length without the NUL. */
size_t event_format(const struct event *event, uint64_t sequence, char line[EVENT_LINE_MAX]);

/* The number of the event whose line begins at text, of size bytes; 0: no event's line does.
 */
uint64_t event_get_sequence(const char *text, size_t size);

/* ---- what has become of the tasks ---------------------------------------------------------- */

/* A task that has ended according to events.jsonl. */
struct history_end {
	uint32_t rank;
	bool lost; /* the status was not known then either */
	int wait_status;
	int exit_code;
	bool on_request;    /* the end of the step had been requested */
	uint64_t time_usec; /* since the epoch */
};

/* Calls ended for each task_exit in the file, in order; skips incomplete and unknown lines. 0,
 * also without a file, or -errno. */
typedef void (*history_fn)(const struct history_end *end, void *userdata);
int history_read(int dir_fd, history_fn ended, void *userdata) _must_check_;

#endif
