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
	enum controller bit;
} controllers[] = {
	{"cpu", CONTROLLER_CPU},
	{"cpuset", CONTROLLER_CPUSET},
	{"io", CONTROLLER_IO},
	{"memory", CONTROLLER_MEMORY},
	{"pids", CONTROLLER_PIDS},
};

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

static int say_not_offered(int root_fd, enum controller which, struct err *err)
{
	struct controllers_why why;

	controllers_explain(root_fd, which, &why);
	return err_say(err, -EOPNOTSUPP, "%s; %s", why.text, why.remedy);
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
			return -EOPNOTSUPP; /* told by place_leave_root() */
		if (r < 0)
			return say_refused(l->fd[i], names, r, err);
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
		return err_set(err, r, "look at the cgroups of '%s'", dir->name);
	for (i = 0; i < ARRAY_SIZE(controllers); i++) {
		if (set & controllers[i].bit & ~offered)
			return say_not_offered(l.fd[LEVEL_ROOT], controllers[i].bit, err);
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
