/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connections, and calls of any method.
 */
#include "stepd/client/client_impl.h"

#include <jansson.h>
#include <string.h>

int client_no_memory(struct stepd_error *error)
{
	return client_say(error, -ENOMEM, "there is no memory left to talk to a step's agent");
}

/* ---- a connection -------------------------------------------------------------------------- */

struct stepd_client *stepd_disconnect(struct stepd_client *client)
{
	if (!client)
		return NULL;
	stream_clear(&client->stream);
	free(client->name);
	free(client->directory);
	free(client->method);
	free(client);
	return NULL;
}
DEFINE_CLEANUP(struct stepd_client *, stepd_disconnect);

int stepd_connect_directory(const char *directory, int timeout_ms, struct stepd_client **ret_client,
	struct stepd_error *error)
{
	_cleanup_(stepd_disconnect_p) struct stepd_client *client = calloc(1, sizeof(*client));
	int fd;

	if (!client)
		return client_no_memory(error);
	stream_init(&client->stream, -1);
	client->timeout_ms = timeout_ms;
	client->name = connect_step_name(directory);
	client->directory = strdup(directory);
	if (!client->name || !client->directory)
		return client_no_memory(error);
	fd = connect_agent(directory, client->name, timeout_ms, error);
	if (fd < 0)
		return fd;
	stream_init(&client->stream, fd);
	*ret_client = take_ptr(client);
	return 0;
}

int stepd_connect(const char *runtime_dir, const char *name, int timeout_ms,
	struct stepd_client **ret_client, struct stepd_error *error)
{
	_cleanup_free_ char *directory = NULL;
	int r = stepd_find_step(runtime_dir, name, &directory, error);

	return r < 0 ? r : stepd_connect_directory(directory, timeout_ms, ret_client, error);
}

void stepd_set_timeout(struct stepd_client *client, int timeout_ms)
{
	client->timeout_ms = timeout_ms;
}

int stepd_get_fd(const struct stepd_client *client)
{
	return client->stream.fd;
}

bool stepd_wants_write(const struct stepd_client *client)
{
	return stream_wants_write(&client->stream);
}

/* ---- failures of a connection -------------------------------------------------------------- */

int client_refuse(
	struct stepd_client *client, const char *method, const char *why, struct stepd_error *error)
{
	client->broken = true;
	return client_say(error, -EPROTO,
		"step %s: %s: what came is no answer: %s; is this the socket of a step's agent?",
		client->name, method, why);
}

/* What stream_next() and stream_flush() fail with. */
static int say_stream(struct stepd_client *client, const char *method, int r, int timeout_ms,
	struct stepd_error *error)
{
	if (r == -ETIMEDOUT && timeout_ms == 0)
		return client_say(error, -EAGAIN, "step %s: %s: there is no answer yet",
			client->name, method);
	if (r == -ETIMEDOUT)
		return client_say(error, r,
			"step %s: %s: no answer in %d ms; its agent may be stopped, or busy",
			client->name, method, timeout_ms);
	if (r == -EMSGSIZE)
		return client_refuse(client, method, "it has no end", error);
	client->broken = true;
	if (r == -ECONNRESET || r == -EPIPE)
		return client_say(error, -ECONNRESET,
			"step %s: %s: its agent ended the connection before the answer; connect "
			"again to see whether it lives",
			client->name, method);
	return client_fail(error, r, "step %s: %s", client->name, method);
}

static const char *bare_method(const char *method)
{
	size_t prefix = strlen(STEP_INTERFACE);

	return strncmp(method, STEP_INTERFACE, prefix) == 0 ? method + prefix : method;
}

/* ---- calls --------------------------------------------------------------------------------- */

static int make_frame(
	const char *method, json_t *parameters, unsigned flags, char **ret_frame, size_t *ret_size)
{
	const char *prefix = strchr(method, '.') ? "" : STEP_INTERFACE;
	json_t *doc = json_pack("{s:s+}", "method", prefix, method);
	int r = doc ? 0 : -1;
	char *text;

	if (r == 0 && parameters)
		r = json_object_set(doc, "parameters", parameters);
	if (r == 0 && flags & STEPD_CALL_MORE)
		r = json_object_set_new(doc, "more", json_true());
	if (r == 0 && flags & STEPD_CALL_ONEWAY)
		r = json_object_set_new(doc, "oneway", json_true());
	text = r == 0 ? json_dumps(doc, JSON_COMPACT) : NULL;
	json_decref(doc);
	if (!text)
		return -ENOMEM;
	*ret_frame = text;
	*ret_size = strlen(text) + 1;
	return 0;
}

/* Something has come that nobody asked for: the agent's reason to end the connection at best. */
static int refuse_unasked(
	struct stepd_client *client, const char *method, struct stepd_error *error)
{
	_cleanup_reply_ struct reply reply = {0};
	const char *frame, *why = NULL;
	size_t size;
	int r;

	r = stream_next(&client->stream, stream_deadline(client->timeout_ms), &frame, &size);
	if (r < 0) {
		client->broken = true;
		return say_stream(client, method, r, client->timeout_ms, error);
	}
	if (reply_parse(frame, size, &reply, &why) < 0 || !reply.error)
		return client_refuse(
			client, method, why ? why : "it came before it was asked for", error);
	client->broken = true;
	return client_say_remote(error, client->name, method, reply.error, reply.parameters);
}

static int check_idle(struct stepd_client *client, const char *method, struct stepd_error *error)
{
	if (client->broken)
		return client_say(error, -ECONNRESET,
			"step %s: %s: this connection is of no more use after what failed before; "
			"connect again",
			client->name, method);
	if (client->method)
		return client_say(error, -EINVAL,
			"step %s: %s: %s is under way on this connection; use another one",
			client->name, method, client->method);
	if (stream_has_input(&client->stream))
		return refuse_unasked(client, method, error);
	return 0;
}

static int send_call(struct stepd_client *client, const char *method, json_t *parameters,
	unsigned flags, struct stepd_error *error)
{
	int r = check_idle(client, method, error);
	char *frame;
	size_t size;

	if (r < 0)
		return r;
	r = stream_flush(&client->stream, stream_deadline(client->timeout_ms));
	if (r < 0)
		return say_stream(client, method, r, client->timeout_ms, error);
	r = make_frame(method, parameters, flags, &frame, &size);
	if (r < 0)
		return client_no_memory(error);
	stream_put_take(&client->stream, frame, size);
	if (flags & STEPD_CALL_ONEWAY)
		return 0;
	client->method = strdup(method);
	client->more = flags & STEPD_CALL_MORE;
	if (!client->method) {
		client->broken = true;
		return client_no_memory(error);
	}
	return 0;
}

int client_start_take(struct stepd_client *client, const char *method, json_t *parameters,
	unsigned flags, struct stepd_error *error)
{
	int r = send_call(client, bare_method(method), parameters, flags, error);

	json_decref(parameters);
	return r;
}

/* What has been asked for is done, or will never be. */
static void end_call(struct stepd_client *client)
{
	free(client->method);
	client->method = NULL;
}

static int take_answer(struct stepd_client *client, const char *frame, size_t size,
	struct reply *ret_reply, struct stepd_error *error)
{
	_cleanup_reply_ struct reply reply = {0};
	_cleanup_free_ char *method = NULL;
	const char *why = NULL;
	int r = reply_parse(frame, size, &reply, &why);

	if (r == -ENOMEM) {
		client->broken = true;
		return client_no_memory(error);
	}
	if (r == 0 && reply.continues && !client->more)
		why = "it says that more will come, which was not asked for";
	if (why)
		return client_refuse(client, client->method, why, error);
	if (reply.error) {
		method = take_ptr(client->method);
		return client_say_remote(
			error, client->name, method, reply.error, reply.parameters);
	}
	if (!reply.continues)
		end_call(client);
	*ret_reply = reply;
	reply = (struct reply){0};
	return 0;
}

int client_next(struct stepd_client *client, int timeout_ms, struct reply *ret_reply,
	struct stepd_error *error)
{
	const char *frame;
	size_t size;
	int r;

	if (client->broken || !client->method)
		return client_say(error, client->broken ? -ECONNRESET : -EINVAL,
			"step %s: there is no answer to wait for on this connection", client->name);
	r = stream_next(&client->stream, stream_deadline(timeout_ms), &frame, &size);
	if (r < 0)
		return say_stream(client, client->method, r, timeout_ms, error);
	return take_answer(client, frame, size, ret_reply, error);
}

int client_next_in_time(struct stepd_client *client, int timeout_ms, struct reply *ret_reply,
	struct stepd_error *error)
{
	int r = client_next(client, timeout_ms, ret_reply, error);

	if (client->method && r < 0)
		client->broken = true;
	return r;
}

int client_call_take(struct stepd_client *client, const char *method, json_t *parameters,
	int timeout_ms, json_t **ret_parameters, struct stepd_error *error)
{
	_cleanup_reply_ struct reply reply = {0};
	int r = client_start_take(client, method, parameters, 0, error);

	if (r == 0)
		r = client_next_in_time(client, timeout_ms, &reply, error);
	if (r == 0 && ret_parameters)
		*ret_parameters = json_incref(reply.parameters);
	return r;
}

int client_dump_take(json_t *object, char **ret_json, struct stepd_error *error)
{
	char *text = json_dumps(object, JSON_COMPACT);

	json_decref(object);
	if (!text)
		return client_no_memory(error);
	*ret_json = text;
	return 0;
}

/* ---- any method ---------------------------------------------------------------------------- */

static int load_parameters(const struct stepd_client *client, const char *method, const char *text,
	json_t **ret_parameters, struct stepd_error *error)
{
	json_error_t why;
	json_t *doc;

	*ret_parameters = NULL;
	if (!text)
		return 0;
	doc = json_loads(text, JSON_REJECT_DUPLICATES, &why);
	if (!doc)
		return client_say(error, -EINVAL,
			"step %s: %s: the parameters are no JSON (line %d: %s)", client->name,
			method, why.line, why.text);
	if (!json_is_object(doc)) {
		json_decref(doc);
		return client_say(error, -EINVAL, "step %s: %s: the parameters are no JSON object",
			client->name, method);
	}
	*ret_parameters = doc;
	return 0;
}

static int check_method(
	const struct stepd_client *client, const char *method, struct stepd_error *error)
{
	size_t length = strspn(method,
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		"0123456789.-");

	if (length == 0 || method[length] || length > 255)
		return client_say(error, -EINVAL, "step %s: '%s' is no name of a method",
			client->name, method);
	return 0;
}

int stepd_start_call(struct stepd_client *client, const char *method, const char *parameters,
	unsigned flags, struct stepd_error *error)
{
	json_t *doc = NULL;
	int r = check_method(client, method, error);

	if (r == 0)
		r = load_parameters(client, method, parameters, &doc, error);
	if (r == 0)
		r = client_start_take(client, method, doc, flags, error);
	if (r == 0 && flags & STEPD_CALL_ONEWAY) {
		/* Nobody asks for an answer, in which the rest would go out. */
		r = stream_flush(&client->stream, stream_deadline(client->timeout_ms));
		if (r < 0)
			return say_stream(client, method, r, client->timeout_ms, error);
	}
	return r;
}

int stepd_next(struct stepd_client *client, int timeout_ms, char **ret_reply, bool *ret_continues,
	struct stepd_error *error)
{
	struct reply reply = {0};
	int r = client_next(client, timeout_ms, &reply, error);

	if (r < 0)
		return r;
	r = client_dump_take(reply.parameters, ret_reply, error);
	if (r == 0)
		*ret_continues = reply.continues;
	return r;
}

int stepd_call(struct stepd_client *client, const char *method, const char *parameters,
	char **ret_reply, struct stepd_error *error)
{
	json_t *doc = NULL, *reply = NULL;
	int r = check_method(client, method, error);

	if (r == 0)
		r = load_parameters(client, method, parameters, &doc, error);
	if (r == 0)
		r = client_call_take(client, method, doc, client->timeout_ms, &reply, error);
	return r < 0 ? r : client_dump_take(reply, ret_reply, error);
}
