/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/doctor/doctor.h"

#include <fcntl.h>
#include <libgen.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "stepd/base/fs.h"
#include "stepd/record/registry.h"

#define ANOTHER "name another by --runtime-dir or STEPD_RUNTIME_DIR"

/* What agents that died left, by the names of their steps. */
struct steps {
	unsigned alive, dead;
	char dead_names[256];
};

static void tell_unusable(
	const struct tell *tell, const char *path, const char *remedy, const char *why)
{
	tell_finding(tell, STEPD_FINDING_PROBLEM, "runtime.directory", path, remedy, "%s", why);
}

/* Not made yet: the first step makes it, and what is above must be there and be ours to write. */
static void tell_missing(const struct tell *tell, const char *path)
{
	_cleanup_free_ char *copy = strdup(path);
	const char *parent = copy ? dirname(copy) : "/";
	char why[1024], remedy[1024];

	if (faccessat(AT_FDCWD, parent, W_OK | X_OK, AT_EACCESS) == 0) {
		tell_finding(tell, STEPD_FINDING_OK, "runtime.directory", path, NULL,
			"'%s' is not there yet, and is made with the first step", path);
		return;
	}
	(void)snprintf(why, sizeof(why), "'%.400s' is not there and can't be made in '%.400s': %s",
		path, parent, strerror(errno));
	(void)snprintf(remedy, sizeof(remedy),
		"mkdir -p '%.400s' as the agents' user (tmpfiles.d(5) at each boot), or " ANOTHER,
		path);
	tell_unusable(tell, path, remedy, why);
}

static bool is_in_memory(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 &&
		((unsigned)fs.f_type == TMPFS_MAGIC || (unsigned)fs.f_type == RAMFS_MAGIC);
}

static const char *find_fault(int fd)
{
	struct statvfs fs;

	if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
		return strerror(errno);
	if (fstatvfs(fd, &fs) == 0 && fs.f_blocks > 0 && fs.f_bavail == 0)
		return "its file system has no space left";
	if (fstatvfs(fd, &fs) == 0 && fs.f_files > 0 && fs.f_favail == 0)
		return "its file system has no inodes left";
	return NULL;
}

static void tell_memory(const struct tell *tell, int fd, const char *path)
{
	if (is_in_memory(fd))
		tell_finding(tell, STEPD_FINDING_OK, "runtime.tmpfs", NULL, NULL,
			"it is in memory (tmpfs), and empty after a boot");
	else
		tell_finding(tell, STEPD_FINDING_NOTE, "runtime.tmpfs", NULL,
			"name one on a tmpfs, below /run, by --runtime-dir or STEPD_RUNTIME_DIR",
			"'%s' is not on a tmpfs: each step waits for the disk when its files go, and "
			"what a crash leaves is there after the boot",
			path);
}

static int count_step(const struct step_entry *entry, void *userdata)
{
	struct steps *s = userdata;
	size_t at = strlen(s->dead_names);

	if (entry->alive) {
		s->alive++;
		return 0;
	}
	s->dead++;
	(void)snprintf(
		s->dead_names + at, sizeof(s->dead_names) - at, "%s%s", at ? " " : "", entry->step);
	return 0;
}

static void tell_steps(const struct tell *tell, const char *path)
{
	struct steps steps = {0};
	struct err err = ERR_INIT;

	if (steps_each(path, count_step, &steps, &err) < 0)
		tell_finding(tell, STEPD_FINDING_WARNING, "runtime.steps", NULL,
			"look at what is in it", "the steps can't be listed: %s", err.text);
	else if (steps.dead)
		tell_finding(tell, STEPD_FINDING_WARNING, "runtime.steps", steps.dead_names,
			"'stepctl pids STEP' lists what may still run of it; end that, and the step can "
			"be started again",
			"%u %s without an agent, which died: %s", steps.dead,
			steps.dead == 1 ? "step is" : "steps are", steps.dead_names);
	else
		tell_finding(tell, STEPD_FINDING_OK, "runtime.steps", NULL, NULL,
			"%u %s, and none without its agent", steps.alive,
			steps.alive == 1 ? "step runs" : "steps run");
}

static void tell_there(const struct tell *tell, int fd, const char *path)
{
	struct err err = ERR_INIT;
	const char *fault;
	char why[1024];

	if (fs_check_trusted(fd, path, &err) < 0) {
		tell_unusable(tell, path, "change its owner and mode, or " ANOTHER, err.text);
		return;
	}
	fault = find_fault(fd);
	if (fault) {
		(void)snprintf(
			why, sizeof(why), "nothing can be made in '%.400s': %s", path, fault);
		tell_unusable(tell, path, "make room and writable what it is on, or " ANOTHER, why);
		return;
	}
	tell_finding(tell, STEPD_FINDING_OK, "runtime.directory", path, NULL,
		"steps are registered in '%s', which only the agents' user can change", path);
	tell_memory(tell, fd, path);
	tell_steps(tell, path);
}

void doctor_runtime(const struct tell *tell, const char *runtime_dir)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	struct err err = ERR_INIT;
	char why[1024];

	if (steps_find_dir(runtime_dir, &path, &err) < 0) {
		tell_unusable(tell, NULL, ANOTHER, err.text);
		return;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0) {
		tell_there(tell, fd, path);
	} else if (errno == ENOENT) {
		tell_missing(tell, path);
	} else {
		(void)snprintf(why, sizeof(why), "'%.400s' can't be opened as a directory: %s",
			path, strerror(errno));
		tell_unusable(tell, path, ANOTHER, why);
	}
}
