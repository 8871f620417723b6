/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the launcher (launch.h) makes the tasks' pipes, the agent's ends of them go to the agent
 * over a socket pair, in batches, each end with its task and stream. So the launcher and its
 * children have the ends of no more than one batch, however many tasks there are.
 *
 * What is in flight counts against the user's limit of open files (ETOOMANYREFS; not root's). So
 * the agent acknowledges each batch, and no more than BATCHES_MAX are in flight.
 */
#include "stepd/stdio/stdio_impl.h"

#include <assert.h>
#include <ev.h>
#include <string.h>
#include <sys/socket.h>

#define BATCH_ENDS  32u
#define BATCHES_MAX 4u /* even the smallest socket buffer holds as many acknowledgements */

struct transfer_end {
	uint32_t local_id;
	uint32_t stream;
};

struct transfer {
	struct stdio *io;
	int agent_fd, launcher_fd;
	ev_io readable;     /* in the agent */
	struct err err;     /* the agent's: why it takes no more ends */
	bool sends;         /* in the launcher */
	unsigned unsettled; /* batches that are not acknowledged */
	unsigned count;     /* ends to send */
	struct transfer_end end[BATCH_ENDS];
	int fd[BATCH_ENDS];
};

union transfer_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * BATCH_ENDS)];
};

/* ---- in the launcher ----------------------------------------------------------------------- */

bool stdio_transfer_sends(const struct stdio *io)
{
	return io->transfer && io->transfer->sends;
}

void stdio_transfer_begin(struct stdio *io)
{
	struct transfer *t = io->transfer;

	if (!t)
		return;
	t->sends = true;
	t->agent_fd = close_fd(t->agent_fd); /* else the agent could not refuse further ends */
}

static int transfer_await_one(struct transfer *t)
{
	ssize_t n;
	char c;

	do
		n = recv(t->launcher_fd, &c, 1, 0);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : -EPIPE;
	t->unsettled--;
	return 0;
}

/* With none in flight, ETOOMANYREFS is about descriptors that other programs of the user send. */
static int transfer_send_batch(struct transfer *t, const struct msghdr *m)
{
	int r = t->unsettled < BATCHES_MAX ? 0 : transfer_await_one(t);

	while (r == 0 && sendmsg(t->launcher_fd, m, MSG_NOSIGNAL) < 0) {
		if (errno == ETOOMANYREFS && t->unsettled > 0)
			r = transfer_await_one(t);
		else if (errno != EINTR)
			r = -errno;
	}
	return r;
}

static int transfer_send(struct transfer *t, struct err *err)
{
	union transfer_control control = {.bytes = {0}};
	struct iovec iov = {.iov_base = t->end, .iov_len = t->count * sizeof(t->end[0])};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(sizeof(int) * t->count)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	unsigned i;
	int r;

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int) * t->count);
	memcpy(CMSG_DATA(c), t->fd, sizeof(int) * t->count);
	r = transfer_send_batch(t, &m);
	for (i = 0; i < t->count; i++)
		(void)close_fd(t->fd[i]);
	t->count = 0;
	if (r < 0)
		return err_set(err, r, "send the tasks' pipes to the agent%s",
			r == -ETOOMANYREFS
				? " (other programs of this user have as many descriptors in flight as "
				  "the limit of open files allows; raise it)"
				: "");
	t->unsettled++;
	return 0;
}

int stdio_transfer_put_take(struct stdio *io, uint32_t local_id, int i, int fd, struct err *err)
{
	struct transfer *t = io->transfer;

	t->end[t->count] = (struct transfer_end){.local_id = local_id, .stream = (uint32_t)i};
	t->fd[t->count++] = fd;
	return t->count == BATCH_ENDS ? transfer_send(t, err) : 0;
}

int stdio_transfer_flush(struct stdio *io, struct err *err)
{
	struct transfer *t = io->transfer;

	return t && t->count > 0 ? transfer_send(t, err) : 0;
}

/* ---- in the agent -------------------------------------------------------------------------- */

/* Fewer descriptors than ends: the others found no space in the agent's table. */
static unsigned transfer_get_fds(struct msghdr *m, int fd[BATCH_ENDS])
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	size_t size;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return 0;
	size = c->cmsg_len - CMSG_LEN(0); /* the control buffer's, at most */
	memcpy(fd, CMSG_DATA(c), size);
	return (unsigned)(size / sizeof(int));
}

/* The first failure is the reason of all that follows. */
static void transfer_take_end(struct transfer *t, const struct transfer_end *end, int fd)
{
	if (t->err.code == 0 && (end->local_id >= t->io->ends_count || end->stream > STDERR_FILENO))
		(void)err_set(&t->err, -EPROTO, "take the tasks' pipes from the launcher");
	if (t->err.code < 0)
		(void)close_fd(fd);
	else if (fd < 0)
		(void)stdio_end_error(t->io, end->local_id, (int)end->stream, -EMFILE, &t->err);
	else
		(void)!stdio_end_take(t->io, end->local_id, (int)end->stream, fd, &t->err);
}

/* False: there is none now. */
static bool transfer_receive(struct transfer *t)
{
	union transfer_control control;
	struct transfer_end end[BATCH_ENDS];
	struct iovec iov = {.iov_base = end, .iov_len = sizeof(end)};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	unsigned i, fds_count;
	int fd[BATCH_ENDS];
	ssize_t n;

	do
		n = recvmsg(t->agent_fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN)
		(void)err_set(&t->err, -errno, "take the tasks' pipes from the launcher");
	if (n <= 0)
		return false;
	fds_count = transfer_get_fds(&m, fd);
	for (i = 0; i < (size_t)n / sizeof(end[0]); i++)
		transfer_take_end(t, &end[i], i < fds_count ? fd[i] : -1);
	(void)send(t->agent_fd, "", 1, MSG_NOSIGNAL); /* there is space for it: BATCHES_MAX */
	return true;
}

static void transfer_on_readable(struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct transfer *t = io->data;

	assert(t);
	(void)transfer_receive(t);
	if (t->err.code == 0)
		return;
	ev_io_stop(loop, io);
	t->agent_fd = close_fd(t->agent_fd); /* ends the launcher's work */
}

int stdio_transfer_open(struct stdio *io, struct err *err)
{
	struct transfer *t;
	int fd[2];

	if (!stdio_carries(io))
		return 0;
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(err, -ENOMEM, "prepare the tasks' standard streams");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) < 0) {
		free(t);
		return err_set(err, -errno, "make the socket for the tasks' pipes");
	}
	t->io = io;
	t->agent_fd = fd[0];
	t->launcher_fd = fd[1];
	ev_io_init(&t->readable, transfer_on_readable, t->agent_fd, EV_READ);
	t->readable.data = t;
	ev_io_start(io->loop, &t->readable);
	io->transfer = t;
	return 0;
}

int stdio_transfer_close(struct stdio *io, struct err *err)
{
	struct transfer *t = io->transfer;
	int r;

	if (!t)
		return 0;
	while (t->agent_fd >= 0 && transfer_receive(t))
		;
	r = t->err.code;
	if (r < 0)
		*err = t->err;
	stdio_transfer_free(io);
	return r;
}

void stdio_transfer_free(struct stdio *io)
{
	struct transfer *t = io->transfer;

	if (!t)
		return;
	ev_io_stop(io->loop, &t->readable);
	(void)close_fd(t->agent_fd);
	(void)close_fd(t->launcher_fd);
	while (t->count > 0)
		(void)close_fd(t->fd[--t->count]);
	free(t);
	io->transfer = NULL;
}
