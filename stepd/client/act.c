/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The methods that act on a step.
 */
#include <jansson.h>
#include <string.h>

#include "stepd/client/client_impl.h"

/* A step is given time to come to a standstill (stepd(8), --suspend-timeout and the like). */
#define STEP_PATIENCE_MS 60000

/* Takes over parameters; NULL is want of memory. The answer says nothing. */
static int act_take(struct stepd_client *client, const char *method, json_t *parameters,
	int timeout_ms, struct stepd_error *error)
{
	if (!parameters)
		return client_no_memory(error);
	return client_call_take(client, method, parameters, timeout_ms, NULL, error);
}

static json_t *pack_signal(const char *signal, const struct stepd_signal_target *target)
{
	json_t *doc = json_pack("{s:s}", "signal", signal);
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
	if (r == 0)
		return doc;
	json_decref(doc);
	return NULL;
}

int stepd_signal(struct stepd_client *client, const char *signal,
	const struct stepd_signal_target *target, struct stepd_error *error)
{
	/* kill(2)'s other meanings of a pid are not those of a step's, and never pass for "all". */
	if (target && (target->pid < 0 || (target->start_ticks > 0 && target->pid == 0)))
		return client_say(error, -EINVAL,
			"step %s: Signal: %d is no pid of one process (a signal for all of a step "
			"names none)",
			client->name, (int)target->pid);
	return act_take(client, "Signal", pack_signal(signal, target), client->timeout_ms, error);
}

static int patience_ms(const struct stepd_client *client)
{
	if (client->timeout_ms < 0 || client->timeout_ms > STEP_PATIENCE_MS)
		return client->timeout_ms;
	return STEP_PATIENCE_MS;
}

int stepd_suspend(struct stepd_client *client, struct stepd_error *error)
{
	return act_take(client, "Suspend", json_object(), patience_ms(client), error);
}

int stepd_resume(struct stepd_client *client, struct stepd_error *error)
{
	return act_take(client, "Resume", json_object(), patience_ms(client), error);
}

int stepd_terminate(struct stepd_client *client, const char *kill_sequence, int64_t grace_ms,
	struct stepd_error *error)
{
	json_t *parameters = json_pack("{s:s*}", "kill_sequence", kill_sequence);

	if (parameters && grace_ms >= 0 &&
		json_object_set_new(parameters, "grace_ms", json_integer(grace_ms)) < 0) {
		json_decref(parameters);
		parameters = NULL;
	}
	return act_take(client, "Terminate", parameters, client->timeout_ms, error);
}

/* ---- limits -------------------------------------------------------------------------------- */

/* A line for each of the texts: NULL, and 0, where there is none. */
static int join_lines(const json_t *texts, char **ret_lines)
{
	_cleanup_free_ char *lines = NULL;
	_cleanup_fclose_ FILE *f = NULL;
	json_t *text;
	size_t size, i;
	bool failed;

	*ret_lines = NULL;
	if (json_array_size(texts) == 0)
		return 0;
	f = open_memstream(&lines, &size);
	if (!f)
		return -ENOMEM;
	json_array_foreach (texts, i, text)
		(void)fprintf(f, "%s\n", json_is_string(text) ? json_string_value(text) : "?");
	failed = ferror(f) != 0;
	if (fclose(take_ptr(f)) != 0 || failed)
		return -ENOMEM;
	*ret_lines = take_ptr(lines);
	return 0;
}

static int load_limits(const struct stepd_client *client, const char *text, json_t **ret_limits,
	struct stepd_error *error)
{
	json_error_t why;
	json_t *limits = json_loads(text, JSON_REJECT_DUPLICATES, &why);

	if (json_is_object(limits)) {
		*ret_limits = limits;
		return 0;
	}
	if (!limits)
		return client_say(error, -EINVAL,
			"step %s: SetLimits: the limits are no JSON (line %d: %s)", client->name,
			why.line, why.text);
	json_decref(limits);
	return client_say(error, -EINVAL,
		"step %s: SetLimits: the limits are no JSON object (see stepd-limits(7))",
		client->name);
}

int stepd_set_limits(struct stepd_client *client, const char *limits, const char *ranks,
	bool best_effort, char **ret_warnings, struct stepd_error *error)
{
	json_t *doc = NULL, *parameters, *reply = NULL;
	int r = load_limits(client, limits, &doc, error);

	if (r < 0)
		return r;
	parameters = json_pack(
		"{s:o, s:s*, s:b}", "limits", doc, "ranks", ranks, "best_effort", (int)best_effort);
	if (!parameters)
		return client_no_memory(error);
	r = client_call_take(client, "SetLimits", parameters, client->timeout_ms, &reply, error);
	if (r == 0 && ret_warnings &&
		join_lines(json_object_get(reply, "warnings"), ret_warnings) < 0)
		r = client_no_memory(error);
	json_decref(reply);
	return r;
}

/* ---- the others ---------------------------------------------------------------------------- */

int stepd_add_pid(
	struct stepd_client *client, pid_t pid, uint64_t start_ticks, struct stepd_error *error)
{
	json_t *parameters = json_pack("{s:i}", "pid", (int)pid);

	if (parameters && start_ticks &&
		json_object_set_new(
			parameters, "start_ticks", json_integer((json_int_t)start_ticks)) < 0) {
		json_decref(parameters);
		parameters = NULL;
	}
	return act_take(client, "AddPid", parameters, client->timeout_ms, error);
}

int stepd_notify(struct stepd_client *client, const char *message, struct stepd_error *error)
{
	json_t *parameters = json_pack("{s:s}", "message", message);

	if (!parameters) /* jansson takes nothing else */
		return client_say(
			error, -EINVAL, "step %s: Notify: the message is no UTF-8", client->name);
	return act_take(client, "Notify", parameters, client->timeout_ms, error);
}

int stepd_reexec(struct stepd_client *client, char **ret_version, struct stepd_error *error)
{
	const char *version;
	json_t *reply = NULL;
	int r = client_call_take(
		client, "Reexec", json_object(), patience_ms(client), &reply, error);

	if (r == 0 && ret_version) {
		version = json_string_value(json_object_get(reply, "version"));
		if (!version)
			r = client_refuse(client, "Reexec", "it names no version", error);
		else if (!(*ret_version = strdup(version)))
			r = client_no_memory(error);
	}
	json_decref(reply);
	return r;
}
