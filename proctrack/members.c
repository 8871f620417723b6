/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/members.h"

#include <fcntl.h>

#include "proctrack/procs.h"
#include "stepd/base/buffer.h"
#include "stepd/base/proc.h"

/* How often a line that changed under the reader is read again before it is given up. */
#define TRIES_MAX 8

static int by_number(const void *a, const void *b)
{
	uint32_t na = *(const uint32_t *)a, nb = *(const uint32_t *)b;

	return (na > nb) - (na < nb);
}

int members_get_leaders(const stepd_step_task_info_t *tasks, size_t n_tasks,
	struct member_seed **ret_seeds, size_t *ret_count)
{
	struct member_seed *seeds = calloc(n_tasks + 1, sizeof(*seeds));
	size_t i, n = 0;

	if (!seeds)
		return -ENOMEM;
	for (i = 0; i < n_tasks; i++) {
		if (tasks[i].pid > 0)
			seeds[n++] =
				(struct member_seed){.pid = tasks[i].pid, .rank = tasks[i].gtid};
	}
	*ret_seeds = seeds;
	*ret_count = n;
	return 0;
}

int members_check_ranks(
	stepd_member_t *members, int n, const stepd_step_task_info_t *tasks, size_t n_tasks)
{
	_cleanup_free_ uint32_t *ranks = calloc(n_tasks + 1, sizeof(*ranks));
	uint32_t last = STEPD_MEMBER_NO_RANK; /* members come task by task, mostly */
	size_t k;
	int i;

	if (!ranks)
		return -ENOMEM;
	for (k = 0; k < n_tasks; k++)
		ranks[k] = tasks[k].gtid;
	qsort(ranks, n_tasks, sizeof(*ranks), by_number);
	for (i = 0; i < n; i++) {
		if (members[i].rank == last)
			continue;
		if (bsearch(&members[i].rank, ranks, n_tasks, sizeof(*ranks), by_number))
			last = members[i].rank;
		else
			members[i].rank = STEPD_MEMBER_NO_RANK;
	}
	return 0;
}

/* ---- lines of parents --------------------------------------------------------------------- */

/* All members, and which of those without a rank have been judged. */
struct lines {
	stepd_member_t *members;
	int n;
	bool *judged; /* or on the line that is being walked */
	int *path;    /* indices of the members on that line */
	int depth;
	const struct member_seed *seeds;
	size_t n_seeds;
	int proc_fd;
};

static void lines_clear(struct lines *l)
{
	free(l->judged);
	free(l->path);
	l->proc_fd = close_fd(l->proc_fd);
}

static int lines_init(struct lines *l)
{
	l->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (l->proc_fd < 0)
		return -errno;
	l->judged = calloc((size_t)l->n + 1, sizeof(*l->judged));
	l->path = calloc((size_t)l->n + 1, sizeof(*l->path));
	return l->judged && l->path ? 0 : -ENOMEM;
}

static bool is_seed(const struct lines *l, const struct procstat *st, uint32_t *ret_rank)
{
	const struct member_seed key = {.pid = st->pid};
	const struct member_seed *seed;

	seed = bsearch(&key, l->seeds, l->n_seeds, sizeof(key), procs_compare_pids);
	if (!seed || (seed->start_ticks && seed->start_ticks != st->start_ticks))
		return false;
	*ret_rank = seed->rank;
	return true;
}

/* Whether the process settles the line: a seed, or a member that has been judged. One that has not
 * joins the line. */
static bool settles(struct lines *l, const struct procstat *st, uint32_t *ret_rank)
{
	const stepd_member_t key = {.pid = st->pid}, *m;
	int i;

	if (is_seed(l, st, ret_rank))
		return true;
	m = bsearch(&key, l->members, (size_t)l->n, sizeof(key), procs_compare_pids);
	if (!m)
		return false;
	i = (int)(m - l->members);
	if (m->rank != STEPD_MEMBER_NO_RANK || l->judged[i]) {
		*ret_rank = m->rank;
		return true;
	}
	l->judged[i] = true;
	l->path[l->depth++] = i;
	return false;
}

/* Goes up from pid. -EAGAIN: what stood on the line has ended. */
static int walk_up(struct lines *l, pid_t pid, uint32_t *ret_rank)
{
	uint64_t start_ticks = UINT64_MAX;
	struct procstat st;
	pid_t at = pid;
	int r;

	/* Above the agent there is no task, and above init nothing. */
	while (at > 1 && at != getpid()) {
		r = procstat_read_at(l->proc_fd, at, &st);
		if (r < 0 && at == pid)
			return r;
		if (r == -EACCES || r == -EPERM)
			break; /* hidden from us (hidepid): of another user */
		if (r == -ESRCH || (r == 0 && st.start_ticks > start_ticks))
			return -EAGAIN;
		if (r < 0)
			return r;
		if (settles(l, &st, ret_rank))
			return 0;
		start_ticks = st.start_ticks;
		at = st.ppid;
	}
	*ret_rank = STEPD_MEMBER_NO_RANK;
	return 0;
}

static int judge(struct lines *l, int i)
{
	uint32_t rank = STEPD_MEMBER_NO_RANK;
	int r = -EAGAIN, try;

	for (try = 0; try < TRIES_MAX && r == -EAGAIN; try++) {
		while (l->depth > 0)
			l->judged[l->path[--l->depth]] = false;
		r = walk_up(l, l->members[i].pid, &rank);
	}
	while (l->depth > 0)
		l->members[l->path[--l->depth]].rank = rank;
	if (r == 0)
		l->members[i].rank = rank; /* where it is a seed itself */
	l->judged[i] = true;
	/* It ended meanwhile, or its line never stood still: nobody's. */
	return r == -ESRCH || r == -EAGAIN || r == -EACCES || r == -EPERM ? 0 : r;
}

int members_rank(stepd_member_t *members, int n, struct member_seed *seeds, size_t n_seeds)
{
	_cleanup_(lines_clear) struct lines l = {
		.members = members, .n = n, .seeds = seeds, .n_seeds = n_seeds, .proc_fd = -1};
	int i, unranked = 0, ranked = 0, r;

	for (i = 0; i < n; i++) {
		unranked += members[i].rank == STEPD_MEMBER_NO_RANK;
		ranked += members[i].rank != STEPD_MEMBER_NO_RANK;
	}
	if (unranked == 0 || (n_seeds == 0 && ranked == 0))
		return 0;
	qsort(members, (size_t)n, sizeof(*members), procs_compare_pids);
	qsort(seeds, n_seeds, sizeof(*seeds), procs_compare_pids);
	r = lines_init(&l);
	for (i = 0; r == 0 && i < n; i++) {
		if (members[i].rank == STEPD_MEMBER_NO_RANK && !l.judged[i])
			r = judge(&l, i);
	}
	return r;
}

/* ---- signals to some ---------------------------------------------------------------------- */

void members_target_clear(struct members_target *target)
{
	free(target->seed);
	*target = (struct members_target){0};
}

/* Members that were seen before are in order; the new ones come behind. */
static int add_seed(struct members_target *target, size_t n_sorted, const struct proc *p)
{
	const struct member_seed seed = {
		.pid = p->pid, .start_ticks = p->start_ticks, .rank = target->rank};
	struct member_seed *known =
		bsearch(&seed, target->seed, n_sorted, sizeof(seed), procs_compare_pids);

	if (known) { /* the same, or one that has its pid now */
		*known = seed;
		return 0;
	}
	if (array_reserve(target->seed, target->seed_capacity, target->n_seeds + 1) < 0)
		return -ENOMEM;
	target->seed[target->n_seeds++] = seed;
	return 0;
}

static bool had_rank(const stepd_member_t *ranked, int n, pid_t pid)
{
	const stepd_member_t key = {.pid = pid}, *m;

	m = bsearch(&key, ranked, (size_t)n, sizeof(key), procs_compare_pids);
	return m && m->rank != STEPD_MEMBER_NO_RANK;
}

/* Puts the pids of those that are meant to the front of members and returns how many there are. */
static int pick(struct members_target *target, stepd_member_t *members, int n)
{
	_cleanup_free_ stepd_member_t *ranked = calloc((size_t)n + 1, sizeof(*ranked));
	int i, picked = 0, r;

	if (!ranked)
		return -ENOMEM;
	if (target->n_seeds > 0) /* for confirm(), too */
		qsort(target->seed, target->n_seeds, sizeof(*target->seed), procs_compare_pids);
	for (i = 0; i < n; i++) {
		ranked[i] = members[i];
		if (target->descendants_only)
			members[i].rank = STEPD_MEMBER_NO_RANK;
	}
	r = members_rank(members, n, target->seed, target->n_seeds);
	for (i = 0; r == 0 && i < n; i++) {
		if (members[i].rank == target->rank &&
			!(target->unranked_only && had_rank(ranked, n, members[i].pid)))
			members[picked++].pid = members[i].pid;
	}
	return r < 0 ? r : picked;
}

static int list(struct members_target *target, stepd_member_t **ret_members, int *ret_count)
{
	stepd_member_t *members = NULL;
	int n = 0, r = target->list(target->ctx, target->id, &members, &n);

	if (r == 0 && n > 0)
		qsort(members, (size_t)n, sizeof(*members), procs_compare_pids);
	*ret_members = members;
	*ret_count = n;
	return r;
}

/* Marks those of procs that are members still: what was read of them since the first list was then
 * of a member, or of one whose start time nobody has now. */
static int confirm(struct members_target *target, struct procs *procs)
{
	_cleanup_free_ stepd_member_t *members = NULL;
	size_t i, n_sorted = target->n_seeds;
	int n = 0, r = procs->n > 0 ? list(target, &members, &n) : 0;

	for (i = 0; r == 0 && i < procs->n; i++) {
		const stepd_member_t key = {.pid = procs->v[i].pid};

		procs->v[i].member = n > 0 &&
			bsearch(&key, members, (size_t)n, sizeof(key), procs_compare_pids) != NULL;
		if (procs->v[i].member && procs->v[i].living)
			r = add_seed(target, n_sorted, &procs->v[i]);
	}
	return r;
}

/* A procs_fill_fn: those that are meant now. */
static int fill(struct procs *ret_procs, void *userdata)
{
	struct members_target *target = userdata;
	_cleanup_procs_ struct procs procs = {0};
	_cleanup_free_ stepd_member_t *members = NULL;
	_cleanup_free_ pid_t *pids = NULL;
	int n = 0, i, r;

	r = list(target, &members, &n);
	if (r == 0)
		r = pick(target, members, n);
	if (r < 0)
		return r;
	n = r;
	pids = calloc((size_t)n + 1, sizeof(*pids));
	if (!pids)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		pids[i] = members[i].pid;
	r = procs_read_some(pids, (size_t)n, &procs);
	if (r == 0)
		r = confirm(target, &procs);
	if (r < 0)
		return r;
	*ret_procs = take_struct(procs);
	return 0;
}

int members_find(struct members_target *target)
{
	_cleanup_procs_ struct procs procs = {0};
	size_t i;
	int n = 0, r = fill(&procs, target);

	for (i = 0; r == 0 && i < procs.n; i++)
		n += procs.v[i].member && procs.v[i].living;
	return r < 0 ? r : n;
}

int members_signal(struct members_target *target, int signal)
{
	return procs_signal_filled(fill, target, signal);
}
