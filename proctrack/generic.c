/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/generic.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "proctrack/procs.h"
#include "proctrack/procusage.h"
#include "stepd/base/clock.h"
#include "stepd/base/proc.h"

/* Descriptors held at a time: far below the usual RLIMIT_NOFILE of 1024, the next ones follow
 * when these have ended. */
#define WATCH_MAX 128

/* No descriptor signals that a process left its group, or that a pid of the list was given away
 * before its pidfd was open: so the list is read again after this long at most. */
#define LIST_AGE_MS 500

/* How many of those that don't stand are named. */
#define NAMED_MAX 4

/* When timeout_ms from now is; never for < 0. */
static int64_t deadline_of(int timeout_ms)
{
	return timeout_ms < 0 ? INT64_MAX : clock_now_ms() + timeout_ms;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* The pidfds of some members. */
struct watch {
	struct pollfd v[WATCH_MAX];
	size_t n;
};

static void watch_clear(struct watch *watch)
{
	while (watch->n > 0)
		(void)close_fd(watch->v[--watch->n].fd);
}

#define _cleanup_watch_ _cleanup_(watch_clear)

/* Opens as many of pids as there are slots for. 0 also where all of them are gone. */
static int watch_open(struct watch *watch, const pid_t *pids, int n)
{
	struct pidref ref;
	int i, r;

	for (i = 0; i < n && watch->n < WATCH_MAX; i++) {
		r = pidref_open(pids[i], 0, &ref);
		if (r == -ESRCH)
			continue;
		if (r == -EMFILE && watch->n > 0)
			return 0; /* the rest when these have ended */
		if (r < 0)
			return r;
		watch->v[watch->n++] = (struct pollfd){.fd = ref.fd, .events = POLLIN};
	}
	return 0;
}

/* Waits until one of them has ended or until ms have passed, and closes those that have. */
static int watch_poll(struct watch *watch, int ms)
{
	size_t i, n_left = 0;

	if (poll(watch->v, watch->n, ms) < 0)
		return errno == EINTR ? 0 : -errno;
	for (i = 0; i < watch->n; i++) {
		if (watch->v[i].revents)
			(void)close_fd(watch->v[i].fd);
		else
			watch->v[n_left++] = watch->v[i];
	}
	watch->n = n_left;
	return 0;
}

/* Waits for the end of the first of pids, as many as can be watched. */
static int wait_for_some(const pid_t *pids, int n, int64_t deadline)
{
	_cleanup_watch_ struct watch watch = {0};
	int64_t until = least(deadline, clock_now_ms() + LIST_AGE_MS), left;
	int r = watch_open(&watch, pids, n);

	while (r == 0 && watch.n > 0) {
		left = until - clock_now_ms();
		if (left <= 0)
			break;
		r = watch_poll(&watch, (int)left);
	}
	return r;
}

int generic_wait(const struct generic_ops *ops, uint64_t id, int timeout_ms)
{
	int64_t deadline = deadline_of(timeout_ms);
	bool listed = false;
	int n, r;

	for (;;) {
		_cleanup_free_ pid_t *pids = NULL;

		n = 0;
		r = ops->get_pids(ops->ctx, id, &pids, &n);
		if (r == -ESRCH && listed)
			return 0;
		if (r < 0 || n == 0)
			return r;
		listed = true;
		if (clock_now_ms() >= deadline)
			return -ETIMEDOUT;
		r = wait_for_some(pids, n, deadline);
		if (r < 0)
			return r;
	}
}

bool generic_has_pid(const struct generic_ops *ops, uint64_t id, pid_t pid)
{
	_cleanup_free_ pid_t *pids = NULL;
	int n = 0, i;

	if (ops->get_pids(ops->ctx, id, &pids, &n) < 0)
		return false;
	for (i = 0; i < n && pids[i] != pid; i++)
		;
	return i < n;
}

/* The first thread below dir, /proc/PID/task, that is in none of states; 0: there is none. */
static pid_t find_thread(DIR *dir, const char *states)
{
	struct procstat st;
	struct dirent *de;
	pid_t tid;

	while ((de = readdir(dir))) {
		tid = (pid_t)strtol(de->d_name, NULL, 10);
		if (tid > 0 && procstat_read_at(dirfd(dir), tid, &st) == 0 &&
			!strchr(states, st.state))
			return tid;
	}
	return 0;
}

pid_t generic_find_moving(pid_t pid, const char *states)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct procstat st;
	char name[32];

	if (procstat_read(pid, &st) < 0)
		return 0;
	if (st.threads <= 1)
		return strchr(states, st.state) ? 0 : pid;
	(void)snprintf(name, sizeof(name), "/proc/%d/task", (int)pid);
	dir = opendir(name);
	if (dir)
		return find_thread(dir, states);
	return errno == ENOENT ? 0 : pid;
}

/* Moves those to the front of pids that are not, and returns how many they are. */
static int select_others(pid_t *pids, int n, const char *states)
{
	int i, n_left = 0;

	for (i = 0; i < n; i++) {
		if (generic_find_moving(pids[i], states))
			pids[n_left++] = pids[i];
	}
	return n_left;
}

/* Stopped, traced, ended. And, after a moment of patience, asleep in the kernel with the stop
 * pending: such a thread stops before it runs another instruction of its own, and may never wake
 * before the others are continued (the parent in vfork(2) of a stopped child). */
static const char *standing_states(int pause_ms)
{
	return pause_ms < 16 ? GENERIC_STOPPED_STATES : GENERIC_STOPPED_STATES "D";
}

static int stop_all(const struct generic_ops *ops, uint64_t id, int timeout_ms)
{
	int64_t deadline = clock_now_ms() + timeout_ms;
	int n, r, pause_ms = 1;

	for (;;) {
		_cleanup_watch_ struct watch watch = {0};
		_cleanup_free_ pid_t *pids = NULL;

		/* again in each pass: for processes forked, or continued by others, meanwhile;
		 * those that stand don't notice */
		n = 0;
		r = ops->signal(ops->ctx, id, SIGSTOP);
		if (r == 0)
			r = ops->get_pids(ops->ctx, id, &pids, &n);
		if (r < 0)
			return r;
		n = select_others(pids, n, standing_states(pause_ms));
		if (n == 0)
			return 0;
		if (clock_now_ms() >= deadline)
			return -ETIMEDOUT;
		/* Only a parent is notified of a stop, and the members' parents are others. What
		 * remains is to poll, after a pause that a member's end cuts short. */
		r = watch_open(&watch, pids, n);
		if (r == 0)
			r = watch_poll(&watch, pause_ms);
		if (r < 0)
			return r;
		pause_ms = (int)least(pause_ms * 2, 16);
	}
}

/* ---- processes stopped before ------------------------------------------------------------- */

struct generic_stopped *generic_stopped_new(void)
{
	/* Pages that are never written to are never there. */
	void *p = mmap(NULL, sizeof(struct generic_stopped), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

struct generic_stopped *generic_stopped_free(struct generic_stopped *stopped)
{
	if (stopped)
		(void)munmap(stopped, sizeof(*stopped)); /* what mmap() gave: can't fail */
	return NULL;
}

/* In the state that SIGSTOP and its like put a process in, and SIGCONT takes it out of. Traced ones
 * are not: their tracer continues them. Where the first thread has ended the others count. */
static bool is_stopped(const struct procstat *st)
{
	if (st->state != 'Z' || !procstat_is_living(st))
		return st->state == 'T';
	return generic_find_moving(st->pid, "TZXx") == 0;
}

static int remember_stopped(
	const struct generic_ops *ops, uint64_t id, struct generic_stopped *stopped)
{
	_cleanup_free_ pid_t *pids = NULL;
	struct procstat st;
	int n = 0, i, r = ops->get_pids(ops->ctx, id, &pids, &n);

	if (r < 0)
		return r;
	if (n > 0)
		qsort(pids, (size_t)n, sizeof(*pids), procs_compare_pids);
	for (i = 0; i < n; i++) {
		if (procstat_read(pids[i], &st) < 0 || !is_stopped(&st))
			continue;
		if (stopped->n == GENERIC_STOPPED_MAX)
			return -E2BIG;
		stopped->v[stopped->n++] =
			(struct generic_stopped_process){pids[i], st.start_ticks};
	}
	return 0;
}

int generic_suspend(
	const struct generic_ops *ops, uint64_t id, int timeout_ms, struct generic_stopped *stopped)
{
	int r;

	if (!stopped->active) { /* else those are known, and the others are stopped, too, by now */
		stopped->n = 0;
		r = remember_stopped(ops, id, stopped);
		if (r < 0)
			return r;
		stopped->active = true;
	}
	return stop_all(ops, id, timeout_ms);
}

static bool was_stopped(const struct generic_stopped *stopped, const struct procstat *st)
{
	const struct generic_stopped_process *p =
		bsearch(&st->pid, stopped->v, stopped->n, sizeof(*stopped->v), procs_compare_pids);

	return p && p->start_ticks == st->start_ticks;
}

/* One by one. None of those that stand can fork or go away: one list has all. */
static int continue_others(
	const struct generic_ops *ops, uint64_t id, const struct generic_stopped *stopped)
{
	_cleanup_free_ pid_t *pids = NULL;
	struct procstat st;
	int n = 0, i, sent, r = ops->get_pids(ops->ctx, id, &pids, &n);

	if (r < 0)
		return r;
	if (n == 0)
		return -ESRCH;
	for (i = 0; i < n; i++) {
		if (procstat_read(pids[i], &st) < 0 || was_stopped(stopped, &st))
			continue;
		sent = pidref_signal_pid(pids[i], st.start_ticks, SIGCONT);
		if (sent < 0 && sent != -ESRCH)
			r = sent;
	}
	return r;
}

int generic_resume(const struct generic_ops *ops, uint64_t id, struct generic_stopped *stopped)
{
	int r;

	if (stopped->owned && !stopped->active)
		r = ops->signal(ops->ctx, id, 0);
	else if (stopped->n)
		r = continue_others(ops, id, stopped);
	else
		r = ops->signal(ops->ctx, id, SIGCONT);
	if (r == 0 || r == -ESRCH) {
		stopped->active = false;
		stopped->n = 0;
	}
	return r;
}

int generic_is_suspended(const struct generic_ops *ops, uint64_t id, bool *ret_suspended)
{
	_cleanup_free_ pid_t *pids = NULL;
	int n = 0, i, stopped = 0, moving = 0, r = ops->get_pids(ops->ctx, id, &pids, &n);
	struct procstat st;

	if (r < 0)
		return r;
	for (i = 0; i < n; i++) {
		if (procstat_read(pids[i], &st) < 0)
			continue;
		if (is_stopped(&st))
			stopped++;
		else if (generic_find_moving(pids[i], standing_states(INT_MAX)))
			moving++;
	}
	if (stopped + moving == 0)
		return n == 0 ? -ESRCH : -EAGAIN;
	if (stopped && moving)
		return -EAGAIN;
	*ret_suspended = stopped > 0;
	return 0;
}

static void describe_thread(pid_t pid, pid_t tid, char *text, size_t size)
{
	int n = tid == pid ? 0 : snprintf(text, size, "of pid %d the thread ", (int)pid);

	if (n >= 0 && (size_t)n < size)
		procstat_describe(tid, text + n, size - (size_t)n);
}

/* A parent in vfork(2) shows as D, and stands as soon as its child does. */
static bool is_in_vfork(const char *described)
{
	static const char *const functions[] = {"kernel_clone", "_do_fork", "wait_for_vfork_done"};
	const char *last = strrchr(described, ' ');
	size_t i;

	for (i = 0; last && i < ARRAY_SIZE(functions); i++) {
		if (strcmp(last + 1, functions[i]) == 0)
			return true;
	}
	return false;
}

void generic_describe_moving(
	const struct generic_ops *ops, uint64_t id, const char *states, char *text, size_t size)
{
	_cleanup_free_ pid_t *pids = NULL;
	char one[192];
	int n = 0, i, named = 0;
	size_t len = 0;
	pid_t tid;

	text[0] = '\0';
	if (ops->get_pids(ops->ctx, id, &pids, &n) < 0)
		return;
	for (i = 0; i < n; i++) {
		tid = generic_find_moving(pids[i], states);
		if (tid == 0)
			continue;
		describe_thread(pids[i], tid, one, sizeof(one));
		if (is_in_vfork(one) || named++ >= NAMED_MAX)
			continue;
		(void)snprintf(text + len, size - len, "%s%s", len ? "; " : "", one);
		len = strlen(text);
	}
	if (named > NAMED_MAX)
		(void)snprintf(text + len, size - len, "; and %d more", named - NAMED_MAX);
}

int generic_usage(const struct generic_ops *ops, uint64_t id, stepd_usage_t *ret_usage)
{
	_cleanup_procusage_ struct procusage processes = {0};
	_cleanup_free_ pid_t *pids = NULL;
	int n = 0, r;

	r = ops->get_pids(ops->ctx, id, &pids, &n);
	if (r == 0)
		r = procusage_read(pids, n, &processes);
	if (r == 0)
		procusage_sum(&processes, ret_usage);
	return r;
}
