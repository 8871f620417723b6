/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Copies of the tasks' output for tools, by way of the MPI service process (struct copy of
 * output.h): of chosen ranks and streams.
 */
#include "stepd/stdio/pump_impl.h"

#include <stdlib.h>
#include <unistd.h>

#include "mpi/link.h"
#include "stepd/stdio/output.h"

static unsigned stream_of(const struct pump_source *src)
{
	return src->stream == STDERR_FILENO ? LINK_STDERR : LINK_STDOUT;
}

void pump_copy_bytes(struct pump_source *src, const char *data, size_t size)
{
	if (src->copied)
		copy_put(src->dest->pump->copy, src->rank, stream_of(src), data, size, &src->lost);
}

void pump_copy_end(struct pump_source *src)
{
	if (src->copied)
		copy_end(src->dest->pump->copy, src->rank, stream_of(src), src->lost);
	src->copied = false;
}

static int pump_compare_ranks(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void set_copied(struct pump_source *src, bool copied)
{
	if (copied && !src->copied)
		src->lost = 0;
	src->copied = copied;
	if (src->fd < 0)
		pump_copy_end(src);
}

size_t pump_copy_ranks(
	struct pump *pump, const uint32_t *ranks, size_t count, unsigned streams, char *found)
{
	const uint32_t *at = NULL;
	struct pump_source *src;
	size_t n = 0;

	for (src = pump->sources; src; src = src->next) {
		if (ranks)
			at = bsearch(&src->rank, ranks, count, sizeof(*ranks), pump_compare_ranks);
		if (ranks && !at)
			continue;
		set_copied(src, streams & stream_of(src));
		n += (streams & stream_of(src)) != 0;
		if (at && found)
			found[at - ranks] |= (char)stream_of(src);
	}
	return n;
}

bool pump_copies(const struct pump *pump)
{
	const struct pump_source *src = pump->sources;

	while (src && !src->copied)
		src = src->next;
	return src;
}
