/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl notify, add and reexec: a line for the step's standard error, processes for its
 * container, a new program for its agent.
 */
#include <jansson.h>
#include <limits.h>

#include "stepd/base/parse.h"
#include "stepd/cli/ctl/ask.h"
#include "stepd/record/report.h"

static json_t *make_message(struct ctl *ctl, const struct target *target, struct stepd_error *error)
{
	(void)target;
	(void)error;
	return json_pack("{s:o}", "message", report_json_text(ctl->args[1]));
}

int ctl_notify(struct ctl *ctl)
{
	static const struct ask ask = {.method = "Notify", .steps = 1, .make = make_message};

	if (!ctl->args[1][0])
		return err_say(&ctl->err, -EINVAL, "the message is empty");
	return ask_steps(ctl, &ask);
}

/* One call for each: what becomes of one pid is told apart from the others. */
static int add_pids(struct ctl *ctl, struct target *target)
{
	json_t *added = json_array();
	uint32_t pid = 0;
	int i, r = added ? 0 : -ENOMEM;

	for (i = 1; r == 0 && i < ctl->count; i++) {
		struct stepd_error error = {0};

		(void)!parse_u32(ctl->args[i], 1, INT_MAX, &pid); /* was checked */
		if (stepd_add_pid(target->client, (pid_t)pid, 0, &error) == -ESRCH)
			(void)target_error(
				&error, -ESRCH, "there is no process %u on this node", pid);
		if (error.code)
			ctl_complain(ctl, target->label, &error, target->entry);
		else
			r = json_array_append_new(added, json_integer(pid)) < 0 ? -ENOMEM : 0;
	}
	if (r == 0)
		r = ctl_put(target->entry, "added", take_ptr(added));
	json_decref(added);
	return r < 0 ? err_set(&ctl->err, r, "add processes") : 0;
}

int ctl_add(struct ctl *ctl)
{
	_cleanup_target_ struct target target = TARGET_INIT;
	uint32_t pid;
	int i;

	for (i = 1; i < ctl->count; i++) {
		if (parse_u32(ctl->args[i], 1, INT_MAX, &pid) < 0)
			return err_say(&ctl->err, -EINVAL, "'%.200s' is no pid", ctl->args[i]);
	}
	if (target_open(ctl, ctl->args[0], false, &target) < 0)
		return 0; /* it was said */
	return add_pids(ctl, &target);
}

static int take_version(
	struct ctl *ctl, struct target *target, const json_t *reply, struct stepd_error *error)
{
	const char *version = json_string_value(json_object_get(reply, "version"));
	_cleanup_free_ char *safe = NULL;

	if (!version)
		return target_error(error, -EPROTO, "its agent does not tell its new version");
	safe = term_printable(&ctl->term, version, TERM_WHOLE);
	if (!safe || ctl_put(target->entry, "version", json_string(version)) < 0)
		return target_error(error, -ENOMEM, "it is done, with no memory left to tell");
	if (!ctl->json)
		printf("step %s: its agent runs version %s\n", target->label, safe);
	return 0;
}

int ctl_reexec(struct ctl *ctl)
{
	static const struct ask ask = {.method = "Reexec", .take = take_version};

	return ask_steps(ctl, &ask);
}
