/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proctrack/linuxproc: the container is what descends from the agent, its id the agent's pid.
 *
 * The agent is a child subreaper, so that every orphan among its descendants becomes its child
 * again, whatever sessions and groups it went through. Members are all living descendants but the
 * agent itself and those of its children that the step record has as none of the step's; and each
 * process given to proctrack_p_add(), known by pid and start time, with its descendants.
 *
 * Limits: processes that a daemon outside starts on a member's behalf are none. When the agent
 * dies its children go to another reaper, and the container is gone. An agent that takes the step
 * over adds all that are known to live by then. The orphans of what was added don't come to the
 * agent: from the first one on the members that each pass sees are added, too, and what no pass has
 * seen before its parent ended is lost. A pass over /proc is no snapshot: a process that forks and
 * exits faster than the passes outruns a signal. From another process than the agent the id is no
 * more than a pid: what was added, and which process serves MPI, is not known there, and whether
 * the pid still is an agent's the caller has to know.
 */
#include <limits.h>
#include <string.h>

#include "proctrack/procs.h"
#include "proctrack/reporter.h"
#include "stepd/api/proctrack.h"
#include "stepd/base/buffer.h"
#include "stepd/base/proc.h"

const char plugin_type[] = "proctrack/linuxproc";
const char plugin_name[] = "Process tracking by descent from the agent";
const uint32_t plugin_version = STEPD_API_VERSION;

/* How often what changed under the reader is read again before it is given up. */
#define TRIES_MAX 8

/* Ascending by pid; a pid may stand twice, of a process that has ended and a later one. */
struct added {
	pid_t pid;
	uint64_t start_ticks;
};

/* This process's container; the ABI has no argument for a handle. */
static struct {
	const stepd_step_rec_t *job; /* NULL: none. The agent's, valid until destroy */
	uint64_t id;
	struct added *added;
	size_t n_added, added_capacity;
	bool remembers; /* what members leave behind need not become this process's child */
} own;

static int to_slurm(int r)
{
	if (r >= 0)
		return SLURM_SUCCESS;
	errno = -r;
	return SLURM_ERROR;
}

static bool is_own(uint64_t id)
{
	return own.job && id == own.id;
}

static int compare_added(const void *a, const void *b)
{
	const struct added *x = a, *y = b;
	int r = procs_compare_pids(a, b);

	return r ? r : (x->start_ticks > y->start_ticks) - (x->start_ticks < y->start_ticks);
}

static bool is_added(pid_t pid, uint64_t start_ticks)
{
	const struct added key = {pid, start_ticks};

	return own.n_added > 0 && bsearch(&key, own.added, own.n_added, sizeof(key), compare_added);
}

static int remember(pid_t pid, uint64_t start_ticks)
{
	if (is_added(pid, start_ticks))
		return 0;
	if (array_reserve(own.added, own.added_capacity, own.n_added + 1) < 0)
		return -ENOMEM;
	own.added[own.n_added++] = (struct added){pid, start_ticks};
	qsort(own.added, own.n_added, sizeof(*own.added), compare_added);
	return 0;
}

/* ---- descent ------------------------------------------------------------------------------ */

enum membership {
	MEMBERSHIP_NONE,
	MEMBERSHIP_PENDING, /* on the path that is being walked */
	MEMBERSHIP_OUT,
	MEMBERSHIP_ROOT, /* no member, but its children are */
	MEMBERSHIP_IN,
};

/* The parent of p in the list, or NULL. Where the list contradicts itself, because a parent died
 * while it was made, p is read again: the kernel has given it a living parent meanwhile. */
static struct proc *find_parent(const struct procs *procs, struct proc *p)
{
	struct proc *parent;
	struct procstat st;
	int try;

	for (try = 0; try < TRIES_MAX && p->ppid > 0; try++) {
		parent = procs_get(procs, p->ppid);
		if (parent && parent->living && parent->start_ticks <= p->start_ticks)
			return parent;
		if (procstat_read(p->pid, &st) < 0 || st.start_ticks != p->start_ticks)
			break;
		if (st.ppid == p->ppid)
			return parent; /* a parent that has just been forked, or is ending */
		p->ppid = st.ppid;
	}
	return NULL;
}

/* Walks up from p to the first process that is known to be one or not, and gives it to all on the
 * way. */
static void judge(const struct procs *procs, enum membership *membership, struct proc *p)
{
	struct proc *at = p;
	enum membership v;
	size_t i;

	while (at && membership[at - procs->v] == MEMBERSHIP_NONE) {
		membership[at - procs->v] = MEMBERSHIP_PENDING;
		at = find_parent(procs, at);
	}
	v = at ? membership[at - procs->v] : MEMBERSHIP_OUT;
	if (v == MEMBERSHIP_ROOT)
		v = MEMBERSHIP_IN;
	if (v == MEMBERSHIP_PENDING)
		v = MEMBERSHIP_OUT; /* a circle, of processes that all came and went */
	for (at = p; at; at = procs_get(procs, at->ppid)) {
		i = (size_t)(at - procs->v);
		if (membership[i] != MEMBERSHIP_PENDING)
			break;
		membership[i] = v;
	}
}

static void set_membership(
	const struct procs *procs, enum membership *membership, pid_t pid, enum membership v)
{
	const struct proc *p = procs_get(procs, pid);

	if (p)
		membership[p - procs->v] = v;
}

/* Exactly those that are there now: what has ended is forgotten. */
static int remember_members(const struct procs *procs)
{
	size_t i;

	if (array_reserve(own.added, own.added_capacity, procs->n) < 0)
		return -ENOMEM;
	own.n_added = 0;
	for (i = 0; i < procs->n; i++) {
		if (procs->v[i].member && procs->v[i].living)
			own.added[own.n_added++] =
				(struct added){procs->v[i].pid, procs->v[i].start_ticks};
	}
	return 0;
}

static int mark_members(struct procs *procs, void *userdata)
{
	uint64_t id = *(const uint64_t *)userdata;
	const struct proc *root = procs_get(procs, (pid_t)id);
	_cleanup_free_ enum membership *membership = NULL;
	size_t i;

	if (!root || !root->living)
		return -ESRCH;
	membership = calloc(procs->n, sizeof(*membership));
	if (!membership)
		return -ENOMEM;
	for (i = 0; is_own(id) && i < procs->n; i++) {
		if (is_added(procs->v[i].pid, procs->v[i].start_ticks))
			membership[i] = MEMBERSHIP_IN;
	}
	if (is_own(id)) {
		set_membership(procs, membership, own.job->service_pid, MEMBERSHIP_OUT);
		set_membership(procs, membership, own.job->worker_pid, MEMBERSHIP_OUT);
		set_membership(procs, membership, own.job->holder_pid, MEMBERSHIP_OUT);
	}
	set_membership(procs, membership, (pid_t)id, MEMBERSHIP_ROOT);
	for (i = 0; i < procs->n; i++) {
		judge(procs, membership, &procs->v[i]);
		procs->v[i].member = membership[i] == MEMBERSHIP_IN;
	}
	return is_own(id) && own.remembers ? remember_members(procs) : 0;
}

/* Whether id can be queried: a pid, and if it is this process's then one with a container. */
static int check_id(uint64_t id)
{
	if (id == 0 || id > INT_MAX || (id == (uint64_t)getpid() && !is_own(id)))
		return -ESRCH;
	return 0;
}

/* Its children that are none of the step's. */
static bool is_agents(pid_t pid)
{
	return pid == own.job->service_pid || pid == own.job->worker_pid ||
		pid == own.job->holder_pid;
}

/* One way up from pid. 1: a member; 0: none; -EAGAIN: a process on the way ended; else -errno. */
static int walk_up(pid_t pid)
{
	pid_t at = pid;
	struct procstat st;
	int r;

	while (at > 0 && at != (pid_t)own.id && !is_agents(at)) {
		r = procstat_read(at, &st);
		if (r < 0)
			return r == -ESRCH && at != pid ? -EAGAIN : r;
		if (st.ppid == (pid_t)own.id || is_added(at, st.start_ticks))
			return 1;
		at = st.ppid;
	}
	return 0;
}

static int is_member(pid_t pid)
{
	int try, r = -EAGAIN;

	for (try = 0; try < TRIES_MAX && r == -EAGAIN; try++)
		r = walk_up(pid);
	return r;
}

/* ---- the plugin --------------------------------------------------------------------------- */

STEPD_EXPORT int proctrack_p_create(stepd_step_rec_t *job)
{
	if (own.job)
		return to_slurm(-EEXIST);
	own.job = job;
	own.id = (uint64_t)getpid();
	job->cont_id = own.id;
	return SLURM_SUCCESS;
}

/* Whether pid is the agent or one of its ancestors, whose descendants are not the step's. */
static int check_addable(pid_t pid)
{
	pid_t at = (pid_t)own.id;
	struct procstat st;
	int r;

	if (is_agents(pid))
		return -EINVAL;
	while (at > 0) {
		if (at == pid)
			return -EINVAL;
		r = procstat_read(at, &st);
		/* Hidden from us (hidepid): of another user, and so is pid if it is one of those
		 * above; its own status could not have been read then. */
		if (r == -ESRCH || r == -EACCES || r == -EPERM)
			return 0;
		if (r < 0)
			return r;
		at = st.ppid;
	}
	return 0;
}

/* Forgets those that have ended. */
static void prune_added(void)
{
	struct procstat st;
	size_t i, n_left = 0;

	for (i = 0; i < own.n_added; i++) {
		if (procstat_read(own.added[i].pid, &st) == 0 && procstat_is_living(&st) &&
			st.start_ticks == own.added[i].start_ticks)
			own.added[n_left++] = own.added[i];
	}
	own.n_added = n_left;
}

STEPD_EXPORT int proctrack_p_add(stepd_step_rec_t *job, pid_t pid)
{
	struct procstat st;
	int r;

	if (!is_own(job->cont_id) || pid <= 0)
		return to_slurm(-ESRCH);
	r = procstat_read(pid, &st);
	if (r == 0 && !procstat_is_living(&st))
		r = -ESRCH;
	if (r == 0)
		r = check_addable(pid);
	/* The agent's children are members by birth. */
	if (r == 0 && st.ppid != (pid_t)own.id) {
		prune_added();
		r = remember(pid, st.start_ticks);
		own.remembers = own.remembers || r == 0;
	}
	return to_slurm(r);
}

STEPD_EXPORT int proctrack_p_spans_sessions(void)
{
	return true;
}

/* The dead agent's pid means nothing any more: the container has this process's from now on. */
STEPD_EXPORT int proctrack_p_adopt(stepd_step_rec_t *job, const pid_t *pids, int n)
{
	uint64_t before = job->cont_id;
	int i, r = proctrack_p_create(job);

	if (r != SLURM_SUCCESS)
		return r;
	/* A program that an agent has executed is the reaper still, of what is below it;
	 * that agent may have adopted the others. */
	own.remembers = before != own.id;
	for (i = 0; i < n && r == SLURM_SUCCESS; i++) {
		own.remembers = own.remembers || is_member(pids[i]) == 0;
		r = proctrack_p_add(job, pids[i]);
		if (r != SLURM_SUCCESS && errno == ESRCH)
			r = SLURM_SUCCESS; /* it has ended since */
	}
	if (r == SLURM_SUCCESS)
		return r;
	i = errno;
	(void)proctrack_p_destroy(own.id); /* there is one: it can't fail */
	job->cont_id = before;
	return to_slurm(-i);
}

STEPD_EXPORT int proctrack_p_signal(uint64_t id, int signal)
{
	int r = check_id(id);

	return to_slurm(r < 0 ? r : procs_signal(mark_members, &id, signal));
}

STEPD_EXPORT int proctrack_p_destroy(uint64_t id)
{
	if (!is_own(id))
		return to_slurm(-ESRCH);
	free(own.added);
	own.added = NULL;
	own.n_added = own.added_capacity = 0;
	own.remembers = false;
	own.job = NULL;
	own.id = 0;
	return SLURM_SUCCESS;
}

STEPD_EXPORT uint64_t proctrack_p_find(pid_t pid)
{
	int r = own.job ? is_member(pid) : -ESRCH;

	if (r > 0)
		return own.id;
	errno = r < 0 ? -r : ESRCH;
	return 0;
}

STEPD_EXPORT uint32_t proctrack_p_get_pids(uint64_t cont_id, pid_t **pids, int *npids)
{
	int r = check_id(cont_id);

	return (uint32_t)to_slurm(r < 0 ? r : procs_list(mark_members, &cont_id, pids, npids));
}

STEPD_EXPORT int init(void)
{
	return SLURM_SUCCESS;
}

STEPD_EXPORT void fini(void)
{
	if (own.job)
		(void)proctrack_p_destroy(own.id); /* there is one: it can't fail */
}

#define HIDDEN "not all processes can be seen in /proc (mounted, and without hidepid?)"
#define HOLDS                                                                                      \
	"descent from the agent, daemons too while the agent lives; what forks and exits quickly " \
	"can outrun a signal"

STEPD_EXPORT int plugin_probe(char *text, size_t size)
{
	struct procstat st;
	int r = procstat_read(1, &st);

	if (r == 0)
		(void)snprintf(text, size, HOLDS);
	else
		(void)snprintf(text, size, HIDDEN ": %s", strerror(-r));
	return r == 0 ? SLURM_SUCCESS : SLURM_ERROR;
}

STEPD_EXPORT int plugin_checkup(stepd_tell_fn fn, void *ctx)
{
	const struct reporter reporter = {fn, ctx};
	struct procstat st;
	int r = procstat_read(1, &st);

	if (r == 0)
		reporter_add(&reporter, STEPD_FINDING_OK, "linuxproc.proc", NULL, NULL,
			"all processes can be seen in /proc");
	else
		reporter_add(&reporter, STEPD_FINDING_PROBLEM, "linuxproc.proc", NULL,
			"mount /proc without hidepid, or with gid= of a group that the agent has",
			HIDDEN ": %s", strerror(-r));
	reporter_add(&reporter, STEPD_FINDING_NOTE, "linuxproc.holds", NULL, NULL, "holds " HOLDS);
	return SLURM_SUCCESS;
}
