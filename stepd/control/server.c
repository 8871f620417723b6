/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The service: who comes in, whose turn it is, and the end.
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

#include "stepd/control/control_impl.h"
#include "stepd/control/listen.h"

#define ACCEPTS_PER_TURN 64
#define ACCEPT_REST_S    0.1
#define HUPS_PER_TURN    64

/* ---- turns --------------------------------------------------------------------------------- */

void control_schedule(struct conn *conn)
{
	struct control *c = conn->control;

	if (conn->is_due)
		return;
	conn->is_due = true;
	TAILQ_INSERT_TAIL(&c->due, conn, due);
	if (!ev_is_active(&c->turn)) {
		ev_timer_set(&c->turn, 0., 0.); /* behind what else has happened */
		ev_timer_start(c->options.loop, &c->turn);
	}
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

static void on_turn(struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct control *c = timer->data;
	struct conn *conn, *last = TAILQ_LAST(&c->due, conn_list);
	bool more = last != NULL;

	ev_timer_stop(loop, timer);
	while (c->ready && (conn = TAILQ_FIRST(&c->waiting)))
		conn_end_waiting(conn);
	while (more && (conn = TAILQ_FIRST(&c->due))) {
		more = conn != last; /* what becomes due meanwhile has the next turn */
		TAILQ_REMOVE(&c->due, conn, due);
		conn->is_due = false;
		conn_turn(conn);
	}
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
			conn_doom(conn, "no memory to watch it");
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
		conn_doom(events[i].data.ptr, "gone");
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

/* Most have sent their call by now; who has left already, as those do who only mean to fill the
 * queue, costs no more than this. */
static void let_in_take(struct control *c, int fd)
{
	const ssize_t n = recv(fd, c->scratch, sizeof(c->scratch), MSG_DONTWAIT);
	struct control_peer peer;
	struct conn *conn;
	unsigned limit;

	if (n == 0 || access_peer(fd, &peer) < 0) {
		(void)close_fd(fd);
		return;
	}
	if (conn_new_take(c, fd, &peer, &conn) < 0)
		return;
	limit = room_admit(conn);
	if (limit > 0) {
		turn_away(c, fd, limit);
		conn_doom(conn, "too many connections");
	} else if (n > 0) {
		conn_feed(conn, (size_t)n, 1);
	} else {
		conn_settle(conn);
	}
}

static void rest(struct control *c)
{
	ev_io_stop(c->options.loop, &c->accept_io);
	ev_timer_set(&c->accept_again, ACCEPT_REST_S, 0.);
	ev_timer_start(c->options.loop, &c->accept_again);
}

static void have_spare(struct control *c)
{
	if (c->spare_fd < 0)
		c->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Out of descriptors or memory: the caller at the head of the queue is turned away. */
static void accept_in_need(struct control *c, int why)
{
	int fd;

	if (!c->accept_failed)
		log_warning(c->options.log,
			"control socket: can't take a connection: %s; callers are turned away",
			strerror(why));
	c->accept_failed = true;
	if (c->spare_fd >= 0) {
		c->spare_fd = close_fd(c->spare_fd);
		fd = accept4(c->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
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
	struct control *c = io->data;
	int i, fd;

	have_spare(c);
	for (i = 0; i < ACCEPTS_PER_TURN && ev_is_active(io); i++) {
		fd = accept4(c->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			c->accept_failed = false;
			let_in_take(c, fd);
		} else if (errno == EAGAIN) {
			return;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			accept_in_need(c, errno);
		}
	}
}

static void on_accept_again(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct control *c = timer->data;

	ev_io_start(c->options.loop, &c->accept_io);
}

/* ---- the end ------------------------------------------------------------------------------- */

static void doom_all(struct control *c, const char *why)
{
	struct conn *conn;

	TAILQ_FOREACH(conn, &c->all, all)
	conn_doom(conn, why);
}

static void on_patience(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct control *c = timer->data;

	doom_all(c, "too slow for the end");
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
	ev_io_stop(loop, &c->accept_io);
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
	if (!TAILQ_EMPTY(&c->waiting) && !ev_is_active(&c->turn)) {
		ev_timer_set(&c->turn, 0., 0.);
		ev_timer_start(c->options.loop, &c->turn);
	}
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
	ev_io_init(&c->accept_io, on_caller, c->fd, EV_READ);
	ev_io_init(&c->hup_io, on_hup, c->hup_fd, EV_READ);
	c->turn.data = c->accept_again.data = c->patience.data = c;
	c->accept_io.data = c->hup_io.data = c;
}

int control_new_take(const struct control_options *options, int fd, struct control **ret_control,
	struct err *err)
{
	_cleanup_close_ int listener = fd;
	_cleanup_control_ struct control *c = calloc(1, sizeof(*c));

	if (!c)
		return err_set(err, -ENOMEM, "control socket");
	c->options = *options;
	c->fd = take_fd(&listener);
	c->spare_fd = -1;
	TAILQ_INIT(&c->all);
	TAILQ_INIT(&c->due);
	TAILQ_INIT(&c->waiting);
	c->connections_max = most_connections();
	c->hup_fd = epoll_create1(EPOLL_CLOEXEC);
	have_spare(c);
	init_watchers(c);
	if (c->hup_fd < 0 || c->spare_fd < 0)
		return err_set(err, -errno, "control socket: open descriptors");
	ev_io_start(options->loop, &c->accept_io);
	ev_io_start(options->loop, &c->hup_io);
	*ret_control = take_ptr(c);
	return 0;
}

int control_open(
	const struct control_options *options, struct control **ret_control, struct err *err)
{
	int fd = listen_at(options->dir_fd, options->path, err);

	return fd < 0 ? fd : control_new_take(options, fd, ret_control, err);
}

struct control *control_close(struct control *c)
{
	struct conn *conn;

	if (!c)
		return NULL;
	doom_all(c, "the service ends");
	while ((conn = TAILQ_FIRST(&c->all)))
		conn_bury(conn);
	ev_timer_stop(c->options.loop, &c->turn);
	ev_timer_stop(c->options.loop, &c->accept_again);
	ev_timer_stop(c->options.loop, &c->patience);
	ev_io_stop(c->options.loop, &c->accept_io);
	ev_io_stop(c->options.loop, &c->hup_io);
	(void)unlinkat(c->options.dir_fd, LISTEN_NAME, 0); /* if it is still there */
	c->fd = close_fd(c->fd);
	c->hup_fd = close_fd(c->hup_fd);
	c->spare_fd = close_fd(c->spare_fd);
	free(c);
	return NULL;
}
