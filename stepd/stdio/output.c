/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/output.h"

#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "mpi/link.h"
#include "stepd/base/buffer.h"
#include "stepd/base/err.h"
#include "stepd/process/process.h"
#include "stepd/snapshot/handover.h"

/* ---- sinks --------------------------------------------------------------------------------- */

enum sink_kind {
	SINK_PLAIN,    /* a file: every write succeeds at once */
	SINK_SOCKET,   /* MSG_DONTWAIT */
	SINK_NONBLOCK, /* an open file of our own, O_NONBLOCK */
	SINK_POLLED,   /* shared and blocking: written only as far as poll(2) permits */
	SINK_KIND_MAX,
};

/* As they are handed over. */
static const char *const sink_kind_names[SINK_KIND_MAX] = {
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
	int error;      /* of the last write, if a later one may succeed */
	int loss_error; /* the first one that lost bytes; 0: none are lost */
	bool recovered; /* that it is written again has been logged */
	bool gap;       /* sink_take_gap() */
	bool mid_line;  /* the last byte that was written is no newline */
	uint64_t lost_bytes;
	int stream;
	int64_t rank; /* -1: of several */
	enum sink_kind kind;
	int pipe_size; /* whole lines are written to this pipe; 0: as many bytes as there are */
	char *name;
	struct buffer pending; /* at most SINK_SIZE */
	sink_space_fn on_space;
	void *userdata;
	sink_written_fn on_written; /* NULL: nobody counts */
	void *written_userdata;
	uint32_t *writing;
};

static void sink_report_written(struct sink *sink, const char *data, size_t size)
{
	if (sink->on_written)
		sink->on_written(data, size, sink->written_userdata);
}

static void sink_set_writing(struct sink *sink, uint32_t writing)
{
	if (sink->writing)
		*(volatile uint32_t *)sink->writing = writing;
}

/* "rank 3's", "the tasks'" */
static const char *sink_whose(const struct sink *sink, char *text, size_t size)
{
	if (sink->rank < 0)
		return "the tasks'";
	(void)snprintf(text, size, "rank %lld's", (long long)sink->rank);
	return text;
}

static void sink_lose(struct sink *sink, int error, const char *consequence)
{
	bool first = sink->loss_error == 0;
	char whose[32];

	sink_count_lost(sink, buffer_size(&sink->pending));
	sink_report_written(sink, NULL, buffer_size(&sink->pending));
	buffer_clear(&sink->pending);
	sink->gap = true;
	if (!first)
		return;
	sink->loss_error = error;
	log_warning(sink->log, "write %s output to %s: %s; %s",
		sink_whose(sink, whose, sizeof(whose)), sink->name, strerror(error), consequence);
}

static void sink_fail(struct sink *sink, int error)
{
	ev_io_stop(sink->loop, &sink->io);
	sink->failed = true;
	if (sink->own)
		sink->fd = close_fd(sink->fd);
	sink_lose(sink, error, "further output for it is lost");
}

static bool sink_may_recover(const struct sink *sink, int error)
{
	return error == ENOSPC || error == EDQUOT || (error == EIO && sink->kind == SINK_PLAIN);
}

static void sink_refuse(struct sink *sink, int error)
{
	if (!sink_may_recover(sink, error)) {
		sink_fail(sink, error);
		return;
	}
	sink->error = error;
	sink_lose(sink, error, "it is lost until it can be written again (make space there)");
}

static void sink_recover(struct sink *sink)
{
	char whose[32];

	sink->error = 0;
	if (!sink->recovered)
		log_info(sink->log,
			"%s output is written to %s again; %llu bytes are missing there",
			sink_whose(sink, whose, sizeof(whose)), sink->name,
			(unsigned long long)sink->lost_bytes);
	sink->recovered = true;
}

/* Of n bytes, those up to the end of a line that the pipe takes all at once: as many as it has
 * capacity for while it is empty, else PIPE_BUF. A longer line is written in parts. */
static size_t sink_count_lines(const struct sink *sink, const char *p, size_t n)
{
	size_t most = PIPE_BUF;
	const char *end;
	int used;

	if (n > most && sink->kind == SINK_NONBLOCK && ioctl(sink->fd, FIONREAD, &used) == 0 &&
		used == 0)
		most = (size_t)sink->pipe_size;
	if (n > most)
		n = most;
	end = memrchr(p, '\n', n);
	return end ? (size_t)(end + 1 - p) : n;
}

static ssize_t sink_write_first(struct sink *sink)
{
	size_t n = buffer_size(&sink->pending);
	const char *p = buffer_bytes(&sink->pending);

	if (sink->pipe_size > 0)
		n = sink_count_lines(sink, p, n);
	if (sink->kind == SINK_SOCKET)
		return send(sink->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	/* poll(2) guarantees space for PIPE_BUF bytes in a pipe, not more. */
	if (sink->kind == SINK_POLLED && n > PIPE_BUF)
		n = PIPE_BUF;
	return write(sink->fd, p, n);
}

/* One write. False: it would block, or all is done, or the sink failed. */
static bool sink_write_some(struct sink *sink)
{
	ssize_t n;

	sink_set_writing(sink, 1);
	n = sink_write_first(sink);
	if (n > 0)
		sink_report_written(sink, buffer_bytes(&sink->pending), (size_t)n);
	sink_set_writing(sink, 0);
	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		sink_refuse(sink, n < 0 ? errno : EIO);
		return false;
	}
	sink->mid_line = buffer_bytes(&sink->pending)[n - 1] != '\n';
	buffer_drop(&sink->pending, (size_t)n);
	if (sink_pending(sink) > 0)
		return true;
	if (sink->error)
		sink_recover(sink);
	return false;
}

static void sink_on_writable(struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct sink *sink = io->data;

	if (sink->kind == SINK_POLLED)
		(void)sink_write_some(sink); /* the rest waits for the next event */
	else
		sink_flush(sink);
	if (sink_pending(sink) == 0)
		ev_io_stop(loop, io);
	if (sink_pending(sink) <= SINK_SIZE / 2 && sink->on_space)
		sink->on_space(sink->userdata);
}

void sink_flush(struct sink *sink)
{
	while (sink_pending(sink) > 0 && sink->kind != SINK_POLLED && sink_write_some(sink))
		;
	if (sink_pending(sink) > 0)
		ev_io_start(sink->loop, &sink->io);
}

size_t sink_space(const struct sink *sink)
{
	return SINK_SIZE - sink_pending(sink); /* everything, once it has failed */
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
	if (sink->failed) {
		sink_count_lost(sink, size);
	} else if (buffer_add(&sink->pending, data, size) < 0) {
		sink_count_lost(sink, size);
		sink_fail(sink, ENOMEM);
	}
}

static enum sink_kind sink_find_kind(struct sink *sink)
{
	struct stat st;
	int fd;

	if (fstat(sink->fd, &st) < 0)
		return SINK_POLLED; /* the first write will fail with the reason */
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
	sink->stream = STDOUT_FILENO;
	sink->rank = -1;
	sink->name = strdup(name);
	if (!sink->name)
		return -ENOMEM;
	sink->kind = sink_find_kind(sink);
	ev_io_init(&sink->io, sink_on_writable, sink->fd, EV_WRITE);
	sink->io.data = sink;
	*ret_sink = take_ptr(sink);
	return 0;
}

void sink_write_lines(struct sink *sink)
{
	int size = fcntl(sink->fd, F_GETPIPE_SZ);

	sink->pipe_size = size > PIPE_BUF ? size : 0;
}

void sink_describe(struct sink *sink, int stream, int64_t rank)
{
	sink->stream = stream;
	sink->rank = rank;
}

bool sink_has_lost(const struct sink *sink, struct sink_loss *ret_loss)
{
	if (sink->loss_error && ret_loss)
		*ret_loss = (struct sink_loss){
			.name = sink->name,
			.stream = sink->stream,
			.rank = sink->rank,
			.bytes = sink->lost_bytes,
			.error = sink->loss_error,
		};
	return sink->loss_error;
}

bool sink_is_full(const struct sink *sink)
{
	return sink->error;
}

void sink_count_lost(struct sink *sink, size_t size)
{
	sink->lost_bytes += size;
}

bool sink_take_gap(struct sink *sink, bool *ret_mid_line)
{
	if (!sink->gap)
		return false;
	sink->gap = false;
	*ret_mid_line = sink->mid_line;
	return true;
}

void sink_on_space(struct sink *sink, sink_space_fn on_space, void *userdata)
{
	sink->on_space = on_space;
	sink->userdata = userdata;
}

void sink_on_written(
	struct sink *sink, sink_written_fn on_written, void *userdata, uint32_t *writing)
{
	sink->on_written = on_written;
	sink->written_userdata = userdata;
	sink->writing = writing;
}

int sink_get_fd(const struct sink *sink)
{
	return sink->fd;
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
	if (!sink->loss_error)
		sink->loss_error = errno;
	log_warning(sink->log, "close %s: %s; output of the tasks may be lost", sink->name,
		strerror(errno));
}

void sink_save(const struct sink *sink, struct handover *h, struct json_t *object)
{
	handover_put_text(h, object, "name", sink->name);
	handover_put_text(h, object, "kind", sink_kind_names[sink->kind]);
	handover_put_bool(h, object, "own", sink->own || handover_is_held(h));
	handover_put_bool(h, object, "failed", sink->failed);
	handover_put_bool(h, object, "lost", sink->loss_error);
	handover_put_int(h, object, "loss_error", sink->loss_error);
	handover_put_int(h, object, "lost_bytes", (int64_t)sink->lost_bytes);
	handover_put_int(h, object, "error", sink->error);
	handover_put_bool(h, object, "recovered", sink->recovered);
	handover_put_bool(h, object, "gap", sink->gap);
	handover_put_bool(h, object, "mid_line", sink->mid_line);
	handover_put_int(h, object, "stream", sink->stream);
	handover_put_int(h, object, "rank", sink->rank);
	handover_put_fd(h, object, "fd", sink->fd);
	if (sink_pending(sink) > 0 && !handover_is_held(h))
		handover_put_bytes(
			h, object, "bytes", buffer_bytes(&sink->pending), sink_pending(sink));
}

int sink_restore(struct ev_loop *loop, const struct log *log, const struct handover *h,
	const struct json_t *object, struct sink **ret_sink)
{
	_cleanup_sink_ struct sink *sink = calloc(1, sizeof(*sink));
	int kind = json_get_choice(object, "kind", sink_kind_names, SINK_KIND_MAX, -1);
	const char *bytes;
	size_t size = 0;

	if (!sink)
		return -ENOMEM;
	sink->loop = loop;
	sink->log = log;
	sink->fd = handover_get_fd(object, "fd");
	sink->own = json_get_bool(object, "own", false);
	sink->failed = json_get_bool(object, "failed", false);
	/* an agent of an earlier version has no more than "lost" */
	sink->loss_error = (int)json_get_int(object, "loss_error",
		sink->failed || json_get_bool(object, "lost", false) ? EIO : 0);
	sink->lost_bytes = (uint64_t)json_get_int(object, "lost_bytes", 0);
	sink->error = (int)json_get_int(object, "error", 0);
	sink->recovered = json_get_bool(object, "recovered", false);
	sink->gap = json_get_bool(object, "gap", false);
	sink->mid_line = json_get_bool(object, "mid_line", false);
	sink->stream = (int)json_get_int(object, "stream", STDOUT_FILENO);
	sink->rank = json_get_int(object, "rank", -1);
	bytes = handover_get_bytes(h, object, "bytes", &size);
	if (kind < 0 || size > SINK_SIZE || (size > 0 && sink->fd < 0))
		return -EPROTO;
	sink->kind = (enum sink_kind)kind;
	ev_io_init(&sink->io, sink_on_writable, sink->fd, EV_WRITE);
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

/* ---- copies for tools ---------------------------------------------------------------------- */

/* The socket's buffer size, within the limit for unprivileged processes. */
#define COPY_BUFFER_BYTES (1u << 20)

/* Lines in the log: a process of the user's could cause any number of losses. */
#define COPY_LINES_MAX 100u

struct copy {
	struct ev_loop *loop;
	const struct log *log;
	ev_io io;           /* active while ends wait for space */
	int fd;             /* -1: nobody reads */
	struct buffer dues; /* of struct link_copy: ends of streams that could not be sent yet */
	uint64_t lost;      /* bytes since it was opened */
	unsigned lines;     /* in the log */
};

/* The reader is the user's process: its slowness is logged once, and the amount lost at the end. */
static void copy_count_lost(struct copy *copy, size_t size, uint64_t *lost)
{
	if (copy->lost == 0 && copy->lines++ < COPY_LINES_MAX)
		log_warning(copy->log,
			"the reader of the copy of the tasks' output is not fast enough: "
			"bytes are left out of the copy");
	copy->lost += size;
	*lost += size;
}

void copy_close(struct copy *copy)
{
	if (copy->fd < 0)
		return;
	ev_io_stop(copy->loop, &copy->io);
	copy->fd = close_fd(copy->fd);
	buffer_clear(&copy->dues);
	if (copy->lost > 0 && copy->lines++ < COPY_LINES_MAX)
		log_warning(copy->log, "%llu bytes were left out of the copy of the tasks' output",
			(unsigned long long)copy->lost);
	copy->lost = 0;
}

/* 0, -EAGAIN, or -EPIPE without a reader. */
static int copy_send_packet(
	struct copy *copy, const struct link_copy *head, const void *data, size_t size)
{
	struct iovec iov[2] = {
		{.iov_base = (void *)head, .iov_len = sizeof(*head)},
		{.iov_base = (void *)data, .iov_len = size},
	};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = size ? 2 : 1};
	ssize_t n;

	do
		n = sendmsg(copy->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return 0;
	if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)
		return -EAGAIN;
	copy_close(copy);
	return -EPIPE;
}

void copy_put(struct copy *copy, uint32_t rank, unsigned stream, const void *data, size_t size,
	uint64_t *lost)
{
	struct link_copy head = {.rank = rank, .stream = (uint16_t)stream};
	const char *at = data;
	size_t n;
	int r = 0;

	for (; r == 0 && size > 0 && copy->fd >= 0; at += n, size -= n) {
		n = size < LINK_COPY_MAX ? size : LINK_COPY_MAX;
		head.lost = *lost;
		r = copy_send_packet(copy, &head, at, n);
		if (r < 0)
			break;
		*lost = 0;
	}
	if (r == -EAGAIN)
		copy_count_lost(copy, size, lost);
}

static void copy_send_dues(struct copy *copy)
{
	int r;

	while (buffer_size(&copy->dues) > 0) {
		r = copy_send_packet(copy, (const void *)buffer_bytes(&copy->dues), NULL, 0);
		if (r == -EAGAIN)
			ev_io_start(copy->loop, &copy->io);
		if (r < 0)
			return;
		buffer_drop(&copy->dues, sizeof(struct link_copy));
	}
	ev_io_stop(copy->loop, &copy->io);
}

static void copy_on_writable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	copy_send_dues(io->data);
}

void copy_end(struct copy *copy, uint32_t rank, unsigned stream, uint64_t lost)
{
	const struct link_copy head = {
		.rank = rank, .stream = (uint16_t)stream, .end = 1, .lost = lost};

	if (copy->fd < 0)
		return;
	if (buffer_add(&copy->dues, &head, sizeof(head)) < 0) {
		log_warning(copy->log, "out of memory; the copy of the tasks' output ends");
		copy_close(copy);
		return;
	}
	copy_send_dues(copy);
}

/* ---- life ---------------------------------------------------------------------------------- */

int copy_new(struct ev_loop *loop, const struct log *log, struct copy **ret_copy)
{
	struct copy *copy = calloc(1, sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	copy->loop = loop;
	copy->log = log;
	copy->fd = -1;
	ev_init(&copy->io, copy_on_writable);
	copy->io.data = copy;
	*ret_copy = copy;
	return 0;
}

static void copy_take_fd(struct copy *copy, int fd)
{
	copy->fd = fd;
	ev_io_set(&copy->io, fd, EV_WRITE);
}

int copy_open(struct copy *copy, int *ret_fd)
{
	_cleanup_close_ int ours = -1, theirs = -1;
	int pair[2], size = COPY_BUFFER_BYTES, r;

	*ret_fd = -1;
	if (copy->fd >= 0)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	theirs = pair[1];
	r = stdfd_move_above(pair[0]);
	if (r < 0)
		return r;
	ours = r;
	/* Nothing is read from the socket: writers to it fail. */
	if (shutdown(ours, SHUT_RD) < 0)
		return -errno;
	(void)setsockopt(ours, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)); /* best effort */
	copy_take_fd(copy, take_fd(&ours));
	*ret_fd = take_fd(&theirs);
	return 0;
}

struct copy *copy_free(struct copy *copy)
{
	if (!copy)
		return NULL;
	copy_close(copy);
	free(copy);
	return NULL;
}

/* ---- re-exec ------------------------------------------------------------------------------- */

void copy_save(const struct copy *copy, struct handover *h, json_t *object)
{
	json_t *dues = handover_put_array(h, object, "ends"), *entry;
	const struct link_copy *due = (const void *)buffer_bytes(&copy->dues);
	size_t left;

	handover_put_fd(h, object, "fd", copy->fd);
	handover_put_int(h, object, "lost", (int64_t)copy->lost);
	for (left = buffer_size(&copy->dues); left > 0; left -= sizeof(*due), due++) {
		entry = handover_append_object(h, dues);
		handover_put_int(h, entry, "rank", due->rank);
		handover_put_int(h, entry, "stream", due->stream);
		handover_put_int(h, entry, "lost", (int64_t)due->lost);
	}
}

int copy_restore(
	struct ev_loop *loop, const struct log *log, const json_t *object, struct copy **ret_copy)
{
	_cleanup_copy_ struct copy *copy = NULL;
	const json_t *dues = json_get_array(object, "ends"), *entry;
	struct link_copy head = {.end = 1};
	int r = copy_new(loop, log, &copy), fd = handover_get_fd(object, "fd");
	size_t i;

	if (r == 0 && fd >= 0)
		copy_take_fd(copy, fd);
	for (i = 0; r == 0 && fd >= 0 && i < json_array_size(dues); i++) {
		entry = json_array_get(dues, i);
		head.rank = (uint32_t)json_get_int(entry, "rank", 0);
		head.stream = (uint16_t)json_get_int(entry, "stream", 0);
		head.lost = (uint64_t)json_get_int(entry, "lost", 0);
		r = buffer_add(&copy->dues, &head, sizeof(head));
	}
	if (r < 0)
		return r;
	copy->lost = (uint64_t)json_get_int(object, "lost", 0);
	if (buffer_size(&copy->dues) > 0)
		ev_io_start(loop, &copy->io);
	*ret_copy = take_ptr(copy);
	return 0;
}
