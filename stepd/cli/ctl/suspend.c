/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl suspend and resume. Where a step's agent has died its container is asked directly, on its
 * owner's word alone.
 */
#include <limits.h>
#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/cli/ctl/ask.h"
#include "stepd/cli/ctl/tracker.h"

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
	r = proctrack_resume(pt, id);
	return r < 0 ? err_set(&o->err, r, "resume its container") : 0;
}

/* As long as the container means something without the agent that made it. */
static int on_orphan(const struct step_entry *entry, void *userdata)
{
	_cleanup_tracker_ struct tracker tracker = TRACKER_INIT;
	struct orphan *o = userdata;
	int r = tracker_check_owner(entry, &o->err);

	if (r < 0)
		return err_prefix(&o->err, "its agent has died");
	if (!tracker_can_ask(entry))
		return err_say(&o->err, -ECONNREFUSED,
			"its agent has died, and %s can't find its processes; 'stepd adopt %s' "
			"takes the step over",
			entry->proctrack, entry->step);
	r = tracker_use(o->ctl, &tracker, entry, &o->err);
	if (r == 0)
		r = act_on_container(o, tracker.pt, entry->cont_id);
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
