/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/procstat.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "stepd/base/fs.h"
#include "stepd/base/log.h"

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
