/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The methods that ask.
 */
#include <jansson.h>
#include <string.h>

#include "stepd/client/client_impl.h"

#define FIND_PIDS_MAX 16384 /* of one call, as the interface has it */
#define ROWS_FIRST    64u

int stepd_describe(struct stepd_client *client, char **ret_json, struct stepd_error *error)
{
	return stepd_call(client, "Describe", NULL, ret_json, error);
}

int stepd_usage(struct stepd_client *client, bool tasks, char **ret_json, struct stepd_error *error)
{
	return stepd_call(
		client, "Usage", tasks ? "{\"tasks\":true}" : "{\"tasks\":false}", ret_json, error);
}

/* ---- rows: arrays that come in pieces ------------------------------------------------------ */

/* What one kind of row is: its size, and how it is made of an element. false: it is none. */
struct row_kind {
	const char *array; /* the parameter that has them */
	size_t size;
	bool (*fill)(void *row, const json_t *element);
};

struct rows {
	const struct row_kind *kind;
	char *v;
	size_t n, room;
};

static int make_row(struct rows *rows, void **ret_row)
{
	size_t room = rows->room ? rows->room * 2 : ROWS_FIRST;
	char *grown;

	if (rows->n == rows->room) {
		grown = reallocarray(rows->v, room, rows->kind->size);
		if (!grown)
			return -ENOMEM;
		rows->v = grown;
		rows->room = room;
	}
	*ret_row = rows->v + rows->n++ * rows->kind->size;
	memset(*ret_row, 0, rows->kind->size);
	return 0;
}

static int add_rows(struct stepd_client *client, const char *method, struct rows *rows,
	const json_t *parameters, struct stepd_error *error)
{
	const json_t *array = json_object_get(parameters, rows->kind->array);
	json_t *element;
	void *row;
	size_t i;

	if (!json_is_array(array))
		return client_refuse(client, method, "it has not the array it should have", error);
	json_array_foreach (array, i, element) {
		if (make_row(rows, &row) < 0) {
			client->broken = true;
			return client_no_memory(error);
		}
		if (!rows->kind->fill(row, element))
			return client_refuse(client, method,
				"an element of its array is not as the interface has it", error);
	}
	return 0;
}

/* Calls method, which takes over parameters, and adds the rows of all its answers. */
static int gather_take(struct stepd_client *client, const char *method, json_t *parameters,
	unsigned flags, struct rows *rows, struct stepd_error *error)
{
	bool continues = true;
	int r;

	if (!parameters)
		return client_no_memory(error);
	r = client_start_take(client, method, parameters, flags, error);
	while (r == 0 && continues) {
		_cleanup_reply_ struct reply reply = {0};

		r = client_next_in_time(client, client->timeout_ms, &reply, error);
		if (r == 0)
			r = add_rows(client, method, rows, reply.parameters, error);
		continues = reply.continues;
	}
	return r;
}

/* ---- processes ----------------------------------------------------------------------------- */

/* A number of the interface: there and in its range, or missing and otherwise. */
static bool get_int(
	const json_t *object, const char *key, int64_t least, int64_t most, int64_t *ret_n)
{
	const json_t *value = json_object_get(object, key);

	if (!value || json_is_null(value))
		return true; /* *ret_n is what it was */
	if (!json_is_integer(value))
		return false;
	*ret_n = json_integer_value(value);
	return *ret_n >= least && *ret_n <= most;
}

static bool fill_process(void *row, const json_t *element)
{
	struct stepd_process *process = row;
	int64_t pid = 0, start_ticks = 0;

	process->rank = STEPD_NO_RANK;
	if (!json_is_object(element) || !get_int(element, "pid", 1, INT32_MAX, &pid) ||
		!get_int(element, "rank", 0, UINT32_MAX, &process->rank) ||
		!get_int(element, "start_ticks", 0, INT64_MAX, &start_ticks))
		return false;
	process->pid = (pid_t)pid;
	process->start_ticks = (uint64_t)start_ticks;
	return pid > 0;
}

int stepd_list_pids(struct stepd_client *client, const char *ranks, bool start_ticks,
	struct stepd_process **ret_processes, size_t *ret_count, struct stepd_error *error)
{
	static const struct row_kind kind = {"pids", sizeof(struct stepd_process), fill_process};
	struct rows rows = {.kind = &kind};
	int r;

	r = gather_take(client, "ListPids",
		json_pack("{s:s*, s:b}", "ranks", ranks, "start_ticks", (int)start_ticks),
		STEPD_CALL_MORE, &rows, error);
	if (r < 0) {
		free(rows.v);
		return r;
	}
	*ret_processes = (struct stepd_process *)(void *)rows.v;
	*ret_count = rows.n;
	return 0;
}

static json_t *pack_pids(const pid_t *pids, size_t count, uint64_t pid_namespace)
{
	json_t *array = json_array();
	int r = array ? 0 : -1;
	size_t i;

	for (i = 0; r == 0 && i < count; i++)
		r = json_array_append_new(array, json_integer(pids[i]));
	if (r < 0) {
		json_decref(array);
		return NULL;
	}
	if (pid_namespace == 0)
		return json_pack("{s:o}", "pids", array);
	return json_pack("{s:o, s:I}", "pids", array, "pid_namespace", (json_int_t)pid_namespace);
}

int stepd_find_pids(struct stepd_client *client, const pid_t *pids, size_t count,
	uint64_t pid_namespace, struct stepd_process **ret_processes, size_t *ret_count,
	struct stepd_error *error)
{
	static const struct row_kind kind = {"found", sizeof(struct stepd_process), fill_process};
	struct rows rows = {.kind = &kind};
	size_t at, n;
	int r = 0;

	for (at = 0; r == 0 && at < count; at += n) {
		n = count - at < FIND_PIDS_MAX ? count - at : FIND_PIDS_MAX;
		r = gather_take(client, "FindPids", pack_pids(pids + at, n, pid_namespace), 0,
			&rows, error);
	}
	if (r < 0) {
		free(rows.v);
		return r;
	}
	*ret_processes = (struct stepd_process *)(void *)rows.v;
	*ret_count = rows.n;
	return 0;
}

/* ---- tasks --------------------------------------------------------------------------------- */

static bool fill_task(void *row, const json_t *element)
{
	int64_t rank = -1, local_id = -1, pid = 0, wait_status = 0, exit_code = -1, spawn = 0;
	const char *state = json_string_value(json_object_get(element, "state"));
	struct stepd_task *task = row;

	if (!json_is_object(element) || !state || !get_int(element, "rank", 0, UINT32_MAX, &rank) ||
		!get_int(element, "local_id", 0, UINT32_MAX, &local_id) ||
		!get_int(element, "pid", 0, INT32_MAX, &pid) ||
		!get_int(element, "wait_status", 0, INT32_MAX, &wait_status) ||
		!get_int(element, "exit_code", -1, INT32_MAX, &exit_code) ||
		!get_int(element, "spawn", 0, UINT32_MAX, &spawn))
		return false;
	task->rank = rank;
	task->local_id = (uint32_t)local_id;
	(void)snprintf(task->state, sizeof(task->state), "%s", state);
	task->pid = (pid_t)pid;
	task->wait_status = (int)wait_status;
	task->exit_code = (int)exit_code;
	task->spawn = (uint32_t)spawn;
	task->on_request = json_is_true(json_object_get(element, "on_request"));
	task->oom_killed = json_is_true(json_object_get(element, "oom_killed"));
	return rank >= 0 && local_id >= 0;
}

int stepd_list_tasks(struct stepd_client *client, const char *ranks, struct stepd_task **ret_tasks,
	size_t *ret_count, struct stepd_error *error)
{
	static const struct row_kind kind = {"tasks", sizeof(struct stepd_task), fill_task};
	struct rows rows = {.kind = &kind};
	int r = gather_take(client, "ListTasks", json_pack("{s:s*}", "ranks", ranks),
		STEPD_CALL_MORE, &rows, error);

	if (r < 0) {
		free(rows.v);
		return r;
	}
	*ret_tasks = (struct stepd_task *)(void *)rows.v;
	*ret_count = rows.n;
	return 0;
}
