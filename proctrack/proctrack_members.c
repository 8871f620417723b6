/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Members by task: asked of the backend first, and of the line of parents for what it does not
 * tell.
 */
#include "proctrack/proctrack_impl.h"

#include "proctrack/members.h"
#include "stepd/base/pidref.h"
#include "stepd/base/procstat.h"

struct asked {
	struct proctrack *pt;
	const stepd_step_task_info_t *tasks;
	size_t n_tasks;
};

static int list_plain(
	struct proctrack *pt, uint64_t id, stepd_member_t **ret_members, int *ret_count)
{
	_cleanup_free_ stepd_member_t *members = NULL;
	_cleanup_free_ pid_t *pids = NULL;
	int n = 0, i, r = proctrack_get_pids(pt, id, &pids, &n);

	if (r < 0)
		return r;
	members = calloc((size_t)n + 1, sizeof(*members));
	if (!members)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		members[i] = (stepd_member_t){.pid = pids[i], .rank = STEPD_MEMBER_NO_RANK};
	*ret_members = take_ptr(members);
	*ret_count = n;
	return 0;
}

/* As the backend tells them, with ranks of the step's tasks only: for struct members_target. */
static int list_told(void *ctx, uint64_t id, stepd_member_t **ret_members, int *ret_count)
{
	const struct asked *asked = ctx;
	_cleanup_free_ stepd_member_t *members = NULL;
	int n = 0, r;

	if (!asked->pt->ops.get_members)
		return list_plain(asked->pt, id, ret_members, ret_count);
	errno = 0;
	r = proctrack_from_slurm(asked->pt->ops.get_members(id, &members, &n));
	if (r == 0)
		r = members_check_ranks(members, n, asked->tasks, asked->n_tasks);
	if (r < 0)
		return r;
	*ret_members = take_ptr(members);
	*ret_count = n;
	return 0;
}

int proctrack_get_members(struct proctrack *pt, uint64_t id, const stepd_step_task_info_t *tasks,
	size_t n_tasks, stepd_member_t **ret_members, int *ret_count)
{
	struct asked asked = {pt, tasks, n_tasks};
	_cleanup_free_ struct member_seed *seeds = NULL;
	_cleanup_free_ stepd_member_t *members = NULL;
	size_t n_seeds = 0;
	int n = 0, r;

	r = list_told(&asked, id, &members, &n);
	if (r == 0)
		r = members_get_leaders(tasks, n_tasks, &seeds, &n_seeds);
	if (r == 0)
		r = members_rank(members, n, seeds, n_seeds);
	if (r < 0)
		return r;
	*ret_members = take_ptr(members);
	*ret_count = n;
	return 0;
}

/* Whether it is a member; a zombie is none. Where find knows of none and may be wrong, because
 * another process made the container, the list is asked. */
static int check_member(struct proctrack *pt, uint64_t id, pid_t pid, uint32_t *ret_rank)
{
	struct procstat st;
	uint64_t found;
	int r;

	*ret_rank = STEPD_MEMBER_NO_RANK;
	if (id == 0 || pid <= 0)
		return -ESRCH;
	errno = 0;
	if (pt->ops.find_member) {
		r = proctrack_from_slurm(pt->ops.find_member(id, pid, ret_rank));
	} else {
		found = proctrack_find(pt, pid);
		r = found == id || (!found && pt->own_id != id && proctrack_has_pid(pt, id, pid))
			? 0
			: -ESRCH;
	}
	if (r == 0)
		r = procstat_read(pid, &st);
	return r == 0 && !procstat_is_living(&st) ? -ESRCH : r;
}

int proctrack_find_member(struct proctrack *pt, uint64_t id, const stepd_step_task_info_t *tasks,
	size_t n_tasks, pid_t pid, uint32_t *ret_rank)
{
	_cleanup_free_ struct member_seed *seeds = NULL;
	stepd_member_t member = {.pid = pid};
	size_t n_seeds = 0;
	int r = check_member(pt, id, pid, &member.rank);

	if (r == 0 && member.rank != STEPD_MEMBER_NO_RANK)
		r = members_check_ranks(&member, 1, tasks, n_tasks);
	if (r == 0 && member.rank == STEPD_MEMBER_NO_RANK) {
		r = members_get_leaders(tasks, n_tasks, &seeds, &n_seeds);
		if (r == 0)
			r = members_rank(&member, 1, seeds, n_seeds);
	}
	if (r == 0)
		*ret_rank = member.rank;
	return r;
}

/* ---- signals ------------------------------------------------------------------------------ */

/* What the backend signals as the task's, and what descends from it and is elsewhere in the
 * container. Those are found before the signal breaks their lines. */
static int signal_told(
	struct members_target *target, struct proctrack *pt, uint32_t rank, int signal)
{
	int elsewhere, told, r = 0;

	target->unranked_only = true;
	elsewhere = members_find(target);
	errno = 0;
	told = proctrack_from_slurm(pt->ops.signal_task(target->id, rank, signal));
	if (elsewhere < 0)
		return told < 0 && told != -ESRCH ? told : elsewhere;
	if (elsewhere == 0)
		return told;
	r = members_signal(target, signal);
	if (told < 0 && told != -ESRCH)
		return told;
	return told == 0 && r == -ESRCH ? 0 : r;
}

int proctrack_signal_task(struct proctrack *pt, uint64_t id, const stepd_step_task_info_t *tasks,
	size_t n_tasks, uint32_t rank, int signal)
{
	struct asked asked = {pt, tasks, n_tasks};
	_cleanup_members_target_ struct members_target target = {
		.list = list_told, .ctx = &asked, .id = id, .rank = rank};
	int r;

	if (rank == STEPD_MEMBER_NO_RANK)
		return -ESRCH;
	r = members_get_leaders(tasks, n_tasks, &target.seed, &target.n_seeds);
	if (r < 0)
		return r;
	target.seed_capacity = target.n_seeds;
	return pt->ops.signal_task ? signal_told(&target, pt, rank, signal)
				   : members_signal(&target, signal);
}

/* The pidfd is open before the look at the membership: what is signalled is the member. */
static int signal_one(
	struct proctrack *pt, uint64_t id, pid_t pid, uint64_t start_ticks, int signal)
{
	_cleanup_pidref_ struct pidref ref = PIDREF_INIT;
	uint32_t rank;
	int r = pidref_open(pid, start_ticks, &ref);

	if (r == 0)
		r = check_member(pt, id, pid, &rank);
	return r == 0 ? pidref_signal(&ref, signal) : r;
}

static int signal_tree(
	struct proctrack *pt, uint64_t id, pid_t pid, uint64_t start_ticks, int signal)
{
	struct asked asked = {.pt = pt};
	_cleanup_members_target_ struct members_target target = {.list = list_told,
		.ctx = &asked,
		.id = id,
		.seed = calloc(1, sizeof(*target.seed)),
		.descendants_only = true};

	if (!target.seed)
		return -ENOMEM;
	target.n_seeds = target.seed_capacity = 1;
	target.seed[0] = (struct member_seed){.pid = pid, .start_ticks = start_ticks};
	return members_signal(&target, signal);
}

int proctrack_signal_member(
	struct proctrack *pt, uint64_t id, pid_t pid, uint64_t start_ticks, bool tree, int signal)
{
	struct procstat st;
	uint32_t rank;
	int r;

	if (!tree)
		return signal_one(pt, id, pid, start_ticks, signal);
	r = check_member(pt, id, pid, &rank);
	if (r == 0)
		r = procstat_read(pid, &st);
	if (r == 0 && start_ticks && st.start_ticks != start_ticks)
		r = -ESRCH;
	return r == 0 ? signal_tree(pt, id, pid, st.start_ticks, signal) : r;
}
