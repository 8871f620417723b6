/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A function for each method of the interface: what they send, and what they make of the replies.
 */
#include <string.h>

#include "stepd/base/buffer.h"
#include "stepd/base/json.h"
#include "stepd/client/client_impl.h"

/* A step is given time to come to a standstill (stepd(8), --suspend-timeout and the like). */
#define STEP_TIMEOUT_MS 60000

/* ---- processes ----------------------------------------------------------------------------- */

/* A number of the interface: there and in its range, or missing and otherwise. */
static bool get_int(
	const json_t *object, const char *key, int64_t least, int64_t most, int64_t *ret_n)
{
	const json_t *value = json_object_get(object, key);

	return !value || json_is_null(value) || json_get_range(object, key, least, most, ret_n);
}

static bool fill_process(struct stepd_process *process, const json_t *element)
{
	int64_t pid = 0, rank = STEPD_NO_RANK, start_ticks = 0;

	if (!json_get_range(element, "pid", 1, INT32_MAX, &pid) ||
		!get_int(element, "rank", 0, UINT32_MAX, &rank) ||
		!get_int(element, "start_ticks", 0, INT64_MAX, &start_ticks))
		return false;
	*process = (struct stepd_process){
		.pid = (pid_t)pid, .rank = rank, .start_ticks = (uint64_t)start_ticks};
	return true;
}

struct processes {
	struct stepd_process *v;
	size_t n, capacity;
};

static int add_processes(struct stepd_client *client, const char *method, const json_t *array,
	struct processes *processes, struct stepd_error *error)
{
	json_t *element;
	size_t i;

	if (!json_is_array(array))
		return client_refuse(client, method, "it lacks the array", error);
	if (json_array_size(array) > 0 &&
		array_reserve(processes->v, processes->capacity,
			processes->n + json_array_size(array)) < 0) {
		client->broken = true;
		return client_no_memory(error);
	}
	json_array_foreach (array, i, element) {
		if (!fill_process(&processes->v[processes->n++], element))
			return client_refuse(client, method,
				"an element of its array is not as in the interface", error);
	}
	return 0;
}

/* Calls method, takes over parameters, and adds the processes in this array of all replies. */
static int call_processes_take(struct stepd_client *client, const char *method, json_t *parameters,
	unsigned flags, const char *array, struct processes *processes, struct stepd_error *error)
{
	bool continues = true;
	int r;

	if (!parameters)
		return client_no_memory(error);
	r = client_begin_take(client, method, parameters, flags, error);
	while (r == 0 && continues) {
		_cleanup_reply_ struct reply reply = {0};

		r = client_next_in_time(client, client->timeout_ms, &reply, error);
		if (r == 0)
			r = add_processes(client, method, json_object_get(reply.parameters, array),
				processes, error);
		continues = reply.continues;
	}
	return r;
}

/* After a failure r, which it returns, there are none. */
static int finish_processes(
	struct processes *processes, int r, struct stepd_process **ret_processes, size_t *ret_count)
{
	if (r < 0) {
		free(processes->v);
		return r;
	}
	*ret_processes = processes->v;
	*ret_count = processes->n;
	return 0;
}

int stepd_list_pids(struct stepd_client *client, const char *ranks, bool start_ticks,
	struct stepd_process **ret_processes, size_t *ret_count, struct stepd_error *error)
{
	struct processes processes = {0};
	int r = call_processes_take(client, "ListPids",
		json_pack("{s:s*, s:b}", "ranks", ranks, "start_ticks", (int)start_ticks),
		STEPD_CALL_MORE, "pids", &processes, error);

	return finish_processes(&processes, r, ret_processes, ret_count);
}

static json_t *pack_pids(const pid_t *pids, size_t count, uint64_t pid_namespace)
{
	json_auto_t *array = json_array();
	int r = 0;
	size_t i;

	for (i = 0; r == 0 && i < count; i++)
		r = json_array_append_new(array, json_integer(pids[i]));
	if (r < 0)
		return NULL;
	if (pid_namespace == 0)
		return json_pack("{s:O}", "pids", array);
	return json_pack("{s:O, s:I}", "pids", array, "pid_namespace", (json_int_t)pid_namespace);
}

int stepd_find_pids(struct stepd_client *client, const pid_t *pids, size_t count,
	uint64_t pid_namespace, struct stepd_process **ret_processes, size_t *ret_count,
	struct stepd_error *error)
{
	struct processes processes = {0};
	size_t at, n;
	int r = 0;

	for (at = 0; r == 0 && at < count; at += n) {
		n = count - at < CLIENT_FIND_PIDS_MAX ? count - at : CLIENT_FIND_PIDS_MAX;
		r = call_processes_take(client, "FindPids", pack_pids(pids + at, n, pid_namespace),
			0, "found", &processes, error);
	}
	return finish_processes(&processes, r, ret_processes, ret_count);
}

/* ---- acting -------------------------------------------------------------------------------- */

/* Takes over parameters; NULL is want of memory. The reply is empty. */
static int call_done_take(struct stepd_client *client, const char *method, json_t *parameters,
	int timeout_ms, struct stepd_error *error)
{
	if (!parameters)
		return client_no_memory(error);
	return client_call_within_take(client, method, parameters, timeout_ms, NULL, error);
}

static json_t *pack_signal(const char *signal, const struct stepd_signal_target *target)
{
	json_auto_t *doc = json_pack("{s:s}", "signal", signal);
	int r = doc ? 0 : -1;

	if (r == 0 && target && target->ranks)
		r = json_object_set_new(doc, "ranks", json_string(target->ranks));
	if (r == 0 && target && target->pid)
		r = json_object_set_new(doc, "pid", json_integer(target->pid));
	if (r == 0 && target && target->start_ticks)
		r = json_object_set_new(
			doc, "start_ticks", json_integer((json_int_t)target->start_ticks));
	if (r == 0 && target && target->leader)
		r = json_object_set_new(doc, "leader", json_true());
	return r < 0 ? NULL : take_ptr(doc);
}

int stepd_signal(struct stepd_client *client, const char *signal,
	const struct stepd_signal_target *target, struct stepd_error *error)
{
	/* kill(2)'s other meanings of a pid are refused: none of them means "the whole step". */
	if (target && (target->pid < 0 || (target->start_ticks > 0 && target->pid == 0)))
		return client_error(error, -EINVAL,
			"step %s: Signal: %d is no pid of one process (a signal for all of a step "
			"names none)",
			client->name, (int)target->pid);
	return call_done_take(
		client, "Signal", pack_signal(signal, target), client->timeout_ms, error);
}

static int step_timeout_ms(const struct stepd_client *client)
{
	if (client->split || client->timeout_ms < 0 || client->timeout_ms > STEP_TIMEOUT_MS)
		return client->timeout_ms;
	return STEP_TIMEOUT_MS;
}

int stepd_suspend(struct stepd_client *client, struct stepd_error *error)
{
	return call_done_take(client, "Suspend", json_object(), step_timeout_ms(client), error);
}

int stepd_resume(struct stepd_client *client, struct stepd_error *error)
{
	return call_done_take(client, "Resume", json_object(), step_timeout_ms(client), error);
}

int stepd_terminate(struct stepd_client *client, const char *kill_sequence, int64_t grace_ms,
	struct stepd_error *error)
{
	json_auto_t *parameters = json_pack("{s:s*}", "kill_sequence", kill_sequence);

	if (grace_ms >= 0 &&
		json_object_set_new(parameters, "grace_ms", json_integer(grace_ms)) < 0)
		return client_no_memory(error);
	return call_done_take(client, "Terminate", take_ptr(parameters), client->timeout_ms, error);
}

/* ---- the others ---------------------------------------------------------------------------- */

int stepd_add_pid(
	struct stepd_client *client, pid_t pid, uint64_t start_ticks, struct stepd_error *error)
{
	json_auto_t *parameters = json_pack("{s:i}", "pid", (int)pid);

	if (start_ticks &&
		json_object_set_new(
			parameters, "start_ticks", json_integer((json_int_t)start_ticks)) < 0)
		return client_no_memory(error);
	return call_done_take(client, "AddPid", take_ptr(parameters), client->timeout_ms, error);
}

int stepd_notify(struct stepd_client *client, const char *message, struct stepd_error *error)
{
	json_t *parameters = json_pack("{s:s}", "message", message);

	if (!parameters) /* jansson takes nothing else */
		return client_error(
			error, -EINVAL, "step %s: Notify: the message is no UTF-8", client->name);
	return call_done_take(client, "Notify", parameters, client->timeout_ms, error);
}

int stepd_reexec(struct stepd_client *client, char **ret_version, struct stepd_error *error)
{
	json_auto_t *reply = NULL;
	const char *version;
	int r = client_call_within_take(
		client, "Reexec", json_object(), step_timeout_ms(client), &reply, error);

	if (r == 0 && ret_version) {
		version = json_get_text(reply, "version", NULL);
		if (!version)
			r = client_refuse(client, "Reexec", "it names no version", error);
		else if (!(*ret_version = strdup(version)))
			r = client_no_memory(error);
	}
	return r;
}

/* ---- the end ------------------------------------------------------------------------------- */

/* The result of the reply, or of the file that the agent left. */
static int take_result(struct stepd_client *client, const json_t *parameters, char **ret_result,
	struct stepd_error *error)
{
	json_t *result = json_object_get(parameters, "result");

	if (json_is_object(result))
		return client_dump_take(json_incref(result), ret_result, error);
	return stepd_read_result(client->directory, ret_result, error);
}

int stepd_wait(
	struct stepd_client *client, int timeout_ms, char **ret_result, struct stepd_error *error)
{
	_cleanup_reply_ struct reply reply = {0};
	int r = 0;

	if (client->broken || !client_is_pending(client, "Wait"))
		r = client_start_take(client, "Wait", NULL, 0, error);
	if (r == 0)
		r = client_next(client, timeout_ms, &reply, error);
	/* The agent may have ended between the result and the reply. */
	if (r == -ECONNRESET && stepd_read_result(client->directory, ret_result, NULL) == 0)
		return 0;
	return r < 0 ? r : take_result(client, reply.parameters, ret_result, error);
}

/* ---- events -------------------------------------------------------------------------------- */

int stepd_follow(struct stepd_client *client, uint64_t from, struct stepd_error *error)
{
	json_t *parameters =
		from > 0 ? json_pack("{s:I}", "from", (json_int_t)from) : json_object();

	if (!parameters)
		return client_no_memory(error);
	client->followed = false;
	return client_start_take(client, "Events", parameters, STEPD_CALL_MORE, error);
}

/* Cuts at the end of a character. */
static void copy_text(char *buf, size_t size, const char *text)
{
	size_t length = strlen(text);

	if (length >= size)
		for (length = size - 1; length > 0 && (text[length] & 0xc0) == 0x80;)
			length--;
	memcpy(buf, text, length);
	buf[length] = '\0';
}

static bool fill_event(struct stepd_event *event, const json_t *doc)
{
	int64_t sequence = json_get_int(doc, "sequence", -1);
	int64_t time_usec = json_get_int(doc, "time_usec", -1);

	if (sequence < 1 || time_usec < 0 || !json_is_string(json_object_get(doc, "kind")))
		return false;
	*event = (struct stepd_event){.sequence = (uint64_t)sequence,
		.time_usec = (uint64_t)time_usec,
		.rank = json_get_int(doc, "rank", -1),
		.pid = json_get_int(doc, "pid", -1),
		.wait_status = json_get_int(doc, "wait_status", -1),
		.exit_code = json_get_int(doc, "exit_code", -1),
		.count = json_get_int(doc, "count", -1)};
	copy_text(event->kind, sizeof(event->kind), json_get_text(doc, "kind", ""));
	copy_text(event->state, sizeof(event->state), json_get_text(doc, "state", ""));
	copy_text(event->text, sizeof(event->text), json_get_text(doc, "text", ""));
	return true;
}

int stepd_next_event(struct stepd_client *client, int timeout_ms, struct stepd_event *ret_event,
	struct stepd_error *error)
{
	_cleanup_reply_ struct reply reply = {0};
	const json_t *doc;
	int r;

	if (client->followed)
		return 0;
	if (!client->broken && !client_is_pending(client, "Events"))
		return client_error(error, -EINVAL,
			"step %s: Events: stepd_follow() comes before stepd_next_event()",
			client->name);
	r = client_next(client, timeout_ms, &reply, error);
	if (r < 0)
		return r;
	client->followed = !reply.continues;
	doc = json_object_get(reply.parameters, "event");
	if (!doc && !reply.continues)
		return 0; /* the last reply need not have one */
	if (!fill_event(ret_event, doc))
		return client_refuse(
			client, "Events", "its event is not as in the interface", error);
	return 1;
}
