/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The service, carried over an exec of a new program: the listening socket and all connections by
 * the numbers of their descriptors, what has been read and not handled, what is to be written and
 * has not been, and calls under way. Credentials are read from the kernel again.
 *
 *	{"fd": 7, "ready": true, "fds": [7, 9], "connections": [{"fd": 9, "in": HEX, "out": HEX,
 *	 "no_more_input": false, "call": {"method": "Wait", "more": true, "oneway": false,
 *	 "state": ...}}, {"fd": 8, "listener": "socket.agent", "no_more_input": true}]}
 *
 * The sockets of root and of the owner are among the connections. A program that doesn't know of
 * them takes them for connections that have ended, and closes them; clients then use the one for
 * all.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "stepd/base/failpoint.h"
#include "stepd/control/control_impl.h"

/* ---- bytes as text ------------------------------------------------------------------------- */

static json_t *hex_of(const struct buffer *b)
{
	static const char digits[] = "0123456789abcdef";
	const size_t size = buffer_size(b);
	_cleanup_free_ char *text = malloc(2 * size + 1);
	size_t i;

	if (!text)
		return NULL;
	for (i = 0; i < size; i++) {
		text[2 * i] = digits[(unsigned char)b->data[b->at + i] >> 4];
		text[2 * i + 1] = digits[(unsigned char)b->data[b->at + i] & 15];
	}
	return json_stringn_nocheck(text, 2 * size);
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int add_hex(struct buffer *b, const json_t *hex)
{
	const char *text = json_string_value(hex);
	const size_t size = json_string_length(hex);
	_cleanup_free_ char *bytes = malloc(size / 2 + 1);
	size_t i;
	int high, low;

	if (!bytes)
		return -ENOMEM;
	if (!text || size % 2 != 0)
		return -EINVAL;
	for (i = 0; i < size / 2; i++) {
		high = digit_of(text[2 * i]);
		low = digit_of(text[2 * i + 1]);
		if (high < 0 || low < 0)
			return -EINVAL;
		bytes[i] = (char)(high << 4 | low);
	}
	return buffer_add(b, bytes, size / 2);
}

/* ---- saving -------------------------------------------------------------------------------- */

static json_t *pack_call(struct control_call *call, control_save_call_fn save_call, void *userdata)
{
	if (!call->under_way)
		return json_null();
	return json_pack("{s:s, s:b, s:b, s:o*}", "method", call->method->name, "more", call->more,
		"oneway", call->oneway, "state", save_call(call, userdata));
}

static json_t *pack_conn(struct conn *conn, control_save_call_fn save_call, void *userdata)
{
	return json_pack("{s:i, s:o, s:o, s:b, s:o}", "fd", conn->fd, "in", hex_of(&conn->in.bytes),
		"out", hex_of(&conn->out), "no_more_input", conn->no_more_input, "call",
		pack_call(&conn->call, save_call, userdata));
}

static int save_one(json_t *doc, struct conn *conn, control_save_call_fn save_call, void *userdata)
{
	if (conn->fd < 0)
		return 0;
	if (json_array_append_new(json_object_get(doc, "fds"), json_integer(conn->fd)) < 0)
		return -ENOMEM;
	return json_array_append_new(json_object_get(doc, "connections"),
		       pack_conn(conn, save_call, userdata)) < 0
		? -ENOMEM
		: 0;
}

static int save_listener(json_t *doc, const struct listener *listener)
{
	if (listener->fd < 0)
		return 0;
	if (json_array_append_new(json_object_get(doc, "fds"), json_integer(listener->fd)) < 0)
		return -ENOMEM;
	return json_array_append_new(json_object_get(doc, "connections"),
		       json_pack("{s:i, s:s, s:b}", "fd", listener->fd, "listener",
			       listener_names[listener->kind], "no_more_input", 1)) < 0
		? -ENOMEM
		: 0;
}

json_t *control_save(const struct control *c, control_save_call_fn save_call, void *userdata)
{
	const int fd = c->listeners[LISTENER_ALL].fd;
	json_t *doc = json_pack(
		"{s:i, s:b, s:[i], s:[]}", "fd", fd, "ready", c->ready, "fds", fd, "connections");
	struct conn *conn;
	int r = doc ? 0 : -ENOMEM;
	unsigned i;

	for (i = 0; i < LISTENER_ALL && r == 0; i++)
		r = save_listener(doc, &c->listeners[i]);

	/* Calls that wait will do so again, in this order. */
	TAILQ_FOREACH(conn, &c->waiting, waiting)
	r = r < 0 ? r : save_one(doc, conn, save_call, userdata);
	TAILQ_FOREACH(conn, &c->all, all)
	{
		if (!conn->is_waiting)
			r = r < 0 ? r : save_one(doc, conn, save_call, userdata);
	}
	if (r == 0)
		return doc;
	json_decref(doc);
	return NULL;
}

/* ---- restoring ----------------------------------------------------------------------------- */

static const struct control_method *find_row(const struct control *c, const char *name)
{
	size_t i;

	for (i = 0; i < c->options.methods_count; i++) {
		if (strcmp(c->options.methods[i].name, name) == 0)
			return &c->options.methods[i];
	}
	return NULL;
}

static void fail_call(struct control_call *call)
{
	control_error_take(call, "Failed",
		json_pack("{s:s, s:s}", "message",
			"the agent has executed a new program, which can't go on with this call; "
			"call again",
			"errno", "ECANCELED"));
}

static void restore_call(
	struct conn *conn, const json_t *saved, control_resume_fn resume, void *userdata)
{
	struct control_call *call = &conn->call;
	const json_t *state = json_object_get(saved, "state");
	const char *name = json_string_value(json_object_get(saved, "method"));

	if (!name)
		return;
	call->under_way = true;
	call->method = find_row(conn->control, name);
	call->more = json_is_true(json_object_get(saved, "more"));
	call->oneway = json_is_true(json_object_get(saved, "oneway"));
	control_watch_hup(conn, true);
	if (call->method && state)
		resume(call, name, state, userdata);
	else
		fail_call(call);
}

/* Takes a descriptor that survived: not to be inherited any more. -1 if there is none. */
static int take_over(const json_t *saved)
{
	const int fd = (int)json_integer_value(json_object_get(saved, "fd"));

	return fd > 2 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 ? fd : -1;
}

/* A connection that can't be had back is closed. */
static void restore_conn(
	struct control *c, const json_t *saved, control_resume_fn resume, void *userdata)
{
	_cleanup_close_ int fd = take_over(saved);
	enum control_access access;
	struct control_peer peer;
	struct conn *conn;

	if (fd < 0 || access_peer(fd, &peer) < 0)
		return;
	access = access_of(c, fd, &peer);
	if (conn_new_take(c, take_fd(&fd), &peer, access, &conn) < 0)
		return;
	conn->no_more_input = json_is_true(json_object_get(saved, "no_more_input"));
	if (add_hex(&conn->in.bytes, json_object_get(saved, "in")) < 0 ||
		add_hex(&conn->out, json_object_get(saved, "out")) < 0) {
		conn_fail(conn, "it can't be restored");
		return;
	}
	quota_update(conn);
	restore_call(conn, json_object_get(saved, "call"), resume, userdata);
	conn_settle(conn);
}

static void restore_listener(struct control *c, const json_t *saved, const char *name)
{
	_cleanup_close_ int fd = take_over(saved);
	socklen_t size = sizeof(int);
	int listens = 0;
	unsigned i;

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0 || !listens)
		return;
	for (i = 0; i < LISTENER_ALL; i++) {
		if (strcmp(listener_names[i], name) == 0 && c->listeners[i].fd < 0)
			control_accept_at(c, i, take_fd(&fd));
	}
}

static void restore_entry(
	struct control *c, const json_t *saved, control_resume_fn resume, void *userdata)
{
	const char *listener = json_string_value(json_object_get(saved, "listener"));

	if (listener)
		restore_listener(c, saved, listener);
	else
		restore_conn(c, saved, resume, userdata);
}

/* The program before may not have had them. The socket for all does without. */
static void listen_where_missing(struct control *c)
{
	struct err err = ERR_INIT;
	unsigned i;

	for (i = 0; i < LISTENER_ALL; i++) {
		if (c->listeners[i].fd < 0 && control_listen(c, i, &err) < 0)
			log_warning(c->options.log, "%s, ignoring", err.text);
	}
}

/* Nobody will reply to them any more: their peers shall see that. */
static void close_all(const json_t *connections)
{
	size_t i;

	for (i = 0; i < json_array_size(connections); i++)
		(void)close_fd(take_over(json_array_get(connections, i)));
}

int control_restore(const struct control_options *options, const json_t *saved,
	control_resume_fn resume, void *userdata, struct control **ret_control, struct err *err)
{
	_cleanup_control_ struct control *c = NULL;
	const json_t *connections = json_object_get(saved, "connections");
	int fd = take_over(saved), r;
	size_t i;

	if (failpoint_breaks("reexec-socket"))
		fd = close_fd(fd);
	r = fd < 0 ? err_say(err, -EINVAL,
			     "restore the control socket '%s/socket': its descriptor is not among "
			     "what the program before left",
			     options->path)
		   : control_new(options, &c, err);
	if (r < 0) {
		(void)close_fd(fd);
		close_all(connections);
		return r;
	}
	control_accept_at(c, LISTENER_ALL, fd);
	for (i = 0; i < json_array_size(connections); i++)
		restore_entry(c, json_array_get(connections, i), resume, userdata);
	listen_where_missing(c);
	if (json_is_true(json_object_get(saved, "ready")))
		control_set_ready(c);
	*ret_control = take_ptr(c);
	return 0;
}
