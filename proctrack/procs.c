/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/procs.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>

#include "stepd/base/buffer.h"
#include "stepd/base/fs.h"
#include "stepd/base/proc.h"

#define NAMES_BYTES 256 /* of /proc that are read at a time */

/* Enough for a set that comes to an end; a chain of forks that outlives the signal never does. */
#define PASSES_MAX 64

int procs_compare_pids(const void *a, const void *b)
{
	const pid_t pa = *(const pid_t *)a, pb = *(const pid_t *)b;

	return (pa > pb) - (pa < pb);
}

/* The pid that a name in /proc stands for, or 0. */
static pid_t pid_of_name(const char *name)
{
	char *end;
	long n;

	if (!isdigit((unsigned char)name[0]))
		return 0;
	errno = 0;
	n = strtol(name, &end, 10);
	return *end || errno || n > INT_MAX ? 0 : (pid_t)n;
}

struct reading {
	int proc_fd;
	struct procs procs;
	size_t capacity;
};

static void reading_clear(struct reading *reading)
{
	reading->proc_fd = close_fd(reading->proc_fd);
	procs_clear(&reading->procs);
}

static int read_proc(struct reading *reading, pid_t pid)
{
	struct procs *procs = &reading->procs;
	struct procstat st;
	int r = procstat_read_at(reading->proc_fd, pid, &st);

	if (r == -ESRCH || r == -EACCES || r == -EPERM)
		return 0; /* ended meanwhile, or hidden from us (hidepid) and not ours */
	if (r < 0)
		return r;
	if (array_reserve(procs->v, reading->capacity, procs->n + 1) < 0)
		return -ENOMEM;
	procs->v[procs->n++] = (struct proc){
		.pid = st.pid,
		.ppid = st.ppid,
		.pgrp = st.pgrp,
		.living = procstat_is_living(&st),
		.start_ticks = st.start_ticks,
	};
	return 0;
}

static int read_named(const char *name, _unused_ uint8_t type, void *userdata)
{
	pid_t pid = pid_of_name(name);

	return pid > 0 ? read_proc(userdata, pid) : 0;
}

static void reading_finish(struct reading *reading, struct procs *ret_procs)
{
	/* the kernel lists them in this order already, and promises nothing */
	if (reading->procs.n > 1)
		qsort(reading->procs.v, reading->procs.n, sizeof(*reading->procs.v),
			procs_compare_pids);
	*ret_procs = take_struct(reading->procs);
}

int procs_read(struct procs *ret_procs)
{
	_cleanup_(reading_clear) struct reading reading = {
		.proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
	int r;

	/* By a few names at a time: between a name and its read the process must not have the time
	 * to fork and end. The kernel goes up by pid, as forks do, and so runs after them. */
	r = reading.proc_fd < 0 ? -errno
				: dirnames_each(reading.proc_fd, NAMES_BYTES, read_named, &reading);
	if (r == 0)
		reading_finish(&reading, ret_procs);
	return r;
}

int procs_read_some(const pid_t *pids, size_t n, struct procs *ret_procs)
{
	_cleanup_(reading_clear) struct reading reading = {
		.proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC)};
	int r = reading.proc_fd < 0 ? -errno : 0;
	size_t i;

	for (i = 0; r == 0 && i < n; i++)
		r = read_proc(&reading, pids[i]);
	if (r == 0)
		reading_finish(&reading, ret_procs);
	return r;
}

struct proc *procs_get(const struct procs *procs, pid_t pid)
{
	const struct proc key = {.pid = pid};

	if (procs->n == 0)
		return NULL;
	return bsearch(&key, procs->v, procs->n, sizeof(key), procs_compare_pids);
}

void procs_clear(struct procs *procs)
{
	free(procs->v);
	*procs = (struct procs){0};
}

static bool is_living_member(const struct proc *p)
{
	return p->member && p->living;
}

/* The mark of members in the whole process table. */
struct marker {
	procs_mark_fn mark;
	void *userdata;
};

/* A procs_fill_fn. */
static int read_marked(struct procs *ret_procs, void *userdata)
{
	const struct marker *marker = userdata;
	_cleanup_procs_ struct procs procs = {0};
	int r = procs_read(&procs);

	if (r == 0)
		r = marker->mark(&procs, marker->userdata);
	if (r < 0)
		return r;
	*ret_procs = take_struct(procs);
	return 0;
}

int procs_list(procs_mark_fn mark, void *userdata, pid_t **ret_pids, int *ret_count)
{
	struct marker marker = {mark, userdata};
	_cleanup_procs_ struct procs procs = {0};
	_cleanup_free_ pid_t *pids = NULL;
	size_t i;
	int n = 0, r = read_marked(&procs, &marker);

	if (r < 0)
		return r;
	pids = calloc(procs.n + 1, sizeof(*pids));
	if (!pids)
		return -ENOMEM;
	for (i = 0; i < procs.n; i++) {
		if (is_living_member(&procs.v[i]))
			pids[n++] = procs.v[i].pid;
	}
	*ret_pids = n > 0 ? take_ptr(pids) : NULL;
	*ret_count = n;
	return 0;
}

/* The state of procs_signal() over its passes. */
struct sweep {
	struct procs before; /* all of the last pass; member: it was sent the signal */
	size_t met;          /* living members met in all passes */
	size_t sent;
	size_t forbidden;
	int failed; /* -errno of a send that failed otherwise, but for the process's end */
};

static bool was_sent(const struct sweep *sweep, const struct proc *p)
{
	const struct proc *old = procs_get(&sweep->before, p->pid);

	return old && old->start_ticks == p->start_ticks && old->member;
}

static void sweep_clear(struct sweep *sweep)
{
	procs_clear(&sweep->before);
}

static void send_to(struct sweep *sweep, const struct proc *p, int signal)
{
	int r;

	sweep->met++;
	r = pidref_signal_pid(p->pid, p->start_ticks, signal);
	if (r == 0)
		sweep->sent++;
	else if (r == -EPERM)
		sweep->forbidden++;
	else if (r != -ESRCH)
		sweep->failed = r;
}

/* One pass. Returns the number of members that no earlier pass had met, or -errno. */
static int sweep_pass(struct sweep *sweep, procs_fill_fn fill, void *userdata, int signal)
{
	_cleanup_procs_ struct procs now = {0};
	bool done;
	size_t i;
	int r, fresh = 0;

	r = fill(&now, userdata);
	if (r < 0)
		return r;
	for (i = 0; i < now.n; i++) {
		done = was_sent(sweep, &now.v[i]);
		if (!done && is_living_member(&now.v[i])) {
			send_to(sweep, &now.v[i], signal);
			done = true;
			fresh++;
		}
		now.v[i].member = done;
	}
	procs_clear(&sweep->before);
	sweep->before = take_struct(now);
	return fresh;
}

/* Whether there is a living member: what signal 0 tests. */
static int probe_members(procs_fill_fn fill, void *userdata)
{
	_cleanup_procs_ struct procs procs = {0};
	int r = fill(&procs, userdata);
	size_t i;

	if (r < 0)
		return r;
	for (i = 0; i < procs.n; i++) {
		if (is_living_member(&procs.v[i]))
			return 0;
	}
	return -ESRCH;
}

int procs_signal_filled(procs_fill_fn fill, void *userdata, int signal)
{
	_cleanup_(sweep_clear) struct sweep sweep = {0};
	int pass, r;

	if (signal < 0 || signal > SIGRTMAX)
		return -EINVAL;
	if (signal == 0)
		return probe_members(fill, userdata);
	for (pass = 0; pass < PASSES_MAX; pass++) {
		r = sweep_pass(&sweep, fill, userdata, signal);
		if (r < 0)
			return r;
		if (r == 0)
			break;
	}
	if (sweep.met == 0)
		return -ESRCH;
	if (sweep.failed)
		return sweep.failed;
	return sweep.sent == 0 && sweep.forbidden > 0 ? -EPERM : 0;
}

int procs_signal(procs_mark_fn mark, void *userdata, int signal)
{
	struct marker marker = {mark, userdata};

	return procs_signal_filled(read_marked, &marker, signal);
}
