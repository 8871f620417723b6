/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/ctl/namespace.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "stepd/base/buffer.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"

#define PID_MAX_LIMIT 4194304 /* of the kernel */
#define LEVELS_MAX    32      /* likewise: MAX_PID_NS_LEVEL */

/* A namespace, and how many levels it is below the wanted one; -1: not below it. */
struct known {
	ino_t inode;
	int below;
};

struct scan {
	ino_t wanted;
	int proc_fd;
	struct known *known;
	size_t n, capacity;
};

int namespace_parse(const char *text, ino_t *ret_inode, struct err *err)
{
	uint64_t number;
	char path[64];
	struct stat st;

	if (parse_u64(text, 1, INT64_MAX, &number) < 0)
		return err_set_text(
			err, -EINVAL, "--namespace: '%.100s' is neither a pid nor an inode", text);
	if (number > PID_MAX_LIMIT) {
		*ret_inode = (ino_t)number;
		return 0;
	}
	(void)snprintf(path, sizeof(path), "/proc/%llu/ns/pid", (unsigned long long)number);
	if (stat(path, &st) < 0)
		return err_set(err, -errno, "--namespace: stat '%s'", path);
	*ret_inode = st.st_ino;
	return 0;
}

/* Up from the namespace of fd, which is closed, to the wanted one. */
static int count_levels(const struct scan *scan, int fd)
{
	struct stat st;
	int below, up;

	for (below = 0; fd >= 0 && below < LEVELS_MAX; below++) {
		if (fstat(fd, &st) == 0 && st.st_ino == scan->wanted) {
			(void)close(fd);
			return below;
		}
		up = ioctl(fd, NS_GET_PARENT); /* EPERM above the caller's own */
		(void)close(fd);
		fd = up;
	}
	(void)close_fd(fd);
	return -1;
}

/* -ENOMEM, or 0; -1 levels also for a process that is gone or may not be read. */
static int find_below(struct scan *scan, uint32_t pid, int *ret_below)
{
	char path[64];
	struct stat st;
	size_t i;

	*ret_below = -1;
	(void)snprintf(path, sizeof(path), "%u/ns/pid", pid);
	if (fstatat(scan->proc_fd, path, &st, 0) < 0)
		return 0;
	for (i = 0; i < scan->n && scan->known[i].inode != st.st_ino; i++)
		;
	if (i == scan->n) {
		if (array_reserve(scan->known, scan->capacity, scan->n + 1) < 0)
			return -ENOMEM;
		scan->known[scan->n++] = (struct known){.inode = st.st_ino,
			.below = count_levels(
				scan, openat(scan->proc_fd, path, O_RDONLY | O_CLOEXEC))};
	}
	*ret_below = scan->known[i].below;
	return 0;
}

/* The number so many levels above the innermost; 0: it is gone. */
static pid_t read_number(const struct scan *scan, uint32_t pid, int below)
{
	_cleanup_free_ char *text = NULL;
	char path[64], *line, *number;
	unsigned numbers[LEVELS_MAX + 1];
	int n = 0;

	(void)snprintf(path, sizeof(path), "%u/status", pid);
	if (fs_read(scan->proc_fd, path, 1u << 16, &text, NULL) < 0)
		return 0;
	line = strstr(text, "\nNSpid:");
	if (!line)
		return 0;
	line += strlen("\nNSpid:");
	line[strcspn(line, "\n")] = '\0';
	while ((number = strsep(&line, "\t ")) && n <= LEVELS_MAX) {
		if (*number && parse_u32(number, 1, PID_MAX_LIMIT, &numbers[n]) == 0)
			n++;
	}
	return n > below ? (pid_t)numbers[n - 1 - below] : 0;
}

static int visit(struct scan *scan, const char *name, namespace_fn fn, void *userdata)
{
	pid_t number;
	uint32_t pid;
	int below, r;

	if (parse_u32(name, 1, PID_MAX_LIMIT, &pid) < 0)
		return 0; /* no process */
	r = find_below(scan, pid, &below);
	if (r < 0 || below < 0)
		return r;
	number = read_number(scan, pid, below);
	return number > 0 ? fn(number, (pid_t)pid, userdata) : 0;
}

int namespace_each(ino_t inode, namespace_fn fn, void *userdata, struct err *err)
{
	_cleanup_closedir_ DIR *proc = opendir("/proc");
	struct scan scan = {.wanted = inode};
	struct dirent *d;
	int r = 0;

	if (!proc)
		return err_set(err, -errno, "read '/proc'");
	scan.proc_fd = dirfd(proc);
	while (r == 0 && (d = readdir(proc)))
		r = visit(&scan, d->d_name, fn, userdata);
	free(scan.known);
	return r == -ENOMEM ? err_set(err, r, "search a pid namespace") : r;
}
