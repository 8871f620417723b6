/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The translation of requests of Slurm's clients to calls of an agent: the method of io.stepd.Step
 * and its parameters, the required access, and the form of the answer. One table; nothing is sent
 * here.
 */
#ifndef SLURM_SOCKET_REQUESTS_H
#define SLURM_SOCKET_REQUESTS_H

#include <sys/types.h>

#include "contrib/slurm/wire.h"

/* Of a signal: that it ends tasks is no failure, from 23.02 on. */
#define SLURM_KILL_NO_FAILURE (1u << 10)

struct json_t;
struct lookup_user;
struct requests_plan;

/* No signal: CONT, TERM, and KILL after a grace. */
#define SLURM_SIGNAL_TERMINATE 991

/* The access that a request requires; each includes those above it. As the adapter calls agents
 * with its own rights, this must not be wider than the interface's own rule, but for queries: Slurm
 * answers these to every user. */
enum requests_access {
	REQUESTS_ROOT,
	REQUESTS_ADMIN, /* and the adapter's user */
	REQUESTS_OWNER, /* and the step's owner */
	REQUESTS_ANYONE,
	REQUESTS_ACCESS_MAX,
};

struct requests_step {
	uid_t owner;
	uid_t admin;  /* besides root: the adapter's user */
	bool private; /* only for its owner and admins */
	bool batch;
	bool adopts; /* an extern step: it gets processes, and TERM and KILL end it */
	/* Limits of each process that it gets, in bytes; 0: none. */
	uint64_t adopted_rss, adopted_as;
	bool leaders; /* signals are for the tasks' first processes alone, but for KILL, STOP and
			 CONT */
	bool outlives_tasks; /* its process goes on after them: a signal that finds none has reached
				all that there are, as with slurmstepd. slurmd takes a step that
				fails one for over, and its job with it. */
	uint32_t first_rank; /* what the agent has for rank 0 */
	const struct lookup_user *user; /* NULL: the job's user is not known */
	const char *name_space;         /* the path of the job's; NULL: it has none */
	unsigned display;               /* of X11, 0: none */
	const char *xauthority;         /* the path of its file */
};

bool requests_may(const struct requests_step *step, enum requests_access access, uid_t uid);

/* Encodes a part of the agent's answer: 0, or -EPROTO if it is malformed. reply is NULL if the
 * agent was not called. */
typedef int (*requests_answer_fn)(const struct requests_plan *plan, const struct json_t *reply,
	uint16_t version, struct wire_answer *answer);

struct requests_plan {
	enum requests_access access;
	const char *method; /* NULL: no call of the agent */
	char *parameters;   /* JSON; NULL: none */
	bool local;         /* only for the process of a step that slurmd has started */
	bool more;          /* the answer comes in pieces */
	bool acts;     /* changes the step: does not wait for queries, and has a longer timeout */
	bool no_errno; /* the answer is a result alone */
	bool may_find_none;  /* that no task runs any more is no failure */
	int error;           /* without a call of the agent: how an action failed */
	uint32_t first_rank; /* of the step */
	const struct lookup_user *user;
	struct wire_lookup lookup;
	pid_t added; /* the extern step gets this process; with limits in bytes, 0: none */
	uint64_t rss, as;
	bool has_name_space;
	int name_space_fd; /* of it, until the plan is cleared; -1: it can't be opened */
	unsigned display;
	const char *xauthority;
	requests_answer_fn answer;
};

#define _cleanup_requests_plan_ _cleanup_(requests_plan_clear)
void requests_plan_clear(struct requests_plan *plan);

/* 0 or -ENOMEM. */
int requests_make_plan(const struct wire_request *request, const struct requests_step *step,
	struct requests_plan *ret_plan) _must_check_;

/* Encodes a failure for the client, error being a positive errno. False: this request has no such
 * answer; slurmstepd closes the connection then. */
bool requests_fail(const struct requests_plan *plan, int error, struct wire_answer *answer);

/* The errno for a code of libstepd. */
int requests_errno(int code);

/* Of two numbers of signals that end a step, and come before its tasks run, the one that has to be
 * done then: KILL, else SLURM_SIGNAL_TERMINATE, which has a KILL at its end, else TERM. 0: none has
 * come yet. */
int requests_stronger_end(int earlier, int later);

#endif
