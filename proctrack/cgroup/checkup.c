/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"
#include "proctrack/cgroup/controllers.h"
#include "proctrack/cgroup/devices.h"
#include "proctrack/cgroup/group.h"
#include "proctrack/cgroup/libcgroup.h"
#include "proctrack/cgroup/limits.h"
#include "proctrack/cgroup/probe.h"
#include "proctrack/cgroup/root.h"
#include "proctrack/reporter.h"
#include "stepd/base/fs.h"
#include "stepd/base/proc.h"
#include "systemd/systemd.h"

/* ---- limits ------------------------------------------------------------------------------- */

/* Whether a step would hang in a scope of its own instead. */
static bool is_scope(const struct cgroup_root *root)
{
	enum root_outcome outcome;

	(void)root_explain(root, ROOT_SCOPE, &outcome); /* the outcome is enough */
	return outcome == ROOT_OFFERED;
}

static const struct row {
	const char *id;
	enum controller controller;
} controller_rows[] = {
	{.id = "cgroup.limits.memory", CONTROLLER_MEMORY},
	{.id = "cgroup.limits.pids", CONTROLLER_PIDS},
	{.id = "cgroup.limits.cpu", CONTROLLER_CPU},
	{.id = "cgroup.limits.cpuset", CONTROLLER_CPUSET},
	{.id = "cgroup.limits.io", CONTROLLER_IO},
};

/* The limits that a controller gives. */
struct names {
	char all[128];
	char there[128], missing[128]; /* in the trial group */
	const char *why_missing;       /* NULL: not known */
};

static void get_names(enum controller controller, int trial_fd, struct names *ret)
{
	const char *name, *absent;
	unsigned needed;
	int i;

	*ret = (struct names){.why_missing = NULL};
	for (i = 0; i < STEPD_LIMIT_COUNT; i++) {
		name = limits_get_name(i, &needed, &absent);
		if (needed != controller)
			continue;
		reporter_list(ret->all, sizeof(ret->all), name);
		if (faccessat(trial_fd, name, F_OK, 0) == 0) {
			reporter_list(ret->there, sizeof(ret->there), name);
			continue;
		}
		reporter_list(ret->missing, sizeof(ret->missing), name);
		ret->why_missing = absent;
	}
}

static unsigned read_set(int fd, const char *file)
{
	_cleanup_free_ char *text = NULL;

	return fs_read(fd, file, CGFILE_MAX_BYTES, &text, NULL) == 0 ? controllers_parse(text) : 0;
}

/* Whether the root has the controller, or can have it: by name. */
static bool is_offered(const struct cgroup_root *root, const char *controller)
{
	return controllers_parse(controller) & read_set(root->fd, "cgroup.controllers");
}

/* A process in the root of the steps itself, other than this one: its pid, or 0. Beside processes
 * the kernel hands down no memory or io, and the others to threads only. The top of the hierarchy,
 * which has no cgroup.type, may have any; a scope begins with none but the agent. */
static pid_t find_in_the_way(const struct cgroup_root *root)
{
	_cleanup_free_ char *text = NULL;
	char *line, *at;
	pid_t pid;

	if (is_scope(root) || faccessat(root->fd, "cgroup.type", F_OK, 0) < 0 ||
		fs_read(root->fd, "cgroup.procs", 16u << 20, &text, NULL) < 0)
		return 0;
	for (at = text; (line = strsep(&at, "\n"));) {
		pid = (pid_t)strtol(line, NULL, 10);
		if (pid > 0 && pid != getpid())
			return pid;
	}
	return 0;
}

static void report_in_the_way(const struct reporter *reporter, const struct cgroup_root *root,
	const struct row *row, const char *names, pid_t pid)
{
	struct procstat st;

	if (procstat_read(pid, &st) < 0)
		(void)snprintf(st.comm, sizeof(st.comm), "?"); /* it has ended */
	reporter_add(reporter, STEPD_FINDING_WARNING, row->id, NULL,
		"keep other processes out of that group: DelegateSubgroup= in the unit (systemd 254), "
		"or a group below it for them",
		"%s can't be limited: the kernel hands no controllers down beside processes, and pid "
		"%d (%s) is in '%s' itself",
		names, (int)pid, st.comm, root->path);
}

/* Handed down by the root: then the trial group has the files. */
static void report_enabled(
	const struct reporter *reporter, const struct row *row, const struct names *n, int trial_fd)
{
	char order[CONTROLLERS_MAX_TEXT];
	int r;

	controllers_format(row->controller, "+", order);
	r = fs_write(trial_fd, "cgroup.subtree_control", order);
	if (r < 0)
		reporter_add(reporter, STEPD_FINDING_WARNING, row->id, NULL,
			"see whether a group above is threaded, or real-time processes are in the way",
			"%s can't be limited: a new group refuses '%s' in cgroup.subtree_control: %s",
			n->all, order, strerror(-r));
	else if (n->missing[0])
		reporter_add(reporter, STEPD_FINDING_WARNING, row->id, n->there, NULL,
			"%s can be limited, %s not: %s", n->there[0] ? n->there : "nothing",
			n->missing,
			n->why_missing ? n->why_missing : "this kernel has no such file");
	else
		reporter_add(reporter, STEPD_FINDING_OK, row->id, n->there, NULL,
			"%s can be limited", n->there);
}

/* It has only to be switched on, which is left to the first step that needs it. */
static void report_offered(const struct reporter *reporter, const struct cgroup_root *root,
	const struct row *row, const struct names *n)
{
	char remedy[640];
	pid_t pid = find_in_the_way(root);

	if (faccessat(root->fd, "cgroup.subtree_control", W_OK, AT_EACCESS) < 0) {
		(void)snprintf(remedy, sizeof(remedy),
			"chown uid %u '%.400s/cgroup.subtree_control', as a delegation does",
			(unsigned)geteuid(), root->path);
		reporter_add(reporter, STEPD_FINDING_WARNING, row->id, NULL, remedy,
			"%s can't be limited: '%s/cgroup.subtree_control' can't be written: %s",
			n->all, root->path, strerror(errno));
	} else if (pid > 0) {
		report_in_the_way(reporter, root, row, n->all, pid);
	} else {
		reporter_add(reporter, STEPD_FINDING_OK, row->id, n->all, NULL,
			"%s can be limited: '%s' hands the controller down when a step needs it",
			n->all, root->path);
	}
}

static void report_absent(const struct reporter *reporter, const struct cgroup_root *root,
	const struct row *row, const struct names *n)
{
	struct controllers_why why;

	controllers_explain(root->fd, row->controller, &why);
	reporter_add(reporter, STEPD_FINDING_WARNING, row->id, NULL, why.remedy,
		"%s can't be limited: %s", n->all, why.text);
}

/* ---- devices ------------------------------------------------------------------------------ */

/* The program goes with the group. */
static void report_devices(const struct reporter *reporter, int trial_fd)
{
	static const stepd_device_rule_t all = {.type = 'a',
		.major = STEPD_DEVICE_ANY,
		.minor = STEPD_DEVICE_ANY,
		.access = STEPD_DEVICE_READ | STEPD_DEVICE_WRITE | STEPD_DEVICE_MKNOD};
	struct err err = ERR_INIT;

	if (devices_set(trial_fd, &all, 1, &err) == 0)
		reporter_add(reporter, STEPD_FINDING_OK, "cgroup.limits.devices", "devices", NULL,
			"access to devices can be limited (a BPF program on the group)");
	else
		reporter_add(reporter, STEPD_FINDING_WARNING, "cgroup.limits.devices", NULL,
			"run the agent as root with CAP_BPF and CAP_NET_ADMIN, with bpf allowed in the "
			"seccomp filter, on a kernel built with CONFIG_CGROUP_BPF",
			"access to devices can't be limited: %.*s", (int)strcspn(err.text, ";"),
			err.text);
}

/* Which limits can be set below the root. trial_fd is an empty group right below it. */
static void checkup_limits(
	const struct reporter *reporter, const struct cgroup_root *root, int trial_fd)
{
	unsigned on = read_set(root->fd, "cgroup.subtree_control");
	unsigned offered = read_set(root->fd, "cgroup.controllers");
	struct names names;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(controller_rows); i++) {
		get_names(controller_rows[i].controller, trial_fd, &names);
		if (on & controller_rows[i].controller)
			report_enabled(reporter, &controller_rows[i], &names, trial_fd);
		else if (offered & controller_rows[i].controller)
			report_offered(reporter, root, &controller_rows[i], &names);
		else
			report_absent(reporter, root, &controller_rows[i], &names);
	}
	report_devices(reporter, trial_fd);
}

/* ---- capacity ----------------------------------------------------------------------------- */

#define STEP_LEVELS 4 /* stepd/job_J/step_S/task_T */

static const struct capacity {
	const char *id, *max_file, *now_file, *now_key; /* the key stands before what is used */
	uint64_t needed, few; /* few are soon used up by an ordinary step */
	const char *unlimited;
	const char *text[2], *remedy[2]; /* before and behind the path of the group */
} capacities[] = {
	{.id = "cgroup.groups",
		.max_file = "cgroup.max.descendants",
		.now_file = "cgroup.stat",
		.now_key = "nr_descendants ",
		.needed = STEP_LEVELS,
		.few = 256,
		.unlimited = "the number of groups is not limited",
		.text = {"groups can be made below",
			", and a step takes one a task and three more"},
		.remedy = {"raise cgroup.max.descendants in", ""}},
	{.id = "cgroup.processes",
		.max_file = "pids.max",
		.now_file = "pids.current",
		.now_key = "",
		.needed = 2,
		.few = 256,
		.unlimited = "no group above limits the number of processes",
		.text = {"processes and threads more are allowed by pids.max of", ""},
		.remedy = {"raise pids.max of", " (TasksMax= of its unit; systemctl edit)"}},
};
static const struct capacity depth = {.max_file = "cgroup.max.depth"};

/* The rest that the group at fd leaves of it; UINT64_MAX: it has no limit. levels: how far it is
 * above the root of the steps, which is what is used of a depth. */
static uint64_t left_of(const struct capacity *capacity, int fd, uint64_t levels)
{
	_cleanup_free_ char *max = NULL, *now = NULL;
	uint64_t limit, used = levels;
	const char *at;

	if (fs_read(fd, capacity->max_file, 4096, &max, NULL) < 0 || strcmp(max, "max\n") == 0 ||
		(capacity->now_file && fs_read(fd, capacity->now_file, 4096, &now, NULL) < 0))
		return UINT64_MAX;
	limit = strtoull(max, NULL, 10);
	if (now) {
		at = strstr(now, capacity->now_key);
		used = at ? strtoull(at + strlen(capacity->now_key), NULL, 10) : 0;
	}
	return limit > used ? limit - used : 0;
}

/* The least that is left from the root of the steps up to the mount's top, and in which group. */
static uint64_t find_least(
	const struct capacity *capacity, const struct cgroup_root *root, char at[static PATH_MAX])
{
	_cleanup_free_ char *path = strdup(root->path);
	uint64_t least = UINT64_MAX, left, levels;
	char *slash;

	for (levels = 0; path && cgpath_below(root->mount.point, path); levels++) {
		_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		left = fd < 0 ? UINT64_MAX : left_of(capacity, fd, levels);
		if (left < least) {
			least = left;
			(void)snprintf(at, PATH_MAX, "%s", path);
		}
		slash = strrchr(path, '/');
		if (fd < 0 || !slash || slash == path)
			break;
		*slash = '\0';
	}
	return least;
}

static void report_capacity(const struct reporter *reporter, const struct cgroup_root *root,
	const struct capacity *capacity)
{
	char number[24], at[PATH_MAX], remedy[PATH_MAX + 64];
	uint64_t left = find_least(capacity, root, at);

	if (left == UINT64_MAX) {
		reporter_add(reporter, STEPD_FINDING_OK, capacity->id, "max", NULL, "%s",
			capacity->unlimited);
		return;
	}
	(void)snprintf(number, sizeof(number), "%" PRIu64, left);
	(void)snprintf(
		remedy, sizeof(remedy), "%s '%s'%s", capacity->remedy[0], at, capacity->remedy[1]);
	reporter_add(reporter,
		left < capacity->needed        ? STEPD_FINDING_PROBLEM
			: left < capacity->few ? STEPD_FINDING_WARNING
					       : STEPD_FINDING_OK,
		capacity->id, number, left < capacity->few ? remedy : NULL, "%s %s '%s'%s", number,
		capacity->text[0], at, capacity->text[1]);
}

/* How many groups and processes the groups from the root up allow. */
static void checkup_capacity(const struct reporter *reporter, const struct cgroup_root *root)
{
	char at[PATH_MAX], remedy[PATH_MAX + 64];
	uint64_t levels = find_least(&depth, root, at);

	if (levels < STEP_LEVELS) {
		(void)snprintf(remedy, sizeof(remedy), "raise cgroup.max.depth in '%s'", at);
		reporter_add(reporter, STEPD_FINDING_PROBLEM, "cgroup.groups", "0", remedy,
			"groups may be made %" PRIu64 " deep here, and a step takes %d", levels,
			STEP_LEVELS);
	} else {
		report_capacity(reporter, root, &capacities[0]);
	}
	report_capacity(reporter, root, &capacities[1]);
}

/* ---- where -------------------------------------------------------------------------------- */

/* The inode of the first cgroup namespace's file in /proc/PID/ns (proc_ns.h of the kernel). */
#define FIRST_NAMESPACE 0xEFFFFFFBu

#define FREEZE_MS 100 /* a group with no process is frozen at once */

static void report_libcgroup(const struct reporter *reporter)
{
	_cleanup_libcgroup_ struct libcgroup lib = {0};

	if (libcgroup_open(&lib) == 0)
		reporter_add(reporter, STEPD_FINDING_OK, "cgroup.libcgroup", LIBCGROUP_SONAME, NULL,
			"%s is there; it is used where cgroup2 is mounted several times",
			LIBCGROUP_SONAME);
	else
		reporter_add(reporter, STEPD_FINDING_NOTE, "cgroup.libcgroup", NULL,
			"install it if cgroup2 is mounted several times here",
			"%s can't be loaded; of several cgroup2 mounts the one that shows this "
			"process is taken",
			LIBCGROUP_SONAME);
}

/* The controllers that cgroup v1 holds, as the options of its mounts name them. */
static void list_v1(char *text, size_t size)
{
	static const char *const names[] = {"cpu", "cpuset", "memory", "pids", "blkio", "devices",
		"freezer", "hugetlb", "cpuacct"};
	char path[PATH_MAX];
	size_t i;

	text[0] = '\0';
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (controllers_find_v1(names[i], path))
			reporter_list(text, size, names[i]);
	}
}

static void report_mount(const struct reporter *reporter, const struct cgroup_root *root)
{
	char v1[256];

	list_v1(v1, sizeof(v1));
	if (v1[0])
		reporter_add(reporter, STEPD_FINDING_NOTE, "cgroup.mount", root->mount.point, NULL,
			"cgroup v2 at '%s', beside cgroup v1, which holds %s", root->mount.point,
			v1);
	else
		reporter_add(reporter, STEPD_FINDING_OK, "cgroup.mount", root->mount.point, NULL,
			"cgroup v2 at '%s', and no v1 hierarchy beside it", root->mount.point);
}

static void report_namespace(const struct reporter *reporter, const struct cgroup_root *root)
{
	struct stat st;

	if (stat("/proc/self/ns/cgroup", &st) < 0 || st.st_ino == FIRST_NAMESPACE)
		return;
	reporter_add(reporter, STEPD_FINDING_NOTE, "cgroup.namespace", NULL, NULL,
		"this is a cgroup namespace of its own, as in a container; the mount shows '%s' of "
		"it, and what is above it can't be seen",
		root->mount.root);
}

static void report_no_root(const struct reporter *reporter, const struct err *err)
{
	if (err->code == -ENODEV && !secure_getenv(ROOT_ENV))
		reporter_add(reporter, STEPD_FINDING_PROBLEM, "cgroup.mount", NULL,
			"mount it: mount -t cgroup2 none /sys/fs/cgroup/unified (in a container: give "
			"it one)",
			"no cgroup2 file system is mounted here");
	else
		reporter_add(reporter, STEPD_FINDING_PROBLEM, "cgroup.place", NULL,
			"let " ROOT_ENV " (--cgroup-root) name a directory of a cgroup2 mount, "
			"'findmnt -t cgroup2' shows them, or leave it away",
			"%s", err->text);
}

/* The candidates, down to the one that was taken. */
static void report_candidates(const struct reporter *reporter, const struct cgroup_root *root)
{
	static const struct {
		const char *id;
		const char *what;
	} rows[ROOT_ORIGIN_MAX] = {
		[ROOT_CONFIGURED] = {.id = "cgroup.place.asked", "a root by configuration"},
		[ROOT_DELEGATED] = {.id = "cgroup.place.delegated", "a delegated group"},
		[ROOT_SCOPE] = {.id = "cgroup.place.scope", "a scope of systemd"},
		[ROOT_OWN] = {.id = "cgroup.place.own", "a user's own group"},
		[ROOT_TOP] = {.id = "cgroup.place.top", "the top of the mount"},
	};
	static const enum stepd_finding_level level_of[] = {
		[ROOT_REFUSED] = STEPD_FINDING_NOTE,
		[ROOT_FAILED] = STEPD_FINDING_WARNING,
		[ROOT_OFFERED] = STEPD_FINDING_OK,
		[ROOT_TAKEN] = STEPD_FINDING_OK,
	};
	enum root_outcome outcome;
	const char *why;
	int i;

	for (i = 0; i < ROOT_ORIGIN_MAX; i++) {
		why = root_explain(root, i, &outcome);
		if (outcome != ROOT_PASSED_OVER)
			reporter_add(reporter, level_of[outcome], rows[i].id, NULL, NULL, "%s: %s",
				rows[i].what, why);
	}
}

/* The name of the scope is known only when there is a step; its slice is root's. */
static void report_scope(const struct reporter *reporter, const struct cgroup_root *root)
{
	_cleanup_free_ char *path = NULL;

	if (geteuid() == 0 && asprintf(&path, "%s/" SCOPE_SLICE, root->mount.point) < 0)
		path = NULL;
	reporter_add(reporter, STEPD_FINDING_OK, "cgroup.place", path, NULL,
		"each step hangs in a scope of " SCOPE_SLICE
		", and if systemd does not answer below '%s/stepd'",
		root->path);
}

/* Whether there is a root to try things out below. */
static bool report_root(const struct reporter *reporter, const struct cgroup_root *root)
{
	_cleanup_free_ char *path = NULL;
	struct probe_abilities can;
	struct err err = ERR_INIT;
	const char *remedy = NULL;
	int r = probe_try(root, &can, &remedy, &err);

	if (r == 0 && can.made)
		probe_forget(root);
	if (is_scope(root)) {
		report_scope(reporter, root);
		return r == 0;
	}
	if (r < 0) {
		reporter_add(reporter, STEPD_FINDING_PROBLEM, "cgroup.place", NULL, remedy, "%s",
			err.text);
		return false;
	}
	if (asprintf(&path, "%s/stepd", root->path) < 0)
		path = NULL;
	reporter_add(reporter, STEPD_FINDING_OK, "cgroup.place", path, NULL,
		"steps hang below '%s/stepd': %s", root->path, root_get_reason(root));
	return true;
}

/* ---- what a group can do ------------------------------------------------------------------ */

static void report_birth(const struct reporter *reporter, int fd)
{
	int r = clone_try(fd);

	if (r == 0)
		reporter_add(reporter, STEPD_FINDING_OK, "cgroup.birth", NULL, NULL,
			"tasks are born in their group, by clone3 with CLONE_INTO_CGROUP");
	else if (r == -EOPNOTSUPP)
		reporter_add(reporter, STEPD_FINDING_WARNING, "cgroup.birth", NULL,
			"allow clone3 in the seccomp filter, update to Linux 5.7, or start the agent "
			"in another group if this one was ever written cgroup.kill",
			"tasks can't be born in their group: each is forked and moved, which can take "
			"the kernel some 8 ms");
	else
		reporter_add(reporter, STEPD_FINDING_WARNING, "cgroup.birth", NULL,
			"check the limits of processes and memory of this user and unit",
			"a birth in a group could not be tried: %s", strerror(-r));
}

static void report_freezer(const struct reporter *reporter, int fd)
{
	bool was;
	int r = group_freeze(fd, FREEZE_MS, &was);

	if (r == 0)
		r = group_resume(fd);
	if (r == 0) {
		reporter_add(reporter, STEPD_FINDING_OK, "cgroup.freezer", NULL, NULL,
			"steps can be suspended, and no process outruns a signal (cgroup.freeze)");
		return;
	}
	reporter_add(reporter, STEPD_FINDING_WARNING, "cgroup.freezer", NULL, "update to Linux 5.2",
		"cgroup.freeze can't be used (%s): steps can't be suspended, and quick forks can "
		"outrun a signal",
		strerror(-r));
}

static void report_kill(const struct reporter *reporter, int fd)
{
	int r = fs_write(fd, "cgroup.kill", "1");

	if (r == 0)
		reporter_add(reporter, STEPD_FINDING_OK, "cgroup.kill", NULL, NULL,
			"a step is killed as a whole, forks in progress too (cgroup.kill)");
	else
		reporter_add(reporter, STEPD_FINDING_WARNING, "cgroup.kill", NULL,
			"update to Linux 5.14",
			"cgroup.kill can't be used (%s): a step is killed process by process, all "
			"of it stopped first",
			strerror(-r));
}

/* A file of the group can be there and not answer: pressure is switched at the boot. And it can be
 * missing only because no step has needed its controller yet. */
static bool will_answer(const struct cgroup_root *root, int fd, const char *name)
{
	_cleanup_free_ char *text = NULL;
	char controller[16];

	if (fs_read(fd, name, 1u << 16, &text, NULL) == 0)
		return true;
	(void)snprintf(controller, sizeof(controller), "%.*s", (int)strcspn(name, "."), name);
	return faccessat(fd, name, F_OK, 0) < 0 && is_offered(root, controller);
}

static void report_usage(const struct reporter *reporter, const struct cgroup_root *root, int fd)
{
	static const char *const names[] = {"cpu.stat", "memory.current", "memory.peak",
		"memory.events", "pids.current", "io.stat", "cpu.pressure"};
	char there[256] = "", missing[256] = "";
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		reporter_list(
			will_answer(root, fd, names[i]) ? there : missing, sizeof(there), names[i]);
	if (missing[0])
		reporter_add(reporter, STEPD_FINDING_NOTE, "cgroup.usage", there, NULL,
			"a step's use is counted in %s; not in %s, and read from /proc and rusage "
			"where these have it",
			there, missing);
	else
		reporter_add(reporter, STEPD_FINDING_OK, "cgroup.usage", there, NULL,
			"a step's use is counted in %s", there);
}

/* ---- all ---------------------------------------------------------------------------------- */

static void try_out(const struct reporter *reporter, const struct cgroup_root *root)
{
	_cleanup_trial_ struct trial trial = TRIAL_INIT;
	struct group_events events;
	int r = trial_open(root->fd, &trial);

	if (r < 0) {
		reporter_add(reporter, STEPD_FINDING_PROBLEM, "cgroup.trial", NULL,
			"see what stands there: ls -l; a step makes its groups below it",
			"a group to try things out on can't be made in '%s': %s", root->path,
			strerror(-r));
		return;
	}
	/* A birth would stand still, and so would the tasks. */
	if (group_get_events(trial.fd, &events) == 0 && events.frozen)
		reporter_add(reporter, STEPD_FINDING_PROBLEM, "cgroup.frozen", NULL,
			"write 0 to cgroup.freeze there, or above, or thaw the unit (systemctl thaw)",
			"'%s' is frozen, and nothing runs below it", root->path);
	else
		report_birth(reporter, trial.fd); /* before the kill, which would spoil it */
	report_freezer(reporter, trial.fd);
	report_usage(reporter, root, trial.fd);
	checkup_limits(reporter, root, trial.fd);
	report_kill(reporter, trial.fd);
}

void checkup_cgroup(
	const struct reporter *reporter, const struct cgroup_root *root, const struct err *err)
{
	if (!root) {
		report_no_root(reporter, err);
		return;
	}
	report_mount(reporter, root);
	report_namespace(reporter, root);
	report_libcgroup(reporter);
	report_candidates(reporter, root);
	if (!report_root(reporter, root))
		return;
	checkup_capacity(reporter, root);
	try_out(reporter, root);
}
