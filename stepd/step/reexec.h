/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An upgrade while the step runs: SIGUSR2, or the method Reexec, has the agent execute its new
 * program in place of the running one. The process stays the same one, so its children stay its
 * children, its locks stay locked, and its descriptors open; what it knows goes over in a
 * handover (handover.h).
 *
 *   the container's requests rest -> a child tries the new program, with all that there is to hand
 *   over: it restores the whole of it, and ends -> the state of that moment is written down ->
 *   execve(2) -> the new program restores, and goes on
 *
 * Whatever stands against it is reported in one sentence, and the agent goes on as it was. Once
 * execve() has succeeded there is no way back: that is what the trial is for.
 */
#ifndef STEPD_STEP_REEXEC_H
#define STEPD_STEP_REEXEC_H

#include <ev.h>
#include <stdbool.h>

#include "stepd/base/err.h"
#include "stepd/loop/loop.h"

struct agent;
struct handover;

struct reexec {
	char *program; /* the path by which this one was started; NULL: unknown */
	bool wanted;
	bool trying;
	int program_fd; /* the program to try and execute; -1: none */
	struct handover *trial;
	int trial_fd;
	struct worker worker;
	ev_timer due;          /* runs after all other pending watchers */
	uint64_t patience_ns;  /* deadline of replies in progress */
	uint64_t requested_ns; /* when the loop stopped */
};

#define REEXEC_INIT                                                                                \
	{                                                                                          \
		.program_fd = -1, .trial_fd = -1                                                   \
	}

/* At the agent's start: finds out which program this is. */
int reexec_init(struct agent *a, struct err *err) _must_check_;
void reexec_clear(struct agent *a);

/* Begins a re-exec, now or once the step runs. */
void reexec_request(struct agent *a);

/* Checks whether the awaited condition holds: the step has begun, a worker has ended. */
void reexec_go_on(struct agent *a);

/* An awaited reply is complete. */
void reexec_answered(struct agent *a);

/* The beginning of the only line of a successful trial. */
#define REEXEC_CHECKED "stepd can go on: "

#endif
