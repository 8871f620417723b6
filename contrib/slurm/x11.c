/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/x11.h"

#include <assert.h>
#include <ev.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "contrib/slurm/decision.h"
#include "contrib/slurm/delivery.h"
#include "contrib/slurm/site_conf.h"
#include "contrib/slurm/xauthority.h"
#include "stepd/base/peer.h"

#define PORT_OF_DISPLAY_0 6000u
#define BUFFER_SIZE       (16u << 10)
#define ACCEPTS_AT_ONCE   16
#define ACCEPT_PAUSE_S    0.2

/* As slurmstepd: srun is there, or it is not. */
static const struct delivery_retry once = {.tries = 1, .needs_success = true};

/* One direction of a connection. */
struct half {
	struct conn *conn;
	int from, to; /* of the connection */
	ev_io reads, writes;
	size_t at, size; /* of bytes, what is to be written */
	bool eof;        /* nothing follows */
	bool over;       /* and the other side knows */
	char bytes[BUFFER_SIZE];
};

struct conn {
	LIST_ENTRY(conn) link;
	struct x11 *x11;
	int program_fd, srun_fd; /* -1: srun has not agreed yet */
	struct delivery *delivery;
	struct half to_srun, to_program;
};

struct x11 {
	struct x11_options options;
	struct hosts srun;
	struct xauthority *file;
	unsigned display;
	int fd, diag_fd;
	ev_io io;
	ev_timer pause; /* when descriptors are short */
	LIST_HEAD(conn_list, conn) conns;
	unsigned conns_count;
	bool reported_stranger, reported_shortage; /* once each is enough */
};

/* ---- a connection ---------------------------------------------------------------------------- */

static void half_stop(struct half *h)
{
	ev_io_stop(h->conn->x11->options.loop, &h->reads);
	ev_io_stop(h->conn->x11->options.loop, &h->writes);
}

static void conn_end(struct conn *c)
{
	half_stop(&c->to_srun);
	half_stop(&c->to_program);
	c->delivery = delivery_cancel(c->delivery);
	c->program_fd = close_fd(c->program_fd);
	c->srun_fd = close_fd(c->srun_fd);
	LIST_REMOVE(c, link);
	c->x11->conns_count--;
	free(c);
}

/* Which of its two events a direction waits for: it reads when it has written all. */
static void half_watch(struct half *h)
{
	struct ev_loop *loop = h->conn->x11->options.loop;

	half_stop(h);
	if (h->size > 0)
		ev_io_start(loop, &h->writes);
	else if (!h->eof)
		ev_io_start(loop, &h->reads);
}

/* < 0: the connection is broken. */
static int half_write(struct half *h)
{
	ssize_t n = 0;

	while (h->size > 0) {
		n = send(h->to, h->bytes + h->at, h->size, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		h->at += (size_t)n;
		h->size -= (size_t)n;
	}
	if (h->eof && !h->over) {
		(void)shutdown(h->to, SHUT_WR);
		h->over = true;
	}
	return 0;
}

static int half_read(struct half *h)
{
	ssize_t n = recv(h->from, h->bytes, sizeof(h->bytes), MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	h->at = 0;
	h->size = (size_t)n;
	h->eof = n == 0;
	return half_write(h);
}

static void half_on_io(_unused_ struct ev_loop *loop, ev_io *io, int revents)
{
	struct half *h = io->data;
	struct conn *c;
	int r;

	assert(h);
	c = h->conn;
	r = revents & EV_WRITE ? half_write(h) : half_read(h);
	if (r < 0 || (c->to_srun.over && c->to_program.over))
		conn_end(c);
	else
		half_watch(h);
}

static void half_begin(struct half *h, struct conn *c, int from, int to)
{
	h->conn = c;
	h->from = from;
	h->to = to;
	ev_io_init(&h->reads, half_on_io, from, EV_READ);
	ev_io_init(&h->writes, half_on_io, to, EV_WRITE);
	h->reads.data = h->writes.data = h;
}

static void set_nodelay(int fd)
{
	static const int on = 1;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* it is only slower */
}

static void conn_on_srun(const struct err *err, void *userdata)
{
	struct conn *c = userdata;

	assert(c);
	c->delivery = NULL;
	if (err->code) {
		log_warning(c->x11->options.log,
			"a program can't reach the X server by way of srun: %s", err->text);
		conn_end(c);
		return;
	}
	set_nodelay(c->srun_fd);
	half_begin(&c->to_srun, c, c->program_fd, c->srun_fd);
	half_begin(&c->to_program, c, c->srun_fd, c->program_fd);
	half_watch(&c->to_srun);
	half_watch(&c->to_program);
}

static struct pack make_body(const struct slurm_init *init)
{
	const struct slurm_launch *l = &init->launch;
	struct pack body = {0};

	if (init->frame.client_release >= SLURM_25_11)
		slurm_rpc_put_step(&body, init->frame.client_release, &l->id);
	else
		pack_u32(&body, l->id.job);
	pack_u32(&body, 0);
	pack_u16(&body, l->x11.target_port);
	pack_text(&body, l->x11.target);
	return body;
}

static int conn_call_srun(struct conn *c, struct err *err)
{
	const struct x11_options *o = &c->x11->options;
	const struct delivery_options to = {.loop = o->loop,
		.auth = o->auth,
		.retry = &once,
		.hosts = c->x11->srun,
		.version = o->init->frame.client_release,
		.type = SLURM_SRUN_NET_FORWARD,
		.reader = o->init->launch.uid,
		.kept_fd = &c->srun_fd,
		.done = conn_on_srun,
		.userdata = c};
	struct pack body = make_body(o->init);

	return delivery_begin_take(&to, &body, &c->delivery, err);
}

/* ---- the display ----------------------------------------------------------------------------- */

static void x11_on_pause_over(struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct x11 *x = timer->data;

	assert(x);
	ev_io_start(loop, &x->io);
}

/* Those that wait are served later, if they are still there. */
static void report_shortage(struct x11 *x, const char *why)
{
	if (!x->reported_shortage)
		log_warning(x->options.log, "programs can't reach the X server: %s", why);
	x->reported_shortage = true;
}

static bool may_connect(struct x11 *x, int fd)
{
	uid_t owner = x->options.init->launch.uid;
	struct peer peer = {.uid = (uid_t)-1};
	struct err err = ERR_INIT;

	if (peer_find(x->diag_fd, fd, &peer, &err) < 0)
		return false; /* it has gone, or is of another network */
	if (peer.uid == owner || peer.uid == 0)
		return true;
	if (!x->reported_stranger)
		log_warning(x->options.log, "uid %u is refused at the X display of uid %u",
			(unsigned)peer.uid, (unsigned)owner);
	x->reported_stranger = true;
	return false;
}

/* Takes fd. */
static void accept_one(struct x11 *x, int program_fd)
{
	_cleanup_close_ int fd = program_fd;
	struct err err = ERR_INIT;
	struct conn *c;

	if (!may_connect(x, fd))
		return;
	c = x->conns_count < X11_CONNECTIONS_MAX ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		report_shortage(x,
			x->conns_count < X11_CONNECTIONS_MAX ? "there is no memory"
							     : "the job has 256 connections");
		return;
	}
	set_nodelay(fd);
	c->x11 = x;
	c->to_srun.conn = c->to_program.conn = c;
	c->program_fd = take_fd(&fd);
	c->srun_fd = -1;
	LIST_INSERT_HEAD(&x->conns, c, link);
	x->conns_count++;
	if (conn_call_srun(c, &err) < 0) {
		report_shortage(x, err.text);
		conn_end(c);
	}
}

static void x11_on_connect(struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct x11 *x = io->data;
	int fd, n;

	assert(x);
	for (n = 0; n < ACCEPTS_AT_ONCE && ev_is_active(io); n++) {
		fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			accept_one(x, fd);
		} else if (errno == EAGAIN) {
			break;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			report_shortage(x, strerror(errno));
			ev_io_stop(loop, io);
			ev_timer_set(&x->pause, ACCEPT_PAUSE_S, 0.);
			ev_timer_start(loop, &x->pause);
		}
	}
}

static int bind_display(int fd, unsigned display)
{
	const struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)(PORT_OF_DISPLAY_0 + display)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return listen(fd, SOMAXCONN) < 0 ? -errno : 0;
}

static int open_display(struct x11 *x, struct err *err)
{
	static const int on = 1;
	int r = -EADDRINUSE;

	for (x->display = X11_DISPLAY_MIN; r == -EADDRINUSE && x->display <= X11_DISPLAY_MAX;
		x->display++) {
		x->fd = close_fd(x->fd);
		x->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		r = x->fd < 0 || setsockopt(x->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0
			? -errno
			: bind_display(x->fd, x->display);
	}
	x->display--; /* the last one that was tried */
	return r < 0 ? err_set(err, r, "listen at an X display, localhost:%u to :%u",
			       X11_DISPLAY_MIN, X11_DISPLAY_MAX)
		     : 0;
}

/* ---- what srun has said ---------------------------------------------------------------------- */

static int find_srun(struct x11 *x, struct err *err)
{
	const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
	const struct slurm_launch_x11 *l = &x->options.init->launch.x11;
	struct addrinfo *found = NULL;
	int e = l->host && l->port ? getaddrinfo(l->host, NULL, &hints, &found) : EAI_NONAME;

	if (e)
		return err_set_text(err, -EADDRNOTAVAIL, "find srun's host '%s': %s",
			l->host ? l->host : "", gai_strerror(e));
	x->srun.n = 1;
	memcpy(&x->srun.address[0], found->ai_addr, sizeof(x->srun.address[0]));
	freeaddrinfo(found);
	x->srun.address[0].sin_port = htons(l->port);
	return 0;
}

static int make_file(struct x11 *x, struct err *err)
{
	const struct x11_options *o = &x->options;
	const struct slurm_init *init = o->init;
	_cleanup_free_ char *directory =
		site_tmp_directory(init->site, init->conf.node_name, init->conf.hostname);
	const struct xauthority_options options = {.uid = init->launch.uid,
		.gid = init->launch.gid,
		.groups = o->groups,
		.groups_count = o->groups_count,
		.home = init->site->has_home_xauthority ? o->home : NULL,
		.directory = directory,
		.mount_namespace = init->name_space.path,
		.display = x->display,
		.cookie = init->launch.x11.cookie};

	if (!directory)
		return err_set(err, -ENOMEM, "make the job's Xauthority file");
	if (init->site->has_home_xauthority && !o->home)
		return err_set_text(err, -ENOENT, "uid %u has no home for home_xauthority",
			(unsigned)init->launch.uid);
	return xauthority_make(&options, &x->file, err);
}

int x11_open(const struct x11_options *options, struct x11 **ret_x11, struct err *err)
{
	struct x11 *x = calloc(1, sizeof(*x));
	int r;

	if (!x)
		return err_set(err, -ENOMEM, "forward X11");
	x->options = *options;
	x->fd = x->diag_fd = -1;
	LIST_INIT(&x->conns);
	ev_init(&x->io, x11_on_connect);
	ev_init(&x->pause, x11_on_pause_over);
	x->io.data = x->pause.data = x;
	r = find_srun(x, err);
	if (r == 0)
		r = peer_open(&x->diag_fd, err);
	if (r == 0)
		r = open_display(x, err);
	if (r == 0)
		r = make_file(x, err);
	if (r < 0) {
		(void)x11_close(x); /* always NULL */
		return r;
	}
	ev_io_set(&x->io, x->fd, EV_READ);
	ev_io_start(options->loop, &x->io);
	*ret_x11 = x;
	return 0;
}

unsigned x11_get_display(const struct x11 *x11)
{
	return x11->display;
}

const char *x11_get_path(const struct x11 *x11)
{
	return xauthority_get_path(x11->file);
}

struct x11 *x11_close(struct x11 *x11)
{
	if (!x11)
		return NULL;
	while (!LIST_EMPTY(&x11->conns))
		conn_end(LIST_FIRST(&x11->conns));
	ev_io_stop(x11->options.loop, &x11->io);
	ev_timer_stop(x11->options.loop, &x11->pause);
	x11->fd = close_fd(x11->fd);
	x11->diag_fd = close_fd(x11->diag_fd);
	x11->file = xauthority_remove(x11->file, x11->options.log);
	free(x11);
	return NULL;
}
