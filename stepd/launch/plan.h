/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The plan: what this machine makes of a spec. All look-ups, checks and allocations that can fail
 * happen here, before anything of the step exists, so that a step which can't start leaves
 * nothing behind; after it the agent only carries out.
 */
#ifndef STEPD_LAUNCH_PLAN_H
#define STEPD_LAUNCH_PLAN_H

#include "stepd/binding/binding.h"
#include "stepd/launch/environ.h"
#include "stepd/process/identity.h"
#include "stepd/spec/spec.h"

struct handover;
struct json_t;
struct mpi;
struct mpi_host;
struct registry;

/* One command line with its environment: the step's, and one for each override. */
struct plan_program {
	char *const *argv; /* owned by the spec, or by struct plan (batch) */
	const char *cwd;
	struct strv env; /* all but the task's own variables */
};

/* Tasks that join the running step: the part of a spawn that is started here. */
struct plan_joined {
	uint32_t spawn;       /* its number in the step, from 1 */
	uint32_t first_rank;  /* in the step, of its rank 0 */
	uint32_t size;        /* its tasks on all nodes */
	uint32_t first_local; /* the local id of the first one here, the others follow */
	uint32_t count;
	const struct plan_program *programs;
	const uint32_t *task_program; /* count of them: index into programs */
};

struct plan {
	const struct spec *spec; /* borrowed; lives longer */
	struct identity id;
	stepd_step_rec_t job;          /* task[] is owned here, the rest by spec and id */
	const char **own_name;         /* of a step on one node: its names of nodes */
	char *label;                   /* "7.0" */
	char *cwd;                     /* absolute */
	struct plan_program *programs; /* [0] is the step's */
	size_t programs_count;
	uint32_t *task_program;         /* by local id: index into programs */
	uint32_t *rank_appnums;         /* the step record's */
	stepd_step_command_t *commands; /* likewise */
	char **task_cpus;               /* likewise */
	char **script_argv; /* of a batch step: the vector; its strings are the plan's too */
	mode_t umask;
	int oom_score_adj;
	struct binding binding;       /* filled in by the agent, before the environment */
	struct environ_task task_env; /* filled by each child for itself */
};

/* Resolves identity, layout, directory and command lines. The environment follows with
 * plan_make_environ(), when the MPI plugin is known. */
int plan_make(const struct spec *spec, struct plan *ret_plan, struct err *err) _must_check_;

/* The same for a step that is running already: only its owner and what supervising it takes.
 * user_name is copied. */
int plan_make_adopted(const struct spec *spec, uid_t uid, gid_t gid, const char *user_name,
	struct plan *ret_plan, struct err *err) _must_check_;

/* Stores the batch step's script in the step's directory, as a file that only the user and root can
 * read; the command line is the interpreter of its first line, then its path. registry_close()
 * removes it. A script_file is left where it is, and is the command line's first word. */
int plan_store_script(struct plan *plan, const struct registry *reg, struct err *err) _must_check_;
int plan_make_environ(struct plan *plan, const char *mpi_type, struct err *err) _must_check_;

/* Stores the tasks' binding in the step record, once it is known. 0 or -ENOMEM. */
int plan_record_binding(struct plan *plan) _must_check_;

/* Calls the MPI plugin's prefork hook and passes its changes on to every program. */
int plan_run_prefork(struct plan *plan, struct mpi *mpi, const struct mpi_host *host,
	struct err *err) _must_check_;

/* Has fn change the step's environment, a vector of <stepd/env.h>, and passes its changes on to
 * every program; *ret_status is what it returned, and changes of one that fails (below 0) don't
 * count. */
typedef int (*plan_environ_fn)(char ***env, void *userdata);
int plan_change_environ(struct plan *plan, plan_environ_fn fn, void *userdata, int *ret_status,
	struct err *err) _must_check_;

/* The program of a task. joined: the spawn that it is part of, NULL for a task that began with
 * the step. */
const struct plan_program *plan_task_program(
	const struct plan *plan, const struct plan_joined *joined, uint32_t local_id);

/* Appends tasks to the step record; their ids are yet to be set. 0 or -ENOMEM. */
int plan_add_tasks(struct plan *plan, const stepd_step_task_info_t *tasks, uint32_t n) _must_check_;

/* The part of a plan that matters once the tasks run, for the successor program (handover.h):
 * neither users nor CPUs are looked up again. */
void plan_save(const struct plan *plan, struct handover *h, struct json_t *object);
int plan_restore_names(struct spec *spec, const struct handover *h, const struct json_t *object,
	struct err *err) _must_check_; /* before it: members that the document may lack */
int plan_restore(const struct spec *spec, const struct handover *h, const struct json_t *object,
	struct plan *ret_plan, struct err *err) _must_check_;

void plan_clear(struct plan *plan);
#define _cleanup_plan_ _cleanup_(plan_clear)

#endif
