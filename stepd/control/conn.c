/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One connection. See control_impl.h for its life.
 *
 * Descriptors that a peer sends along are never received: recv(2) has no buffer for them, so the
 * kernel drops them (and since Linux 6.16 refuses them at the sender, listen_at()).
 */
#include <assert.h>
#include <malloc.h>
#include <string.h>
#include <sys/socket.h>

#include "stepd/base/clock.h"
#include "stepd/control/control_impl.h"

/* ---- frames -------------------------------------------------------------------------------- */

int frames_first(struct frames *f, const char **ret_text, size_t *ret_size)
{
	const char *text = buffer_bytes(&f->bytes), *end = NULL;
	size_t size = buffer_size(&f->bytes);

	if (size > f->searched)
		end = memchr(text + f->searched, '\0', size - f->searched);
	if (end)
		size = (size_t)(end - text);
	f->searched = size;
	if (size > f->max)
		return -EMSGSIZE;
	if (!end)
		return 0;
	*ret_text = text;
	*ret_size = size;
	return 1;
}

void frames_drop(struct frames *f, size_t size)
{
	buffer_drop(&f->bytes, size + 1);
	f->searched = 0;
}

void frames_clear(struct frames *f)
{
	buffer_clear(&f->bytes);
	f->searched = 0;
}

/* The byte behind a string that begins at text[at], which is its quote. */
static size_t skip_string(const char *text, size_t size, size_t at)
{
	for (at++; at < size && text[at] != '"'; at++) {
		if (text[at] == '\\')
			at++;
	}
	return at + 1;
}

bool frame_is_bounded(const char *text, size_t size, size_t values_max)
{
	size_t at = 0, values = 1, depth = 0;

	while (at < size) {
		switch (text[at]) {
		case '"':
			at = skip_string(text, size, at);
			continue;
		case '{':
		case '[':
			depth++;
			values++;
			break;
		case '}':
		case ']':
			if (depth > 0)
				depth--;
			break;
		case ',':
			values++;
			break;
		default:
			break;
		}
		if (depth > CONTROL_DEPTH_MAX || values > values_max)
			return false;
		at++;
	}
	return true;
}

/* ---- quotas -------------------------------------------------------------------------------- */

/* Connections, memory and time have quotas, so that no class of callers can starve a class with
 * more access.
 *
 * Connections: each class has a limit for one user, and one for the class and those below it. The
 * rest is reserved for the classes above: strangers, even a thousand users, hold at most 64 of
 * 2048, and 256 are reserved for root and the agent's user. When these are used up, too, the
 * connection that has been silent for longest is closed.
 *
 * Memory: when the buffers are full, the connection that has been inactive for longest is closed,
 * among those with no more access than the one that needs memory.
 *
 * Time: a turn of the loop serves each class for some milliseconds at most, classes with more
 * access first; the remaining requests are served in the next turn. So a class that calls without
 * end takes its share of the loop and no more. All else, the agent's timers included, waits for one
 * turn at most: the sum of the shares, and the last call of each class. */

#define GIVE_BACK_BYTES (64u << 10)

struct share {
	unsigned of_user, of_kind; /* of CONTROL_CONNECTIONS_MAX */
};

static const struct share shares[CONTROL_ACCESS_MAX + 1] = {
	[CONTROL_AGENT] = {CONTROL_CONNECTIONS_MAX, CONTROL_CONNECTIONS_MAX},
	[CONTROL_OWNER] = {1024, 1792},
	[CONTROL_OPERATOR] = {128, 640},
	[CONTROL_EVERYBODY] = {8, 64},
};

static struct share share_of(const struct control *c, enum control_access access)
{
	const struct control_bounds *bounds = c->options.bounds;

	if (bounds && access == CONTROL_EVERYBODY)
		return (struct share){bounds->user_connections_max, bounds->shared_connections_max};
	return shares[access];
}

/* A share of the connections that descriptors allow, which may be less than
 * CONTROL_CONNECTIONS_MAX. */
static unsigned scale(const struct control *c, unsigned share)
{
	unsigned n =
		(unsigned)((unsigned long)share * c->connections_max / CONTROL_CONNECTIONS_MAX);

	return n > 0 ? n : 1;
}

/* Called only where they may be too many: it walks over all. */
static unsigned count_user(const struct control *c, uid_t uid)
{
	const struct conn *conn;
	unsigned n = 0;

	TAILQ_FOREACH(conn, &c->all, all)
	n += conn->fd >= 0 && conn->peer.uid == uid;
	return n;
}

/* Connections of this kind and of those below it. */
static unsigned count_kind(const struct control *c, enum control_access access)
{
	unsigned n = 0, i;

	for (i = access; i <= CONTROL_EVERYBODY; i++)
		n += c->counts[i];
	return n;
}

unsigned quota_count_all(const struct control *c)
{
	return count_kind(c, CONTROL_AGENT);
}

static bool conn_is_busy(const struct conn *conn)
{
	return conn->call.under_way || conn->is_waiting || buffer_size(&conn->out) > 0;
}

/* Whether it has no unread input either; or the peer has gone, which was not noticed yet. */
static bool is_idle(const struct conn *conn)
{
	ssize_t n;
	char byte;

	if (conn->fd < 0 || conn_is_busy(conn) || conn->held)
		return false;
	n = recv(conn->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
	return n == 0 || (n < 0 && !conn->is_unread);
}

/* Closes the idle connection that has been silent for longest, if there is one. One that never
 * had a reply, such as of a client that connects again and again, goes before one between two
 * calls. */
static bool close_idle(struct control *c)
{
	struct conn *conn, *idle = NULL;

	TAILQ_FOREACH(conn, &c->all, all)
	{
		if ((idle && conn->was_answered) || !is_idle(conn))
			continue;
		idle = conn;
		if (!conn->was_answered)
			break;
	}
	if (idle)
		conn_fail(idle, "silent for longest, and another needs its slot");
	return idle != NULL;
}

unsigned quota_admit(struct control *c, const struct control_peer *peer, enum control_access access)
{
	const struct share share = share_of(c, access);
	const unsigned of_user = scale(c, share.of_user), of_kind = scale(c, share.of_kind);

	if (count_kind(c, access) >= of_kind && (access != CONTROL_AGENT || !close_idle(c)))
		return of_kind;
	if (access != CONTROL_AGENT && c->counts[access] >= of_user &&
		count_user(c, peer->uid) >= of_user)
		return of_user;
	return 0;
}

/* A connection whose bytes wait for the service's time is not inactive; it is closed only if
 * there is no other. */
static struct conn *find_stalest(struct control *c, const struct conn *requester)
{
	struct conn *conn, *due = NULL;

	TAILQ_FOREACH(conn, &c->all, all)
	{
		if (conn == requester || conn->held == 0 || conn->access < requester->access)
			continue;
		if (!conn->is_due)
			return conn;
		if (!due)
			due = conn;
	}
	return due;
}

/* Reserves so many bytes more for this connection's buffers, for which others may be closed. */
static bool quota_reserve(struct conn *conn, size_t bytes)
{
	struct control *c = conn->control;
	struct conn *stalest;

	while (c->memory + bytes > CONTROL_MEMORY_MAX) {
		stalest = find_stalest(c, conn);
		if (!stalest)
			return false;
		conn_fail(stalest, "its buffers stood still for longest, and memory is full");
	}
	return true;
}

void quota_update(struct conn *conn)
{
	const size_t holds = conn->in.bytes.capacity + conn->out.capacity;

	conn->control->memory += holds;
	conn->control->memory -= conn->held;
	conn->held = holds;
	if (conn->control->memory > conn->control->memory_most)
		conn->control->memory_most = conn->control->memory;
}

/* After a flood, and a reply about many tasks, whose objects take several times its bytes. */
void quota_trim(struct control *c)
{
	if (c->memory > 0 || c->memory_most < GIVE_BACK_BYTES)
		return;
	c->memory_most = 0;
#ifdef __GLIBC__
	(void)malloc_trim(0); /* best effort */
#endif
}

/* ---- time ---------------------------------------------------------------------------------- */

/* Of each turn. doc/stepd-control.7 repeats them. */
static const uint64_t budgets_ms[CONTROL_ACCESS_MAX + 1] = {
	[CONTROL_AGENT] = 10,
	[CONTROL_OWNER] = 5,
	[CONTROL_OPERATOR] = 5,
	[CONTROL_EVERYBODY] = 1,
};

static uint64_t budget_ms(const struct control *c, enum control_access turn_class)
{
	const struct control_bounds *bounds = c->options.bounds;

	return bounds && turn_class == CONTROL_EVERYBODY ? bounds->turn_ms : budgets_ms[turn_class];
}

bool turn_has_time(struct control *c, enum control_access turn_class)
{
	const unsigned number = ev_iteration(c->options.loop);

	if (c->turn_number != number) {
		c->turn_number = number;
		memset(c->spent_ns, 0, sizeof(c->spent_ns));
	}
	return c->spent_ns[turn_class] < budget_ms(c, turn_class) * 1000000;
}

/* Takes the time since begin_ns, of clock_now_ns(), from what the class has in this turn. */
static void turn_charge(struct control *c, enum control_access turn_class, uint64_t begin_ns)
{
	c->spent_ns[turn_class] += clock_now_ns() - begin_ns;
}

/* ---- one connection ------------------------------------------------------------------------ */

#define CALLS_PER_TURN    16  /* then others have theirs; fewer where its class has no time left */
#define FINISH_PATIENCE_S 0.1 /* without a byte taken */

/* Timers and signals of the agent, which have 0, come before requests of everybody but root. */
static const int conn_priorities[CONTROL_ACCESS_MAX + 1] = {
	[CONTROL_AGENT] = 0,
	[CONTROL_OWNER] = -1,
	[CONTROL_OPERATOR] = -2,
	[CONTROL_EVERYBODY] = -2,
};

int conn_detach(struct conn *conn)
{
	struct control *c = conn->control;
	int fd;

	control_watch_hup(conn, false);
	ev_io_stop(c->options.loop, &conn->in_io);
	ev_io_stop(c->options.loop, &conn->out_io);
	ev_timer_stop(c->options.loop, &conn->deadline);
	fd = take_fd(&conn->fd);
	if (conn->is_due)
		TAILQ_REMOVE(&c->due[conn->turn_class], conn, due);
	conn->is_due = false; /* it joins the failed ones below */
	frames_clear(&conn->in);
	buffer_clear(&conn->out);
	quota_update(conn);
	if (conn->is_waiting)
		TAILQ_REMOVE(&c->waiting, conn, waiting);
	conn->is_waiting = false;
	c->counts[conn->access]--;
	control_schedule(conn);
	return fd;
}

void conn_fail(struct conn *conn, const char *why)
{
	_cleanup_close_ int fd = -1;

	if (conn->fd < 0)
		return;
	log_debug(conn->control->options.log, "connection of user %lld, process %lld: %s; closed",
		(long long)conn->peer.uid, (long long)conn->peer.pid, why);
	fd = conn_detach(conn);
	/* A child before its exec has a copy: the peer is to see the end now. */
	(void)shutdown(fd, SHUT_RDWR); /* ENOTCONN: the peer has closed it */
}

/* It has moved bytes: moves it behind the others. */
static void touch(struct conn *conn)
{
	TAILQ_REMOVE(&conn->control->all, conn, all);
	TAILQ_INSERT_TAIL(&conn->control->all, conn, all);
}

/* Whether the first frame is complete, or never will be: there is something to do. */
static bool has_work(struct conn *conn)
{
	const char *text;
	size_t size;

	return conn->no_more_input || frames_first(&conn->in, &text, &size) != 0;
}

void conn_settle(struct conn *conn)
{
	struct control *c = conn->control;
	struct ev_loop *loop = c->options.loop;

	if (conn->fd < 0)
		return;
	if (buffer_size(&conn->out) > 0)
		ev_io_start(loop, &conn->out_io);
	else
		ev_io_stop(loop, &conn->out_io);
	if (conn_is_busy(conn) || has_work(conn) || conn->is_unread || c->finishing) {
		ev_io_stop(loop, &conn->in_io);
		if (!conn_is_busy(conn))
			control_schedule(conn);
	} else {
		ev_io_start(loop, &conn->in_io);
	}
	if (c->finishing)
		return; /* the deadline is one for writing */
	if (conn_is_busy(conn) || buffer_size(&conn->in.bytes) == 0) {
		ev_timer_stop(loop, &conn->deadline);
	} else if (!ev_is_active(&conn->deadline)) {
		ev_timer_set(&conn->deadline, CONTROL_CALL_TIMEOUT_MS / 1e3, 0.);
		ev_timer_start(loop, &conn->deadline);
	}
}

/* Runs the first frame; false if none can be run now. */
static bool serve_one(struct conn *conn)
{
	const char *text;
	size_t size;
	int r;

	if (conn->fd < 0 || conn_is_busy(conn) || conn->control->finishing)
		return false;
	r = frames_first(&conn->in, &text, &size);
	if (r == 0)
		return false;
	if (r > 0)
		r = call_run(conn, text, size);
	if (r == -EAGAIN) {
		conn->is_waiting = true;
		TAILQ_INSERT_TAIL(&conn->control->waiting, conn, waiting);
		control_watch_hup(conn, true);
		return false;
	}
	if (r < 0) {
		conn_fail(conn, r == -EMSGSIZE ? "a call too long" : "it sent an invalid call");
		return false;
	}
	if (conn->fd < 0) /* the reply could not be sent */
		return false;
	conn->has_waited = false;
	frames_drop(&conn->in, size);
	quota_update(conn);
	if (conn->call.under_way)
		control_watch_hup(conn, true);
	return true;
}

/* Serves some calls; the rest is served after other connections' turns. */
static void serve(struct conn *conn, unsigned calls)
{
	struct control *c = conn->control;
	bool had_all = false;
	uint64_t begin_ns;

	conn->is_serving = true;
	while (calls > 0 && !had_all && turn_has_time(c, conn->turn_class)) {
		begin_ns = clock_now_ns();
		had_all = !serve_one(conn);
		turn_charge(c, conn->turn_class, begin_ns);
		calls--;
	}
	conn->is_serving = false;
	if (c->finishing)
		conn_finish(conn);
	else if (conn->fd >= 0 && !conn_is_busy(conn) && had_all && conn->no_more_input)
		conn_fail(conn, "done");
	conn_settle(conn);
}

/* So many bytes of the scratch space. */
static void add_input(struct conn *conn, size_t size, unsigned calls)
{
	struct control *c = conn->control;
	const size_t grows = buffer_capacity_for(&conn->in.bytes, size) - conn->in.bytes.capacity;

	touch(conn);
	if (!quota_reserve(conn, grows) || buffer_add(&conn->in.bytes, c->scratch, size) < 0) {
		conn_fail(conn, "no memory for its call");
		return;
	}
	quota_update(conn);
	serve(conn, calls);
}

/* Reads once and runs the calls; without time for it, when its class has some again. */
static void read_some(struct conn *conn, unsigned calls)
{
	struct control *c = conn->control;
	const size_t size = conn->in.max < CONTROL_READ_SIZE ? conn->in.max + 1 : CONTROL_READ_SIZE;
	const uint64_t begin_ns = clock_now_ns();
	ssize_t n;

	conn->is_unread = !turn_has_time(c, conn->turn_class);
	if (conn->is_unread) {
		conn_settle(conn);
		return;
	}
	n = recv(conn->fd, c->scratch, size, MSG_DONTWAIT);
	turn_charge(c, conn->turn_class, begin_ns);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		conn_settle(conn);
	} else if (n < 0) {
		conn_fail(conn, "reading failed");
	} else if (n == 0) {
		conn->no_more_input = true;
		serve(conn, calls);
	} else {
		add_input(conn, (size_t)n, calls);
	}
}

static void conn_on_readable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	read_some(io->data, CALLS_PER_TURN);
}

void conn_start(struct conn *conn)
{
	read_some(conn, 1);
}

/* Sends without blocking: how many bytes, or -errno. */
static ssize_t send_now(struct conn *conn, struct iovec *iov, size_t count)
{
	const struct msghdr msg = {.msg_iov = iov, .msg_iovlen = count};
	ssize_t n;

	do {
		n = sendmsg(conn->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	if (n > 0)
		touch(conn);
	return n;
}

static void queue_rest(struct conn *conn, const struct iovec *iov, size_t count, size_t sent)
{
	size_t i, rest = 0, skip, grows;
	int r = 0;

	for (i = 0; i < count; i++)
		rest += iov[i].iov_len;
	rest -= sent;
	grows = buffer_capacity_for(&conn->out, rest) - conn->out.capacity;
	if (!quota_reserve(conn, grows))
		r = -ENOMEM;
	for (i = 0; i < count && r == 0; i++) {
		skip = sent < iov[i].iov_len ? sent : iov[i].iov_len;
		sent -= skip;
		r = buffer_add(&conn->out, (char *)iov[i].iov_base + skip, iov[i].iov_len - skip);
	}
	if (r < 0)
		conn_fail(conn, "no memory for its replies");
	else
		quota_update(conn);
}

void conn_send(struct conn *conn, struct iovec *iov, size_t count)
{
	size_t i, size = 0;
	ssize_t n = 0;

	if (conn->fd < 0)
		return;
	conn->was_answered = true;
	for (i = 0; i < count; i++)
		size += iov[i].iov_len;
	if (buffer_size(&conn->out) == 0)
		n = send_now(conn, iov, count);
	if (n < 0)
		conn_fail(conn, "it reads no more replies");
	else if ((size_t)n < size)
		queue_rest(conn, iov, count, (size_t)n);
}

/* At the end, how long a peer has to read the next bytes. */
static void restart_deadline(struct conn *conn)
{
	struct ev_loop *loop = conn->control->options.loop;

	ev_timer_stop(loop, &conn->deadline);
	ev_timer_set(&conn->deadline, FINISH_PATIENCE_S, 0.);
	ev_timer_start(loop, &conn->deadline);
}

static void conn_on_writable(struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct conn *conn = io->data;
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buffer_bytes(&conn->out),
		.iov_len = buffer_size(&conn->out)};
	ssize_t n = send_now(conn, &iov, 1);

	if (n < 0) {
		conn_fail(conn, "it reads no more replies");
		return;
	}
	buffer_drop(&conn->out, (size_t)n);
	quota_update(conn);
	if (conn->is_finishing && n > 0)
		restart_deadline(conn);
	if (buffer_size(&conn->out) == 0) {
		ev_io_stop(loop, io);
		control_schedule(conn);
	}
}

/* libev may run this before conn_on_writable() where both are due: at the end, a peer that has read
 * meanwhile is not too slow, this process is. */
static void on_deadline(struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct conn *conn = timer->data;
	const size_t left = buffer_size(&conn->out);

	if (conn->is_finishing && left > 0) {
		conn_on_writable(loop, &conn->out_io, EV_WRITE);
		if (conn->fd < 0 || buffer_size(&conn->out) < left)
			return;
	}
	conn_fail(conn, "too slow");
}

/* The kernel has all replies so far: the call's handler may send more. */
static void notify_drained(struct conn *conn)
{
	struct control_call *call = &conn->call;
	control_call_fn fn = call->on_drained;

	if (!call->under_way || !fn || buffer_size(&conn->out) > 0)
		return;
	call->on_drained = NULL;
	fn(call, call->drained_userdata);
}

void conn_turn(struct conn *conn)
{
	uint64_t begin_ns;

	if (conn->fd < 0) {
		conn_remove(conn);
		return;
	}
	begin_ns = clock_now_ns();
	notify_drained(conn); /* which may send as much as a call does */
	turn_charge(conn->control, conn->turn_class, begin_ns);
	if (conn->is_unread && conn->fd >= 0)
		read_some(conn, CALLS_PER_TURN);
	else
		serve(conn, CALLS_PER_TURN);
}

void conn_end_waiting(struct conn *conn)
{
	control_watch_hup(conn, false);
	TAILQ_REMOVE(&conn->control->waiting, conn, waiting);
	conn->is_waiting = false;
	conn->has_waited = true;
	serve(conn, 1);
}

/* The call's handler sends more, when the connection's turn comes. */
static bool is_to_send(const struct conn *conn)
{
	return conn->call.under_way && conn->call.on_drained && buffer_size(&conn->out) == 0;
}

void conn_finish(struct conn *conn)
{
	if (conn->fd < 0 || conn->is_serving || is_to_send(conn)) /* serve() does it */
		return;
	if (buffer_size(&conn->out) == 0) {
		conn_fail(conn, "the service ends");
		return;
	}
	if (!conn->is_finishing)
		restart_deadline(conn);
	conn->is_finishing = true;
	conn_settle(conn);
}

/* The agent's user has root's access, but not its time: the tasks are the user's. */
static enum control_access class_of(const struct control_peer *peer, enum control_access access)
{
	return access == CONTROL_AGENT && peer->uid != 0 ? CONTROL_OWNER : access;
}

/* How many bytes it may send at a time. */
static void set_bounds(struct conn *conn)
{
	const struct control_bounds *bounds = conn->control->options.bounds;
	const bool is_stranger = conn->access == CONTROL_EVERYBODY;

	conn->in.max = is_stranger ? CONTROL_SMALL_FRAME_MAX : CONTROL_FRAME_MAX;
	conn->values_max = is_stranger ? CONTROL_SMALL_VALUES : CONTROL_VALUES_MAX;
	if (bounds) {
		conn->in.max = bounds->frame_max;
		conn->values_max = bounds->values_max;
	}
}

int conn_new_take(struct control *c, int fd, const struct control_peer *peer,
	enum control_access access, struct conn **ret_conn)
{
	struct conn *conn = calloc(1, sizeof(*conn));

	if (!conn) {
		(void)close_fd(fd);
		return -ENOMEM;
	}
	conn->control = c;
	conn->fd = fd;
	conn->peer = *peer;
	conn->access = access;
	conn->turn_class = class_of(peer, access);
	set_bounds(conn);
	conn->call.conn = conn;
	ev_io_init(&conn->in_io, conn_on_readable, fd, EV_READ);
	ev_set_priority(&conn->in_io, conn_priorities[conn->turn_class]);
	conn->in_io.data = conn;
	ev_io_init(&conn->out_io, conn_on_writable, fd, EV_WRITE);
	conn->out_io.data = conn;
	ev_timer_init(&conn->deadline, on_deadline, 0., 0.);
	conn->deadline.data = conn;
	TAILQ_INSERT_TAIL(&c->all, conn, all);
	c->counts[conn->access]++;
	*ret_conn = conn;
	return 0;
}

void conn_remove(struct conn *conn)
{
	struct control_call *call = &conn->call;

	assert(conn->fd < 0);
	if (call->under_way && call->on_gone)
		call->on_gone(call, call->gone_userdata);
	if (conn->is_due)
		TAILQ_REMOVE(&conn->control->failed, conn, due);
	TAILQ_REMOVE(&conn->control->all, conn, all);
	free(conn);
}
