/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/mounts.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "proctrack/cgroup/group.h"
#include "stepd/base/buffer.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"

#define PROC_FILE_MAX (16u << 20) /* bytes; a mountinfo of 100,000 mounts */

/* Undoes the kernel's \ooo for space, tab, newline and backslash, in place. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; to++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
			s[3] >= '0' && s[3] <= '7') {
			*to = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 4;
		} else {
			*to = *s++;
		}
	}
	*to = '\0';
}

enum mount_field { /* fields of a line, counted from 0 */
	FIELD_ID = 0,
	FIELD_ROOT = 3,
	FIELD_POINT = 4,
	FIELD_OPTIONAL = 6, /* any number of these, then "-" and the type */
	FIELD_SAVED_MAX = 5,
};

/* Splits a line: 1 and the fields if it is of a cgroup2 mount, else 0. */
static int split_line(char *line, char *field[FIELD_SAVED_MAX])
{
	char *name, *at = line;
	size_t i;

	for (i = 0; (name = strsep(&at, " ")); i++) {
		if (i < FIELD_SAVED_MAX)
			field[i] = name;
		if (i >= FIELD_OPTIONAL && strcmp(name, "-") == 0) {
			name = strsep(&at, " ");
			return name && strcmp(name, "cgroup2") == 0;
		}
	}
	return 0;
}

static int add_mount(struct cgmounts *mounts, int id, char *root, char *point)
{
	struct cgmount *m;

	if (array_reserve(mounts->v, mounts->capacity, mounts->n + 1) < 0)
		return -ENOMEM;
	m = &mounts->v[mounts->n++];
	unescape(root);
	unescape(point);
	*m = (struct cgmount){.id = id, .root = strdup(root), .point = strdup(point)};
	return m->root && m->point ? 0 : -ENOMEM;
}

int cgmounts_parse(char *text, struct cgmounts *ret_mounts)
{
	_cleanup_cgmounts_ struct cgmounts mounts = {0};
	char *field[FIELD_SAVED_MAX], *line;
	uint32_t id = 0;
	int r;

	while ((line = strsep(&text, "\n"))) {
		if (!split_line(line, field) || field[FIELD_ROOT][0] != '/' ||
			field[FIELD_POINT][0] != '/' ||
			parse_u32(field[FIELD_ID], 0, INT_MAX, &id) < 0)
			continue;
		r = add_mount(&mounts, (int)id, field[FIELD_ROOT], field[FIELD_POINT]);
		if (r < 0)
			return r;
	}
	*ret_mounts = take_struct(mounts);
	return 0;
}

int cgmounts_read(struct cgmounts *ret_mounts)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(AT_FDCWD, "/proc/self/mountinfo", PROC_FILE_MAX, &text, NULL);

	return r < 0 ? r : cgmounts_parse(text, ret_mounts);
}

void cgmounts_clear(struct cgmounts *mounts)
{
	size_t i;

	for (i = 0; i < mounts->n; i++) {
		free(mounts->v[i].root);
		free(mounts->v[i].point);
	}
	free(mounts->v);
	*mounts = (struct cgmounts){0};
}

const char *cgpath_below(const char *base, const char *path)
{
	size_t len = strlen(base);

	while (len > 0 && base[len - 1] == '/')
		len--;
	if (strncmp(path, base, len) != 0 || (len && path[len] != '/' && path[len] != '\0'))
		return NULL;
	path += len;
	return path + strspn(path, "/");
}

int cgpath_of(pid_t pid, char **ret_path)
{
	_cleanup_free_ char *text = NULL;
	char name[32] = "/proc/self/cgroup", *at, *line;
	int r;

	if (pid < 0)
		return -ESRCH;
	if (pid > 0)
		(void)snprintf(name, sizeof(name), "/proc/%d/cgroup", (int)pid);
	r = fs_read(AT_FDCWD, name, PROC_FILE_MAX, &text, NULL);
	if (r == -ENOENT)
		return -ESRCH;
	if (r < 0)
		return r;
	/* No name of a cgroup holds a newline: the kernel sees to that. */
	for (at = text; (line = strsep(&at, "\n"));) {
		if (strncmp(line, "0::/", 4) == 0) {
			*ret_path = strdup(line + 3);
			return *ret_path ? 0 : -ENOMEM;
		}
	}
	return -ENODATA;
}

/* How many ".." a path begins with; *ret_rest is what follows them. */
static size_t count_ups(const char *path, const char **ret_rest)
{
	size_t n = 0;

	for (path += strspn(path, "/");
		strncmp(path, "..", 2) == 0 && (path[2] == '/' || path[2] == '\0'); n++) {
		path += 2;
		path += strspn(path, "/");
	}
	*ret_rest = path;
	return n;
}

/* The first of path that remains when its last n names are taken away. */
static size_t length_without(const char *path, size_t n)
{
	size_t len = strlen(path);

	while (n-- > 0) {
		while (len > 0 && path[len - 1] != '/')
			len--;
		while (len > 0 && path[len - 1] == '/')
			len--;
	}
	return len;
}

int cgpath_map(const char *mount_root, const char *ns_root, const char *path, char **ret_path)
{
	const char *below = cgpath_below(mount_root, path), *rest, *mount_rest;
	size_t ups, mount_ups, retained;

	if (below && count_ups(below, &rest) == 0) {
		*ret_path = strdup(below);
		return *ret_path ? 0 : -ENOMEM;
	}
	/* Below a mount point that stands higher than the namespace, a path with fewer ".." than
	 * the mount's own goes through names that only ns_root knows. */
	mount_ups = count_ups(mount_root, &mount_rest);
	ups = count_ups(path, &rest);
	if (*mount_rest || ups >= mount_ups)
		return -ENOENT;
	if (!ns_root)
		return -ENODATA;
	retained = length_without(ns_root, ups);
	if (asprintf(ret_path, "%.*s%s%s", (int)retained, ns_root, retained && *rest ? "/" : "",
		    rest) < 0)
		return -ENOMEM;
	return 0;
}

/* Whether the group lists this process. */
static bool lists_self(int fd)
{
	_cleanup_pidset_ struct pidset set = {0};

	return pidset_read_group(&set, fd) == 0 && pidset_has(&set, getpid());
}

/* Looks depth levels below fd for the group of this process, path being fd's own, of len bytes.
 * 1 with path filled, 0 if it isn't there. The depth is that of this process's own cgroup. */
static int find_self(int fd, unsigned depth, char *path, size_t len)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *e;
	int found = 0, n;

	if (depth == 0)
		return lists_self(fd);
	dir = fs_opendir(fd, ".");
	while (dir && !found && (e = readdir(dir))) {
		_cleanup_close_ int child = -1;

		if (e->d_type != DT_DIR || strcmp(e->d_name, ".") == 0 ||
			strcmp(e->d_name, "..") == 0)
			continue;
		n = snprintf(path + len, PATH_MAX - len, "%s%s", len ? "/" : "", e->d_name);
		child = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (n < (int)(PATH_MAX - len) && child >= 0)
			found = find_self(child, depth - 1, path, len + (size_t)n);
	}
	return found;
}

int cgpath_find_ns_root(
	int mount_fd, const char *mount_root, const char *own_path, char **ret_ns_root)
{
	char path[PATH_MAX] = "";
	const char *rest;
	unsigned ups = (unsigned)count_ups(mount_root, &rest), names = 0;

	if (*rest)
		return -ENOENT; /* the mount holds no part of the namespace */
	(void)count_ups(own_path, &rest);
	if (rest != own_path + strspn(own_path, "/"))
		return -ENOENT; /* outside of its own namespace: its names mean nothing here */
	while (*rest) {
		names++;
		rest += strcspn(rest, "/");
		rest += strspn(rest, "/");
	}
	if (!find_self(mount_fd, ups + names, path, 0))
		return -ENOENT;
	path[length_without(path, names)] = '\0';
	*ret_ns_root = strdup(path);
	return *ret_ns_root ? 0 : -ENOMEM;
}
