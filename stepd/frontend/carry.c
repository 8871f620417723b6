/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reexec, and what becomes of everybody's calls when the agent executes a new program: each kind
 * that is kept has a way to be written down and a way to go on, but for answers that are just being
 * made. Those are waited for.
 */
#include <string.h>

#include "stepd/frontend/methods_impl.h"
#include "stepd/record/events.h"
#include "stepd/record/report.h"
#include "stepd/snapshot/handover.h"
#include "stepd/step/reexec.h"

void method_reexec(struct control_call *call, const json_t *parameters, void *userdata)
{
	struct methods *m = userdata;

	(void)parameters;
	if (m->a->state >= AGENT_ENDED)
		answer_wrong_state(call, m->a, "the step has ended");
	else if (kept_new(m, call, KEPT_REEXEC, sizeof(struct kept), NULL))
		reexec_ask(m->a);
}

static struct kept *find_kept(const struct methods *m, enum kept_kind kind)
{
	struct kept *kept;

	for (kept = m->kept; kept && kept->kind != kind; kept = kept->next)
		;
	return kept;
}

bool methods_is_listing(const struct methods *m)
{
	return m && find_kept(m, KEPT_LISTING);
}

/* An answer may bring the next call: those that wait now. */
void methods_not_reexeced(struct methods *m, const struct err *why)
{
	struct kept *kept;

	while (m && (kept = find_kept(m, KEPT_REEXEC)))
		kept->kind = KEPT_ANSWERED;
	while (m && (kept = find_kept(m, KEPT_ANSWERED)))
		kept_error_take(kept, "Failed", pack_failed(why->code, why->text));
}

/* ---- kinds --------------------------------------------------------------------------------- */

/* What they wait for says all. */
static json_t *save_nothing(const struct kept *kept)
{
	(void)kept;
	return json_object();
}

static void resume_wait(struct methods *m, struct control_call *call, const json_t *state)
{
	(void)state;
	(void)kept_new(m, call, KEPT_WAIT, sizeof(struct kept), NULL); /* it has told */
}

static void resume_suspend(struct methods *m, struct control_call *call, const json_t *state)
{
	(void)state;
	(void)kept_new(m, call, KEPT_SUSPEND, sizeof(struct kept), NULL); /* it has told */
}

static void resume_resume(struct methods *m, struct control_call *call, const json_t *state)
{
	(void)state;
	(void)kept_new(m, call, KEPT_RESUME, sizeof(struct kept), NULL); /* it has told */
}

static void resume_reexec(struct methods *m, struct control_call *call, const json_t *state)
{
	json_t *answer = json_pack("{s:s}", "version", m->a->options->version);

	(void)state;
	if (answer)
		control_reply_take(call, answer);
	else
		control_no_memory(call);
}

static const struct {
	const char *word;
	json_t *(*save)(const struct kept *kept); /* NULL: it can't be carried over */
	void (*resume)(struct methods *m, struct control_call *call, const json_t *state);
} kinds[KEPT_KIND_MAX] = {
	[KEPT_WAIT] = {"wait", save_nothing, resume_wait},
	[KEPT_EVENTS] = {"events", events_save_call, events_resume_call},
	[KEPT_USAGE] = {"usage", usage_save_call, usage_resume_call},
	[KEPT_SUSPEND] = {"suspend", save_nothing, resume_suspend},
	[KEPT_RESUME] = {"resume", save_nothing, resume_resume},
	[KEPT_SIGNAL] = {"signal", signal_save_call, signal_resume_call},
	[KEPT_REEXEC] = {"reexec", save_nothing, resume_reexec},
};

/* ---- all of them --------------------------------------------------------------------------- */

static json_t *keep(struct control_call *call, void *userdata)
{
	const struct methods *m = userdata;
	const struct kept *kept;
	json_t *state;

	for (kept = m->kept; kept && kept->call != call; kept = kept->next)
		;
	if (!kept || !kinds[kept->kind].save)
		return NULL;
	state = kinds[kept->kind].save(kept);
	if (state && json_object_set_new(state, "kind", json_string(kinds[kept->kind].word)) == 0)
		return state;
	json_decref(state);
	return NULL;
}

static void resume(
	struct control_call *call, const char *method, const json_t *state, void *userdata)
{
	const char *word = json_string_value(json_object_get(state, "kind"));
	size_t i;

	(void)method;
	for (i = 0; word && i < KEPT_KIND_MAX; i++) {
		if (kinds[i].word && strcmp(kinds[i].word, word) == 0) {
			kinds[i].resume(userdata, call, state);
			return;
		}
	}
	answer_failed(call, -ECANCELED,
		"the agent has executed a new program, which can't go on with this call");
}

void methods_save(const struct methods *m, struct handover *h, json_t *object)
{
	json_t *control = control_save(m->control, keep, (void *)m);
	const json_t *fds = json_object_get(control, "fds");
	size_t i;

	for (i = 0; i < json_array_size(fds); i++)
		handover_keep_fd(h, (int)json_integer_value(json_array_get(fds, i)));
	handover_put_json_take(h, object, "control", control);
	handover_put_int(h, object, "start_time_usec", m->start_time_usec);
}

int methods_restore(struct agent *a, const json_t *object, struct err *err)
{
	struct methods *m = methods_new(a);
	struct control_options options;
	int r;

	if (!m)
		return err_set(err, -ENOMEM, "go on with the step's socket");
	m->start_time_usec = handover_get_int(object, "start_time_usec", m->start_time_usec);
	m->told_state = methods_state_word(a); /* by the old program */
	a->methods = m;
	follow_begin(m);
	methods_get_options(m, &options);
	r = control_restore(
		&options, handover_get_object(object, "control"), resume, m, &m->control, err);
	if (r < 0)
		a->methods = methods_close(m);
	return r;
}
