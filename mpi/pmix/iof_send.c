/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The output of this node's ranks, to the servers that want it: iof.h says how much of it waits.
 */
#include <string.h>

#include "mpi/pmix/iof.h"
#include "mpi/pmix/subscriber.h"

static uint64_t *lost_of(struct want *want, unsigned stream)
{
	return &want->lost[stream == LINK_STDERR];
}

struct sending {
	uint64_t subscriber;
	uint32_t rank;
	unsigned stream;
	size_t size;
	uint64_t lost; /* what it tells of */
};

static void push(struct iof *iof, uint64_t number);

/* What could not be told there is lost, too. */
static void add_lost(struct subscriber *sub, uint32_t rank, unsigned stream, uint64_t lost)
{
	struct want *want = subscriber_want(sub, rank);

	if (want)
		*lost_of(want, stream) += lost;
}

static void on_sent(struct px *px, void *userdata, pmix_status_t status, pmix_data_buffer_t *result)
{
	struct sending *sending = userdata;
	struct iof *iof = px->iof;
	struct subscriber *sub = iof ? subscriber_numbered(iof, sending->subscriber) : NULL;

	(void)result;
	if (sub) {
		sub->flying -= sending->size;
		sub->under_way--;
		if (status == PMIX_ERR_UNREACH)
			iof_copy_stop(iof, sub);
		else if (status == PMIX_ERR_OUT_OF_RESOURCE)
			add_lost(
				sub, sending->rank, sending->stream, sending->size + sending->lost);
		push(iof, sending->subscriber);
	}
	free(sending);
	if (iof)
		iof_check(iof);
}

static bool pack_chunk(pmix_data_buffer_t *args, const struct chunk *chunk)
{
	uint8_t stream = (uint8_t)chunk->stream, end = chunk->end;
	pmix_byte_object_t bytes = {.bytes = (char *)chunk->data, .size = chunk->size};

	PMIX_DATA_BUFFER_CONSTRUCT(args);
	if (pack(args, &chunk->rank, 1, PMIX_UINT32) && pack(args, &stream, 1, PMIX_UINT8) &&
		pack(args, &end, 1, PMIX_UINT8) && pack(args, &chunk->lost, 1, PMIX_UINT64) &&
		pack(args, &bytes, 1, PMIX_BYTE_OBJECT))
		return true;
	PMIX_DATA_BUFFER_DESTRUCT(args);
	return false;
}

/* Takes the chunk. */
static void send_chunk(struct iof *iof, struct subscriber *sub, struct chunk *chunk)
{
	struct sending *sending = calloc(1, sizeof(*sending));
	pmix_data_buffer_t args;

	if (!sending || !pack_chunk(&args, chunk)) {
		add_lost(sub, chunk->rank, chunk->stream, chunk->size + chunk->lost);
		free(sending);
		free(chunk);
		return;
	}
	*sending = (struct sending){.subscriber = sub->number,
		.rank = chunk->rank,
		.stream = chunk->stream,
		.size = chunk->size,
		.lost = chunk->lost};
	free(chunk);
	sub->flying += sending->size;
	sub->under_way++;
	rpc_call(iof->px, sub->node, RPC_OUTPUT, &args, on_sent, sending, 0);
}

/* The subscriber may go meanwhile. */
static void push(struct iof *iof, uint64_t number)
{
	struct subscriber *sub;
	struct chunk *chunk;

	while ((sub = subscriber_numbered(iof, number)) && sub->first && sub->flying < IOF_FLYING) {
		chunk = sub->first;
		sub->first = chunk->next;
		if (!sub->first)
			sub->last = &sub->first;
		sub->queued -= chunk->size;
		send_chunk(iof, sub, chunk);
	}
}

static void leave_out(struct iof *iof, struct subscriber *sub, const struct serve_output *output)
{
	add_lost(sub, output->rank, output->stream, output->size + output->lost);
	if (!sub->told)
		serve_log(iof->px->serve, LOG_LEVEL_WARNING,
			"a PMIx tool on node %u does not take the output that it has asked for: it "
			"is left out of what the tool gets",
			sub->node);
	sub->told = true;
}

/* The ends of streams are not left out. */
static void queue(struct iof *iof, struct subscriber *sub, const struct serve_output *output)
{
	struct want *want = subscriber_want(sub, output->rank);
	struct chunk *chunk = NULL;

	if (!want || !(want->streams & output->stream))
		return;
	if (output->end)
		want->streams &= ~output->stream;
	if (output->end || sub->queued + output->size <= IOF_QUEUE)
		chunk = calloc(1, sizeof(*chunk) + output->size);
	if (!chunk) {
		leave_out(iof, sub, output);
		return;
	}
	chunk->rank = output->rank;
	chunk->stream = output->stream;
	chunk->end = output->end;
	chunk->lost = output->lost + *lost_of(want, output->stream);
	*lost_of(want, output->stream) = 0;
	chunk->size = output->size;
	memcpy(chunk->data, output->data, output->size);
	*sub->last = chunk;
	sub->last = &chunk->next;
	sub->queued += chunk->size;
	push(iof, sub->number);
}

/* Any of them may go meanwhile. */
static void queue_for_all(struct iof *iof, const struct serve_output *output)
{
	struct subscriber *sub;

	for (uint64_t number = 0; (sub = subscriber_next(iof, number));) {
		number = sub->number;
		queue(iof, sub, output);
	}
}

void iof_output(struct px *px, const struct serve_output *output)
{
	if (px->iof && (output->stream == LINK_STDOUT || output->stream == LINK_STDERR))
		queue_for_all(px->iof, output);
}

/* The next one that has not ended; false: there is none. */
static bool next_unended(const struct iof *iof, struct serve_output *end)
{
	for (const struct subscriber *sub = iof->subscribers; sub; sub = sub->next) {
		for (size_t i = 0; i < sub->count; i++) {
			unsigned streams = sub->wants[i].streams;

			if (!streams)
				continue;
			end->rank = sub->wants[i].rank;
			end->stream = streams & LINK_STDOUT ? LINK_STDOUT : LINK_STDERR;
			return true;
		}
	}
	return false;
}

void iof_send_ends(struct iof *iof)
{
	struct serve_output end = {.data = "", .end = true};

	while (next_unended(iof, &end))
		queue_for_all(iof, &end);
}

bool iof_send_is_idle(const struct iof *iof)
{
	for (const struct subscriber *sub = iof->subscribers; sub; sub = sub->next) {
		if (sub->first || sub->under_way)
			return false;
	}
	return true;
}
