/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/copy.h"

#include <ev.h>
#include <jansson.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "mpi/link_copy.h"
#include "stepd/base/log.h"
#include "stepd/process/stdfd.h"
#include "stepd/snapshot/handover.h"

/* What may wait in the socket, as far as the kernel lets everybody request it. */
#define COPY_ROOM (1u << 20)

/* Lines in the log: whether anything is lost is up to a process of the user's. */
#define COPY_LINES_MAX 100u

/* The end of a stream that could not be sent yet. */
struct copy_due {
	struct copy_due *next;
	struct link_copy head;
};

struct copy {
	struct ev_loop *loop;
	const struct log *log;
	ev_io io; /* active while ends wait for space */
	int fd;   /* -1: nobody reads */
	struct copy_due *dues, **last_due;
	uint64_t lost;  /* bytes since it was opened */
	unsigned lines; /* in the log */
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
	struct copy_due *due;

	if (copy->fd < 0)
		return;
	ev_io_stop(copy->loop, &copy->io);
	copy->fd = close_fd(copy->fd);
	while ((due = copy->dues)) {
		copy->dues = due->next;
		free(due);
	}
	copy->last_due = &copy->dues;
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
	struct copy_due *due;
	int r = 0;

	while (r == 0 && (due = copy->dues)) {
		r = send_packet(copy, &due->head, NULL, 0);
		if (r < 0)
			break;
		copy->dues = due->next;
		free(due);
	}
	if (r == -EPIPE)
		return;
	if (copy->dues) {
		ev_io_start(copy->loop, &copy->io);
		return;
	}
	copy->last_due = &copy->dues;
	ev_io_stop(copy->loop, &copy->io);
}

static void on_writable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	send_dues(io->data);
}

static int add_due(struct copy *copy, const struct link_copy *head)
{
	struct copy_due *due = calloc(1, sizeof(*due));

	if (!due)
		return -ENOMEM;
	due->head = *head;
	*copy->last_due = due;
	copy->last_due = &due->next;
	return 0;
}

void copy_end(struct copy *copy, uint32_t rank, unsigned stream, uint64_t lost)
{
	const struct link_copy head = {
		.rank = rank, .stream = (uint16_t)stream, .end = 1, .lost = lost};

	if (copy->fd < 0)
		return;
	if (add_due(copy, &head) < 0) {
		log_warning(copy->log, "out of memory; the copy of the tasks' output ends");
		copy_close(copy);
		return;
	}
	send_dues(copy);
}

/* ---- life ------------------------------------------------------------------------------------ */

int copy_new(struct ev_loop *loop, const struct log *log, struct copy **ret_copy)
{
	struct copy *copy = calloc(1, sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	copy->loop = loop;
	copy->log = log;
	copy->fd = -1;
	copy->last_due = &copy->dues;
	ev_init(&copy->io, on_writable);
	copy->io.data = copy;
	*ret_copy = copy;
	return 0;
}

bool copy_is_open(const struct copy *copy)
{
	return copy->fd >= 0;
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

/* ---- a new program --------------------------------------------------------------------------- */

void copy_save(const struct copy *copy, struct handover *h, json_t *object)
{
	json_t *dues = handover_put_array(h, object, "ends"), *entry;
	const struct copy_due *due;

	handover_put_fd(h, object, "fd", copy->fd);
	handover_put_int(h, object, "lost", (int64_t)copy->lost);
	for (due = copy->dues; due; due = due->next) {
		entry = handover_append_object(h, dues);
		handover_put_int(h, entry, "rank", due->head.rank);
		handover_put_int(h, entry, "stream", due->head.stream);
		handover_put_int(h, entry, "lost", (int64_t)due->head.lost);
	}
}

int copy_restore(struct ev_loop *loop, const struct log *log, const struct handover *h,
	const json_t *object, struct copy **ret_copy)
{
	_cleanup_copy_ struct copy *copy = NULL;
	const json_t *dues = json_get_array(object, "ends"), *entry;
	struct link_copy head = {.end = 1};
	int r = copy_new(loop, log, &copy), fd = handover_get_fd(object, "fd");
	size_t i;

	(void)h;
	if (r == 0 && fd >= 0)
		take_fd_of(copy, fd);
	for (i = 0; r == 0 && fd >= 0 && i < json_array_size(dues); i++) {
		entry = json_array_get(dues, i);
		head.rank = (uint32_t)json_get_int(entry, "rank", 0);
		head.stream = (uint16_t)json_get_int(entry, "stream", 0);
		head.lost = (uint64_t)json_get_int(entry, "lost", 0);
		r = add_due(copy, &head);
	}
	if (r < 0)
		return r;
	copy->lost = (uint64_t)json_get_int(object, "lost", 0);
	if (copy->dues)
		ev_io_start(loop, &copy->io);
	*ret_copy = take_ptr(copy);
	return 0;
}
