/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/relay/channel.h"

#include <assert.h>
#include <ev.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>

#include "stepd/base/base64.h"
#include "stepd/base/buffer.h"
#include "stepd/base/parse.h"
#include "stepd/process/process.h"

#define MARK      "@stepd "
#define READ_SIZE 65536u
#define NODE_MAX  (CHANNEL_ALL - 1)
#define PUSHES    16 /* before other watchers of the loop are served */

struct channel {
	struct ev_loop *loop;
	int in_fd, out_fd;
	ev_io reads, writes;
	struct buffer out;
	char line[CHANNEL_LINE_MAX + 1]; /* the beginning of one */
	size_t line_size;
	bool cut; /* it is longer than any line of the channel, and was reported in part */
	const struct channel_events *events;
	void *userdata;
	bool finished;  /* nothing more is sent */
	bool no_memory; /* for a line: channel_on_writable() ends the channel */
};

/* In place. False: it is foreign. */
static bool channel_parse(char *text, struct channel_line *ret_line)
{
	struct channel_line line = {.node = CHANNEL_ALL};
	char *node, *verb, *rest;

	if (strncmp(text, MARK, strlen(MARK)) != 0)
		return false;
	node = text + strlen(MARK);
	verb = strchr(node, ' ');
	if (!verb || !verb[1] || verb[1] == ' ')
		return false;
	*verb++ = '\0';
	if (strcmp(node, "*") != 0 && parse_u32(node, 0, NODE_MAX, &line.node) < 0) {
		verb[-1] = ' ';
		return false;
	}
	rest = strchr(verb, ' ');
	if (rest)
		*rest++ = '\0';
	line.verb = verb;
	line.text = rest ? rest : verb + strlen(verb);
	*ret_line = line;
	return true;
}

/* ---- reading ------------------------------------------------------------------------------- */

static void channel_end(struct channel *c)
{
	ev_io_stop(c->loop, &c->reads);
	ev_io_stop(c->loop, &c->writes);
	buffer_clear(&c->out);
	c->finished = true;
	c->events->end(c->userdata);
}

static void channel_read_line(struct channel *c, char *text, size_t size, bool cut)
{
	struct channel_line line;

	if (size > 0 && text[size - 1] == '\r') /* of a launcher with a terminal */
		size--;
	text[size] = '\0';
	if (!cut && strlen(text) == size && channel_parse(text, &line))
		c->events->line(&line, c->userdata);
	else if (c->events->foreign && size > 0)
		c->events->foreign(text, size, c->userdata);
}

static void channel_read_bytes(struct channel *c, const char *bytes, size_t size)
{
	const char *newline;
	size_t piece;
	bool cut;

	while (size > 0) {
		newline = memchr(bytes, '\n', size);
		piece = newline ? (size_t)(newline - bytes) : size;
		if (piece >= sizeof(c->line) - 1 -
				c->line_size) { /* there is no space for the newline */
			piece = sizeof(c->line) - 1 - c->line_size;
			newline = NULL;
		}
		memcpy(c->line + c->line_size, bytes, piece);
		c->line_size += piece;
		bytes += piece + (newline != NULL);
		size -= piece + (newline != NULL);
		if (newline || c->line_size == sizeof(c->line) - 1) {
			piece = c->line_size;
			c->line_size = 0;
			cut = c->cut || !newline;
			c->cut = !newline;
			channel_read_line(c, c->line, piece, cut);
		}
	}
}

static void channel_on_readable(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct channel *c = w->data;
	char bytes[READ_SIZE];
	ssize_t n;

	assert(c);
	n = read(c->in_fd, bytes, sizeof(bytes));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		channel_read_bytes(c, bytes, (size_t)n);
	else
		channel_end(c);
}

void channel_pause(struct channel *c, bool pause)
{
	if (pause)
		ev_io_stop(c->loop, &c->reads);
	else
		ev_io_start(c->loop, &c->reads);
}

/* ---- writing ------------------------------------------------------------------------------- */

static void channel_close_out(struct channel *c)
{
	ev_io_stop(c->loop, &c->writes);
	c->out_fd = close_fd(c->out_fd);
}

/* Relays of one launcher may share a pipe, which divides what is longer than PIPE_BUF where it is
 * nearly full: whole lines, no more. */
static size_t count_whole(const struct channel *c)
{
	const char *bytes = buffer_bytes(&c->out);
	size_t size = buffer_size(&c->out);

	if (size <= PIPE_BUF)
		return size;
	/* There always is one: a line is much shorter. */
	for (size = PIPE_BUF; size > 1 && bytes[size - 1] != '\n'; size--)
		;
	return size;
}

/* False: nothing more at the moment. */
static bool channel_push(struct channel *c)
{
	ssize_t n;

	n = write(c->out_fd, buffer_bytes(&c->out), count_whole(c));
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		/* Reads what the other end has written before it was closed. */
		buffer_clear(&c->out);
		channel_close_out(c);
		if (c->events->broken)
			c->events->broken(c->userdata);
		return false;
	}
	buffer_drop(&c->out, n > 0 ? (size_t)n : 0);
	if (buffer_size(&c->out) > 0)
		return n > 0;
	ev_io_stop(c->loop, &c->writes);
	if (c->finished)
		channel_close_out(c);
	if (c->events->drained)
		c->events->drained(c->userdata);
	return false;
}

static void channel_on_writable(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct channel *c = w->data;
	int i;

	assert(c);
	if (c->no_memory) {
		channel_end(c);
		return;
	}
	for (i = 0; i < PUSHES && channel_push(c); i++)
		; /* the loop comes again */
}

void channel_flush(struct channel *c)
{
	while (c->out_fd >= 0 && buffer_size(&c->out) > 0 && channel_push(c))
		;
}

void channel_send(struct channel *c, uint32_t node, const char *verb, const char *text)
{
	char line[CHANNEL_LINE_MAX + 1], number[16] = "*";
	int n;

	if (c->out_fd < 0 || c->finished || c->no_memory)
		return;
	if (node != CHANNEL_ALL)
		(void)snprintf(number, sizeof(number), "%u", node);
	n = snprintf(line, sizeof(line), MARK "%s %s%s%s\n", number, verb, *text ? " " : "", text);
	assert(n > 0 && (size_t)n <= CHANNEL_LINE_MAX);
	ev_io_start(c->loop, &c->writes);
	if (buffer_add(&c->out, line, (size_t)n) < 0) {
		c->no_memory = true;
		ev_feed_event(c->loop, &c->writes, EV_WRITE); /* best effort */
	}
}

void channel_sendf(struct channel *c, uint32_t node, const char *verb, const char *fmt, ...)
{
	char text[CHANNEL_LINE_MAX - 64];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	channel_send(c, node, verb, text);
}

void channel_send_bytes(
	struct channel *c, uint32_t node, const char *verb, const void *bytes, size_t size)
{
	char text[BASE64_SIZE(CHANNEL_PIECE_MAX) + 1];
	const char *p = bytes;
	size_t piece;

	for (; size > 0; size -= piece) {
		piece = size < CHANNEL_PIECE_MAX ? size : CHANNEL_PIECE_MAX;
		base64_encode(p, piece, text);
		channel_send(c, node, verb, text);
		p += piece;
	}
}

ssize_t channel_get_bytes(const struct channel_line *line)
{
	ssize_t n = base64_decode(line->text, strlen(line->text), line->text);

	if (n >= 0)
		line->text[n] = '\0';
	return n;
}

size_t channel_queued(const struct channel *c)
{
	return buffer_size(&c->out);
}

void channel_finish(struct channel *c)
{
	c->finished = true;
	if (buffer_size(&c->out) == 0 && c->out_fd >= 0)
		channel_close_out(c);
}

/* ---- life ---------------------------------------------------------------------------------- */

int channel_new_take(struct ev_loop *loop, int in_fd, int out_fd,
	const struct channel_events *events, void *userdata, struct channel **ret_channel)
{
	struct channel *c = calloc(1, sizeof(*c));
	int r = c ? stdfd_set_nonblock(in_fd, true) : -ENOMEM;

	if (r == 0)
		r = stdfd_set_nonblock(out_fd, true);
	if (r < 0) {
		free(c);
		(void)close_fd(out_fd);
		(void)close_fd(in_fd);
		return r;
	}
	*c = (struct channel){.loop = loop,
		.in_fd = in_fd,
		.out_fd = out_fd,
		.events = events,
		.userdata = userdata};
	ev_io_init(&c->reads, channel_on_readable, in_fd, EV_READ);
	c->reads.data = c;
	ev_io_init(&c->writes, channel_on_writable, out_fd, EV_WRITE);
	c->writes.data = c;
	ev_io_start(loop, &c->reads);
	*ret_channel = c;
	return 0;
}

struct channel *channel_free(struct channel *c)
{
	if (!c)
		return NULL;
	ev_io_stop(c->loop, &c->reads);
	channel_close_out(c);
	(void)close_fd(c->in_fd);
	buffer_clear(&c->out);
	free(c);
	return NULL;
}
