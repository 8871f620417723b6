/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the processes of a served step hear of a suspension, which the agent, who freezes them, does
 * not tell them: SIGTSTP two seconds before it, in which an MPI launcher or a program with a
 * licence gets ready, and SIGCONT after it. slurmstepd leaves each step these two seconds, beside
 * the job that takes its place; here a step has them in which some process that is to hear of it
 * catches SIGTSTP.
 */
#ifndef SLURM_SUSPENSION_H
#define SLURM_SUSPENSION_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct ev_loop;
struct log;
struct suspension;

struct suspension_options {
	struct ev_loop *loop;
	const struct log *log;
	const char *label;     /* the step's, for messages */
	const char *directory; /* the agent's, of the step */
	/* Whether a process is the first one of a task: these alone hear of it. NULL: all do. */
	bool (*is_leader)(uint32_t pid, const void *userdata);
	/* From the loop: the step may be suspended. */
	void (*ready)(void *userdata);
	void *userdata;
};

/* What options points to outlives it. */
int suspension_new(const struct suspension_options *options, struct suspension **ret_suspension,
	struct err *err) _must_check_;

/* ready() is called, soon. Also where that is under way already. False: the step may be suspended
 * now. */
bool suspension_begin(struct suspension *suspension);

/* The step is resumed. True: before it was to be suspended, so ready() is not called. */
bool suspension_end(struct suspension *suspension);

/* NULL is fine. Returns NULL. */
struct suspension *suspension_free(struct suspension *suspension);

#endif
