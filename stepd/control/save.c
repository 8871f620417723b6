/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The service, carried over an exec of a new program: the listening sockets and all connections by
 * their descriptors, what has been read and not handled, what is to be written and has not been,
 * and calls under way. Credentials are read from the kernel again.
 */
#include <string.h>

#include "stepd/base/failpoint.h"
#include "stepd/control/control_impl.h"
#include "stepd/snapshot/handover.h"

/* ---- saving -------------------------------------------------------------------------------- */

static void save_call(struct control_call *call, struct handover *h, json_t *object,
	control_save_call_fn save_state, void *userdata)
{
	json_t *state = save_state(call, userdata);

	handover_put_text(h, object, "method", call->method->name);
	handover_put_bool(h, object, "more", call->more);
	handover_put_bool(h, object, "oneway", call->oneway);
	if (state)
		handover_put_json_take(h, object, "state", state);
}

static void save_buffer(
	const struct buffer *b, struct handover *h, json_t *object, const char *name)
{
	if (buffer_size(b) > 0)
		handover_put_bytes(h, object, name, buffer_bytes(b), buffer_size(b));
}

static void save_conn(struct conn *conn, struct handover *h, json_t *array,
	control_save_call_fn save_state, void *userdata)
{
	json_t *object;

	if (conn->fd < 0)
		return;
	object = handover_append_object(h, array);
	handover_put_fd(h, object, "fd", conn->fd);
	save_buffer(&conn->in.bytes, h, object, "in");
	save_buffer(&conn->out, h, object, "out");
	handover_put_bool(h, object, "no_more_input", conn->no_more_input);
	if (conn->call.under_way)
		save_call(&conn->call, h, handover_put_object(h, object, "call"), save_state,
			userdata);
}

void control_save(const struct control *c, struct handover *h, json_t *object,
	control_save_call_fn save_state, void *userdata)
{
	json_t *listeners = handover_put_object(h, object, "listeners");
	json_t *connections = handover_put_array(h, object, "connections");
	struct conn *conn;
	unsigned i;

	handover_put_bool(h, object, "ready", c->ready);
	for (i = 0; i < LISTENER_MAX; i++)
		handover_put_fd(h, listeners, listener_names[i], c->listeners[i].fd);
	/* Waiting calls are saved in this order. */
	TAILQ_FOREACH(conn, &c->waiting, waiting)
	save_conn(conn, h, connections, save_state, userdata);
	TAILQ_FOREACH(conn, &c->all, all)
	{
		if (!conn->is_waiting)
			save_conn(conn, h, connections, save_state, userdata);
	}
}

/* ---- restoring ----------------------------------------------------------------------------- */

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
	const struct control_options *o = &conn->control->options;
	struct control_call *call = &conn->call;
	const json_t *state = json_object_get(saved, "state");
	const char *name = json_get_text(saved, "method", NULL);

	if (!name)
		return;
	call->under_way = true;
	call->method = control_find_method(o->methods, o->methods_count, name);
	call->more = json_get_bool(saved, "more", false);
	call->oneway = json_get_bool(saved, "oneway", false);
	control_watch_hup(conn, true);
	if (call->method && state)
		resume(call, state, userdata);
	else
		fail_call(call);
}

/* -1: there is none that survived. */
static int control_take_over(const json_t *object, const char *name)
{
	const int fd = handover_get_fd(object, name);

	return fd > STDERR_FILENO ? fd : -1;
}

static int restore_buffer(
	struct buffer *b, const struct handover *h, const json_t *object, const char *name)
{
	size_t size = 0;
	const char *bytes = handover_get_bytes(h, object, name, &size);

	return buffer_add(b, bytes, size);
}

/* A connection that can't be restored is closed. */
static void restore_conn(struct control *c, const struct handover *h, const json_t *saved,
	control_resume_fn resume, void *userdata)
{
	_cleanup_close_ int fd = control_take_over(saved, "fd");
	enum control_access access;
	struct control_peer peer;
	struct conn *conn;

	if (fd < 0 || access_peer(fd, &peer) < 0)
		return;
	access = access_of(c, fd, &peer);
	if (conn_new_take(c, take_fd(&fd), &peer, access, &conn) < 0)
		return;
	conn->no_more_input = json_get_bool(saved, "no_more_input", false);
	if (restore_buffer(&conn->in.bytes, h, saved, "in") < 0 ||
		restore_buffer(&conn->out, h, saved, "out") < 0) {
		conn_fail(conn, "it can't be restored");
		return;
	}
	quota_update(conn);
	restore_call(conn, json_get_object(saved, "call"), resume, userdata);
	conn_settle(conn);
}

/* They get no more replies: their peers are to see the end. */
static void close_all(const json_t *listeners, const json_t *connections)
{
	size_t i;

	for (i = 0; i < LISTENER_MAX; i++)
		(void)close_fd(control_take_over(listeners, listener_names[i]));
	for (i = 0; i < json_array_size(connections); i++)
		(void)close_fd(control_take_over(json_array_get(connections, i), "fd"));
}

int control_restore(const struct control_options *options, const struct handover *h,
	const json_t *saved, control_resume_fn resume, void *userdata, struct control **ret_control,
	struct err *err)
{
	_cleanup_control_ struct control *c = NULL;
	const json_t *listeners = json_get_object(saved, "listeners");
	const json_t *connections = json_get_array(saved, "connections");
	size_t i;
	int fd, r;

	if (control_take_over(listeners, listener_names[LISTENER_ALL]) < 0 ||
		failpoint_breaks("reexec-socket"))
		r = err_set_text(err, -EINVAL,
			"restore the control socket '%s/socket': its descriptor is not among what the "
			"program before left",
			options->path);
	else
		r = control_new(options, &c, err);
	if (r < 0) {
		close_all(listeners, connections);
		return r;
	}
	for (i = 0; i < LISTENER_MAX; i++) {
		fd = control_take_over(listeners, listener_names[i]);
		if (fd >= 0)
			control_accept_at(c, i, fd);
	}
	for (i = 0; i < json_array_size(connections); i++)
		restore_conn(c, h, json_array_get(connections, i), resume, userdata);
	if (json_get_bool(saved, "ready", false))
		control_set_ready(c);
	*ret_control = take_ptr(c);
	return 0;
}
