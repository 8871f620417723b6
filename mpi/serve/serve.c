/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/serve/serve.h"

#include <assert.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "mpi/serve/serve_impl.h"
#include "mpi/wire/net.h"
#include "stepd/base/signals.h"

#define ABORT_TEXT_MAX 1000u
#define SIGNAL_BASE    128 /* of exit statuses, as a shell has them */

/* ---- the end -------------------------------------------------------------------------------- */

void serve_check(struct serve *s)
{
	if (s->left || (s->link_fd < 0 && s->conversations <= 0 && !task_watch_has_any(s->tasks)))
		ev_break(s->loop, EVBREAK_ALL);
}

void serve_count(struct serve *s, int change)
{
	s->conversations += change;
	serve_check(s);
}

/* ---- abort ---------------------------------------------------------------------------------- */

static void abort_here(struct serve *s, int code, const char *text, bool elsewhere)
{
	if (s->aborted)
		return;
	s->aborted = true;
	/* Without an agent nobody can end the step: its successor will, when it is told. */
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
	(void)err_say(&line, -EIO, "%.*s", (int)ABORT_TEXT_MAX, text); /* one printable line */
	iov[0] = (struct iovec){.iov_base = &status, .iov_len = 1};
	iov[1] = (struct iovec){.iov_base = line.text, .iov_len = strlen(line.text)};
	r = wire_broadcast(s->wire, SERVE_CHANNEL_ABORT, iov, 2, &err);
	if (r < 0)
		serve_log(s, LOG_LEVEL_ERROR, "can't tell all nodes of an abort: %s", err.text);
	abort_here(s, status, line.text, false);
}

static void take_abort(struct serve *s, uint32_t from, const struct wire_block *block)
{
	const unsigned char *data = block->data;
	struct err line = ERR_INIT;

	(void)from;
	if (block->size < 1)
		return;
	(void)err_say(&line, -EIO, "%.*s",
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
		/* Who leaves the others waiting has not succeeded. */
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

static void on_message(
	void *userdata, uint32_t from, uint16_t channel, const struct wire_block *block)
{
	struct serve *s = userdata;

	if (channel == SERVE_CHANNEL_ABORT)
		take_abort(s, from, block);
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

static void on_lost(void *userdata, uint32_t node, const struct err *err)
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
		.message = on_message,
		.missing = on_missing,
		.lost = on_lost,
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

/* Its exit status went to whoever has reaped it. */
static void on_task_gone(void *userdata, uint32_t rank)
{
	struct serve *s = userdata;

	serve_task_ended(s, rank, 0, false); /* there is no agent that could end the step */
	serve_check(s);
}

/* Whoever ends a service without an agent wants it to leave nothing behind. */
static void on_terminated(struct ev_loop *loop, ev_signal *w, int revents)
{
	struct serve *s = w->data;

	assert(s);
	(void)loop;
	(void)revents;
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
	s->tasks = s->loop ? task_watch_new(s->loop, on_task_gone, s) : NULL;
	if (!s->spawning || !s->streams || !s->tasks) {
		(void)serve_close(s);
		return err_set(err, -ENOMEM, "serve the step's MPI");
	}
	ev_signal_init(&s->terminated, on_terminated, SIGTERM);
	s->terminated.data = s;
	ev_signal_start(s->loop, &s->terminated);
	serve_link_open(s);
	r = open_wire(s, err);
	if (r < 0) {
		/* The caller says why over the link. */
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
	json_t *message = json_pack(
		"{s:s, s:[o]}", "do", "environ", "set", json_sprintf("%s=%s", name, value));
	int r;

	if (message && local >= 0 &&
		json_object_set_new(message, "local", json_integer(local)) < 0) {
		json_decref(message);
		message = NULL;
	}
	r = serve_link_send_take(s, message);
	return r < 0 ? err_set(err, r, "hand out %s=%.200s", name, value) : 0;
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
	/* If that can't be said, the agent sees the end. */
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
	s->told = true; /* there is nobody left to tell */
	if (s->loop) {
		serve_link_close(s);
		s->streams = streams_free(s->streams);
		s->tasks = task_watch_free(s->tasks);
		ev_signal_stop(s->loop, &s->terminated);
		(void)signal(SIGTERM, SIG_IGN); /* it ends already */
		ev_loop_destroy(s->loop);
	}
	free(s);
	return NULL;
}
