/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl suspend and resume. Where a step's agent has died its container is asked directly, on its
 * owner's word alone, and state.json says so afterwards: an agent that takes the step over goes on
 * from there, not from where the dead one stood.
 */
#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "proctrack/proctrack.h"
#include "stepd/base/clock.h"
#include "stepd/base/fs.h"
#include "stepd/cli/ctl/ask.h"
#include "stepd/cli/ctl/tracker.h"
#include "stepd/record/registry_lock.h"

struct orphan {
	struct ctl *ctl;
	bool suspend;
	struct err err;
};

static int act_on_container(struct orphan *o, struct proctrack *pt, uint64_t id)
{
	int r;

	if (o->suspend)
		return proctrack_suspend(pt, id, ctl_timeout_ms(o->ctl), &o->err);
	r = proctrack_resume(pt, id, &o->err);
	return r < 0 ? err_prefix(&o->err, "can't resume it") : 0;
}

/* What an agent would have written: the state, and how long the step has stood. */
static int change_state(json_t *doc, bool suspend)
{
	const json_int_t now = (json_int_t)clock_now_ns();
	json_int_t since = json_integer_value(json_object_get(doc, "suspended_since_ns"));
	json_int_t total = json_integer_value(json_object_get(doc, "suspended_ns"));

	if (since && !suspend)
		total += now - since;
	if (!suspend)
		since = 0;
	else if (!since)
		since = now;
	return json_object_update_new(doc,
		json_pack("{s:s, s:I, s:I, s:b}", "state", suspend ? "suspended" : "running",
			"suspended_since_ns", since, "suspended_ns", total, "suspending", 0));
}

/* Only a step that ran, or stood: the next agent ends one that was being started or ended. */
static int record(struct orphan *o, const struct step_entry *entry)
{
	_cleanup_free_ char *text = NULL;
	const char *state = NULL;
	json_t *doc = NULL;
	mode_t mask;
	int r;

	/* Anew, under the lock: another may have been here since it was listed. */
	r = steps_read_state(entry->dir_fd, &doc);
	if (r == 0)
		state = json_string_value(json_object_get(doc, "state"));
	if (r == 0 &&
		(!state || (strcmp(state, "running") != 0 && strcmp(state, "suspended") != 0))) {
		json_decref(doc);
		return 0;
	}
	if (r == 0 && change_state(doc, o->suspend) == 0)
		text = json_dumps(doc, JSON_COMPACT);
	if (r == 0 && !text)
		r = -ENOMEM;
	json_decref(doc);
	if (text) {
		mask = umask(022);
		r = fs_write_atomic(entry->dir_fd, "state.json", text, strlen(text), 0644, false);
		(void)umask(mask); /* can't fail */
	}
	return r < 0 ? err_set(&o->err, r,
			       "it %s, but state.json could not be changed, and 'stepd adopt' "
			       "would undo this",
			       o->suspend ? "stands" : "goes on")
		     : 0;
}

/* The lock keeps an agent from taking it over meanwhile. */
static int lock(struct orphan *o, const struct step_entry *entry)
{
	int fd = registry_lock_for_cleaning(entry->dir_fd);

	if (fd == -EWOULDBLOCK)
		return err_say(&o->err, -EBUSY,
			"its agent has died, and somebody takes the step over in this moment; try "
			"again");
	return fd < 0 ? err_set(&o->err, fd, "its agent has died; lock its directory") : fd;
}

/* As long as the container means something without the agent that made it. */
static int on_orphan(const struct step_entry *entry, void *userdata)
{
	_cleanup_tracker_ struct tracker tracker = TRACKER_INIT;
	_cleanup_close_ int lock_fd = -1;
	struct orphan *o = userdata;
	int r = tracker_check_owner(entry, &o->err);

	if (r < 0)
		return err_prefix(&o->err, "its agent has died");
	if (!tracker_can_ask(entry))
		return err_say(&o->err, -ECONNREFUSED,
			"its agent has died, and %s can't find its processes; 'stepd adopt %s' "
			"takes the step over",
			entry->proctrack, entry->step);
	r = lock_fd = lock(o, entry);
	if (r >= 0)
		r = tracker_use(o->ctl, &tracker, entry, &o->err);
	if (r == 0)
		r = act_on_container(o, tracker.pt, entry->cont_id);
	if (r == 0)
		r = record(o, entry);
	if (r == -ESRCH)
		return err_say(&o->err, r,
			"its agent has died, and none of its processes is left or can be found");
	return r < 0 ? r : 1;
}

static int act_without_agent(
	struct ctl *ctl, struct target *target, bool suspend, struct stepd_error *error)
{
	struct orphan o = {.ctl = ctl, .suspend = suspend};

	if (tracker_visit(target, on_orphan, &o, &o.err) < 0)
		return tracker_hand_on(&o.err, error);
	return ask_take_done(ctl, target, NULL, error);
}

static int suspend_orphan(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	return act_without_agent(ctl, target, true, error);
}

static int resume_orphan(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	return act_without_agent(ctl, target, false, error);
}

int ctl_suspend(struct ctl *ctl)
{
	static const struct ask ask = {
		.method = "Suspend", .gone_ok = 1u << STEPD_ORPHAN, .gone = suspend_orphan};

	return ask_steps(ctl, &ask);
}

int ctl_resume(struct ctl *ctl)
{
	static const struct ask ask = {
		.method = "Resume", .gone_ok = 1u << STEPD_ORPHAN, .gone = resume_orphan};

	return ask_steps(ctl, &ask);
}
