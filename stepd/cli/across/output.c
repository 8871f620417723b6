/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/across/output.h"

#include <assert.h>
#include <ev.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/control/buffer.h"

#define FULL_AT  (1u << 20) /* bytes that wait */
#define EMPTY_AT (256u << 10)

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
	ev_timer patience;
};

/* ---- to the reader ------------------------------------------------------------------------ */

static void fail(struct output *o, int error)
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

static void on_room(struct ev_loop *loop, ev_io *w, int revents)
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
		fail(o, -errno);
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

static void enqueue(struct output *o, const void *bytes, size_t size)
{
	if (o->failed || size == 0)
		return;
	if (buffer_add(&o->queue, bytes, size) < 0) {
		fail(o, -ENOMEM);
		return;
	}
	ev_io_start(o->loop, &o->io);
	if (!o->full && buffer_size(&o->queue) > FULL_AT) {
		o->full = true;
		o->events->full(true, o->userdata);
	}
}

/* ---- from a node -------------------------------------------------------------------------- */

static void flush(struct output_source *s)
{
	ev_timer_stop(s->output->loop, &s->patience);
	enqueue(s->output, buffer_bytes(&s->begun), buffer_size(&s->begun));
	buffer_clear(&s->begun);
}

static void on_patience(struct ev_loop *loop, ev_timer *w, int revents)
{
	assert(w->data);
	(void)loop;
	(void)revents;
	flush(w->data);
}

void output_write(struct output_source *s, const void *bytes, size_t size)
{
	const char *begin = bytes, *newline = memrchr(bytes, '\n', size);
	size_t whole = newline ? (size_t)(newline - begin) + 1 : 0;

	if (s->output->failed)
		return;
	if (whole) {
		flush(s);
		enqueue(s->output, begin, whole);
		size -= whole;
	}
	if (size == 0)
		return;
	if (buffer_add(&s->begun, begin + whole, size) < 0) {
		flush(s);
		enqueue(s->output, begin + whole, size);
	} else if (buffer_size(&s->begun) > OUTPUT_LINE_MOST) {
		flush(s);
	} else if (!ev_is_active(&s->patience)) {
		ev_timer_set(&s->patience, OUTPUT_PATIENCE_MS / 1e3, 0.);
		ev_timer_start(s->output->loop, &s->patience);
	}
}

void output_end_source(struct output_source *s)
{
	flush(s);
}

/* ---- life --------------------------------------------------------------------------------- */

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
	ev_io_init(&o->io, on_room, fd, EV_WRITE);
	o->io.data = o;
	return o;
}

struct output_source *output_add_source(struct output *o)
{
	struct output_source *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->output = o;
	ev_timer_init(&s->patience, on_patience, 0., 0.);
	s->patience.data = s;
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
	ev_timer_stop(s->output->loop, &s->patience);
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
