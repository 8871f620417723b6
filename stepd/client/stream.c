/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/client/stream.h"

#include <assert.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "stepd/base/clock.h"

#define PIECE_SIZE 65536
#define NSEC_MSEC  1000000

int64_t stream_deadline(int timeout_ms)
{
	return timeout_ms < 0 ? STREAM_NEVER
			      : (int64_t)clock_now_ns() + (int64_t)timeout_ms * NSEC_MSEC;
}

int stream_left_ms(int64_t deadline)
{
	int64_t left;

	if (deadline == STREAM_NEVER)
		return -1;
	left = (deadline - (int64_t)clock_now_ns() + NSEC_MSEC - 1) / NSEC_MSEC;
	return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

void stream_init(struct stream *s, int fd)
{
	*s = (struct stream){.fd = fd};
}

void stream_clear(struct stream *s)
{
	s->fd = close_fd(s->fd);
	buffer_clear(&s->in);
	free(s->out);
	stream_init(s, -1);
}

/* ---- out ----------------------------------------------------------------------------------- */

static void drop_out(struct stream *s)
{
	free(s->out);
	s->out = NULL;
	s->out_at = s->out_end = 0;
}

/* Sends what the socket takes now. A peer that takes nothing may have sent the reason: that is
 * read. */
static void push(struct stream *s)
{
	ssize_t n;

	while (s->out_at < s->out_end) {
		n = send(s->fd, s->out + s->out_at, s->out_end - s->out_at,
			MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == ENOBUFS))
			return;
		if (n < 0) {
			s->out_broken = true;
			break;
		}
		s->out_at += (size_t)n;
	}
	drop_out(s);
}

void stream_put_take(struct stream *s, char *data, size_t size)
{
	assert(!stream_wants_write(s));
	s->out = data;
	s->out_at = 0;
	s->out_end = size;
	push(s);
}

bool stream_wants_write(const struct stream *s)
{
	return s->out_at < s->out_end;
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* Until events, or writing where something is to be sent, is possible: 0, or -ETIMEDOUT. */
static int await(const struct stream *s, short events, int64_t deadline)
{
	struct pollfd p = {.fd = s->fd, .events = events};
	int left_ms, n;

	if (stream_wants_write(s))
		p.events |= POLLOUT;
	/* Nothing is read after the deadline: a peer that sends a byte at a time would extend it.
	 */
	while ((left_ms = stream_left_ms(deadline)) != 0) {
		n = poll(&p, 1, left_ms);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
	return -ETIMEDOUT;
}

int stream_flush(struct stream *s, int64_t deadline)
{
	int r;

	push(s);
	while (stream_wants_write(s)) {
		r = await(s, 0, deadline);
		if (r < 0)
			return r;
		push(s);
	}
	return s->out_broken ? -ECONNRESET : 0;
}

/* ---- in ------------------------------------------------------------------------------------ */

bool stream_has_input(const struct stream *s)
{
	char byte;
	ssize_t n;

	if (buffer_size(&s->in) > s->returned)
		return true;
	do
		n = recv(s->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

/* The NUL behind the first frame, or NULL. */
static const char *find_end(struct stream *s)
{
	size_t size = buffer_size(&s->in);
	const char *end = NULL;

	if (size > s->seen)
		end = memchr(buffer_bytes(&s->in) + s->seen, '\0', size - s->seen);
	s->seen = end ? 0 : size;
	return end;
}

/* Reads what has come: how much, 0 for nothing. */
static ssize_t fill(struct stream *s)
{
	char piece[PIECE_SIZE];
	ssize_t n;

	if (buffer_size(&s->in) > STREAM_FRAME_MAX)
		return -EMSGSIZE;
	do
		n = recv(s->fd, piece, sizeof(piece), MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;
	return buffer_add(&s->in, piece, (size_t)n) < 0 ? -ENOMEM : n;
}

int stream_next(struct stream *s, int64_t deadline, const char **ret_frame, size_t *ret_size)
{
	const char *end;
	ssize_t r;

	push(s);
	buffer_drop(&s->in, s->returned);
	s->returned = 0;
	while (!(end = find_end(s))) {
		r = fill(s);
		if (r == 0) {
			r = await(s, POLLIN, deadline);
			push(s);
		}
		if (r < 0)
			return (int)r;
	}
	*ret_frame = buffer_bytes(&s->in);
	*ret_size = (size_t)(end - *ret_frame);
	s->returned = *ret_size + 1;
	return 0;
}
