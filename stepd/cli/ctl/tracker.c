/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/ctl/tracker.h"

#include <fcntl.h>
#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/base/json.h"
#include "stepd/base/parse.h"
#include "stepd/base/procstat.h"
#include "stepd/client/client.h"
#include "stepd/plugin/plugin.h"

int tracker_open(
	struct ctl *ctl, const struct step_entry *entry, struct proctrack **ret_pt, struct err *err)
{
	_cleanup_free_ char *plugin_dir = NULL;
	int r = plugin_dir_find(ctl->opt.plugin_dir, &plugin_dir, err);

	if (r < 0)
		return r;
	r = proctrack_set_root(json_get_text(entry->doc, "container_root", NULL));
	if (r < 0)
		return err_set(err, r, "set the root of the step's containers");
	return proctrack_open(plugin_dir, entry->proctrack, ret_pt, err);
}

int tracker_read_tasks(
	const struct step_entry *entry, stepd_step_task_info_t **ret_tasks, size_t *ret_count)
{
	const json_t *rows = json_object_get(entry->doc, "tasks"), *row;
	size_t i, n = json_array_size(rows);
	stepd_step_task_info_t *tasks = calloc(n + 1, sizeof(*tasks));

	if (!tasks)
		return -ENOMEM;
	json_array_foreach (rows, i, row) {
		tasks[i].id = (uint32_t)i;
		tasks[i].gtid = (uint32_t)json_get_int(row, "rank", 0);
		tasks[i].pid = (pid_t)json_get_int(row, "pid", 0);
	}
	*ret_tasks = tasks;
	*ret_count = n;
	return 0;
}

int tracker_copy_entry(const struct step_entry *entry, struct step_entry *ret_copy)
{
	char *step = strdup(entry->step);

	if (!step)
		return -ENOMEM;
	*ret_copy = *entry;
	ret_copy->step = step;
	ret_copy->doc = json_incref((json_t *)entry->doc);
	ret_copy->dir_fd = -1;
	return 0;
}

void tracker_free_entry(struct step_entry *copy)
{
	free((char *)copy->step);
	json_decref((json_t *)copy->doc);
	copy->dir_fd = close_fd(copy->dir_fd);
}

/* ---- a step without an agent --------------------------------------------------------------- */

static int check_owner(const struct step_entry *entry, struct err *err)
{
	if (entry->owner == geteuid())
		return 0;
	if (geteuid() != 0)
		return err_set_text(err, -EPERM,
			"its agent has died; only root and the user whose agent ran it (uid %u) may "
			"do this",
			(unsigned)entry->owner);
	return err_set_text(err, -EPERM,
		"it is of an agent of another user, which has died; do it as that one (uid %u)",
		(unsigned)entry->owner);
}

static int check_processes(const struct step_entry *entry, struct err *err)
{
	if (strcmp(entry->proctrack, "proctrack/linuxproc") != 0)
		return 0;
	return err_set_text(err, -ECONNREFUSED,
		"its agent has died, and with %s nobody else knows its processes; 'stepd adopt %s' "
		"takes the step over",
		entry->proctrack, entry->step);
}

static int on_entry(const struct step_entry *entry, void *userdata)
{
	int r = tracker_copy_entry(entry, userdata);

	return r < 0 ? r : 1;
}

int orphan_open(struct ctl *ctl, const struct target *target, unsigned needs, struct orphan *o,
	struct err *err)
{
	_cleanup_close_ int fd =
		open(target->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	int r;

	if (fd < 0)
		return err_set(err, -errno, "open '%s'", target->directory);
	r = steps_show(fd, on_entry, &o->entry);
	if (r <= 0)
		return r < 0 ? err_set(err, r, "read its state")
			     : err_set_text(err, -ESRCH, "its agent has died and left no state");
	o->entry.dir_fd = take_fd(&fd);
	r = needs & ORPHAN_OWNER ? check_owner(&o->entry, err) : 0;
	if (r == 0 && needs & ORPHAN_PROCESSES)
		r = check_processes(&o->entry, err);
	return r < 0 ? r : tracker_open(ctl, &o->entry, &o->pt, err);
}

void orphan_close(struct orphan *o)
{
	tracker_free_entry(&o->entry);
	o->pt = proctrack_close(o->pt);
}

/* ---- its processes ------------------------------------------------------------------------- */

struct rank_match {
	uint32_t rank;
	bool found;
};

static int match_rank(uint32_t n, void *userdata)
{
	struct rank_match *match = userdata;

	match->found |= n == match->rank;
	return 0;
}

/* tracker_list() has checked the ranks. */
static bool is_of_ranks(const char *ranks, uint32_t rank)
{
	struct rank_match match = {.rank = rank};

	if (!ranks)
		return true;
	return rank != STEPD_MEMBER_NO_RANK &&
		parse_ranges(ranks, UINT32_MAX, match_rank, &match) == 0 && match.found;
}

static int list_members(const struct orphan *o, const char *ranks, bool start_ticks,
	struct stepd_process **ret_processes, size_t *ret_count, struct err *err)
{
	_cleanup_free_ stepd_step_task_info_t *tasks = NULL;
	_cleanup_free_ stepd_member_t *members = NULL;
	struct stepd_process *v = NULL;
	size_t n_tasks = 0, count = 0;
	int n = 0, i, r;

	r = tracker_read_tasks(&o->entry, &tasks, &n_tasks);
	if (r == 0)
		r = proctrack_get_members(o->pt, o->entry.cont_id, tasks, n_tasks, &members, &n);
	if (r == -ESRCH)
		r = n = 0; /* it is empty */
	if (r == 0 && !(v = calloc((size_t)n + 1, sizeof(*v))))
		r = -ENOMEM;
	if (r < 0)
		return err_set(err, r, "list its processes");
	for (i = 0; i < n; i++) {
		const stepd_member_t *member = &members[i];
		struct procstat st = {0};

		if (!is_of_ranks(ranks, member->rank) ||
			(start_ticks && procstat_read(member->pid, &st) < 0))
			continue; /* or it has ended meanwhile */
		v[count++] = (struct stepd_process){.pid = member->pid,
			.rank = member->rank == STEPD_MEMBER_NO_RANK ? STEPD_NO_RANK : member->rank,
			.start_ticks = st.start_ticks};
	}
	*ret_processes = v;
	*ret_count = count;
	return 0;
}

int tracker_list(struct ctl *ctl, struct target *target, bool start_ticks,
	struct stepd_process **ret_processes, size_t *ret_count, struct stepd_error *error)
{
	struct rank_match none = {0};
	_cleanup_orphan_ struct orphan o = ORPHAN_INIT;
	struct err err = ERR_INIT;
	int r;

	if (target->ranks && parse_ranges(target->ranks, UINT32_MAX, match_rank, &none) < 0)
		return client_error(
			error, -EINVAL, "'%.100s' are no ranks such as 0-3,8", target->ranks);
	if (target->client)
		return stepd_list_pids(target->client, target->ranks, start_ticks, ret_processes,
			ret_count, error);
	r = orphan_open(ctl, target, ORPHAN_PROCESSES, &o, &err);
	if (r == 0)
		r = list_members(&o, target->ranks, start_ticks, ret_processes, ret_count, &err);
	return r < 0 ? client_error_forward(error, &err) : 0;
}
