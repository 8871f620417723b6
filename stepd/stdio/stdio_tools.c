/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tools and the tasks' streams: copies of the output, and stdin that comes from a tool.
 */
#include "mpi/link_copy.h"
#include "stepd/snapshot/handover.h"
#include "stepd/spec/spec.h"
#include "stepd/stdio/copy.h"
#include "stepd/stdio/pump.h"
#include "stepd/stdio/stdio_impl.h"
#include "stepd/stdio/toolin.h"

int stdio_tools_open(struct stdio *io)
{
	int r = 0;

	if (io->pump)
		r = copy_new(io->loop, io->log, &io->copy);
	if (r == 0 && io->pump)
		pump_set_copy(io->pump, io->copy);
	if (r == 0 && io->spec->in.mode == SPEC_STREAM_TOOL)
		r = toolin_new(io->loop, &io->input);
	return r;
}

/* The reader waits for the end of each stream that it has asked for. */
static void tell_missing(
	struct stdio *io, const uint32_t *ranks, size_t count, unsigned streams, const char *found)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (streams & LINK_STDOUT & ~(unsigned)found[i])
			copy_end(io->copy, ranks[i], LINK_STDOUT, 0);
		if (streams & LINK_STDERR & ~(unsigned)found[i])
			copy_end(io->copy, ranks[i], LINK_STDERR, 0);
	}
}

static int begin_copy(
	struct stdio *io, const uint32_t *ranks, size_t count, unsigned streams, int *ret_fd)
{
	_cleanup_free_ char *found = calloc(count + 1, 1);
	int r = found ? copy_open(io->copy, ret_fd) : -ENOMEM;

	if (r < 0)
		return r;
	if (pump_copy_ranks(io->pump, ranks, count, streams, found) > 0) {
		tell_missing(io, ranks, ranks ? count : 0, streams, found);
		return 0;
	}
	if (*ret_fd >= 0)
		copy_close(io->copy);
	*ret_fd = close_fd(*ret_fd);
	return -EOPNOTSUPP;
}

int stdio_copy(struct stdio *io, const uint32_t *ranks, size_t count, unsigned streams, int *ret_fd)
{
	*ret_fd = -1;
	if (!io->pump)
		return streams ? -EOPNOTSUPP : 0;
	if (streams)
		return begin_copy(io, ranks, count, streams, ret_fd);
	(void)pump_copy_ranks(io->pump, ranks, count, 0, NULL);
	if (!pump_copies(io->pump))
		copy_close(io->copy);
	return 0;
}

bool stdio_can_copy(const struct stdio *io)
{
	return io->pump;
}

int stdio_join_copy(struct stdio *io, unsigned streams, int *ret_fd)
{
	*ret_fd = -1;
	io->join_copy = io->pump ? streams : 0;
	return io->join_copy ? copy_open(io->copy, ret_fd) : 0;
}

void stdio_copy_stop(struct stdio *io)
{
	if (io->copy)
		copy_close(io->copy);
	if (io->pump)
		(void)pump_copy_ranks(io->pump, NULL, 0, 0, NULL);
}

void stdio_input_on_done(struct stdio *io, stdio_input_fn done, void *userdata)
{
	if (io->input)
		toolin_on_done(io->input, done, userdata);
}

int stdio_input(
	struct stdio *io, uint32_t rank, int64_t id, const void *data, size_t size, bool end)
{
	const struct spec_stream *in = &io->spec->in;

	switch (in->mode) {
	case SPEC_STREAM_TOOL:
		return io->input ? toolin_put(io->input, rank, id, data, size, end) : -EPIPE;
	case SPEC_STREAM_ALL:
	case SPEC_STREAM_INHERIT:
		return -EBUSY;
	case SPEC_STREAM_RANK:
		return in->rank == rank ? -EBUSY : -EOPNOTSUPP;
	default:
		return -EOPNOTSUPP;
	}
}

void stdio_tools_save(const struct stdio *io, struct handover *h, struct json_t *object)
{
	if (io->copy)
		copy_save(io->copy, h, handover_put_object(h, object, "copy"));
	if (io->input)
		toolin_save(io->input, h, handover_put_object(h, object, "input"));
}

int stdio_tools_restore(struct stdio *io, const struct handover *h, const struct json_t *object)
{
	const struct json_t *copy = json_get_object(object, "copy");
	const struct json_t *input = json_get_object(object, "input");
	int r = 0;

	/* Of an agent that knew no copies there is nothing to go on with, but they can begin. */
	if (copy)
		r = copy_restore(io->loop, io->log, h, copy, &io->copy);
	else if (io->pump)
		r = copy_new(io->loop, io->log, &io->copy);
	if (r == 0 && io->pump)
		pump_set_copy(io->pump, io->copy);
	if (r == 0 && input)
		r = toolin_restore(io->loop, h, input, &io->input);
	return r;
}

void stdio_tools_free(struct stdio *io)
{
	(void)copy_free(io->copy);
	(void)toolin_free(io->input);
}
