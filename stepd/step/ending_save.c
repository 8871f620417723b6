/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The ending of a step over an upgrade of its agent: what a new program goes on with.
 */
#include <jansson.h>

#include "stepd/snapshot/handover.h"
#include "stepd/step/ending.h"
#include "stepd/step/reaping.h"

/* Where the step was told to end by another sequence than its own. */
static void save_kill_steps(const struct agent *a, struct handover *h, json_t *array)
{
	size_t i;

	for (i = 0; a->end.kill_steps && i < a->end.killseq.count; i++) {
		handover_append_int(h, array, a->end.kill_steps[i].signal);
		handover_append_int(h, array, (int64_t)a->end.kill_steps[i].wait_ms);
	}
}

static int restore_kill_steps(struct agent *a, const json_t *array)
{
	size_t n = json_array_size(array) / 2, i;

	if (n == 0)
		return 0;
	a->end.kill_steps = calloc(n, sizeof(*a->end.kill_steps));
	if (!a->end.kill_steps)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		a->end.kill_steps[i] = (struct spec_kill){
			.signal = (int)json_integer_value(json_array_get(array, 2 * i)),
			.wait_ms = (uint64_t)json_integer_value(json_array_get(array, 2 * i + 1)),
		};
	a->end.killseq.steps = a->end.kill_steps;
	a->end.killseq.count = n;
	return 0;
}

void ending_save(struct agent *a, struct handover *h, struct json_t *object)
{
	save_kill_steps(a, h, handover_put_array(h, object, "kill_steps"));
	killseq_save(&a->end.killseq, h, handover_put_object(h, object, "killseq"));
	pausable_save(&a->limits.time, h, handover_put_object(h, object, "time_limit"));
	pausable_save(&a->limits.signal, h, handover_put_object(h, object, "limit_signal"));
	handover_put_bool(h, object, "limit_signal_sent", a->limits.signal_sent);
	pausable_save(&a->limits.wait, h, handover_put_object(h, object, "wait_limit"));
	pausable_save(
		&a->limits.bad_exit_grace, h, handover_put_object(h, object, "bad_exit_grace"));
	suspend_save(&a->suspend, h, handover_put_object(h, object, "suspend"));
}

int ending_restore(
	struct agent *a, const struct handover *h, const struct json_t *object, struct err *err)
{
	int r = ending_watch(a, err);

	(void)h;
	if (r == 0 && restore_kill_steps(a, handover_get_array(object, "kill_steps")) < 0)
		r = err_set(err, -ENOMEM, "go on with the kill sequence");
	if (r < 0)
		return r;
	killseq_restore(&a->end.killseq, handover_get_object(object, "killseq"));
	pausable_restore(&a->limits.time, handover_get_object(object, "time_limit"));
	pausable_restore(&a->limits.signal, handover_get_object(object, "limit_signal"));
	a->limits.signal_sent = handover_get_bool(object, "limit_signal_sent", false);
	pausable_restore(&a->limits.wait, handover_get_object(object, "wait_limit"));
	pausable_restore(&a->limits.bad_exit_grace, handover_get_object(object, "bad_exit_grace"));
	r = suspend_restore(&a->suspend, handover_get_object(object, "suspend"));
	reaping_watch_reports(a);
	return r < 0 ? handover_say_bad("requests", err) : 0;
}
