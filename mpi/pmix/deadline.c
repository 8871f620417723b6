/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The deadline of collectives that wait for a rank of the same node. libpmix does not show them to
 * its host before all ranks of the node have come, and lets nobody end one: so the step ends, with
 * a sentence that names who waits and who is missing. What waits for other nodes only has its
 * deadline in fence.c.
 */
#include "mpi/pmix/px.h"
#include "mpi/pmix/trace.h"
#include "stepd/base/bitset.h"

/* Those who wait for ranks of other nodes, too, are told by them that their collective has failed,
 * if that is how it ends: they get the time for it. */
#define ACROSS_MS 1000u

/* How a namespace of this node stands. */
struct standing {
	struct bitset waiting, missing,
		strangers;  /* who have not called PMIx_Init, of the missing */
	uint64_t waited_ms; /* the longest; 0: nobody waits */
	const char *what;
	bool across; /* it has ranks on other nodes */
};

static void standing_clear(struct standing *s)
{
	bitset_clear(&s->waiting);
	bitset_clear(&s->missing);
	bitset_clear(&s->strangers);
}

static int look(struct px *px, const struct nspace *nspace, struct standing *s)
{
	const char *what = NULL;
	uint64_t waited_ms;

	if (bitset_init(&s->waiting, nspace->size) < 0 ||
		bitset_init(&s->missing, nspace->size) < 0 ||
		bitset_init(&s->strangers, nspace->size) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < nspace->size; i++) {
		const struct nspace_rank *rank = &nspace->ranks[i];

		if (rank->node != px->node)
			s->across = true;
		if (rank->node != px->node || rank->state >= RANK_FINALIZED ||
			collective_has(px, nspace, i))
			continue;
		waited_ms = trace_waited_ms(px->trace, nspace->name, i, &what);
		bitset_set(waited_ms ? &s->waiting : &s->missing, i);
		if (!waited_ms && rank->state < RANK_CONNECTED)
			bitset_set(&s->strangers, i);
		if (waited_ms > s->waited_ms) {
			s->waited_ms = waited_ms;
			s->what = what;
		}
	}
	return 0;
}

/* "rank 3", "ranks 0-2" */
static void name_ranks(const struct bitset *ranks, char *text, size_t size)
{
	char list[200];

	(void)bitset_format_list(ranks, list, sizeof(list));
	(void)snprintf(text, size, "rank%s %s", bitset_count(ranks) == 1 ? "" : "s", list);
}

static void name_missing(const struct standing *s, char *text, size_t size)
{
	char missing[220], strangers[220];

	if (bitset_next(&s->missing, 0) == BITSET_NONE) {
		(void)snprintf(text, size, "none, they wait for one another");
		return;
	}
	name_ranks(&s->missing, missing, sizeof(missing));
	name_ranks(&s->strangers, strangers, sizeof(strangers));
	if (bitset_next(&s->strangers, 0) == BITSET_NONE)
		(void)snprintf(text, size, "%s", missing);
	else
		(void)snprintf(text, size, "%s (PMIx_Init not called: %s)", missing, strangers);
}

static void end_step(struct px *px, const struct nspace *nspace, const struct standing *s)
{
	char waiting[220], missing[500], text[1200];

	name_ranks(&s->waiting, waiting, sizeof(waiting));
	name_missing(s, missing, sizeof(missing));
	(void)snprintf(text, sizeof(text),
		"%s of %s on node %u: %s not complete after %llu ms (--pmi-timeout): missing there %s",
		waiting, nspace->name, px->node, s->what ? s->what : "a collective",
		(unsigned long long)px->host->timeout_ms, missing);
	serve_abort(px->serve, 1, text);
}

void deadline_missing(struct px *px, uint64_t set_id, char *text, size_t size)
{
	_cleanup_(standing_clear) struct standing s = {.waited_ms = 0};
	const struct nspace *nspace = collective_whole(px, set_id);
	char ranks[256];

	if (nspace && look(px, nspace, &s) == 0) {
		name_missing(&s, text, size);
		return;
	}
	(void)names_show(px->names.first, px->node, RANK_CONNECTED, ranks, sizeof(ranks));
	(void)snprintf(text, size, "some of %s", ranks);
}

/* In how many ms a namespace has to be looked at again. */
static uint64_t check(struct px *px, struct nspace *nspace)
{
	_cleanup_(standing_clear) struct standing s = {.waited_ms = 0};
	uint64_t limit_ms = px->host->timeout_ms;

	if (look(px, nspace, &s) < 0 || !s.waited_ms)
		return limit_ms;
	limit_ms += s.across ? ACROSS_MS : 0;
	if (s.waited_ms < limit_ms)
		return limit_ms - s.waited_ms;
	end_step(px, nspace, &s);
	return 0;
}

static void on_time(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct px *px = timer->data;
	uint64_t least_ms = px->host->timeout_ms, ms;

	(void)revents;
	for (struct nspace *n = px->names.first; n; n = n->next) {
		ms = check(px, n);
		if (ms == 0)
			return; /* the step ends */
		if (ms < least_ms)
			least_ms = ms;
	}
	ev_timer_set(timer, (double)least_ms / 1e3, 0.);
	ev_timer_start(loop, timer);
}

void deadline_open(struct px *px)
{
	ev_init(&px->deadline, on_time);
	px->deadline.data = px;
}

/* From the first client on it is looked at no more often than once in the time that one may wait.
 */
void deadline_start(struct px *px)
{
	if (!px->host->timeout_ms || !px->trace || ev_is_active(&px->deadline))
		return;
	ev_timer_set(&px->deadline, (double)px->host->timeout_ms / 1e3, 0.);
	ev_timer_start(px->loop, &px->deadline);
}

void deadline_close(struct px *px)
{
	ev_timer_stop(px->loop, &px->deadline);
}
