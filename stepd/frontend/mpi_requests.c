/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/frontend/frontends.h"

#include <assert.h>
#include <jansson.h>
#include <string.h>

#include "stepd/operations/operations.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/join.h"
#include "stepd/step/mpi_link.h"

/* ---- what waits for its answer ------------------------------------------------------------- */

struct link_call {
	struct op_call call;
	struct agent *a;
	json_int_t id; /* of the request */
};

/* Takes the call. */
static void link_answer_take(struct link_call *l, int r, const char *why)
{
	mpi_link_end_request(l->a);
	mpi_link_answer(l->a, l->id, r, why);
	free(l);
}

static void link_reply(struct op_call *call, json_t *parameters, bool last)
{
	assert(last); /* no call here accepts more */
	json_decref(parameters);
	link_answer_take((struct link_call *)call, 0, "");
}

static void link_reply_text(
	struct op_call *call, _unused_ const char *text, _unused_ size_t size, bool last)
{
	assert(last);
	link_answer_take((struct link_call *)call, 0, "");
}

static void link_fail(
	struct op_call *call, _unused_ enum op_error error, int code, json_t *parameters)
{
	const char *message = json_string_value(json_object_get(parameters, "message"));

	link_answer_take((struct link_call *)call, code, message ? message : strerror(-code));
	json_decref(parameters);
}

static void link_fail_no_memory(struct op_call *call)
{
	link_answer_take((struct link_call *)call, -ENOMEM, strerror(ENOMEM));
}

static const struct op_frontend link_frontend = {
	.reply = link_reply,
	.reply_text = link_reply_text,
	.fail = link_fail,
	.fail_no_memory = link_fail_no_memory,
};

static json_int_t get_id(const json_t *request)
{
	return json_integer_value(json_object_get(request, "id"));
}

/* NULL: too many requests are under way, or there is no memory, and the request is answered. The
 * link limits how many signals may wait, not the owner's quota. */
static struct link_call *link_call_new(struct agent *a, const json_t *request)
{
	int r = mpi_link_begin_request(a);
	struct link_call *l = r == 0 ? calloc(1, sizeof(*l)) : NULL;

	if (r == 0 && !l) {
		mpi_link_end_request(a);
		r = -ENOMEM;
	}
	if (r < 0) {
		mpi_link_answer(a, get_id(request), r, strerror(-r));
		return NULL;
	}
	*l = (struct link_call){
		.call = {.frontend = &link_frontend, .uid = a->plan.job.uid},
		.a = a,
		.id = get_id(request),
	};
	return l;
}

/* ---- operations ---------------------------------------------------------------------------- */

/* "3,7": those that are here, of an array of ranks. NULL with *ret_error. */
static char *make_ranks(const struct agent *a, const json_t *array, int *ret_error)
{
	size_t count = 0, size, i;
	_cleanup_free_ uint32_t *ranks = mpi_link_read_ranks(a, array, &count);
	char *text = NULL;
	FILE *f;

	*ret_error = !ranks ? -EINVAL : count == 0 ? -ESRCH : -ENOMEM;
	if (!ranks || count == 0)
		return NULL;
	f = open_memstream(&text, &size);
	if (!f)
		return NULL;
	for (i = 0; i < count; i++)
		fprintf(f, "%s%u", i ? "," : "", (unsigned)ranks[i]);
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}

/* The parameters of Signal, a new reference. NULL with *ret_error. */
static json_t *make_signal(const struct agent *a, const json_t *request, int *ret_error)
{
	const json_t *list = json_object_get(request, "ranks");
	json_t *name = json_object_get(request, "signal");
	_cleanup_free_ char *ranks = NULL;
	json_t *parameters;

	*ret_error = -EINVAL;
	if (!json_is_string(name))
		return NULL;
	if (list) {
		ranks = make_ranks(a, list, ret_error);
		if (!ranks)
			return NULL;
	}
	parameters = json_pack("{s:O, s:s*}", "signal", name, "ranks", ranks);
	*ret_error = parameters ? 0 : -ENOMEM;
	return parameters;
}

static void take_signal(struct operations *o, const json_t *request)
{
	struct agent *a = operations_get_agent(o);
	struct link_call *l = link_call_new(a, request);
	json_auto_t *parameters = NULL;
	int r;

	if (!l)
		return;
	parameters = make_signal(a, request, &r);
	if (parameters)
		operations_find("Signal")->run(&l->call, parameters, o);
	else
		link_answer_take(l, r, strerror(-r));
}

/* ---- spawns, copies of streams ------------------------------------------------------------- */

static void take_spawn(struct operations *o, const json_t *request)
{
	struct agent *a = operations_get_agent(o);
	struct err err = ERR_INIT;
	int r = join_from_link(a, request, &err);

	if (r < 0)
		(void)!mpi_link_send_take(a,
			json_pack("{s:s, s:I, s:i, s:s}", "tell", "spawned", "id", get_id(request),
				"error", -r, "why", err.text),
			NULL, 0); /* as in mpi_link_answer() */
}

static void on_dropped(int r, const struct err *err, void *userdata)
{
	assert(userdata);
	link_answer_take(userdata, r == -ECANCELED ? 0 : r, r < 0 ? err->text : "");
}

/* Tasks that are not here need not be ended. */
static void take_drop(struct operations *o, const json_t *request)
{
	json_int_t number = json_integer_value(json_object_get(request, "number"));
	struct agent *a = operations_get_agent(o);
	struct link_call *l = link_call_new(a, request);
	struct request_answer answer = {.fn = on_dropped, .userdata = l};
	int r = -EINVAL;

	if (!l)
		return;
	if (number > 0 && number <= UINT32_MAX)
		r = join_drop(a, (uint32_t)number, &answer);
	if (r == -ESRCH)
		link_answer_take(l, 0, "");
	else if (r < 0)
		link_answer_take(l, r, strerror(-r));
}

static void take_copy(struct operations *o, const json_t *request)
{
	mpi_streams_take_copy(operations_get_agent(o), request);
}

static void take_input(struct operations *o, const json_t *request)
{
	mpi_streams_take_input(operations_get_agent(o), request);
}

/* ---- the table ----------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*take)(struct operations *o, const json_t *request);
} requests[] = {
	{"signal", take_signal},
	{"spawn", take_spawn},
	{"drop", take_drop},
	{"copy", take_copy},
	{"input", take_input},
};

bool mpi_requests_take(struct operations *o, const char *name, const json_t *request)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(requests); i++) {
		if (strcmp(name, requests[i].name) == 0) {
			requests[i].take(o, request);
			return true;
		}
	}
	return false;
}
