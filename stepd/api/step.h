/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The step record: what the agent tells its plugins about the step. It holds identity, layout,
 * tasks and the container id, and nothing of stdio, control or accounting. All of it is owned by
 * the agent and lives until after the plugin's last call; a plugin writes cont_id at most.
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

typedef struct {
	uint32_t id;   /* on this node, from 0 */
	uint32_t gtid; /* rank in the whole step */
	pid_t pid;     /* 0 before its fork and after its end */
} stepd_step_task_info_t;

typedef struct {
	uint32_t api_version; /* STEPD_API_VERSION of the agent */
	enum stepd_step_kind kind;

	uint32_t job_id;
	uint32_t step_id;      /* a number, or STEPD_STEP_ID_... */
	const char *step_name; /* "0", "batch" or "extern" */

	uid_t uid; /* whom the tasks run as */
	gid_t gid;
	const char *user_name; /* the uid in digits where it has no name */

	const char *node_name;
	uint32_t nodeid; /* index of this node in the step, from 0 */
	uint32_t nnodes;

	uint32_t ntasks;              /* of the whole step */
	uint32_t node_tasks;          /* on this node */
	stepd_step_task_info_t *task; /* node_tasks of them, by local id */

	pid_t jmgr_pid;    /* the agent */
	pid_t service_pid; /* the MPI service process, never part of the container; 0 for none */

	uint64_t cont_id; /* the proctrack container, 0 for none; set by proctrack_p_create() */

	/* A short-lived process of the agent's own, which signals or suspends the container on its
	 * behalf: never part of the container either; 0 for none */
	pid_t worker_pid;
} stepd_step_rec_t;

#ifdef __cplusplus
}
#endif

#endif
