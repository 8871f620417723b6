/* SPDX-License-Identifier: BSD-3-Clause */
#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "contrib/slurm-socket/names.h"
#include "contrib/slurm-socket/server.h"
#include "stepd/base/log.h"

/* Of one look at a listening socket: others have their turn in between. */
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
	LIST_INIT(&s->doors);
	return s->reserve_fd < 0 ? err_set(err, -errno, "open '/dev/null'") : 0;
}

void server_close(struct server *s)
{
	while (!LIST_EMPTY(&s->doors))
		(void)door_close(LIST_FIRST(&s->doors));
	conn_end_all(s);
	s->reserve_fd = close_fd(s->reserve_fd);
}

static void pause_accepting(struct door *door)
{
	ev_io_stop(door->server->loop, door->io);
	ev_timer_set(door->pause, ACCEPT_PAUSE_S, 0.);
	ev_timer_start(door->server->loop, door->pause);
}

static void on_pause_over(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct door *door = timer->data;

	assert(door);
	(void)revents;
	ev_io_start(loop, door->io);
}

/* Out of descriptors or memory: the descriptor in reserve lets us turn the client away, who would
 * wait for ever, and wake us as long. Without it the door pauses. */
static void turn_away(struct door *door, int why)
{
	struct server *s = door->server;
	int fd = -1;

	if (!s->short_reported)
		log_warning(s->log, "can't take a connection: %s; clients are turned away",
			strerror(why));
	s->short_reported = true;
	if (s->reserve_fd >= 0) {
		s->reserve_fd = close_fd(s->reserve_fd);
		fd = accept4(door->io->fd, NULL, NULL, SOCK_CLOEXEC);
	}
	if (fd < 0)
		pause_accepting(door);
	(void)close_fd(fd);
	s->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_connect(struct ev_loop *loop, ev_io *io, int revents)
{
	struct door *door = io->data;
	int fd, n;

	(void)loop;
	(void)revents;
	assert(door);
	for (n = 0; n < ACCEPTS_AT_ONCE && ev_is_active(io); n++) {
		fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			door->server->short_reported = false;
			conn_begin_take(door, fd);
		} else if (errno == EAGAIN) {
			break;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			turn_away(door, errno);
		}
	}
}

static int set_step(struct door *door, const struct door_step *step, struct err *err)
{
	_cleanup_free_ char *name = NULL;
	int r = names_make_socket(step->node, step->step, &name);

	if (r == -EINVAL)
		return err_say(err, r, "step %s on '%s' has no name that Slurm knows", step->step,
			step->node);
	door->label = strdup(step->step);
	door->directory = strdup(step->directory);
	door->io = calloc(1, sizeof(*door->io));
	door->pause = calloc(1, sizeof(*door->pause));
	if (r < 0 || !door->label || !door->directory || !door->io || !door->pause)
		return err_set(err, -ENOMEM, "open a door for step %s", step->step);
	door->step = (struct requests_step){.owner = step->owner,
		.admin = door->server->admin,
		.private = door->server->private,
		.batch = strcmp(strchr(step->step, '.'), ".batch") == 0};
	return spool_listen(door->server->spool, name, &door->socket, err);
}

int door_open(
	struct server *s, const struct door_step *step, struct door **ret_door, struct err *err)
{
	struct door *door = calloc(1, sizeof(*door));
	int r;

	if (!door)
		return err_set(err, -ENOMEM, "open a door for step %s", step->step);
	door->refs = 1;
	door->server = s;
	TAILQ_INIT(&door->queue);
	LIST_INSERT_HEAD(&s->doors, door, link);
	r = set_step(door, step, err);
	if (r < 0) {
		(void)door_close(door);
		return r;
	}
	ev_io_init(door->io, on_connect, spool_socket_get_fd(door->socket), EV_READ);
	ev_init(door->pause, on_pause_over);
	door->io->data = door->pause->data = door;
	ev_io_start(s->loop, door->io);
	*ret_door = door;
	return 0;
}

struct door *door_ref(struct door *door)
{
	door->refs++;
	return door;
}

struct door *door_unref(struct door *door)
{
	if (--door->refs > 0)
		return door;
	free(door->io);
	free(door->pause);
	free(door->label);
	free(door->directory);
	free(door);
	return NULL;
}

struct door *door_close(struct door *door)
{
	if (!door)
		return NULL;
	if (door->io)
		ev_io_stop(door->server->loop, door->io);
	if (door->pause)
		ev_timer_stop(door->server->loop, door->pause);
	door->socket = spool_socket_close(door->socket);
	LIST_REMOVE(door, link);
	conn_end_of_door(door);
	(void)door_unref(door);
	return NULL;
}
