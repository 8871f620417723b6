/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/frontend/frontends.h"

#include <assert.h>
#include <jansson.h>
#include <string.h>

#include "config.h"
#include "stepd/control/control.h"
#include "stepd/operations/operations.h"
#include "stepd/record/registry.h"
#include "stepd/snapshot/handover.h"
#include "stepd/step/agent_impl.h"

/* How long the agent's end waits for clients that still read their last replies: hundreds of them,
 * on a busy machine. A client that reads nothing is not waited for. */
#define END_PATIENCE_MS 5000

/* One accepts connections, one reads their calls, and one is for those whose turn came between. */
#define LAST_ROUNDS 3

struct frontends {
	struct operations *operations;
	struct agent *a;
	struct control *control; /* NULL: there is no socket */
	const struct operation *table;
	struct control_method *methods; /* its rows, as the service has them */
	size_t methods_count;
	bool finished; /* control_finish()'s */
};

/* ---- calls over Varlink -------------------------------------------------------------------- */

struct varlink_call {
	struct op_call call;
	struct control_call *control;
};

/* The control's call. After the last reply there is nothing else of it. */
static struct control_call *varlink_reply_to(struct op_call *call, bool last)
{
	struct varlink_call *v = (struct varlink_call *)call; /* its first member */
	struct control_call *control = v->control;

	if (last)
		free(v);
	return control;
}

static void varlink_reply(struct op_call *call, json_t *parameters, bool last)
{
	control_reply_take(varlink_reply_to(call, last), parameters, last);
}

static void varlink_reply_text(struct op_call *call, const char *text, size_t size, bool last)
{
	control_reply_text(varlink_reply_to(call, last), text, size, last);
}

/* Two of the errors are Varlink's own. */
static void varlink_fail(
	struct op_call *call, enum op_error error, _unused_ int code, json_t *parameters)
{
	const char *name = op_error_names[error];

	if (error == OP_INVALID_PARAMETER)
		name = "org.varlink.service.InvalidParameter";
	else if (error == OP_EXPECTED_MORE)
		name = "org.varlink.service.ExpectedMore";
	control_error_take(varlink_reply_to(call, true), name, parameters);
}

static void varlink_fail_no_memory(struct op_call *call)
{
	control_no_memory(varlink_reply_to(call, true));
}

static void varlink_on_drained(_unused_ struct control_call *control, void *userdata)
{
	struct varlink_call *v = userdata;

	assert(v);
	op_call_drained(&v->call);
}

static void varlink_watch_drained(struct op_call *call)
{
	control_call_on_drained(varlink_reply_to(call, false), varlink_on_drained, call);
}

static int varlink_upgrade(struct op_call *call, json_t *parameters, int *ret_fd)
{
	return control_upgrade_take(varlink_reply_to(call, true), parameters, ret_fd);
}

static const struct op_frontend varlink_frontend = {
	.reply = varlink_reply,
	.reply_text = varlink_reply_text,
	.fail = varlink_fail,
	.fail_no_memory = varlink_fail_no_memory,
	.watch_drained = varlink_watch_drained,
	.upgrade = varlink_upgrade,
};

static void varlink_on_gone(_unused_ struct control_call *control, void *userdata)
{
	struct varlink_call *v = userdata;

	assert(v);
	op_call_gone(&v->call);
	free(v);
}

/* NULL: the control's call has failed. */
static struct op_call *varlink_call_new(struct control_call *control)
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
	control_call_on_gone(control, varlink_on_gone, v);
	return &v->call;
}

static void run_operation(struct control_call *control, const json_t *parameters, void *userdata)
{
	struct frontends *f = userdata;
	struct op_call *call = varlink_call_new(control);
	size_t i = (size_t)(control_call_get_method(control) - f->methods);

	trim_again(&f->a->trim, f->a->loop);
	if (call)
		f->table[i].run(call, parameters, f->operations);
}

/* ---- the service's rows -------------------------------------------------------------------- */

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
	if (operation->flags & OP_UPGRADE)
		method.flags |= CONTROL_UPGRADE;
	for (i = 0; operation->parameters[i].name; i++)
		method.parameters[i] = (struct control_parameter){
			.name = operation->parameters[i].name,
			.type = type_of[operation->parameters[i].type],
			.optional = operation->parameters[i].optional,
		};
	return method;
}

static int make_methods(struct frontends *f)
{
	size_t i;

	f->table = operations_get_table(&f->methods_count);
	f->methods = calloc(f->methods_count, sizeof(*f->methods));
	if (!f->methods)
		return -ENOMEM;
	for (i = 0; i < f->methods_count; i++)
		f->methods[i] = make_method(&f->table[i]);
	return 0;
}

/* ---- life ---------------------------------------------------------------------------------- */

static struct frontends *frontends_close(struct frontends *f)
{
	if (!f)
		return NULL;
	f->control = control_close(f->control);
	free(f->methods);
	f->operations = operations_free(f->operations);
	free(f);
	return NULL;
}

static struct frontends *frontends_new(struct agent *a)
{
	struct frontends *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->a = a;
	f->operations = operations_new(a);
	return f->operations && make_methods(f) == 0 ? f : frontends_close(f);
}

static struct control_options make_options(struct frontends *f)
{
	const struct agent *a = f->a;

	return (struct control_options){
		.loop = a->loop,
		.log = a->log,
		.dir_fd = registry_get_dirfd(a->registry),
		.path = registry_get_path(a->registry),
		.methods = f->methods,
		.methods_count = f->methods_count,
		.interface = CONTROL_INTERFACE,
		.description = control_interface_text,
		.vendor = "stepd",
		.product = "stepd",
		.version = a->options->version,
		.url = PACKAGE_URL,
		.owner_uid = a->plan.job.uid,
		.operator_gid = a->options->operator_gid,
		.userdata = f,
	};
}

static int frontends_open(struct agent *a, struct err *err)
{
	struct frontends *f = a->frontends; /* of a restore() that has failed */
	struct control_options options;
	int r;

	if (!f)
		f = a->frontends = frontends_new(a);
	if (!f)
		return err_set(err, -ENOMEM, "open the step's socket");
	options = make_options(f);
	r = control_open(&options, &f->control, err);
	if (r < 0)
		return r;
	operations_state_changed(f->operations);
	return 0;
}

static void frontends_ready(struct frontends *f)
{
	if (f->control)
		control_set_ready(f->control);
}

static void on_finished(void *userdata)
{
	struct frontends *f = userdata;

	assert(f);
	f->finished = true;
	ev_break(f->a->loop, EVBREAK_ALL);
}

static void frontends_end(struct frontends *f)
{
	int i;

	operations_end(f->operations);
	/* A request in the socket's queue has come in time. */
	for (i = 0; i < LAST_ROUNDS; i++)
		ev_run(f->a->loop, EVRUN_NOWAIT);
	if (!f->control)
		return;
	control_finish(f->control, END_PATIENCE_MS, on_finished, f);
	if (!f->finished)
		ev_run(f->a->loop, 0);
}

/* ---- the step's events --------------------------------------------------------------------- */

static void frontends_state_changed(struct frontends *f)
{
	operations_state_changed(f->operations);
}

static void frontends_suspended(struct frontends *f, bool suspend, int code, const char *why)
{
	operations_suspended(f->operations, suspend, code, why);
}

static bool frontends_mpi_request(
	struct frontends *f, const char *name, const struct json_t *request)
{
	return mpi_requests_take(f->operations, name, request);
}

bool frontends_has_pending(const struct frontends *f)
{
	return operations_has_pending(f->operations);
}

/* ---- re-exec ------------------------------------------------------------------------------- */

static bool frontends_is_answering(const struct frontends *f)
{
	return operations_is_answering(f->operations);
}

static void frontends_not_reexeced(struct frontends *f, const struct err *why)
{
	operations_not_reexeced(f->operations, why);
}

static json_t *save_call(struct control_call *control, void *userdata)
{
	const struct frontends *f = userdata;
	struct varlink_call *call = control_call_get_holder(control);

	return call ? operations_save_call(f->operations, &call->call) : NULL;
}

static void frontends_save(const struct frontends *f, struct handover *h, struct json_t *object)
{
	if (f->control)
		control_save(f->control, h, handover_put_object(h, object, "control"), save_call,
			(void *)f);
	operations_save(f->operations, h, object);
}

static void resume_call(struct control_call *control, const json_t *state, void *userdata)
{
	struct frontends *f = userdata;
	struct op_call *call = varlink_call_new(control);

	if (call)
		operations_resume_call(f->operations, call, state);
}

static int frontends_restore(
	struct agent *a, const struct handover *h, const struct json_t *object, struct err *err)
{
	struct frontends *f = a->frontends = frontends_new(a);
	struct control_options options;

	if (!f)
		return err_set(err, -ENOMEM, "restore the step's socket");
	operations_restore(f->operations, object);
	options = make_options(f);
	return control_restore(
		&options, h, json_get_object(object, "control"), resume_call, f, &f->control, err);
}

const struct frontend frontends = {
	.open = frontends_open,
	.ready = frontends_ready,
	.state_changed = frontends_state_changed,
	.suspended = frontends_suspended,
	.mpi_request = frontends_mpi_request,
	.end = frontends_end,
	.close = frontends_close,
	.is_answering = frontends_is_answering,
	.not_reexeced = frontends_not_reexeced,
	.save = frontends_save,
	.restore = frontends_restore,
};
