/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The agent of a step as a child of steprun or of a relay: "stepd serve" of the same build, with
 * its documents, requests to it and the step's events (through its control socket), and its end. An
 * agent whose supervisor is gone ends its step: the socket between them hangs up. What an agent
 * that was killed itself has left is taken over by "stepd adopt", and ended. Nothing blocks, but
 * for the exec of the agent.
 */
#ifndef STEPD_CLI_RELAY_SUPERVISOR_H
#define STEPD_CLI_RELAY_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct ev_loop;
struct json_t;
struct strv;
struct supervisor;

struct supervisor_events {
	/* The tasks run, and the agent reads its terminal, where they have one: its ready line,
	 * stepd(8), or NULL if that can't be read. May be NULL, as suspended. */
	void (*ready)(const struct json_t *line, void *userdata);
	void (*suspended)(bool on, void *userdata);
	void (*task_ended)(uint32_t rank, int wait_status, void *userdata);
	/* The kernel has killed processes of the task for lack of memory, so many since its start.
	 * Before the task's end, where that is why. May be NULL. */
	void (*out_of_memory)(uint32_t rank, uint64_t kills, void *userdata);
	/* A message for the user: a signal was refused, the agent has died. */
	void (*report)(const char *text, void *userdata);
	/* Once, the last call: exit_code is the agent's; result the document's text, NULL where
	 * there is none. The supervisor may be freed in it. */
	void (*ended)(int exit_code, const char *result, void *userdata);
};

struct supervisor_start {
	const char *program;      /* stepd */
	const struct strv *args;  /* further arguments of "serve" */
	const char *runtime_dir;  /* as in args; NULL: the default */
	const struct json_t *doc; /* the spec */
	int stdio[3];             /* the agent's streams; borrowed */
	const int *extra_fds;     /* further descriptors for the agent, by the same numbers */
	size_t extra_fds_count;
};

/* start's args, runtime_dir and program outlive the supervisor. */
int supervisor_new(struct ev_loop *loop, const struct supervisor_start *start,
	const struct supervisor_events *events, void *userdata, struct supervisor **ret_supervisor,
	struct err *err) _must_check_;

/* To all processes of the step, once it has started. */
void supervisor_signal(struct supervisor *supervisor, const char *signal);

/* Begins the end. now: KILL at once, else the step's own sequence. */
void supervisor_terminate(struct supervisor *supervisor, bool now);

/* Stops or continues the step, as the agent does at the terminal's signal. */
void supervisor_suspend(struct supervisor *supervisor, bool on);

/* The agent's terminal has another size. */
void supervisor_resize(struct supervisor *supervisor);

/* NULL is allowed; returns NULL. An agent that still runs notices that its supervisor is gone. */
struct supervisor *supervisor_free(struct supervisor *supervisor);

#endif
