/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/link.h"

#include <jansson.h>
#include <string.h>
#include <sys/socket.h>

#include "stepd/base/fs.h"

int link_pair(int ret_fds[2], struct err *err)
{
	int size = 2 * LINK_SIZE_MAX, i;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret_fds) < 0)
		return err_set(err, -errno, "make the link to the MPI service process");
	/* One message fits into what every process may request; the rest is a wish. */
	for (i = 0; i < 2; i++)
		(void)setsockopt(ret_fds[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	fs_refuse_descriptors(ret_fds[0]);
	return 0;
}

static int send_text(int fd, const char *text, size_t size, const int *fds, size_t count)
{
	char control[CMSG_SPACE(sizeof(int) * LINK_FDS_MAX)] = {0};
	struct iovec iov = {.iov_base = (char *)text, .iov_len = size};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;

	if (size > LINK_SIZE_MAX || count > LINK_FDS_MAX)
		return -EMSGSIZE;
	if (count) {
		m.msg_control = control;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * count);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * count);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
	}
	while (sendmsg(fd, &m, MSG_NOSIGNAL) < 0) {
		if (errno != EINTR)
			return errno == ECONNRESET ? -EPIPE : -errno;
	}
	return 0;
}

int link_send_take(int fd, json_t *message, const int *fds, size_t count)
{
	_cleanup_free_ char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;

	json_decref(message);
	return text ? send_text(fd, text, strlen(text), fds, count) : -ENOMEM;
}

static void take_fds(struct msghdr *m, struct link_message *message)
{
	struct cmsghdr *c;
	size_t n;

	for (c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(message->fds, CMSG_DATA(c), n * sizeof(int)); /* the control buffer's size */
		message->fds_count = n;
	}
}

/* control may be NULL, with size 0. */
static int receive(int fd, void *control, size_t control_size, struct link_message *ret_message)
{
	_cleanup_free_ char *text = malloc(LINK_SIZE_MAX + 1);
	_cleanup_link_message_ struct link_message message = LINK_MESSAGE_INIT;
	struct iovec iov = {.iov_base = text, .iov_len = LINK_SIZE_MAX};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = control_size};
	ssize_t n;

	if (!text)
		return -ENOMEM;
	/* The other end is gone and has left something unread: that is reported once, before what
	 * it has sent. */
	do
		n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	if (n < 0)
		return -errno;
	take_fds(&m, &message);
	if (n == 0)
		return -EPIPE;
	if (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return -EBADMSG;
	message.object = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(message.object))
		return -EBADMSG;
	*ret_message = message;
	message = (struct link_message)LINK_MESSAGE_INIT;
	return 0;
}

int link_receive(int fd, struct link_message *ret_message)
{
	char control[CMSG_SPACE(sizeof(int) * LINK_FDS_MAX)];

	return receive(fd, control, sizeof(control), ret_message);
}

int link_receive_bare(int fd, struct link_message *ret_message)
{
	return receive(fd, NULL, 0, ret_message);
}

void link_message_clear(struct link_message *message)
{
	size_t i;

	for (i = 0; i < message->fds_count; i++)
		(void)close_fd(message->fds[i]);
	json_decref(message->object);
	*message = (struct link_message)LINK_MESSAGE_INIT;
}
