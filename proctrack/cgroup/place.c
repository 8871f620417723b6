/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/place.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include "proctrack/cgroup/files.h"
#include "proctrack/cgroup/libcgroup.h"
#include "stepd/base/fs.h"

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

static const char *const origin_texts[PLACE_ORIGIN_MAX] = {
	[PLACE_ASKED] = "as " PLACE_ENV " asks",
	[PLACE_DELEGATED] = "delegated to this process",
	[PLACE_TOP] = "the top of the mount",
};

/* ---- the mount ---------------------------------------------------------------------------- */

/* Asks libcgroup, which (2.0.2) knows a v2 mount only by the controllers bound to it: on hosts
 * that have them all in v1 it finds none. NULL then. */
static char *ask_libcgroup(void)
{
	_cleanup_libcgroup_ struct libcgroup lib = {0};
	struct cgroup_mount_point *info;
	_cleanup_free_ void *memory = malloc(sizeof(*info)); /* 8 KiB */
	struct statfs fs;
	char *path = NULL;
	void *handle = NULL;
	int r;

	info = memory;
	if (!info || libcgroup_open(&lib) < 0)
		return NULL;
	for (r = lib.get_controller_begin(&handle, info); r == 0 && !path;
		r = lib.get_controller_next(&handle, info)) {
		if (statfs(info->path, &fs) == 0 && (uint32_t)fs.f_type == CGROUP2_SUPER_MAGIC)
			path = strdup(info->path);
	}
	(void)lib.get_controller_end(&handle);
	return path;
}

/* The id of the mount that fd was opened through, or -errno. */
static int mount_id_of(int fd)
{
	_cleanup_free_ char *text = NULL;
	char name[40];
	const char *line;
	int r;

	(void)snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", fd);
	r = fs_read(AT_FDCWD, name, 1u << 16, &text, NULL);
	if (r < 0)
		return r;
	line = strstr(text, "mnt_id:");
	return line ? (int)strtol(line + strlen("mnt_id:"), NULL, 10) : -EBADMSG;
}

/* Opens a mount point: -1 if another file system was mounted over it. */
static int open_mount(const struct cgmount *m)
{
	_cleanup_close_ int fd = open(m->point, OPEN_DIR);

	if (fd < 0 || !cgfile_is_cgroup2(fd) || mount_id_of(fd) != m->id)
		return -1;
	return take_fd(&fd);
}

/* The mount that shows this process's cgroup, and of several the one that libcgroup names. */
static const struct cgmount *choose_mount(const struct cgmounts *mounts, const char *own)
{
	/* Of one mount there is nothing to choose, and asking costs 0.4 ms. */
	_cleanup_free_ char *named = mounts->n > 1 ? ask_libcgroup() : NULL;
	const struct cgmount *best = NULL;
	int score, best_score = 0;
	size_t i;

	for (i = 0; i < mounts->n; i++) {
		const struct cgmount *m = &mounts->v[i];
		_cleanup_close_ int fd = open_mount(m);
		_cleanup_free_ char *path = NULL;

		if (fd < 0)
			continue;
		score = 1 + (named && strcmp(named, m->point) == 0);
		if (own && cgpath_map(m->root, NULL, own, &path) != -ENOENT)
			score += 2;
		if (score > best_score) {
			best = m;
			best_score = score;
		}
	}
	return best;
}

static int set_mount(struct place *p, const struct cgmount *m, const char *own)
{
	_cleanup_close_ int fd = -1;
	const char *below = cgpath_below("/..", m->root);

	p->mount =
		(struct cgmount){.id = m->id, .root = strdup(m->root), .point = strdup(m->point)};
	if (!p->mount.root || !p->mount.point)
		return -ENOMEM;
	if (!below || !own)
		return 0;
	/* The mount begins above this cgroup namespace. Without the namespace's place in it, paths
	 * inside the namespace stay unknown, all others are right. */
	fd = open_mount(m);
	if (fd >= 0)
		(void)cgpath_find_ns_root(fd, m->root, own, &p->ns_root);
	return 0;
}

/* ---- the root ----------------------------------------------------------------------------- */

/* Takes fd as the root. path is its own, absolute. */
static int set_root(struct place *p, enum place_origin origin, int *fd, const char *path)
{
	const char *below = cgpath_below(p->mount.point, path);

	p->origin = origin;
	p->path = strdup(path);
	p->root = strdup(below ? below : "");
	if (!p->path || !p->root)
		return -ENOMEM;
	p->fd = take_fd(fd);
	return 0;
}

static int open_asked(
	struct place *p, const struct cgmounts *mounts, const char *own, struct err *err)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX];
	size_t i;
	int id, r;

	if (p->asked[0] != '/')
		return err_say(err, -EINVAL,
			PLACE_ENV " is '%s'; it must be the absolute path of a cgroup2 directory",
			p->asked);
	fd = open(p->asked, OPEN_DIR);
	if (fd < 0)
		return err_set(err, -errno, PLACE_ENV ": open '%s'", p->asked);
	if (!cgfile_is_cgroup2(fd))
		return err_say(err, -EMEDIUMTYPE,
			PLACE_ENV
			": '%s' is not on a cgroup2 file system; name a directory below the "
			"cgroup2 mount ('findmnt -t cgroup2' shows it)",
			p->asked);
	id = mount_id_of(fd);
	for (i = 0; i < mounts->n && mounts->v[i].id != id; i++)
		;
	if (i == mounts->n)
		return err_say(err, -ENODEV,
			PLACE_ENV ": the mount of '%s' is not in /proc/self/mountinfo", p->asked);
	r = cgfile_get_path(fd, path);
	if (r == 0)
		r = set_mount(p, &mounts->v[i], own);
	if (r == 0)
		r = set_root(p, PLACE_ASKED, &fd, path);
	return r < 0 ? err_set(err, r, PLACE_ENV ": look at '%s'", p->asked) : 0;
}

static bool has_mark(int fd, const char *name)
{
	char value[8];
	ssize_t n = fgetxattr(fd, name, value, sizeof(value));

	return n == 1 && value[0] == '1';
}

/* Root could write anywhere: for root only systemd's word counts. */
static bool is_delegated(int fd)
{
	struct stat st;

	if (has_mark(fd, "trusted.delegate") || has_mark(fd, "user.delegate"))
		return true;
	return geteuid() != 0 && fstatat(fd, "cgroup.procs", &st, 0) == 0 &&
		st.st_uid == geteuid() && faccessat(fd, "cgroup.procs", W_OK, AT_EACCESS) == 0 &&
		faccessat(fd, ".", W_OK, AT_EACCESS) == 0;
}

/* 1: own cgroup is the root now. 0: it is not to be. */
static int open_delegated(struct place *p, const char *own)
{
	_cleanup_free_ char *below = NULL, *path = NULL;
	_cleanup_close_ int fd = -1;
	int r;

	if (!own || cgpath_map(p->mount.root, p->ns_root, own, &below) < 0)
		return 0;
	if (asprintf(&path, "%s%s%s", p->mount.point, *below ? "/" : "", below) < 0)
		return -ENOMEM;
	fd = open(path, OPEN_DIR);
	if (fd < 0 || !cgfile_is_cgroup2(fd) || !is_delegated(fd))
		return 0;
	r = set_root(p, PLACE_DELEGATED, &fd, path);
	return r < 0 ? r : 1;
}

static int open_found(
	struct place *p, const struct cgmounts *mounts, const char *own, struct err *err)
{
	const struct cgmount *m = choose_mount(mounts, own);
	_cleanup_close_ int fd = -1;
	int r;

	if (!m)
		return err_say(err, -ENODEV,
			"no cgroup2 file system is mounted here; mount one "
			"('mount -t cgroup2 none /sys/fs/cgroup/unified') or use another tracker");
	r = set_mount(p, m, own);
	if (r == 0)
		r = open_delegated(p, own);
	if (r == 0) {
		fd = open_mount(m);
		r = fd < 0 ? -ENODEV : set_root(p, PLACE_TOP, &fd, m->point);
	}
	return r < 0 ? err_set(err, r, "use the cgroup2 mount '%s'", m->point) : 0;
}

int place_open(const char *asked, struct place **ret_place, struct err *err)
{
	_cleanup_cgmounts_ struct cgmounts mounts = CGMOUNTS_INIT;
	_cleanup_place_ struct place *p = calloc(1, sizeof(*p));
	_cleanup_free_ char *own = NULL;
	int r;

	if (!p)
		return err_set(err, -ENOMEM, "find the cgroup2 mount");
	p->fd = -1;
	if (asked && *asked) {
		p->asked = strdup(asked);
		if (!p->asked)
			return err_set(err, -ENOMEM, "find the cgroup2 mount");
	}
	r = cgmounts_read(&mounts);
	if (r < 0)
		return err_set(err, r, "read /proc/self/mountinfo");
	r = cgpath_of(0, &own);
	if (r < 0 && r != -ENODATA)
		return err_set(err, r, "read /proc/self/cgroup");
	r = p->asked ? open_asked(p, &mounts, own, err) : open_found(p, &mounts, own, err);
	if (r < 0)
		return r;
	*ret_place = take_ptr(p);
	return 0;
}

struct place *place_close(struct place *p)
{
	if (!p)
		return NULL;
	free(p->asked);
	free(p->mount.root);
	free(p->mount.point);
	free(p->ns_root);
	free(p->root);
	free(p->path);
	(void)close_fd(p->fd);
	free(p);
	return NULL;
}

const char *place_get_reason(const struct place *p)
{
	return origin_texts[p->origin];
}

int place_map(const struct place *p, const char *cgroup_path, char **ret_path)
{
	_cleanup_free_ char *path = NULL;
	const char *below;
	int r = cgpath_map(p->mount.root, p->ns_root, cgroup_path, &path);

	if (r < 0)
		return r == -ENODATA ? -ENOENT : r;
	below = cgpath_below(p->root, path);
	if (!below)
		return -ENOENT;
	*ret_path = strdup(below);
	return *ret_path ? 0 : -ENOMEM;
}
