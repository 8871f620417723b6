/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/serve/serve.h"

#include <assert.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mpi/serve/serve_impl.h"
#include "mpi/wire/net.h"
#include "stepd/base/buffer.h"
#include "stepd/base/proc.h"

/* ==== the tasks of this node ================================================================= */

static void serve_task_gone(struct serve *s, uint32_t rank);

struct watched {
	struct serve *s;
	uint32_t rank;
	pid_t pid;
	uint64_t noted_ticks; /* after boot: a process that started later is another */
	struct pidref ref;    /* set in task_watch_begin() */
	ev_io readable;
};

static uint64_t now_ticks(void)
{
	uint64_t per_sec = (uint64_t)sysconf(_SC_CLK_TCK);
	struct timespec now;

	(void)clock_gettime(CLOCK_BOOTTIME, &now); /* can't fail */
	return (uint64_t)now.tv_sec * per_sec + (uint64_t)now.tv_nsec * per_sec / 1000000000u;
}

/* ---- while the agent lives ------------------------------------------------------------------ */

static int task_watch_add(struct serve *s, uint32_t rank, pid_t pid)
{
	struct task_watch *watch = &s->tasks;

	if (watch->has_begun || pid <= 0)
		return 0;
	if (array_reserve(watch->tasks, watch->capacity, watch->count + 1) < 0)
		return -ENOMEM;
	watch->tasks[watch->count++] = (struct watched){
		.s = s, .rank = rank, .pid = pid, .noted_ticks = now_ticks(), .ref = PIDREF_INIT};
	return 0;
}

/* The agent's list is the node's tasks: some hundreds. */
static void task_watch_remove(struct serve *s, uint32_t rank)
{
	struct task_watch *watch = &s->tasks;
	size_t i;

	if (watch->has_begun)
		return;
	for (i = 0; i < watch->count && watch->tasks[i].rank != rank; i++)
		;
	if (i < watch->count)
		watch->tasks[i] = watch->tasks[--watch->count];
}

/* ---- once it has died ------------------------------------------------------------------------ */

static void watched_release(struct watched *task)
{
	ev_io_stop(task->s->loop, &task->readable);
	pidref_close(&task->ref);
	task->s->tasks.held--;
}

static void watched_on_ended(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct watched *task = w->data;

	assert(task);
	watched_release(task);
	serve_task_gone(task->s, task->rank);
}

/* 0 also where it can't be held and nobody knows whether it lives; -ESRCH: it has ended. */
static int watched_hold(struct watched *task)
{
	struct procstat st;
	int r = pidref_open(task->pid, 0, &task->ref);

	if (r < 0)
		return r == -ESRCH ? r : 0;
	r = procstat_read(task->pid, &st);
	if (r == -ESRCH || (r == 0 && st.start_ticks > task->noted_ticks)) {
		pidref_close(&task->ref);
		return -ESRCH;
	}
	ev_io_init(&task->readable, watched_on_ended, task->ref.fd, EV_READ);
	task->readable.data = task;
	ev_io_start(task->s->loop, &task->readable);
	task->s->tasks.held++;
	return 0;
}

static void task_watch_on_gone(struct ev_loop *loop, ev_idle *w, _unused_ int revents)
{
	struct serve *s = w->data;
	struct task_watch *watch = &s->tasks;
	size_t i;

	ev_idle_stop(loop, w);
	for (i = 0; i < watch->count; i++) {
		if (watch->tasks[i].pid)
			continue;
		watch->tasks[i].pid = -1; /* reported */
		serve_task_gone(s, watch->tasks[i].rank);
	}
}

/* The agent has died. Calls serve_task_gone() for those that have gone already, from the loop. */
static void task_watch_begin(struct serve *s)
{
	struct task_watch *watch = &s->tasks;
	bool any_gone = false;
	size_t i;

	if (watch->has_begun)
		return;
	watch->has_begun = true;
	for (i = 0; i < watch->count; i++) {
		if (watched_hold(&watch->tasks[i]) == 0)
			continue;
		watch->tasks[i].pid = 0;
		any_gone = true;
	}
	if (any_gone)
		ev_idle_start(s->loop, &watch->gone);
}

/* Whether one of them is still thought to live. */
static bool task_watch_has_any(const struct serve *s)
{
	return s->tasks.held > 0 || ev_is_active(&s->tasks.gone);
}

/* ---- life ----------------------------------------------------------------------------------- */

static void task_watch_init(struct serve *s)
{
	ev_idle_init(&s->tasks.gone, task_watch_on_gone);
	s->tasks.gone.data = s;
}

static void task_watch_clear(struct serve *s)
{
	size_t i;

	ev_idle_stop(s->loop, &s->tasks.gone);
	for (i = 0; i < s->tasks.count; i++) {
		if (s->tasks.tasks[i].ref.fd >= 0)
			watched_release(&s->tasks.tasks[i]);
	}
	free(s->tasks.tasks);
}

/* ==== the link to the agent ================================================================== */

/* Stops the loop if it is time to end. */
static void serve_check(struct serve *s)
{
	if (s->left || (s->link_fd < 0 && s->conversations <= 0 && !task_watch_has_any(s)))
		ev_break(s->loop, EVBREAK_ALL);
}

/* ---- to the agent --------------------------------------------------------------------------- */

static void link_drop_first(struct serve *s)
{
	struct outgoing *o = STAILQ_FIRST(&s->outgoing);

	STAILQ_REMOVE_HEAD(&s->outgoing, link);
	s->queued--;
	json_decref(o->message);
	free(o);
}

static void link_push(struct serve *s)
{
	const struct outgoing *o;

	while ((o = STAILQ_FIRST(&s->outgoing))) {
		if (link_send_take(s->link_fd, json_incref(o->message), NULL, 0) == -EAGAIN)
			break;
		link_drop_first(s); /* sent, or it never can be */
	}
	if (o)
		ev_io_start(s->loop, &s->writable);
	else
		ev_io_stop(s->loop, &s->writable);
}

static void on_link_writable(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	assert(w->data);
	link_push(w->data);
}

int serve_link_send_take(struct serve *s, json_t *message)
{
	struct outgoing *o;
	int r;

	if (s->link_fd < 0 || s->queued >= SERVE_QUEUE_MAX) {
		json_decref(message);
		return s->link_fd < 0 ? -EPIPE : -ENOBUFS;
	}
	if (STAILQ_EMPTY(&s->outgoing)) {
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
	STAILQ_INSERT_TAIL(&s->outgoing, o, link);
	s->queued++;
	link_push(s);
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

	/* Lines that strangers can cause leave capacity for an abort, or a signal. */
	if (s->queued >= SERVE_QUEUE_MAX / 2)
		return;
	/* Failures after an abort are its consequences. */
	if (s->aborted)
		level = LOG_LEVEL_DEBUG;
	va_start(ap, fmt);
	(void)vsnprintf(raw, sizeof(raw), fmt, ap);
	va_end(ap);
	(void)err_set_text(&line, -EIO, "%s", raw); /* JSON takes no broken UTF-8 */
	/* Without the agent there is no log. */
	(void)!serve_link_send_take(s,
		json_pack(
			"{s:s, s:s, s:s}", "do", "log", "level", levels[level], "text", line.text));
}

/* ---- requests to the agent ------------------------------------------------------------------ */

json_t *serve_add_ranks_take(json_t *message, const uint32_t *ranks, size_t count)
{
	json_t *array = ranks ? json_array() : NULL;
	int r = ranks ? json_object_set_new(message, "ranks", array) : 0;
	size_t i;

	for (i = 0; r == 0 && ranks && i < count; i++)
		r = json_array_append_new(array, json_integer(ranks[i]));
	if (r == 0)
		return message;
	json_decref(message);
	return NULL;
}

int serve_request_take(struct serve *s, json_t *message, serve_done_fn done, void *userdata,
	const char *what, struct err *err)
{
	_cleanup_free_ struct agent_request *request = calloc(1, sizeof(*request));
	json_int_t id = serve_next_id(s);
	int r;

	if (!request || json_object_set_new(message, "id", json_integer(id)) < 0) {
		json_decref(message);
		return err_set(err, -ENOMEM, "%s", what);
	}
	r = serve_link_send_take(s, message);
	if (r < 0)
		return err_set(err, r, "request the agent to %s", what);
	*request = (struct agent_request){.id = id, .done = done, .userdata = userdata};
	LIST_INSERT_HEAD(&s->pending, request, link);
	(void)take_ptr(request);
	return 0;
}

int serve_signal(struct serve *s, int signal, const uint32_t *ranks, size_t count,
	serve_done_fn done, void *userdata, struct err *err)
{
	char name[SIGNALS_NAME_SIZE];
	json_t *message = json_pack(
		"{s:s, s:s}", "do", "signal", "signal", signals_name(signal, name, sizeof(name)));

	return serve_request_take(s, serve_add_ranks_take(message, ranks, count), done, userdata,
		"signal tasks", err);
}

static void end_request(struct agent_request *request, int r, const struct err *err)
{
	LIST_REMOVE(request, link);
	if (request->done)
		request->done(request->userdata, r, err);
	free(request);
}

/* ---- from the agent -------------------------------------------------------------------------- */

static void take_done(struct serve *s, struct link_message *message)
{
	json_int_t id = json_integer_value(json_object_get(message->object, "id"));
	int error = (int)json_integer_value(json_object_get(message->object, "error"));
	const char *why = json_string_value(json_object_get(message->object, "why"));
	struct agent_request *request;
	struct err err = ERR_INIT;

	LIST_FOREACH(request, &s->pending, link)
	{
		if (request->id == id)
			break;
	}
	if (!request)
		return;
	if (error)
		(void)err_set_text(&err, -error, "%s", why ? why : strerror(error));
	end_request(request, -error, &err);
}

static void take_task_start(struct serve *s, struct link_message *message)
{
	const json_t *ranks = json_object_get(message->object, "ranks"),
		     *pids = json_object_get(message->object, "pids");
	size_t i;

	for (i = 0; i < json_array_size(ranks); i++) {
		uint32_t rank = (uint32_t)json_integer_value(json_array_get(ranks, i));
		pid_t pid = (pid_t)json_integer_value(json_array_get(pids, i));

		/* Without memory only its connection shows its end once the agent has died. */
		(void)!task_watch_add(s, rank, pid);
		if (s->events->task_start)
			s->events->task_start(s->userdata, rank, pid);
	}
}

/* A task of this node has ended: the plugin and the spawns learn of it. */
static void serve_task_ended(struct serve *s, uint32_t rank, int wait_status, bool end_step)
{
	if (s->events->task_exit)
		s->events->task_exit(s->userdata, rank, wait_status, end_step);
	spawning_task_exit(s->spawning, rank);
}

static void take_task_exit(struct serve *s, struct link_message *message)
{
	json_int_t rank = json_integer_value(json_object_get(message->object, "rank"));
	json_int_t status = json_integer_value(json_object_get(message->object, "wait_status"));

	task_watch_remove(s, (uint32_t)rank);
	serve_task_ended(s, (uint32_t)rank, (int)status,
		json_is_true(json_object_get(message->object, "end_step")));
}

/* Whether the plugin wants to stay for a while. */
static bool report_over(struct serve *s)
{
	if (s->reported_over || !s->events->over)
		return false;
	s->reported_over = true;
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
	if (!report_over(s))
		wire_leave(s->wire);
}

static const struct {
	const char *what;
	void (*take)(struct serve *s, struct link_message *message);
} link_messages[] = {
	{"done", take_done},
	{"task-start", take_task_start},
	{"task-exit", take_task_exit},
	{"over", take_over},
	{"spawned", spawning_take_answer},
	{"fds", spawning_take_answer},
	{"copies", streams_take_copies},
};

static void take_link_message(struct serve *s, struct link_message *message)
{
	const char *what = json_string_value(json_object_get(message->object, "tell"));
	size_t i;

	for (i = 0; what && i < ARRAY_SIZE(link_messages); i++) {
		if (strcmp(what, link_messages[i].what) == 0) {
			link_messages[i].take(s, message);
			return;
		}
	}
}

static void serve_link_close(struct serve *s)
{
	struct err err = ERR_INIT;

	ev_io_stop(s->loop, &s->readable);
	ev_io_stop(s->loop, &s->writable);
	s->link_fd = close_fd(s->link_fd);
	while (!STAILQ_EMPTY(&s->outgoing))
		link_drop_first(s);
	(void)err_set_text(&err, -EPIPE, "the step's agent is gone");
	while (!LIST_EMPTY(&s->pending))
		end_request(LIST_FIRST(&s->pending), -EPIPE, &err);
	if (s->spawning)
		spawning_agent_gone(s->spawning);
	if (!s->reported_over)
		task_watch_begin(s);
	(void)report_over(s);
}

static void on_link_readable(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct serve *s = w->data;
	int r = 0;

	assert(s);
	while (s->link_fd >= 0 && r != -EAGAIN) {
		_cleanup_link_message_ struct link_message message = LINK_MESSAGE_INIT;

		r = link_receive(s->link_fd, &message);
		if (r == 0)
			take_link_message(s, &message);
		else if (r == -EPIPE)
			serve_link_close(s);
		else if (r == -ENOMEM)
			break; /* it waits there */
	}
	serve_check(s);
}

static void serve_link_open(struct serve *s)
{
	STAILQ_INIT(&s->outgoing);
	ev_io_init(&s->readable, on_link_readable, s->link_fd, EV_READ);
	ev_set_priority(
		&s->readable, EV_MINPRI); /* after the last messages of tasks that are over */
	ev_io_init(&s->writable, on_link_writable, s->link_fd, EV_WRITE);
	s->readable.data = s->writable.data = s;
	ev_io_start(s->loop, &s->readable);
}

#define ABORT_TEXT_MAX 1000u
#define SIGNAL_BASE    128 /* of exit statuses, as a shell has them */

void serve_count(struct serve *s, int change)
{
	s->conversations += change;
	serve_check(s);
}

/* ==== the service process ==================================================================== */

/* ---- abort ---------------------------------------------------------------------------------- */

static void abort_here(struct serve *s, int code, const char *text, bool elsewhere)
{
	if (s->aborted)
		return;
	s->aborted = true;
	/* Without an agent nothing can end the step: its successor will, once it knows. */
	(void)!serve_link_send_take(s,
		json_pack("{s:s, s:i, s:s, s:b}", "do", "abort", "code", code, "text", text,
			"elsewhere", elsewhere));
}

void serve_abort(struct serve *s, int code, const char *text)
{
	unsigned char status = (unsigned char)code;
	struct err line = ERR_INIT, err = ERR_INIT;
	struct iovec iov[2];
	int r;

	if (s->aborted)
		return;
	(void)err_set_text(&line, -EIO, "%.*s", (int)ABORT_TEXT_MAX, text); /* one printable line */
	iov[0] = (struct iovec){.iov_base = &status, .iov_len = 1};
	iov[1] = (struct iovec){.iov_base = line.text, .iov_len = strlen(line.text)};
	r = wire_broadcast(s->wire, SERVE_CHANNEL_ABORT, iov, 2, &err);
	if (r < 0)
		serve_log(s, LOG_LEVEL_ERROR, "can't report an abort to all nodes: %s", err.text);
	abort_here(s, status, line.text, false);
}

static void take_abort(struct serve *s, const struct wire_block *block)
{
	const unsigned char *data = block->data;
	struct err line = ERR_INIT;

	if (block->size < 1)
		return;
	(void)err_set_text(&line, -EIO, "%.*s",
		(int)(block->size - 1 < ABORT_TEXT_MAX ? block->size - 1 : ABORT_TEXT_MAX),
		(const char *)data + 1);
	abort_here(s, data[0], line.text, true);
}

void serve_abort_died(struct serve *s, uint32_t rank, int wait_status)
{
	const stepd_step_rec_t *job = serve_get_job(s);
	char name[SIGNALS_NAME_SIZE], how[64], where[100] = "", text[400];
	int code;

	if (WIFSIGNALED(wait_status)) {
		code = SIGNAL_BASE + WTERMSIG(wait_status);
		(void)snprintf(how, sizeof(how), "was killed by signal %d (%s)",
			WTERMSIG(wait_status),
			signals_name(WTERMSIG(wait_status), name, sizeof(name)));
	} else {
		/* A task that leaves the others waiting has not succeeded. */
		code = WEXITSTATUS(wait_status) ? WEXITSTATUS(wait_status) : 1;
		(void)snprintf(how, sizeof(how), "exited with status %d", WEXITSTATUS(wait_status));
	}
	if (job->nnodes > 1)
		(void)snprintf(where, sizeof(where), " on node %.64s", job->node_name);
	(void)snprintf(text, sizeof(text),
		"task %u%s %s before MPI_Finalize: the step ends (-K0 lets the others run on)",
		rank, where, how);
	serve_abort(s, code, text);
}

/* ---- the wire ------------------------------------------------------------------------------- */

static void serve_on_message(
	void *userdata, uint32_t from, uint16_t channel, const struct wire_block *block)
{
	struct serve *s = userdata;

	if (channel == SERVE_CHANNEL_ABORT)
		take_abort(s, block);
	else if (channel < SERVE_CHANNEL_PLUGIN)
		spawning_take_message(s->spawning, from, channel, block);
	else if (s->events->message)
		s->events->message(s->userdata, from, channel, block);
}

static void on_missing(void *userdata, uint64_t set_id, char *text, size_t size)
{
	struct serve *s = userdata;

	if (s->events->missing)
		s->events->missing(s->userdata, set_id, text, size);
}

static void serve_on_lost(void *userdata, uint32_t node, const struct err *err)
{
	struct serve *s = userdata;

	serve_log(s, LOG_LEVEL_ERROR, "%s", err->text);
	spawning_node_lost(s->spawning, node, err);
	if (s->events->lost)
		s->events->lost(s->userdata, node, err);
}

static void on_leaving(void *userdata)
{
	struct serve *s = userdata;

	if (s->events->leaving)
		s->events->leaving(s->userdata);
}

static void on_left(void *userdata)
{
	struct serve *s = userdata;

	s->left = true;
	serve_check(s);
}

static int open_wire(struct serve *s, struct err *err)
{
	static const struct wire_events events = {
		.message = serve_on_message,
		.missing = on_missing,
		.lost = serve_on_lost,
		.leaving = on_leaving,
		.left = on_left,
	};
	const struct stepd_mpi_host *host = serve_get_host(s);
	struct wire_net_options options = {
		.job = s->service->job,
		.wire = host->wire,
		.events = &events,
		.userdata = s,
		.connect_timeout_ms = host->wire->connect_timeout_ms,
	};

	return wire_net_open(s->loop, &options, &s->wire, err);
}

/* ---- its life ------------------------------------------------------------------------------- */

/* A task has ended after its agent; its exit status went to the process that has reaped it. */
static void serve_task_gone(struct serve *s, uint32_t rank)
{
	serve_task_ended(s, rank, 0, false); /* there is no agent that could end the step */
	serve_check(s);
}

/* A service without an agent that is terminated leaves nothing behind. */
static void on_terminated(_unused_ struct ev_loop *loop, ev_signal *w, _unused_ int revents)
{
	struct serve *s = w->data;

	assert(s);
	s->left = true;
	serve_check(s);
}

int serve_open(const stepd_mpi_service_t *service, const struct serve_events *events,
	void *userdata, struct serve **ret_serve, struct err *err)
{
	struct serve *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "serve the step's MPI");
	s->service = service;
	s->events = events;
	s->userdata = userdata;
	s->link_fd = service->link_fd;
	s->loop = ev_loop_new(EVFLAG_NOENV);
	s->spawning = s->loop ? spawning_new(s) : NULL;
	s->streams = s->loop ? streams_new(s) : NULL;
	task_watch_init(s);
	if (!s->spawning || !s->streams) {
		(void)serve_close(s);
		return err_set(err, -ENOMEM, "serve the step's MPI");
	}
	ev_signal_init(&s->terminated, on_terminated, SIGTERM);
	s->terminated.data = s;
	ev_signal_start(s->loop, &s->terminated);
	serve_link_open(s);
	r = open_wire(s, err);
	if (r < 0) {
		/* The caller reports why over the link. */
		ev_io_stop(s->loop, &s->readable);
		s->link_fd = -1;
		(void)serve_close(s);
		return r;
	}
	*ret_serve = s;
	return 0;
}

int serve_environ(
	struct serve *s, int64_t local, const char *name, const char *value, struct err *err)
{
	json_t *entry = json_sprintf("%s=%s", name, value);
	int r = serve_link_send_take(s,
		local < 0 ? json_pack("{s:s, s:[o]}", "do", "environ", "set", entry)
			  : json_pack("{s:s, s:[o], s:I}", "do", "environ", "set", entry, "local",
				    (json_int_t)local));

	return r < 0 ? err_set(err, r, "set %s=%.200s for tasks", name, value) : 0;
}

int serve_run(struct serve *s)
{
	/* The agent waits for it: a failure is its end, and found below. */
	(void)!serve_link_send_take(s, json_pack("{s:s}", "do", "ready"));
	if (!s->left && s->link_fd >= 0)
		ev_run(s->loop, 0);
	if (s->events->end)
		s->events->end(s->userdata);
	return 0;
}

int serve_fail(const stepd_mpi_service_t *service, const struct err *err)
{
	/* If that can't be sent, the agent sees the end. */
	(void)!link_send_take(service->link_fd,
		json_pack("{s:s, s:s}", "do", "failed", "why", err->text), NULL, 0);
	return 1;
}

struct ev_loop *serve_get_loop(const struct serve *s)
{
	return s->loop;
}

struct wire *serve_get_wire(const struct serve *s)
{
	return s->wire;
}

const stepd_step_rec_t *serve_get_job(const struct serve *s)
{
	return s->service->job;
}

const struct stepd_mpi_host *serve_get_host(const struct serve *s)
{
	return s->service->job->mpi_host;
}

struct serve *serve_close(struct serve *s)
{
	if (!s)
		return NULL;
	if (s->wire)
		s->wire = wire_close(s->wire);
	if (s->spawning)
		s->spawning = spawning_free(s->spawning);
	s->reported_over = true; /* there is nobody left to report to */
	if (s->loop) {
		serve_link_close(s);
		s->streams = streams_free(s->streams);
		task_watch_clear(s);
		ev_signal_stop(s->loop, &s->terminated);
		(void)signal(SIGTERM, SIG_IGN); /* it ends already */
		ev_loop_destroy(s->loop);
	}
	free(s);
	return NULL;
}
