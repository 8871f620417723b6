/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/client/stream.h"

#include <assert.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "stepd/base/clock.h"

#define IN_FIRST    4096u
#define IN_RETAINED (1u << 20) /* of the buffer, from one answer to the next */
#define NSEC_MSEC   1000000

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
	free(s->in);
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

	if (s->in_at < s->in_end)
		return true;
	do
		n = recv(s->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

/* The frame that is there whole. */
static bool cut_frame(struct stream *s, const char **ret_frame, size_t *ret_size)
{
	const char *end = NULL;

	if (s->in_seen < s->in_end)
		end = memchr(s->in + s->in_seen, '\0', s->in_end - s->in_seen);
	if (!end) {
		s->in_seen = s->in_end;
		return false;
	}
	*ret_frame = s->in + s->in_at;
	*ret_size = (size_t)(end - *ret_frame);
	s->in_at = s->in_seen = (size_t)(end - s->in) + 1;
	return true;
}

/* Moves what is there to the beginning. */
static void close_up(struct stream *s)
{
	if (s->in_at == 0)
		return;
	memmove(s->in, s->in + s->in_at, s->in_end - s->in_at);
	s->in_end -= s->in_at;
	s->in_seen -= s->in_at;
	s->in_at = 0;
	if (s->in_end == 0 && s->in_capacity > IN_RETAINED) {
		free(s->in);
		s->in = NULL;
		s->in_capacity = 0;
	}
}

static int stream_reserve(struct stream *s)
{
	size_t capacity = s->in_capacity == 0 ? IN_FIRST : s->in_capacity * 2;
	char *grown;

	close_up(s);
	if (s->in_end < s->in_capacity)
		return 0;
	if (s->in_end > STREAM_FRAME_MAX)
		return -EMSGSIZE;
	if (capacity > STREAM_FRAME_MAX + 1)
		capacity = STREAM_FRAME_MAX + 1; /* and the NUL */
	grown = realloc(s->in, capacity);
	if (!grown)
		return -ENOMEM;
	s->in = grown;
	s->in_capacity = capacity;
	return 0;
}

/* Reads what has come: 0, also for nothing. */
static int fill(struct stream *s)
{
	ssize_t n;
	int r = stream_reserve(s);

	if (r < 0)
		return r;
	do
		n = recv(s->fd, s->in + s->in_end, s->in_capacity - s->in_end, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;
	s->in_end += (size_t)n;
	return 0;
}

int stream_next(struct stream *s, int64_t deadline, const char **ret_frame, size_t *ret_size)
{
	size_t before;
	int r;

	push(s);
	while (!cut_frame(s, ret_frame, ret_size)) {
		before = s->in_end - s->in_at;
		r = fill(s);
		if (r < 0)
			return r;
		if (s->in_end - s->in_at > before)
			continue;
		r = await(s, POLLIN, deadline);
		if (r < 0)
			return r;
		push(s);
	}
	return 0;
}
