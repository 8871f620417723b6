/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/pump.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "stepd/base/log.h"
#include "stepd/stdio/pump_impl.h"
#include "stepd/stdio/sink.h"

/* ---- a task's bytes to the destination ------------------------------------------------------- */

static bool has_line(struct pump_source *src)
{
	if (src->fd < 0 || src->size == PUMP_LINE_SIZE)
		return true;
	if (memchr(src->buf + src->start + src->seen, '\n', src->size - src->seen))
		return true;
	src->seen = src->size;
	return false;
}

static bool begin_line(struct pump_source *src)
{
	struct pump_dest *dest = src->dest;

	if (dest->owner || sink_room(dest->sink) <= PUMP_LABEL_SIZE)
		return false;
	if (dest->mid_line)
		sink_put(dest->sink, "\n", 1);
	sink_put(dest->sink, src->label, src->label_size);
	dest->mid_line = true;
	dest->owner = src;
	return true;
}

/* As much of the owner's line as there is, and room for. */
static void put_line(struct pump_source *src)
{
	struct pump_dest *dest = src->dest;
	const char *p = src->buf + src->start;
	size_t n = src->size, room = sink_room(dest->sink);
	const char *end;

	if (n > room)
		n = room;
	end = memchr(p, '\n', n);
	if (end)
		n = (size_t)(end + 1 - p);
	sink_put(dest->sink, p, n);
	src->start += n;
	src->size -= n;
	src->seen = 0;
	if (end) {
		dest->owner = NULL;
		dest->mid_line = false;
	}
}

static void forget(struct pump_source *src)
{
	if (src->dest->owner == src)
		src->dest->owner = NULL;
	src->size = 0;
	src->seen = 0;
}

/* As it comes. */
static bool move_raw(struct pump_source *src)
{
	struct pump_dest *dest = src->dest;
	const char *p;
	size_t n;

	while (src->size > 0) {
		n = sink_room(dest->sink);
		if (n == 0)
			return false;
		if (n > src->size)
			n = src->size;
		p = src->buf + src->start;
		sink_put(dest->sink, p, n);
		dest->mid_line = p[n - 1] != '\n'; /* for the agent's own lines */
		src->start += n;
		src->size -= n;
	}
	return true;
}

static bool move_lines(struct pump_source *src)
{
	struct pump_dest *dest = src->dest;

	while (src->size > 0) {
		if (dest->owner != src && !has_line(src))
			return true;
		if (dest->owner != src && !begin_line(src))
			return false;
		if (sink_room(dest->sink) == 0)
			return false;
		put_line(src);
	}
	return true;
}

/* Moves what can go. False: something could go, but not now. */
static bool move(struct pump_source *src)
{
	struct pump_dest *dest = src->dest;

	if (sink_failed(dest->sink))
		forget(src);
	if (!(dest->pump->raw ? move_raw(src) : move_lines(src)))
		return false;
	if (src->size == 0) {
		free(src->buf);
		src->buf = NULL;
		src->start = 0;
	}
	return true;
}

/* ---- from the pipe --------------------------------------------------------------------------- */

static void close_source(struct pump_source *src)
{
	ev_io_stop(src->dest->pump->loop, &src->io);
	src->fd = close_fd(src->fd);
	pump_copy_end(src);
}

static bool make_space(struct pump_source *src)
{
	if (!src->buf)
		src->buf = malloc(PUMP_LINE_SIZE);
	if (!src->buf)
		return false;
	if (src->start > 0)
		memmove(src->buf, src->buf + src->start, src->size);
	src->start = 0;
	return true;
}

/* One read. False: there is nothing now. */
static bool fill(struct pump_source *src)
{
	struct pump *pump = src->dest->pump;
	size_t want;
	ssize_t n;

	if (!make_space(src)) {
		log_warning(pump->log, "out of memory; the rest of rank %u's output is lost",
			src->rank);
		close_source(src);
		return true;
	}
	want = PUMP_LINE_SIZE - src->size;
	if (pump->finishing && want > (size_t)src->left)
		want = (size_t)src->left;
	do
		n = want > 0 ? read(src->fd, src->buf + src->size, want) : 0;
	while (n < 0 && errno == EINTR);
	if (n > 0) {
		pump_copy_bytes(src, src->buf + src->size, (size_t)n);
		src->size += (size_t)n;
		src->left -= pump->finishing ? (int)n : 0;
		return true;
	}
	if (n < 0 && errno == EAGAIN)
		return false;
	close_source(src);
	return true;
}

static void end_source(struct pump_source *src)
{
	struct pump_dest *dest = src->dest;

	if (dest->owner == src)
		dest->owner = NULL;
	src->ended = true;
	dest->sources--;
}

static void wait_for_dest(struct pump_source *src)
{
	struct pump_dest *dest = src->dest;

	ev_io_stop(dest->pump->loop, &src->io);
	src->waiting = true;
	if (dest->owner == src)
		return; /* the next anyway */
	src->next_waiting = NULL;
	*dest->last_waiting = src;
	dest->last_waiting = &src->next_waiting;
}

static void run(struct pump_source *src, bool may_read)
{
	struct pump *pump = src->dest->pump;

	for (;;) {
		if (!move(src)) {
			wait_for_dest(src);
			return;
		}
		if (src->fd < 0) {
			end_source(src);
			return;
		}
		if (!may_read || !fill(src))
			break;
		may_read = pump->finishing; /* else the others' turn */
	}
	if (src->size == 0) {
		free(src->buf);
		src->buf = NULL;
	}
	ev_io_start(pump->loop, &src->io);
}

/* ---- destinations ---------------------------------------------------------------------------- */

static struct pump_source *take_waiting(struct pump_dest *dest)
{
	struct pump_source *src = dest->owner ? dest->owner : dest->first_waiting;

	if (!src || !src->waiting || sink_pending(dest->sink) > SINK_SIZE / 2)
		return NULL;
	src->waiting = false;
	if (src == dest->owner)
		return src;
	dest->first_waiting = src->next_waiting;
	if (!dest->first_waiting)
		dest->last_waiting = &dest->first_waiting;
	return src;
}

/* Lets go on who can, and sees to the timer and to the destination's end. */
static void serve(struct pump_dest *dest)
{
	struct pump *pump = dest->pump;
	struct pump_source *src;

	if (dest->settled)
		return;
	sink_flush(dest->sink);
	while ((src = take_waiting(dest))) {
		run(src, pump->finishing);
		sink_flush(dest->sink);
	}
	if (!dest->owner || dest->owner->waiting || !dest->first_waiting)
		ev_timer_stop(pump->loop, &dest->idle);
	else if (!ev_is_active(&dest->idle))
		ev_timer_again(pump->loop, &dest->idle);
	if (dest->sources == 0 && sink_pending(dest->sink) == 0) {
		dest->settled = true;
		pump->unsettled--;
		sink_close(dest->sink);
	}
}

static void call_done(struct pump *pump)
{
	pump_done_fn done = pump->done;

	if (!pump->finishing || !done || pump->unsettled > 0)
		return;
	pump->done = NULL;
	done(pump->userdata); /* may have freed the pump */
}

static void on_readable(struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct pump_source *src = io->data;
	struct pump_dest *dest = src->dest;

	if (dest->owner == src)
		ev_timer_stop(loop, &dest->idle);
	run(src, true);
	serve(dest);
	call_done(dest->pump);
}

static void on_room(void *userdata)
{
	struct pump_dest *dest = userdata;

	serve(dest);
	call_done(dest->pump);
}

static void on_idle(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct pump_dest *dest = timer->data;
	struct pump_source *owner = dest->owner;
	int unread = 0;

	assert(owner && !owner->waiting);
	ev_timer_stop(dest->pump->loop, timer);
	/* Bytes that came together with this event are no pause. */
	if (ioctl(owner->fd, FIONREAD, &unread) < 0 || unread == 0)
		dest->owner = NULL;
	serve(dest);
	call_done(dest->pump);
}

/* ---- life ------------------------------------------------------------------------------------ */

int pump_new(struct ev_loop *loop, const struct log *log, uint32_t rank_max, struct pump **ret_pump)
{
	struct pump *pump = calloc(1, sizeof(*pump));

	if (!pump)
		return -ENOMEM;
	pump->loop = loop;
	pump->log = log;
	pump->last_source = &pump->sources;
	pump->label_width = snprintf(NULL, 0, "%u", rank_max);
	*ret_pump = pump;
	return 0;
}

void pump_set_raw(struct pump *pump)
{
	assert(!pump->sources);
	pump->raw = true;
}

void pump_take_dest(struct pump *pump, struct pump_dest *dest)
{
	sink_on_room(dest->sink, on_room, dest);
	ev_timer_init(&dest->idle, on_idle, 0., PUMP_IDLE_S);
	dest->idle.data = dest;
	dest->pump = pump;
	dest->last_waiting = &dest->first_waiting;
	dest->next = pump->dests;
	pump->dests = dest;
}

void pump_wait_for_dest(struct pump_source *src)
{
	wait_for_dest(src);
}

int pump_add_dest(
	struct pump *pump, int fd, bool own, const char *name, struct pump_dest **ret_dest)
{
	_cleanup_free_ struct pump_dest *dest = calloc(1, sizeof(*dest));
	int r;

	if (!dest) {
		if (own)
			(void)close_fd(fd);
		return -ENOMEM;
	}
	r = sink_new(pump->loop, pump->log, fd, own, name, &dest->sink);
	if (r < 0)
		return r;
	pump_take_dest(pump, dest);
	*ret_dest = take_ptr(dest);
	return 0;
}

int pump_add_source_take(
	struct pump *pump, int fd, uint32_t rank, int stream, struct pump_dest *dest)
{
	struct pump_source *src = calloc(1, sizeof(*src));

	if (!src) {
		(void)close_fd(fd);
		return -ENOMEM;
	}
	src->fd = fd;
	src->rank = rank;
	src->stream = stream;
	src->label_size =
		(size_t)snprintf(src->label, sizeof(src->label), "%*u: ", pump->label_width, rank);
	src->dest = dest;
	ev_io_init(&src->io, on_readable, fd, EV_READ);
	src->io.data = src;
	*pump->last_source = src;
	pump->last_source = &src->next;
	dest->sources++;
	if (!dest->counted)
		pump->unsettled++;
	dest->counted = true;
	if (pump->started)
		ev_io_start(pump->loop, &src->io);
	return 0;
}

void pump_start(struct pump *pump)
{
	struct pump_source *src;

	pump->started = true;
	for (src = pump->sources; src; src = src->next)
		ev_io_start(pump->loop, &src->io);
}

bool pump_has_ended(const struct pump_dest *dest)
{
	return dest->settled || sink_failed(dest->sink);
}

int pump_put_note(struct pump_dest *dest, const char *line, size_t size)
{
	struct pump_source *owner;

	if (dest->settled || sink_failed(dest->sink))
		return -EPIPE;
	if (sink_room(dest->sink) <= size)
		return -EAGAIN;
	if (dest->mid_line)
		sink_put(dest->sink, "\n", 1);
	sink_put(dest->sink, line, size);
	dest->mid_line = false;
	owner = take_ptr(dest->owner);
	if (owner && owner->waiting)
		wait_for_dest(owner);
	serve(dest);
	return sink_failed(dest->sink) ? -EPIPE : 0;
}

void pump_finish(struct pump *pump, pump_done_fn done, void *userdata)
{
	struct pump_source *src;

	assert(done && !pump->finishing);
	pump->finishing = true;
	pump->done = done;
	pump->userdata = userdata;
	for (src = pump->sources; src; src = src->next) {
		if (src->fd >= 0 && ioctl(src->fd, FIONREAD, &src->left) < 0)
			src->left = 0;
	}
	for (src = pump->sources; src; src = src->next) {
		if (src->ended || src->waiting)
			continue;
		run(src, true);
		serve(src->dest);
	}
	call_done(pump);
}

static void free_source(struct pump *pump, struct pump_source *src)
{
	ev_io_stop(pump->loop, &src->io);
	(void)close_fd(src->fd);
	free(src->buf);
	free(src);
}

static void free_dest(struct pump *pump, struct pump_dest *dest)
{
	ev_timer_stop(pump->loop, &dest->idle);
	(void)sink_free(dest->sink);
	free(dest);
}

bool pump_has_lost(const struct pump *pump)
{
	const struct pump_dest *dest;

	for (dest = pump->dests; dest; dest = dest->next) {
		if (sink_has_lost(dest->sink))
			return true;
	}
	return false;
}

struct pump *pump_free(struct pump *pump)
{
	struct pump_source *src;
	struct pump_dest *dest;

	if (!pump)
		return NULL;
	while ((src = pump->sources)) {
		pump->sources = src->next;
		free_source(pump, src);
	}
	while ((dest = pump->dests)) {
		pump->dests = dest->next;
		free_dest(pump, dest);
	}
	free(pump);
	return NULL;
}
