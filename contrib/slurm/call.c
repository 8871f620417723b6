/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/call.h"

#include <assert.h>
#include <ev.h>
#include <jansson.h>
#include <string.h>

struct call {
	struct ev_loop *loop;
	struct stepd_client *client;
	ev_io io;
	ev_timer deadline;
	unsigned timeout_ms;
	int (*piece)(const struct json_t *reply, void *userdata);
	void (*done)(int code, const char *text, void *userdata);
	void *userdata;
};

struct call *call_cancel(struct call *call)
{
	if (!call)
		return NULL;
	ev_io_stop(call->loop, &call->io);
	ev_timer_stop(call->loop, &call->deadline);
	(void)stepd_disconnect(call->client);
	free(call);
	return NULL;
}

static void call_finish(struct call *call, int code, const char *text)
{
	void (*done)(int, const char *, void *) = call->done;
	void *userdata = call->userdata;

	(void)call_cancel(call);
	done(code, text, userdata);
}

/* Watches for what the client wants next: an answer, and space for the rest of the call. */
static void call_watch(struct call *call)
{
	int events = EV_READ | (stepd_wants_write(call->client) ? EV_WRITE : 0);

	if (ev_is_active(&call->io) && (call->io.events & (EV_READ | EV_WRITE)) == events)
		return;
	ev_io_stop(call->loop, &call->io);
	ev_io_set(&call->io, stepd_get_fd(call->client), events);
	ev_io_start(call->loop, &call->io);
}

static int take_piece(struct call *call, const char *reply)
{
	json_t *doc = json_loads(reply, 0, NULL);
	int r = doc ? 0 : -EPROTO;

	if (doc && call->piece)
		r = call->piece(doc, call->userdata);
	json_decref(doc);
	return r;
}

static void call_on_io(struct ev_loop *loop, ev_io *io, int revents)
{
	struct call *call = io->data;
	struct stepd_error error = {0};
	bool continues = true;
	int r;

	(void)loop;
	(void)revents;
	assert(call);
	do {
		_cleanup_free_ char *reply = NULL;

		r = stepd_next(call->client, 0, &reply, &continues, &error);
		if (r >= 0) {
			r = take_piece(call, reply);
			if (r < 0)
				(void)snprintf(error.text, sizeof(error.text),
					"take the agent's answer: %s", strerror(-r));
		}
	} while (r >= 0 && continues);
	if (r == -EAGAIN)
		call_watch(call);
	else
		call_finish(call, r < 0 ? r : 0, error.text);
}

static void call_on_deadline(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct call *call = timer->data;
	char text[64];

	(void)loop;
	(void)revents;
	assert(call);
	(void)snprintf(text, sizeof(text), "no answer within %u s", call->timeout_ms / 1000);
	call_finish(call, -ETIMEDOUT, text);
}

int call_start(
	const struct call_options *options, struct call **ret_call, struct stepd_error *error)
{
	struct stepd_client *client = NULL;
	struct call *call;
	int r;

	r = stepd_connect_directory(options->directory, 0, &client, error);
	if (r >= 0)
		r = stepd_start_call(client, options->method, options->parameters,
			options->more ? STEPD_CALL_MORE : 0, error);
	call = r >= 0 ? calloc(1, sizeof(*call)) : NULL;
	if (!call) {
		(void)stepd_disconnect(client);
		return r < 0 ? r : -ENOMEM;
	}
	*call = (struct call){.loop = options->loop,
		.client = client,
		.timeout_ms = options->timeout_ms,
		.piece = options->piece,
		.done = options->done,
		.userdata = options->userdata};
	ev_init(&call->io, call_on_io);
	call->io.data = call;
	ev_timer_init(&call->deadline, call_on_deadline, options->timeout_ms / 1000.0, 0);
	call->deadline.data = call;
	ev_timer_start(call->loop, &call->deadline);
	call_watch(call);
	*ret_call = call;
	return 0;
}
