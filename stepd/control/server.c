/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The service: its sockets, who connects and with which access, whose turn it is, and the end.
 *
 * A caller above its quota is rejected before a byte of its call is read, so that a queue full of
 * strangers costs little time; and accepting takes some milliseconds of a turn of the loop.
 *
 * Descriptors may run out. One is held in reserve: it is closed to accept a caller, who is
 * rejected, so that the queue of the socket, which stays readable, does not occupy the loop.
 * Where even that fails, accepting pauses for a while.
 */
#include "stepd/control/control_impl.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "stepd/base/clock.h"
#include "stepd/base/fs.h"

/* ---- the sockets --------------------------------------------------------------------------- */

/* So that clients that don't wait find a slot; net.core.somaxconn limits it. */
#define BACKLOG 2048

const char *const listener_names[LISTENER_MAX] = {
	[LISTENER_AGENT] = "socket.agent",
	[LISTENER_OWNER] = "socket.owner",
	[LISTENER_ALL] = "socket",
};

/* buf has NAME_MAX + 1 bytes. -ENAMETOOLONG: the name is too long. */
static int make_name(const struct control_options *o, enum listener_kind kind, char *buf)
{
	const char *first = o->socket_name ? o->socket_name : listener_names[LISTENER_ALL];
	const char *suffix = listener_names[kind] + strlen(listener_names[LISTENER_ALL]);
	int n = snprintf(buf, NAME_MAX + 1, "%s%s", first, suffix);

	return n < 0 || n > NAME_MAX ? -ENAMETOOLONG : 0;
}

/* The socket's address, through /proc where the path is too long. */
static int make_address(int dir_fd, const char *path, const char *name, struct sockaddr_un *sa)
{
	const size_t size = sizeof(sa->sun_path);
	int n;

	*sa = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(sa->sun_path, size, "%s/%s", path, name);
	if (n < 0 || (size_t)n >= size)
		n = snprintf(sa->sun_path, size, "/proc/self/fd/%d/%s", dir_fd, name);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* Before listen(2): until then nobody can connect. */
static int set_access(const struct control_options *o, enum listener_kind kind, const char *name)
{
	if (fchmodat(o->dir_fd, name, kind == LISTENER_ALL ? 0666 : 0600, 0) < 0)
		return -errno;
	if (kind == LISTENER_OWNER &&
		fchownat(o->dir_fd, name, o->owner_uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

/* A new socket in the directory, whatever the umask. */
static int listen_at(const struct control_options *o, enum listener_kind kind, struct err *err)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int dir_fd = o->dir_fd;
	const char *path = o->path;
	char name[NAME_MAX + 1];
	struct sockaddr_un sa;
	int r = make_name(o, kind, name);

	if (r == 0)
		r = make_address(dir_fd, path, name, &sa);
	if (r < 0)
		return err_set(err, r, "make the control socket '%s/%s'", path, name);
	if (fd < 0)
		return err_set(err, -errno, "make a Unix socket");
	if (unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT)
		return err_set(err, -errno, "remove the old '%s/%s'", path, name);
	fs_refuse_descriptors(fd); /* accepted connections inherit it */
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return err_set(err, -errno, "make the control socket '%s/%s'", path, name);
	r = set_access(o, kind, name);
	if (r == 0 && listen(fd, BACKLOG) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(dir_fd, name, 0); /* it would be unusable */
		return err_set(err, r, "listen at the control socket '%s/%s'", path, name);
	}
	return take_fd(&fd);
}

/* ---- a caller's access --------------------------------------------------------------------- */

/* The kernel reports the peer's credentials as they were when the connection was made, so a program
 * that drops its identity afterwards retains the access of its connection. */

/* A user with more groups is not an operator: to read 65,536 takes 2 ms of the others' time, and
 * with subordinate ids every user may have so many. */
#define GROUPS_MOST 1024u

const char *const control_access_names[CONTROL_ACCESS_MAX] = {
	[CONTROL_AGENT] = "agent",
	[CONTROL_OWNER] = "owner",
	[CONTROL_OPERATOR] = "ask",
};

static const char *const access_holders[CONTROL_ACCESS_MAX] = {
	[CONTROL_AGENT] = "root and the agent's user",
	[CONTROL_OWNER] = "root, the agent's user and the step's owner",
	[CONTROL_OPERATOR] = "root, the agent's user, the step's owner and the operator group",
};

int access_peer(int fd, struct control_peer *ret_peer)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return -errno;
	*ret_peer = (struct control_peer){.pid = cred.pid, .uid = cred.uid, .gid = cred.gid};
	return 0;
}

/* Whether the peer's supplementary groups have that one; false where they can't be read. */
static bool is_in_group(int fd, gid_t gid)
{
	_cleanup_free_ gid_t *groups = NULL;
	socklen_t size = 0;
	size_t i;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &size) == 0 || errno != ERANGE ||
		size > GROUPS_MOST * sizeof(*groups))
		return false;
	groups = malloc(size);
	if (!groups || getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0)
		return false;
	for (i = 0; i < size / sizeof(*groups); i++) {
		if (groups[i] == gid)
			return true;
	}
	return false;
}

enum control_access access_of(const struct control *c, int fd, const struct control_peer *peer)
{
	const gid_t operators = c->options.operator_gid;

	if (peer->uid == 0 || peer->uid == geteuid())
		return CONTROL_AGENT;
	if (peer->uid == c->options.owner_uid)
		return CONTROL_OWNER;
	if (operators != (gid_t)-1 && (peer->gid == operators || is_in_group(fd, operators)))
		return CONTROL_OPERATOR;
	return CONTROL_EVERYBODY;
}

void access_deny(struct control_call *call, const char *name)
{
	const enum control_access needs = call->method->access;
	char message[256];

	(void)snprintf(message, sizeof(message), "user %lld may not call %s of this step: %s may",
		(long long)call->conn->peer.uid, call->method->name, access_holders[needs]);
	control_error_take(call, "PermissionDenied",
		json_pack("{s:s, s:s, s:s}", "method", name, "needs", control_access_names[needs],
			"message", message));
}

/* ---- the service --------------------------------------------------------------------------- */

#define ACCEPT_PAUSE_S 0.1
#define HUPS_PER_TURN  64
#define ACCEPTS_LEAST  64 /* in a turn, however long it takes: it may have been preempted */
#define PATIENCE_MOST  12

/* The time of a turn for accepting; doc/stepd-control.7 repeats the times. */
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
	ev_timer_set(&c->turn, 0., 0.); /* behind other events */
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

/* In order, without classes that have no time left. */
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

/* Connections that become due meanwhile, or for which there is no time, have the next turn. */
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
	quota_trim(c);
	end_finish(c);
}

/* ---- hangups during a call ----------------------------------------------------------------- */

void control_watch_hup(struct conn *conn, bool on)
{
	struct control *c = conn->control;
	struct epoll_event event = {.events = 0, .data.ptr = conn}; /* EPOLLHUP comes always */

	if (on == conn->hup_watched || conn->fd < 0)
		return;
	if (epoll_ctl(c->hup_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, conn->fd, &event) < 0) {
		if (on) /* no memory: its end would not be noticed */
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

/* ---- accepting ----------------------------------------------------------------------------- */

/* Reports the limit to a caller that is rejected, unless its socket is full. */
static void reject(const struct control *c, int fd, unsigned limit)
{
	char text[160];
	int n = snprintf(text, sizeof(text),
		"{\"error\":\"%s.TooManyConnections\",\"parameters\":{\"limit\":%u}}",
		c->options.interface, limit);

	assert(n > 0 && (size_t)n < sizeof(text));
	(void)send(fd, text, (size_t)n + 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Most have sent their call by now. */
static void admit_take(struct control *c, int fd)
{
	_cleanup_close_ int caller = fd;
	enum control_access access;
	struct control_peer peer;
	struct conn *conn;
	unsigned limit;

	if (access_peer(caller, &peer) < 0)
		return;
	access = access_of(c, caller, &peer);
	limit = quota_admit(c, &peer, access);
	if (limit > 0) {
		reject(c, caller, limit);
		/* A child that has not come to its exec has a copy: the peer shall see the end. */
		(void)shutdown(caller, SHUT_RDWR); /* ENOTCONN: it has gone itself */
	} else if (conn_new_take(c, take_fd(&caller), &peer, access, &conn) == 0) {
		conn_start(conn);
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

static void pause_accepting(struct control *c)
{
	stop_accepting(c);
	ev_timer_set(&c->accept_again, ACCEPT_PAUSE_S, 0.);
	ev_timer_start(c->options.loop, &c->accept_again);
}

static void open_spare(struct control *c)
{
	if (c->spare_fd < 0)
		c->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Out of descriptors or memory: the caller at the head of the queue is rejected. */
static void accept_in_need(const struct listener *listener, int why)
{
	struct control *c = listener->control;
	int fd;

	if (!c->accept_failed)
		log_warning(c->options.log,
			"control socket: can't accept a connection: %s; callers are rejected",
			strerror(why));
	c->accept_failed = true;
	if (c->spare_fd >= 0) {
		c->spare_fd = close_fd(c->spare_fd);
		fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			reject(c, fd, quota_count_all(c));
		(void)close_fd(fd);
	}
	open_spare(c);
	if (c->spare_fd < 0 || (why != EMFILE && why != ENFILE))
		pause_accepting(c);
}

static void on_caller(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct listener *listener = io->data;
	struct control *c = listener->control;
	const uint64_t end_ns = clock_now_ns() + accept_rows[listener->kind].budget_ms * 1000000;
	int fd, n;

	open_spare(c);
	for (n = 0; ev_is_active(io) && (n < ACCEPTS_LEAST || clock_now_ns() < end_ns); n++) {
		fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			c->accept_failed = false;
			admit_take(c, fd);
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

/* Some have not had their turn yet: this process is slow. */
static bool has_due(const struct control *c)
{
	unsigned i;

	for (i = 0; i <= CONTROL_EVERYBODY; i++) {
		if (!TAILQ_EMPTY(&c->due[i]))
			return true;
	}
	return false;
}

static void on_patience(struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct control *c = timer->data;

	if (has_due(c) && ++c->patience_count < PATIENCE_MOST) {
		ev_timer_set(timer, c->patience_ms / 1e3, 0.);
		ev_timer_start(loop, timer);
		return;
	}
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
	c->patience_ms = patience_ms;
	c->finished = done;
	c->finished_userdata = userdata;
	stop_accepting(c);
	ev_timer_stop(loop, &c->accept_again);
	TAILQ_FOREACH(conn, &c->all, all)
	conn_finish(conn);
	/* Without connections it is finished as soon as the loop runs. */
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

/* The step may use half of this process's descriptors. */
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
	_cleanup_control_ struct control *c = malloc(sizeof(*c));

	if (!c)
		return err_set(err, -ENOMEM, "control socket");
	memset(c, 0, offsetof(struct control, scratch)); /* whose pages nobody has touched yet */
	c->options = *options;
	c->spare_fd = -1;
	init_lists(c);
	c->connections_max = most_connections();
	c->hup_fd = epoll_create1(EPOLL_CLOEXEC);
	open_spare(c);
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

/* Accepts at a new socket, which replaces what is there: of mode 0666 for all, else 0600 and that
 * of the owner with him as the file's owner. */
static int control_listen(struct control *c, enum listener_kind kind, struct err *err)
{
	const struct control_options *o = &c->options;
	int fd;

	if (kind == LISTENER_OWNER && (o->owner_uid == 0 || o->owner_uid == geteuid()))
		return 0;
	fd = listen_at(o, kind, err);
	if (fd < 0)
		return fd;
	control_accept_at(c, kind, fd);
	return 0;
}

/* The one for all is made last: a client that finds it finds the others, too. */
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
	char name[NAME_MAX + 1];

	ev_io_stop(o->loop, &listener->io);
	if (listener->fd >= 0 && make_name(o, listener->kind, name) == 0)
		(void)unlinkat(o->dir_fd, name, 0); /* if still there */
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
