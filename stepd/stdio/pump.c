/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/pump.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "stepd/base/err.h"
#include "stepd/snapshot/handover.h"
#include "stepd/stdio/attach.h"
#include "stepd/stdio/output.h"
#include "stepd/stdio/pty.h"
#include "stepd/stdio/pump_impl.h"

/* ---- a task's bytes to the destination ----------------------------------------------------- */

/* Whether ends of lines are to be written as a raw terminal needs them. */
static bool returns_carriage(const struct pump_source *src)
{
	return src->dest->crlf && !src->is_terminal;
}

/* Bytes that put_bytes() accepts now. */
static size_t source_space(const struct pump_source *src)
{
	size_t space = sink_space(src->dest->sink);

	return returns_carriage(src) ? space / 2 : space;
}

static void put_lines(struct pump_dest *dest, const char *p, size_t size)
{
	const char *end;

	while ((end = memchr(p, '\n', size))) {
		sink_put(dest->sink, p, (size_t)(end - p));
		sink_put(dest->sink, "\r\n", 2);
		size -= (size_t)(end + 1 - p);
		p = end + 1;
	}
	sink_put(dest->sink, p, size);
}

static void put_bytes(struct pump_source *src, const char *p, size_t size)
{
	size_t before = sink_pending(src->dest->sink);

	if (returns_carriage(src))
		put_lines(src->dest, p, size);
	else
		sink_put(src->dest->sink, p, size);
	pump_count_put(src->dest, src, before, size);
}

static void break_line(struct pump_dest *dest)
{
	sink_put(dest->sink, dest->crlf ? "\r\n" : "\n", dest->crlf ? 2 : 1);
}

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
	size_t before = sink_pending(dest->sink);

	if (dest->owner || sink_space(dest->sink) <= PUMP_LABEL_SIZE)
		return false;
	if (dest->mid_line)
		break_line(dest);
	sink_put(dest->sink, src->label, src->label_size);
	pump_count_put(dest, src, before, 0);
	dest->mid_line = true;
	dest->owner = src;
	return true;
}

/* Moves as much of the owner's line as is available and fits. */
static void put_line(struct pump_source *src)
{
	struct pump_dest *dest = src->dest;
	const char *p = src->buf + src->start;
	size_t n = src->size, space = source_space(src);
	const char *end;

	if (n > space)
		n = space;
	end = memchr(p, '\n', n);
	if (end)
		n = (size_t)(end + 1 - p);
	put_bytes(src, p, n);
	src->start += n;
	src->size -= n;
	src->seen = 0;
	if (end) {
		dest->owner = NULL;
		dest->mid_line = false;
	}
}

static void drop_bytes(struct pump_source *src)
{
	if (src->dest->owner == src)
		src->dest->owner = NULL;
	sink_count_lost(src->dest->sink, src->size);
	pump_count_written(src, src->size);
	src->size = 0;
	src->seen = 0;
}

/* Moves bytes unchanged. */
static bool move_raw(struct pump_source *src)
{
	struct pump_dest *dest = src->dest;
	const char *p;
	size_t n;

	while (src->size > 0) {
		n = source_space(src);
		if (n == 0)
			return false;
		if (n > src->size)
			n = src->size;
		p = src->buf + src->start;
		put_bytes(src, p, n);
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
		if (source_space(src) == 0)
			return false;
		put_line(src);
	}
	return true;
}

static void wait_for_dest(struct pump_source *src);

/* Where bytes have been lost, what follows begins a line: the rest of one whose begin is lost gets
 * a label of its own. */
static void mend_gap(struct pump_dest *dest)
{
	struct pump_source *owner;

	if (!sink_take_gap(dest->sink, &dest->mid_line))
		return;
	owner = take_ptr(dest->owner);
	if (owner && owner->waiting)
		wait_for_dest(owner);
}

/* Moves as much as possible. False: some bytes have to wait. */
static bool move_bytes(struct pump_source *src)
{
	struct pump_dest *dest = src->dest;

	if (sink_failed(dest->sink))
		drop_bytes(src);
	else if (!dest->pump->raw)
		mend_gap(dest);
	if (!(dest->pump->raw ? move_raw(src) : move_lines(src)))
		return false;
	if (src->size == 0) {
		free(src->buf);
		src->buf = NULL;
		src->start = 0;
	}
	return true;
}

/* ---- from the pipe ------------------------------------------------------------------------- */

void pump_on_closing(struct pump *pump, pump_closing_fn on_closing, void *userdata)
{
	pump->on_closing = on_closing;
	pump->closing_userdata = userdata;
}

static void announce_closing(const struct pump *pump, int fd)
{
	if (pump->on_closing && fd >= 0)
		pump->on_closing(fd, pump->closing_userdata);
}

static void close_source(struct pump_source *src)
{
	ev_io_stop(src->dest->pump->loop, &src->io);
	src->fd = close_fd(src->fd);
	pump_copy_end(src);
	attach_end(src->attached);
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

/* One read. False: nothing to read now. */
static bool read_source(struct pump_source *src)
{
	struct pump *pump = src->dest->pump;
	size_t want;
	ssize_t n;

	if (!make_space(src)) {
		log_warning(pump->log, "out of memory; the rest of rank %u's output is lost",
			src->rank);
		announce_closing(pump, src->fd);
		close_source(src);
		return true;
	}
	want = PUMP_LINE_SIZE - src->size;
	if (pump->finishing && want > (size_t)src->left)
		want = (size_t)src->left;
	pump_count_reading(src);
	do
		n = want > 0 ? read(src->fd, src->buf + src->size, want) : 0;
	while (n < 0 && errno == EINTR);
	pump_count_read(src, n > 0 ? (size_t)n : 0);
	if (n > 0) {
		pump_copy_bytes(src, src->buf + src->size, (size_t)n);
		attach_put(src->attached, src->buf + src->size, (size_t)n);
		src->size += (size_t)n;
		src->left -= pump->finishing ? (int)n : 0;
		if (src->is_terminal && pump->on_terminal)
			pump->on_terminal(src->rank, false, pump->terminal_userdata);
		return true;
	}
	if (n < 0 && errno == EAGAIN && !(src->is_pty && pump->finishing))
		return false;
	close_source(src); /* EIO: nobody has the pseudo-terminal open any more */
	return true;
}

static void end_source(struct pump_source *src)
{
	struct pump_dest *dest = src->dest;

	if (dest->owner == src)
		dest->owner = NULL;
	src->ended = true;
	dest->sources--;
	if (src->is_terminal && dest->pump->on_terminal)
		dest->pump->on_terminal(src->rank, true, dest->pump->terminal_userdata);
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

static void run_source(struct pump_source *src, bool may_read)
{
	struct pump *pump = src->dest->pump;

	for (;;) {
		if (!move_bytes(src)) {
			wait_for_dest(src);
			return;
		}
		if (src->fd < 0) {
			end_source(src);
			return;
		}
		if (!may_read || !read_source(src))
			break;
		may_read = pump->finishing; /* else the others' turn */
	}
	if (src->size == 0) {
		free(src->buf);
		src->buf = NULL;
	}
	ev_io_start(pump->loop, &src->io);
}

/* ---- destinations -------------------------------------------------------------------------- */

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

/* Moves bytes, then handles the timer and the destination's end. */
static void serve_dest(struct pump_dest *dest)
{
	struct pump *pump = dest->pump;
	struct pump_source *src;

	if (dest->settled)
		return;
	sink_flush(dest->sink);
	while ((src = take_waiting(dest))) {
		run_source(src, pump->finishing);
		sink_flush(dest->sink);
	}
	if (!dest->owner || dest->owner->waiting || !dest->first_waiting)
		ev_timer_stop(pump->loop, &dest->idle);
	else if (!ev_is_active(&dest->idle))
		ev_timer_again(pump->loop, &dest->idle);
	if (dest->sources == 0 && sink_pending(dest->sink) == 0) {
		dest->settled = true;
		pump->unsettled--;
		announce_closing(pump, sink_get_fd(dest->sink));
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

static void pump_on_readable(struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct pump_source *src = io->data;
	struct pump_dest *dest = src->dest;

	if (dest->owner == src)
		ev_timer_stop(loop, &dest->idle);
	run_source(src, true);
	serve_dest(dest);
	call_done(dest->pump);
}

static void on_space(void *userdata)
{
	struct pump_dest *dest = userdata;

	serve_dest(dest);
	call_done(dest->pump);
}

static void on_idle(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct pump_dest *dest = timer->data;
	struct pump_source *owner = dest->owner;
	int unread = 0;

	assert(owner && !owner->waiting);
	ev_timer_stop(dest->pump->loop, timer);
	/* Bytes that arrived together with this event mean the owner is not silent. */
	if (ioctl(owner->fd, FIONREAD, &unread) < 0 || unread == 0)
		dest->owner = NULL;
	serve_dest(dest);
	call_done(dest->pump);
}

/* ---- life ---------------------------------------------------------------------------------- */

int pump_new(struct ev_loop *loop, const struct log *log, struct copy *copy, uint32_t rank_max,
	bool raw, struct pump **ret_pump)
{
	struct pump *pump = calloc(1, sizeof(*pump));

	if (!pump)
		return -ENOMEM;
	pump->loop = loop;
	pump->log = log;
	pump->last_source = &pump->sources;
	pump->copy = copy;
	pump->label_width = snprintf(NULL, 0, "%u", rank_max);
	pump->raw = raw;
	*ret_pump = pump;
	return 0;
}

/* Takes dest over on success. */
static int attach_dest(struct pump *pump, struct pump_dest *dest)
{
	if (array_reserve(pump->dests, pump->dests_capacity, pump->dests_count + 1) < 0)
		return -ENOMEM;
	sink_on_space(dest->sink, on_space, dest);
	if (!pump->raw)
		sink_write_lines(dest->sink);
	ev_timer_init(&dest->idle, on_idle, 0., PUMP_IDLE_S);
	dest->idle.data = dest;
	dest->pump = pump;
	dest->last_waiting = &dest->first_waiting;
	dest->number = pump->dests_count;
	pump->dests[pump->dests_count++] = dest;
	return 0;
}

static struct pump_dest *free_dest(struct pump_dest *dest)
{
	(void)sink_free(dest->sink);
	buffer_clear(&dest->parts);
	free(dest);
	return NULL;
}
DEFINE_CLEANUP(struct pump_dest *, free_dest);

int pump_add_dest(
	struct pump *pump, int fd, bool own, const char *name, struct pump_dest **ret_dest)
{
	_cleanup_(free_dest_p) struct pump_dest *dest = calloc(1, sizeof(*dest));
	int r;

	if (!dest) {
		if (own)
			(void)close_fd(fd);
		return -ENOMEM;
	}
	r = sink_new(pump->loop, pump->log, fd, own, name, &dest->sink);
	if (r == 0)
		r = attach_dest(pump, dest);
	if (r < 0)
		return r;
	*ret_dest = take_ptr(dest);
	return 0;
}

void pump_describe_dest(struct pump_dest *dest, int stream, int64_t rank)
{
	sink_describe(dest->sink, stream, rank);
}

int pump_add_source_take(
	struct pump *pump, int fd, uint32_t rank, int stream, struct pump_dest *dest)
{
	struct pump_source *src = calloc(1, sizeof(*src));

	if (src && pump->attach)
		src->attached = attach_add_stream(pump->attach, rank, stream);
	if (!src || (pump->attach && !src->attached)) {
		free(src);
		(void)close_fd(fd);
		return -ENOMEM;
	}
	src->fd = fd;
	src->rank = rank;
	src->stream = stream;
	src->number = pump->sources_count++;
	src->label_size =
		(size_t)snprintf(src->label, sizeof(src->label), "%*u: ", pump->label_width, rank);
	src->dest = dest;
	ev_io_init(&src->io, pump_on_readable, fd, EV_READ);
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

int pump_add_pty_take(struct pump *pump, int fd, uint32_t rank, int stream, struct pump_dest *dest,
	bool is_terminal)
{
	struct pump_source **at = pump->last_source;
	int r = pump_add_source_take(pump, fd, rank, stream, dest);

	if (r < 0)
		return r;
	(*at)->is_pty = true;
	(*at)->is_terminal = is_terminal;
	return 0;
}

void pump_on_terminal(struct pump *pump, pump_terminal_fn on_terminal, void *userdata)
{
	pump->on_terminal = on_terminal;
	pump->terminal_userdata = userdata;
}

void pump_set_crlf(struct pump_dest *dest, bool crlf)
{
	dest->crlf = crlf;
}

void pump_set_attach(struct pump *pump, struct attach *attach)
{
	pump->attach = attach;
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
	size_t before = sink_pending(dest->sink);
	struct pump_source *owner;

	if (dest->settled || sink_failed(dest->sink))
		return -EPIPE;
	if (sink_space(dest->sink) <= (dest->crlf ? 2 * size + 1 : size))
		return -EAGAIN;
	if (dest->mid_line)
		break_line(dest);
	if (dest->crlf)
		put_lines(dest, line, size);
	else
		sink_put(dest->sink, line, size);
	pump_count_put(dest, NULL, before, 0);
	dest->mid_line = false;
	owner = take_ptr(dest->owner);
	if (owner && owner->waiting)
		wait_for_dest(owner);
	serve_dest(dest);
	if (sink_is_full(dest->sink))
		return -ENOSPC;
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
		if (src->is_pty) /* of some bytes FIONREAD does not know */
			src->left = PTY_HELD_MAX;
		else if (src->fd >= 0 && ioctl(src->fd, FIONREAD, &src->left) < 0)
			src->left = 0;
	}
	for (src = pump->sources; src; src = src->next) {
		if (src->ended || src->waiting)
			continue;
		run_source(src, true);
		serve_dest(src->dest);
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

void pump_each_loss(const struct pump *pump, pump_loss_fn fn, void *userdata)
{
	struct sink_loss loss;
	size_t i;

	for (i = 0; i < pump->dests_count; i++) {
		if (sink_has_lost(pump->dests[i]->sink, &loss))
			fn(&loss, userdata);
	}
}

struct pump *pump_free(struct pump *pump)
{
	struct pump_source *src;
	size_t i;

	if (!pump)
		return NULL;
	while ((src = pump->sources)) {
		pump->sources = src->next;
		free_source(pump, src);
	}
	for (i = 0; i < pump->dests_count; i++) {
		ev_timer_stop(pump->loop, &pump->dests[i]->idle);
		(void)free_dest(pump->dests[i]);
	}
	free(pump->dests);
	free(pump);
	return NULL;
}

/* ---- re-exec ------------------------------------------------------------------------------- */

int64_t pump_number_of(const struct pump_dest *dest)
{
	return dest ? (int64_t)dest->number : -1;
}

struct pump_dest *pump_get_dest(const struct pump *pump, int64_t number)
{
	return number >= 0 && number < (int64_t)pump->dests_count ? pump->dests[number] : NULL;
}

static void save_dest(const struct pump_dest *dest, struct handover *h, json_t *object)
{
	ev_timer *idle = (ev_timer *)&dest->idle; /* libev's signature lacks const */

	sink_save(dest->sink, h, handover_put_object(h, object, "sink"));
	handover_put_bool(h, object, "mid_line", dest->mid_line);
	handover_put_bool(h, object, "crlf", dest->crlf);
	handover_put_bool(h, object, "settled", dest->settled);
	if (handover_is_held(h))
		return;
	pump_counts_save(dest, h, object);
	if (ev_is_active(idle))
		handover_put_int(h, object, "idle_deadline_ns",
			handover_deadline_ns(ev_timer_remaining(dest->pump->loop, idle)));
}

static void save_source(const struct pump_source *src, struct handover *h, json_t *object)
{
	handover_put_int(h, object, "rank", src->rank);
	handover_put_int(h, object, "dest", pump_number_of(src->dest));
	handover_put_fd(h, object, "fd", src->fd);
	handover_put_bool(h, object, "ended", src->ended || (handover_is_held(h) && src->fd < 0));
	handover_put_int(h, object, "stream", src->stream);
	handover_put_bool(h, object, "pty", src->is_pty);
	handover_put_bool(h, object, "terminal", src->is_terminal);
	if (handover_is_held(h)) {
		handover_put_bool(h, object, "is_source", true); /* hold.c: of its descriptor */
		return;
	}
	if (src->copied) {
		handover_put_bool(h, object, "copied", true);
		handover_put_int(h, object, "lost", (int64_t)src->lost);
	}
	if (src->dest->owner == src)
		handover_put_bool(h, object, "owner", true);
	if (src->waiting)
		handover_put_int(h, object, "waits", src->dest->owner == src ? 0 : src->position);
	if (src->dest->pump->finishing)
		handover_put_int(h, object, "left", src->left);
	if (src->size > 0)
		handover_put_bytes(h, object, "bytes", src->buf + src->start, src->size);
}

/* Numbers the waiting sources by their positions in the queues, queue after queue. */
static void number_waiting(const struct pump *pump)
{
	struct pump_source *src;
	int64_t position = 0;
	size_t i;

	for (i = 0; i < pump->dests_count; i++) {
		for (src = pump->dests[i]->first_waiting; src; src = src->next_waiting)
			src->position = position++;
	}
}

void pump_save(const struct pump *pump, struct handover *h, json_t *object)
{
	json_t *dests = handover_put_array(h, object, "dests");
	json_t *sources = handover_put_array(h, object, "sources");
	const struct pump_source *src;
	size_t i;

	number_waiting(pump);
	handover_put_int(h, object, "label_width", pump->label_width);
	handover_put_bool(h, object, "finishing", pump->finishing);
	handover_put_bool(h, object, "raw", pump->raw);
	for (i = 0; i < pump->dests_count; i++)
		save_dest(pump->dests[i], h, handover_append_object(h, dests));
	for (src = pump->sources; src; src = src->next)
		save_source(src, h, handover_append_object(h, sources));
}

struct reading {
	struct pump *pump;
	const struct handover *h;
	struct pump_source **waiting; /* by their positions, some NULL */
	size_t waiting_count;
};

static int restore_dest(struct reading *rd, const json_t *object)
{
	_cleanup_(free_dest_p) struct pump_dest *dest = calloc(1, sizeof(*dest));
	int64_t deadline_ns = json_get_int(object, "idle_deadline_ns", -1);
	struct pump *pump = rd->pump;
	int r;

	if (!dest)
		return -ENOMEM;
	r = sink_restore(
		pump->loop, pump->log, rd->h, json_get_object(object, "sink"), &dest->sink);
	if (r == 0)
		r = pump_counts_restore(dest, rd->h, object);
	if (r == 0)
		r = attach_dest(pump, dest);
	if (r < 0)
		return r;
	dest->mid_line = json_get_bool(object, "mid_line", false);
	dest->crlf = json_get_bool(object, "crlf", false);
	dest->settled = json_get_bool(object, "settled", false);
	if (deadline_ns >= 0) {
		ev_now_update(pump->loop);
		ev_timer_set(&dest->idle, handover_left_sec(deadline_ns), PUMP_IDLE_S);
		ev_timer_start(pump->loop, &dest->idle);
	}
	(void)take_ptr(dest); /* the pump's */
	return 0;
}

static int restore_bytes(struct reading *rd, struct pump_source *src, const json_t *object)
{
	const char *bytes;
	size_t size = 0;

	bytes = handover_get_bytes(rd->h, object, "bytes", &size);
	if (!bytes || size == 0)
		return 0;
	if (size > PUMP_LINE_SIZE)
		return -EPROTO;
	src->buf = malloc(PUMP_LINE_SIZE);
	if (!src->buf)
		return -ENOMEM;
	memcpy(src->buf, bytes, size);
	src->size = size;
	return 0;
}

/* As for a new source, and then its progress. */
static int restore_source(struct reading *rd, const json_t *object)
{
	int64_t position = json_get_int(object, "waits", -1);
	struct pump *pump = rd->pump;
	struct pump_source **at = pump->last_source, *src;
	struct pump_dest *dest = pump_get_dest(pump, json_get_int(object, "dest", -1));
	int r;

	if (!dest || position >= (int64_t)rd->waiting_count)
		return -EPROTO;
	r = pump_add_source_take(pump, handover_get_fd(object, "fd"),
		(uint32_t)json_get_int(object, "rank", 0),
		(int)json_get_int(object, "stream", STDOUT_FILENO), dest);
	if (r < 0)
		return r;
	src = *at;
	src->is_pty = json_get_bool(object, "pty", false);
	src->is_terminal = json_get_bool(object, "terminal", false);
	src->left = (int)json_get_int(object, "left", 0);
	src->copied = json_get_bool(object, "copied", false);
	src->lost = (uint64_t)json_get_int(object, "lost", 0);
	src->ended = json_get_bool(object, "ended", false) ||
		(handover_is_held(rd->h) && src->fd < 0); /* dropped */
	if (src->ended)
		dest->sources--;
	else if (json_get_bool(object, "owner", false))
		dest->owner = src;
	r = restore_bytes(rd, src, object);
	if (r < 0 || src->ended)
		return r;
	if (position < 0 && src->fd < 0)
		return -EPROTO;
	if (position < 0)
		ev_io_start(pump->loop, &src->io);
	else if (dest->owner == src)
		src->waiting = true;
	else
		rd->waiting[position] = src;
	return 0;
}

/* They are queued again in their former order. */
static void queue_again(const struct reading *rd)
{
	size_t i;

	for (i = 0; i < rd->waiting_count; i++) {
		if (rd->waiting[i])
			wait_for_dest(rd->waiting[i]);
	}
}

static int restore_all(struct reading *rd, const json_t *object)
{
	const json_t *dests = json_get_array(object, "dests");
	const json_t *sources = json_get_array(object, "sources");
	struct pump *pump = rd->pump;
	struct pump_dest *dest;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < json_array_size(dests); i++)
		r = restore_dest(rd, json_array_get(dests, i));
	for (i = 0; r == 0 && i < json_array_size(sources); i++)
		r = restore_source(rd, json_array_get(sources, i));
	if (r < 0)
		return r;
	queue_again(rd);
	pump->unsettled = 0;
	for (i = 0; i < pump->dests_count; i++) {
		dest = pump->dests[i];
		dest->counted = !dest->settled && (dest->sources > 0 || sink_pending(dest->sink));
		pump->unsettled += dest->counted;
	}
	pump->started = true;
	return 0;
}

int pump_restore(struct ev_loop *loop, const struct log *log, struct copy *copy,
	struct attach *attach, const struct handover *h, const json_t *object, pump_done_fn done,
	void *userdata, struct pump **ret_pump)
{
	_cleanup_pump_ struct pump *pump = NULL;
	struct reading rd = {
		.h = h,
		.waiting_count = json_array_size(json_get_array(object, "sources")),
	};
	int r = pump_new(loop, log, copy, 0, json_get_bool(object, "raw", false), &pump);

	if (r < 0)
		return r;
	rd.pump = pump;
	pump->attach = attach;
	pump->label_width = (int)json_get_int(object, "label_width", 1) % (PUMP_LABEL_SIZE - 4);
	pump->finishing = json_get_bool(object, "finishing", false);
	pump->done = pump->finishing ? done : NULL;
	pump->userdata = userdata;
	rd.waiting = calloc(rd.waiting_count + 1, sizeof(struct pump_source *));
	r = rd.waiting ? restore_all(&rd, object) : -ENOMEM;
	free(rd.waiting);
	if (r == 0)
		*ret_pump = take_ptr(pump);
	return r;
}
