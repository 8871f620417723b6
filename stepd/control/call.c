/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A frame becomes a call: the envelope, the method's row, the caller's access, the parameters, in
 * that order. What is not a JSON object is not a call, and its sender is cut off; everything else
 * gets a reply that names what is wrong.
 */
#include "stepd/control/control_impl.h"

#include <assert.h>
#include <string.h>
#include <sys/uio.h>

#define SERVICE_INTERFACE   "org.varlink.service"
#define INTERFACE_NOT_FOUND SERVICE_INTERFACE ".InterfaceNotFound"
#define METHOD_NOT_FOUND    SERVICE_INTERFACE ".MethodNotFound"
#define INVALID_PARAMETER   SERVICE_INTERFACE ".InvalidParameter"
#define EXPECTED_MORE       SERVICE_INTERFACE ".ExpectedMore"

/* ---- replies ------------------------------------------------------------------------------- */

/* Replies: text around the caller's, sent at once as far as the kernel takes it. */

const struct control_peer *control_call_peer(const struct control_call *call)
{
	return &call->conn->peer;
}

bool control_call_wants_more(const struct control_call *call)
{
	return call->more && (call->method->flags & (CONTROL_MORE | CONTROL_MORE_ONLY));
}

static void call_end(struct control_call *call)
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

static const char *reply_head(const struct control_call *call, bool last)
{
	assert(last || control_call_wants_more(call));
	return last ? "{\"parameters\":" : "{\"continues\":true,\"parameters\":";
}

void control_reply_take(struct control_call *call, json_t *parameters, bool last)
{
	send_json_take(call, reply_head(call, last), parameters, last);
}

void control_reply_text(struct control_call *call, const char *parameters, size_t size, bool last)
{
	send_answer(call, reply_head(call, last), parameters, size, last);
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

static void reply_error(
	struct control_call *call, const char *name, const char *key, const char *value)
{
	json_t *parameters = value ? json_pack("{s:s}", key, value) : NULL;

	if (!parameters)
		control_no_memory(call);
	else
		control_error_take(call, name, parameters);
}

/* The frame of the call itself is dropped with the connection's buffers. */
static bool has_more_input(const struct conn *conn)
{
	const char *text = buffer_bytes(&conn->in.bytes);
	size_t size = buffer_size(&conn->in.bytes);
	const char *end = memchr(text, '\0', size);

	return end && end + 1 < text + size;
}

int control_upgrade_take(struct control_call *call, json_t *parameters, int *ret_fd)
{
	struct conn *conn = call->conn;
	bool more = has_more_input(conn);

	assert(call->method->flags & CONTROL_UPGRADE);
	if (!parameters) {
		control_no_memory(call);
		return -ENOMEM;
	}
	control_reply_take(call, parameters, true);
	if (conn->fd >= 0 && (more || buffer_size(&conn->out) > 0))
		conn_fail(conn,
			"it can't be upgraded: it has sent more than a call, or reads nothing");
	if (conn->fd < 0)
		return -EPIPE;
	*ret_fd = conn_detach(conn);
	return 0;
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

/* ---- org.varlink.service ------------------------------------------------------------------- */

/* org.varlink.service, which every Varlink service has (https://varlink.org/Service): its name
 * and interfaces. Everybody may call it. */

static const char service_description[] =
	"# What every Varlink service answers.\n"
	"interface org.varlink.service\n"
	"\n"
	"# Who made the service, and the interfaces it has.\n"
	"method GetInfo() -> (\n"
	"  vendor: string,\n"
	"  product: string,\n"
	"  version: string,\n"
	"  url: string,\n"
	"  interfaces: []string\n"
	")\n"
	"\n"
	"# The text of an interface.\n"
	"method GetInterfaceDescription(interface: string) -> (description: string)\n"
	"\n"
	"error InterfaceNotFound (interface: string)\n"
	"\n"
	"error MethodNotFound (method: string)\n"
	"\n"
	"error MethodNotImplemented (method: string)\n"
	"\n"
	"error InvalidParameter (parameter: string)\n"
	"\n"
	"error PermissionDenied ()\n"
	"\n"
	"# The method is called with more only.\n"
	"error ExpectedMore ()\n";

static void get_info(
	struct control_call *call, _unused_ const json_t *parameters, _unused_ void *userdata)
{
	const struct control_options *o = &call->conn->control->options;
	json_t *reply = json_pack("{s:s, s:s, s:s, s:s, s:[s, s]}", "vendor", o->vendor, "product",
		o->product, "version", o->version, "url", o->url, "interfaces", SERVICE_INTERFACE,
		o->interface);

	if (!reply)
		control_no_memory(call);
	else
		control_reply_take(call, reply, true);
}

static void get_description(
	struct control_call *call, const json_t *parameters, _unused_ void *userdata)
{
	const struct control_options *o = &call->conn->control->options;
	const char *interface = json_string_value(json_object_get(parameters, "interface"));
	const char *text = NULL;
	json_t *reply;

	if (strcmp(interface, SERVICE_INTERFACE) == 0)
		text = service_description;
	else if (strcmp(interface, o->interface) == 0)
		text = o->description;
	if (!text) {
		reply_error(call, SERVICE_INTERFACE ".InterfaceNotFound", "interface", interface);
		return;
	}
	reply = json_pack("{s:s}", "description", text);
	if (!reply)
		control_no_memory(call);
	else
		control_reply_take(call, reply, true);
}

static const struct control_method service_methods[] = {
	{.name = "GetInfo", .access = CONTROL_EVERYBODY, .run = get_info},
	{.name = "GetInterfaceDescription",
		.access = CONTROL_EVERYBODY,
		.parameters = {{"interface", CONTROL_STRING, false}},
		.run = get_description},
};

/* ---- a frame becomes a call ---------------------------------------------------------------- */

struct envelope {
	json_t *doc; /* owned */
	const char *method;
	json_t *parameters; /* owned; never NULL */
	bool oneway, more, upgrade;
	const char *wrong; /* the member that is */
};

static void envelope_clear(struct envelope *e)
{
	json_decref(e->parameters);
	json_decref(e->doc);
}

#define _cleanup_envelope_ _cleanup_(envelope_clear)

static bool read_bool(const json_t *value, bool *ret)
{
	*ret = json_is_true(value);
	return json_is_boolean(value) || json_is_null(value);
}

/* Reads one member; false if a call has no such member, or it has the wrong type. */
static bool read_member(struct envelope *e, const char *key, json_t *value)
{
	if (strcmp(key, "method") == 0)
		return (e->method = json_string_value(value)) != NULL;
	if (strcmp(key, "parameters") == 0) {
		if (json_is_null(value))
			return true;
		e->parameters = json_incref(value);
		return json_is_object(value);
	}
	if (strcmp(key, "oneway") == 0)
		return read_bool(value, &e->oneway);
	if (strcmp(key, "more") == 0)
		return read_bool(value, &e->more);
	if (strcmp(key, "upgrade") == 0)
		return read_bool(value, &e->upgrade);
	return false;
}

/* 0, with e->wrong if the call is invalid; -EBADMSG if it is not a call. */
static int envelope_parse(struct envelope *e, const char *frame, size_t size, size_t values_max)
{
	const char *key;
	json_t *value;

	if (!frame_is_bounded(frame, size, values_max))
		return -EBADMSG;
	e->doc = json_loadb(frame, size, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(e->doc))
		return -EBADMSG;
	json_object_foreach (e->doc, key, value) {
		if (!read_member(e, key, value) && !e->wrong)
			e->wrong = key;
	}
	if (!e->method && !e->wrong)
		e->wrong = "method";
	if (!e->parameters)
		e->parameters = json_object();
	return e->parameters ? 0 : -EBADMSG;
}

const struct control_method *control_find_method(
	const struct control_method *rows, size_t count, const char *name)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	}
	return NULL;
}

static bool is_interface(const char *method, size_t size, const char *interface)
{
	return strlen(interface) == size && memcmp(method, interface, size) == 0;
}

/* Finds the row of "interface.Method", or replies with the error. */
static bool find_method(struct control_call *call, const char *method)
{
	const struct control_options *o = &call->conn->control->options;
	const char *dot = strrchr(method, '.');
	const size_t size = dot ? (size_t)(dot - method) : 0;
	_cleanup_free_ char *interface = NULL;

	if (!dot) {
		reply_error(call, INVALID_PARAMETER, "parameter", "method");
		return false;
	}
	if (is_interface(method, size, SERVICE_INTERFACE)) {
		call->method =
			control_find_method(service_methods, ARRAY_SIZE(service_methods), dot + 1);
	} else if (is_interface(method, size, o->interface)) {
		call->method = control_find_method(o->methods, o->methods_count, dot + 1);
	} else {
		interface = strndup(method, size);
		reply_error(call, INTERFACE_NOT_FOUND, "interface", interface);
		return false;
	}
	if (!call->method)
		reply_error(call, METHOD_NOT_FOUND, "method", method);
	return call->method != NULL;
}

static bool is_array_of(const json_t *value, json_type type)
{
	size_t i;

	if (!json_is_array(value))
		return false;
	for (i = 0; i < json_array_size(value); i++) {
		if (json_typeof(json_array_get(value, i)) != type)
			return false;
	}
	return true;
}

static bool has_type(const json_t *value, enum control_type type)
{
	switch (type) {
	case CONTROL_BOOL:
		return json_is_boolean(value);
	case CONTROL_INT:
		return json_is_integer(value);
	case CONTROL_STRING:
		return json_is_string(value);
	case CONTROL_OBJECT:
		return json_is_object(value);
	case CONTROL_INT_ARRAY:
		return is_array_of(value, JSON_INTEGER);
	case CONTROL_OBJECT_ARRAY:
		return is_array_of(value, JSON_OBJECT);
	case CONTROL_TYPE_MAX:
		break;
	}
	return false;
}

/* Checks one parameter of the row; an optional one that is null is removed. */
static bool check_parameter(const struct control_parameter *p, json_t *parameters, size_t *seen)
{
	const json_t *value = json_object_get(parameters, p->name);

	if (value)
		(*seen)++;
	if (!value || (json_is_null(value) && p->optional)) {
		if (value)
			(void)json_object_del(parameters, p->name); /* it is there */
		return p->optional;
	}
	return has_type(value, p->type);
}

static const struct control_parameter *find_parameter(
	const struct control_method *method, const char *name)
{
	const struct control_parameter *p;

	for (p = method->parameters; p->name; p++) {
		if (strcmp(p->name, name) == 0)
			return p;
	}
	return NULL;
}

/* The name of the parameter that is wrong, missing or unknown; NULL if all are right. */
static const char *find_wrong(const struct control_method *method, json_t *parameters)
{
	const size_t size = json_object_size(parameters);
	const struct control_parameter *p;
	const char *name;
	size_t seen = 0;
	json_t *value;

	for (p = method->parameters; p->name; p++) {
		if (!check_parameter(p, parameters, &seen))
			return p->name;
	}
	if (seen == size)
		return NULL;
	json_object_foreach (parameters, name, value) {
		if (!find_parameter(method, name))
			return name;
	}
	return NULL;
}

/* Checks the call, and replies with the first error. True: there is none. */
static bool check_call(struct control_call *call, const struct envelope *e)
{
	const char *wrong = e->wrong;

	if (!wrong && !find_method(call, e->method))
		return false;
	if (!wrong && call->conn->access > call->method->access) {
		access_deny(call, e->method);
		return false;
	}
	if (!wrong && (call->method->flags & CONTROL_MORE_ONLY) && !call->more) {
		control_error_take(call, EXPECTED_MORE, NULL);
		return false;
	}
	if (!wrong && e->upgrade != !!(call->method->flags & CONTROL_UPGRADE))
		wrong = "upgrade";
	if (!wrong && e->upgrade && e->oneway)
		wrong = "oneway"; /* there would be no reply after which it is a channel */
	if (!wrong)
		wrong = find_wrong(call->method, e->parameters);
	if (wrong)
		reply_error(call, INVALID_PARAMETER, "parameter", wrong);
	return !wrong;
}

/* Calls that had to wait run first. */
static bool has_to_wait(const struct conn *conn, const struct control_method *method)
{
	const struct control *c = conn->control;

	return (method->flags & CONTROL_WHEN_READY) &&
		(!c->ready || (!conn->has_waited && !TAILQ_EMPTY(&c->waiting)));
}

const struct control_method *control_call_get_method(const struct control_call *call)
{
	return call->method;
}

int call_run(struct conn *conn, const char *frame, size_t size)
{
	struct control_call *call = &conn->call;
	_cleanup_envelope_ struct envelope e = {.doc = NULL};

	if (envelope_parse(&e, frame, size, conn->values_max) < 0)
		return -EBADMSG;
	*call = (struct control_call){
		.conn = conn, .under_way = true, .more = e.more && !e.oneway, .oneway = e.oneway};
	if (!check_call(call, &e))
		return 0;
	if (has_to_wait(conn, call->method)) {
		*call = (struct control_call){.conn = conn};
		return -EAGAIN;
	}
	call->method->run(call, e.parameters, conn->control->options.userdata);
	return 0;
}
