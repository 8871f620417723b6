/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The plan: what this machine makes of a spec. All look-ups, checks and allocations that can fail
 * happen here, before anything of the step exists, so that a step which can't start leaves
 * nothing behind; after it the agent only carries out.
 */
#ifndef STEPD_AGENT_PLAN_H
#define STEPD_AGENT_PLAN_H

#include "stepd/agent/binding/binding.h"
#include "stepd/agent/launch/environ.h"
#include "stepd/agent/launch/identity.h"
#include "stepd/agent/spec/spec.h"

struct handover;
struct json_t;
struct mpi;

/* One command line with its environment: the step's, and one for each override. */
struct plan_program {
	char *const *argv; /* owned by the spec, or by struct plan (batch) */
	const char *cwd;
	struct strv env; /* all but the task's own variables */
};

struct plan {
	const struct spec *spec; /* borrowed; lives longer */
	struct identity id;
	stepd_step_rec_t job;          /* task[] is owned here, the strings by spec and id */
	char *label;                   /* "7.0" */
	char *cwd;                     /* absolute */
	struct plan_program *programs; /* [0] is the step's */
	size_t programs_count;
	uint32_t *task_program; /* by local id: index into programs */
	char **script_argv;     /* of a batch step: the vector; its strings are the plan's too */
	mode_t umask;
	int oom_score_adj;
	struct binding binding;       /* filled in by the agent, before the environment */
	struct environ_task task_env; /* filled by each child for itself */
};

/* Resolves identity, layout, directory and command lines. The environment follows with
 * plan_make_environ(), when the MPI plugin is known. */
int plan_make(const struct spec *spec, struct plan *ret_plan, struct err *err) _must_check_;

/* The same for a step that runs already, by what is known of it: whom it belongs to, and no more
 * than is needed to look after it. user_name is copied. */
int plan_make_adopted(const struct spec *spec, uid_t uid, gid_t gid, const char *user_name,
	struct plan *ret_plan, struct err *err) _must_check_;

/* Makes the batch step's command line: the interpreter of its first line, then script, the path
 * where it is stored. */
int plan_set_script(struct plan *plan, const char *script, struct err *err) _must_check_;
int plan_make_environ(struct plan *plan, const char *mpi_type, struct err *err) _must_check_;

/* Calls the MPI plugin's prefork hook and gives what it changed to every program. */
int plan_run_prefork(struct plan *plan, struct mpi *mpi, struct err *err) _must_check_;

/* What is left of a plan once the tasks run, for the program that goes on with it (handover.h):
 * nothing is looked up again, neither users nor CPUs. */
void plan_save(const struct plan *plan, struct handover *h, struct json_t *object);
int plan_restore_names(struct spec *spec, const struct handover *h, const struct json_t *object,
	struct err *err) _must_check_; /* before it: what the document need not have said */
int plan_restore(const struct spec *spec, const struct handover *h, const struct json_t *object,
	struct plan *ret_plan, struct err *err) _must_check_;

void plan_clear(struct plan *plan);
#define _cleanup_plan_ _cleanup_(plan_clear)

#endif
