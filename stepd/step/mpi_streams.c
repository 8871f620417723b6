/* SPDX-License-Identifier: BSD-3-Clause */
#include <jansson.h>
#include <string.h>

#include "mpi/link.h"
#include "stepd/base/base64.h"
#include "stepd/stdio/input.h"
#include "stepd/stdio/stdio.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/mpi_link.h"

_Static_assert(LINK_INPUT_MAX <= TOOLIN_SIZE, "an input of the link is one piece");

static void mpi_streams_answer(struct agent *a, int64_t id, int r)
{
	mpi_link_answer(a, id, r, r < 0 ? strerror(-r) : "");
}

/* ---- copies -------------------------------------------------------------------------------- */

/* Takes fd, which may be -1. */
static int send_copies(struct agent *a, int fd)
{
	_cleanup_close_ int owned = fd;

	return fd < 0 ? 0 : mpi_link_send_take(a, json_pack("{s:s}", "tell", "copies"), &owned, 1);
}

static int mpi_streams_copy(struct agent *a, const json_t *list, json_int_t streams)
{
	_cleanup_free_ uint32_t *ranks = NULL;
	size_t count = 0;
	int fd = -1, r;

	if (streams < 0 || streams & ~(json_int_t)LINK_STREAMS ||
		json_array_size(list) > LINK_RANKS_MAX)
		return -EINVAL;
	if (list) {
		ranks = mpi_link_read_ranks(a, list, &count);
		if (!ranks)
			return -EINVAL;
		if (count == 0)
			return -ESRCH;
	}
	r = stdio_copy(a->stdio, ranks, count, (unsigned)streams, &fd);
	if (r < 0)
		return r;
	r = send_copies(a, fd);
	if (r < 0)
		stdio_copy_stop(a->stdio); /* nobody holds the other end */
	return r;
}

void mpi_streams_take_copy(struct agent *a, const json_t *object)
{
	const json_t *streams = json_object_get(object, "streams");
	int64_t id = json_integer_value(json_object_get(object, "id"));
	int r = -EINVAL;

	if (json_is_integer(streams))
		r = a->stdio ? mpi_streams_copy(a, json_object_get(object, "ranks"),
				       json_integer_value(streams))
			     : -EOPNOTSUPP;
	mpi_streams_answer(a, id, r);
}

int mpi_streams_join(struct agent *a, unsigned copy, struct err *err)
{
	unsigned streams = copy & LINK_STREAMS;
	int fd = -1, r = 0;

	if (a->stdio)
		r = stdio_join_copy(a->stdio, streams, &fd);
	if (r == 0)
		r = send_copies(a, fd);
	if (r < 0 && a->stdio)
		stdio_copy_stop(a->stdio);
	if (r < 0)
		return err_set(err, r, "spawn: copy what its tasks write");
	if (streams && copy & LINK_REQUIRED && !(a->stdio && stdio_can_copy(a->stdio)))
		return err_set_text(err, -EOPNOTSUPP,
			"spawn: its tasks' output is to be copied, and does not pass through the "
			"agent (see --forward)");
	return 0;
}

void mpi_streams_stop(struct agent *a)
{
	if (a->stdio)
		stdio_copy_stop(a->stdio);
}

/* ---- input --------------------------------------------------------------------------------- */

static void on_taken(void *userdata, int64_t id, int r)
{
	mpi_streams_answer(userdata, id, r);
}

/* 1: done; 0: later. */
static int put_input(struct agent *a, const json_t *object, int64_t id)
{
	const json_t *rank = json_object_get(object, "rank"),
		     *data = json_object_get(object, "data");
	size_t length = json_string_length(data);
	_cleanup_free_ char *bytes = NULL;
	ssize_t n;

	if (!json_is_integer(rank) || json_integer_value(rank) < 0 ||
		json_integer_value(rank) > UINT32_MAX || !json_is_string(data) ||
		length > (LINK_INPUT_MAX / 3 + 1) * 4)
		return -EINVAL;
	bytes = malloc(length + 1);
	if (!bytes)
		return -ENOMEM;
	n = base64_decode(json_string_value(data), length, bytes);
	if (n < 0 || n > (ssize_t)LINK_INPUT_MAX)
		return -EINVAL;
	stdio_input_on_done(a->stdio, on_taken, a);
	return stdio_input(a->stdio, (uint32_t)json_integer_value(rank), id, bytes, (size_t)n,
		json_is_true(json_object_get(object, "end")));
}

void mpi_streams_take_input(struct agent *a, const json_t *object)
{
	int64_t id = json_integer_value(json_object_get(object, "id"));
	int r = a->stdio ? put_input(a, object, id) : -EOPNOTSUPP;

	if (r != 0)
		mpi_streams_answer(a, id, r < 0 ? r : 0);
}

void mpi_streams_restored(struct agent *a)
{
	if (a->stdio)
		stdio_input_on_done(a->stdio, on_taken, a);
}
