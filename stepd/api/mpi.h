/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The MPI plugin: plugin_type "mpi/...". The four hooks are those of Slurm's "MPI Plugin API"
 * guide, by name and by the moment of their call. All are mandatory; one without work
 * returns SLURM_SUCCESS. They are not called for batch and extern steps. p_mpi_task_environ() is
 * stepd's own, and optional.
 *
 * env is a NULL-terminated vector from malloc(): change it with stepd_env_set() and
 * stepd_env_unset() of <stepd/env.h>. A string that a hook puts into it comes from malloc() and
 * is the host's from then on; those that stood there before are never freed by a hook.
 */
#ifndef STEPD_API_MPI_H
#define STEPD_API_MPI_H

#include <stdbool.h>

#include "plugin.h"
#include "step.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the launching client knows about the step before it exists. */
typedef struct {
	uint32_t api_version; /* STEPD_API_VERSION of the client */
	uint32_t job_id;
	uint32_t step_id;
	uid_t uid;
	gid_t gid;
	uint32_t nnodes;
	uint32_t ntasks;
} mpi_plugin_client_info_t;

/* ---- the service process --------------------------------------------------------------------
 *
 * What tasks write is never parsed by the agent, which may be root: a plugin that serves a wire
 * protocol has a process for that. Its prefork hook calls host->service_start(); the host forks
 * (and does not exec), and the child takes the job user's identity, is not dumpable, has no
 * descriptor of the agent's, and calls the plugin's main. It is no member of the step's
 * container, but under its limits where the tracker has a cgroup for it. It has no capabilities,
 * and makes threads but no processes: a filter of system calls denies it what a server has no use
 * for (mpi(7)). Its death never ends the agent: it is logged, and tasks that speak with it find
 * their descriptors hung up.
 *
 * main serves until its link to the agent hangs up and no task speaks with it any more, and
 * returns the process's exit status. Before anything else it sends what tasks need and reports
 * that it is ready, or why it can't be: mpi/link.h has the messages of the link.
 */

/* How the service processes of a step's nodes reach each other: mpi/wire. */
typedef struct {
	const char *const *addresses; /* nnodes of "HOST:PORT" or "[IPV6]:PORT"; NULL: none known */
	int listen_fd;                /* a listening TCP socket, this node's; -1: none */
	const char *auth;             /* "secret", "munge" or "none" */
	const void *secret;           /* with "secret" */
	size_t secret_size;           /* in bytes */
	uint32_t fanout;              /* children of a node in the tree */
	const char *ifname;           /* whose address to connect from; NULL: any */
	uint64_t connect_timeout_ms;  /* until all neighbours must be there */
} stepd_mpi_wire_t;

/* What the service's main gets; all of it lives as long as the process. */
typedef struct {
	uint32_t api_version;        /* STEPD_API_VERSION of the agent */
	const stepd_step_rec_t *job; /* as it was when the service was started */
	int link_fd;                 /* SOCK_SEQPACKET, to the agent */
	const int *task_fd;          /* node_tasks of them: the service's ends of socket pairs
				      * (SOCK_STREAM, O_CLOEXEC, non-blocking), by local id; NULL: not
				      * asked for */
	void *userdata;              /* service_start()'s */
} stepd_mpi_service_t;

typedef int (*stepd_mpi_service_fn)(const stepd_mpi_service_t *service);

struct stepd_mpi_host {
	uint32_t api_version; /* STEPD_API_VERSION of the agent */
	void *ctx;            /* for the functions below */

	/* Deadline of a collective operation and of other waits of one rank for another, in ms;
	 * 0: none */
	uint64_t timeout_ms;
	bool tcp; /* pmi2: tasks get PMI_PORT and PMI_ID in place of PMI_FD */
	const stepd_mpi_wire_t *wire;

	/* Forks the service process; once at most. The host waits until it is ready before it
	 * forks the first task. task_fds: each task gets a socket pair, whose other end its task
	 * hook finds in mpi_plugin_task_info_t. 0, or -1 with errno set; the host logs the
	 * reason: prefork then returns SLURM_ERROR. */
	int (*service_start)(void *ctx, stepd_mpi_service_fn main, void *userdata, bool task_fds);
};

/* The plugin's own, from prelaunch to fini. */
typedef void mpi_plugin_client_state_t;

/* One task, seen from inside its process. */
typedef struct {
	uint32_t api_version; /* STEPD_API_VERSION of the agent */
	uint32_t job_id;
	uint32_t step_id;
	uint32_t nnodes;
	uint32_t nodeid;
	uint32_t ntasks; /* of the whole step */
	uint32_t ltasks; /* on this node */
	uint32_t gtaskid;
	uint32_t ltaskid;

	/* The task's end of its socket pair with the service process, O_CLOEXEC: a hook that hands
	 * it to the task takes that off. -1: there is none. */
	int service_fd;

	/* Of a task that was started by another one's spawn: the number of the spawn in the step,
	 * from 1, and the task's rank in that spawn. 0 and the ranks above else. */
	uint32_t spawn;
	uint32_t rank;   /* among those that share an MPI_COMM_WORLD */
	uint32_t size;   /* of these */
	uint32_t appnum; /* which of the command lines of these */
} mpi_plugin_task_info_t;

/* In the client, before the launch. NULL with errno set on failure; a plugin without a state
 * returns any pointer that is not NULL. */
STEPD_EXPORT mpi_plugin_client_state_t *p_mpi_hook_client_prelaunch(
	const mpi_plugin_client_info_t *job, char ***env);

/* In the agent, before the first fork. SLURM_ERROR with errno set ends the step before any task
 * ran. env is what all tasks get. */
STEPD_EXPORT int p_mpi_hook_slurmstepd_prefork(const stepd_step_rec_t *job, char ***env);

/* In the task's process, as the user, right before exec. env is this task's; what the service has
 * sent for it is there already. */
STEPD_EXPORT void p_mpi_hook_slurmstepd_task(const mpi_plugin_task_info_t *job, char ***env);

/* Optional, for plugins whose task hook only changes the environment. It replaces the hook above,
 * and the tasks start faster, as they share memory until their exec. env is as above but for
 * SLURM_TASK_PID, which may stand there with the number 0 still: the task has the right one.
 * Called once for each task, in a process that is or becomes the task's parent or the task
 * itself, as the agent's user or the task's: so it may use what prefork left, but leaves nothing
 * itself. Where service_fd is not -1 the host takes its O_CLOEXEC off afterwards. SLURM_ERROR
 * with errno set: the task can't be prepared. */
STEPD_EXPORT int p_mpi_task_environ(const mpi_plugin_task_info_t *job, char ***env);

/* In the client, after all tasks have ended. */
STEPD_EXPORT int p_mpi_hook_client_fini(mpi_plugin_client_state_t *state);

#ifdef __cplusplus
}
#endif

#endif
