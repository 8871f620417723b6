/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl wait: until steps have ended, and then with the status of the step; of several with the
 * largest. Of one that has ended before, result.json tells, as long as it is kept.
 */
#include <jansson.h>

#include "stepd/cli/ctl/ask.h"

/* result: of result.json; borrowed. */
static int take_result(
	struct ctl *ctl, struct target *target, json_t *result, struct stepd_error *error)
{
	const json_t *code = json_object_get(result, "exit_code");

	if (!json_is_integer(code))
		return target_error(error, -EPROTO,
			"it has ended, and its result does not tell with which status");
	if (json_integer_value(code) > ctl->step_status)
		ctl->step_status = (int)json_integer_value(code);
	if (ctl_put(target->entry, "result", json_incref(result)) < 0)
		return target_error(error, -ENOMEM, "no memory left");
	return 0;
}

static int take_end(
	struct ctl *ctl, struct target *target, const json_t *reply, struct stepd_error *error)
{
	return take_result(ctl, target, json_object_get(reply, "result"), error);
}

static int read_result(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	_cleanup_free_ char *text = NULL;
	json_t *result = NULL;
	int r = stepd_read_result(target->directory, &text, error);

	if (r == 0)
		r = ask_parse(text, &result, error);
	if (r == 0)
		r = take_result(ctl, target, result, error);
	json_decref(result);
	return r;
}

int ctl_wait(struct ctl *ctl)
{
	static const struct ask ask = {.method = "Wait",
		.for_ever = true,
		.take = take_end,
		.gone_ok = 1u << STEPD_ENDED,
		.gone = read_result};
	int r = ask_steps(ctl, &ask);

	if (r == 0 && ctl->status == CTL_OK)
		ctl->status = ctl->step_status;
	return r;
}
