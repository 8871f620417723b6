/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the operations share: calls that are held, failures, and parameters.
 */
#ifndef STEPD_OPERATIONS_OPERATIONS_IMPL_H
#define STEPD_OPERATIONS_OPERATIONS_IMPL_H

#include <jansson.h>

#include "stepd/base/bitset.h"
#include "stepd/operations/operations.h"
#include "stepd/step/agent_impl.h"

/* Elements of a reply of ListPids and ListTasks with more. */
#define OPERATIONS_PIECE_MAX 4096u

/* Pids in a call of FindPids. */
#define OPERATIONS_FIND_MAX 16384u

#define OPERATIONS_INTERVAL_MS_LEAST 100
#define OPERATIONS_INTERVAL_MS_MOST  86400000

/* Bytes of a message of Notify. */
#define OPERATIONS_MESSAGE_MAX 1000u

enum pending_kind {
	PENDING_WAIT,
	PENDING_EVENTS,
	PENDING_USAGE,
	PENDING_SUSPEND,
	PENDING_RESUME,
	PENDING_SIGNAL,
	PENDING_LISTING,
	PENDING_REEXEC,
	PENDING_DONE, /* is being replied to, with all others of its kind */
	PENDING_KIND_MAX,
};

/* A pending call: the first member of its operation's record of it. */
struct pending {
	struct pending *next, **at;
	struct operations *o;
	struct op_call *call; /* NULL: the caller has gone, and a request still refers to this */
	enum pending_kind kind;
	void (*clear)(struct pending *pending); /* NULL: nothing to free */
};

struct operations {
	struct agent *a;
	struct pending *pending;
	const char *reported_state; /* its name, in the last event */
	ev_prepare push;            /* active while events are yet to be sent to followers */
	bool ending;                /* operations_end() has begun */
	uint64_t agent_start_ticks, pid_namespace;
	int64_t start_time_usec;
	unsigned owners_signals; /* that are queued */
	uint64_t usage_read_ns,
		usage_cost_ns; /* when the step's usage was read, and how long that took */
};

/* size bytes, zeroed but for struct pending. NULL: the call has failed. */
void *pending_new(struct operations *o, struct op_call *call, enum pending_kind kind, size_t size,
	void (*clear)(struct pending *pending));

/* Frees it, and returns its call, to be replied to next; NULL: the caller is gone. */
struct op_call *pending_end(struct pending *pending);

/* The first pending call of that kind, or NULL. */
struct pending *pending_find(const struct operations *o, enum pending_kind kind);

/* ---- replies ------------------------------------------------------------------------------- */

/* Of struct op_frontend. The functions that end a call accept NULL for a call whose caller is
 * gone. */
void op_reply_take(struct op_call *call, json_t *parameters);
void op_reply_more_take(struct op_call *call, json_t *parameters);
void op_reply_text(struct op_call *call, const char *text, size_t size);
void op_reply_more_text(struct op_call *call, const char *text, size_t size);
void op_fail_take(struct op_call *call, enum op_error error, int code, json_t *parameters);
void op_fail_no_memory(struct op_call *call);
void op_on_drained(struct op_call *call, void (*fn)(void *userdata), void *userdata);
int op_upgrade_take(struct op_call *call, json_t *parameters, int *ret_fd) _must_check_;

/* One function for each error. */
void op_fail_parameter(struct op_call *call, const char *parameter);
void op_fail_more(struct op_call *call);
void op_fail_process(struct op_call *call, pid_t pid);
void op_fail_task(struct op_call *call, uint32_t rank);
void op_fail_unsupported(struct op_call *call, const char *message);
void op_fail_state(struct op_call *call, const struct agent *a, const char *message);

/* Failed, or NotSupported for -EOPNOTSUPP. */
void op_fail(struct op_call *call, int r, const char *message);

/* Whether processes of the step can be acted on; if not the call has failed. */
bool op_can_act(struct op_call *call, const struct agent *a);

/* ---- parameters, whose types have been checked --------------------------------------------- */

/* The value, or the default where it is not given. */
int64_t param_int(const json_t *parameters, const char *name, int64_t otherwise);
bool param_bool(const json_t *parameters, const char *name, bool otherwise);
const char *param_text(const json_t *parameters, const char *name); /* or NULL */
bool param_is_given(const json_t *parameters, const char *name);

/* An optional pid: 0 if not given. False: it is not a pid, and the call has failed. */
bool param_pid(struct op_call *call, const json_t *parameters, const char *name,
	pid_t *ret_pid) _must_check_;

/* The parameter start_ticks likewise, 0 if it is not given. */
bool param_start_ticks(
	struct op_call *call, const json_t *parameters, uint64_t *ret_ticks) _must_check_;

/* The parameter ranks. False: it is not a list, or has a rank of another node, and the call has
 * failed. */
struct rank_choice {
	bool given;          /* else all */
	struct bitset ranks; /* the given ones */
	size_t count;        /* of them */
};
bool param_ranks(const struct agent *a, struct op_call *call, const json_t *parameters,
	struct rank_choice *ret_choice) _must_check_;
void rank_choice_clear(struct rank_choice *choice);
#define _cleanup_rank_choice_ _cleanup_(rank_choice_clear)

/* A member that belongs to no task (STEPD_MEMBER_NO_RANK) is only in the choice of all. */
bool rank_choice_has(const struct rank_choice *choice, uint32_t rank);

/* The chosen ranks of this node, in an array to be freed: choice->count of them. NULL: no memory.
 */
uint32_t *rank_choice_list(const struct agent *a, const struct rank_choice *choice);

/* ---- what several operations do ------------------------------------------------------------ */

/* Of the interface's State. */
const char *operations_state_name(const struct agent *a);

/* Sends the events added since to the followers. */
void follow_begin(struct operations *o);
void follow_state_changed(struct operations *o);
void follow_end(struct operations *o);

/* At a re-exec: the state of a held call, a new reference (NULL: it can't be saved, and the call
 * fails); and a call resumed from that state. */
json_t *events_save_call(const struct pending *pending);
void events_resume_call(struct operations *o, struct op_call *call, const json_t *state);
json_t *usage_save_call(const struct pending *pending);
void usage_resume_call(struct operations *o, struct op_call *call, const json_t *state);
json_t *signal_save_call(const struct pending *pending);
void signal_resume_call(struct operations *o, struct op_call *call, const json_t *state);

/* ---- the operations, each with the parameters of its row ----------------------------------- */

typedef void op_fn(struct op_call *call, const json_t *parameters, struct operations *o);

op_fn op_describe, op_list_pids, op_list_tasks, op_find_pid, op_find_pids; /* query.c */
op_fn op_events, op_wait, op_usage;                                        /* follow.c */
op_fn op_attach;                                                           /* attach.c */
op_fn op_signal, op_terminate, op_suspend, op_resume;                      /* act.c */
op_fn op_set_limits, op_add_pid, op_notify;                                /* act.c */

#endif
