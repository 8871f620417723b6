/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The service: who comes in, whose turn it is, and the end.
 *
 * Who may not have one connection more is turned away before a byte of his is read, so that a queue
 * full of strangers costs little time; and each turn of the loop takes some milliseconds of it.
 *
 * Descriptors may run out. One is kept in reserve: with its place a caller is taken in and turned
 * away, so that the queue of the socket, which stays readable, doesn't keep the loop busy. Where
 * even that fails, accepting rests for a while.
 */
#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "stepd/base/clock.h"
#include "stepd/control/control_impl.h"

#define ACCEPT_REST_S 0.1
#define HUPS_PER_TURN 64
#define ACCEPTS_LEAST 64 /* in a turn, however long it takes: it may have been preempted */

/* What accepting may take of a turn; doc/stepd-control.7 repeats the times. */
static const struct {
	uint64_t budget_ms;
	int priority; /* of libev; the agent's timers and signals have 0 */
} accept_rows[LISTENER_MAX] = {
	[LISTENER_AGENT] = {4, 0},
	[LISTENER_OWNER] = {2, -1},
	[LISTENER_ALL] = {4, -2},
};

/* ---- turns --------------------------------------------------------------------------------- */

static void start_turn(struct control *c)
{
	if (ev_is_active(&c->turn))
		return;
	ev_timer_set(&c->turn, 0., 0.); /* behind what else has happened */
	ev_timer_start(c->options.loop, &c->turn);
}

void control_schedule(struct conn *conn)
{
	struct control *c = conn->control;

	if (conn->is_due)
		return;
	conn->is_due = true;
	if (conn->fd < 0)
		TAILQ_INSERT_TAIL(&c->failed, conn, due);
	else
		TAILQ_INSERT_TAIL(&c->due[conn->turn_class], conn, due);
	start_turn(c);
}

static void end_finish(struct control *c)
{
	void (*finished)(void *userdata) = c->finished;

	if (!c->finishing || !finished || !TAILQ_EMPTY(&c->all))
		return;
	c->finished = NULL;
	ev_timer_stop(c->options.loop, &c->patience);
	finished(c->finished_userdata); /* may close the service */
}

/* In their order, but for classes without time. */
static void end_waiting(struct control *c)
{
	struct conn *conn = TAILQ_FIRST(&c->waiting), *next;

	while (conn && conn->is_waiting) { /* a call may close others, the next one, too */
		next = TAILQ_NEXT(conn, waiting);
		if (turn_has_time(c, conn->turn_class))
			conn_end_waiting(conn);
		conn = next;
	}
	if (!TAILQ_EMPTY(&c->waiting))
		start_turn(c);
}

/* What becomes due meanwhile has the next turn, and so has what there is no time for. */
static void serve_due(struct control *c, enum control_access turn_class)
{
	struct conn_list *due = &c->due[turn_class];
	struct conn *conn, *last = TAILQ_LAST(due, conn_list);
	bool more = last != NULL;

	while (more && turn_has_time(c, turn_class) && (conn = TAILQ_FIRST(due))) {
		more = conn != last;
		TAILQ_REMOVE(due, conn, due);
		conn->is_due = false;
		conn_turn(conn);
	}
	if (!TAILQ_EMPTY(due))
		start_turn(c);
}

static void remove_failed(struct control *c)
{
	struct conn *conn, *last = TAILQ_LAST(&c->failed, conn_list);
	bool more = last != NULL;

	while (more && (conn = TAILQ_FIRST(&c->failed))) {
		more = conn != last;
		conn_remove(conn);
	}
}

static void on_turn(struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct control *c = timer->data;
	unsigned i;

	ev_timer_stop(loop, timer);
	if (c->ready)
		end_waiting(c);
	for (i = 0; i <= CONTROL_EVERYBODY; i++)
		serve_due(c, i);
	remove_failed(c);
	room_give_back(c);
	end_finish(c);
}

/* ---- who hangs up while a call of his is under way ------------------------------------------ */

void control_watch_hup(struct conn *conn, bool on)
{
	struct control *c = conn->control;
	struct epoll_event event = {.events = 0, .data.ptr = conn}; /* EPOLLHUP comes always */

	if (on == conn->hup_watched || conn->fd < 0)
		return;
	if (epoll_ctl(c->hup_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, conn->fd, &event) < 0) {
		if (on) /* no memory: his end would stay unseen */
			conn_fail(conn, "no memory to watch it");
		return;
	}
	conn->hup_watched = on;
}

static void on_hup(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct control *c = io->data;
	struct epoll_event events[HUPS_PER_TURN];
	int i, n = epoll_wait(c->hup_fd, events, HUPS_PER_TURN, 0);

	for (i = 0; i < n; i++)
		conn_fail(events[i].data.ptr, "gone");
}

/* ---- who comes ----------------------------------------------------------------------------- */

/* Tells one who is not let in: a courtesy, so who can't take it is not waited for. */
static void turn_away(const struct control *c, int fd, unsigned limit)
{
	char text[160];
	int n = snprintf(text, sizeof(text),
		"{\"error\":\"%s.TooManyConnections\",\"parameters\":{\"limit\":%u}}",
		c->options.interface, limit);

	assert(n > 0 && (size_t)n < sizeof(text));
	(void)send(fd, text, (size_t)n + 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Most have sent their call by now. */
static void let_in_take(struct control *c, int fd)
{
	_cleanup_close_ int caller = fd;
	enum control_access access;
	struct control_peer peer;
	struct conn *conn;
	unsigned limit;

	if (access_peer(caller, &peer) < 0)
		return;
	access = access_of(c, caller, &peer);
	limit = room_admit(c, &peer, access);
	if (limit > 0) {
		turn_away(c, caller, limit);
		/* A child that has not come to its exec has a copy: the peer shall see the end. */
		(void)shutdown(caller, SHUT_RDWR); /* ENOTCONN: it has gone itself */
	} else if (conn_new_take(c, take_fd(&caller), &peer, access, &conn) == 0) {
		conn_greet(conn);
	}
}

static void start_accepting(struct control *c)
{
	unsigned i;

	for (i = 0; i < LISTENER_MAX; i++) {
		if (c->listeners[i].fd >= 0)
			ev_io_start(c->options.loop, &c->listeners[i].io);
	}
}

static void stop_accepting(struct control *c)
{
	unsigned i;

	for (i = 0; i < LISTENER_MAX; i++)
		ev_io_stop(c->options.loop, &c->listeners[i].io);
}

static void rest(struct control *c)
{
	stop_accepting(c);
	ev_timer_set(&c->accept_again, ACCEPT_REST_S, 0.);
	ev_timer_start(c->options.loop, &c->accept_again);
}

static void have_spare(struct control *c)
{
	if (c->spare_fd < 0)
		c->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Out of descriptors or memory: the caller at the head of the queue is turned away. */
static void accept_in_need(const struct listener *listener, int why)
{
	struct control *c = listener->control;
	int fd;

	if (!c->accept_failed)
		log_warning(c->options.log,
			"control socket: can't take a connection: %s; callers are turned away",
			strerror(why));
	c->accept_failed = true;
	if (c->spare_fd >= 0) {
		c->spare_fd = close_fd(c->spare_fd);
		fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			turn_away(c, fd, room_count_all(c));
		(void)close_fd(fd);
	}
	have_spare(c);
	if (c->spare_fd < 0 || (why != EMFILE && why != ENFILE))
		rest(c);
}

static void on_caller(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct listener *listener = io->data;
	struct control *c = listener->control;
	const uint64_t end_ns = clock_now_ns() + accept_rows[listener->kind].budget_ms * 1000000;
	int fd, n;

	have_spare(c);
	for (n = 0; ev_is_active(io) && (n < ACCEPTS_LEAST || clock_now_ns() < end_ns); n++) {
		fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			c->accept_failed = false;
			let_in_take(c, fd);
		} else if (errno == EAGAIN) {
			return;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			accept_in_need(listener, errno);
		}
	}
}

static void on_accept_again(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	start_accepting(timer->data);
}

/* ---- the end ------------------------------------------------------------------------------- */

static void fail_all(struct control *c, const char *why)
{
	struct conn *conn;

	TAILQ_FOREACH(conn, &c->all, all)
	conn_fail(conn, why);
}

static void on_patience(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct control *c = timer->data;

	fail_all(c, "too slow for the end");
	if (TAILQ_EMPTY(&c->all))
		end_finish(c);
}

void control_finish(
	struct control *c, int patience_ms, void (*done)(void *userdata), void *userdata)
{
	struct ev_loop *loop = c->options.loop;
	struct conn *conn;

	assert(!c->finishing && done);
	c->finishing = true;
	c->finished = done;
	c->finished_userdata = userdata;
	stop_accepting(c);
	ev_timer_stop(loop, &c->accept_again);
	TAILQ_FOREACH(conn, &c->all, all)
	conn_finish(conn);
	/* With nobody there it is over as soon as the loop runs. */
	ev_timer_set(&c->patience, TAILQ_EMPTY(&c->all) ? 0. : patience_ms / 1e3, 0.);
	ev_timer_start(loop, &c->patience);
}

void control_set_ready(struct control *c)
{
	c->ready = true;
	if (!TAILQ_EMPTY(&c->waiting))
		start_turn(c);
}

/* ---- the beginning ------------------------------------------------------------------------- */

/* Half of the descriptors that this process may have are the step's. */
static unsigned most_connections(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / 2 >= CONTROL_CONNECTIONS_MAX)
		return CONTROL_CONNECTIONS_MAX;
	return (unsigned)(limit.rlim_cur / 2);
}

static void init_watchers(struct control *c)
{
	ev_timer_init(&c->turn, on_turn, 0., 0.);
	ev_timer_init(&c->accept_again, on_accept_again, 0., 0.);
	ev_timer_init(&c->patience, on_patience, 0., 0.);
	ev_io_init(&c->hup_io, on_hup, c->hup_fd, EV_READ);
	c->turn.data = c->accept_again.data = c->patience.data = c->hup_io.data = c;
}

static void init_lists(struct control *c)
{
	unsigned i;

	TAILQ_INIT(&c->all);
	TAILQ_INIT(&c->waiting);
	TAILQ_INIT(&c->failed);
	for (i = 0; i <= CONTROL_EVERYBODY; i++)
		TAILQ_INIT(&c->due[i]);
	for (i = 0; i < LISTENER_MAX; i++) {
		c->listeners[i] = (struct listener){.control = c, .kind = i, .fd = -1};
		ev_io_init(&c->listeners[i].io, on_caller, -1, EV_READ);
		ev_set_priority(&c->listeners[i].io, accept_rows[i].priority);
		c->listeners[i].io.data = &c->listeners[i];
	}
}

int control_new(
	const struct control_options *options, struct control **ret_control, struct err *err)
{
	_cleanup_control_ struct control *c = calloc(1, sizeof(*c));

	if (!c)
		return err_set(err, -ENOMEM, "control socket");
	c->options = *options;
	c->spare_fd = -1;
	init_lists(c);
	c->connections_max = most_connections();
	c->hup_fd = epoll_create1(EPOLL_CLOEXEC);
	have_spare(c);
	init_watchers(c);
	if (c->hup_fd < 0 || c->spare_fd < 0)
		return err_set(err, -errno, "control socket: open descriptors");
	ev_io_start(options->loop, &c->hup_io);
	*ret_control = take_ptr(c);
	return 0;
}

void control_accept_at(struct control *c, enum listener_kind kind, int fd)
{
	struct listener *listener = &c->listeners[kind];

	assert(listener->fd < 0);
	listener->fd = fd;
	ev_io_set(&listener->io, fd, EV_READ);
	ev_io_start(c->options.loop, &listener->io);
}

int control_listen(struct control *c, enum listener_kind kind, struct err *err)
{
	const struct control_options *o = &c->options;
	int fd;

	if (kind == LISTENER_OWNER && (o->owner_uid == 0 || o->owner_uid == geteuid()))
		return 0;
	fd = listen_at(o->dir_fd, o->path, kind, o->owner_uid, err);
	if (fd < 0)
		return fd;
	control_accept_at(c, kind, fd);
	return 0;
}

/* The one for all comes last: who sees it finds the others. */
int control_open(
	const struct control_options *options, struct control **ret_control, struct err *err)
{
	_cleanup_control_ struct control *c = NULL;
	int r = control_new(options, &c, err);
	unsigned i;

	for (i = 0; i < LISTENER_MAX && r == 0; i++)
		r = control_listen(c, i, err);
	if (r == 0)
		*ret_control = take_ptr(c);
	return r;
}

static void close_listener(struct listener *listener)
{
	const struct control_options *o = &listener->control->options;

	ev_io_stop(o->loop, &listener->io);
	if (listener->fd >= 0)
		(void)unlinkat(o->dir_fd, listener_names[listener->kind], 0); /* if still there */
	listener->fd = close_fd(listener->fd);
}

struct control *control_close(struct control *c)
{
	struct conn *conn;
	unsigned i;

	if (!c)
		return NULL;
	fail_all(c, "the service ends");
	while ((conn = TAILQ_FIRST(&c->all)))
		conn_remove(conn);
	ev_timer_stop(c->options.loop, &c->turn);
	ev_timer_stop(c->options.loop, &c->accept_again);
	ev_timer_stop(c->options.loop, &c->patience);
	ev_io_stop(c->options.loop, &c->hup_io);
	for (i = 0; i < LISTENER_MAX; i++)
		close_listener(&c->listeners[i]);
	c->hup_fd = close_fd(c->hup_fd);
	c->spare_fd = close_fd(c->spare_fd);
	free(c);
	return NULL;
}
