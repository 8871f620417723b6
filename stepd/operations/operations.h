/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What can be requested of a step, by whomever: one table. A row has an operation's name, who may
 * call it, its parameters, and the function that carries it out and replies. A frontend
 * (stepd/frontend/) decodes a call, knows from the kernel who makes it, has its row run and encodes
 * the reply; it decides nothing. What an operation means stands in
 * stepd/control/io.stepd.Step.varlink.
 *
 * Signals to the agent are no calls. They come before there is a frontend, and mean what no
 * operation does (a shell's job control, a second ^C): step/ending.c and step/suspend.c take them,
 * by the same functions that the operations call.
 */
#ifndef STEPD_OPERATIONS_OPERATIONS_H
#define STEPD_OPERATIONS_OPERATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

struct agent;
struct handover;
struct json_t;
struct op_call;
struct operations;

/* ---- the table ----------------------------------------------------------------------------- */

/* Who may call; each level includes those before it. */
enum op_access {
	OP_ACCESS_AGENT, /* root and the agent's user */
	OP_ACCESS_OWNER, /* and the step's owner */
	OP_ACCESS_READ,  /* and the operator group */
	OP_ACCESS_MAX,
};

enum op_flags {
	OP_MORE = 1u << 0,       /* may reply more than once */
	OP_MORE_ONLY = 1u << 1,  /* and only so */
	OP_WHEN_READY = 1u << 2, /* waits until the tasks have been released */
	OP_UPGRADE = 1u << 3,    /* the caller's connection becomes a channel with the last reply */
};

enum op_type {
	OP_BOOL,
	OP_INT,
	OP_STRING,
	OP_OBJECT,
	OP_INT_ARRAY,
	OP_TYPE_MAX,
};

#define OP_PARAMETERS_MAX 8

struct op_parameter {
	const char *name; /* NULL ends the list */
	enum op_type type;
	bool optional;
};

/* run() replies, or holds the call and replies later. The frontend has checked the caller, and
 * the parameters' names and types by the row; they are borrowed for the time of run(). */
struct operation {
	const char *name; /* "ListPids" */
	enum op_access access;
	unsigned flags; /* enum op_flags */
	struct op_parameter parameters[OP_PARAMETERS_MAX + 1];
	void (*run)(struct op_call *call, const struct json_t *parameters, struct operations *o);
};

const struct operation *operations_get_table(size_t *ret_count);

/* NULL: no operation has that name. */
const struct operation *operations_find(const char *name);

/* ---- calls --------------------------------------------------------------------------------- */

/* The failures of calls; in braces the parameters of each. */
enum op_error {
	OP_INVALID_PARAMETER, /* {parameter} */
	OP_EXPECTED_MORE,     /* {}: the reply does not fit into one */
	OP_NO_SUCH_PROCESS,   /* {pid} */
	OP_NO_SUCH_TASK,      /* {rank} */
	OP_NOT_SUPPORTED,     /* {message} */
	OP_WRONG_STATE,       /* {state, message} */
	OP_SUSPEND_FAILED,    /* {message} */
	OP_FAILED,            /* {message, errno} */
	OP_ERROR_MAX,
};

/* "NoSuchTask" */
extern const char *const op_error_names[OP_ERROR_MAX];

/* A frontend's functions for its calls. The reference to parameters is taken, NULL stands for
 * none; text is a JSON object. The last reply, or a failure, ends the call and frees it. */
struct op_frontend {
	void (*reply)(struct op_call *call, struct json_t *parameters, bool last);
	void (*reply_text)(struct op_call *call, const char *text, size_t size, bool last);
	void (*fail)(
		struct op_call *call, enum op_error error, int code, struct json_t *parameters);
	void (*fail_no_memory)(struct op_call *call);
	/* Calls op_call_drained() once, from the loop, when all replies so far have been taken.
	 * NULL: no caller of this frontend takes several replies. */
	void (*watch_drained)(struct op_call *call);
	/* The last reply, after which *ret_fd, a non-blocking socket, is a channel to the caller.
	 * -errno: the call has ended without one. NULL: this frontend calls no row of OP_UPGRADE.
	 */
	int (*upgrade)(struct op_call *call, struct json_t *parameters, int *ret_fd);
};

/* The first member of a frontend's record of a call. */
struct op_call {
	const struct op_frontend *frontend;
	uid_t uid;        /* the caller's */
	bool more;        /* it accepts several replies */
	bool is_of_owner; /* the step's owner is not the agent's user, and his calls have a quota */
	void (*on_drained)(void *userdata);
	void (*on_gone)(void *userdata); /* NULL: the call is not held */
	void *drained_userdata, *gone_userdata;
};

/* By the frontend: the caller is gone before the last reply; the call is freed. Its replies so
 * far have been taken. */
void op_call_gone(struct op_call *call);
void op_call_drained(struct op_call *call);

/* ---- what the operations of a step are ----------------------------------------------------- */

/* NULL: no memory. a's events are open. */
struct operations *operations_new(struct agent *a);

/* Calls that are held then fail. NULL is allowed. Returns NULL. */
struct operations *operations_free(struct operations *o);

struct agent *operations_get_agent(const struct operations *o);

/* Whether a call is held. */
bool operations_has_pending(const struct operations *o);

/* The step's reports: struct frontend. begin: the state is "starting", for the first time. end:
 * the result exists, and all pending calls for it get it. */
void operations_state_changed(struct operations *o);
void operations_suspended(struct operations *o, bool suspend, int code, const char *why);
void operations_end(struct operations *o);
bool operations_is_answering(const struct operations *o);
void operations_not_reexeced(struct operations *o, const struct err *why);

/* For a new program (snapshot/handover.h): the state of a held call, a new reference, or NULL if
 * it can't be saved; and resuming from that state, which may reply at once. */
struct json_t *operations_save_call(const struct operations *o, const struct op_call *call);
void operations_resume_call(struct operations *o, struct op_call *call, const struct json_t *state);
void operations_save(const struct operations *o, struct handover *h, struct json_t *object);
void operations_restore(struct operations *o, const struct json_t *object);

#endif
