/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/controllers.h"

#include <fcntl.h>
#include <mntent.h>
#include <string.h>

#include "proctrack/cgroup/group.h"
#include "proctrack/cgroup/root.h"
#include "proctrack/cgroup/step.h"
#include "stepd/base/fs.h"

static const struct row {
	enum controller bit;
	const char *name;
	const char *v1_name; /* in /proc/cgroups */
	const char *config;  /* the kernel's options */
} rows[] = {
	{CONTROLLER_CPU, "cpu", "cpu", "CONFIG_CGROUP_SCHED"},
	{CONTROLLER_CPUSET, "cpuset", "cpuset", "CONFIG_CPUSETS"},
	{CONTROLLER_IO, "io", "blkio", "CONFIG_BLK_CGROUP"},
	{CONTROLLER_MEMORY, "memory", "memory", "CONFIG_MEMCG"},
	{CONTROLLER_PIDS, "pids", "pids", "CONFIG_CGROUP_PIDS"},
};

/* ---- why one is missing ---------------------------------------------------------------------- */

/* Why a group lacks a controller: a group above retains it, cgroup v1 has it, it was disabled at
 * the boot, or the kernel has none. */

#define OPEN_UP (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

#define set_text(buf, ...) (void)snprintf(buf, sizeof(buf), __VA_ARGS__)

bool controllers_find_v1(const char *v1_name, char path[PATH_MAX])
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	struct mntent m;
	char buf[PATH_MAX];
	bool found = false;

	while (f && !found && getmntent_r(f, &m, buf, sizeof(buf))) {
		found = strcmp(m.mnt_type, "cgroup") == 0 && hasmntopt(&m, v1_name);
		if (found)
			(void)snprintf(path, PATH_MAX, "%s", m.mnt_dir);
	}
	if (f)
		(void)endmntent(f);
	return found;
}

/* The controller's line in /proc/cgroups: "NAME HIERARCHY GROUPS ENABLED". false: none. */
static bool find_in_kernel(const char *v1_name, unsigned *ret_hierarchy, unsigned *ret_enabled)
{
	_cleanup_free_ char *text = NULL;
	size_t len = strlen(v1_name);
	const char *line;

	if (fs_read(AT_FDCWD, "/proc/cgroups", CGFILE_MAX_BYTES, &text, NULL) < 0)
		return false;
	for (line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		if (strncmp(line, v1_name, len) == 0 && line[len] == '\t')
			return sscanf(line + len, "%u %*u %u", ret_hierarchy, ret_enabled) == 2;
	}
	return false;
}

/* Whether the kernel's command line has it off: some kernels don't list what v1 does not know. */
static bool is_disabled_at_boot(const char *name)
{
	static const char key[] = "cgroup_disable=";
	_cleanup_free_ char *line = NULL;
	char *option, *one, *at;

	if (fs_read(AT_FDCWD, "/proc/cmdline", CGFILE_MAX_BYTES, &line, NULL) < 0)
		return false;
	for (at = line; (option = strsep(&at, " \n"));) {
		if (strncmp(option, key, strlen(key)) != 0)
			continue;
		for (option += strlen(key); (one = strsep(&option, ","));) {
			if (strcmp(one, name) == 0)
				return true;
		}
	}
	return false;
}

/* The kernel's own report, whatever a container shows of the hierarchy: false if nothing. */
static bool explain_kernel(const struct row *row, struct controllers_why *why)
{
	unsigned hierarchy = 0, enabled = 1;
	char path[PATH_MAX];
	bool seen;

	(void)find_in_kernel(row->v1_name, &hierarchy, &enabled); /* else neither is known */
	if (!enabled || is_disabled_at_boot(row->name)) {
		set_text(why->text, "the %s controller is switched off at boot", row->name);
		set_text(why->remedy, "take cgroup_disable=%s from the kernel's command line",
			row->name);
		return true;
	}
	if (!hierarchy)
		return false;
	seen = controllers_find_v1(row->v1_name, path);
	set_text(why->text,
		"cgroup v2 is without the %s controller because it is in use by cgroup v1, mounted "
		"%s%.400s%s",
		row->name, seen ? "at '" : "out of sight", seen ? path : "", seen ? "'" : "");
	set_text(why->remedy,
		"boot with systemd.unified_cgroup_hierarchy=1, or with cgroup_no_v1=%s",
		row->v1_name);
	return true;
}

/* fd is the highest group that can be seen; path is where steps hang. */
static void explain_top(
	int fd, const struct row *row, const char *path, struct controllers_why *why)
{
	unsigned hierarchy, enabled;

	if (fd < 0 || faccessat(fd, "cgroup.type", F_OK, 0) == 0) { /* the very top has none */
		set_text(why->text, "'%.400s/cgroup.controllers' does not offer the %s controller",
			path, row->name);
		set_text(why->remedy, "have it delegated to this container");
	} else if (find_in_kernel(row->v1_name, &hierarchy, &enabled)) {
		set_text(why->text, "cgroup v2 does not offer the %s controller here", row->name);
		set_text(why->remedy, "boot with systemd.unified_cgroup_hierarchy=1");
	} else {
		set_text(why->text, "this kernel is built without the %s controller", row->name);
		set_text(why->remedy, "boot one that is built with %s", row->config);
	}
}

/* The group at fd has the controller, and a group below it, on the way to path, has not. */
static void explain_withheld(
	int fd, const struct row *row, const char *path, struct controllers_why *why)
{
	_cleanup_free_ char *on = NULL;
	char above[PATH_MAX];

	(void)cgfile_get_path(fd, above);
	if (fs_read(fd, "cgroup.subtree_control", CGFILE_MAX_BYTES, &on, NULL) == 0 &&
		controllers_parse(on) & row->bit) {
		set_text(why->text,
			"'%.400s' hands the %s controller down, but the group below it is threaded "
			"and can't use it",
			above, row->name);
		set_text(why->remedy, "name another root by " ROOT_ENV);
		return;
	}
	set_text(why->text,
		"the %s controller is not switched on in '%.400s/cgroup.subtree_control'",
		row->name, above);
	if (strstr(path, "/user@"))
		set_text(why->remedy,
			"put 'Delegate=cpu cpuset io memory pids' below [Service] in a drop-in of "
			"user@.service (systemctl edit user@.service), and log in again");
	else
		set_text(why->remedy,
			"write '+%s' there, or delegate the group (Delegate=yes in its systemd unit)",
			row->name);
}

void controllers_explain(int root_fd, enum controller which, struct controllers_why *ret_why)
{
	_cleanup_close_ int fd = openat(root_fd, ".", OPEN_UP);
	const struct row *row = rows;
	char path[PATH_MAX];
	int above;

	while (row->bit != which)
		row++; /* it has them all */
	(void)cgfile_get_path(root_fd, path);
	/* Goes up from a group that lacks it to the one that has it and retains it. */
	while (fd >= 0) {
		_cleanup_free_ char *had = NULL;

		above = openat(fd, "..", OPEN_UP);
		if (above >= 0 && !cgfile_is_cgroup2(above))
			above = close_fd(above); /* fd is the mount's root */
		if (above < 0)
			break;
		(void)close_fd(fd);
		fd = above;
		if (fs_read(fd, "cgroup.controllers", CGFILE_MAX_BYTES, &had, NULL) == 0 &&
			controllers_parse(had) & which) {
			explain_withheld(fd, row, path, ret_why);
			return;
		}
	}
	if (!explain_kernel(row, ret_why))
		explain_top(fd, row, path, ret_why);
}

/* ---- enabling -------------------------------------------------------------------------------- */

/* The groups above the step's, the step's, which needs it for its tasks only, and STEP_MEMBERS
 * where the step is split: then that one does, and the step's for the two groups below it. */
enum level {
	LEVEL_ROOT,
	LEVEL_TOP,
	LEVEL_JOB,
	LEVEL_STEP,
	LEVEL_MEMBERS,
	LEVEL_COUNT
};

struct levels {
	int fd[LEVEL_COUNT];
};

#define LEVELS_INIT                                                                                \
	{                                                                                          \
		.fd = { -1, -1, -1, -1, -1 }                                                       \
	}

unsigned controllers_parse(const char *text)
{
	unsigned set = 0;
	size_t i, len;

	for (; *text; text += len, text += strspn(text, " \n")) {
		len = strcspn(text, " \n");
		for (i = 0; i < ARRAY_SIZE(rows); i++) {
			if (strlen(rows[i].name) == len && memcmp(rows[i].name, text, len) == 0)
				set |= rows[i].bit;
		}
	}
	return set;
}

void controllers_format(unsigned set, const char *prefix, char text[CONTROLLERS_MAX_TEXT])
{
	size_t i, n = 0;

	text[0] = '\0';
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (set & rows[i].bit)
			n += (size_t)snprintf(text + n, CONTROLLERS_MAX_TEXT - n, "%s%s%s",
				n ? " " : "", prefix, rows[i].name);
	}
}

static int read_set(int fd, const char *file, unsigned *ret_set)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(fd, file, CGFILE_MAX_BYTES, &text, NULL);

	if (r == 0)
		*ret_set = controllers_parse(text);
	return r;
}

/* ---- why not ------------------------------------------------------------------------------ */

static int err_not_offered(int root_fd, enum controller which, struct err *err)
{
	struct controllers_why why;

	controllers_explain(root_fd, which, &why);
	return err_set_text(err, -EOPNOTSUPP, "%s; %s", why.text, why.remedy);
}

static int err_refused(int fd, const char *names, int r, struct err *err)
{
	char path[PATH_MAX];

	(void)cgfile_get_path(fd, path);
	if (r == -EOPNOTSUPP)
		return err_set_text(err, r,
			"the controllers '%s' can't be switched on in '%.400s/cgroup.subtree_control', "
			"because its cgroup.type is threaded or invalid; name another root by " ROOT_ENV,
			names, path);
	if (r == -EACCES || r == -EPERM || r == -EROFS)
		return err_set_text(err, -EOPNOTSUPP,
			"the controllers '%s' can't be switched on in '%.400s/cgroup.subtree_control'; "
			"run as root, or have the group delegated (Delegate=yes): %s",
			names, path, strerror(-r));
	if (r == -EINVAL)
		return err_set_text(err, -EOPNOTSUPP,
			"the controllers '%s' can't be switched on in '%.400s/cgroup.subtree_control' "
			"while real-time processes are in that group or below it, or this kernel refuses "
			"them for another reason (dmesg)",
			names, path);
	return err_set(err, r, "write '%s' to '%.400s/cgroup.subtree_control'", names, path);
}

/* ---- switching on ------------------------------------------------------------------------- */

/* The kernel would take cpu, cpuset and pids for a group with processes, and make it a threaded
 * domain whose children take none: so that is checked before. */
static bool holds_processes(int fd)
{
	_cleanup_close_ int procs = -1;
	char c;

	if (faccessat(fd, "cgroup.type", F_OK, 0) < 0)
		return false; /* the top of the hierarchy may */
	procs = openat(fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	return procs >= 0 && read(procs, &c, 1) == 1;
}

/* Switches on in one group what of set is not on; one write for all, and one for each if that
 * fails, so that one refused controller doesn't take the others along. */
static int enable_in(int fd, unsigned set)
{
	char text[CONTROLLERS_MAX_TEXT];
	unsigned on = 0;
	size_t i;
	int r = read_set(fd, "cgroup.subtree_control", &on), one;

	set &= ~on;
	if (r < 0 || !set)
		return r;
	if (holds_processes(fd))
		return -EBUSY;
	controllers_format(set, "+", text);
	r = fs_write(fd, "cgroup.subtree_control", text);
	if (r == 0 || r == -EBUSY || r == -EACCES)
		return r;
	for (i = 0, r = 0; i < ARRAY_SIZE(rows); i++) {
		controllers_format(set & rows[i].bit, "+", text);
		one = *text ? fs_write(fd, "cgroup.subtree_control", text) : 0;
		if (one < 0)
			r = one;
	}
	return r;
}

/* -EBUSY here, and here only, means that the agent or its parent is in the root itself. The
 * agent leaves it then; err names others. */
static int enable_in_root(int fd, unsigned set, struct err *err)
{
	int r = enable_in(fd, set);

	if (r != -EBUSY)
		return r;
	r = root_leave(fd, err);
	return r < 0 ? r : enable_in(fd, set);
}

static void levels_close(struct levels *l)
{
	size_t i;

	for (i = 0; i < LEVEL_COUNT; i++)
		l->fd[i] = close_fd(l->fd[i]);
}

/* By "..", which is right whatever root was configured since the step was made. */
static int levels_open(const struct step_dir *dir, struct levels *l)
{
	int i, fd = dir->fd;

	if (dir->members_fd >= 0) {
		l->fd[LEVEL_MEMBERS] = openat(dir->members_fd, ".", OPEN_UP);
		if (l->fd[LEVEL_MEMBERS] < 0)
			return cgfile_gone(-errno);
	}
	for (i = LEVEL_STEP; i >= LEVEL_ROOT; i--) {
		l->fd[i] = openat(fd, i == LEVEL_STEP ? "." : "..", OPEN_UP);
		if (l->fd[i] < 0)
			return cgfile_gone(-errno);
		fd = l->fd[i];
	}
	return 0;
}

/* The lowest group that hands down. */
static int last_level(const struct levels *l, bool for_tasks)
{
	bool is_split = l->fd[LEVEL_MEMBERS] >= 0;

	return (for_tasks ? LEVEL_STEP : LEVEL_JOB) + is_split;
}

/* Down from the root. Whether it worked shows in what each group then offers. */
static int enable_below(const struct levels *l, unsigned set, bool for_tasks, struct err *err)
{
	int last = last_level(l, for_tasks), i, r = 0;
	char names[CONTROLLERS_MAX_TEXT];

	controllers_format(set, "", names);
	for (i = LEVEL_ROOT; r == 0 && i <= last; i++) {
		r = i == LEVEL_ROOT ? enable_in_root(l->fd[i], set, err) : enable_in(l->fd[i], set);
		if (r == -ENOENT || r == -ENODEV)
			return err_set(err, -ESRCH, "switch on the controllers '%s'", names);
		if (r < 0 && err && err->code)
			return -EOPNOTSUPP; /* reported by root_leave() */
		if (r < 0)
			return err_refused(l->fd[i], names, r, err);
	}
	return r;
}

int controllers_enable(const struct step_dir *dir, unsigned set, bool for_tasks, struct err *err)
{
	_cleanup_(levels_close) struct levels l = LEVELS_INIT;
	unsigned offered = 0;
	size_t i;
	int r = levels_open(dir, &l);

	if (r == 0)
		r = cgfile_gone(read_set(l.fd[LEVEL_ROOT], "cgroup.controllers", &offered));
	if (r < 0)
		return err_set(err, r, "open the cgroups of '%s'", dir->name);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (set & rows[i].bit & ~offered)
			return err_not_offered(l.fd[LEVEL_ROOT], rows[i].bit, err);
	}
	return enable_below(&l, set, for_tasks, err);
}

void controllers_enable_members(const struct step_dir *dir)
{
	unsigned set = 0;

	if (read_set(dir->members_fd, "cgroup.controllers", &set) == 0 &&
		set & CONTROLLERS_ACCOUNTING)
		(void)enable_in(dir->members_fd, set & CONTROLLERS_ACCOUNTING); /* goes without */
}

void controllers_enable_accounting(const struct step_dir *dir, bool for_tasks)
{
	_cleanup_(levels_close) struct levels l = LEVELS_INIT;
	unsigned set = 0;
	int i, r = levels_open(dir, &l), last = last_level(&l, for_tasks);

	/* Each group hands down what it got; one that got less is no failure. */
	for (i = LEVEL_ROOT; r == 0 && i <= last; i++) {
		r = read_set(l.fd[i], "cgroup.controllers", &set);
		set &= CONTROLLERS_ACCOUNTING;
		if (r < 0 || !set)
			break;
		(void)(i == LEVEL_ROOT ? enable_in_root(l.fd[i], set, NULL)
				       : enable_in(l.fd[i], set));
	}
}
