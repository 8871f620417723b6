/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Answers: text around the caller's, handed to the kernel at once where it takes it.
 */
#include <assert.h>
#include <string.h>
#include <sys/uio.h>

#include "stepd/control/control_impl.h"

const struct control_peer *control_call_peer(const struct control_call *call)
{
	return &call->conn->peer;
}

bool control_call_wants_more(const struct control_call *call)
{
	return call->more && (call->method->flags & (CONTROL_MORE | CONTROL_MORE_ONLY));
}

void call_end(struct control_call *call)
{
	struct conn *conn = call->conn;

	*call = (struct control_call){.conn = conn};
	control_watch_hup(conn, false);
}

/* Sends HEAD PARAMETERS "}" NUL; with last the call ends, and its connection reads on. */
static void send_answer(
	struct control_call *call, const char *head, const char *parameters, size_t size, bool last)
{
	struct conn *conn = call->conn;
	struct iovec iov[] = {
		{.iov_base = (void *)(uintptr_t)head, .iov_len = strlen(head)},
		{.iov_base = (void *)(uintptr_t)parameters, .iov_len = size},
		{.iov_base = (void *)(uintptr_t) "}", .iov_len = 2},
	};
	const bool oneway = call->oneway;

	assert(call->under_way);
	if (last)
		call_end(call);
	if (!oneway)
		conn_send(conn, iov, ARRAY_SIZE(iov));
	if (!conn->is_serving)
		conn_settle(conn);
}

static void send_json_take(
	struct control_call *call, const char *head, json_t *parameters, bool last)
{
	_cleanup_free_ char *text = parameters ? json_dumps(parameters, JSON_COMPACT) : NULL;

	if (parameters && !text)
		control_no_memory(call);
	else
		send_answer(call, head, text ? text : "{}", text ? strlen(text) : 2, last);
	json_decref(parameters);
}

void control_reply_take(struct control_call *call, json_t *parameters)
{
	send_json_take(call, "{\"parameters\":", parameters, true);
}

void control_reply_text(struct control_call *call, const char *parameters, size_t size)
{
	send_answer(call, "{\"parameters\":", parameters, size, true);
}

void control_reply_more_take(struct control_call *call, json_t *parameters)
{
	assert(control_call_wants_more(call));
	send_json_take(call, "{\"continues\":true,\"parameters\":", parameters, false);
}

void control_reply_more_text(struct control_call *call, const char *parameters, size_t size)
{
	assert(control_call_wants_more(call));
	send_answer(call, "{\"continues\":true,\"parameters\":", parameters, size, false);
}

void control_error_take(struct control_call *call, const char *name, json_t *parameters)
{
	const char *interface = call->conn->control->options.interface;
	const bool is_full = strchr(name, '.') != NULL;
	char head[256];
	int n = snprintf(head, sizeof(head),
		"{\"error\":\"%s%s%s\",\"parameters\":", is_full ? "" : interface,
		is_full ? "" : ".", name);

	assert(n > 0 && (size_t)n < sizeof(head));
	send_json_take(call, head, parameters, true);
}

void control_no_memory(struct control_call *call)
{
	static const char text[] = "{\"message\":\"the agent has no memory for this answer\","
				   "\"errno\":\"ENOMEM\"}";
	char head[256];

	(void)snprintf(head, sizeof(head),
		"{\"error\":\"%s.Failed\",\"parameters\":", call->conn->control->options.interface);
	send_answer(call, head, text, sizeof(text) - 1, true);
}

void reply_error(struct control_call *call, const char *name, const char *key, const char *value)
{
	json_t *parameters = value ? json_pack("{s:s}", key, value) : NULL;

	if (!parameters)
		control_no_memory(call);
	else
		control_error_take(call, name, parameters);
}

void control_call_on_drained(struct control_call *call, control_call_fn fn, void *userdata)
{
	assert(call->under_way);
	call->on_drained = fn;
	call->drained_userdata = userdata;
	if (buffer_size(&call->conn->out) == 0)
		control_schedule(call->conn);
}

void control_call_on_gone(struct control_call *call, control_call_fn fn, void *userdata)
{
	assert(call->under_way);
	call->on_gone = fn;
	call->gone_userdata = userdata;
}

void *control_call_get_holder(const struct control_call *call)
{
	return call->gone_userdata;
}
