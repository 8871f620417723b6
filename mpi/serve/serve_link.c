/* SPDX-License-Identifier: BSD-3-Clause */
#include <assert.h>
#include <stdarg.h>
#include <string.h>

#include "mpi/serve/serve_impl.h"
#include "stepd/base/signals.h"

/* ---- to the agent --------------------------------------------------------------------------- */

static void drop_first(struct serve *s)
{
	struct outgoing *o = s->first;

	s->first = o->next;
	if (!s->first)
		s->last = &s->first;
	s->queued--;
	json_decref(o->message);
	free(o);
}

static void push(struct serve *s)
{
	int r = 0;

	while (s->first && s->link_fd >= 0) {
		r = link_send_take(s->link_fd, json_incref(s->first->message), NULL, 0);
		if (r == -EAGAIN)
			break;
		drop_first(s); /* sent, or it never can be */
	}
	if (s->first && s->link_fd >= 0)
		ev_io_start(s->loop, &s->writable);
	else
		ev_io_stop(s->loop, &s->writable);
}

static void on_writable(struct ev_loop *loop, ev_io *w, int revents)
{
	assert(w->data);
	(void)loop;
	(void)revents;
	push(w->data);
}

int serve_link_send_take(struct serve *s, json_t *message)
{
	struct outgoing *o;
	int r;

	if (s->link_fd < 0 || s->queued >= SERVE_QUEUE_MAX) {
		json_decref(message);
		return s->link_fd < 0 ? -EPIPE : -ENOBUFS;
	}
	if (!s->first) {
		r = link_send_take(s->link_fd, json_incref(message), NULL, 0);
		if (r != -EAGAIN) {
			json_decref(message);
			return r;
		}
	}
	o = calloc(1, sizeof(*o));
	if (!o) {
		json_decref(message);
		return -ENOMEM;
	}
	o->message = message;
	*s->last = o;
	s->last = &o->next;
	s->queued++;
	push(s);
	return 0;
}

json_int_t serve_next_id(struct serve *s)
{
	return ++s->last_id;
}

void serve_log(struct serve *s, enum log_level level, const char *fmt, ...)
{
	static const char *const levels[LOG_LEVEL_MAX] = {
		[LOG_LEVEL_ERROR] = "error",
		[LOG_LEVEL_WARNING] = "warning",
		[LOG_LEVEL_INFO] = "info",
		[LOG_LEVEL_DEBUG] = "debug",
	};
	char raw[ERR_TEXT_SIZE];
	struct err line = ERR_INIT;
	va_list ap;

	/* What strangers can have logged takes no place of an abort, or of a signal. */
	if (s->queued >= SERVE_QUEUE_MAX / 2)
		return;
	/* What fails after an abort fails because of it. */
	if (s->aborted)
		level = LOG_LEVEL_DEBUG;
	va_start(ap, fmt);
	(void)vsnprintf(raw, sizeof(raw), fmt, ap);
	va_end(ap);
	(void)err_say(&line, -EIO, "%s", raw); /* JSON takes no broken UTF-8 */
	/* Where the agent is gone there is no log. */
	(void)!serve_link_send_take(s,
		json_pack(
			"{s:s, s:s, s:s}", "do", "log", "level", levels[level], "text", line.text));
}

/* ---- what is answered
 * -------------------------------------------------------------------------------- */

json_t *serve_pack_ranks(const uint32_t *ranks, size_t count)
{
	json_t *array = json_array();
	size_t i;

	for (i = 0; array && i < count; i++) {
		if (json_array_append_new(array, json_integer(ranks[i])) < 0) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

int serve_ask_take(struct serve *s, json_t *message, serve_done_fn done, void *userdata,
	const char *what, struct err *err)
{
	struct signalling *asked = calloc(1, sizeof(*asked));
	int r;

	if (!asked || !message) {
		json_decref(message);
		free(asked);
		return err_set(err, -ENOMEM, "%s", what);
	}
	*asked = (struct signalling){.id = serve_next_id(s), .done = done, .userdata = userdata};
	if (json_object_set_new(message, "id", json_integer(asked->id)) < 0) {
		json_decref(message);
		message = NULL;
	}
	r = serve_link_send_take(s, message);
	if (r < 0) {
		free(asked);
		return err_set(err, r, "ask the agent to %s", what);
	}
	asked->next = s->signals;
	s->signals = asked;
	return 0;
}

int serve_signal(struct serve *s, int signal, const uint32_t *ranks, size_t count,
	serve_done_fn done, void *userdata, struct err *err)
{
	char name[SIGNALS_NAME_SIZE];
	json_t *message = json_pack(
		"{s:s, s:s}", "do", "signal", "signal", signals_name(signal, name, sizeof(name)));

	if (message && ranks &&
		json_object_set_new(message, "ranks", serve_pack_ranks(ranks, count)) < 0) {
		json_decref(message);
		message = NULL;
	}
	return serve_ask_take(s, message, done, userdata, "signal tasks", err);
}

static void end_signal(struct serve *s, struct signalling **at, int r, const struct err *err)
{
	struct signalling *asked = *at;

	*at = asked->next;
	if (asked->done)
		asked->done(asked->userdata, r, err);
	free(asked);
	(void)s;
}

/* ---- from the agent -------------------------------------------------------------------------- */

static void take_done(struct serve *s, struct link_message *message)
{
	json_int_t id = json_integer_value(json_object_get(message->object, "id"));
	int error = (int)json_integer_value(json_object_get(message->object, "error"));
	const char *why = json_string_value(json_object_get(message->object, "why"));
	struct signalling **at = &s->signals;
	struct err err = ERR_INIT;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	if (!*at)
		return;
	if (error)
		(void)err_say(&err, -error, "%s", why ? why : strerror(error));
	end_signal(s, at, -error, &err);
}

static void take_task_start(struct serve *s, struct link_message *message)
{
	const json_t *ranks = json_object_get(message->object, "ranks"),
		     *pids = json_object_get(message->object, "pids");
	size_t i;

	for (i = 0; i < json_array_size(ranks); i++) {
		uint32_t rank = (uint32_t)json_integer_value(json_array_get(ranks, i));
		pid_t pid = (pid_t)json_integer_value(json_array_get(pids, i));

		/* Without memory its connection alone tells of it once the agent has died. */
		(void)!task_watch_add(s->tasks, rank, pid);
		if (s->events->task_start)
			s->events->task_start(s->userdata, rank, pid);
	}
}

void serve_task_ended(struct serve *s, uint32_t rank, int wait_status, bool end_step)
{
	if (s->events->task_exit)
		s->events->task_exit(s->userdata, rank, wait_status, end_step);
	spawning_task_exit(s->spawning, rank);
}

static void take_task_exit(struct serve *s, struct link_message *message)
{
	json_int_t rank = json_integer_value(json_object_get(message->object, "rank"));
	json_int_t status = json_integer_value(json_object_get(message->object, "wait_status"));

	task_watch_remove(s->tasks, (uint32_t)rank);
	serve_task_ended(s, (uint32_t)rank, (int)status,
		json_is_true(json_object_get(message->object, "end_step")));
}

/* Whether the plugin wants to stay for a while. */
static bool tell_over(struct serve *s)
{
	if (s->told || !s->events->over)
		return false;
	s->told = true;
	return s->events->over(s->userdata);
}

void serve_leave(struct serve *s)
{
	if (s->over)
		wire_leave(s->wire);
	serve_check(s);
}

static void take_over(struct serve *s, struct link_message *message)
{
	const char *warning = json_string_value(json_object_get(message->object, "if_silent"));

	if (warning && s->events->had_client && !s->events->had_client(s->userdata))
		serve_log(s, LOG_LEVEL_WARNING, "%s", warning);
	s->over = true;
	if (!tell_over(s))
		wire_leave(s->wire);
}

static void take_copies(struct serve *s, struct link_message *message)
{
	streams_take_copies(s->streams, message);
}

static void take_spawned(struct serve *s, struct link_message *message)
{
	spawning_take_answer(s->spawning, message);
}

static const struct {
	const char *what;
	void (*take)(struct serve *s, struct link_message *message);
} messages[] = {
	{"done", take_done},
	{"task-start", take_task_start},
	{"task-exit", take_task_exit},
	{"over", take_over},
	{"spawned", take_spawned},
	{"fds", take_spawned},
	{"copies", take_copies},
};

static void take_message(struct serve *s, struct link_message *message)
{
	const char *what = json_string_value(json_object_get(message->object, "tell"));
	size_t i;

	for (i = 0; what && i < ARRAY_SIZE(messages); i++) {
		if (strcmp(what, messages[i].what) == 0) {
			messages[i].take(s, message);
			return;
		}
	}
}

static void on_readable(struct ev_loop *loop, ev_io *w, int revents)
{
	struct serve *s = w->data;
	int r = 0;

	assert(s);
	(void)loop;
	(void)revents;
	while (s->link_fd >= 0 && r != -EAGAIN) {
		_cleanup_link_message_ struct link_message message = LINK_MESSAGE_INIT;

		r = link_receive(s->link_fd, &message);
		if (r == 0)
			take_message(s, &message);
		else if (r == -EPIPE)
			serve_link_close(s);
		else if (r == -ENOMEM)
			break; /* it waits there */
	}
	serve_check(s);
}

void serve_link_open(struct serve *s)
{
	s->last = &s->first;
	ev_io_init(&s->readable, on_readable, s->link_fd, EV_READ);
	ev_set_priority(&s->readable, EV_MINPRI); /* after the last words of tasks that are over */
	ev_io_init(&s->writable, on_writable, s->link_fd, EV_WRITE);
	s->readable.data = s->writable.data = s;
	ev_io_start(s->loop, &s->readable);
}

void serve_link_close(struct serve *s)
{
	struct err err = ERR_INIT;

	ev_io_stop(s->loop, &s->readable);
	ev_io_stop(s->loop, &s->writable);
	s->link_fd = close_fd(s->link_fd);
	while (s->first)
		drop_first(s);
	(void)err_say(&err, -EPIPE, "the step's agent is gone");
	while (s->signals)
		end_signal(s, &s->signals, -EPIPE, &err);
	if (s->spawning)
		spawning_agent_gone(s->spawning);
	if (!s->told)
		task_watch_begin(s->tasks);
	(void)tell_over(s);
}
