/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An opened backend, shared by proctrack.c and proctrack_members.c. Nobody else looks inside.
 */
#ifndef PROCTRACK_PROCTRACK_IMPL_H
#define PROCTRACK_PROCTRACK_IMPL_H

#include <errno.h>

#include "proctrack/generic.h"
#include "proctrack/proctrack.h"

struct plugin;

/* The plugin's functions, in the order of <stepd/proctrack.h>. */
struct proctrack_ops {
	int (*create)(stepd_step_rec_t *job);
	int (*add)(stepd_step_rec_t *job, pid_t pid);
	int (*signal)(uint64_t id, int signal);
	int (*destroy)(uint64_t id);
	uint64_t (*find)(pid_t pid);
	uint32_t (*get_pids)(uint64_t id, pid_t **pids, int *npids);
	int (*place)(const stepd_step_rec_t *job, const char *scope, char *text, size_t size);
	int (*wait)(uint64_t id, int timeout_ms);
	int (*has_pid)(uint64_t id, pid_t pid);
	int (*suspend)(uint64_t id);
	int (*resume)(uint64_t id);
	int (*is_suspended)(uint64_t id, int *suspended, char *text, size_t size);
	int (*clone_fd)(const stepd_step_rec_t *job, uint32_t local_id);
	int (*service_fd)(const stepd_step_rec_t *job, int *may_clone);
	int (*spans_sessions)(void);
	void (*task_ended)(const stepd_step_rec_t *job, uint32_t local_id);
	int (*event_fd)(uint64_t id);
	int (*get_root)(char *path, size_t size);
	int (*usage)(uint64_t id, const uint32_t *rank, stepd_usage_t *usage);
	int (*set_limits)(uint64_t id, const uint32_t *rank, const stepd_limits_t *limits,
		char *text, size_t size);
	int (*oom_fd)(uint64_t id);
	int (*get_members)(uint64_t id, stepd_member_t **members, int *n);
	int (*find_member)(uint64_t id, pid_t pid, uint32_t *rank);
	int (*signal_task)(uint64_t id, uint32_t rank, int signal);
	int (*adopt)(stepd_step_rec_t *job, const pid_t *pids, int n);
};

struct proctrack {
	struct plugin *plugin;
	struct proctrack_ops ops;
	struct generic_ops generic;
	struct generic_stopped *stopped;
	uint64_t own_id; /* of the container that this process created or adopted, 0 for none */
	char note[ERR_TEXT_SIZE];
};

/* SLURM_ERROR and errno into -errno; a plugin that forgot errno gets -EIO. */
static inline int proctrack_from_slurm(int rc)
{
	if (rc == SLURM_SUCCESS)
		return 0;
	return errno > 0 ? -errno : -EIO;
}

#endif
