/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Methods for root: reservations, nodes, and the configuration.
 */
#include <string.h>

#include "contrib/jobd/server/server_impl.h"

/* ---- reservations -------------------------------------------------------------------------------
 */

#define LIST_MAX 4096u /* nodes with core counts, users */

struct reserve {
	struct reservation_request request;
	uint32_t *core_counts; /* owned */
	uid_t *users;          /* owned */
};

static void reserve_clear(struct reserve *r)
{
	free(r->core_counts);
	free(r->users);
}

#define _cleanup_reserve_ _cleanup_(reserve_clear)

static int bad_member(const char *name, struct err *err)
{
	return err_set_text(
		err, -EINVAL, "reservation: member '%.60s' is unknown, or has a wrong value", name);
}

/* Numbers of an array, with a 0 behind them; NULL: it is none such. */
static uint32_t *read_numbers(const json_t *array, int64_t least, size_t *ret_count)
{
	const size_t count = json_array_size(array);
	uint32_t *numbers;
	size_t i;

	if (!json_is_array(array) || count == 0 || count > LIST_MAX)
		return NULL;
	numbers = calloc(count + 1, sizeof(*numbers));
	for (i = 0; numbers && i < count; i++) {
		const json_t *one = json_array_get(array, i);
		const json_int_t n = json_integer_value(one);

		if (!json_is_integer(one) || n < least || n >= NO_VAL) {
			free(numbers);
			return NULL;
		}
		numbers[i] = (uint32_t)n;
	}
	*ret_count = count;
	return numbers;
}

static bool read_text(const json_t *value, const char **ret_text)
{
	*ret_text = json_string_value(value);
	return *ret_text != NULL;
}

static bool read_number(const json_t *value, int64_t most, int64_t *ret_n)
{
	*ret_n = json_integer_value(value);
	return json_is_integer(value) && *ret_n >= 0 && *ret_n <= most;
}

static bool read_bool(const json_t *value, bool *ret)
{
	*ret = json_is_true(value);
	return json_is_boolean(value);
}

_Static_assert(sizeof(uid_t) == sizeof(uint32_t), "users are read as numbers");

static bool read_member(struct reserve *into, const char *name, const json_t *value)
{
	struct reservation_request *q = &into->request;
	size_t count = 0;
	int64_t n = 0;
	bool good;

	if (strcmp(name, "name") == 0)
		return read_text(value, &q->name);
	if (strcmp(name, "nodes") == 0)
		return read_text(value, &q->nodelist);
	if (strcmp(name, "partition") == 0)
		return read_text(value, &q->partition);
	if (strcmp(name, "ignore_jobs") == 0)
		return read_bool(value, &q->ignore_jobs);
	if (strcmp(name, "maintenance") == 0)
		return read_bool(value, &q->maintenance);
	if (strcmp(name, "core_counts") == 0) {
		q->core_counts = into->core_counts = read_numbers(value, 1, &count);
		return q->core_counts != NULL;
	}
	if (strcmp(name, "users") == 0) {
		q->users = into->users = (uid_t *)read_numbers(value, 0, &q->users_count);
		return q->users != NULL;
	}
	if (strcmp(name, "start_time") == 0) {
		good = read_number(value, (INT64_C(1) << 40) - 1, &n);
		q->start_time = (time_t)n;
		return good;
	}
	good = read_number(value, NO_VAL - 1, &n);
	if (strcmp(name, "node_count") == 0)
		q->node_count = (uint32_t)n;
	else if (strcmp(name, "duration_min") == 0)
		q->duration_min = (uint32_t)n;
	else
		return false;
	return good;
}

static int read_reservation(const json_t *json, struct reserve *into, struct err *err)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)json, name, value) {
		if (!read_member(into, name, value))
			return bad_member(name, err);
	}
	return 0;
}

void run_reserve(struct call *call)
{
	_cleanup_reserve_ struct reserve reserve = {.request = {.name = NULL}};
	const char *name = NULL;
	struct err err = ERR_INIT;
	int r = read_reservation(json_object_get(call->parameters, "reservation"), &reserve, &err);

	if (r == 0)
		r = engine_reserve(call->server->engine, &reserve.request, &name, &err);
	if (r < 0)
		call_fail(call, r, &err, false);
	else
		call_reply(call, json_pack("{s:s}", "name", name));
}

void run_delete_reservation(struct call *call)
{
	struct err err = ERR_INIT;
	int r = engine_delete_reservation(
		call->server->engine, json_get_text(call->parameters, "name", ""), &err);

	if (r < 0)
		call_fail(call, r, &err, false);
	else
		call_done(call);
}

/* ---- nodes --------------------------------------------------------------------------------------
 */

void run_update_nodes(struct call *call)
{
	static const char *const states[] = {
		[NODE_CHANGE_DOWN] = "DOWN",
		[NODE_CHANGE_DRAIN] = "DRAIN",
		[NODE_CHANGE_RESUME] = "RESUME",
	};
	const int change =
		json_get_choice(call->parameters, "state", states, (int)ARRAY_SIZE(states), -1);
	const char *reason = json_get_text(call->parameters, "reason", NULL);
	struct err err = ERR_INIT;
	int r;

	if (change < 0)
		r = err_set_text(&err, -EINVAL, "the state is DOWN, DRAIN or RESUME");
	else if (change != NODE_CHANGE_RESUME && (!reason || !*reason))
		r = err_set_text(&err, -EINVAL, "%s needs a reason", states[change]);
	else
		r = engine_update_nodes(call->server->engine,
			json_get_text(call->parameters, "nodes", ""), (enum node_change)change,
			reason, call->uid, &err);
	if (r < 0)
		call_fail(call, r, &err, false);
	else
		call_done(call);
}

/* ---- the configuration --------------------------------------------------------------------------
 */

static json_t *make_array(const struct strv *texts)
{
	json_t *array = json_array();
	size_t i;

	for (i = 0; array && i < texts->n; i++) {
		if (json_array_append_new(array, json_string(texts->v[i])) < 0) {
			json_decref(array);
			array = NULL;
		}
	}
	return array;
}

void run_reconfigure(struct call *call)
{
	const struct server_options *o = &call->server->options;
	_cleanup_free_ char *needs_restart = NULL;
	struct err err = ERR_INIT;
	json_t *reply;
	int r = o->reconfigure(&needs_restart, o->userdata, &err);

	if (r < 0) {
		call_fail(call, r, &err, false);
		return;
	}
	reply = json_pack(
		"{s:o}", "left_out", make_array(&engine_get_conf(call->server->engine)->left_out));
	if (reply && needs_restart &&
		json_object_set_new(reply, "needs_restart", json_string(needs_restart)) < 0) {
		json_decref(reply);
		reply = NULL;
	}
	call_reply(call, reply);
}
