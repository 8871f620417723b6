/* SPDX-License-Identifier: BSD-3-Clause */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stepd/snapshot/handover.h"
#include "stepd/stdio/pump_impl.h"
#include "stepd/stdio/sink.h"

/* ---- writing ------------------------------------------------------------------------------- */

int64_t pump_number_of(const struct pump *pump, const struct pump_dest *dest)
{
	const struct pump_dest *at;
	int64_t i = 0;

	for (at = pump->dests; at && at != dest; at = at->next)
		i++;
	return at ? i : -1;
}

struct pump_dest *pump_get_dest(const struct pump *pump, int64_t number)
{
	struct pump_dest *at;

	for (at = pump->dests; at && number > 0; at = at->next)
		number--;
	return number == 0 ? at : NULL;
}

static void save_dest(const struct pump_dest *dest, struct handover *h, json_t *object)
{
	ev_timer *idle = (ev_timer *)&dest->idle; /* libev asks for it, and changes nothing */

	sink_save(dest->sink, h, handover_put_object(h, object, "sink"));
	handover_put_bool(h, object, "mid_line", dest->mid_line);
	handover_put_bool(h, object, "settled", dest->settled);
	if (ev_is_active(idle))
		handover_put_int(h, object, "idle_deadline_ns",
			handover_deadline_ns(ev_timer_remaining(dest->pump->loop, idle)));
}

static void save_source(const struct pump_source *src, struct handover *h, json_t *object)
{
	handover_put_int(h, object, "rank", src->rank);
	handover_put_int(h, object, "dest", src->dest->number);
	handover_put_fd(h, object, "fd", src->fd);
	handover_put_bool(h, object, "ended", src->ended);
	handover_put_int(h, object, "stream", src->stream);
	if (src->copied) {
		handover_put_bool(h, object, "copied", true);
		handover_put_int(h, object, "lost", (int64_t)src->lost);
	}
	if (src->dest->owner == src)
		handover_put_bool(h, object, "owner", true);
	if (src->waiting)
		handover_put_int(h, object, "waits", src->dest->owner == src ? 0 : src->place);
	if (src->dest->pump->finishing)
		handover_put_int(h, object, "left", src->left);
	if (src->size > 0)
		handover_put_bytes(h, object, "bytes", src->buf + src->start, src->size);
}

/* Numbers them all: destinations by their place in the pump's list, those that wait by theirs in
 * the queues, one queue behind the other. */
static void number_all(const struct pump *pump)
{
	struct pump_source *src;
	struct pump_dest *dest;
	int64_t number = 0, place = 0;

	for (dest = pump->dests; dest; dest = dest->next) {
		dest->number = number++;
		for (src = dest->first_waiting; src; src = src->next_waiting)
			src->place = place++;
	}
}

void pump_save(const struct pump *pump, struct handover *h, json_t *object)
{
	json_t *dests = handover_put_array(h, object, "dests");
	json_t *sources = handover_put_array(h, object, "sources");
	const struct pump_dest *dest;
	const struct pump_source *src;

	number_all(pump);
	handover_put_int(h, object, "label_width", pump->label_width);
	handover_put_bool(h, object, "finishing", pump->finishing);
	handover_put_bool(h, object, "raw", pump->raw);
	for (dest = pump->dests; dest; dest = dest->next)
		save_dest(dest, h, handover_append_object(h, dests));
	for (src = pump->sources; src; src = src->next)
		save_source(src, h, handover_append_object(h, sources));
}

/* ---- reading ------------------------------------------------------------------------------- */

struct reading {
	struct pump *pump;
	const struct handover *h;
	struct pump_dest **dests; /* by number */
	size_t dests_count;
	struct pump_source **waiting; /* by their places, some NULL */
	size_t waiting_count;
};

static int restore_dest(struct reading *rd, size_t number, const json_t *object)
{
	_cleanup_free_ struct pump_dest *dest = calloc(1, sizeof(*dest));
	int64_t deadline_ns = json_get_int(object, "idle_deadline_ns", -1);
	struct pump *pump = rd->pump;
	int r;

	if (!dest)
		return -ENOMEM;
	r = sink_restore(
		pump->loop, pump->log, rd->h, json_get_object(object, "sink"), &dest->sink);
	if (r < 0)
		return r;
	dest->mid_line = json_get_bool(object, "mid_line", false);
	dest->settled = json_get_bool(object, "settled", false);
	pump_take_dest(pump, dest);
	if (deadline_ns >= 0) {
		ev_now_update(pump->loop);
		ev_timer_set(&dest->idle, handover_left_sec(deadline_ns), PUMP_IDLE_S);
		ev_timer_start(pump->loop, &dest->idle);
	}
	rd->dests[number] = take_ptr(dest);
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

/* What it has in common with a source that begins, and then how far it has come. */
static int restore_source(struct reading *rd, const json_t *object)
{
	int64_t number = json_get_int(object, "dest", -1);
	int64_t place = json_get_int(object, "waits", -1);
	struct pump *pump = rd->pump;
	struct pump_source **at = pump->last_source, *src;
	struct pump_dest *dest;
	int r;

	if (number < 0 || (size_t)number >= rd->dests_count || place >= (int64_t)rd->waiting_count)
		return -EPROTO;
	dest = rd->dests[number];
	r = pump_add_source_take(pump, handover_get_fd(object, "fd"),
		(uint32_t)json_get_int(object, "rank", 0),
		(int)json_get_int(object, "stream", STDOUT_FILENO), dest);
	if (r < 0)
		return r;
	src = *at;
	src->left = (int)json_get_int(object, "left", 0);
	src->copied = json_get_bool(object, "copied", false);
	src->lost = (uint64_t)json_get_int(object, "lost", 0);
	src->ended = json_get_bool(object, "ended", false);
	if (src->ended)
		dest->sources--;
	else if (json_get_bool(object, "owner", false))
		dest->owner = src;
	r = restore_bytes(rd, src, object);
	if (r < 0 || src->ended)
		return r;
	if (place < 0 && src->fd < 0)
		return -EPROTO;
	if (place < 0)
		ev_io_start(pump->loop, &src->io);
	else if (dest->owner == src)
		src->waiting = true;
	else
		rd->waiting[place] = src;
	return 0;
}

/* They queue up again in the order in which they stood. */
static void queue_up(const struct reading *rd)
{
	size_t i;

	for (i = 0; i < rd->waiting_count; i++) {
		if (rd->waiting[i])
			pump_wait_for_dest(rd->waiting[i]);
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

	/* The list has the latest first: the last number is made first. */
	for (i = rd->dests_count; r == 0 && i > 0; i--)
		r = restore_dest(rd, i - 1, json_array_get(dests, i - 1));
	for (i = 0; r == 0 && i < json_array_size(sources); i++)
		r = restore_source(rd, json_array_get(sources, i));
	if (r < 0)
		return r;
	queue_up(rd);
	pump->unsettled = 0;
	for (dest = pump->dests; dest; dest = dest->next) {
		dest->counted = !dest->settled && (dest->sources > 0 || sink_pending(dest->sink));
		pump->unsettled += dest->counted;
	}
	pump->started = true;
	return 0;
}

int pump_restore(struct ev_loop *loop, const struct log *log, const struct handover *h,
	const json_t *object, pump_done_fn done, void *userdata, struct pump **ret_pump)
{
	_cleanup_pump_ struct pump *pump = NULL;
	struct reading rd = {
		.h = h,
		.dests_count = json_array_size(json_get_array(object, "dests")),
		.waiting_count = json_array_size(json_get_array(object, "sources")),
	};
	int r = pump_new(loop, log, 0, &pump);

	if (r < 0)
		return r;
	rd.pump = pump;
	pump->label_width = (int)json_get_int(object, "label_width", 1) % (PUMP_LABEL_SIZE - 4);
	pump->finishing = json_get_bool(object, "finishing", false);
	pump->raw = json_get_bool(object, "raw", false);
	pump->done = pump->finishing ? done : NULL;
	pump->userdata = userdata;
	rd.dests = calloc(rd.dests_count + 1, sizeof(struct pump_dest *));
	rd.waiting = calloc(rd.waiting_count + 1, sizeof(struct pump_source *));
	r = rd.dests && rd.waiting ? restore_all(&rd, object) : -ENOMEM;
	free(rd.dests);
	free(rd.waiting);
	if (r == 0)
		*ret_pump = take_ptr(pump);
	return r;
}
