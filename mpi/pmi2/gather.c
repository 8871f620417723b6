/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fences and rings under way, and the deaths that end them.
 *
 * A rank that dies before it has finalized is reported to all nodes, so that every fence with it,
 * under way or to come, fails at once and with its name. One that it had joined before it died may
 * end either way, but alike on all nodes.
 *
 *	death: space, rank, how (numbers are 32 bits, little-endian; a text has its length before
 *	it)
 */
#include "mpi/pmi2/gather.h"

#include <string.h>

/* ---- deaths --------------------------------------------------------------------------------- */

#define GATHER_TEXT_SIZE 800u /* of the sentence that ends one */

/* Deaths that a node reports in one space: one is enough for a fence of all. */
#define DEATHS_REPORTED_MAX 8u

/* Those of other nodes that have died, if nobody else has: the first of them with its node. */
static const char *find_remote_how(const struct pmi_space *space, const struct bitset *ranks)
{
	uint32_t first = bitset_next(ranks, 0);

	return bitset_count(ranks) == 1 && first == space->remote_first ? space->remote_how
									: "went";
}

static bool are_here(const struct pmi_space *space, const struct bitset *ranks)
{
	uint32_t rank;

	for (rank = bitset_next(ranks, 0); rank != BITSET_NONE;
		rank = bitset_next(ranks, rank + 1)) {
		if (!space_find_rank(space, rank))
			return false;
	}
	return true;
}

/* "rank 3 on node 0 (a) was killed by signal 9 before the fence"; the node where there are several.
 * how: NULL for what is known. */
static void death_name(const struct gather *g, const char *how, const struct bitset *ranks,
	char *text, size_t size)
{
	const struct pmi_space *space = g->space;
	const struct pmi_config *config = &space->pmi->config;
	char names[400], where[100] = "";

	space_name_ranks(space, ranks, names, sizeof(names));
	if (!are_here(space, ranks))
		how = find_remote_how(space, ranks);
	else if (bitset_count(ranks) > 1)
		how = "went";
	else if (!how)
		how = space_find_rank(space, bitset_next(ranks, 0))->how;
	if (g->across && are_here(space, ranks))
		(void)snprintf(where, sizeof(where), "on node %u (%.64s) ", config->node,
			config->node_name);
	(void)snprintf(text, size, "%s %s%s before the %s", names, where, how[0] ? how : "went",
		g->kind->what);
}

static void death_report(const struct pmi_task *task)
{
	_cleanup_bytes_ struct bytes data = {0};
	struct pmi_space *space = task->space;
	struct pmi *pmi = space->pmi;
	char how[sizeof(space->remote_how)];
	struct err err = ERR_INIT;
	struct iovec iov;

	if (bitset_count(&space->node_set) < 2 || pmi->config.manager ||
		space->deaths_reported++ >= DEATHS_REPORTED_MAX)
		return;
	bytes_add_u32(&data, space->number);
	bytes_add_u32(&data, task->rank);
	(void)snprintf(how, sizeof(how), "on node %u (%.64s) %s", pmi->config.node,
		pmi->config.node_name, task->how);
	bytes_add_sized(&data, slice_of_text(how));
	iov = bytes_iovec(&data);
	/* A node that can't be reached has lost its way here, or meets its deadline. */
	if (!data.failed)
		(void)!wire_broadcast(
			serve_get_wire(pmi->config.serve), PMI_CHANNEL_DEATH, &iov, 1, &err);
}

/* ---- one under way -------------------------------------------------------------------------- */

static uint64_t hash_more(uint64_t h, const void *data, size_t size)
{
	const unsigned char *p = data;
	size_t i;

	for (i = 0; i < size; i++)
		h = (h ^ p[i]) * 1099511628211u;
	return h;
}

/* The same on all nodes. ranks: NULL for all. */
static uint64_t make_id(const struct pmi_space *space, const struct gather_kind *kind,
	const struct bitset *ranks, const char *tag)
{
	uint64_t h = hash_more(14695981039346656037u, kind->what, strlen(kind->what) + 1);
	uint32_t rank;

	h = hash_more(h, &space->number, sizeof(space->number));
	h = hash_more(h, tag, strlen(tag) + 1);
	for (rank = ranks ? bitset_next(ranks, 0) : BITSET_NONE; rank != BITSET_NONE;
		rank = bitset_next(ranks, rank + 1))
		h = hash_more(h, &rank, sizeof(rank));
	return h;
}

static struct wire_set set_of(const struct gather *g)
{
	return (struct wire_set){.nodes = g->nodes, .id = g->id};
}

static struct gather *free_gather(struct gather *g)
{
	if (!g)
		return NULL;
	if (g->kind->free_state && g->state)
		g->kind->free_state(g->state);
	if (g->space->pmi->managed == g)
		g->space->pmi->managed = NULL;
	bitset_clear(&g->ranks);
	bitset_clear(&g->nodes);
	bitset_clear(&g->arrived);
	free(g->requests);
	free(g);
	return NULL;
}
DEFINE_CLEANUP(struct gather *, free_gather);

/* Takes it out of the space, so that the next one can begin; all are answered and it is freed. */
static void detach(struct gather *g)
{
	deadline_stop(g->space->pmi, &g->deadline);
	TAILQ_REMOVE(&g->space->gathers, g, link);
	pmi_resume(g->space);
}

void gather_fail(struct gather *g, enum pmi_code code, const char *why)
{
	struct pmi *pmi = g->space->pmi;
	uint32_t i;

	detach(g);
	serve_log(pmi->config.serve, LOG_LEVEL_ERROR, "%s: PMI %s failed: %s", g->space->name,
		g->kind->what, why);
	for (i = 0; i < g->space->local_count; i++) {
		if (bitset_test(&g->arrived, i))
			answer_fail(&g->requests[i], code, "%s", why);
	}
	(void)free_gather(g);
}

void gather_finish(struct gather *g)
{
	uint32_t i;

	detach(g);
	for (i = 0; i < g->space->local_count; i++) {
		if (bitset_test(&g->arrived, i))
			g->kind->answer(g, &g->requests[i], i);
	}
	(void)free_gather(g);
}

static void on_exchanged(
	void *userdata, int r, const struct wire_block *blocks, size_t count, const struct err *err)
{
	struct gather *g = userdata;
	struct pmi *pmi = g->space->pmi;

	if (r < 0) {
		gather_fail(g, PMI_OTHER, err ? err->text : strerror(-r));
	} else {
		r = g->kind->merge(g, blocks, count);
		if (r < 0)
			gather_fail(g, r == -ENOMEM ? PMI_NOMEM : PMI_OTHER,
				"the data of the nodes can't be stored");
		else
			gather_finish(g);
	}
	pmi_run(pmi);
}

/* Before all of this node are here. why: NULL, it is too late. Over nodes it is over for all; g may
 * be gone. */
static void abandon(struct gather *g, const char *why)
{
	struct pmi *pmi = g->space->pmi;
	struct wire_set set = set_of(g);
	struct err err = ERR_INIT;

	if (pmi->config.manager) { /* which has no way to end it on other nodes */
		gather_fail(g, PMI_OTHER, why ? why : "ranks of this node did not come in time");
		return;
	}
	deadline_stop(pmi, &g->deadline);
	g->exchanging = true;
	if (wire_fence_abandon(serve_get_wire(pmi->config.serve), &set, pmi->config.timeout_ms, why,
		    on_exchanged, g, &err) < 0)
		gather_fail(g, PMI_OTHER, why ? why : err.text);
}

static void fail_here(struct gather *g, const char *why)
{
	if (g->across)
		abandon(g, why);
	else
		gather_fail(g, PMI_OTHER, why);
}

/* All of this node are here. */
static void exchange(struct gather *g)
{
	_cleanup_bytes_ struct bytes data = {0};
	struct pmi *pmi = g->space->pmi;
	struct wire_set set = set_of(g);
	struct wire_block block = {.node = pmi->config.node};
	struct err err = ERR_INIT;
	struct iovec iov;
	int r;

	if (!g->across && g->kind->merge_local) {
		g->kind->merge_local(g);
		gather_finish(g);
		return;
	}
	if (g->across && pmi->config.manager) {
		managed_exchange(g);
		return;
	}
	g->kind->encode(g, &data);
	if (data.failed) {
		fail_here(g, "there is no memory for the values of its ranks");
		return;
	}
	deadline_stop(pmi, &g->deadline); /* the exchange has its own */
	g->exchanging = true;
	iov = bytes_iovec(&data);
	if (!g->across) {
		block.data = iov.iov_base;
		block.size = iov.iov_len;
		on_exchanged(g, 0, &block, 1, NULL);
		return;
	}
	r = wire_fence(serve_get_wire(pmi->config.serve), &set, &iov, iov.iov_len > 0 ? 1 : 0,
		pmi->config.timeout_ms, on_exchanged, g, &err);
	if (r < 0)
		gather_fail(g, PMI_OTHER, err.text);
}

/* The ranks of this node that have not come. */
static void find_missing(const struct gather *g, struct bitset *ranks)
{
	const struct pmi_space *space = g->space;
	uint32_t i;

	for (i = 0; i < space->local_count; i++) {
		if (!bitset_test(&g->arrived, i) && bitset_test(&g->ranks, space->tasks[i].rank))
			bitset_set(ranks, space->tasks[i].rank);
	}
}

/* The ranks of any node that have gone. */
static void find_gone(const struct gather *g, struct bitset *ranks)
{
	const struct pmi_space *space = g->space;
	uint32_t i, rank = BITSET_NONE;

	for (i = 0; i < space->local_count; i++) {
		const struct pmi_task *task = &space->tasks[i];

		if ((task->gone || task->ended) && !bitset_test(&g->arrived, i) &&
			bitset_test(&g->ranks, task->rank))
			bitset_set(ranks, task->rank);
	}
	if (space->remote_deaths.words)
		rank = bitset_next(&space->remote_deaths, 0);
	for (; rank != BITSET_NONE; rank = bitset_next(&space->remote_deaths, rank + 1)) {
		if (bitset_test(&g->ranks, rank))
			bitset_set(ranks, rank);
	}
}

static void gather_on_deadline(struct deadline *d)
{
	struct gather *g = (struct gather *)((char *)d - offsetof(struct gather, deadline));
	struct pmi_space *space = g->space;
	_cleanup_bitset_ struct bitset ranks = {0};
	char names[400] = "some ranks", why[GATHER_TEXT_SIZE];

	if (g->across) {
		abandon(g, NULL);
		return;
	}
	if (bitset_init(&ranks, space->size) == 0) {
		find_missing(g, &ranks);
		space_name_ranks(space, &ranks, names, sizeof(names));
	}
	(void)snprintf(why, sizeof(why), "%s did not come to the %s within %.3g s (--pmi-timeout)",
		names, g->kind->what, (double)space->pmi->config.timeout_ms / 1000);
	gather_fail(g, PMI_OTHER, why);
}

/* Whether one is waited for in vain, here or on another node; then it is over, and g may be gone.
 */
static bool gather_fail_if_gone(struct gather *g, const char *how)
{
	_cleanup_bitset_ struct bitset ranks = {0};
	char why[GATHER_TEXT_SIZE];

	if (g->exchanging || bitset_init(&ranks, g->space->size) < 0)
		return false;
	find_gone(g, &ranks);
	if (bitset_next(&ranks, 0) == BITSET_NONE)
		return false;
	death_name(g, how, &ranks, why, sizeof(why));
	fail_here(g, why);
	return true;
}

/* ---- making one ---------------------------------------------------------------------------- */

static int set_ranks(struct gather *g, const struct bitset *ranks)
{
	struct pmi_space *space = g->space;
	uint32_t rank;

	if (bitset_init(&g->ranks, space->size) < 0 ||
		bitset_init(&g->nodes, space->pmi->config.node_count) < 0 ||
		bitset_init(&g->arrived, space->local_count) < 0)
		return -ENOMEM;
	for (rank = 0; rank < space->size; rank++) {
		if (ranks && !bitset_test(ranks, rank))
			continue;
		bitset_set(&g->ranks, rank);
		if (space->nodes)
			bitset_set(&g->nodes, space->nodes[rank]);
		if (space_find_rank(space, rank))
			g->expected_count++;
	}
	if (!space->nodes) {
		for (rank = 0; rank < space->pmi->config.node_count; rank++)
			bitset_set(&g->nodes, rank);
	}
	g->across = bitset_count(&g->nodes) > 1;
	return 0;
}

int gather_get(struct pmi_space *space, const struct gather_kind *kind, const struct bitset *ranks,
	const char *tag, struct gather **ret_g)
{
	_cleanup_(free_gather_p) struct gather *g = NULL;
	uint64_t id = make_id(space, kind, ranks, tag);

	TAILQ_FOREACH(g, &space->gathers, link)
	{
		if (g->id == id) {
			*ret_g = take_ptr(g);
			return 0;
		}
	}
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	*g = (struct gather){.space = space, .kind = kind, .id = id, .world = !ranks};
	(void)snprintf(g->tag, sizeof(g->tag), "%s", tag);
	g->requests = calloc((size_t)space->local_count + 1, sizeof(*g->requests));
	if (!g->requests || set_ranks(g, ranks) < 0)
		return -ENOMEM;
	TAILQ_INSERT_TAIL(&space->gathers, g, link);
	deadline_start(space->pmi, &g->deadline, gather_on_deadline);
	*ret_g = take_ptr(g);
	return 0;
}

bool gather_has(const struct gather *g, const struct pmi_task *task)
{
	return bitset_test(&g->arrived, task->local);
}

void gather_arrive(struct gather *g, const struct request *request)
{
	uint32_t local = request->task->local;

	request_park(&g->requests[local], request);
	bitset_set(&g->arrived, local);
	g->arrived_count++;
	if (g->exchanging)
		return; /* it has failed, and its end answers this task too */
	if (!gather_fail_if_gone(g, NULL) && g->arrived_count == g->expected_count)
		exchange(g);
}

/* ---- ends ---------------------------------------------------------------------------------- */

/* Those of this node that have died, if none is left here that could begin a fence, and if they
 * were the first: what follows from another's death is not reported. */
static bool find_last_died(const struct pmi_space *space, struct bitset *died)
{
	uint32_t i;

	if (space->remote_deaths.words && bitset_next(&space->remote_deaths, 0) != BITSET_NONE)
		return false;
	for (i = 0; i < space->local_count; i++) {
		const struct pmi_task *task = &space->tasks[i];

		if (!task->gone && !task->ended)
			return false;
		if (task->died)
			bitset_set(died, task->rank);
	}
	return bitset_next(died, 0) != BITSET_NONE;
}

/* Fences that wait on other nodes get the names of the dead, before the wire reports that this
 * node's tasks have ended: both go to the same node by the same way. Without memory for the names,
 * that report alone ends them. */
static void fail_next(struct pmi_space *space)
{
	_cleanup_bitset_ struct bitset died = {0};
	struct pmi *pmi = space->pmi;
	struct wire_set set;
	struct gather *g;
	char why[GATHER_TEXT_SIZE];

	if (bitset_count(&space->node_set) < 2 || bitset_init(&died, space->size) < 0 ||
		!find_last_died(space, &died) || gather_get(space, &fence_kind, NULL, "", &g) < 0)
		return;
	if (g->exchanging)
		return; /* they had come to this one */
	death_name(g, NULL, &died, why, sizeof(why));
	set = set_of(g);
	(void)wire_fence_fail(serve_get_wire(pmi->config.serve), &set, why); /* likewise */
	detach(g);
	(void)free_gather(g);
}

void gather_task_went(struct pmi_task *task, const char *how)
{
	struct gather *g;

	if (task->died)
		death_report(task);
	g = TAILQ_FIRST(&task->space->gathers);
	while (g) {
		/* With its end others may have ended or begun, which know of the death. */
		g = gather_fail_if_gone(g, how) ? TAILQ_FIRST(&task->space->gathers)
						: TAILQ_NEXT(g, link);
	}
	if (!task->pmi->config.manager)
		fail_next(task->space);
}

void gather_drop_all(struct pmi_space *space)
{
	struct gather *g;

	while ((g = TAILQ_FIRST(&space->gathers))) {
		deadline_stop(space->pmi, &g->deadline);
		TAILQ_REMOVE(&space->gathers, g, link);
		(void)free_gather(g);
	}
}

/* ---- the ranks that another node misses ----------------------------------------------------- */

static void name_missing(struct pmi_space *space, const struct gather *g, char *text, size_t size)
{
	_cleanup_bitset_ struct bitset ranks = {0};
	uint32_t i;

	if (bitset_init(&ranks, space->size) < 0)
		return;
	if (g)
		find_missing(g, &ranks);
	for (i = 0; i < space->local_count && !g; i++)
		bitset_set(&ranks, space->tasks[i].rank);
	if (bitset_count(&ranks) > 0)
		space_name_ranks(space, &ranks, text, size);
}

void pmi_missing(struct pmi *pmi, uint64_t set_id, char *text, size_t size)
{
	struct pmi_space *space;
	struct gather *g;

	TAILQ_FOREACH(space, &pmi->spaces, link)
	{
		TAILQ_FOREACH(g, &space->gathers, link)
		{
			if (g->id == set_id) {
				name_missing(space, g, text, size);
				return;
			}
		}
		if (set_id == make_id(space, &fence_kind, NULL, "") ||
			set_id == make_id(space, &ring_kind, NULL, "")) {
			name_missing(space, NULL, text, size);
			return;
		}
	}
}

/* ---- deaths on other nodes ------------------------------------------------------------------ */

static int death_note(struct pmi_space *space, uint32_t rank, struct slice how)
{
	if (!space->remote_deaths.words && bitset_init(&space->remote_deaths, space->size) < 0)
		return -ENOMEM;
	if (bitset_next(&space->remote_deaths, 0) == BITSET_NONE) {
		space->remote_first = rank;
		(void)snprintf(space->remote_how, sizeof(space->remote_how), "%.*s", (int)how.size,
			how.data);
	}
	bitset_set(&space->remote_deaths, rank);
	return 0;
}

/* Whether the gather is over, or at least not to be visited again. */
static bool end_gather(struct gather *g, uint32_t rank)
{
	_cleanup_bitset_ struct bitset ranks = {0};
	struct pmi *pmi = g->space->pmi;
	struct wire_set set = set_of(g);
	char why[GATHER_TEXT_SIZE];

	if (!bitset_test(&g->ranks, rank) || g->failing)
		return false;
	if (!g->exchanging)
		return gather_fail_if_gone(g, NULL);
	if (bitset_init(&ranks, g->space->size) < 0)
		return false;
	bitset_set(&ranks, rank);
	death_name(g, NULL, &ranks, why, sizeof(why));
	/* It has died while this node waits for the others. */
	g->failing = true;
	(void)wire_fence_fail(
		serve_get_wire(pmi->config.serve), &set, why); /* else the deadline ends it */
	return true;
}

void death_receive(struct pmi *pmi, uint32_t from, struct slice data)
{
	struct pmi_space *space;
	uint32_t number, rank;
	struct slice how;
	struct gather *g;

	if (!slice_take_u32(&data, &number) || !slice_take_u32(&data, &rank) ||
		!slice_take_sized(&data, &how) || how.size >= sizeof(space->remote_how)) {
		serve_log(pmi->config.serve, LOG_LEVEL_WARNING,
			"PMI: node %u has reported a death in a message that can't be parsed, ignoring",
			from);
		return;
	}
	space = pmi_find_space(pmi, number);
	if (!space || rank >= space->size || space_find_rank(space, rank) ||
		(space->nodes && space->nodes[rank] != from) || death_note(space, rank, how) < 0)
		return;
	g = TAILQ_FIRST(&space->gathers);
	while (g) {
		/* With its end others may have ended or begun. */
		g = end_gather(g, rank) ? TAILQ_FIRST(&space->gathers) : TAILQ_NEXT(g, link);
	}
}
