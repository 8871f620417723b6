/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/sink.h"

#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "stepd/base/log.h"
#include "stepd/process/stdfd.h"
#include "stepd/snapshot/handover.h"

enum sink_kind {
	SINK_PLAIN,    /* a file: takes all there is */
	SINK_SOCKET,   /* MSG_DONTWAIT */
	SINK_NONBLOCK, /* an open file of our own, O_NONBLOCK */
	SINK_POLLED,   /* shared and blocking: what poll(2) promises is all that is tried */
	SINK_KIND_MAX,
};

/* As they are handed over. */
static const char *const kind_words[SINK_KIND_MAX] = {
	[SINK_PLAIN] = "plain",
	[SINK_SOCKET] = "socket",
	[SINK_NONBLOCK] = "nonblock",
	[SINK_POLLED] = "polled",
};

struct sink {
	struct ev_loop *loop;
	const struct log *log;
	ev_io io; /* active while bytes wait for the descriptor */
	int fd;
	bool own;
	bool failed;
	bool lost; /* nor did all come out that was taken */
	enum sink_kind kind;
	char *name;
	char *ring; /* SINK_SIZE, NULL while empty */
	size_t start, size;
	sink_space_fn on_space;
	void *userdata;
};

static void fail(struct sink *sink, int error)
{
	ev_io_stop(sink->loop, &sink->io);
	sink->failed = true;
	sink->size = 0;
	free(sink->ring);
	sink->ring = NULL;
	if (sink->own)
		sink->fd = close_fd(sink->fd);
	log_warning(sink->log,
		"write the tasks' output to %s: %s; what comes for it from now on is lost",
		sink->name, strerror(error));
}

static ssize_t write_first(struct sink *sink)
{
	size_t n = SINK_SIZE - sink->start;
	const char *p = sink->ring + sink->start;

	if (n > sink->size)
		n = sink->size;
	if (sink->kind == SINK_SOCKET)
		return send(sink->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	/* poll(2) promises space for PIPE_BUF bytes in a pipe, not more. */
	if (sink->kind == SINK_POLLED && n > PIPE_BUF)
		n = PIPE_BUF;
	return write(sink->fd, p, n);
}

/* One write. False: it would block, or all is done, or the sink failed. */
static bool write_some(struct sink *sink)
{
	ssize_t n = write_first(sink);

	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		fail(sink, n < 0 ? errno : EIO);
		return false;
	}
	sink->start = (sink->start + (size_t)n) % SINK_SIZE;
	sink->size -= (size_t)n;
	if (sink->size > 0)
		return true;
	sink->start = 0;
	free(sink->ring);
	sink->ring = NULL;
	return false;
}

static void on_writable(struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct sink *sink = io->data;

	if (sink->kind == SINK_POLLED)
		(void)write_some(sink); /* what is left waits for the next event */
	else
		sink_flush(sink);
	if (sink->size == 0)
		ev_io_stop(loop, io);
	if (sink->size <= SINK_SIZE / 2 && sink->on_space)
		sink->on_space(sink->userdata);
}

void sink_flush(struct sink *sink)
{
	while (sink->size > 0 && sink->kind != SINK_POLLED && write_some(sink))
		;
	if (sink->size > 0)
		ev_io_start(sink->loop, &sink->io);
}

size_t sink_space(const struct sink *sink)
{
	return sink->failed ? SINK_SIZE : SINK_SIZE - sink->size;
}

size_t sink_pending(const struct sink *sink)
{
	return sink->size;
}

bool sink_failed(const struct sink *sink)
{
	return sink->failed;
}

void sink_put(struct sink *sink, const void *data, size_t size)
{
	size_t end, first;

	assert(size <= sink_space(sink));
	if (!sink->failed && !sink->ring) {
		sink->ring = malloc(SINK_SIZE);
		if (!sink->ring)
			fail(sink, ENOMEM);
	}
	if (sink->failed)
		return;
	end = (sink->start + sink->size) % SINK_SIZE;
	first = size < SINK_SIZE - end ? size : SINK_SIZE - end;
	memcpy(sink->ring + end, data, first);
	memcpy(sink->ring, (const char *)data + first, size - first);
	sink->size += size;
}

static enum sink_kind find_kind(struct sink *sink)
{
	struct stat st;
	int fd;

	if (fstat(sink->fd, &st) < 0)
		return SINK_POLLED; /* the first write fails with the reason */
	if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode))
		return SINK_PLAIN;
	if (S_ISSOCK(st.st_mode))
		return SINK_SOCKET;
	if (sink->own)
		return stdfd_set_nonblock(sink->fd, true) == 0 ? SINK_NONBLOCK : SINK_POLLED;
	fd = stdfd_reopen(sink->fd, O_WRONLY);
	if (fd < 0)
		return SINK_POLLED;
	sink->fd = fd;
	sink->own = true;
	return SINK_NONBLOCK;
}

int sink_new(struct ev_loop *loop, const struct log *log, int fd, bool own, const char *name,
	struct sink **ret_sink)
{
	_cleanup_sink_ struct sink *sink = calloc(1, sizeof(*sink));

	if (!sink) {
		if (own)
			(void)close_fd(fd);
		return -ENOMEM;
	}
	sink->loop = loop;
	sink->log = log;
	sink->fd = fd;
	sink->own = own;
	sink->name = strdup(name);
	if (!sink->name)
		return -ENOMEM;
	sink->kind = find_kind(sink);
	ev_io_init(&sink->io, on_writable, sink->fd, EV_WRITE);
	sink->io.data = sink;
	*ret_sink = take_ptr(sink);
	return 0;
}

bool sink_has_lost(const struct sink *sink)
{
	return sink->failed || sink->lost;
}

void sink_on_space(struct sink *sink, sink_space_fn on_space, void *userdata)
{
	sink->on_space = on_space;
	sink->userdata = userdata;
}

void sink_close(struct sink *sink)
{
	int fd;

	assert(sink->size == 0);
	ev_io_stop(sink->loop, &sink->io);
	if (!sink->own || sink->fd < 0)
		return;
	fd = take_fd(&sink->fd);
	if (close(fd) == 0 || errno == EINTR)
		return;
	sink->lost = true;
	log_warning(sink->log, "close %s: %s; output of the tasks may be lost", sink->name,
		strerror(errno));
}

void sink_save(const struct sink *sink, struct handover *h, struct json_t *object)
{
	size_t first = SINK_SIZE - sink->start;
	char *flat;

	handover_put_text(h, object, "name", sink->name);
	handover_put_text(h, object, "kind", kind_words[sink->kind]);
	handover_put_bool(h, object, "own", sink->own);
	handover_put_bool(h, object, "failed", sink->failed);
	handover_put_bool(h, object, "lost", sink->lost);
	handover_put_fd(h, object, "fd", sink->fd);
	if (sink->size == 0)
		return;
	if (first >= sink->size) {
		handover_put_bytes(h, object, "bytes", sink->ring + sink->start, sink->size);
		return;
	}
	flat = malloc(sink->size);
	if (!flat) {
		handover_fail(h, -ENOMEM, "no memory for the tasks' output");
		return;
	}
	memcpy(flat, sink->ring + sink->start, first);
	memcpy(flat + first, sink->ring, sink->size - first);
	handover_put_bytes(h, object, "bytes", flat, sink->size);
	free(flat);
}

int sink_restore(struct ev_loop *loop, const struct log *log, const struct handover *h,
	const struct json_t *object, struct sink **ret_sink)
{
	_cleanup_sink_ struct sink *sink = calloc(1, sizeof(*sink));
	int kind = json_get_choice(object, "kind", kind_words, SINK_KIND_MAX, -1);
	const char *bytes;
	size_t size = 0;

	if (!sink)
		return -ENOMEM;
	sink->loop = loop;
	sink->log = log;
	sink->fd = handover_get_fd(object, "fd");
	sink->own = json_get_bool(object, "own", false);
	sink->lost = json_get_bool(object, "lost", false);
	sink->failed = json_get_bool(object, "failed", false);
	bytes = handover_get_bytes(h, object, "bytes", &size);
	if (kind < 0 || size > SINK_SIZE || (size > 0 && sink->fd < 0))
		return -EPROTO;
	sink->kind = (enum sink_kind)kind;
	ev_io_init(&sink->io, on_writable, sink->fd, EV_WRITE);
	sink->io.data = sink;
	if (handover_copy_text(h, object, "name", &sink->name) < 0)
		return -ENOMEM;
	if (bytes && size > 0) {
		sink->ring = malloc(SINK_SIZE);
		if (!sink->ring)
			return -ENOMEM;
		memcpy(sink->ring, bytes, size);
		sink->size = size;
		ev_io_start(loop, &sink->io);
	}
	*ret_sink = take_ptr(sink);
	return 0;
}

struct sink *sink_free(struct sink *sink)
{
	if (!sink)
		return NULL;
	ev_io_stop(sink->loop, &sink->io);
	if (sink->own)
		(void)close_fd(sink->fd);
	free(sink->name);
	free(sink->ring);
	free(sink);
	return NULL;
}
