/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/members.h"

#include <fcntl.h>

#include "proctrack/cgroup/files.h"
#include "proctrack/cgroup/group.h"
#include "proctrack/cgroup/pidset.h"
#include "proctrack/cgroup/step.h"
#include "proctrack/cgroup/tree.h"
#include "stepd/base/buffer.h"
#include "stepd/base/fs.h"

/* A walk over the step's groups, and what it has met. */
struct listing {
	stepd_member_t *v;
	size_t n, capacity;
	int depth;     /* of the group that the walk is in; 1 is the step's own */
	uint32_t rank; /* of the task's group that it is in or below */
	bool sorted;   /* by pid, each once, as the kernel gives them mostly */
};

static int add(struct listing *l, pid_t pid)
{
	if (array_reserve(l->v, l->capacity, l->n + 1) < 0)
		return -ENOMEM;
	l->sorted &= l->n == 0 || l->v[l->n - 1].pid < pid;
	l->v[l->n++] = (stepd_member_t){.pid = pid, .rank = l->rank};
	return 0;
}

static int before(_unused_ int parent_fd, const char *name, void *userdata)
{
	struct listing *l = userdata;

	if (l->depth == 1 && !step_parse_task(name, &l->rank))
		l->rank = STEPD_MEMBER_NO_RANK;
	return 0;
}

static int enter(int fd, void *userdata)
{
	_cleanup_pidset_ struct pidset set = PIDSET_INIT;
	struct listing *l = userdata;
	size_t i;
	int r = pidset_read_group(&set, fd);

	l->depth++;
	for (i = 0; r == 0 && i < set.n; i++)
		r = add(l, set.v[i]);
	return r;
}

static int leave(_unused_ int parent_fd, _unused_ const char *name, void *userdata)
{
	struct listing *l = userdata;

	l->depth--;
	return 0;
}

/* What was moved during the walk stands twice: with its task first, if it has one. */
static int by_pid_and_rank(const void *a, const void *b)
{
	const stepd_member_t *ma = a, *mb = b;

	if (ma->pid != mb->pid)
		return ma->pid > mb->pid ? 1 : -1;
	return (ma->rank > mb->rank) - (ma->rank < mb->rank);
}

static void sort_each_once(struct listing *l)
{
	size_t i, n = 0;

	qsort(l->v, l->n, sizeof(*l->v), by_pid_and_rank);
	for (i = 0; i < l->n; i++) {
		if (n == 0 || l->v[n - 1].pid != l->v[i].pid)
			l->v[n++] = l->v[i];
	}
	l->n = n;
}

int cgmembers_list(int fd, stepd_member_t **ret_members, int *ret_count)
{
	static const struct tree_ops ops = {.before = before, .enter = enter, .leave = leave};
	struct listing l = {.rank = STEPD_MEMBER_NO_RANK, .sorted = true};
	struct group_events events;
	int r = tree_walk(fd, &ops, &l);

	if (r == 0 && l.n == 0)
		r = group_get_events(fd, &events); /* -ESRCH: that is why */
	if (r < 0) {
		free(l.v);
		return r;
	}
	if (!l.sorted)
		sort_each_once(&l);
	*ret_members = l.v;
	*ret_count = (int)l.n;
	return 0;
}

/* ---- thawing ------------------------------------------------------------------------------ */

static int thaw_task(int parent_fd, const char *name, _unused_ void *userdata)
{
	_cleanup_close_ int fd = -1;
	uint32_t rank;
	int r;

	if (!step_parse_task(name, &rank))
		return 1;
	fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = fd < 0 ? cgfile_gone(-errno) : group_resume_left(fd);
	return r < 0 && r != -ESRCH ? r : 1; /* what is below it is passed over */
}

int cgmembers_thaw_tasks(int fd)
{
	static const struct tree_ops ops = {.before = thaw_task};

	return tree_walk(fd, &ops, NULL);
}
