/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/proc.h"

#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stepd/base/err.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"
#include "stepd/base/rawcall.h"

/* ---- signals by name ----------------------------------------------------------------------- */

/* "RTMIN", "RTMIN+3", "RTMAX-1" */
static int parse_realtime(const char *text)
{
	const bool from_min = strncasecmp(text, "RTMIN", 5) == 0;
	uint32_t n = 0;

	if (!from_min && strncasecmp(text, "RTMAX", 5) != 0)
		return -EINVAL;
	if (text[5] && text[5] != (from_min ? '+' : '-'))
		return -EINVAL;
	if (text[5] && parse_u32(text + 6, 0, (uint32_t)(SIGRTMAX - SIGRTMIN), &n) < 0)
		return -EINVAL;
	return from_min ? SIGRTMIN + (int)n : SIGRTMAX - (int)n;
}

int signals_parse(const char *text)
{
	const char *abbrev;
	uint32_t n;
	int i;

	if (isdigit((unsigned char)text[0]))
		return parse_u32(text, 1, (uint32_t)SIGRTMAX, &n) < 0 ? -EINVAL : (int)n;
	if (strncasecmp(text, "SIG", 3) == 0)
		text += 3;
	for (i = 1; i < SIGRTMIN; i++) {
		abbrev = sigabbrev_np(i);
		if (abbrev && strcasecmp(text, abbrev) == 0)
			return i;
	}
	return parse_realtime(text);
}

const char *signals_name(int signal, char *buf, size_t size)
{
	const char *abbrev = sigabbrev_np(signal);

	if (abbrev)
		(void)snprintf(buf, size, "%s", abbrev);
	else if (signal >= SIGRTMIN && signal <= SIGRTMAX)
		(void)snprintf(buf, size, "RTMIN+%d", signal - SIGRTMIN);
	else
		(void)snprintf(buf, size, "%d", signal);
	return buf;
}

/* ---- how a task has ended ------------------------------------------------------------------ */

const char *status_text(int wait_status, char *buf, size_t size)
{
	char name[SIGNALS_NAME_SIZE];

	if (WIFEXITED(wait_status))
		(void)snprintf(buf, size, "exited with status %d", WEXITSTATUS(wait_status));
	else
		(void)snprintf(buf, size, "killed by signal %d (%s)%s", WTERMSIG(wait_status),
			signals_name(WTERMSIG(wait_status), name, sizeof(name)),
			WCOREDUMP(wait_status) ? ", core dumped" : "");
	return buf;
}

int status_exit_code(int wait_status)
{
	if (WIFEXITED(wait_status))
		return WEXITSTATUS(wait_status);
	return STATUS_SIGNAL_BASE + WTERMSIG(wait_status);
}

void status_count(struct status *status, int wait_status)
{
	int code = status_exit_code(wait_status);

	if (status->signalled)
		return;
	if (WIFSIGNALED(wait_status)) {
		status->signalled = true;
		status->code = code;
	} else if (code > status->code) {
		status->code = code;
	}
}

/* ---- what /proc has of a process ----------------------------------------------------------- */

/* The numbers behind the state, by their field number in proc_pid_stat(5). */
enum {
	FIELD_PPID = 4,
	FIELD_PGRP = 5,
	FIELD_SESSION = 6,
	FIELD_TTY = 7,
	FIELD_MINFLT = 10,
	FIELD_CMINFLT = 11,
	FIELD_MAJFLT = 12,
	FIELD_CMAJFLT = 13,
	FIELD_UTIME = 14,
	FIELD_STIME = 15,
	FIELD_CUTIME = 16,
	FIELD_CSTIME = 17,
	FIELD_THREADS = 20,
	FIELD_START = 22,
	FIELD_RSS = 24,
	FIELD_PENDING = 31,
	FIELD_EXIT_CODE = 52,
};

/* Reads digits, with a '-' at most, up to the blank behind them (which must be there: a number at
 * the very end may have been cut). Returns what follows the blank, or NULL. */
static const char *parse_number(const char *p, const char *end, int64_t *ret_n)
{
	bool negative = p < end && *p == '-';
	const char *digits = p + negative;
	uint64_t n = 0;

	for (p = digits; p < end && isdigit((unsigned char)*p); p++) {
		if (__builtin_mul_overflow(n, 10u, &n) ||
			__builtin_add_overflow(n, (uint64_t)(*p - '0'), &n))
			return NULL;
	}
	if (p == digits || p == end || (*p != ' ' && *p != '\n'))
		return NULL;
	/* sizes, limits and addresses fill 64 bits in some fields; none of those is used */
	*ret_n = n > INT64_MAX ? INT64_MAX : (int64_t)n;
	if (negative)
		*ret_n = -*ret_n;
	return p + 1;
}

static bool is_between(int64_t n, int64_t least, int64_t most)
{
	return n >= least && n <= most;
}

static int parse_numbers(const char *p, const char *end, struct procstat *st)
{
	int64_t value[FIELD_EXIT_CODE + 1] = {0};
	int field;

	for (field = FIELD_PPID; field <= FIELD_EXIT_CODE; field++) {
		p = parse_number(p, end, &value[field]);
		if (!p)
			return -EBADMSG;
	}
	/* group and session are -1 in the last moment of a process */
	if (!is_between(value[FIELD_PPID], 0, INT_MAX) ||
		!is_between(value[FIELD_PGRP], -1, INT_MAX) ||
		!is_between(value[FIELD_SESSION], -1, INT_MAX) ||
		!is_between(value[FIELD_TTY], INT_MIN, INT_MAX) ||
		!is_between(value[FIELD_THREADS], 0, INT_MAX) || value[FIELD_START] < 0)
		return -EBADMSG;
	for (field = FIELD_MINFLT; field <= FIELD_CSTIME; field++) {
		if (value[field] < 0)
			return -EBADMSG;
	}
	st->ppid = (pid_t)value[FIELD_PPID];
	st->pgrp = (pid_t)value[FIELD_PGRP];
	st->session = (pid_t)value[FIELD_SESSION];
	st->tty = (int)value[FIELD_TTY];
	st->threads = (int)value[FIELD_THREADS];
	st->minflt = (uint64_t)value[FIELD_MINFLT];
	st->cminflt = (uint64_t)value[FIELD_CMINFLT];
	st->majflt = (uint64_t)value[FIELD_MAJFLT];
	st->cmajflt = (uint64_t)value[FIELD_CMAJFLT];
	st->utime_ticks = (uint64_t)value[FIELD_UTIME];
	st->stime_ticks = (uint64_t)value[FIELD_STIME];
	st->cutime_ticks = (uint64_t)value[FIELD_CUTIME];
	st->cstime_ticks = (uint64_t)value[FIELD_CSTIME];
	st->start_ticks = (uint64_t)value[FIELD_START];
	st->rss_pages = value[FIELD_RSS] > 0 ? (uint64_t)value[FIELD_RSS] : 0;
	st->pending = (uint64_t)value[FIELD_PENDING];
	st->exit_code = (uint64_t)value[FIELD_EXIT_CODE];
	return 0;
}

int procstat_parse(const char *text, size_t size, struct procstat *ret_stat)
{
	const char *end = text + size, *open, *close = memrchr(text, ')', size);
	struct procstat st = {0};
	int64_t pid;
	size_t len;

	open = parse_number(text, end, &pid);
	if (!open || !is_between(pid, 1, INT_MAX))
		return -EBADMSG;
	if (open == end || *open != '(' || !close || end - close < 5)
		return -EBADMSG;
	st.pid = (pid_t)pid;
	len = (size_t)(close - open - 1);
	if (len >= sizeof(st.comm))
		len = sizeof(st.comm) - 1;
	memcpy(st.comm, open + 1, len);
	if (close[1] != ' ' || !isalpha((unsigned char)close[2]) || close[3] != ' ')
		return -EBADMSG;
	st.state = close[2];
	if (parse_numbers(close + 4, end, &st) < 0)
		return -EBADMSG;
	*ret_stat = st;
	return 0;
}

bool procstat_is_living(const struct procstat *st)
{
	int ended = st->state == 'Z' || st->state == 'X' || st->state == 'x';

	return st->threads > ended;
}

int procstat_read_at(int proc_fd, pid_t pid, struct procstat *ret_stat)
{
	_cleanup_close_ int fd = -1;
	char name[32], text[4096];
	ssize_t n;

	(void)snprintf(name, sizeof(name), "%d/stat", (int)pid);
	fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	do
		n = read(fd, text, sizeof(text) - 1);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno; /* ESRCH where it ended between the two calls */
	text[n] = '\0';
	return procstat_parse(text, (size_t)n, ret_stat);
}

int procstat_read(pid_t pid, struct procstat *ret_stat)
{
	_cleanup_close_ int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (proc_fd < 0)
		return -errno;
	return procstat_read_at(proc_fd, pid, ret_stat);
}

bool procstat_is_runnable(pid_t pid)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct procstat st;
	struct dirent *entry;
	char name[64];

	(void)snprintf(name, sizeof(name), "/proc/%d/task", (int)pid);
	dir = opendir(name);
	while (dir && (entry = readdir(dir))) {
		pid_t tid = (pid_t)atoi(entry->d_name); /* 0: "." and ".." */

		if (tid > 0 && procstat_read_at(dirfd(dir), tid, &st) == 0 && st.state == 'R')
			return true;
	}
	return false;
}

void procstat_describe(pid_t pid, char *text, size_t size)
{
	_cleanup_free_ char *wchan = NULL;
	struct procstat st;
	char name[64];
	int r;

	r = procstat_read(pid, &st);
	if (r < 0) {
		(void)snprintf(text, size, "pid %d (%s)", (int)pid, strerror(-r));
		return;
	}
	log_make_printable(st.comm);
	(void)snprintf(name, sizeof(name), "/proc/%d/wchan", (int)pid);
	r = fs_read(AT_FDCWD, name, 4096, &wchan, NULL);
	if (r < 0 || strcmp(wchan, "0") == 0)
		free(take_ptr(wchan));
	(void)snprintf(text, size, "pid %d (%s) state %c%s%s", (int)pid, st.comm, st.state,
		wchan && *wchan ? " in " : "", wchan ? wchan : "");
}

/* ---- a process that can't be mistaken for another ------------------------------------------ */

/* glibc has these wrappers since 2.36; the kernel since 5.3 and 5.1. */
static int sys_pidfd_open(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

static int sys_pidfd_send_signal(int fd, int signal)
{
	return (int)syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
}

int pidref_open(pid_t pid, uint64_t start_ticks, struct pidref *ret_ref)
{
	_cleanup_close_ int fd = -1;
	struct procstat st;
	int r;

	if (pid <= 0)
		return -ESRCH;
	fd = sys_pidfd_open(pid);
	if (fd < 0)
		/* a thread's id is EINVAL, and ENOENT in later kernels (6.18 for one) */
		return errno == EINVAL || errno == ENOENT ? -ESRCH : -errno;
	if (start_ticks) {
		/* The pidfd is open: if the start time fits now, it is of this process. */
		r = procstat_read(pid, &st);
		if (r < 0)
			return r;
		if (st.start_ticks != start_ticks)
			return -ESRCH;
	}
	*ret_ref = (struct pidref){.pid = pid, .fd = take_fd(&fd), .start_ticks = start_ticks};
	return 0;
}

int pidref_signal(const struct pidref *ref, int signal)
{
	if (ref->fd < 0)
		return -EINVAL;
	return sys_pidfd_send_signal(ref->fd, signal) < 0 ? -errno : 0;
}

int pidref_signal_pid(pid_t pid, uint64_t start_ticks, int signal)
{
	_cleanup_pidref_ struct pidref ref = PIDREF_INIT;
	int r = pidref_open(pid, start_ticks, &ref);

	return r < 0 ? r : pidref_signal(&ref, signal);
}

void pidref_close(struct pidref *ref)
{
	ref->fd = close_fd(ref->fd);
	ref->pid = 0;
	ref->start_ticks = 0;
}

/* ---- made by clone3 -------------------------------------------------------------------------- */

/* Not fork(), which lacks these flags. The caller has one thread, so a child with a copy of the
 * memory may use the C library. */
static int clone_task(const struct clone *how, void (*run)(void *arg), void *arg, pid_t *ret_pid)
{
	struct clone_args args = {
		.flags = CLONE_CLEAR_SIGHAND | CLONE_PARENT_SETTID,
		.parent_tid = (uint64_t)(uintptr_t)ret_pid,
		.exit_signal = how->siblings ? 0 : SIGCHLD, /* with CLONE_PARENT: the caller's */
	};
	long r;

	if (how->siblings)
		args.flags |= CLONE_PARENT;
	if (how->cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)how->cgroup_fd;
	}
	if (how->stack) {
		args.flags |= CLONE_VM;
		args.stack = (uint64_t)(uintptr_t)how->stack;
		args.stack_size = how->stack_size;
		r = rawcall_clone_onto(&args, sizeof(args), run, arg);
		return r < 0 ? (int)r : 0;
	}
	r = syscall(SYS_clone3, &args, sizeof(args));
	if (r == 0)
		run(arg);
	return r < 0 ? -errno : 0;
}

static int fork_task(void (*run)(void *arg), void *arg, pid_t *ret_pid)
{
	pid_t pid = fork();

	if (pid == 0)
		run(arg);
	*ret_pid = pid;
	return pid < 0 ? -errno : 0;
}

int clone_child(struct clone *how, void (*run)(void *arg), void *arg, bool *cleared, pid_t *ret_pid)
{
	int r;

	assert(how->stack_size % 16 == 0);
	if (!how->clone3_absent) {
		*cleared = true;
		r = clone_task(how, run, arg, ret_pid);
		/* EINVAL: a flag that this kernel does not know */
		if (r != -ENOSYS && r != -EINVAL && r != -EPERM)
			return r;
		how->clone3_absent = true;
	}
	if (how->cgroup_fd >= 0 || how->stack || how->siblings)
		return -EOPNOTSUPP;
	*cleared = false;
	return fork_task(run, arg, ret_pid);
}

#ifndef P_PIDFD /* glibc has it since 2.36 */
#define P_PIDFD 3
#endif

pid_t hidden_child_start(hidden_child_fn run, void *userdata, int *ret_pidfd)
{
	int pidfd = -1;
	struct clone_args args = {.flags = CLONE_PIDFD, .pidfd = (uintptr_t)&pidfd};
	sigset_t all, saved;
	long pid;

	(void)sigfillset(&all); /* can't fail */
	if (sigprocmask(SIG_SETMASK, &all, &saved) < 0)
		return -errno;
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		run(userdata);
	if (pid < 0)
		pid = -errno;
	(void)sigprocmask(SIG_SETMASK, &saved, NULL); /* as good as the first time */
	if (pid > 0)
		*ret_pidfd = pidfd;
	return (pid_t)pid;
}

int hidden_child_wait(int pidfd, int options, siginfo_t *ret_info)
{
	int r;

	do
		r = waitid(P_PIDFD, (id_t)pidfd, ret_info, WEXITED | __WALL | options);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

void hidden_child_reap(int pidfd)
{
	siginfo_t info;

	(void)!hidden_child_wait(pidfd, 0, &info); /* ours: nothing to fail */
	(void)close_fd(pidfd);
}
