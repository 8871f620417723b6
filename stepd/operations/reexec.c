/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reexec, and what becomes of the calls that are held when the agent executes a new program: each
 * kind is saved and resumed, but for replies that are just being made. Those are waited for.
 */
#include <string.h>

#include "stepd/operations/operations_impl.h"
#include "stepd/step/reexec.h"

void op_reexec(struct op_call *call, _unused_ const json_t *parameters, struct operations *o)
{
	if (o->a->state >= AGENT_ENDED)
		op_fail_state(call, o->a, "the step has ended");
	else if (pending_new(o, call, PENDING_REEXEC, sizeof(struct pending), NULL))
		reexec_request(o->a);
}

bool operations_is_answering(const struct operations *o)
{
	return pending_find(o, PENDING_LISTING);
}

/* Those that wait now: a reply may bring the next call. */
void operations_not_reexeced(struct operations *o, const struct err *why)
{
	struct pending *pending;

	while ((pending = pending_find(o, PENDING_REEXEC)))
		pending->kind = PENDING_DONE;
	while ((pending = pending_find(o, PENDING_DONE)))
		op_fail(pending_end(pending), why->code, why->text);
}

/* ---- kinds --------------------------------------------------------------------------------- */

/* Its kind is all. */
static json_t *save_nothing(_unused_ const struct pending *pending)
{
	return json_object();
}

static void resume_reexec(struct operations *o, struct op_call *call, _unused_ const json_t *state)
{
	json_t *reply = json_pack("{s:s}", "version", o->a->options->version);

	if (reply)
		op_reply_take(call, reply);
	else
		op_fail_no_memory(call);
}

static const struct {
	const char *name;
	json_t *(*save)(const struct pending *pending); /* NULL: it can't be saved */
	/* NULL: it waits as before. */
	void (*resume)(struct operations *o, struct op_call *call, const json_t *state);
} kinds[PENDING_KIND_MAX] = {
	[PENDING_WAIT] = {"wait", save_nothing, NULL},
	[PENDING_EVENTS] = {"events", events_save_call, events_resume_call},
	[PENDING_USAGE] = {"usage", usage_save_call, usage_resume_call},
	[PENDING_SUSPEND] = {"suspend", save_nothing, NULL},
	[PENDING_RESUME] = {"resume", save_nothing, NULL},
	[PENDING_SIGNAL] = {"signal", signal_save_call, signal_resume_call},
	[PENDING_REEXEC] = {"reexec", save_nothing, resume_reexec},
};

/* ---- all of them --------------------------------------------------------------------------- */

json_t *operations_save_call(const struct operations *o, const struct op_call *call)
{
	const struct pending *pending;
	json_auto_t *state = NULL;

	for (pending = o->pending; pending && pending->call != call; pending = pending->next)
		;
	if (!pending || !kinds[pending->kind].save)
		return NULL;
	state = kinds[pending->kind].save(pending);
	if (state &&
		json_object_set_new(state, "kind", json_string(kinds[pending->kind].name)) == 0)
		return take_ptr(state);
	return NULL;
}

void operations_resume_call(struct operations *o, struct op_call *call, const json_t *state)
{
	const char *name = json_string_value(json_object_get(state, "kind"));
	enum pending_kind i;

	for (i = 0; name && i < PENDING_KIND_MAX; i++) {
		if (!kinds[i].name || strcmp(kinds[i].name, name) != 0)
			continue;
		if (kinds[i].resume)
			kinds[i].resume(o, call, state);
		else /* or the call has failed */
			(void)pending_new(o, call, i, sizeof(struct pending), NULL);
		return;
	}
	op_fail(call, -ECANCELED,
		"the agent has executed a new program, which can't go on with this call");
}
