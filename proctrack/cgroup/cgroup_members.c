/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The plugin's boundary, as cgroup.c: members by task, and a container that another agent made.
 */
#include <signal.h>
#include <string.h>

#include "proctrack/cgroup/group.h"
#include "proctrack/cgroup/members.h"
#include "proctrack/cgroup/place.h"
#include "proctrack/cgroup/state.h"

int proctrack_p_get_members(uint64_t id, stepd_member_t **members, int *n)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	const struct step_dir *dir;
	int r = state_get_dir(id, &found, &dir);

	return state_answer(r < 0 ? r : cgmembers_list(step_get_members(dir), members, n));
}

int proctrack_p_find_member(uint64_t id, pid_t pid, uint32_t *rank)
{
	_cleanup_free_ char *below = NULL;
	const struct place *place;
	uint64_t its_id = 0;
	int r = state_get_place(&place, NULL);

	if (r == 0)
		r = step_find_pid(place, pid, &its_id, &below);
	if (r == -ENOENT || (r == 0 && (its_id != id || id == 0)))
		r = -ESRCH;
	if (r == 0 && !step_parse_task(below, rank))
		*rank = STEPD_MEMBER_NO_RANK;
	return state_answer(r);
}

/* By the task's own group, whatever the step's is told: if that is frozen, the task's stands still
 * all the while. The kernel keeps what was sent until it goes on. A worker may be ended on the way:
 * the mark tells the next resumption. */
int proctrack_p_signal_task(uint64_t id, uint32_t rank, int signal)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	_cleanup_close_ int fd = -1;
	const struct step_dir *dir;
	struct container *c;
	int r;

	r = state_get_dir_for(signal, id, &found, &dir);
	if (r < 0)
		return state_answer(r);
	fd = step_find_task(dir, rank);
	if (fd < 0)
		return state_answer(fd);
	/* The task's group is cloned into by its launch alone, which is over: clone.h. */
	if (signal == SIGKILL)
		return state_answer(group_kill(fd));
	c = state_get_container(id);
	container_hold(c);
	r = group_signal(fd, signal);
	container_unhold(c);
	return state_answer(r);
}

/* The id alone is found anywhere. What the dead agent was about to do to a task's group is taken
 * back. The births that it made are over, and so a trial is not needed before one is asked for. */
int proctrack_p_adopt(stepd_step_rec_t *job, _unused_ const pid_t *pids, _unused_ int n)
{
	struct container *c;
	int r = state_take_container(job->cont_id, &c);

	if (r == 0 && !step_is_of(&c->dir, job)) {
		state_drop_container(job->cont_id); /* a later boot's, of another step */
		r = -ESRCH;
	}
	if (r == 0)
		r = cgmembers_thaw_tasks(step_get_members(&c->dir));
	return state_answer(r);
}
