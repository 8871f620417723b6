/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Task epilogs: when tasks of a served step have ended, the user's program (--task-epilog), which
 * has five seconds, and then the site's (TaskEpilog) run for each of them, as the user, with their
 * environment and SLURM_SCRIPT_CONTEXT, and without streams. A failure is only reported.
 *
 * The tasks' own container goes with the last of them. So epilogs of tasks that have ended together
 * run as a step of their own, by an agent, which leaves nothing behind: its number is above all
 * others.
 */
#ifndef SLURM_EPILOGS_H
#define SLURM_EPILOGS_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct epilogs;
struct ev_loop;
struct json_t;
struct strv;

struct epilogs_options {
	struct ev_loop *loop;
	const struct log *log;
	const char *user, *site; /* programs; NULL: none */
	/* The agent's, and the step's spec; borrowed. */
	const char *program, *runtime_dir;
	const struct strv *args;
	const struct json_t *doc;
	const char *task_program; /* stepd-slurm-task */
	uint32_t step;            /* its number */
	uint16_t release;         /* of slurmd, whose sentences users know */
	const uint32_t *ranks;    /* by local id; borrowed */
	uint32_t ntasks;
	/* A line for the user. */
	void (*note)(const char *text, void *userdata);
	/* None runs any more. */
	void (*done)(void *userdata);
	void *userdata;
};

int epilogs_open(const struct epilogs_options *options, struct epilogs **ret_epilogs,
	struct err *err) _must_check_;

/* Begins those of so many tasks, by their local ids. A failure is logged. NULL is fine, as in the
 * others. */
void epilogs_run(struct epilogs *epilogs, const uint32_t *ids, uint32_t n);

bool epilogs_are_running(const struct epilogs *epilogs);

/* Those that run. */
void epilogs_kill(struct epilogs *epilogs);

/* Returns NULL. */
struct epilogs *epilogs_close(struct epilogs *epilogs);

#endif
