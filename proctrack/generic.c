/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/generic.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "proctrack/procusage.h"
#include "stepd/base/pidref.h"
#include "stepd/base/procstat.h"

/* Descriptors held at a time: far below the usual RLIMIT_NOFILE of 1024, the next ones follow
 * when these have ended. */
#define WATCH_MAX 128

/* No descriptor tells that a process left its group, or that a pid of the list was given away
 * before its pidfd was open: so the list is read again after this long at most. */
#define LIST_AGE_MS 500

#define SUSPEND_LIMIT_MS 2000

static int64_t now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts); /* can't fail with this clock */
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* When timeout_ms from now is; never for < 0. */
static int64_t deadline_of(int timeout_ms)
{
	return timeout_ms < 0 ? INT64_MAX : now_ms() + timeout_ms;
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

#define WATCH_INIT                                                                                 \
	{                                                                                          \
		.n = 0                                                                             \
	}

static void watch_clear(struct watch *watch)
{
	while (watch->n > 0)
		(void)close_fd(watch->v[--watch->n].fd);
}

#define _cleanup_watch_ _cleanup_(watch_clear)

/* Opens as many of pids as there is room for. 0 also where all of them are gone. */
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
	size_t i, kept = 0;

	if (poll(watch->v, watch->n, ms) < 0)
		return errno == EINTR ? 0 : -errno;
	for (i = 0; i < watch->n; i++) {
		if (watch->v[i].revents)
			(void)close_fd(watch->v[i].fd);
		else
			watch->v[kept++] = watch->v[i];
	}
	watch->n = kept;
	return 0;
}

/* Waits for the end of the first of pids, as many as can be watched. */
static int wait_for_some(const pid_t *pids, int n, int64_t deadline)
{
	_cleanup_watch_ struct watch watch = WATCH_INIT;
	int64_t until = least(deadline, now_ms() + LIST_AGE_MS), left;
	int r = watch_open(&watch, pids, n);

	while (r == 0 && watch.n > 0) {
		left = until - now_ms();
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
		if (now_ms() >= deadline)
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

/* Whether all threads below dir, /proc/PID/task, are in one of states. */
static bool threads_are(DIR *dir, const char *states)
{
	struct procstat st;
	struct dirent *de;
	pid_t tid;

	while ((de = readdir(dir))) {
		tid = (pid_t)strtol(de->d_name, NULL, 10);
		if (tid > 0 && procstat_read_at(dirfd(dir), tid, &st) == 0 &&
			!strchr(states, st.state))
			return false;
	}
	return true;
}

/* Whether no thread of the process can run on: each is in one of states, or gone. */
static bool process_is(pid_t pid, const char *states)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct procstat st;
	char name[32];

	if (procstat_read(pid, &st) < 0)
		return true;
	if (st.threads <= 1)
		return strchr(states, st.state);
	(void)snprintf(name, sizeof(name), "/proc/%d/task", (int)pid);
	dir = opendir(name);
	return dir ? threads_are(dir, states) : errno == ENOENT;
}

/* Moves those to the front of pids that are not, and returns how many they are. */
static int keep_others(pid_t *pids, int n, const char *states)
{
	int i, kept = 0;

	for (i = 0; i < n; i++) {
		if (!process_is(pids[i], states))
			pids[kept++] = pids[i];
	}
	return kept;
}

/* Stopped, traced, ended. And, after a moment of patience, asleep in the kernel with the stop
 * pending: such a thread stops before it runs another instruction of its own, and may never wake
 * before the others are continued (the parent in vfork(2) of a stopped child). */
static const char *standing_states(int pause_ms)
{
	return pause_ms < 16 ? "TtZXx" : "TtZXxD";
}

int generic_suspend(const struct generic_ops *ops, uint64_t id)
{
	int64_t deadline = now_ms() + SUSPEND_LIMIT_MS;
	int n, r, pause_ms = 1;

	for (;;) {
		_cleanup_watch_ struct watch watch = WATCH_INIT;
		_cleanup_free_ pid_t *pids = NULL;

		/* again in each pass: for who was forked, or continued by others, meanwhile;
		 * those that stand don't notice */
		n = 0;
		r = ops->signal(ops->ctx, id, SIGSTOP);
		if (r == 0)
			r = ops->get_pids(ops->ctx, id, &pids, &n);
		if (r < 0)
			return r;
		n = keep_others(pids, n, standing_states(pause_ms));
		if (n == 0)
			return 0;
		if (now_ms() >= deadline)
			return -ETIMEDOUT;
		/* Only a parent is told of a stop, and the members' parents are others. What
		 * remains is to look again, after a pause that a member's end cuts short. */
		r = watch_open(&watch, pids, n);
		if (r == 0)
			r = watch_poll(&watch, pause_ms);
		if (r < 0)
			return r;
		pause_ms = (int)least(pause_ms * 2, 16);
	}
}

int generic_resume(const struct generic_ops *ops, uint64_t id)
{
	return ops->signal(ops->ctx, id, SIGCONT);
}

int generic_usage(const struct generic_ops *ops, uint64_t id, stepd_usage_t *ret_usage)
{
	_cleanup_procusage_ struct procusage processes = PROCUSAGE_INIT;
	_cleanup_free_ pid_t *pids = NULL;
	int n = 0, r;

	r = ops->get_pids(ops->ctx, id, &pids, &n);
	if (r == 0)
		r = procusage_read(pids, n, &processes);
	if (r == 0)
		procusage_sum(&processes, ret_usage);
	return r;
}
