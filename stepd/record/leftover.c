/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/record/leftover.h"

#include <jansson.h>
#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/base/procstat.h"
#include "stepd/record/registry.h"
#include "stepd/record/state_doc.h"

int leftover_say(const char *label, struct err *err)
{
	return err_say(err, -EEXIST,
		"step %s has processes that an agent left behind when it died: end those first "
		"('stepctl pids %s' lists them)",
		label, label);
}

/* 1 if the container has members. None where it is gone, or the directory above it is. */
static int has_members(const char *plugin_dir, const struct step_entry *entry)
{
	_cleanup_proctrack_ struct proctrack *pt = NULL;
	_cleanup_free_ pid_t *pids = NULL;
	int n = 0, r;

	r = proctrack_open(plugin_dir, entry->proctrack, &pt, NULL);
	if (r == 0)
		r = proctrack_get_pids(pt, entry->cont_id, &pids, &n);
	if (r == -ESRCH || r == -ENOENT)
		return 0;
	return r < 0 ? r : n > 0;
}

static int check_entry(const struct step_entry *entry, void *userdata)
{
	const char *plugin_dir = userdata;
	const char *root = json_string_value(json_object_get(entry->doc, "container_root"));
	const char *before = secure_getenv(STEPD_CGROUP_ROOT_ENV);
	_cleanup_free_ char *saved = before ? strdup(before) : NULL;
	int r, restored;

	if (!root)
		return 0; /* its container's number says it all */
	if (before && !saved)
		return -ENOMEM;
	r = proctrack_set_root(root);
	if (r == 0)
		r = has_members(plugin_dir, entry);
	restored = proctrack_set_root(saved);
	return restored < 0 ? restored : r;
}

/* A tracker whose containers hang nowhere: by the tasks. */
static int tasks_live(int dir_fd)
{
	_cleanup_state_doc_ struct state_doc state = {0};
	struct procstat st;
	size_t i;
	int r = state_doc_read(dir_fd, &state, NULL);

	for (i = 0; r == 0 && state.same_boot && i < state.tasks_count; i++) {
		if (state.tasks[i].pid && procstat_read(state.tasks[i].pid, &st) == 0 &&
			procstat_is_living(&st) && st.start_ticks >= state.recover.forked.least &&
			st.start_ticks <= state.recover.forked.most)
			return 1;
	}
	return r;
}

int leftover_lives(int dir_fd, const char *plugin_dir)
{
	int r = tasks_live(dir_fd);

	return r == 0 ? steps_show(dir_fd, check_entry, (void *)plugin_dir) : r;
}

int leftover_check(
	const struct registry *registry, const char *plugin_dir, const char *label, struct err *err)
{
	int r = registry_show_left(registry, check_entry, (void *)plugin_dir);

	if (r < 0)
		return err_set(err, r, "look for what an earlier agent of step %s left", label);
	return r > 0 ? leftover_say(label, err) : 0;
}
