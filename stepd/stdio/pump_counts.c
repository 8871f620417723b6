/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What an adopter of the step's streams learns of the bytes that its dead agent had read: how many
 * were not written (tally.h). A destination's queue mixes tasks and labels; so each piece of it is
 * noted with its source, which is credited when the sink has written it.
 */
#include "stepd/stdio/pump_impl.h"

#include <jansson.h>
#include <unistd.h>

#include "stepd/base/err.h"
#include "stepd/snapshot/handover.h"
#include "stepd/stdio/output.h"
#include "stepd/stdio/tally.h"

/* Bytes in a destination's sink: of them payload are a source's, the others are labels. */
struct pump_part {
	uint32_t source, bytes, payload;
};

#define PART_OF_NONE UINT32_MAX

/* ---- what is read -------------------------------------------------------------------------- */

static struct tally_source *tally_of(const struct pump_source *src)
{
	const struct tally *tally = src->dest->pump->tally;

	return tally && src->number < tally->sources_count ? &tally->sources[src->number] : NULL;
}

static void set_reading(struct tally_source *counts, uint32_t reading)
{
	*(volatile uint32_t *)&counts->reading = reading;
}

void pump_count_reading(const struct pump_source *src)
{
	struct tally_source *counts = tally_of(src);

	if (counts)
		set_reading(counts, 1);
}

void pump_count_read(const struct pump_source *src, size_t size)
{
	struct tally_source *counts = tally_of(src);

	if (!counts)
		return;
	counts->read += size;
	set_reading(counts, 0);
}

/* ---- what is written ----------------------------------------------------------------------- */

static void count_written(struct pump *pump, uint32_t source, size_t size)
{
	if (pump->tally && source < pump->tally->sources_count)
		pump->tally->sources[source].written += size;
}

void pump_count_written(const struct pump_source *src, size_t size)
{
	count_written(src->dest->pump, src->number, size);
}

static void pump_on_written(const char *data, size_t size, void *userdata)
{
	struct pump_dest *dest = userdata;
	struct pump_part *part;
	uint32_t n, payload;

	if (data && dest->pump->tally)
		dest->pump->tally->dests[dest->number].mid_line = data[size - 1] != '\n';
	while (size > 0 && buffer_size(&dest->parts) > 0) {
		part = (void *)(dest->parts.data + dest->parts.at);
		n = size < part->bytes ? (uint32_t)size : part->bytes;
		part->bytes -= n; /* the label comes first */
		payload = part->payload > part->bytes ? part->payload - part->bytes : 0;
		part->payload -= payload;
		count_written(dest->pump, part->source, payload);
		if (part->bytes == 0)
			buffer_drop(&dest->parts, sizeof(*part));
		size -= n;
	}
}

void pump_count_put(
	struct pump_dest *dest, const struct pump_source *src, size_t before, size_t payload)
{
	uint32_t source = src ? src->number : PART_OF_NONE;
	struct pump_part part = {.source = source, .payload = (uint32_t)payload}, *last;

	if (!dest->pump->tally || dest->number >= dest->pump->tally->dests_count)
		return;
	part.bytes = (uint32_t)(sink_pending(dest->sink) - before);
	last = buffer_size(&dest->parts) > 0
		? (void *)(dest->parts.data + dest->parts.end - sizeof(*last))
		: NULL;
	if (sink_failed(dest->sink)) {
		count_written(dest->pump, source, payload); /* it is dropped, and logged */
	} else if (last && last->source == source && part.bytes == payload) {
		last->bytes += part.bytes;
		last->payload += part.payload;
	} else if (buffer_add(&dest->parts, &part, sizeof(part)) < 0) {
		count_written(dest->pump, source, payload); /* better than for ever lost */
	}
}

static void watch_dest(struct pump_dest *dest)
{
	struct tally *tally = dest->pump->tally;

	sink_on_written(dest->sink, tally ? pump_on_written : NULL, dest,
		tally ? &tally->dests[dest->number].writing : NULL);
}

void pump_set_tally(struct pump *pump, struct tally *tally)
{
	size_t i;

	pump->tally = tally;
	for (i = 0; i < pump->dests_count; i++)
		watch_dest(pump->dests[i]);
}

size_t pump_count_sources(const struct pump *pump)
{
	return pump->sources_count;
}

size_t pump_count_dests(const struct pump *pump)
{
	return pump->dests_count;
}

/* ---- adoption ------------------------------------------------------------------------------ */

/* Streams that are named in the log, one line each. */
#define LOST_LINES_MAX 16u

static const char *lost_stream_name(const struct pump_source *src)
{
	return src->is_terminal                ? "terminal"
		: src->stream == STDERR_FILENO ? "standard error"
					       : "standard output";
}

static bool recover_source(
	const struct pump_source *src, const struct tally *left, unsigned *lines, uint64_t *rest)
{
	const struct tally_source *counts = &left->sources[src->number];
	bool unsure = counts->reading ||
		(src->dest->number < left->dests_count && left->dests[src->dest->number].writing);
	uint64_t lost = counts->read - counts->written + (counts->reading ? PUMP_LINE_SIZE : 0);

	if (lost == 0 || counts->written > counts->read)
		return false;
	if (*lines < LOST_LINES_MAX)
		log_warning(src->dest->pump->log,
			"%s%llu bytes of rank %u's %s that the dead agent had read are lost",
			unsure ? "at most " : "", (unsigned long long)lost, src->rank,
			lost_stream_name(src));
	else
		*rest += lost;
	(*lines)++;
	return true;
}

bool pump_recover(struct pump *pump, const struct tally *left)
{
	const struct pump_source *src;
	unsigned lines = 0;
	uint64_t rest = 0;
	bool lost = false;
	size_t i;

	for (i = 0; i < pump->dests_count && i < left->dests_count; i++)
		pump->dests[i]->mid_line = left->dests[i].mid_line;
	for (src = pump->sources; src; src = src->next) {
		if (src->number < left->sources_count)
			lost |= recover_source(src, left, &lines, &rest);
	}
	if (rest > 0)
		log_warning(pump->log,
			"at most %llu bytes of %u more streams that the dead agent had read are lost",
			(unsigned long long)rest, lines - LOST_LINES_MAX);
	return lost;
}

/* ---- re-exec ------------------------------------------------------------------------------- */

void pump_counts_save(const struct pump_dest *dest, struct handover *h, json_t *object)
{
	if (buffer_size(&dest->parts) > 0)
		handover_put_bytes(
			h, object, "parts", buffer_bytes(&dest->parts), buffer_size(&dest->parts));
}

int pump_counts_restore(struct pump_dest *dest, const struct handover *h, const json_t *object)
{
	size_t size = 0;
	const char *parts = handover_get_bytes(h, object, "parts", &size);

	return parts ? buffer_add(&dest->parts, parts, size - size % sizeof(struct pump_part)) : 0;
}
