/* SPDX-License-Identifier: BSD-3-Clause */
#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "contrib/slurm/names.h"
#include "contrib/slurm/server.h"
#include "stepd/base/err.h"

/* Of one turn of a listening socket: others have their turn in between. */
#define ACCEPTS_AT_ONCE 64
#define ACCEPT_PAUSE_S  0.2

int server_open(struct server *s, struct ev_loop *loop, const struct log *log,
	const struct spool *spool, bool private, struct err *err)
{
	*s = (struct server){.loop = loop,
		.log = log,
		.spool = spool,
		.private = private,
		.admin = geteuid(),
		.reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC)};
	LIST_INIT(&s->conns);
	LIST_INIT(&s->listeners);
	return s->reserve_fd < 0 ? err_set(err, -errno, "open '/dev/null'") : 0;
}

void server_close(struct server *s)
{
	while (!LIST_EMPTY(&s->listeners))
		(void)listener_close(LIST_FIRST(&s->listeners));
	conn_end_all(s);
	s->reserve_fd = close_fd(s->reserve_fd);
}

static void pause_accepting(struct listener *listener)
{
	ev_io_stop(listener->server->loop, listener->io);
	ev_timer_set(listener->pause, ACCEPT_PAUSE_S, 0.);
	ev_timer_start(listener->server->loop, listener->pause);
}

static void on_pause_over(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct listener *listener = timer->data;

	assert(listener);
	(void)revents;
	ev_io_start(loop, listener->io);
}

/* Out of descriptors or memory: the descriptor in reserve lets us turn the client away, who would
 * wait for ever, and wake us as long. Without it the listener pauses. */
static void turn_away(struct listener *listener, int why)
{
	struct server *s = listener->server;
	int fd = -1;

	if (!s->short_reported)
		log_warning(s->log, "can't take a connection: %s; clients are turned away",
			strerror(why));
	s->short_reported = true;
	if (s->reserve_fd >= 0) {
		s->reserve_fd = close_fd(s->reserve_fd);
		fd = accept4(listener->io->fd, NULL, NULL, SOCK_CLOEXEC);
	}
	if (fd < 0)
		pause_accepting(listener);
	(void)close_fd(fd);
	s->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_connect(struct ev_loop *loop, ev_io *io, int revents)
{
	struct listener *listener = io->data;
	int fd, n;

	(void)loop;
	(void)revents;
	assert(listener);
	for (n = 0; n < ACCEPTS_AT_ONCE && ev_is_active(io); n++) {
		fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			listener->server->short_reported = false;
			conn_begin_take(listener, fd);
		} else if (errno == EAGAIN) {
			break;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			turn_away(listener, errno);
		}
	}
}

static void on_drain_timeout(struct ev_loop *loop, ev_timer *timer, int revents)
{
	(void)loop;
	(void)timer;
	(void)revents; /* it is not active any more */
}

void server_drain(struct server *s, server_local_fn local)
{
	const struct listener *listener;
	ev_timer limit;
	int kind;

	s->local = local;
	ev_now_update(s->loop);
	ev_timer_init(&limit, on_drain_timeout, SERVER_DRAIN_TIMEOUT_S, 0.);
	ev_timer_start(s->loop, &limit);
	LIST_FOREACH(listener, &s->listeners, link)
	{
		spool_socket_unlink(listener->socket);
		on_connect(s->loop, listener->io, EV_READ);
	}
	for (kind = 0; kind < WIRE_KIND_MAX; kind++)
		server_resume(s, (enum wire_kind)kind);
	while (conn_has_own_users(s) && ev_is_active(&limit))
		ev_run(s->loop, EVRUN_ONCE);
	ev_timer_stop(s->loop, &limit);
}

static int set_step(struct listener *listener, const struct listener_step *step, struct err *err)
{
	_cleanup_free_ char *name = NULL;
	int r = names_make_socket(step->node, step->step, &name);

	if (r == -EINVAL)
		return err_set_text(err, r, "step %s on '%s' has no name that Slurm knows",
			step->step, step->node);
	listener->label = strdup(step->step);
	listener->directory = strdup(step->directory);
	listener->io = calloc(1, sizeof(*listener->io));
	listener->pause = calloc(1, sizeof(*listener->pause));
	if (r < 0 || !listener->label || !listener->directory || !listener->io || !listener->pause)
		return err_set(err, -ENOMEM, "listen for step %s", step->step);
	listener->step = (struct requests_step){.owner = step->owner,
		.admin = listener->server->admin,
		.private = listener->server->private,
		.batch = strcmp(strchr(step->step, '.'), ".batch") == 0,
		.adopts = strcmp(strchr(step->step, '.'), ".extern") == 0};
	return spool_listen(listener->server->spool, name, &listener->socket, err);
}

int listener_open(struct server *s, const struct listener_step *step,
	struct listener **ret_listener, struct err *err)
{
	struct listener *listener = calloc(1, sizeof(*listener));
	int r;

	if (!listener)
		return err_set(err, -ENOMEM, "listen for step %s", step->step);
	listener->refs = 1;
	listener->server = s;
	TAILQ_INIT(&listener->queue);
	LIST_INSERT_HEAD(&s->listeners, listener, link);
	r = set_step(listener, step, err);
	if (r < 0) {
		(void)listener_close(listener);
		return r;
	}
	ev_io_init(listener->io, on_connect, spool_socket_get_fd(listener->socket), EV_READ);
	ev_init(listener->pause, on_pause_over);
	listener->io->data = listener->pause->data = listener;
	ev_io_start(s->loop, listener->io);
	*ret_listener = listener;
	return 0;
}

struct listener *listener_ref(struct listener *listener)
{
	listener->refs++;
	return listener;
}

struct listener *listener_unref(struct listener *listener)
{
	if (--listener->refs > 0)
		return listener;
	free(listener->io);
	free(listener->pause);
	free(listener->label);
	free(listener->directory);
	free(listener);
	return NULL;
}

struct listener *listener_close(struct listener *listener)
{
	if (!listener)
		return NULL;
	if (listener->io)
		ev_io_stop(listener->server->loop, listener->io);
	if (listener->pause)
		ev_timer_stop(listener->server->loop, listener->pause);
	listener->socket = spool_socket_close(listener->socket);
	LIST_REMOVE(listener, link);
	conn_end_of_listener(listener);
	(void)listener_unref(listener);
	return NULL;
}
