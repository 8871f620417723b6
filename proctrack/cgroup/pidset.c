/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/pidset.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "stepd/base/buffer.h"
#include "stepd/base/fs.h"

#define LIST_MAX_BYTES (64u << 20) /* every pid there can be (2^22), with its newline */

/* Where pid stands or would stand. */
static size_t place_of(const struct pidset *set, pid_t pid)
{
	size_t low = 0, high = set->n, mid;

	if (set->n && set->v[set->n - 1] < pid)
		return set->n; /* lists come nearly ascending */
	while (low < high) {
		mid = low + (high - low) / 2;
		if (set->v[mid] < pid)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

bool pidset_has(const struct pidset *set, pid_t pid)
{
	size_t i = place_of(set, pid);

	return i < set->n && set->v[i] == pid;
}

int pidset_add(struct pidset *set, pid_t pid)
{
	size_t i = place_of(set, pid);

	if (i < set->n && set->v[i] == pid)
		return 0;
	if (array_reserve(set->v, set->capacity, set->n + 1) < 0)
		return -ENOMEM;
	memmove(set->v + i + 1, set->v + i, (set->n - i) * sizeof(*set->v));
	set->v[i] = pid;
	set->n++;
	return 0;
}

int pidset_add_text(struct pidset *set, const char *text)
{
	char *end;
	long pid;
	int r;

	for (; *text; text += strspn(text, "\n")) {
		pid = strtol(text, &end, 10);
		if (end != text && (*end == '\n' || *end == '\0') && pid > 0 && pid <= INT_MAX) {
			r = pidset_add(set, (pid_t)pid);
			if (r < 0)
				return r;
		}
		text += strcspn(text, "\n");
	}
	return 0;
}

/* The process that a thread belongs to, or 0. */
static pid_t process_of(pid_t tid)
{
	_cleanup_free_ char *text = NULL;
	char name[40];
	const char *line;

	(void)snprintf(name, sizeof(name), "/proc/%d/status", (int)tid);
	if (fs_read(AT_FDCWD, name, 1u << 20, &text, NULL) < 0)
		return 0;
	/* The process's name comes first and has its newlines escaped. */
	line = strstr(text, "\nTgid:");
	return line ? (pid_t)strtol(line + strlen("\nTgid:"), NULL, 10) : 0;
}

static int read_threads(struct pidset *set, int fd)
{
	_cleanup_pidset_ struct pidset threads = PIDSET_INIT;
	_cleanup_free_ char *text = NULL;
	pid_t pid;
	size_t i;
	int r = fs_read(fd, "cgroup.threads", LIST_MAX_BYTES, &text, NULL);

	if (r == 0)
		r = pidset_add_text(&threads, text);
	for (i = 0; r == 0 && i < threads.n; i++) {
		pid = process_of(threads.v[i]);
		if (pid > 0)
			r = pidset_add(set, pid);
	}
	return r;
}

int pidset_read_group(struct pidset *set, int fd)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(fd, "cgroup.procs", LIST_MAX_BYTES, &text, NULL);

	if (r == 0)
		r = pidset_add_text(set, text);
	else if (r == -EOPNOTSUPP)
		r = read_threads(set, fd);
	return r == -ENOENT || r == -ENODEV ? 0 : r; /* the group went while we looked */
}

void pidset_clear(struct pidset *set)
{
	free(set->v);
	*set = (struct pidset)PIDSET_INIT;
}
