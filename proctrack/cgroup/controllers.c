/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/controllers.h"

#include <fcntl.h>
#include <string.h>

#include "proctrack/cgroup/files.h"
#include "proctrack/cgroup/place.h"
#include "proctrack/cgroup/step.h"
#include "stepd/base/fs.h"

#define OPEN_UP (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

static const struct {
	const char *name;
	const char *v1_name; /* in /proc/cgroups */
	enum controller bit;
} controllers[] = {
	{"cpu", "cpu", CONTROLLER_CPU},
	{"cpuset", "cpuset", CONTROLLER_CPUSET},
	{"io", "blkio", CONTROLLER_IO},
	{"memory", "memory", CONTROLLER_MEMORY},
	{"pids", "pids", CONTROLLER_PIDS},
};

/* The groups above the step's and the step's, which need it for its tasks only. */
enum level {
	LEVEL_ROOT,
	LEVEL_TOP,
	LEVEL_JOB,
	LEVEL_STEP,
	LEVEL_COUNT
};

struct levels {
	int fd[LEVEL_COUNT];
};

unsigned controllers_parse(const char *text)
{
	unsigned set = 0;
	size_t i, len;

	for (; *text; text += len, text += strspn(text, " \n")) {
		len = strcspn(text, " \n");
		for (i = 0; i < ARRAY_SIZE(controllers); i++) {
			if (strlen(controllers[i].name) == len &&
				memcmp(controllers[i].name, text, len) == 0)
				set |= controllers[i].bit;
		}
	}
	return set;
}

void controllers_format(unsigned set, const char *prefix, char text[CONTROLLERS_MAX_TEXT])
{
	size_t i, n = 0;

	text[0] = '\0';
	for (i = 0; i < ARRAY_SIZE(controllers); i++) {
		if (set & controllers[i].bit)
			n += (size_t)snprintf(text + n, CONTROLLERS_MAX_TEXT - n, "%s%s%s",
				n ? " " : "", prefix, controllers[i].name);
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

static int say_not_in_kernel(const char *name, const char *v1_name, struct err *err)
{
	unsigned hierarchy, enabled;

	if (!find_in_kernel(v1_name, &hierarchy, &enabled))
		return err_say(
			err, -EOPNOTSUPP, "this kernel is built without the %s controller", name);
	if (!enabled)
		return err_say(err, -EOPNOTSUPP,
			"the %s controller is switched off at boot; take cgroup_disable=%s from the "
			"kernel's command line",
			name, name);
	if (hierarchy)
		return err_say(err, -EOPNOTSUPP,
			"cgroup v2 is without the %s controller because it is in use by cgroup v1; boot "
			"with systemd.unified_cgroup_hierarchy=1, or with cgroup_no_v1=%s",
			name, v1_name);
	return err_say(err, -EOPNOTSUPP, "cgroup v2 does not offer the %s controller here", name);
}

/* fd has the controller, and a group below it has not. */
static int say_kept(int fd, const char *name, unsigned bit, struct err *err)
{
	char path[PATH_MAX];
	unsigned on = 0;

	(void)cgfile_get_path(fd, path);
	if (read_set(fd, "cgroup.subtree_control", &on) == 0 && on & bit)
		return err_say(err, -EOPNOTSUPP,
			"'%.400s' hands the %s controller down, but the group below it is threaded and "
			"can't use it; name another root by " PLACE_ENV,
			path, name);
	return err_say(err, -EOPNOTSUPP,
		"the %s controller is not switched on in '%.400s/cgroup.subtree_control'; write '+%s' "
		"there, or delegate the group (Delegate=yes in its systemd unit)",
		name, path, name);
}

/* Goes up from a group that lacks the controller to the one that has it and keeps it. */
static int say_not_offered(int root_fd, size_t which, struct err *err)
{
	const char *name = controllers[which].name;
	_cleanup_close_ int fd = openat(root_fd, ".", OPEN_UP);
	char path[PATH_MAX];
	unsigned set = 0;
	int above;

	while (fd >= 0) {
		above = openat(fd, "..", OPEN_UP);
		if (above >= 0 && !cgfile_is_cgroup2(above))
			above = close_fd(above); /* fd is the mount's root */
		if (above < 0)
			break;
		(void)close_fd(fd);
		fd = above;
		if (read_set(fd, "cgroup.controllers", &set) == 0 && set & controllers[which].bit)
			return say_kept(fd, name, controllers[which].bit, err);
	}
	if (fd >= 0 && faccessat(fd, "cgroup.type", F_OK, 0) < 0) /* the very top has none */
		return say_not_in_kernel(name, controllers[which].v1_name, err);
	(void)cgfile_get_path(root_fd, path);
	return err_say(err, -EOPNOTSUPP,
		"'%.400s/cgroup.controllers' does not offer the %s controller; have it delegated to "
		"this container",
		path, name);
}

static int say_refused(int fd, const char *names, int r, struct err *err)
{
	char path[PATH_MAX];

	(void)cgfile_get_path(fd, path);
	if (r == -EOPNOTSUPP)
		return err_say(err, r,
			"the controllers '%s' can't be switched on in '%.400s/cgroup.subtree_control', "
			"because its cgroup.type is threaded or invalid; name another root by " PLACE_ENV,
			names, path);
	if (r == -EACCES || r == -EPERM || r == -EROFS)
		return err_say(err, -EOPNOTSUPP,
			"the controllers '%s' can't be switched on in '%.400s/cgroup.subtree_control'; "
			"run as root, or have the group delegated (Delegate=yes): %s",
			names, path, strerror(-r));
	if (r == -EINVAL)
		return err_say(err, -EOPNOTSUPP,
			"the controllers '%s' can't be switched on in '%.400s/cgroup.subtree_control' "
			"while real-time processes are in that group or below it, or this kernel refuses "
			"them for another reason (dmesg)",
			names, path);
	return err_set(err, r, "write '%s' to '%.400s/cgroup.subtree_control'", names, path);
}

/* ---- switching on ------------------------------------------------------------------------- */

/* The kernel would take cpu, cpuset and pids for a group with processes, and make it a threaded
 * domain whose children take none: so it is looked for before. */
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
 * fails, so that one refused controller doesn't keep the others away. */
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
	for (i = 0, r = 0; i < ARRAY_SIZE(controllers); i++) {
		controllers_format(set & controllers[i].bit, "+", text);
		one = *text ? fs_write(fd, "cgroup.subtree_control", text) : 0;
		if (one < 0)
			r = one;
	}
	return r;
}

/* -EBUSY here, and here only, means that the agent or who started it sits in the root itself. The
 * agent leaves it then; of others err tells. */
static int enable_in_root(int fd, unsigned set, struct err *err)
{
	int r = enable_in(fd, set);

	if (r != -EBUSY)
		return r;
	r = place_leave_root(fd, err);
	return r < 0 ? r : enable_in(fd, set);
}

static void levels_close(struct levels *l)
{
	size_t i;

	for (i = 0; i < LEVEL_COUNT; i++)
		l->fd[i] = close_fd(l->fd[i]);
}

/* By "..", which is right whatever root was asked for since the step was made. */
static int levels_open(const struct step_dir *dir, struct levels *l)
{
	int i, fd = dir->fd;

	for (i = LEVEL_STEP; i >= LEVEL_ROOT; i--) {
		l->fd[i] = openat(fd, i == LEVEL_STEP ? "." : "..", OPEN_UP);
		if (l->fd[i] < 0)
			return cgfile_gone(-errno);
		fd = l->fd[i];
	}
	return 0;
}

/* The lowest group that hands down. */
static int last_level(bool for_tasks)
{
	return for_tasks ? LEVEL_STEP : LEVEL_JOB;
}

/* Down from the root. Whether it worked shows in what each group then offers. */
static int enable_below(const struct levels *l, unsigned set, bool for_tasks, struct err *err)
{
	int last = last_level(for_tasks), i, r = 0;
	char names[CONTROLLERS_MAX_TEXT];

	controllers_format(set, "", names);
	for (i = LEVEL_ROOT; r == 0 && i <= last; i++) {
		r = i == LEVEL_ROOT ? enable_in_root(l->fd[i], set, err) : enable_in(l->fd[i], set);
		if (r == -ENOENT || r == -ENODEV)
			return err_set(err, -ESRCH, "switch on the controllers '%s'", names);
		if (r < 0 && err && err->code)
			return -EOPNOTSUPP; /* told by place_leave_root() */
		if (r < 0)
			return say_refused(l->fd[i], names, r, err);
	}
	return r;
}

int controllers_enable(const struct step_dir *dir, unsigned set, bool for_tasks, struct err *err)
{
	_cleanup_(levels_close) struct levels l = {.fd = {-1, -1, -1, -1}};
	unsigned offered = 0;
	size_t i;
	int r = levels_open(dir, &l);

	if (r == 0)
		r = cgfile_gone(read_set(l.fd[LEVEL_ROOT], "cgroup.controllers", &offered));
	if (r < 0)
		return err_set(err, r, "look at the cgroups of '%s'", dir->name);
	for (i = 0; i < ARRAY_SIZE(controllers); i++) {
		if (set & controllers[i].bit & ~offered)
			return say_not_offered(l.fd[LEVEL_ROOT], i, err);
	}
	return enable_below(&l, set, for_tasks, err);
}

void controllers_enable_accounting(const struct step_dir *dir, bool for_tasks)
{
	int last = last_level(for_tasks);
	_cleanup_(levels_close) struct levels l = {.fd = {-1, -1, -1, -1}};
	unsigned set = 0;
	int i, r = levels_open(dir, &l);

	/* Each group hands down what it got; one that got less than was asked for is no failure. */
	for (i = LEVEL_ROOT; r == 0 && i <= last; i++) {
		r = read_set(l.fd[i], "cgroup.controllers", &set);
		set &= CONTROLLERS_ACCOUNTING;
		if (r < 0 || !set)
			break;
		(void)(i == LEVEL_ROOT ? enable_in_root(l.fd[i], set, NULL)
				       : enable_in(l.fd[i], set));
	}
}
