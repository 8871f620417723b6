/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A step's cgroup: <root>/stepd/job_<J>/step_<S>, with task_<rank> below for each task and
 * STEP_ADDED for processes that are none. Of a step that has a service process (mpi/service.h) the
 * groups of its members are below STEP_MEMBERS, beside STEP_SERVICE: the limits of the step's own
 * group are for both, and what is done to members, and their end, is the members' alone. Of a step
 * over several nodes it is step_<S>.<node's number>: nodes may share a kernel. The names mean
 * something to every process of the machine, so that a step is found by its id (the cgroup's: the
 * inode of its directory) or by a member's pid without any table.
 */
#ifndef PROCTRACK_CGROUP_STEP_H
#define PROCTRACK_CGROUP_STEP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/api/proctrack.h"
#include "stepd/api/step.h"
#include "stepd/base/cleanup.h"

struct cgroup_root;

#define STEP_NAME_SIZE 128 /* of the step's directory, with its NUL */

struct step_dir {
	uint64_t id;
	int fd;
	int members_fd; /* STEP_MEMBERS; -1: the step is not split */
	uint32_t job_id;
	char name[STEP_NAME_SIZE]; /* "step_0" */
};

#define STEP_DIR_INIT                                                                              \
	{                                                                                          \
		.id = 0, .fd = -1, .members_fd = -1                                                \
	}

/* Makes the step's cgroup anew, and what is missing above it. What an earlier step of that name
 * left is removed first (a group that was killed once must not be used again); -EEXIST: that one
 * still lives. A failure leaves nothing behind. */
int step_make(const struct cgroup_root *root, const stepd_step_rec_t *job,
	struct step_dir *ret_dir) _must_check_;

/* Finds the step of that id. -ESRCH: there is none. */
int step_find(const struct cgroup_root *root, uint64_t id, struct step_dir *ret_dir) _must_check_;

/* The id of the step that a process is in, and if wanted the path of its group below the
 * step's, the caller's to free. -ESRCH: no such process. -ENOENT: it is in none. */
int step_find_pid(
	const struct cgroup_root *root, pid_t pid, uint64_t *ret_id, char **ret_below) _must_check_;

/* The group below the step's that holds what was added and is no task: in the step's own group it
 * would stop the step from switching controllers on for its tasks (controllers.h). */
#define STEP_ADDED "added"

#define STEP_MEMBERS "members"
#define STEP_SERVICE "service"

/* Makes STEP_MEMBERS and STEP_SERVICE, and returns a descriptor of the latter. While there
 * is nothing in the step. */
int step_split(struct step_dir *dir) _must_check_;

/* The group that all members are in or below. */
static inline int step_get_members(const struct step_dir *dir)
{
	return dir->members_fd >= 0 ? dir->members_fd : dir->fd;
}

/* Moves a running process into the step, into the group of the task of that rank or, rank being
 * NULL, of STEP_ADDED, made if it isn't there. -ESRCH: no such process. */
int step_add(const struct cgroup_root *root, const struct step_dir *dir, const uint32_t *rank,
	pid_t pid) _must_check_;

/* Whether a group of that name, or the first of a path below the step's, is a task's, and whose. */
bool step_parse_task(const char *below, uint32_t *ret_rank);

/* Opens task_<rank>, made if it isn't there: a descriptor, or -errno. */
int step_open_task(const struct step_dir *dir, uint32_t rank) _must_check_;

/* Opens task_<rank> where it is there: a descriptor, or -ESRCH. */
int step_find_task(const struct step_dir *dir, uint32_t rank) _must_check_;

/* Removes a task's group if no process and no group is in it, and returns whether it did; else it
 * stays for step_remove(). */
bool step_remove_task(const struct step_dir *dir, uint32_t rank);

/* Removes the step's cgroup with all below, and what was made above it if that is empty now. A
 * service process that is still there is given STEP_SERVICE_END_MS, and killed.
 * -EBUSY: a member lives. -ESRCH: it is gone already. dir stays the caller's to clear. */
int step_remove(const struct step_dir *dir);

/* Removes what was made above a step that is gone, as far as it is empty: whoever removed the step
 * may have been killed before it came to that. */
void step_remove_above(const struct cgroup_root *root, const stepd_step_rec_t *job);

/* Whether it is this step's. */
bool step_is_of(const struct step_dir *dir, const stepd_step_rec_t *job);

#define STEP_SERVICE_END_MS 1000

void step_dir_clear(struct step_dir *dir);
#define _cleanup_step_dir_ _cleanup_(step_dir_clear)

/* ---- its members ----------------------------------------------------------------------------- */

/* The processes of a step by task: those in task_<rank> or in a group below it are that task's;
 * those elsewhere in the step are no task's as far as cgroups go. Groups of cgroup v2 can't be
 * renamed, but a process that may write the step's directory (root in it, a user's own step) can
 * make one that is called as no task is: the host, who knows the tasks, believes no such rank. */

/* The step whose directory is open at fd. *ret_members is the caller's to free, ascending by pid,
 * each once; NULL where there are none. 0 or -errno; -ESRCH: the step is gone. */
int cgmembers_list(int fd, stepd_member_t **ret_members, int *ret_count) _must_check_;

/* Tells all task groups that stand still for themselves alone to go on. */
int cgmembers_thaw_tasks(int fd) _must_check_;

#endif
