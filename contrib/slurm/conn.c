/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One connection of a Slurm client. It sends its version, and then requests, one after the other:
 * nothing more is read while a request is at the agent or an answer has not been sent.
 */
#include <assert.h>
#include <ev.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "contrib/slurm/call.h"
#include "contrib/slurm/server.h"
#include "stepd/base/err.h"
#include "stepd/base/fs.h"

enum conn_state {
	CONN_HELLO,
	CONN_READING,
	CONN_PENDING,
	CONN_WRITING,
	CONN_STATE_MAX
};

/* The waits that have a time limit. */
enum conn_wait {
	WAIT_NOTHING,
	WAIT_IDLE,
	WAIT_REQUEST,
	WAIT_TURN,
	WAIT_ANSWER,
	WAIT_MAX
};

/* The outcome of a state's function. */
enum conn_next {
	NEXT_STATE,
	NEXT_EVENT,
	NEXT_END
};

struct conn {
	LIST_ENTRY(conn) link;
	TAILQ_ENTRY(conn) queue_link;
	struct listener *listener;
	int fd;
	struct ucred peer; /* as the kernel had it when the client connected */
	enum conn_state state;
	enum conn_wait wait;
	bool deaf;        /* it has sent more than is read now */
	bool eof;         /* the client sends no more; it may wait for answers */
	bool last_answer; /* the end, once that is written */
	bool queued;      /* in the listener's queue */
	bool counted;     /* among the listener's queries at the agent */
	bool later;       /* the process of the step has to answer it: server_resume() */
	enum wire_kind later_kind;
	uint16_t version;
	uint8_t in[WIRE_REQUEST_MAX];
	size_t in_size;
	struct requests_plan plan;
	struct call *call;
	struct wire_answer out;
	size_t memory; /* of out, as the server counts it */
	ev_io io;
	ev_timer timer;
};

static void conn_advance(struct conn *c);
static void conn_request_next(struct listener *listener);

static const double wait_s[WAIT_MAX] = {
	[WAIT_IDLE] = SERVER_IDLE_TIMEOUT_S,
	[WAIT_REQUEST] = SERVER_REQUEST_TIMEOUT_S,
	[WAIT_TURN] = SERVER_QUERY_TIMEOUT_MS / 1000.0,
	[WAIT_ANSWER] = SERVER_ANSWER_TIMEOUT_S,
};

/* The time for something begins, unless it runs already. */
static void conn_set_wait(struct conn *c, enum conn_wait wait)
{
	if (wait == c->wait)
		return; /* its time runs */
	c->wait = wait;
	ev_timer_stop(c->listener->server->loop, &c->timer);
	if (wait == WAIT_NOTHING)
		return;
	ev_timer_set(&c->timer, wait_s[wait], 0);
	ev_timer_start(c->listener->server->loop, &c->timer);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void conn_drop_answer(struct conn *c)
{
	c->listener->server->memory -= c->memory;
	c->memory = 0;
	wire_answer_clear(&c->out);
}

static void conn_leave_queue(struct conn *c)
{
	if (c->queued)
		TAILQ_REMOVE(&c->listener->queue, c, queue_link);
	c->queued = false;
}

/* Its slot at the agent is free for the next. */
static void conn_leave_agent(struct conn *c)
{
	c->call = call_cancel(c->call);
	c->listener->queries -= c->counted;
	c->counted = false;
}

/* All of it, and the socket. */
static void conn_free(struct conn *c)
{
	struct listener *listener = c->listener;
	struct server *s = listener->server;

	conn_leave_queue(c);
	conn_leave_agent(c);
	conn_drop_answer(c);
	requests_plan_clear(&c->plan);
	ev_io_stop(s->loop, &c->io);
	ev_timer_stop(s->loop, &c->timer);
	LIST_REMOVE(c, link);
	s->conns_count--;
	(void)close_fd(c->fd);
	free(c);
	(void)listener_unref(listener);
}

/* ---- the agent's answer ---------------------------------------------------------------------- */

/* Sends as much of an answer as there is. */
static enum conn_next conn_write_answer(struct conn *c)
{
	c->state = CONN_WRITING;
	c->deaf = false;
	return c->out.failed || buffer_size(&c->out.bytes) == 0 ? NEXT_END : NEXT_STATE;
}

/* It failed: reported, where the request has a way to. */
static enum conn_next conn_fail(struct conn *c, int error)
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
	r = c->plan.answer(&c->plan, reply, c->version, &c->out);
	if (r < 0)
		return r;
	s->memory += c->out.bytes.capacity - c->memory;
	c->memory = c->out.bytes.capacity;
	return c->out.failed || s->memory > SERVER_MEMORY_MAX ? -ENOMEM : 0;
}

static void conn_on_done(int code, const char *text, void *userdata)
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
	conn_request_next(listener);
	(void)listener_unref(listener);
}

/* Begins the call of c's plan: 0, or a code of libstepd. */
static int conn_request(struct conn *c)
{
	const struct call_options options = {.loop = c->listener->server->loop,
		.directory = c->listener->directory,
		.method = c->plan.method,
		.parameters = c->plan.parameters,
		.more = c->plan.more,
		.timeout_ms = c->plan.acts ? SERVER_ACTION_TIMEOUT_MS : SERVER_QUERY_TIMEOUT_MS,
		.piece = on_piece,
		.done = conn_on_done,
		.userdata = c};
	struct stepd_error error = {0};
	int r = call_start(&options, &c->call, &error);

	if (r < 0)
		log_debug(c->listener->server->log, "step %s: %s: %s", c->listener->label,
			c->plan.method, error.text);
	return r;
}

/* The first of the queue, if the agent has not enough to do. */
static void conn_request_next(struct listener *listener)
{
	struct conn *c;

	(void)listener_ref(listener);
	while (listener->queries < SERVER_QUERIES_OF_A_STEP_MAX &&
		(c = TAILQ_FIRST(&listener->queue))) {
		conn_leave_queue(c);
		if (conn_request(c) < 0) {
			conn_free(c); /* as slurmstepd: a query has no other failure */
			continue;
		}
		conn_set_wait(c, WAIT_NOTHING); /* the call has a time of its own */
		c->counted = true;
		listener->queries++;
	}
	(void)listener_unref(listener);
}

/* Another one of the listener may take its turn: c's caller touches neither after this. */
static void end(struct conn *c)
{
	struct listener *listener = listener_ref(c->listener);

	conn_free(c);
	conn_request_next(listener);
	(void)listener_unref(listener);
}

void conn_end_of_listener(const struct listener *listener)
{
	struct conn *c, *next;

	for (c = LIST_FIRST(&listener->server->conns); c; c = next) {
		next = LIST_NEXT(c, link);
		if (c->listener != listener)
			continue;
		c->last_answer = true;
		if (c->state == CONN_HELLO || c->state == CONN_READING)
			conn_free(c);
	}
}

bool conn_has_own_users(const struct server *s)
{
	const struct conn *c;

	LIST_FOREACH(c, &s->conns, link)
	{
		if (c->peer.uid == geteuid())
			return true;
	}
	return false;
}

void conn_end_all(struct server *s)
{
	while (!LIST_EMPTY(&s->conns))
		conn_free(LIST_FIRST(&s->conns));
}

/* ---- states ---------------------------------------------------------------------------------- */

static void consume(struct conn *c, int size)
{
	c->in_size -= (size_t)size;
	memmove(c->in, c->in + size, c->in_size);
}

static enum conn_next take_hello(struct conn *c)
{
	int n = wire_parse_hello(c->in, c->in_size, &c->version);

	if (n == 0)
		return c->eof ? NEXT_END : NEXT_EVENT;
	c->last_answer = n < 0;
	if (n > 0)
		consume(c, n);
	wire_put_i32(&c->out, n < 0 ? -1 : c->version);
	return conn_write_answer(c);
}

/* To the agent, if there is something for it in it. */
static enum conn_next pass_request(struct conn *c)
{
	int r;

	if (c->plan.local)
		return NEXT_END;
	if (c->plan.error)
		return conn_fail(c, c->plan.error);
	if (!c->plan.method)
		return c->plan.answer(&c->plan, NULL, c->version, &c->out) < 0
			? NEXT_END
			: conn_write_answer(c);
	c->state = CONN_PENDING;
	if (c->plan.acts) {
		r = conn_request(c);
		return r < 0 ? conn_fail(c, requests_errno(r)) : NEXT_EVENT;
	}
	c->queued = true;
	TAILQ_INSERT_TAIL(&c->listener->queue, c, queue_link);
	return NEXT_EVENT;
}

static enum conn_next begin_request(struct conn *c, const struct wire_request *request)
{
	const struct listener *listener = c->listener;
	const struct server *s = listener->server;
	enum server_local local;
	int r;

	requests_plan_clear(&c->plan);
	r = requests_make_plan(request, &listener->step, &c->plan);
	if (r < 0)
		return NEXT_END;
	if (!requests_may(&listener->step, c->plan.access, c->peer.uid)) {
		log_info(listener->server->log, "step %s: %s by uid %u (pid %d) is refused",
			listener->label, wire_kind_name(request->kind), (unsigned)c->peer.uid,
			(int)c->peer.pid);
		return conn_fail(c, EPERM);
	}
	if (s->local) {
		local = s->local(request, c->version, &c->out, s->userdata);
		if (local == SERVER_ANSWERED)
			return conn_write_answer(c);
		if (local == SERVER_LATER) {
			c->state = CONN_PENDING;
			c->later = true;
			c->later_kind = request->kind;
			return NEXT_EVENT;
		}
	}
	return pass_request(c);
}

static enum conn_next take_request(struct conn *c)
{
	struct wire_request request;
	enum conn_next next;
	int n = wire_parse_request(c->in, c->in_size, c->version, &request);

	if (n == 0)
		return c->eof ? NEXT_END : NEXT_EVENT;
	if (n < 0) {
		log_debug(c->listener->server->log,
			"step %s: malformed data from uid %u (pid %d): %s", c->listener->label,
			(unsigned)c->peer.uid, (int)c->peer.pid, strerror(-n));
		return NEXT_END;
	}
	if (request.kind == WIRE_USER || request.kind == WIRE_GROUPS)
		request.pid = c->peer.pid;
	next = begin_request(c, &request); /* it has a part of what is read */
	consume(c, n);
	return next;
}

static enum conn_next await_agent(struct conn *c)
{
	(void)c;
	return NEXT_EVENT;
}

/* 0 or -errno. */
static int send_piece(struct conn *c)
{
	ssize_t n;
	int r;

	if (buffer_size(&c->out.bytes) == 0) {
		r = fs_send_descriptor(c->fd, c->out.fd);
		c->out.has_fd = r < 0;
		return r;
	}
	n = send(c->fd, buffer_bytes(&c->out.bytes), buffer_size(&c->out.bytes), MSG_NOSIGNAL);
	if (n < 0)
		return -errno;
	buffer_drop(&c->out.bytes, (size_t)n);
	return 0;
}

static enum conn_next send_answer(struct conn *c)
{
	int r;

	while (buffer_size(&c->out.bytes) > 0 || c->out.has_fd) {
		r = send_piece(c);
		if (r == -EINTR)
			continue;
		if (r < 0)
			return r == -EAGAIN ? NEXT_EVENT : NEXT_END;
		c->wait = WAIT_MAX; /* none: the time begins anew */
	}
	conn_drop_answer(c);
	c->state = CONN_READING;
	return c->last_answer ? NEXT_END : NEXT_STATE;
}

static enum conn_next (*const state_fns[CONN_STATE_MAX])(struct conn *c) = {
	[CONN_HELLO] = take_hello,
	[CONN_READING] = take_request,
	[CONN_PENDING] = await_agent,
	[CONN_WRITING] = send_answer,
};

/* ---- events ---------------------------------------------------------------------------------- */

static void conn_watch(struct conn *c)
{
	static const int events_of[CONN_STATE_MAX] = {
		[CONN_HELLO] = EV_READ,
		[CONN_READING] = EV_READ,
		[CONN_PENDING] = EV_READ, /* it may go */
		[CONN_WRITING] = EV_WRITE,
	};
	struct ev_loop *loop = c->listener->server->loop;
	int events = c->deaf ? 0 : events_of[c->state];

	if (ev_is_active(&c->io) && (c->io.events & (EV_READ | EV_WRITE)) == events)
		return;
	ev_io_stop(loop, &c->io);
	ev_io_set(&c->io, c->fd, events);
	if (events)
		ev_io_start(loop, &c->io);
}

static enum conn_wait choose_wait(const struct conn *c)
{
	switch (c->state) {
	case CONN_HELLO:
		return WAIT_REQUEST;
	case CONN_READING:
		return c->in_size > 0 ? WAIT_REQUEST : WAIT_IDLE;
	case CONN_WRITING:
		return WAIT_ANSWER;
	default:
		return c->queued ? WAIT_TURN : WAIT_NOTHING;
	}
}

/* Goes as far as it goes without waiting. c may be no more afterwards. */
static void conn_advance(struct conn *c)
{
	enum conn_next next;

	do
		next = state_fns[c->state](c);
	while (next == NEXT_STATE);
	if (next == NEXT_END) {
		end(c);
		return;
	}
	conn_watch(c);
	conn_set_wait(c, choose_wait(c));
	if (c->queued)
		conn_request_next(c->listener);
}

static void conn_resume(struct conn *c)
{
	const struct server *s = c->listener->server;
	struct wire_request request = {.kind = c->later_kind};
	enum server_local local;
	enum conn_next next = NEXT_END;

	c->later = false;
	local = s->local(&request, c->version, &c->out, s->userdata);
	if (local == SERVER_ANSWERED)
		next = conn_write_answer(c);
	else if (local == SERVER_PASSED)
		next = pass_request(c);
	if (next == NEXT_END)
		end(c);
	else
		conn_advance(c);
}

/* From the first one each time: others may have ended by it. */
void server_resume(struct server *s, enum wire_kind kind)
{
	struct conn *c;

	do {
		LIST_FOREACH(c, &s->conns, link)
		{
			if (c->later && c->later_kind == kind)
				break;
		}
		if (c)
			conn_resume(c);
	} while (c);
}

static bool read_more(struct conn *c)
{
	ssize_t n;

	do
		n = recv(c->fd, c->in + c->in_size, sizeof(c->in) - c->in_size, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN;
	c->eof = n == 0;
	c->in_size += (size_t)n;
	return true;
}

/* Whether nobody would take the answer; after half a close somebody would. */
static bool has_gone(const struct conn *c)
{
	struct pollfd p = {.fd = c->fd};

	return poll(&p, 1, 0) > 0 && (p.revents & POLLHUP);
}

static void conn_on_io(struct ev_loop *loop, ev_io *io, int revents)
{
	struct conn *c = io->data;

	(void)loop;
	assert(c);
	if (c->state == CONN_PENDING && !has_gone(c)) {
		c->deaf = true;
		conn_watch(c);
	} else if (c->state == CONN_PENDING) {
		end(c);
	} else if ((revents & EV_READ) && !read_more(c)) {
		end(c);
	} else {
		conn_advance(c);
	}
}

static void conn_on_timer(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct conn *c = timer->data;

	(void)loop;
	(void)revents;
	assert(c);
	log_debug(c->listener->server->log, "step %s: uid %u (pid %d) took too long",
		c->listener->label, (unsigned)c->peer.uid, (int)c->peer.pid);
	end(c);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static bool is_too_many(const struct server *s, uid_t uid)
{
	const struct conn *c;
	size_t n = 0;

	if (s->conns_count >= SERVER_CONNECTIONS_MAX)
		return true;
	if (uid == 0)
		return false;
	LIST_FOREACH(c, &s->conns, link)
	n += c->peer.uid == uid;
	return n >= SERVER_CONNECTIONS_OF_A_UID_MAX;
}

void conn_begin_take(struct listener *listener, int fd)
{
	struct server *s = listener->server;
	struct ucred peer;
	socklen_t size = sizeof(peer);
	struct conn *c = NULL;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
		if (is_too_many(s, peer.uid))
			log_debug(s->log, "uid %u has too many connections", (unsigned)peer.uid);
		else
			c = calloc(1, sizeof(*c));
	}
	if (!c) {
		(void)close_fd(fd);
		return;
	}
	c->listener = listener_ref(listener);
	c->fd = fd;
	c->peer = peer;
	ev_init(&c->io, conn_on_io);
	c->io.data = c;
	ev_init(&c->timer, conn_on_timer);
	c->timer.data = c;
	LIST_INSERT_HEAD(&s->conns, c, link);
	s->conns_count++;
	conn_advance(c);
}
