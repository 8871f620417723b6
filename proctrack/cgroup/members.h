/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The processes of a step by task: who is in task_<rank> or in a group below it is that task's; who
 * is elsewhere in the step is nobody's as far as a cgroup tells. Groups of cgroup v2 can't be
 * renamed, but who may write the step's directory (root in it, a user's own step) can make one that
 * is called as no task is: the host, who knows the tasks, believes no such rank.
 */
#ifndef PROCTRACK_CGROUP_MEMBERS_H
#define PROCTRACK_CGROUP_MEMBERS_H

#include "stepd/api/proctrack.h"
#include "stepd/base/cleanup.h"

/* The step whose directory is open at fd. *ret_members is the caller's to free, ascending by pid,
 * each once; NULL where there are none. 0 or -errno; -ESRCH: the step is gone. */
int cgmembers_list(int fd, stepd_member_t **ret_members, int *ret_count) _must_check_;

/* Tells all task groups that stand still for themselves alone to go on. */
int cgmembers_thaw_tasks(int fd) _must_check_;

#endif
