/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/across/streams.h"

#include <assert.h>
#include <ev.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/base/buffer.h"

#define READ_SIZE 16384u
#define FULL_AT   (1u << 20) /* bytes that wait */
#define EMPTY_AT  (256u << 10)

/* ---- input -------------------------------------------------------------------------------- */

struct input {
	struct ev_loop *loop;
	int fd;
	ev_io io;
	uint64_t sent, taken;
	bool ended;
	const struct input_events *events;
	void *userdata;
};

static void input_end(struct input *in)
{
	input_stop(in);
	in->events->end(in->userdata);
}

static void on_input_readable(struct ev_loop *loop, ev_io *w, int revents)
{
	struct input *in = w->data;
	char bytes[READ_SIZE];
	ssize_t n;

	assert(in);
	(void)revents;
	n = read(in->fd, bytes, sizeof(bytes));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) { /* a terminal in the background, too: EIO */
		input_end(in);
		return;
	}
	in->sent += (uint64_t)n;
	if (in->sent - in->taken + READ_SIZE > INPUT_WINDOW)
		ev_io_stop(loop, w);
	in->events->bytes(bytes, (size_t)n, in->userdata);
}

struct input *input_new(
	struct ev_loop *loop, int fd, const struct input_events *events, void *userdata)
{
	struct input *in = calloc(1, sizeof(*in));

	if (!in)
		return NULL;
	in->loop = loop;
	in->fd = fd;
	in->events = events;
	in->userdata = userdata;
	ev_io_init(&in->io, on_input_readable, fd, EV_READ);
	in->io.data = in;
	ev_io_start(loop, &in->io);
	return in;
}

void input_taken(struct input *in, uint64_t total)
{
	in->taken = total < in->sent ? total : in->sent;
	if (!in->ended && in->sent - in->taken + READ_SIZE <= INPUT_WINDOW)
		ev_io_start(in->loop, &in->io);
}

void input_stop(struct input *in)
{
	in->ended = true;
	ev_io_stop(in->loop, &in->io);
}

struct input *input_free(struct input *in)
{
	if (!in)
		return NULL;
	ev_io_stop(in->loop, &in->io);
	free(in);
	return NULL;
}

/* ---- output ------------------------------------------------------------------------------- */

struct output {
	struct ev_loop *loop;
	int fd;
	bool blocks; /* no regular file: what a write may take without waiting is PIPE_BUF */
	bool full, failed;
	struct buffer queue;
	ev_io io;
	const struct output_events *events;
	void *userdata;
};

struct output_source {
	struct output *output;
	struct buffer begun; /* a line without its end */
	ev_timer timeout;
};

static void output_fail(struct output *o, int error)
{
	o->failed = true;
	buffer_clear(&o->queue);
	ev_io_stop(o->loop, &o->io);
	if (o->full) {
		o->full = false;
		o->events->full(false, o->userdata);
	}
	o->events->failed(error, o->userdata);
	o->events->empty(o->userdata);
}

static void on_output_writable(struct ev_loop *loop, ev_io *w, int revents)
{
	struct output *o = w->data;
	size_t size;
	ssize_t n;

	assert(o);
	(void)loop;
	(void)revents;
	size = buffer_size(&o->queue);
	if (o->blocks && size > PIPE_BUF)
		size = PIPE_BUF;
	n = write(o->fd, buffer_bytes(&o->queue), size);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		output_fail(o, -errno);
		return;
	}
	buffer_drop(&o->queue, n > 0 ? (size_t)n : 0);
	if (o->full && buffer_size(&o->queue) <= EMPTY_AT) {
		o->full = false;
		o->events->full(false, o->userdata);
	}
	if (buffer_size(&o->queue) == 0) {
		ev_io_stop(o->loop, &o->io);
		o->events->empty(o->userdata);
	}
}

static void output_enqueue(struct output *o, const void *bytes, size_t size)
{
	if (o->failed || size == 0)
		return;
	if (buffer_add(&o->queue, bytes, size) < 0) {
		output_fail(o, -ENOMEM);
		return;
	}
	ev_io_start(o->loop, &o->io);
	if (!o->full && buffer_size(&o->queue) > FULL_AT) {
		o->full = true;
		o->events->full(true, o->userdata);
	}
}

static void source_flush(struct output_source *s)
{
	ev_timer_stop(s->output->loop, &s->timeout);
	output_enqueue(s->output, buffer_bytes(&s->begun), buffer_size(&s->begun));
	buffer_clear(&s->begun);
}

static void on_line_timeout(struct ev_loop *loop, ev_timer *w, int revents)
{
	assert(w->data);
	(void)loop;
	(void)revents;
	source_flush(w->data);
}

void output_write(struct output_source *s, const void *bytes, size_t size)
{
	const char *begin = bytes, *newline = memrchr(bytes, '\n', size);
	size_t whole = newline ? (size_t)(newline - begin) + 1 : 0;

	if (s->output->failed)
		return;
	if (whole) {
		source_flush(s);
		output_enqueue(s->output, begin, whole);
		size -= whole;
	}
	if (size == 0)
		return;
	if (buffer_add(&s->begun, begin + whole, size) < 0) {
		source_flush(s);
		output_enqueue(s->output, begin + whole, size);
	} else if (buffer_size(&s->begun) > OUTPUT_LINE_MAX) {
		source_flush(s);
	} else if (!ev_is_active(&s->timeout)) {
		ev_timer_set(&s->timeout, OUTPUT_TIMEOUT_MS / 1e3, 0.);
		ev_timer_start(s->output->loop, &s->timeout);
	}
}

void output_end_source(struct output_source *s)
{
	source_flush(s);
}

struct output *output_new(
	struct ev_loop *loop, int fd, const struct output_events *events, void *userdata)
{
	struct output *o = calloc(1, sizeof(*o));
	struct stat st;

	if (!o)
		return NULL;
	o->loop = loop;
	o->fd = fd;
	o->blocks = fstat(fd, &st) < 0 || !S_ISREG(st.st_mode);
	o->events = events;
	o->userdata = userdata;
	ev_io_init(&o->io, on_output_writable, fd, EV_WRITE);
	o->io.data = o;
	return o;
}

struct output_source *output_add_source(struct output *o)
{
	struct output_source *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->output = o;
	ev_timer_init(&s->timeout, on_line_timeout, 0., 0.);
	s->timeout.data = s;
	return s;
}

bool output_is_empty(const struct output *o)
{
	return buffer_size(&o->queue) == 0;
}

struct output_source *output_source_free(struct output_source *s)
{
	if (!s)
		return NULL;
	ev_timer_stop(s->output->loop, &s->timeout);
	buffer_clear(&s->begun);
	free(s);
	return NULL;
}

struct output *output_free(struct output *o)
{
	if (!o)
		return NULL;
	ev_io_stop(o->loop, &o->io);
	buffer_clear(&o->queue);
	free(o);
	return NULL;
}
