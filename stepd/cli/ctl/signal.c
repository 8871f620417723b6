/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl signal and terminate: what ends processes, or tells them something.
 */
#include <jansson.h>
#include <string.h>

#include "stepd/base/signals.h"
#include "stepd/cli/ctl/ask.h"

#define DEFAULT_SIGNAL "TERM"

static int set(json_t *doc, const char *key, json_t *value)
{
	return json_object_set_new(doc, key, value);
}

static json_t *make_signal(struct ctl *ctl, const struct target *target, struct stepd_error *error)
{
	json_t *doc = json_object();
	int r = set(doc, "signal", json_string(ctl->signal));

	if (ctl->pid && target->ranks) {
		(void)target_error(error, -EINVAL, "a pid and ranks can't be given at once");
		json_decref(doc);
		return NULL;
	}
	if (target->ranks)
		r |= set(doc, "ranks", json_string(target->ranks));
	if (ctl->pid)
		r |= set(doc, "pid", json_integer((json_int_t)ctl->pid));
	if (ctl->leader)
		r |= set(doc, "leader", json_true());
	if (r == 0)
		return doc;
	json_decref(doc);
	return NULL;
}

int ctl_signal(struct ctl *ctl)
{
	static const struct ask ask = {.method = "Signal", .with_ranks = true, .make = make_signal};

	if (!ctl->signal)
		ctl->signal = DEFAULT_SIGNAL;
	if (signals_parse(ctl->signal) < 0)
		return err_say(&ctl->err, -EINVAL,
			"--signal: '%.200s' is no signal such as TERM, 15 or RTMIN+3", ctl->signal);
	return ask_steps(ctl, &ask);
}

static json_t *make_terminate(
	struct ctl *ctl, const struct target *target, struct stepd_error *error)
{
	json_t *doc = json_object();
	int r = doc ? 0 : -1;

	(void)target;
	(void)error;
	if (ctl->now)
		r |= set(doc, "kill_sequence", json_string("KILL"));
	else if (ctl->kill_sequence)
		r |= set(doc, "kill_sequence", json_string(ctl->kill_sequence));
	if (ctl->grace_ms >= 0)
		r |= set(doc, "grace_ms", json_integer(ctl->grace_ms));
	if (r == 0)
		return doc;
	json_decref(doc);
	return NULL;
}

int ctl_terminate(struct ctl *ctl)
{
	static const struct ask ask = {.method = "Terminate", .make = make_terminate};

	if (ctl->now && (ctl->kill_sequence || ctl->grace_ms >= 0))
		return err_say(&ctl->err, -EINVAL,
			"--now is SIGKILL alone: --kill-sequence and --grace don't go with it");
	return ask_steps(ctl, &ask);
}
