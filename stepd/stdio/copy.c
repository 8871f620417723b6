/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/copy.h"

#include <ev.h>
#include <jansson.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "mpi/link.h"
#include "stepd/base/buffer.h"
#include "stepd/base/log.h"
#include "stepd/process/process.h"
#include "stepd/snapshot/handover.h"

/* What may wait in the socket, as far as the kernel lets everybody request it. */
#define COPY_ROOM (1u << 20)

/* Lines in the log: whether anything is lost is up to a process of the user's. */
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

/* The reader is the user's process: that it is slow is logged once, and how much was lost at the
 * end. */
static void count_lost(struct copy *copy, size_t size, uint64_t *lost)
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

/* 0, -EAGAIN, or -EPIPE with nobody to send to any more. */
static int send_packet(
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
		r = send_packet(copy, &head, at, n);
		if (r < 0)
			break;
		*lost = 0;
	}
	if (r == -EAGAIN)
		count_lost(copy, size, lost);
}

static void send_dues(struct copy *copy)
{
	int r;

	while (buffer_size(&copy->dues) > 0) {
		r = send_packet(copy, (const void *)buffer_bytes(&copy->dues), NULL, 0);
		if (r == -EAGAIN)
			ev_io_start(copy->loop, &copy->io);
		if (r < 0)
			return;
		buffer_drop(&copy->dues, sizeof(struct link_copy));
	}
	ev_io_stop(copy->loop, &copy->io);
}

static void on_writable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	send_dues(io->data);
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
	send_dues(copy);
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
	ev_init(&copy->io, on_writable);
	copy->io.data = copy;
	*ret_copy = copy;
	return 0;
}

static void take_fd_of(struct copy *copy, int fd)
{
	copy->fd = fd;
	ev_io_set(&copy->io, fd, EV_WRITE);
}

int copy_open(struct copy *copy, int *ret_fd)
{
	_cleanup_close_ int ours = -1, theirs = -1;
	int pair[2], size = COPY_ROOM, r;

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
	/* Nothing is read from there: writers fail. */
	if (shutdown(ours, SHUT_RD) < 0)
		return -errno;
	(void)setsockopt(ours, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)); /* a wish */
	take_fd_of(copy, take_fd(&ours));
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

/* ---- a new program ------------------------------------------------------------------------- */

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
		take_fd_of(copy, fd);
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
