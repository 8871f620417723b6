/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tasks' streams on the node of the ranks. Their output goes to the servers that have requested
 * it, this one perhaps among them: the agent copies it, and it is sent to them. What tools push
 * goes to the ranks' stdin, by the agent. iof.h has how much of it waits.
 */
#include <string.h>

#include "mpi/pmix/iof.h"
#include "stepd/base/buffer.h"

/* ---- subscribers ---------------------------------------------------------------------------- */

struct want {
	uint32_t rank;    /* in the step */
	unsigned streams; /* enum link_stream: those that have not ended */
	uint64_t lost[2]; /* bytes left out of each, not reported yet */
};

struct chunk {
	struct chunk *next;
	uint32_t rank;
	unsigned stream;
	bool end;
	uint64_t lost;
	size_t size;
	char data[];
};

struct subscriber {
	struct subscriber *next;
	uint32_t node;
	uint64_t number;    /* which one of all that there were */
	struct want *wants; /* by rank, ascending */
	size_t count, capacity;
	struct chunk *first, **last;
	size_t queued, flying; /* bytes */
	unsigned under_way;    /* messages that are not answered yet */
	bool reported;         /* that bytes were left out */
};

/* NULL: there is none. */
static struct subscriber *subscriber_find(const struct iof *iof, uint32_t node)
{
	struct subscriber *sub = iof->subscribers;

	while (sub && sub->node != node)
		sub = sub->next;
	return sub;
}

/* The one of that node, which is made if there is none; NULL: no memory. */
static struct subscriber *subscriber_get(struct iof *iof, uint32_t node)
{
	struct subscriber *sub = subscriber_find(iof, node);

	if (sub)
		return sub;
	sub = calloc(1, sizeof(*sub));
	if (!sub)
		return NULL;
	sub->node = node;
	sub->number = ++iof->subscribed;
	sub->last = &sub->first;
	sub->next = iof->subscribers;
	iof->subscribers = sub;
	return sub;
}

/* The index of the rank among them, or where it would be. */
static size_t index_of(const struct subscriber *sub, uint32_t rank)
{
	size_t low = 0, high = sub->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (sub->wants[mid].rank < rank)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Its request for that rank's output; NULL: there is none. */
static struct want *subscriber_want(const struct subscriber *sub, uint32_t rank)
{
	size_t i = index_of(sub, rank);

	return i < sub->count && sub->wants[i].rank == rank ? &sub->wants[i] : NULL;
}

static int subscriber_add_want(struct subscriber *sub, uint32_t rank, unsigned streams)
{
	size_t i = index_of(sub, rank);

	if (i < sub->count && sub->wants[i].rank == rank) {
		sub->wants[i].streams |= streams;
		return 0;
	}
	if (array_reserve(sub->wants, sub->capacity, sub->count + 1) < 0)
		return -ENOMEM;
	memmove(&sub->wants[i + 1], &sub->wants[i], (sub->count - i) * sizeof(*sub->wants));
	sub->wants[i] = (struct want){.rank = rank, .streams = streams};
	sub->count++;
	return 0;
}

/* The streams of that rank that any of them wants: enum link_stream. */
static unsigned subscribers_want(const struct iof *iof, uint32_t rank)
{
	unsigned streams = 0;

	for (const struct subscriber *sub = iof->subscribers; sub; sub = sub->next) {
		const struct want *want = subscriber_want(sub, rank);

		streams |= want ? want->streams : 0;
	}
	return streams;
}

static struct subscriber *subscriber_numbered(const struct iof *iof, uint64_t number)
{
	struct subscriber *sub = iof->subscribers;

	while (sub && sub->number != number)
		sub = sub->next;
	return sub;
}

/* The first one that came after number. */
static struct subscriber *subscriber_next(const struct iof *iof, uint64_t number)
{
	struct subscriber *next = NULL;

	for (struct subscriber *sub = iof->subscribers; sub; sub = sub->next) {
		if (sub->number > number && (!next || sub->number < next->number))
			next = sub;
	}
	return next;
}

/* Takes it from the others, and frees it. */
static void subscriber_end(struct iof *iof, struct subscriber *sub)
{
	struct subscriber **at = &iof->subscribers;
	struct chunk *chunk;

	while (*at != sub)
		at = &(*at)->next;
	*at = sub->next;
	while ((chunk = sub->first)) {
		sub->first = chunk->next;
		free(chunk);
	}
	free(sub->wants);
	free(sub);
}

/* ---- what they want -------------------------------------------------------------------------
 *
 * Streams of this node's ranks that servers want, this one perhaps among them; the agent copies
 * them.
 */

/* ---- the agent ---- */

/* Several requests to the agent, with one answer to the requester. */
struct copy_request {
	struct px *px;
	struct rpc_request request; /* id 0: nobody waits */
	uint64_t subscriber;
	uint32_t *ranks;
	size_t count;
	unsigned streams;
	unsigned pending; /* to the agent, and who holds it */
	bool some;
	int r;
};

/* NULL: no memory. */
static struct copy_request *copy_request_new(struct px *px, struct rpc_request request)
{
	struct copy_request *t = calloc(1, sizeof(*t));

	if (t)
		*t = (struct copy_request){.px = px, .request = request, .pending = 1};
	return t;
}

static void take_back(const struct copy_request *t)
{
	struct subscriber *sub = subscriber_numbered(t->px->iof, t->subscriber);

	for (size_t i = 0; sub && i < t->count; i++) {
		struct want *want = subscriber_want(sub, t->ranks[i]);

		if (want)
			want->streams &= ~t->streams;
	}
}

static void copy_request_release(struct copy_request *t)
{
	if (--t->pending > 0)
		return;
	if (t->px->iof && t->r < 0 && !t->some)
		take_back(t);
	if (t->px->iof) /* else this node has left the others */
		rpc_reply(t->px, &t->request, call_status_of(t->some ? 0 : t->r), NULL);
	free(t->ranks);
	free(t);
}

static void on_copy_done(void *userdata, int r, _unused_ const struct err *err)
{
	struct copy_request *t = userdata;

	t->some |= r == 0;
	if (r < 0 && t->r == 0)
		t->r = r;
	copy_request_release(t);
}

/* Requests the copies of the ranks whose streams are wanted like this. */
static void request_streams(struct copy_request *t, unsigned streams, uint32_t *some)
{
	struct iof *iof = t->px->iof;
	struct err err = ERR_INIT;
	size_t n = 0;
	int r;

	for (size_t i = 0; i < t->count; i++) {
		if (subscribers_want(iof, t->ranks[i]) == streams)
			some[n++] = t->ranks[i];
	}
	if (n == 0)
		return;
	t->pending++;
	r = serve_copy(iof->px->serve, some, n, streams, on_copy_done, t, &err);
	if (r < 0)
		on_copy_done(t, r, &err);
}

/* Has the agent copy what is wanted of these ranks. */
static void request_copy(struct copy_request *t)
{
	_cleanup_free_ uint32_t *some = calloc(t->count + 1, sizeof(*some));

	if (!some)
		t->r = -ENOMEM;
	for (unsigned streams = 0; some && streams <= LINK_STREAMS; streams++)
		request_streams(t, streams, some);
}

/* The subscriber, which is freed, wants nothing any more: the agent need not copy for it. */
static void iof_copy_stop(struct iof *iof, struct subscriber *sub)
{
	struct copy_request *t = copy_request_new(iof->px, (struct rpc_request){.id = 0});

	if (t)
		t->ranks = calloc(sub->count + 1, sizeof(*t->ranks));
	for (; t && t->ranks && t->count < sub->count; t->count++)
		t->ranks[t->count] = sub->wants[t->count].rank;
	subscriber_end(iof, sub);
	if (!t)
		return;
	request_copy(t);
	copy_request_release(t);
}

/* ---- requests ---- */

static int subscribe(struct iof *iof, uint32_t node, const uint32_t *ranks, size_t count,
	unsigned streams, struct subscriber **ret_sub)
{
	struct subscriber *sub = subscriber_get(iof, node);
	int r = sub ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = subscriber_add_want(sub, ranks[i], streams);
	*ret_sub = sub;
	return r;
}

void serve_streams(struct px *px, const struct rpc_request *request, struct message *args)
{
	_cleanup_free_ pmix_proc_t *procs = NULL;
	struct subscriber *sub = subscriber_find(px->iof, request->from);
	struct copy_request *t;
	uint8_t streams;
	size_t count;

	if (!unpack(args, &streams, PMIX_UINT8) || !unpack_procs(args, &procs, &count)) {
		rpc_reply(px, request, PMIX_ERR_UNPACK_FAILURE, NULL);
		return;
	}
	if (!streams && sub)
		iof_copy_stop(px->iof, sub);
	t = streams ? copy_request_new(px, *request) : NULL;
	if (!t) {
		rpc_reply(px, request, streams ? PMIX_ERR_NOMEM : PMIX_SUCCESS, NULL);
		return;
	}
	t->r = names_local_ranks(&px->names, procs, count, px->node, false, &t->ranks, &t->count);
	if (t->r == 0)
		t->r = subscribe(
			px->iof, request->from, t->ranks, t->count, streams & LINK_STREAMS, &sub);
	if (t->r == 0) {
		t->subscriber = sub->number;
		t->streams = streams;
		request_copy(t);
	}
	copy_request_release(t);
}

int iof_subscribe_spawn(struct px *px, uint32_t node, const struct nspace *nspace, unsigned streams)
{
	struct subscriber *sub;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < nspace->size; i++) {
		uint32_t rank = nspace->first_rank + i;

		if (nspace->ranks[i].node == px->node)
			r = subscribe(px->iof, node, &rank, 1, streams, &sub);
	}
	return r;
}

/* ---- life ---- */

/* The agent gets no more requests. */
void iof_copy_close(struct iof *iof)
{
	while (iof->subscribers)
		subscriber_end(iof, iof->subscribers);
}

/* ---- what they get --------------------------------------------------------------------------
 *
 * The output of this node's ranks, to the servers that want it.
 */

static uint64_t *lost_of(struct want *want, unsigned stream)
{
	return &want->lost[stream == LINK_STDERR];
}

struct sending {
	uint64_t subscriber;
	uint32_t rank;
	unsigned stream;
	size_t size;
	uint64_t lost; /* that it reports */
};

static void subscriber_push(struct iof *iof, uint64_t number);

/* Losses that could not be reported there are added to the next ones. */
static void add_lost(struct subscriber *sub, uint32_t rank, unsigned stream, uint64_t lost)
{
	struct want *want = subscriber_want(sub, rank);

	if (want)
		*lost_of(want, stream) += lost;
}

static void on_sent(struct px *px, void *userdata, const struct rpc_result *result)
{
	struct sending *sending = userdata;
	struct iof *iof = px->iof;
	struct subscriber *sub = iof ? subscriber_numbered(iof, sending->subscriber) : NULL;

	if (sub) {
		sub->flying -= sending->size;
		sub->under_way--;
		if (result->status == PMIX_ERR_UNREACH)
			iof_copy_stop(iof, sub);
		else if (result->status == PMIX_ERR_OUT_OF_RESOURCE ||
			result->status == PMIX_ERR_NOMEM)
			add_lost(
				sub, sending->rank, sending->stream, sending->size + sending->lost);
		subscriber_push(iof, sending->subscriber);
	}
	free(sending);
	if (iof)
		iof_check(iof);
}

/* Takes the chunk. */
static void send_chunk(struct iof *iof, struct subscriber *sub, struct chunk *chunk)
{
	uint8_t stream = (uint8_t)chunk->stream, end = chunk->end;
	pmix_byte_object_t bytes = {.bytes = chunk->data, .size = chunk->size};
	struct sending *sending = calloc(1, sizeof(*sending));
	struct message args = MESSAGE_INIT;

	if (!sending) {
		add_lost(sub, chunk->rank, chunk->stream, chunk->size + chunk->lost);
		free(chunk);
		return;
	}
	pack(&args, &chunk->rank, PMIX_UINT32);
	pack(&args, &stream, PMIX_UINT8);
	pack(&args, &end, PMIX_UINT8);
	pack(&args, &chunk->lost, PMIX_UINT64);
	pack(&args, &bytes, PMIX_BYTE_OBJECT);
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
static void subscriber_push(struct iof *iof, uint64_t number)
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

static void subscriber_leave_out(
	struct iof *iof, struct subscriber *sub, const struct serve_output *output)
{
	add_lost(sub, output->rank, output->stream, output->size + output->lost);
	if (!sub->reported)
		serve_log(iof->px->serve, LOG_LEVEL_WARNING,
			"a PMIx tool on node %u does not take the output that it has "
			"requested: some of it is dropped for that tool",
			sub->node);
	sub->reported = true;
}

/* The ends of streams are not left out. */
static void subscriber_queue(
	struct iof *iof, struct subscriber *sub, const struct serve_output *output)
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
		subscriber_leave_out(iof, sub, output);
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
	subscriber_push(iof, sub->number);
}

/* Any of them may go meanwhile. */
static void queue_for_all(struct iof *iof, const struct serve_output *output)
{
	struct subscriber *sub;

	for (uint64_t number = 0; (sub = subscriber_next(iof, number));) {
		number = sub->number;
		subscriber_queue(iof, sub, output);
	}
}

void iof_output(void *userdata, const struct serve_output *output)
{
	struct px *px = userdata;
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

/* ---- input ----------------------------------------------------------------------------------
 *
 * A push is answered when the pipes of all its ranks here have it: the tool goes at the pace of the
 * slowest of the ranks that it names.
 */

/* Of a push, for one rank. */
struct pending_write {
	struct push *push;
	uint32_t rank; /* in the step */
	size_t at, size;
	bool sent; /* size bytes from at on are the agent's */
	bool done;
};

/* Bytes for ranks of this node: each of them gets those of one push after the other. */
struct push {
	struct push *next;
	struct px *px;
	struct rpc_request request;
	pmix_byte_object_t bytes;
	bool end;
	struct pending_write *writes;
	size_t count;
	size_t pending; /* writes, and serve_push() itself */
	int r;          /* the first failure */
};

static void push_release(struct push *p, int r)
{
	struct iof *iof = p->px->iof;
	struct push **at = &iof->writing;

	if (r < 0 && p->r == 0)
		p->r = r;
	if (--p->pending > 0)
		return;
	while (*at && *at != p)
		at = &(*at)->next;
	if (*at)
		*at = p->next;
	iof->pushing_bytes -= p->bytes.size;
	rpc_reply(p->px, &p->request, p->r == -EPIPE ? PMIX_ERR_IOF_FAILURE : call_status_of(p->r),
		NULL);
	iof_check(iof);
	PMIX_BYTE_OBJECT_DESTRUCT(&p->bytes);
	free(p->writes);
	free(p);
}

static void write_next(struct iof *iof, uint32_t rank);

static void on_taken(void *userdata, int r, _unused_ const struct err *err)
{
	struct pending_write *write = userdata;
	struct iof *iof = write->push->px->iof;
	uint32_t rank = write->rank;

	if (!iof)
		return; /* this process ends */
	write->sent = false;
	write->at += write->size;
	if (r < 0 || write->at >= write->push->bytes.size) {
		write->done = true;
		push_release(write->push, r);
	}
	write_next(iof, rank);
}

/* The rank's first that is not done; NULL: there is none. */
static struct pending_write *first_write(const struct iof *iof, uint32_t rank)
{
	for (const struct push *p = iof->writing; p; p = p->next) {
		for (size_t i = 0; i < p->count; i++) {
			if (p->writes[i].rank == rank && !p->writes[i].done)
				return &p->writes[i];
		}
	}
	return NULL;
}

/* The next piece for the rank, if it has had the one before. */
static void write_next(struct iof *iof, uint32_t rank)
{
	struct pending_write *write = first_write(iof, rank);
	struct err err = ERR_INIT;
	const struct push *p;
	int r;

	if (!write || write->sent)
		return;
	p = write->push;
	write->size = p->bytes.size - write->at;
	if (write->size > LINK_INPUT_MAX)
		write->size = LINK_INPUT_MAX;
	write->sent = true;
	r = serve_input(iof->px->serve, rank, p->bytes.bytes + write->at, write->size,
		p->end && write->at + write->size == p->bytes.size, on_taken, write, &err);
	if (r < 0)
		on_taken(write, r, &err);
}

static int push_begin(struct push *p, const uint32_t *ranks, size_t count)
{
	struct push **end = &p->px->iof->writing;

	p->writes = calloc(count, sizeof(*p->writes));
	if (!p->writes)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		p->writes[i] = (struct pending_write){.push = p, .rank = ranks[i]};
	p->count = count;
	p->pending += count;
	while (*end)
		end = &(*end)->next;
	*end = p;
	for (size_t i = 0; i < count; i++)
		write_next(p->px->iof, ranks[i]);
	return 0;
}

void serve_push(struct px *px, const struct rpc_request *request, struct message *args)
{
	_cleanup_free_ pmix_proc_t *procs = NULL;
	_cleanup_free_ uint32_t *ranks = NULL;
	struct push *p = calloc(1, sizeof(*p));
	size_t count;
	uint8_t end = 0;
	int r = 0;

	if (!p) {
		rpc_reply(px, request, PMIX_ERR_NOMEM, NULL);
		return;
	}
	*p = (struct push){.px = px, .request = *request, .pending = 1};
	if (!unpack(args, &end, PMIX_UINT8) || !unpack(args, &p->bytes, PMIX_BYTE_OBJECT) ||
		!unpack_procs(args, &procs, &count))
		r = -EINVAL;
	p->end = end;
	px->iof->pushing_bytes += p->bytes.size;
	if (r == 0 && px->iof->pushing_bytes > IOF_PUSH_MAX)
		r = -EBUSY;
	if (r == 0)
		r = names_local_ranks(&px->names, procs, count, px->node, false, &ranks, &count);
	if (r == 0)
		r = push_begin(p, ranks, count);
	push_release(p, r);
}

bool iof_push_is_idle(const struct iof *iof)
{
	return !iof->writing && iof->pushes == 0;
}
