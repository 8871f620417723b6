/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Why a group lacks a controller: somebody above keeps it, cgroup v1 has it, it was disabled at the
 * boot, or the kernel has none.
 */
#include "proctrack/cgroup/controllers.h"

#include <fcntl.h>
#include <mntent.h>
#include <string.h>

#include "proctrack/cgroup/files.h"
#include "proctrack/cgroup/place.h"
#include "stepd/base/fs.h"

#define OPEN_UP (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

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

#define say(buf, ...) (void)snprintf(buf, sizeof(buf), __VA_ARGS__)

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

/* Whether the kernel's command line says so: some kernels don't list what v1 knows nothing of. */
static bool is_disabled_at_boot(const char *name)
{
	static const char key[] = "cgroup_disable=";
	_cleanup_free_ char *line = NULL;
	char *word, *one, *at;

	if (fs_read(AT_FDCWD, "/proc/cmdline", CGFILE_MAX_BYTES, &line, NULL) < 0)
		return false;
	for (at = line; (word = strsep(&at, " \n"));) {
		if (strncmp(word, key, strlen(key)) != 0)
			continue;
		for (word += strlen(key); (one = strsep(&word, ","));) {
			if (strcmp(one, name) == 0)
				return true;
		}
	}
	return false;
}

/* What the kernel itself says, whatever a container shows of the hierarchy: false if nothing. */
static bool explain_kernel(const struct row *row, struct controllers_why *why)
{
	unsigned hierarchy = 0, enabled = 1;
	char path[PATH_MAX];
	bool seen;

	(void)find_in_kernel(row->v1_name, &hierarchy, &enabled); /* else neither is known */
	if (!enabled || is_disabled_at_boot(row->name)) {
		say(why->text, "the %s controller is switched off at boot", row->name);
		say(why->remedy, "take cgroup_disable=%s from the kernel's command line",
			row->name);
		return true;
	}
	if (!hierarchy)
		return false;
	seen = controllers_find_v1(row->v1_name, path);
	say(why->text,
		"cgroup v2 is without the %s controller because it is in use by cgroup v1, mounted "
		"%s%.400s%s",
		row->name, seen ? "at '" : "out of sight", seen ? path : "", seen ? "'" : "");
	say(why->remedy, "boot with systemd.unified_cgroup_hierarchy=1, or with cgroup_no_v1=%s",
		row->v1_name);
	return true;
}

/* fd is the highest group that can be seen; path is where steps hang. */
static void explain_top(
	int fd, const struct row *row, const char *path, struct controllers_why *why)
{
	unsigned hierarchy, enabled;

	if (fd < 0 || faccessat(fd, "cgroup.type", F_OK, 0) == 0) { /* the very top has none */
		say(why->text, "'%.400s/cgroup.controllers' does not offer the %s controller", path,
			row->name);
		say(why->remedy, "have it delegated to this container");
	} else if (find_in_kernel(row->v1_name, &hierarchy, &enabled)) {
		say(why->text, "cgroup v2 does not offer the %s controller here", row->name);
		say(why->remedy, "boot with systemd.unified_cgroup_hierarchy=1");
	} else {
		say(why->text, "this kernel is built without the %s controller", row->name);
		say(why->remedy, "boot one that is built with %s", row->config);
	}
}

/* The group at fd has the controller, and a group below it, on the way to path, has not. */
static void explain_kept(
	int fd, const struct row *row, const char *path, struct controllers_why *why)
{
	_cleanup_free_ char *on = NULL;
	char keeper[PATH_MAX];

	(void)cgfile_get_path(fd, keeper);
	if (fs_read(fd, "cgroup.subtree_control", CGFILE_MAX_BYTES, &on, NULL) == 0 &&
		controllers_parse(on) & row->bit) {
		say(why->text,
			"'%.400s' hands the %s controller down, but the group below it is threaded "
			"and can't use it",
			keeper, row->name);
		say(why->remedy, "name another root by " PLACE_ENV);
		return;
	}
	say(why->text, "the %s controller is not switched on in '%.400s/cgroup.subtree_control'",
		row->name, keeper);
	if (strstr(path, "/user@"))
		say(why->remedy,
			"put 'Delegate=cpu cpuset io memory pids' below [Service] in a drop-in of "
			"user@.service (systemctl edit user@.service), and log in again");
	else
		say(why->remedy,
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
	/* Goes up from a group that lacks it to the one that has it and keeps it. */
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
			explain_kept(fd, row, path, ret_why);
			return;
		}
	}
	if (!explain_kernel(row, ret_why))
		explain_top(fd, row, path, ret_why);
}
