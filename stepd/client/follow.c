/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What takes as long as the step lives: its events, and its end.
 */
#include <jansson.h>
#include <string.h>

#include "stepd/client/client_impl.h"

static bool is_under_way(const struct stepd_client *client, const char *method)
{
	return client->method && strcmp(client->method, method) == 0;
}

/* ---- the end ------------------------------------------------------------------------------- */

/* The result that the answer has, or that the agent left on the disk before it went. */
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

	if (client->broken || !is_under_way(client, "Wait"))
		r = client_start_take(client, "Wait", NULL, 0, error);
	if (r == 0)
		r = client_next(client, timeout_ms, &reply, error);
	/* The agent may have ended between the result and the answer. */
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

static int64_t get_number(const json_t *doc, const char *key)
{
	const json_t *value = json_object_get(doc, key);

	return json_is_integer(value) ? json_integer_value(value) : -1;
}

static const char *get_text(const json_t *doc, const char *key)
{
	const char *text = json_string_value(json_object_get(doc, key));

	return text ? text : "";
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
	int64_t sequence = get_number(doc, "sequence"), time_usec = get_number(doc, "time_usec");

	if (sequence < 1 || time_usec < 0 || !json_is_string(json_object_get(doc, "kind")))
		return false;
	*event = (struct stepd_event){.sequence = (uint64_t)sequence,
		.time_usec = (uint64_t)time_usec,
		.rank = get_number(doc, "rank"),
		.pid = get_number(doc, "pid"),
		.wait_status = get_number(doc, "wait_status"),
		.exit_code = get_number(doc, "exit_code"),
		.count = get_number(doc, "count")};
	copy_text(event->kind, sizeof(event->kind), get_text(doc, "kind"));
	copy_text(event->state, sizeof(event->state), get_text(doc, "state"));
	copy_text(event->text, sizeof(event->text), get_text(doc, "text"));
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
	if (!client->broken && !is_under_way(client, "Events"))
		return client_say(error, -EINVAL,
			"step %s: Events: stepd_follow() comes before stepd_next_event()",
			client->name);
	r = client_next(client, timeout_ms, &reply, error);
	if (r < 0)
		return r;
	client->followed = !reply.continues;
	doc = json_object_get(reply.parameters, "event");
	if (!doc && !reply.continues)
		return 0; /* the last answer need not tell of anything */
	if (!fill_event(ret_event, doc))
		return client_refuse(
			client, "Events", "its event is not as the interface has it", error);
	return 1;
}
