/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/checkup.h"

#include <fcntl.h>
#include <string.h>

#include "proctrack/cgroup/controllers.h"
#include "proctrack/cgroup/devices.h"
#include "proctrack/cgroup/files.h"
#include "proctrack/cgroup/limits.h"
#include "proctrack/cgroup/place.h"
#include "stepd/base/fs.h"
#include "stepd/base/procstat.h"

static const struct row {
	const char *id;
	enum controller controller;
} rows[] = {
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

static void add_name(char list[128], const char *name)
{
	size_t at = strlen(list);

	(void)snprintf(list + at, 128 - at, "%s%s", at ? " " : "", name);
}

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
		add_name(ret->all, name);
		if (faccessat(trial_fd, name, F_OK, 0) == 0) {
			add_name(ret->there, name);
			continue;
		}
		add_name(ret->missing, name);
		ret->why_missing = absent;
	}
}

static unsigned read_set(int fd, const char *file)
{
	_cleanup_free_ char *text = NULL;

	return fs_read(fd, file, CGFILE_MAX_BYTES, &text, NULL) == 0 ? controllers_parse(text) : 0;
}

bool checkup_is_offered(const struct place *place, const char *controller)
{
	return controllers_parse(controller) & read_set(place->fd, "cgroup.controllers");
}

/* ---- the controllers ---------------------------------------------------------------------- */

/* A process in the root of the steps itself, other than this one: its pid, or 0. Beside processes
 * the kernel hands down no memory or io, and the others to threads only. The top of the hierarchy,
 * which has no cgroup.type, may have any; a scope begins with none but the agent. */
static pid_t find_in_the_way(const struct place *place)
{
	_cleanup_free_ char *text = NULL;
	char *line, *at;
	pid_t pid;

	if (checkup_is_scope(place) || faccessat(place->fd, "cgroup.type", F_OK, 0) < 0 ||
		fs_read(place->fd, "cgroup.procs", 16u << 20, &text, NULL) < 0)
		return 0;
	for (at = text; (line = strsep(&at, "\n"));) {
		pid = (pid_t)strtol(line, NULL, 10);
		if (pid > 0 && pid != getpid())
			return pid;
	}
	return 0;
}

static void tell_in_the_way(const struct tell *tell, const struct place *place,
	const struct row *row, const char *names, pid_t pid)
{
	struct procstat st;

	if (procstat_read(pid, &st) < 0)
		(void)snprintf(st.comm, sizeof(st.comm), "?"); /* it has ended */
	tell_finding(tell, STEPD_FINDING_WARNING, row->id, NULL,
		"keep other processes out of that group: DelegateSubgroup= in the unit (systemd 254), "
		"or a group below it for them",
		"%s can't be limited: the kernel hands no controllers down beside processes, and pid "
		"%d (%s) is in '%s' itself",
		names, (int)pid, st.comm, place->path);
}

/* Handed down by the place: then the trial group has the files. */
static void tell_enabled(
	const struct tell *tell, const struct row *row, const struct names *n, int trial_fd)
{
	char order[CONTROLLERS_MAX_TEXT];
	int r;

	controllers_format(row->controller, "+", order);
	r = fs_write(trial_fd, "cgroup.subtree_control", order);
	if (r < 0)
		tell_finding(tell, STEPD_FINDING_WARNING, row->id, NULL,
			"see whether a group above is threaded, or real-time processes are in the way",
			"%s can't be limited: a new group refuses '%s' in cgroup.subtree_control: %s",
			n->all, order, strerror(-r));
	else if (n->missing[0])
		tell_finding(tell, STEPD_FINDING_WARNING, row->id, n->there, NULL,
			"%s can be limited, %s not: %s", n->there[0] ? n->there : "nothing",
			n->missing,
			n->why_missing ? n->why_missing : "this kernel has no such file");
	else
		tell_finding(tell, STEPD_FINDING_OK, row->id, n->there, NULL, "%s can be limited",
			n->there);
}

/* It has only to be switched on, which is left to the first step that asks. */
static void tell_offered(const struct tell *tell, const struct place *place, const struct row *row,
	const struct names *n)
{
	char remedy[640];
	pid_t pid = find_in_the_way(place);

	if (faccessat(place->fd, "cgroup.subtree_control", W_OK, AT_EACCESS) < 0) {
		(void)snprintf(remedy, sizeof(remedy),
			"chown uid %u '%.400s/cgroup.subtree_control', as a delegation does",
			(unsigned)geteuid(), place->path);
		tell_finding(tell, STEPD_FINDING_WARNING, row->id, NULL, remedy,
			"%s can't be limited: '%s/cgroup.subtree_control' can't be written: %s",
			n->all, place->path, strerror(errno));
	} else if (pid > 0) {
		tell_in_the_way(tell, place, row, n->all, pid);
	} else {
		tell_finding(tell, STEPD_FINDING_OK, row->id, n->all, NULL,
			"%s can be limited: '%s' hands the controller down when a step asks",
			n->all, place->path);
	}
}

static void tell_absent(const struct tell *tell, const struct place *place, const struct row *row,
	const struct names *n)
{
	struct controllers_why why;

	controllers_explain(place->fd, row->controller, &why);
	tell_finding(tell, STEPD_FINDING_WARNING, row->id, NULL, why.remedy,
		"%s can't be limited: %s", n->all, why.text);
}

/* ---- devices ------------------------------------------------------------------------------ */

/* The program goes with the group. */
static void tell_devices(const struct tell *tell, int trial_fd)
{
	static const stepd_device_rule_t all = {.type = 'a',
		.major = STEPD_DEVICE_ANY,
		.minor = STEPD_DEVICE_ANY,
		.access = STEPD_DEVICE_READ | STEPD_DEVICE_WRITE | STEPD_DEVICE_MKNOD};
	struct err err = ERR_INIT;

	if (devices_set(trial_fd, &all, 1, &err) == 0)
		tell_finding(tell, STEPD_FINDING_OK, "cgroup.limits.devices", "devices", NULL,
			"access to devices can be limited (a BPF program on the group)");
	else
		tell_finding(tell, STEPD_FINDING_WARNING, "cgroup.limits.devices", NULL,
			"run the agent as root with CAP_BPF and CAP_NET_ADMIN, with bpf allowed in the "
			"seccomp filter, on a kernel built with CONFIG_CGROUP_BPF",
			"access to devices can't be limited: %.*s", (int)strcspn(err.text, ";"),
			err.text);
}

void checkup_limits(const struct tell *tell, const struct place *place, int trial_fd)
{
	unsigned on = read_set(place->fd, "cgroup.subtree_control");
	unsigned offered = read_set(place->fd, "cgroup.controllers");
	struct names names;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		get_names(rows[i].controller, trial_fd, &names);
		if (on & rows[i].controller)
			tell_enabled(tell, &rows[i], &names, trial_fd);
		else if (offered & rows[i].controller)
			tell_offered(tell, place, &rows[i], &names);
		else
			tell_absent(tell, place, &rows[i], &names);
	}
	tell_devices(tell, trial_fd);
}
