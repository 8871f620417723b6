/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/relay/talk.h"

#include <assert.h>
#include <ev.h>
#include <jansson.h>
#include <string.h>

#include "stepd/api/client.h"
#include "stepd/base/strv.h"

/* A connection in the loop. */
struct line_to_agent {
	struct talk *talk;
	struct stepd_client *client;
	ev_io reads, writes;
};

struct talk {
	struct ev_loop *loop;
	struct line_to_agent asks, follows;
	struct strv queue; /* methods and parameters in turn; the first pair is under way */
	const struct talk_events *events;
	void *userdata;
};

static void watch(struct line_to_agent *line)
{
	struct ev_loop *loop = line->talk->loop;

	if (stepd_wants_write(line->client))
		ev_io_start(loop, &line->writes);
	else
		ev_io_stop(loop, &line->writes);
}

static void hang_up(struct line_to_agent *line)
{
	if (!line->client)
		return;
	ev_io_stop(line->talk->loop, &line->reads);
	ev_io_stop(line->talk->loop, &line->writes);
	line->client = stepd_disconnect(line->client);
}

/* ---- requests ----------------------------------------------------------------------------- */

static void drop_first(struct strv *queue)
{
	free(queue->v[0]);
	free(queue->v[1]);
	queue->n -= 2;
	memmove(queue->v, queue->v + 2, (queue->n + 1) * sizeof(*queue->v));
}

static void refuse(struct talk *t, const char *why)
{
	t->events->refused(why, t->userdata);
}

static void start_first(struct talk *t)
{
	struct stepd_error error;

	while (t->asks.client && t->queue.n > 0) {
		if (stepd_start_call(t->asks.client, t->queue.v[0], t->queue.v[1], 0, &error) ==
			0) {
			watch(&t->asks);
			return;
		}
		refuse(t, error.text);
		drop_first(&t->queue);
	}
}

static void on_answer(struct ev_loop *loop, ev_io *w, int revents)
{
	struct talk *t = w->data;
	_cleanup_free_ char *reply = NULL;
	struct stepd_error error;
	bool continues;
	int r;

	assert(t);
	(void)loop;
	(void)revents;
	r = stepd_next(t->asks.client, 0, &reply, &continues, &error);
	if (r == -EAGAIN) {
		watch(&t->asks);
		return;
	}
	if (t->queue.n > 0)
		drop_first(&t->queue);
	if (r < 0 && *error.name)
		refuse(t, error.text);
	else if (r < 0)
		hang_up(&t->asks); /* the agent is gone, which its supervisor sees by itself */
	start_first(t);
}

static void ask_take(struct talk *t, const char *method, json_t *parameters)
{
	_cleanup_free_ char *text = parameters ? json_dumps(parameters, JSON_COMPACT) : NULL;

	json_decref(parameters);
	if (!text || strv_add(&t->queue, method) < 0) {
		refuse(t, "there is no memory for a request to the agent");
		return;
	}
	if (strv_add_take(&t->queue, take_ptr(text)) < 0) {
		free(t->queue.v[--t->queue.n]);
		t->queue.v[t->queue.n] = NULL;
		refuse(t, "there is no memory for a request to the agent");
		return;
	}
	if (t->queue.n == 2)
		start_first(t);
}

void talk_signal(struct talk *t, const char *signal)
{
	ask_take(t, "Signal", json_pack("{s:s}", "signal", signal));
}

void talk_terminate(struct talk *t, const char *kill_sequence)
{
	ask_take(t, "Terminate",
		kill_sequence ? json_pack("{s:s}", "kill_sequence", kill_sequence) : json_object());
}

/* ---- events ------------------------------------------------------------------------------- */

static void on_event(struct ev_loop *loop, ev_io *w, int revents)
{
	struct talk *t = w->data;
	struct stepd_error error;
	struct stepd_event event;
	int r;

	assert(t);
	(void)loop;
	(void)revents;
	while ((r = stepd_next_event(t->follows.client, 0, &event, &error)) > 0)
		t->events->event(&event, t->userdata);
	if (r == -EAGAIN)
		watch(&t->follows);
	else
		hang_up(&t->follows);
}

/* ---- life --------------------------------------------------------------------------------- */

static int dial(struct talk *t, struct line_to_agent *line, const char *runtime_dir,
	const char *name, void (*on_io)(struct ev_loop *, ev_io *, int), struct err *err)
{
	struct stepd_error error;
	int r = stepd_connect(runtime_dir, name, 0, &line->client, &error);

	if (r < 0)
		return err_say(err, r, "%s", error.text);
	line->talk = t;
	ev_io_init(&line->reads, on_io, stepd_get_fd(line->client), EV_READ);
	line->reads.data = t;
	ev_io_init(&line->writes, on_io, stepd_get_fd(line->client), EV_WRITE);
	line->writes.data = t;
	ev_io_start(t->loop, &line->reads);
	return 0;
}

int talk_open(struct ev_loop *loop, const char *runtime_dir, const char *name,
	const struct talk_events *events, void *userdata, struct talk **ret_talk, struct err *err)
{
	struct talk *t = calloc(1, sizeof(*t));
	struct stepd_error error;
	int r;

	if (!t)
		return err_set(err, -ENOMEM, "connect to the agent of %s", name);
	t->loop = loop;
	t->events = events;
	t->userdata = userdata;
	r = dial(t, &t->asks, runtime_dir, name, on_answer, err);
	if (r == 0)
		r = dial(t, &t->follows, runtime_dir, name, on_event, err);
	if (r == 0 && stepd_follow(t->follows.client, 1, &error) < 0)
		r = err_say(err, error.code == -ECONNRESET ? -ECONNREFUSED : error.code, "%s",
			error.text);
	if (r < 0) {
		(void)talk_free(t); /* always NULL */
		return r;
	}
	watch(&t->follows);
	*ret_talk = t;
	return 0;
}

struct talk *talk_free(struct talk *t)
{
	if (!t)
		return NULL;
	hang_up(&t->asks);
	hang_up(&t->follows);
	strv_clear(&t->queue);
	free(t);
	return NULL;
}
