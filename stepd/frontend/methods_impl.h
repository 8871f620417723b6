/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the methods share: calls that are answered later, errors, and parameters.
 */
#ifndef STEPD_FRONTEND_METHODS_IMPL_H
#define STEPD_FRONTEND_METHODS_IMPL_H

#include <jansson.h>

#include "stepd/control/control.h"
#include "stepd/frontend/methods.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/frontend.h"

/* Answers of ListPids and ListTasks with more have that many elements. */
#define METHODS_PIECE_MAX 4096u

/* Pids in a call of FindPids. */
#define METHODS_FIND_MAX 16384u

#define METHODS_INTERVAL_MS_LEAST 100
#define METHODS_INTERVAL_MS_MOST  86400000

/* Bytes of a message of Notify. */
#define METHODS_MESSAGE_MAX 1000u

enum kept_kind {
	KEPT_WAIT,
	KEPT_EVENTS,
	KEPT_USAGE,
	KEPT_SUSPEND,
	KEPT_RESUME,
	KEPT_SIGNAL,
	KEPT_LISTING,
	KEPT_REEXEC,
	KEPT_ANSWERED, /* methods_suspended() is at it */
	KEPT_KIND_MAX,
};

/* A call that is answered later: the first member of what its method keeps of it. */
struct kept {
	struct kept *next, **at;
	struct methods *m;
	struct control_call *call; /* NULL: the caller has gone, and something still ends in it */
	enum kept_kind kind;
	void (*clear)(struct kept *kept); /* of what follows it; NULL: there is nothing */
};

struct methods {
	struct agent *a;
	struct control *control;
	struct kept *kept;
	const char *told_state; /* the word that was told last */
	ev_prepare push;        /* active while there are events that followers have not got */
	bool ending;            /* methods_end() has begun */
	bool finished;          /* control_finish()'s */
	uint64_t agent_start_ticks, pid_namespace;
	int64_t start_time_usec;
	unsigned owners_signals;          /* that wait for their turn */
	uint64_t looked_ns, look_cost_ns; /* the last look at the step's usage */
};

/* Without its service. NULL: no memory. */
struct methods *methods_new(struct agent *a);

/* size bytes, zeroed but for struct kept. NULL: the call has got its error. */
void *kept_new(struct methods *m, struct control_call *call, enum kept_kind kind, size_t size,
	void (*clear)(struct kept *kept));
void kept_free(struct kept *kept);

/* The last answers. */
void kept_reply_take(struct kept *kept, json_t *parameters);
void kept_error_take(struct kept *kept, const char *name, json_t *parameters);

/* ---- errors ---------------------------------------------------------------------------------- */

void answer_invalid(struct control_call *call, const char *parameter);
void answer_not_supported(struct control_call *call, const char *message);
void answer_wrong_state(struct control_call *call, const struct agent *a, const char *message);
void answer_no_process(struct control_call *call, pid_t pid);

/* Failed, or for -EOPNOTSUPP NotSupported. */
void answer_failed(struct control_call *call, int r, const char *message);
json_t *pack_failed(int r, const char *message);

/* Whether processes of the step can be acted on; if not it has answered why. */
bool methods_can_act(struct control_call *call, const struct agent *a);

/* ---- parameters, whose types have been checked -------------------------------------------- */

/* The value, or what stands for one that is not given. */
int64_t param_int(const json_t *parameters, const char *name, int64_t otherwise);
bool param_bool(const json_t *parameters, const char *name, bool otherwise);
const char *param_text(const json_t *parameters, const char *name); /* or NULL */
bool param_is_given(const json_t *parameters, const char *name);

/* A pid, given or not: 0 if not. False: it is none, and the call has got its error. */
bool param_pid(struct control_call *call, const json_t *parameters, const char *name,
	pid_t *ret_pid) _must_check_;

/* The parameter start_ticks likewise, 0 if it is not given. */
bool param_start_ticks(
	struct control_call *call, const json_t *parameters, uint64_t *ret_ticks) _must_check_;

/* The parameter ranks. False: it is no list, or has a rank that is not here, and the call has got
 * its error. */
struct rank_choice {
	unsigned char *bits; /* NULL: all */
	uint32_t limit;      /* above those of bits */
	size_t count;        /* how many, if not all */
};
bool param_ranks(const struct agent *a, struct control_call *call, const json_t *parameters,
	struct rank_choice *ret_choice) _must_check_;
void rank_choice_clear(struct rank_choice *choice);
#define _cleanup_rank_choice_ _cleanup_(rank_choice_clear)

/* A member that is of no task (STEPD_MEMBER_NO_RANK) is in no choice but all. */
bool rank_choice_has(const struct rank_choice *choice, uint32_t rank);

/* Those ranks, of this node, in an array to be freed: choice->count of them. NULL: no memory. */
uint32_t *rank_choice_list(const struct agent *a, const struct rank_choice *choice);

/* ---- what several methods do ---------------------------------------------------------------- */

/* The word of the interface's State. */
const char *methods_state_word(const struct agent *a);

/* Followers get what has been added since. */
void follow_begin(struct methods *m);
void follow_state_changed(struct methods *m);
void follow_end(struct methods *m);
void usage_end(struct kept *kept);

/* What a new program needs to go on with a call that is kept, a new reference, and that (reexec.h).
 * NULL: it can't be had; the call then gets an error. */
json_t *events_save_call(const struct kept *kept);
void events_resume_call(struct methods *m, struct control_call *call, const json_t *state);
json_t *usage_save_call(const struct kept *kept);
void usage_resume_call(struct methods *m, struct control_call *call, const json_t *state);
json_t *signal_save_call(const struct kept *kept);
void signal_resume_call(struct methods *m, struct control_call *call, const json_t *state);

/* What the step reports (step/frontend.h), where it is not in methods.c. */
void methods_suspended(struct methods *m, bool suspend, int code, const char *why); /* act.c */
bool methods_is_listing(const struct methods *m);                                   /* carry.c */
void methods_not_reexeced(struct methods *m, const struct err *why);
void methods_save(const struct methods *m, struct handover *h, struct json_t *object);
int methods_restore(struct agent *a, const struct json_t *object, struct err *err) _must_check_;
struct methods *methods_close(struct methods *m); /* methods.c */

/* ---- the methods, each with the parameters of its row --------------------------------------- */

typedef void method_fn(struct control_call *call, const json_t *parameters, void *userdata);

method_fn method_describe, method_list_tasks;                             /* ask.c */
method_fn method_usage;                                                   /* usage.c */
method_fn method_list_pids;                                               /* processes.c */
method_fn method_find_pid, method_find_pids;                              /* find.c */
method_fn method_events, method_wait;                                     /* follow.c */
method_fn method_signal, method_terminate, method_suspend, method_resume; /* act.c */
method_fn method_set_limits, method_add_pid;                              /* change.c */
method_fn method_notify;                                                  /* notify.c */
method_fn method_reexec;                                                  /* carry.c */

#endif
