/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/checkup.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "proctrack/cgroup/place.h"
#include "stepd/base/fs.h"

#define STEP_LEVELS 4 /* stepd/job_J/step_S/task_T */

/* Fewer than these are soon used up by an ordinary step. */
#define GROUPS_FEW    256
#define PROCESSES_FEW 256

/* What is left of a limit in the group at fd, of which now_file, if any, has what is used, behind
 * now_key; UINT64_MAX: it has none. */
static uint64_t left_of(int fd, const char *max_file, const char *now_file, const char *now_key)
{
	_cleanup_free_ char *max = NULL, *now = NULL;
	const char *at;
	uint64_t limit, used;

	if (fs_read(fd, max_file, 4096, &max, NULL) < 0 || strcmp(max, "max\n") == 0 ||
		(now_file && fs_read(fd, now_file, 4096, &now, NULL) < 0))
		return UINT64_MAX;
	at = now ? strstr(now, now_key) : NULL;
	limit = strtoull(max, NULL, 10);
	used = at ? strtoull(at + strlen(now_key), NULL, 10) : 0;
	return limit > used ? limit - used : 0;
}

struct room {
	uint64_t groups, processes, levels; /* the least that is left on the way up */
	char groups_at[PATH_MAX], processes_at[PATH_MAX], levels_at[PATH_MAX];
};

static void keep_least(uint64_t *least, char at[PATH_MAX], uint64_t left, const char *path)
{
	if (left >= *least)
		return;
	*least = left;
	(void)snprintf(at, PATH_MAX, "%s", path);
}

/* From the root of the steps up to the mount's top. */
static void find_room(const struct place *place, struct room *ret)
{
	_cleanup_free_ char *path = strdup(place->path);
	uint64_t levels, below = 0;
	char *slash;

	ret->groups = ret->processes = ret->levels = UINT64_MAX;
	while (path && cgpath_below(place->mount.point, path)) {
		_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0)
			return;
		keep_least(&ret->groups, ret->groups_at,
			left_of(fd, "cgroup.max.descendants", "cgroup.stat", "nr_descendants "),
			path);
		keep_least(&ret->processes, ret->processes_at,
			left_of(fd, "pids.max", "pids.current", ""), path);
		levels = left_of(fd, "cgroup.max.depth", NULL, NULL);
		if (levels != UINT64_MAX)
			levels = levels > below ? levels - below : 0;
		keep_least(&ret->levels, ret->levels_at, levels, path);
		below++;
		slash = strrchr(path, '/');
		if (!slash || slash == path)
			return;
		*slash = '\0';
	}
}

static void tell_group_room(const struct tell *tell, const struct room *room)
{
	char number[24], remedy[PATH_MAX + 64];

	if (room->levels < STEP_LEVELS) {
		(void)snprintf(
			remedy, sizeof(remedy), "raise cgroup.max.depth in '%s'", room->levels_at);
		tell_finding(tell, STEPD_FINDING_PROBLEM, "cgroup.groups", "0", remedy,
			"groups may be made %" PRIu64 " deep here, and a step takes %d",
			room->levels, STEP_LEVELS);
		return;
	}
	if (room->groups == UINT64_MAX) {
		tell_finding(tell, STEPD_FINDING_OK, "cgroup.groups", "max", NULL,
			"the number of groups is not limited");
		return;
	}
	(void)snprintf(number, sizeof(number), "%" PRIu64, room->groups);
	(void)snprintf(
		remedy, sizeof(remedy), "raise cgroup.max.descendants in '%s'", room->groups_at);
	tell_finding(tell,
		room->groups < STEP_LEVELS          ? STEPD_FINDING_PROBLEM
			: room->groups < GROUPS_FEW ? STEPD_FINDING_WARNING
						    : STEPD_FINDING_OK,
		"cgroup.groups", number, room->groups < GROUPS_FEW ? remedy : NULL,
		"%s groups can be made below '%s', and a step takes one a task and three more",
		number, room->groups_at);
}

static void tell_process_room(const struct tell *tell, const struct room *room)
{
	char number[24], remedy[PATH_MAX + 64];

	if (room->processes == UINT64_MAX) {
		tell_finding(tell, STEPD_FINDING_OK, "cgroup.processes", "max", NULL,
			"no group above limits the number of processes");
		return;
	}
	(void)snprintf(number, sizeof(number), "%" PRIu64, room->processes);
	(void)snprintf(remedy, sizeof(remedy),
		"raise pids.max of '%s' (TasksMax= of its unit; systemctl edit)",
		room->processes_at);
	tell_finding(tell,
		room->processes < 2                       ? STEPD_FINDING_PROBLEM
			: room->processes < PROCESSES_FEW ? STEPD_FINDING_WARNING
							  : STEPD_FINDING_OK,
		"cgroup.processes", number, room->processes < PROCESSES_FEW ? remedy : NULL,
		"%s processes and threads more are allowed by pids.max of '%s'", number,
		room->processes_at);
}

void checkup_room(const struct tell *tell, const struct place *place)
{
	struct room room;

	find_room(place, &room);
	tell_group_room(tell, &room);
	tell_process_room(tell, &room);
}
