/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The agent of a step as a child of the program that keeps it, steprun or a relay: "stepd serve" of
 * the same build, started, heard and ended. An agent whose supervisor is gone ends its step: the
 * socket between them hangs up. What an agent that was killed itself has left is taken over by
 * "stepd adopt", and ended.
 */
#ifndef STEPD_CLI_RELAY_SUPERVISOR_H
#define STEPD_CLI_RELAY_SUPERVISOR_H

#include <stdbool.h>

#include "stepd/base/err.h"

struct ev_loop;
struct json_t;
struct supervisor;
struct stepd_event;

struct supervisor_events {
	/* Once: tasks run. */
	void (*started)(void *userdata);
	void (*event)(const struct stepd_event *event, void *userdata); /* of the step */
	/* A line for people: a signal was refused, the agent has died. */
	void (*say)(const char *text, void *userdata);
	/* Once, the last call: exit_code is the agent's; result the document's text, NULL where
	 * there is none. The supervisor may be freed in it. */
	void (*ended)(int exit_code, const char *result, void *userdata);
};

struct supervisor_start {
	const char *program;      /* stepd */
	char *const *args;        /* further ones of "serve", up to NULL */
	const char *runtime_dir;  /* that is among them; NULL: the default */
	const struct json_t *doc; /* the spec */
	int stdio[3];             /* the agent's streams; borrowed */
	const int *keep_fds;      /* further descriptors for the agent, by the same numbers */
	size_t keep_fds_count;
};

/* start's args, runtime_dir and program outlive the supervisor. */
int supervisor_new(struct ev_loop *loop, const struct supervisor_start *start,
	const struct supervisor_events *events, void *userdata, struct supervisor **ret_supervisor,
	struct err *err) _must_check_;

/* To all processes of the step; kept until it has started. */
void supervisor_signal(struct supervisor *supervisor, const char *signal);

/* Begins the end. now: KILL at once, else the step's own sequence. */
void supervisor_terminate(struct supervisor *supervisor, bool now);

/* Stops the step, or lets it go on, as the agent does at the terminal's signal. */
void supervisor_suspend(struct supervisor *supervisor, bool on);

/* NULL is fine; returns NULL. An agent that still runs gets no word. */
struct supervisor *supervisor_free(struct supervisor *supervisor);

#endif
