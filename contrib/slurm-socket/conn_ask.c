/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A connection's request at the step's agent: queries in their turn, actions at once.
 */
#include "contrib/slurm-socket/conn_impl.h"

#include <assert.h>

#include "stepd/base/log.h"

enum conn_next conn_write_answer(struct conn *c)
{
	c->state = CONN_WRITING;
	c->deaf = false;
	return c->out.failed || buffer_size(&c->out.bytes) == 0 ? NEXT_END : NEXT_STATE;
}

enum conn_next conn_fail(struct conn *c, int error)
{
	conn_drop_answer(c);
	return requests_fail(&c->plan, error, &c->out) ? conn_write_answer(c) : NEXT_END;
}

static int on_piece(const struct json_t *reply, void *userdata)
{
	struct conn *c = userdata;
	struct server *s;
	int r;

	assert(c);
	s = c->listener->server;
	r = c->plan.answer(reply, c->version, &c->out);
	if (r < 0)
		return r;
	s->memory += c->out.bytes.capacity - c->memory;
	c->memory = c->out.bytes.capacity;
	return c->out.failed || s->memory > SERVER_MEMORY_MAX ? -ENOMEM : 0;
}

static void on_done(int code, const char *text, void *userdata)
{
	struct conn *c = userdata;
	struct listener *listener;

	assert(c);
	listener = listener_ref(c->listener);
	c->call = NULL; /* it is no more */
	conn_leave_agent(c);
	if (code < 0)
		log_debug(listener->server->log, "step %s: %s: %s", listener->label, c->plan.method,
			text);
	if ((code < 0 ? conn_fail(c, requests_errno(code)) : conn_write_answer(c)) == NEXT_END)
		conn_free(c);
	else
		conn_advance(c);
	conn_ask_next(listener);
	(void)listener_unref(listener);
}

int conn_ask(struct conn *c)
{
	const struct call_options options = {.loop = c->listener->server->loop,
		.directory = c->listener->directory,
		.method = c->plan.method,
		.parameters = c->plan.parameters,
		.more = c->plan.more,
		.timeout_ms = c->plan.acts ? SERVER_ACTION_TIMEOUT_MS : SERVER_QUERY_TIMEOUT_MS,
		.piece = on_piece,
		.done = on_done,
		.userdata = c};
	struct stepd_error error = {0};
	int r = call_start(&options, &c->call, &error);

	if (r < 0)
		log_debug(c->listener->server->log, "step %s: %s: %s", c->listener->label,
			c->plan.method, error.text);
	return r;
}

void conn_ask_next(struct listener *listener)
{
	struct conn *c;

	(void)listener_ref(listener);
	while (listener->queries < SERVER_QUERIES_OF_A_STEP_MAX &&
		(c = TAILQ_FIRST(&listener->queue))) {
		conn_leave_queue(c);
		if (conn_ask(c) < 0) {
			conn_free(c); /* as slurmstepd ends: a query has no other words */
			continue;
		}
		conn_set_wait(c, WAIT_NOTHING); /* the call has a time of its own */
		c->counted = true;
		listener->queries++;
	}
	(void)listener_unref(listener);
}
