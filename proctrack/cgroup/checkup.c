/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/checkup.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"
#include "proctrack/cgroup/clone.h"
#include "proctrack/cgroup/controllers.h"
#include "proctrack/cgroup/group.h"
#include "proctrack/cgroup/libcgroup.h"
#include "proctrack/cgroup/place.h"
#include "proctrack/cgroup/probe.h"
#include "proctrack/cgroup/trial.h"
#include "stepd/base/fs.h"
#include "systemd/scope.h"

/* The inode of the first cgroup namespace's file in /proc/PID/ns (proc_ns.h of the kernel). */
#define FIRST_NAMESPACE 0xEFFFFFFBu

#define FREEZE_MS 100 /* a group with no process is frozen at once */

/* ---- where -------------------------------------------------------------------------------- */

static void tell_libcgroup(const struct tell *tell)
{
	_cleanup_libcgroup_ struct libcgroup lib = {0};

	if (libcgroup_open(&lib) == 0)
		tell_finding(tell, STEPD_FINDING_OK, "cgroup.libcgroup", LIBCGROUP_SONAME, NULL,
			"%s is there; it is asked where cgroup2 is mounted several times",
			LIBCGROUP_SONAME);
	else
		tell_finding(tell, STEPD_FINDING_NOTE, "cgroup.libcgroup", NULL,
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
	size_t i, at = 0;

	text[0] = '\0';
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (controllers_find_v1(names[i], path) && at < size)
			at += (size_t)snprintf(
				text + at, size - at, "%s%s", at ? " " : "", names[i]);
	}
}

static void tell_mount(const struct tell *tell, const struct place *place)
{
	char v1[256];

	list_v1(v1, sizeof(v1));
	if (v1[0])
		tell_finding(tell, STEPD_FINDING_NOTE, "cgroup.mount", place->mount.point, NULL,
			"cgroup v2 at '%s', beside cgroup v1, which holds %s", place->mount.point,
			v1);
	else
		tell_finding(tell, STEPD_FINDING_OK, "cgroup.mount", place->mount.point, NULL,
			"cgroup v2 at '%s', and no v1 hierarchy beside it", place->mount.point);
}

static void tell_namespace(const struct tell *tell, const struct place *place)
{
	struct stat st;

	if (stat("/proc/self/ns/cgroup", &st) < 0 || st.st_ino == FIRST_NAMESPACE)
		return;
	tell_finding(tell, STEPD_FINDING_NOTE, "cgroup.namespace", NULL, NULL,
		"this is a cgroup namespace of its own, as in a container; the mount shows '%s' of "
		"it, and what is above it can't be seen",
		place->mount.root);
}

static void tell_no_place(const struct tell *tell, const struct err *err)
{
	if (err->code == -ENODEV && !secure_getenv(PLACE_ENV))
		tell_finding(tell, STEPD_FINDING_PROBLEM, "cgroup.mount", NULL,
			"mount it: mount -t cgroup2 none /sys/fs/cgroup/unified (in a container: give "
			"it one)",
			"no cgroup2 file system is mounted here");
	else
		tell_finding(tell, STEPD_FINDING_PROBLEM, "cgroup.place", NULL,
			"let " PLACE_ENV " (--cgroup-root) name a directory of a cgroup2 mount, "
			"'findmnt -t cgroup2' shows them, or leave it away",
			"%s", err->text);
}

/* What could have been taken, down to what is. */
static void tell_candidates(const struct tell *tell, const struct place *place)
{
	static const struct {
		const char *id;
		const char *what;
	} rows[PLACE_ORIGIN_MAX] = {
		[PLACE_ASKED] = {.id = "cgroup.place.asked", "a root by configuration"},
		[PLACE_DELEGATED] = {.id = "cgroup.place.delegated", "a delegated group"},
		[PLACE_SCOPE] = {.id = "cgroup.place.scope", "a scope of systemd"},
		[PLACE_OWN] = {.id = "cgroup.place.own", "a user's own group"},
		[PLACE_TOP] = {.id = "cgroup.place.top", "the top of the mount"},
	};
	static const enum stepd_finding_level level_of[] = {
		[PLACE_REFUSED] = STEPD_FINDING_NOTE,
		[PLACE_FAILED] = STEPD_FINDING_WARNING,
		[PLACE_OFFERED] = STEPD_FINDING_OK,
		[PLACE_TAKEN] = STEPD_FINDING_OK,
	};
	enum place_outcome outcome;
	const char *why;
	int i;

	for (i = 0; i < PLACE_ORIGIN_MAX; i++) {
		why = place_explain(place, i, &outcome);
		if (outcome != PLACE_PASSED_OVER)
			tell_finding(tell, level_of[outcome], rows[i].id, NULL, NULL, "%s: %s",
				rows[i].what, why);
	}
}

bool checkup_is_scope(const struct place *place)
{
	enum place_outcome outcome;

	(void)place_explain(place, PLACE_SCOPE, &outcome); /* the outcome is enough */
	return outcome == PLACE_OFFERED;
}

/* Where the scope will be its name tells only when there is a step; its slice is root's. */
static void tell_scope(const struct tell *tell, const struct place *place)
{
	_cleanup_free_ char *path = NULL;

	if (geteuid() == 0 && asprintf(&path, "%s/" SCOPE_SLICE, place->mount.point) < 0)
		path = NULL;
	tell_finding(tell, STEPD_FINDING_OK, "cgroup.place", path, NULL,
		"each step hangs in a scope of " SCOPE_SLICE
		", and if systemd does not answer below '%s/stepd'",
		place->path);
}

/* Whether there is a place to try things out on. */
static bool tell_place(const struct tell *tell, const struct place *place)
{
	_cleanup_free_ char *path = NULL;
	struct probe_abilities can;
	struct err err = ERR_INIT;
	const char *remedy = NULL;
	int r = probe_try(place, &can, &remedy, &err);

	if (r == 0 && can.made)
		probe_forget(place);
	if (checkup_is_scope(place)) {
		tell_scope(tell, place);
		return r == 0;
	}
	if (r < 0) {
		tell_finding(
			tell, STEPD_FINDING_PROBLEM, "cgroup.place", NULL, remedy, "%s", err.text);
		return false;
	}
	if (asprintf(&path, "%s/stepd", place->path) < 0)
		path = NULL;
	tell_finding(tell, STEPD_FINDING_OK, "cgroup.place", path, NULL,
		"steps hang below '%s/stepd': %s", place->path, place_get_reason(place));
	return true;
}

/* ---- what a group can do ------------------------------------------------------------------ */

static void tell_birth(const struct tell *tell, int fd)
{
	int r = clone_try(fd);

	if (r == 0)
		tell_finding(tell, STEPD_FINDING_OK, "cgroup.birth", NULL, NULL,
			"tasks are born in their group, by clone3 with CLONE_INTO_CGROUP");
	else if (r == -EOPNOTSUPP)
		tell_finding(tell, STEPD_FINDING_WARNING, "cgroup.birth", NULL,
			"allow clone3 in the seccomp filter, update to Linux 5.7, or start the agent "
			"in another group if this one was ever written cgroup.kill",
			"tasks can't be born in their group: each is forked and moved, which can take "
			"the kernel some 8 ms");
	else
		tell_finding(tell, STEPD_FINDING_WARNING, "cgroup.birth", NULL,
			"look at the limits of processes and memory of this user and unit",
			"a birth in a group could not be tried: %s", strerror(-r));
}

static void tell_freezer(const struct tell *tell, int fd)
{
	bool was;
	int r = group_freeze(fd, FREEZE_MS, &was);

	if (r == 0)
		r = group_resume(fd);
	if (r == 0) {
		tell_finding(tell, STEPD_FINDING_OK, "cgroup.freezer", NULL, NULL,
			"steps can be suspended, and no process outruns a signal (cgroup.freeze)");
		return;
	}
	tell_finding(tell, STEPD_FINDING_WARNING, "cgroup.freezer", NULL, "update to Linux 5.2",
		"cgroup.freeze can't be used (%s): steps can't be suspended, and quick forks can "
		"outrun a signal",
		strerror(-r));
}

static void tell_kill(const struct tell *tell, int fd)
{
	int r = fs_write(fd, "cgroup.kill", "1");

	if (r == 0)
		tell_finding(tell, STEPD_FINDING_OK, "cgroup.kill", NULL, NULL,
			"a step is killed as a whole, forks in progress too (cgroup.kill)");
	else
		tell_finding(tell, STEPD_FINDING_WARNING, "cgroup.kill", NULL,
			"update to Linux 5.14",
			"cgroup.kill can't be used (%s): a step is killed process by process, all "
			"of it stopped first",
			strerror(-r));
}

/* A file of the group can be there and not answer: pressure is switched at the boot. And it can be
 * missing only because nobody has asked for its controller yet. */
static bool will_answer(const struct place *place, int fd, const char *name)
{
	_cleanup_free_ char *text = NULL;
	char controller[16];

	if (fs_read(fd, name, 1u << 16, &text, NULL) == 0)
		return true;
	(void)snprintf(controller, sizeof(controller), "%.*s", (int)strcspn(name, "."), name);
	return faccessat(fd, name, F_OK, 0) < 0 && checkup_is_offered(place, controller);
}

static void tell_usage(const struct tell *tell, const struct place *place, int fd)
{
	static const char *const names[] = {"cpu.stat", "memory.current", "memory.peak",
		"memory.events", "pids.current", "io.stat", "cpu.pressure"};
	char there[256] = "", missing[256] = "";
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		char *list = will_answer(place, fd, names[i]) ? there : missing;
		size_t at = strlen(list);

		(void)snprintf(list + at, sizeof(there) - at, "%s%s", at ? " " : "", names[i]);
	}
	if (missing[0])
		tell_finding(tell, STEPD_FINDING_NOTE, "cgroup.usage", there, NULL,
			"a step's use is counted in %s; not in %s, and told from /proc and rusage "
			"where these have it",
			there, missing);
	else
		tell_finding(tell, STEPD_FINDING_OK, "cgroup.usage", there, NULL,
			"a step's use is counted in %s", there);
}

/* ---- all ---------------------------------------------------------------------------------- */

static void try_out(const struct tell *tell, const struct place *place)
{
	_cleanup_trial_ struct trial trial = TRIAL_INIT;
	struct group_events events;
	int r = trial_open(place->fd, &trial);

	if (r < 0) {
		tell_finding(tell, STEPD_FINDING_PROBLEM, "cgroup.trial", NULL,
			"see what stands there: ls -l; a step makes its groups below it",
			"a group to try things out on can't be made in '%s': %s", place->path,
			strerror(-r));
		return;
	}
	/* A birth would stand still, and so would the tasks. */
	if (group_get_events(trial.fd, &events) == 0 && events.frozen)
		tell_finding(tell, STEPD_FINDING_PROBLEM, "cgroup.frozen", NULL,
			"write 0 to cgroup.freeze there, or above, or thaw the unit (systemctl thaw)",
			"'%s' is frozen, and nothing runs below it", place->path);
	else
		tell_birth(tell, trial.fd); /* before the kill, which would spoil it */
	tell_freezer(tell, trial.fd);
	tell_usage(tell, place, trial.fd);
	checkup_limits(tell, place, trial.fd);
	tell_kill(tell, trial.fd);
}

void checkup_cgroup(const struct tell *tell, const struct place *place, const struct err *err)
{
	if (!place) {
		tell_no_place(tell, err);
		return;
	}
	tell_mount(tell, place);
	tell_namespace(tell, place);
	tell_libcgroup(tell);
	tell_candidates(tell, place);
	if (!tell_place(tell, place))
		return;
	checkup_room(tell, place);
	try_out(tell, place);
}
