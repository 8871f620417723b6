/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The step record: what the agent passes to its plugins about the step. It holds identity,
 * layout, tasks and the container id, and nothing of stdio, control or accounting. All of it is
 * owned by the agent and lives until after the plugin's last call; a plugin writes cont_id at
 * most.
 */
#ifndef STEPD_API_STEP_H
#define STEPD_API_STEP_H

#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum stepd_step_kind {
	STEPD_STEP_NORMAL, /* parallel tasks; the only kind that gets MPI hooks */
	STEPD_STEP_BATCH,  /* one task that runs the job's script */
	STEPD_STEP_EXTERN, /* no task: holds processes that others add */
	STEPD_STEP_KIND_MAX,
};

/* Step ids of the kinds that have no number, as Slurm counts them. */
#define STEPD_STEP_ID_EXTERN 0xfffffffcu
#define STEPD_STEP_ID_BATCH  0xfffffffbu
/* A normal step that is called "interactive": the shell of an salloc. */
#define STEPD_STEP_ID_INTERACTIVE 0xfffffffau

typedef struct {
	uint32_t id;     /* on this node, from 0 */
	uint32_t gtid;   /* rank in the whole step */
	pid_t pid;       /* 0 before its fork and after its end */
	uint32_t appnum; /* which of the step's, or of its spawn's, command lines it runs, from 0 */
	uint32_t spawn; /* the number of the spawn that has started it; 0: it began with the step */
} stepd_step_task_info_t;

typedef struct {
	const char *const *argv; /* ends with NULL; itself NULL where this node does not have it */
	const char *cwd;
} stepd_step_command_t;

typedef struct {
	uint32_t api_version; /* STEPD_API_VERSION of the agent */
	enum stepd_step_kind kind;

	uint32_t job_id;
	uint32_t step_id;      /* a number, or STEPD_STEP_ID_... */
	const char *step_name; /* "0", "batch", "extern" or "interactive" */

	uid_t uid; /* the user of the tasks */
	gid_t gid;
	const char *user_name; /* the uid in digits where it has no name */

	const char *node_name;
	uint32_t nodeid; /* index of this node in the step, from 0 */
	uint32_t nnodes;

	/* The whole step's layout. NULL where the agent does not have it (on one node it always
	 * does).
	 */
	const char *const *node_names; /* nnodes of them */
	const uint32_t *rank_nodes;    /* ntasks of them: the nodeid of each rank */

	uint32_t ntasks; /* of the whole step, as it began: those of spawns have ranks from here on
			  */
	uint32_t node_tasks; /* on this node; grows with each spawn */
	/* node_tasks of them, by local id. It moves when it grows: look it up for each call. */
	stepd_step_task_info_t *task;

	pid_t jmgr_pid;    /* the agent */
	pid_t service_pid; /* the MPI service process, never part of the container; 0 for none */

	uint64_t cont_id; /* the proctrack container, 0 for none; set by proctrack_p_create() */

	/* A short-lived process of the agent's own, which signals or suspends the container on its
	 * behalf: never part of the container either; 0 for none */
	pid_t worker_pid;

	/* What the agent offers to an MPI plugin: <stepd/mpi.h>. NULL but for its prefork hook and
	 * in its service process. */
	const struct stepd_mpi_host *mpi_host;

	/* Which of the step's command lines each of its ranks runs, from 0, ntasks of them; NULL:
	 * all run the one there is */
	const uint32_t *rank_appnums;

	/* The CPUs that tasks of this node are bound to, "0-3,8", by local id, of those that began
	 * with the step; NULL: none is bound */
	const char *const *task_cpus;

	/* The step's command lines, command_count of them, by appnum, and where they run; the
	 * same on every node that has all of them, also of those that none of its tasks runs */
	uint32_t command_count;
	const stepd_step_command_t *commands;
	const char *cwd; /* the step's directory, of all that name no other; absolute */

	/* A process of the agent's own that holds the tasks' streams for an adopter: never part of
	 * the container either; 0 for none */
	pid_t holder_pid;
} stepd_step_rec_t;

#ifdef __cplusplus
}
#endif

#endif
