/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/sink.h"

#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "stepd/base/buffer.h"
#include "stepd/base/log.h"
#include "stepd/process/process.h"
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
	struct buffer pending; /* at most SINK_SIZE */
	sink_space_fn on_space;
	void *userdata;
};

static void fail(struct sink *sink, int error)
{
	ev_io_stop(sink->loop, &sink->io);
	sink->failed = true;
	buffer_clear(&sink->pending);
	if (sink->own)
		sink->fd = close_fd(sink->fd);
	log_warning(sink->log,
		"write the tasks' output to %s: %s; what comes for it from now on is lost",
		sink->name, strerror(error));
}

static ssize_t write_first(struct sink *sink)
{
	size_t n = buffer_size(&sink->pending);
	const char *p = buffer_bytes(&sink->pending);

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
	buffer_drop(&sink->pending, (size_t)n);
	return sink_pending(sink) > 0;
}

static void on_writable(struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct sink *sink = io->data;

	if (sink->kind == SINK_POLLED)
		(void)write_some(sink); /* what is left waits for the next event */
	else
		sink_flush(sink);
	if (sink_pending(sink) == 0)
		ev_io_stop(loop, io);
	if (sink_pending(sink) <= SINK_SIZE / 2 && sink->on_space)
		sink->on_space(sink->userdata);
}

void sink_flush(struct sink *sink)
{
	while (sink_pending(sink) > 0 && sink->kind != SINK_POLLED && write_some(sink))
		;
	if (sink_pending(sink) > 0)
		ev_io_start(sink->loop, &sink->io);
}

size_t sink_space(const struct sink *sink)
{
	return SINK_SIZE - sink_pending(sink); /* once it has failed, all of it */
}

size_t sink_pending(const struct sink *sink)
{
	return buffer_size(&sink->pending);
}

bool sink_failed(const struct sink *sink)
{
	return sink->failed;
}

void sink_put(struct sink *sink, const void *data, size_t size)
{
	assert(size <= sink_space(sink));
	if (!sink->failed && buffer_add(&sink->pending, data, size) < 0)
		fail(sink, ENOMEM);
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

	assert(sink_pending(sink) == 0);
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
	handover_put_text(h, object, "name", sink->name);
	handover_put_text(h, object, "kind", kind_words[sink->kind]);
	handover_put_bool(h, object, "own", sink->own);
	handover_put_bool(h, object, "failed", sink->failed);
	handover_put_bool(h, object, "lost", sink->lost);
	handover_put_fd(h, object, "fd", sink->fd);
	if (sink_pending(sink) > 0)
		handover_put_bytes(
			h, object, "bytes", buffer_bytes(&sink->pending), sink_pending(sink));
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
	if (bytes && buffer_add(&sink->pending, bytes, size) < 0)
		return -ENOMEM;
	if (sink_pending(sink) > 0)
		ev_io_start(loop, &sink->io);
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
	buffer_clear(&sink->pending);
	free(sink);
	return NULL;
}
