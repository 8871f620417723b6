/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/frontend/varlink.h"

#include <assert.h>
#include <jansson.h>
#include <string.h>

#include "config.h"
#include "stepd/control/control.h"
#include "stepd/control/interface.h"
#include "stepd/operations/operations.h"
#include "stepd/record/registry.h"
#include "stepd/snapshot/handover.h"
#include "stepd/step/agent_impl.h"

/* How long the agent's end waits for those who still take their last replies: hundreds of them, on
 * a busy machine. Whoever takes nothing is not waited for. */
#define END_PATIENCE_MS 5000

struct varlink {
	struct operations *operations;
	struct agent *a;
	struct control *control;
	const struct operation *table;
	struct control_method *methods; /* its rows, as the service has them */
	size_t methods_count;
	bool finished; /* control_finish()'s */
};

/* ---- calls ---------------------------------------------------------------------------------- */

struct varlink_call {
	struct op_call call;
	struct control_call *control;
};

/* The control's call, of which there is nothing else any more after the last reply. */
static struct control_call *reply_to(struct op_call *call, bool last)
{
	struct varlink_call *v = (struct varlink_call *)call; /* its first member */
	struct control_call *control = v->control;

	if (last)
		free(v);
	return control;
}

static void varlink_reply(struct op_call *call, json_t *parameters, bool last)
{
	control_reply_take(reply_to(call, last), parameters, last);
}

static void varlink_reply_text(struct op_call *call, const char *text, size_t size, bool last)
{
	control_reply_text(reply_to(call, last), text, size, last);
}

/* Two are Varlink's own. */
static void varlink_fail(
	struct op_call *call, enum op_error error, _unused_ int code, json_t *parameters)
{
	const char *name = op_error_names[error];

	if (error == OP_INVALID_PARAMETER)
		name = "org.varlink.service.InvalidParameter";
	else if (error == OP_EXPECTED_MORE)
		name = "org.varlink.service.ExpectedMore";
	control_error_take(reply_to(call, true), name, parameters);
}

static void varlink_fail_no_memory(struct op_call *call)
{
	control_no_memory(reply_to(call, true));
}

static void on_drained(_unused_ struct control_call *control, void *userdata)
{
	struct varlink_call *v = userdata;

	assert(v);
	op_call_drained(&v->call);
}

static void varlink_watch_drained(struct op_call *call)
{
	control_call_on_drained(reply_to(call, false), on_drained, call);
}

static const struct op_frontend varlink_frontend = {
	.reply = varlink_reply,
	.reply_text = varlink_reply_text,
	.fail = varlink_fail,
	.fail_no_memory = varlink_fail_no_memory,
	.watch_drained = varlink_watch_drained,
};

static void on_gone(_unused_ struct control_call *control, void *userdata)
{
	struct varlink_call *v = userdata;

	assert(v);
	op_call_gone(&v->call);
	free(v);
}

/* NULL: the control's call has failed. */
static struct op_call *call_new(struct control_call *control)
{
	const uid_t uid = control_call_peer(control)->uid;
	struct varlink_call *v = calloc(1, sizeof(*v));

	if (!v) {
		control_no_memory(control);
		return NULL;
	}
	v->control = control;
	v->call = (struct op_call){
		.frontend = &varlink_frontend,
		.uid = uid,
		.more = control_call_wants_more(control),
		.is_of_owner = uid != 0 && uid != geteuid(),
	};
	control_call_on_gone(control, on_gone, v);
	return &v->call;
}

static void run_operation(struct control_call *control, const json_t *parameters, void *userdata)
{
	struct varlink *v = userdata;
	struct op_call *call = call_new(control);
	size_t i = (size_t)(control_call_get_method(control) - v->methods);

	if (call)
		v->table[i].run(call, parameters, v->operations);
}

/* ---- the service's rows ---------------------------------------------------------------------- */

static const enum control_access access_of[OP_ACCESS_MAX] = {
	[OP_ACCESS_AGENT] = CONTROL_AGENT,
	[OP_ACCESS_OWNER] = CONTROL_OWNER,
	[OP_ACCESS_READ] = CONTROL_OPERATOR,
};

static const enum control_type type_of[OP_TYPE_MAX] = {
	[OP_BOOL] = CONTROL_BOOL,
	[OP_INT] = CONTROL_INT,
	[OP_STRING] = CONTROL_STRING,
	[OP_OBJECT] = CONTROL_OBJECT,
	[OP_INT_ARRAY] = CONTROL_INT_ARRAY,
};

_Static_assert(OP_PARAMETERS_MAX <= CONTROL_PARAMETERS_MAX, "a row fits");

static struct control_method make_method(const struct operation *operation)
{
	struct control_method method = {
		.name = operation->name,
		.access = access_of[operation->access],
		.run = run_operation,
	};
	size_t i;

	if (operation->flags & OP_MORE)
		method.flags |= CONTROL_MORE;
	if (operation->flags & OP_MORE_ONLY)
		method.flags |= CONTROL_MORE_ONLY;
	if (operation->flags & OP_WHEN_READY)
		method.flags |= CONTROL_WHEN_READY;
	for (i = 0; operation->parameters[i].name; i++)
		method.parameters[i] = (struct control_parameter){
			.name = operation->parameters[i].name,
			.type = type_of[operation->parameters[i].type],
			.optional = operation->parameters[i].optional,
		};
	return method;
}

static int make_methods(struct varlink *v)
{
	size_t i;

	v->table = operations_get_table(&v->methods_count);
	v->methods = calloc(v->methods_count, sizeof(*v->methods));
	if (!v->methods)
		return -ENOMEM;
	for (i = 0; i < v->methods_count; i++)
		v->methods[i] = make_method(&v->table[i]);
	return 0;
}

/* ---- life ----------------------------------------------------------------------------------- */

static struct varlink *varlink_new(struct operations *o)
{
	struct varlink *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->operations = o;
	v->a = operations_get_agent(o);
	return make_methods(v) < 0 ? varlink_close(v) : v;
}

static struct control_options make_options(struct varlink *v)
{
	const struct agent *a = v->a;

	return (struct control_options){
		.loop = a->loop,
		.log = a->log,
		.dir_fd = registry_get_dirfd(a->registry),
		.path = registry_get_path(a->registry),
		.methods = v->methods,
		.methods_count = v->methods_count,
		.interface = CONTROL_INTERFACE,
		.description = control_interface_text,
		.vendor = "stepd",
		.product = "stepd",
		.version = a->options->version,
		.url = PACKAGE_URL,
		.owner_uid = a->plan.job.uid,
		.operator_gid = a->options->operator_gid,
		.userdata = v,
	};
}

static void resume_call(struct control_call *control, const json_t *state, void *userdata)
{
	struct varlink *v = userdata;
	struct op_call *call = call_new(control);

	if (call)
		operations_resume_call(v->operations, call, state);
}

int varlink_open(struct operations *o, const struct handover *h, const json_t *saved,
	struct varlink **ret_varlink, struct err *err)
{
	struct varlink *v = varlink_new(o);
	struct control_options options;
	int r;

	if (!v)
		return err_set(err, -ENOMEM, "open the step's socket");
	options = make_options(v);
	r = saved ? control_restore(&options, h, json_get_object(saved, "control"), resume_call, v,
			    &v->control, err)
		  : control_open(&options, &v->control, err);
	if (r < 0) {
		(void)varlink_close(v);
		return r;
	}
	*ret_varlink = v;
	return 0;
}

void varlink_set_ready(struct varlink *v)
{
	if (v)
		control_set_ready(v->control);
}

static void on_finished(void *userdata)
{
	struct varlink *v = userdata;

	assert(v);
	v->finished = true;
	ev_break(v->a->loop, EVBREAK_ALL);
}

void varlink_finish(struct varlink *v)
{
	if (!v)
		return;
	control_finish(v->control, END_PATIENCE_MS, on_finished, v);
	if (!v->finished)
		ev_run(v->a->loop, 0);
}

struct varlink *varlink_close(struct varlink *v)
{
	if (!v)
		return NULL;
	v->control = control_close(v->control);
	free(v->methods);
	free(v);
	return NULL;
}

/* ---- a new program in the agent's place ------------------------------------------------------ */

static json_t *save_call(struct control_call *control, void *userdata)
{
	const struct varlink *v = userdata;
	struct varlink_call *call = control_call_get_holder(control);

	return call ? operations_save_call(v->operations, &call->call) : NULL;
}

void varlink_save(const struct varlink *v, struct handover *h, struct json_t *object)
{
	if (v)
		control_save(v->control, h, handover_put_object(h, object, "control"), save_call,
			(void *)v);
}
