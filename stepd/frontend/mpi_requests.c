/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/frontend/mpi_requests.h"

#include <assert.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>

#include "stepd/base/signals.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/join.h"
#include "stepd/step/mpi_link.h"
#include "stepd/step/mpi_streams.h"

/* A request whose answer is waited for. */
struct pending {
	struct agent *a;
	json_int_t id;
};

/* NULL with *ret_error: too many are under way, or there is no memory. */
static struct pending *pending_new(struct agent *a, json_int_t id, int *ret_error)
{
	struct pending *pending;

	*ret_error = mpi_link_begin_request(a);
	if (*ret_error < 0)
		return NULL;
	pending = calloc(1, sizeof(*pending));
	if (!pending) {
		mpi_link_end_request(a);
		*ret_error = -ENOMEM;
		return NULL;
	}
	*pending = (struct pending){.a = a, .id = id};
	return pending;
}

static void pending_free(struct pending *pending)
{
	if (pending)
		mpi_link_end_request(pending->a);
	free(pending);
}

static void on_signalled(int r, const struct err *err, void *userdata)
{
	struct pending *pending = userdata;

	assert(pending);
	mpi_link_answer(pending->a, pending->id, r == -ECANCELED ? 0 : r, r < 0 ? err->text : "");
	pending_free(pending);
}

static void take_signal(struct agent *a, const json_t *object)
{
	json_int_t id = json_integer_value(json_object_get(object, "id"));
	const char *name = json_string_value(json_object_get(object, "signal"));
	const json_t *list = json_object_get(object, "ranks");
	struct request_target target = {.whom = list ? REQUEST_TASKS : REQUEST_STEP};
	int signal = name ? signals_parse(name) : -1, r = 0;
	struct pending *pending = pending_new(a, id, &r);
	struct request_answer answer = {.fn = on_signalled, .userdata = pending};
	_cleanup_free_ uint32_t *ranks = NULL;

	if (list && pending)
		target.ranks = ranks = mpi_link_read_ranks(a, list, &target.ranks_count);
	if (r == 0 && (signal < 1 || signal >= _NSIG || (list && !ranks)))
		r = -EINVAL;
	else if (r == 0 && list && target.ranks_count == 0)
		r = -ESRCH;
	if (r == 0)
		r = requests_add_signal(&a->suspend.requests, signal, &target, &answer);
	if (r < 0) {
		pending_free(pending);
		mpi_link_answer(a, id, r, strerror(-r));
	}
}

/* ---- spawns --------------------------------------------------------------------------------- */

static void take_spawn(struct agent *a, const json_t *object)
{
	struct err err = ERR_INIT;
	int r = join_from_link(a, object, &err);

	if (r < 0)
		(void)!mpi_link_send_take(a,
			json_pack("{s:s, s:I, s:i, s:s}", "tell", "spawned", "id",
				json_integer_value(json_object_get(object, "id")), "error", -r,
				"why", err.text),
			NULL, 0); /* as in mpi_link_answer() */
}

static void take_drop(struct agent *a, const json_t *object)
{
	json_int_t id = json_integer_value(json_object_get(object, "id"));
	json_int_t number = json_integer_value(json_object_get(object, "number"));
	int r = 0;
	struct pending *pending = pending_new(a, id, &r);
	struct request_answer answer = {.fn = on_signalled, .userdata = pending};

	if (r == 0 && (number < 1 || number > UINT32_MAX))
		r = -EINVAL;
	if (r == 0)
		r = join_drop(a, (uint32_t)number, &answer);
	if (r < 0) {
		pending_free(pending);
		mpi_link_answer(a, id, r == -ESRCH ? 0 : r, r == -ESRCH ? "" : strerror(-r));
	}
}

/* ---- the table ------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*take)(struct agent *a, const json_t *object);
} requests[] = {
	{"signal", take_signal},
	{"spawn", take_spawn},
	{"drop", take_drop},
	{"copy", mpi_streams_take_copy},
	{"input", mpi_streams_take_input},
};

bool mpi_requests_take(struct agent *a, const char *name, const json_t *request)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(requests); i++) {
		if (strcmp(name, requests[i].name) == 0) {
			requests[i].take(a, request);
			return true;
		}
	}
	return false;
}
