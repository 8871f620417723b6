/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl clean: removes what agents that died left of steps without living processes, and results
 * that were kept long enough. What is in doubt stays: a lock that is taken, a container that can't
 * be asked, a step of another user's agent.
 */
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <time.h>

#include "proctrack/proctrack.h"
#include "stepd/agent/registry.h"
#include "stepd/agent/registry_lock.h"
#include "stepd/agent/report.h"
#include "stepd/agent/result.h"
#include "stepd/base/procstat.h"
#include "stepd/cli/ctl/tracker.h"

#define WHAT_DEAD   "left by an agent that died"
#define WHAT_RESULT "a result that was kept long enough"

struct cleaning {
	struct ctl *ctl;
	struct tracker tracker;
	json_t *removed;
};

/* A step that may be removed, if at all. */
struct candidate {
	struct cleaning *c;
	bool empty; /* no process of it lives */
	struct err err;
};

/* Without a tracker that can be asked: a process that has a task's pid may be the task. */
static bool has_living_task(const struct step_entry *entry)
{
	const json_t *tasks = json_object_get(entry->doc, "tasks"), *task;
	struct procstat st;
	json_int_t pid;
	size_t i;

	json_array_foreach (tasks, i, task) {
		pid = json_integer_value(json_object_get(task, "pid"));
		if (pid > 0 && procstat_read((pid_t)pid, &st) != -ESRCH)
			return true;
	}
	return false;
}

/* 0 and empty, or -errno: it can't be told. */
static int look_into_container(struct candidate *candidate, const struct step_entry *entry)
{
	struct cleaning *c = candidate->c;
	_cleanup_free_ pid_t *pids = NULL;
	int n = 0, r = tracker_use(c->ctl, &c->tracker, entry, &candidate->err);

	if (r < 0)
		return r;
	r = proctrack_get_pids(c->tracker.pt, entry->cont_id, &pids, &n);
	candidate->empty = r == -ESRCH || r == -ENOENT || (r == 0 && n == 0);
	if (!candidate->empty || c->ctl->dry_run)
		return 0;
	r = proctrack_destroy(c->tracker.pt, entry->cont_id);
	if (r < 0 && r != -ESRCH && r != -ENOENT) {
		candidate->empty = false;
		return err_set(&candidate->err, r, "remove its container");
	}
	return 0;
}

static int look_at_state(const struct step_entry *entry, void *userdata)
{
	struct candidate *candidate = userdata;
	int r = tracker_check_owner(entry, &candidate->err);

	if (r < 0)
		return r;
	if (tracker_can_ask(entry))
		return look_into_container(candidate, entry);
	candidate->empty = !has_living_task(entry);
	return 0;
}

/* 1: there is one, and it was kept long enough; 0: there is one that stays; -ENOENT. */
static int look_at_result(int dir_fd)
{
	struct timespec now;
	json_t *doc = NULL;
	json_int_t until;
	int r = steps_read_result(dir_fd, &doc);

	if (r < 0)
		return r;
	(void)clock_gettime(CLOCK_REALTIME, &now); /* can't fail with this clock */
	until = json_integer_value(json_object_get(doc, RESULT_KEEP_UNTIL));
	json_decref(doc);
	return until <= (json_int_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int remove_directory(int dir_fd, const char *path, struct err *err)
{
	size_t i;

	for (i = 0; registry_files[i]; i++)
		(void)unlinkat(dir_fd, registry_files[i], 0); /* rmdir(2) tells what is left */
	if (rmdir(path) < 0 && errno != ENOENT)
		return err_set(err, -errno, "remove '%s'", path);
	return 0;
}

static int tell(struct cleaning *c, const char *path, const char *what)
{
	const char *name = strrchr(path, '/') + 1, *dash = strrchr(name, '_');
	_cleanup_free_ char *node = strndup(name, dash ? (size_t)(dash - name) : 0);
	_cleanup_free_ char *safe = term_printable(&c->ctl->term, path, TERM_WHOLE);

	if (!node || !safe)
		return -ENOMEM;
	if (!c->ctl->json)
		printf("%s: %s\n", safe, what);
	return json_array_append_new(c->removed,
		       json_pack("{s:o, s:o, s:o, s:s}", "step",
			       report_json_text(dash ? dash + 1 : name), "node",
			       report_json_text(node), "directory", report_json_text(path), "what",
			       what)) < 0
		? -ENOMEM
		: 0;
}

/* Whether there is something to be judged: a lock is not made where there was none, but for what is
 * going to be removed. */
static bool is_worth_locking(const struct cleaning *c, int dir_fd)
{
	if (faccessat(dir_fd, "lock", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return true;
	return !c->ctl->dry_run && look_at_result(dir_fd) == 1;
}

/* What is to be removed of it, NULL: nothing. */
static const char *judge(struct candidate *candidate, int dir_fd)
{
	int r = look_at_result(dir_fd);

	if (r >= 0)
		return r ? WHAT_RESULT : NULL;
	if (r == -ENOENT)
		r = steps_show(dir_fd, look_at_state, candidate);
	return r == 0 && candidate->empty ? WHAT_DEAD : NULL;
}

static int on_directory(int dir_fd, const char *path, void *userdata)
{
	struct cleaning *c = userdata;
	struct candidate candidate = {.c = c};
	_cleanup_close_ int lock_fd = -1;
	const char *what;

	if (is_worth_locking(c, dir_fd)) {
		lock_fd = registry_lock_for_cleaning(dir_fd);
		if (lock_fd < 0)
			return 0; /* an agent lives, or it is another user's */
	} else if (look_at_result(dir_fd) != 1) {
		return 0;
	}
	what = judge(&candidate, dir_fd);
	if (what && !c->ctl->dry_run && remove_directory(dir_fd, path, &candidate.err) < 0)
		what = NULL;
	if (candidate.err.code)
		ctl_complain_err(c->ctl, strrchr(path, '/') + 1, &candidate.err, NULL);
	return what ? tell(c, path, what) : 0;
}

int ctl_clean(struct ctl *ctl)
{
	struct cleaning c = {.ctl = ctl, .tracker = TRACKER_INIT, .removed = json_array()};
	int r = c.removed ? 0 : -ENOMEM;

	if (r == 0)
		r = steps_each_dir(ctl->runtime_dir, on_directory, &c, &ctl->err);
	tracker_clear(&c.tracker);
	if (r == 0 && ctl->json)
		r = ctl_print_json(ctl,
			json_pack("{s:b, s:O}", "dry_run", (int)ctl->dry_run, "removed", c.removed),
			false);
	json_decref(c.removed);
	return r == -ENOMEM ? err_set(&ctl->err, r, "clean up") : r;
}
