/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/feed.h"

#include <ev.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "stepd/base/log.h"
#include "stepd/process/stdfd.h"
#include "stepd/snapshot/handover.h"

#define FEED_SIZE 65536u

struct feed_out {
	struct feed_out *next;
	struct feed *feed;
	ev_io io;  /* active while bytes wait for room in the pipe */
	int fd;    /* -1: the task has closed it */
	size_t at; /* of the feed's buffer: what the task has of it */
};

struct feed {
	struct ev_loop *loop;
	const struct log *log;
	ev_io io; /* active while the next piece is wanted */
	int fd;
	int own_fd; /* fd opened once more, or -1 */
	bool is_socket;
	struct feed_out *outs;
	size_t open;   /* outs with a descriptor */
	size_t behind; /* outs that have not all of the buffer */
	size_t size;
	char buf[FEED_SIZE];
};

static void close_out(struct feed_out *out)
{
	ev_io_stop(out->feed->loop, &out->io);
	out->fd = close_fd(out->fd);
	out->feed->open--;
}

static void end_input(struct feed *feed)
{
	struct feed_out *out;

	ev_io_stop(feed->loop, &feed->io);
	feed->own_fd = close_fd(feed->own_fd);
	for (out = feed->outs; out; out = out->next) {
		if (out->fd >= 0)
			close_out(out);
	}
}

static void write_out(struct feed_out *out)
{
	struct feed *feed = out->feed;
	ssize_t n = 0;

	while (out->at < feed->size && n >= 0) {
		n = write(out->fd, feed->buf + out->at, feed->size - out->at);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n > 0)
			out->at += (size_t)n;
	}
	if (n < 0 && errno == EAGAIN) {
		ev_io_start(feed->loop, &out->io);
		return;
	}
	if (n < 0)
		close_out(out); /* EPIPE: it reads no more */
	else
		ev_io_stop(feed->loop, &out->io);
	feed->behind--;
}

/* All have the piece: the next one, or nobody is left to want it. */
static void go_on(struct feed *feed)
{
	if (feed->open == 0)
		end_input(feed);
	else if (feed->behind == 0)
		ev_io_start(feed->loop, &feed->io);
}

static void on_writable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct feed_out *out = io->data;

	write_out(out);
	go_on(out->feed);
}

/* A terminal's line typed for the shell is not ours: reading it from the background would stop
 * this process, or fail. */
static bool in_background(int fd)
{
	pid_t foreground = tcgetpgrp(fd);

	return foreground > 0 && foreground != getpgrp();
}

static ssize_t read_piece(struct feed *feed)
{
	if (in_background(feed->fd)) {
		errno = EIO;
		return -1;
	}
	if (feed->is_socket) /* others may read it too */
		return recv(feed->fd, feed->buf, FEED_SIZE, MSG_DONTWAIT);
	return read(feed->fd, feed->buf, FEED_SIZE);
}

static void on_readable(struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct feed *feed = io->data;
	struct feed_out *out;
	ssize_t n = read_piece(feed);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n < 0 && errno != EIO) /* a terminal that is gone or another's has ended, no more */
		log_warning(feed->log, "read the agent's standard input: %s; the tasks' ends here",
			strerror(errno));
	if (n <= 0) {
		end_input(feed);
		return;
	}
	ev_io_stop(loop, io);
	feed->size = (size_t)n;
	feed->behind = feed->open;
	for (out = feed->outs; out; out = out->next) {
		out->at = 0;
		if (out->fd >= 0)
			write_out(out);
	}
	go_on(feed);
}

int feed_new(struct ev_loop *loop, const struct log *log, int fd, struct feed **ret_feed)
{
	struct feed *feed = calloc(1, sizeof(*feed));
	struct stat st;
	int own;

	if (!feed)
		return -ENOMEM;
	own = stdfd_reopen(fd, O_RDONLY);
	feed->own_fd = own < 0 ? -1 : own;
	feed->fd = own < 0 ? fd : own;
	feed->is_socket = fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
	feed->loop = loop;
	feed->log = log;
	ev_io_init(&feed->io, on_readable, feed->fd, EV_READ);
	feed->io.data = feed;
	*ret_feed = feed;
	return 0;
}

int feed_add_take(struct feed *feed, int fd)
{
	struct feed_out *out = calloc(1, sizeof(*out));

	if (!out) {
		(void)close_fd(fd);
		return -ENOMEM;
	}
	out->fd = fd;
	out->feed = feed;
	ev_io_init(&out->io, on_writable, fd, EV_WRITE);
	out->io.data = out;
	out->next = feed->outs;
	feed->outs = out;
	feed->open++;
	return 0;
}

void feed_start(struct feed *feed)
{
	go_on(feed);
}

void feed_save(const struct feed *feed, struct handover *h, json_t *object)
{
	json_t *outs = handover_put_array(h, object, "outs"), *out_object;
	const struct feed_out *out;

	handover_put_bool(h, object, "is_socket", feed->is_socket);
	handover_put_fd(h, object, "own_fd", feed->own_fd);
	/* without one of its own it reads what it borrowed */
	handover_put_int(h, object, "fd", feed->own_fd >= 0 ? -1 : feed->fd);
	if (feed->behind > 0)
		handover_put_bytes(h, object, "bytes", feed->buf, feed->size);
	for (out = feed->outs; out; out = out->next) {
		if (out->fd < 0)
			continue;
		out_object = handover_append_object(h, outs);
		handover_put_fd(h, out_object, "fd", out->fd);
		handover_put_int(h, out_object, "at", (int64_t)out->at);
	}
}

/* Who was in the middle of a piece waits for room again. */
static int restore_out(struct feed *feed, const json_t *object)
{
	int64_t at = json_get_int(object, "at", 0);
	int fd = handover_get_fd(object, "fd"), r;

	if (fd < 0 || at < 0)
		return -EPROTO;
	r = feed_add_take(feed, fd);
	if (r < 0)
		return r;
	feed->outs->at = (size_t)at;
	if (feed->outs->at >= feed->size)
		return 0;
	feed->behind++;
	ev_io_start(feed->loop, &feed->outs->io);
	return 0;
}

int feed_restore(struct ev_loop *loop, const struct log *log, const struct handover *h,
	const json_t *object, struct feed **ret_feed)
{
	_cleanup_feed_ struct feed *feed = calloc(1, sizeof(*feed));
	const json_t *outs = json_get_array(object, "outs");
	const char *bytes;
	size_t i, size = 0;
	int r = 0;

	if (!feed)
		return -ENOMEM;
	feed->loop = loop;
	feed->log = log;
	feed->own_fd = handover_get_fd(object, "own_fd");
	feed->fd = feed->own_fd >= 0 ? feed->own_fd : handover_get_fd(object, "fd");
	feed->is_socket = json_get_bool(object, "is_socket", false);
	ev_io_init(&feed->io, on_readable, feed->fd, EV_READ);
	feed->io.data = feed;
	bytes = handover_get_bytes(h, object, "bytes", &size);
	if (size > FEED_SIZE || (feed->fd < 0 && json_array_size(outs) > 0))
		return -EPROTO;
	if (bytes)
		memcpy(feed->buf, bytes, size);
	feed->size = size;
	for (i = 0; r == 0 && i < json_array_size(outs); i++)
		r = restore_out(feed, json_array_get(outs, i));
	if (r < 0)
		return r;
	if (feed->open > 0 && feed->behind == 0)
		ev_io_start(loop, &feed->io);
	*ret_feed = take_ptr(feed);
	return 0;
}

struct feed *feed_free(struct feed *feed)
{
	struct feed_out *out;

	if (!feed)
		return NULL;
	end_input(feed);
	while ((out = feed->outs)) {
		feed->outs = out->next;
		free(out);
	}
	free(feed);
	return NULL;
}
