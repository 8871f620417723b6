/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/root.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include "proctrack/cgroup/group.h"
#include "proctrack/cgroup/libcgroup.h"
#include "stepd/base/buffer.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"
#include "stepd/base/proc.h"
#include "systemd/systemd.h"

/* ---- mounts and paths ------------------------------------------------------------------------ */

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

/* Whether a mount of the whole hierarchy stands there: its first group has the number 1 (kernfs).
 * Kernels before 5.8 do not say of which mount a file is. */
static bool is_whole_mount(const char *point, int *ret_id)
{
	struct statx st;
	struct statfs fs;

	if (statx(AT_FDCWD, point, AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_INO | STATX_MNT_ID,
		    &st) < 0 ||
		!(st.stx_mask & STATX_MNT_ID) || st.stx_ino != 1 || st.stx_mnt_id > INT_MAX ||
		!(st.stx_attributes & STATX_ATTR_MOUNT_ROOT) || statfs(point, &fs) < 0 ||
		(uint32_t)fs.f_type != CGROUP2_SUPER_MAGIC)
		return false;
	*ret_id = (int)st.stx_mnt_id;
	return true;
}

/* In the first namespace of cgroups, whose number the kernel has in its proc_ns.h, the root of such
 * a mount is "/". */
#define FIRST_NAMESPACE 0xEFFFFFFBu

int cgmounts_find(struct cgmounts *ret_mounts)
{
	static const char *const usual[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	char root[] = "/", point[sizeof("/sys/fs/cgroup/unified")];
	struct stat ns;
	size_t i;
	int id;

	if (stat("/proc/self/ns/cgroup", &ns) == 0 && ns.st_ino == FIRST_NAMESPACE) {
		for (i = 0; i < ARRAY_SIZE(usual); i++) {
			if (!is_whole_mount(usual[i], &id))
				continue;
			(void)snprintf(point, sizeof(point), "%s", usual[i]);
			return add_mount(ret_mounts, id, root, point);
		}
	}
	return cgmounts_read(ret_mounts);
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

/* ---- this process's own group ---------------------------------------------------------------- */

static const char *name_of(const char *group)
{
	const char *slash = strrchr(group, '/');

	return slash ? slash + 1 : group;
}

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);

	return len > end_len && strcmp(text + len - end_len, end) == 0;
}

static bool is_unit(const char *name)
{
	return ends_with(name, ".service") || ends_with(name, ".scope") ||
		ends_with(name, ".slice");
}

bool own_is_our_leaf(const char *own)
{
	return strcmp(name_of(own), OWN_LEAF) == 0;
}

int own_get_above(const char *own, char **ret_above)
{
	const char *name = name_of(own);

	if (name == own || !*name || is_unit(name))
		return -ENOENT;
	*ret_above = name - own > 1 ? strndup(own, (size_t)(name - own - 1)) : strdup("/");
	return *ret_above ? 0 : -ENOMEM;
}

bool own_is_in_step(const char *own)
{
	const char *at = strstr(own, "/stepd/job_");

	return at && strstr(at, "/step_");
}

/* Whether the user's own systemd, user@UID.service, manages what is below it. */
static bool is_managed_by_user(const char *group)
{
	const char *at = strstr(group, "/user@");

	return at && strstr(at, ".service/");
}

static bool has_mark(int fd, const char *name)
{
	char value[8];
	ssize_t n = fgetxattr(fd, name, value, sizeof(value));

	return n == 1 && value[0] == '1';
}

static bool own_is_writable(_unused_ const char *group, int fd)
{
	return faccessat(fd, "cgroup.procs", W_OK, AT_EACCESS) == 0 &&
		faccessat(fd, ".", W_OK, AT_EACCESS) == 0;
}

/* And this is not root. */
static bool own_is_writable_by_user(const char *group, int fd)
{
	struct stat st;

	return geteuid() != 0 && fstatat(fd, "cgroup.procs", &st, 0) == 0 &&
		st.st_uid == geteuid() && own_is_writable(group, fd);
}

/* By systemd, and writable. */
static bool own_is_marked(const char *group, int fd)
{
	/* user@UID.service is delegated to the user's systemd, not to what runs below. */
	return strncmp(name_of(group), "user@", strlen("user@")) != 0 &&
		(has_mark(fd, "trusted.delegate") || has_mark(fd, "user.delegate")) &&
		own_is_writable(group, fd);
}

/* Marked, or a user's by chown(1). Root could write anywhere: for root only the mark counts. */
static bool own_is_delegated(const char *group, int fd)
{
	return own_is_marked(group, fd) ||
		(!is_managed_by_user(group) && own_is_writable_by_user(group, fd));
}

/* ---- a root without processes of its own ----------------------------------------------------- */

#define NAMED_MAX 3

/* -EBUSY if others are in the root; *ret_self: whether this process is. */
static int check_members(int root_fd, const char *path, bool *ret_self, struct err *err)
{
	_cleanup_pidset_ struct pidset set = {0};
	char one[256], names[512] = "";
	size_t i, others = 0, at = 0;
	int r = pidset_read_group(&set, root_fd);

	if (r < 0)
		return err_set(err, r, "list the processes of cgroup '%s'", path);
	*ret_self = false;
	for (i = 0; i < set.n; i++) {
		if (set.v[i] == getpid()) {
			*ret_self = true;
		} else if (others++ < NAMED_MAX && at < sizeof(names)) {
			procstat_describe(set.v[i], one, sizeof(one));
			at += (size_t)snprintf(
				names + at, sizeof(names) - at, "%s%s", at ? "; " : "", one);
		}
	}
	if (others == 0)
		return 0;
	return err_set_text(err, -EBUSY,
		"controllers can't be used below cgroup '%s' because processes are in it itself (%s%s); "
		"have them started in a group below it (DelegateSubgroup= in the unit, systemd 254), or "
		"have the step use a scope of its own (--scope=yes)",
		path, names, others > NAMED_MAX ? "; and more" : "");
}

static int move_self(int root_fd)
{
	_cleanup_close_ int fd = cgfile_make_group(root_fd, OWN_LEAF);

	return fd < 0 ? fd : fs_write(fd, "cgroup.procs", "0"); /* 0 is the writer */
}

int root_leave(int root_fd, struct err *err)
{
	char path[PATH_MAX];
	bool self = false;
	int r;

	/* The real root of the hierarchy has no such file, and no such rule. */
	if (faccessat(root_fd, "cgroup.type", F_OK, 0) < 0 && errno == ENOENT)
		return 0;
	(void)cgfile_get_path(root_fd, path); /* "?" serves as well */
	r = check_members(root_fd, path, &self, err);
	if (r < 0 || !self)
		return r;
	r = move_self(root_fd);
	return r < 0 ? err_set(err, r, "move this process into '%s/%s'", path, OWN_LEAF) : 0;
}

/* ---- the choice of a root -------------------------------------------------------------------- */

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

static const char *const origin_texts[ROOT_ORIGIN_MAX] = {
	[ROOT_CONFIGURED] = "as " ROOT_ENV " asks",
	[ROOT_DELEGATED] = "delegated to this process",
	[ROOT_SCOPE] = "a scope of systemd for this step",
	[ROOT_OWN] = "this process's own group",
	[ROOT_TOP] = "the top of the mount",
};

_printf_(4, 5) static void note_trial(struct cgroup_root *p, enum root_origin origin,
	enum root_outcome outcome, const char *fmt, ...)
{
	struct root_trial *trial = &p->trial[origin];
	va_list ap;

	trial->outcome = outcome;
	va_start(ap, fmt);
	(void)vsnprintf(trial->why, sizeof(trial->why), fmt, ap);
	va_end(ap);
}

/* ---- the mount ---------------------------------------------------------------------------- */

/* Asks libcgroup, which (2.0.2) knows a v2 mount only by the controllers bound to it: on hosts
 * that have them all in v1 it finds none. NULL then. */
static char *find_by_libcgroup(void)
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
	struct statx st;
	char name[40];
	uint64_t id = 0;
	int r;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) == 0 && (st.stx_mask & STATX_MNT_ID) &&
		st.stx_mnt_id <= INT_MAX)
		return (int)st.stx_mnt_id;
	(void)snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", fd);
	r = fs_read(AT_FDCWD, name, 1u << 16, &text, NULL);
	if (r == 0)
		r = parse_line_u64(text, "mnt_id:", &id);
	return r < 0 ? r : (int)id;
}

static bool is_shortage(int r)
{
	return r == -EMFILE || r == -ENFILE || r == -ENOMEM;
}

/* Opens a mount point: -ENODEV if another file system was mounted over it, or it can't be opened,
 * but for a want of descriptors or memory, which is not the mount's. */
static int open_mount(const struct cgmount *m)
{
	_cleanup_close_ int fd = open(m->point, OPEN_DIR);
	int id = fd < 0 ? -errno : cgfile_is_cgroup2(fd) ? mount_id_of(fd) : -ENODEV;

	if (is_shortage(id))
		return id;
	return id == m->id ? take_fd(&fd) : -ENODEV;
}

/* The mount that shows this process's cgroup, and of several the one that libcgroup names. 0, or
 * -errno where none of them can be judged; NULL: there is none. */
static int choose_mount(
	const struct cgmounts *mounts, const char *own, const struct cgmount **ret_mount)
{
	/* Of one mount there is nothing to choose, and asking costs 0.4 ms. */
	_cleanup_free_ char *named = mounts->n > 1 ? find_by_libcgroup() : NULL;
	const struct cgmount *best = NULL;
	int score, best_score = 0;
	size_t i;

	for (i = 0; i < mounts->n; i++) {
		const struct cgmount *m = &mounts->v[i];
		_cleanup_close_ int fd = open_mount(m);
		_cleanup_free_ char *path = NULL;

		if (is_shortage(fd))
			return fd;
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
	*ret_mount = best;
	return 0;
}

static int set_mount(struct cgroup_root *p, const struct cgmount *m, const char *own)
{
	_cleanup_close_ int fd = -1;
	const char *below = cgpath_below("/..", m->root);

	p->mount =
		(struct cgmount){.id = m->id, .root = strdup(m->root), .point = strdup(m->point)};
	if (!p->mount.root || !p->mount.point)
		return -ENOMEM;
	if (!below || !own)
		return 0;
	/* The mount begins above this cgroup namespace. Without the namespace's position in it,
	 * paths inside the namespace stay unknown, all others are right. */
	fd = open_mount(m);
	if (fd >= 0)
		(void)cgpath_find_ns_root(fd, m->root, own, &p->ns_root);
	return 0;
}

/* ---- the root ----------------------------------------------------------------------------- */

/* Takes fd as the root. path is its own, absolute. */
static int take_fd_as_root(
	struct cgroup_root *p, enum root_origin origin, int *fd, const char *path)
{
	const char *below = cgpath_below(p->mount.point, path);

	p->origin = origin;
	p->path = strdup(path);
	p->below = strdup(below ? below : "");
	if (!p->path || !p->below)
		return -ENOMEM;
	p->fd = take_fd(fd);
	return 0;
}

static int open_configured(
	struct cgroup_root *p, const struct cgmounts *mounts, const char *own, struct err *err)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX];
	size_t i;
	int id, r;

	if (p->configured[0] != '/')
		return err_set_text(err, -EINVAL,
			ROOT_ENV " is '%s'; it must be the absolute path of a cgroup2 directory",
			p->configured);
	fd = open(p->configured, OPEN_DIR);
	if (fd < 0)
		return err_set(err, -errno, ROOT_ENV ": open '%s'", p->configured);
	if (!cgfile_is_cgroup2(fd))
		return err_set_text(err, -EMEDIUMTYPE,
			ROOT_ENV
			": '%s' is not on a cgroup2 file system; name a directory below the "
			"cgroup2 mount ('findmnt -t cgroup2' shows it)",
			p->configured);
	id = mount_id_of(fd);
	for (i = 0; i < mounts->n && mounts->v[i].id != id; i++)
		;
	if (i == mounts->n)
		return err_set_text(err, -ENODEV,
			ROOT_ENV ": the mount of '%s' is not in /proc/self/mountinfo",
			p->configured);
	r = cgfile_get_path(fd, path);
	if (r == 0)
		r = set_mount(p, &mounts->v[i], own);
	if (r == 0)
		r = take_fd_as_root(p, ROOT_CONFIGURED, &fd, path);
	if (r == 0)
		note_trial(p, ROOT_CONFIGURED, ROOT_TAKEN, "'%s', %s", path,
			origin_texts[ROOT_CONFIGURED]);
	return r < 0 ? err_set(err, r, ROOT_ENV ": open '%s'", p->configured) : 0;
}

/* Opens the group of that path, as /proc/PID/cgroup has it: -1 where it can't be had. */
static int open_group(const struct cgroup_root *p, const char *group, char **ret_path)
{
	_cleanup_free_ char *below = NULL, *path = NULL;
	_cleanup_close_ int fd = -1;

	if (cgpath_map(p->mount.root, p->ns_root, group, &below) < 0 ||
		asprintf(&path, "%s%s%s", p->mount.point, *below ? "/" : "", below) < 0) {
		path = NULL; /* asprintf() leaves it undefined */
		return -1;
	}
	fd = open(path, OPEN_DIR);
	if (fd < 0 || !cgfile_is_cgroup2(fd))
		return -1;
	*ret_path = take_ptr(path);
	return take_fd(&fd);
}

/* 1: the group is the root now. 0: it is not to be. */
static int take_group(struct cgroup_root *p, enum root_origin origin, const char *group,
	bool (*test)(const char *group, int fd))
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = open_group(p, group, &path);
	int r;

	if (fd < 0 || !test(group, fd))
		return 0;
	r = take_fd_as_root(p, origin, &fd, path);
	if (r < 0)
		return r;
	note_trial(p, origin, ROOT_TAKEN, "'%s' is %s", path, origin_texts[origin]);
	return 1;
}

/* The group above, if this process is in a leaf of a delegated one; else its own. */
static int take_delegated(struct cgroup_root *p, const char *own)
{
	_cleanup_free_ char *above = NULL;
	int r;

	r = own_get_above(own, &above);
	if (r == 0)
		r = take_group(p, ROOT_DELEGATED, above,
			own_is_our_leaf(own) ? own_is_delegated : own_is_marked);
	if (r == 0 || r == -ENOENT)
		r = take_group(p, ROOT_DELEGATED, own, own_is_delegated);
	if (r == 0)
		note_trial(p, ROOT_DELEGATED, ROOT_REFUSED,
			"this process is in '%s', which nobody delegated (Delegate=yes in its unit)",
			own);
	return r;
}

/* ---- the scope ---------------------------------------------------------------------------- */

/* Whether to request one: 1, or 0 with the reason noted. */
static int wants_scope(struct cgroup_root *p, enum root_scope scope, const char *own)
{
	struct err err = ERR_INIT;
	int r;

	if (scope == ROOT_SCOPE_NO) {
		note_trial(p, ROOT_SCOPE, ROOT_REFUSED, "none was wanted");
		return 0;
	}
	/* A step within a step would leave it. */
	if (scope == ROOT_SCOPE_AUTO && own_is_in_step(own)) {
		note_trial(p, ROOT_SCOPE, ROOT_REFUSED, "this process is part of a step itself");
		return 0;
	}
	r = scope_check(&err);
	if (r < 0)
		note_trial(p, ROOT_SCOPE, r == -EOPNOTSUPP ? ROOT_REFUSED : ROOT_FAILED, "%s",
			err.text);
	return r == 0;
}

/* systemd has moved this process: what it is in now shows where that is, in any namespace. */
static int enter_scope(struct cgroup_root *p, const char *name, struct err *err)
{
	_cleanup_free_ char *own = NULL;
	int r = cgpath_of(0, &own);
	const char *base = r == 0 ? strrchr(own, '/') : NULL;

	if (!base || strcmp(base + 1, name) != 0)
		return err_set_text(err, -EXDEV,
			"systemd started the scope '%s', but this process is in cgroup '%s'", name,
			own ? own : "?");
	r = take_group(p, ROOT_SCOPE, own, own_is_writable);
	if (r == 0)
		return err_set_text(err, -EXDEV,
			"the scope's group '%s' can't be reached below the cgroup2 mount '%s'", own,
			p->mount.point);
	return r < 0 ? err_set(err, r, "use the scope '%s'", name) : 1;
}

/* 1: the scope's group is the root now. -errno: there is none. */
static int start_scope(struct cgroup_root *p, const stepd_step_rec_t *job, struct err *err)
{
	char name[SCOPE_NAME_SIZE], description[512];
	const struct scope_request request = {
		.name = name, .description = description, .timeout_ms = SCOPE_TIMEOUT_MS};
	int r = scope_make_name(job->node_name, job->job_id, job->step_name, getpid(), name);

	if (r < 0)
		return err_set(err, r, "name the scope of step %u.%s", job->job_id, job->step_name);
	(void)snprintf(description, sizeof(description), "stepd: step %u.%s of %s on %s",
		job->job_id, job->step_name, job->user_name, job->node_name);
	r = scope_start(&request, &p->scope_took_ms, err);
	return r < 0 ? r : enter_scope(p, name, err);
}

/* 1, 0, or -errno where one was insisted on. */
static int take_scope(
	struct cgroup_root *p, const struct root_request *request, const char *own, struct err *err)
{
	struct err reason = ERR_INIT;
	int r;

	if (!wants_scope(p, request->scope, own ? own : ""))
		r = 0;
	else if (!request->job) { /* a query only */
		note_trial(p, ROOT_SCOPE, ROOT_OFFERED, "each step requests one");
		r = 0;
	} else {
		r = start_scope(p, request->job, &reason);
		if (r < 0)
			note_trial(p, ROOT_SCOPE, ROOT_FAILED, "%s", reason.text);
	}
	if (r == 1 || request->scope != ROOT_SCOPE_YES)
		return r == 1;
	return err_set_text(err, r < 0 ? r : -EOPNOTSUPP,
		"no scope of systemd can be had for the step: %s", p->trial[ROOT_SCOPE].why);
}

/* ---- the choice --------------------------------------------------------------------------- */

static int open_top(struct cgroup_root *p, const struct cgmount *m)
{
	_cleanup_close_ int fd = open_mount(m);
	int r = fd < 0 ? fd : take_fd_as_root(p, ROOT_TOP, &fd, m->point);

	if (r == 0)
		note_trial(p, ROOT_TOP, ROOT_TAKEN, "'%s' is the top of the mount", m->point);
	return r;
}

static int open_found(struct cgroup_root *p, const struct cgmounts *mounts,
	const struct root_request *request, const char *own, struct err *err)
{
	const struct cgmount *m = NULL;
	int r, s;

	r = choose_mount(mounts, own, &m);
	if (r < 0)
		return err_set(err, r, "open the node's cgroup2 file system");
	if (!m)
		return err_set_text(err, -ENODEV,
			"no cgroup2 file system is mounted here; mount one "
			"('mount -t cgroup2 none /sys/fs/cgroup/unified') or use another tracker");
	note_trial(p, ROOT_CONFIGURED, ROOT_REFUSED, "none is configured");
	r = set_mount(p, m, own);
	if (r == 0 && own && request->scope != ROOT_SCOPE_YES)
		r = take_delegated(p, own);
	if (r == 0) {
		s = take_scope(p, request, own, err);
		if (s < 0)
			return s; /* err has the reason */
		r = s;
	}
	if (r == 0 && own)
		r = take_group(p, ROOT_OWN, own, own_is_writable_by_user);
	if (r == 0)
		r = open_top(p, m);
	return r < 0 ? err_set(err, r, "use the cgroup2 mount '%s'", m->point) : 0;
}

int root_open_for(
	const struct root_request *request, struct cgroup_root **ret_root, struct err *err)
{
	_cleanup_cgmounts_ struct cgmounts mounts = {0};
	_cleanup_cgroup_root_ struct cgroup_root *p = calloc(1, sizeof(*p));
	_cleanup_free_ char *own = NULL;
	int r;

	if (!p)
		return err_set(err, -ENOMEM, "find the cgroup2 mount");
	p->fd = -1;
	if (request->configured && *request->configured) {
		if (request->scope == ROOT_SCOPE_YES)
			return err_set_text(err, -EINVAL,
				"a scope of systemd is requested, and the root '%s' too (cgroup_root, " ROOT_ENV
				"); give one of them",
				request->configured);
		p->configured = strdup(request->configured);
		if (!p->configured)
			return err_set(err, -ENOMEM, "find the cgroup2 mount");
	}
	r = p->configured ? cgmounts_read(&mounts) : cgmounts_find(&mounts);
	if (r < 0)
		return err_set(err, r, "read /proc/self/mountinfo");
	r = cgpath_of(0, &own);
	if (r < 0 && r != -ENODATA)
		return err_set(err, r, "read /proc/self/cgroup");
	r = p->configured ? open_configured(p, &mounts, own, err)
			  : open_found(p, &mounts, request, own, err);
	if (r < 0)
		return r;
	*ret_root = take_ptr(p);
	return 0;
}

int root_open(const char *configured, struct cgroup_root **ret_root, struct err *err)
{
	return root_open_for(&(struct root_request){.configured = configured}, ret_root, err);
}

struct cgroup_root *root_close(struct cgroup_root *p)
{
	if (!p)
		return NULL;
	free(p->configured);
	free(p->mount.root);
	free(p->mount.point);
	free(p->ns_root);
	free(p->below);
	free(p->path);
	(void)close_fd(p->fd);
	free(p);
	return NULL;
}

const char *root_get_reason(const struct cgroup_root *p)
{
	return origin_texts[p->origin];
}

const char *root_explain(
	const struct cgroup_root *p, enum root_origin origin, enum root_outcome *ret_outcome)
{
	const struct root_trial *trial = &p->trial[origin];

	if (ret_outcome)
		*ret_outcome = trial->outcome;
	return trial->outcome == ROOT_PASSED_OVER ? "another was taken before it" : trial->why;
}

int root_map(const struct cgroup_root *p, const char *cgroup_path, char **ret_path)
{
	_cleanup_free_ char *path = NULL;
	const char *below;
	int r = cgpath_map(p->mount.root, p->ns_root, cgroup_path, &path);

	if (r < 0)
		return r == -ENODATA ? -ENOENT : r;
	below = cgpath_below(p->below, path);
	if (!below)
		return -ENOENT;
	*ret_path = strdup(below);
	return *ret_path ? 0 : -ENOMEM;
}
