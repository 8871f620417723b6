/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmi2/gather.h"

#include <string.h>

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
	if (g->kind->drop_state && g->state)
		g->kind->drop_state(g->state);
	bitset_clear(&g->ranks);
	bitset_clear(&g->nodes);
	bitset_clear(&g->arrived);
	free(g->asks);
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

static void fail(struct gather *g, enum pmi_code code, const char *why)
{
	struct pmi *pmi = g->space->pmi;
	uint32_t i;

	detach(g);
	pmi_log(pmi, LOG_LEVEL_ERROR, "%s: PMI %s failed: %s", g->space->name, g->kind->what, why);
	for (i = 0; i < g->space->local_count; i++) {
		if (bitset_test(&g->arrived, i))
			answer_fail(&g->asks[i], code, "%s", why);
	}
	(void)free_gather(g);
}

static void finish(struct gather *g)
{
	uint32_t i;

	detach(g);
	for (i = 0; i < g->space->local_count; i++) {
		if (bitset_test(&g->arrived, i))
			g->kind->answer(g, &g->asks[i], i);
	}
	(void)free_gather(g);
}

static void on_exchanged(
	void *userdata, int r, const struct wire_block *blocks, size_t count, const struct err *err)
{
	struct gather *g = userdata;
	struct pmi *pmi = g->space->pmi;

	if (r < 0) {
		fail(g, PMI_OTHER, err ? err->text : strerror(-r));
	} else {
		r = g->kind->merge(g, blocks, count);
		if (r < 0)
			fail(g, r == -ENOMEM ? PMI_NOMEM : PMI_OTHER,
				"what the nodes have sent can't be taken in");
		else
			finish(g);
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

	deadline_stop(pmi, &g->deadline);
	g->exchanging = true;
	if (pmi->ops.fence_abandon(pmi->userdata, &set, why, on_exchanged, g, &err) < 0)
		fail(g, PMI_OTHER, why ? why : err.text);
}

static void fail_here(struct gather *g, const char *why)
{
	if (g->across)
		abandon(g, why);
	else
		fail(g, PMI_OTHER, why);
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
		finish(g);
		return;
	}
	g->kind->encode(g, &data);
	if (data.failed) {
		fail_here(g, "there is no memory for what its ranks have put");
		return;
	}
	deadline_stop(pmi, &g->deadline); /* the exchange has its own */
	g->exchanging = true;
	if (!g->across) {
		block.data = data.data;
		block.size = data.size;
		on_exchanged(g, 0, &block, 1, NULL);
		return;
	}
	iov = (struct iovec){data.data, data.size};
	r = pmi->ops.fence(pmi->userdata, &set, &iov, data.size > 0 ? 1 : 0, on_exchanged, g, &err);
	if (r < 0)
		fail(g, PMI_OTHER, err.text);
}

/* Those of this node that have not come. */
static void find_missing(const struct gather *g, struct bitset *ranks)
{
	const struct pmi_space *space = g->space;
	uint32_t i;

	for (i = 0; i < space->local_count; i++) {
		if (!bitset_test(&g->arrived, i) && bitset_test(&g->ranks, space->tasks[i].rank))
			bitset_set(ranks, space->tasks[i].rank);
	}
}

/* Those that have gone, of any node. */
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
	if (space->far_deaths.words)
		rank = bitset_next(&space->far_deaths, 0);
	for (; rank != BITSET_NONE; rank = bitset_next(&space->far_deaths, rank + 1)) {
		if (bitset_test(&g->ranks, rank))
			bitset_set(ranks, rank);
	}
}

static void on_deadline(struct deadline *d)
{
	struct gather *g = (struct gather *)((char *)d - offsetof(struct gather, deadline));
	struct pmi_space *space = g->space;
	_cleanup_bitset_ struct bitset ranks = {0};
	char names[400] = "some ranks", why[600];

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
	fail(g, PMI_OTHER, why);
}

bool gather_fail_if_gone(struct gather *g, const char *how)
{
	_cleanup_bitset_ struct bitset ranks = {0};
	char why[600];

	if (g->exchanging || bitset_init(&ranks, g->space->size) < 0)
		return false;
	find_gone(g, &ranks);
	if (bitset_next(&ranks, 0) == BITSET_NONE)
		return false;
	death_name(g, how, &ranks, why, sizeof(why));
	fail_here(g, why);
	return true;
}

void gather_fail(struct gather *g, const char *why)
{
	struct pmi *pmi = g->space->pmi;
	struct wire_set set = set_of(g);

	g->failing = true;
	(void)pmi->ops.fence_fail(pmi->userdata, &set, why); /* else the deadline ends it */
}

/* ---- making one ---------------------------------------------------------------------------- */

static int place_ranks(struct gather *g, const struct bitset *ranks)
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
	g->asks = calloc((size_t)space->local_count + 1, sizeof(*g->asks));
	if (!g->asks || place_ranks(g, ranks) < 0)
		return -ENOMEM;
	TAILQ_INSERT_TAIL(&space->gathers, g, link);
	deadline_start(space->pmi, &g->deadline, on_deadline);
	*ret_g = take_ptr(g);
	return 0;
}

bool gather_has(const struct gather *g, const struct pmi_task *task)
{
	return bitset_test(&g->arrived, task->local);
}

void gather_arrive(struct gather *g, const struct ask *ask)
{
	uint32_t local = ask->task->local;

	ask_park(&g->asks[local], ask);
	bitset_set(&g->arrived, local);
	g->arrived_count++;
	if (g->exchanging)
		return; /* it has failed, and its end answers this task too */
	if (!gather_fail_if_gone(g, NULL) && g->arrived_count == g->expected_count)
		exchange(g);
}

/* ---- ends ---------------------------------------------------------------------------------- */

/* Those of this node that have died, if none is left here that could begin a fence, and if they
 * were the first: of what follows from another's death nobody need hear. */
static bool find_last_died(const struct pmi_space *space, struct bitset *died)
{
	uint32_t i;

	if (space->far_deaths.words && bitset_next(&space->far_deaths, 0) != BITSET_NONE)
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

/* Who waits on other nodes hears who has died, before the wire says that this node's tasks have
 * ended: it goes to the same node by the same way. Where there is no memory for it, that is what
 * they hear. */
static void fail_next(struct pmi_space *space)
{
	_cleanup_bitset_ struct bitset died = {0};
	struct pmi *pmi = space->pmi;
	struct wire_set set;
	struct gather *g;
	char why[600];

	if (bitset_count(&space->node_set) < 2 || bitset_init(&died, space->size) < 0 ||
		!find_last_died(space, &died) || gather_get(space, &fence_kind, NULL, "", &g) < 0)
		return;
	if (g->exchanging)
		return; /* they had come to this one */
	death_name(g, NULL, &died, why, sizeof(why));
	set = set_of(g);
	(void)pmi->ops.fence_fail(pmi->userdata, &set, why); /* likewise */
	detach(g);
	(void)free_gather(g);
}

void gather_task_went(struct pmi_task *task, const char *how)
{
	struct gather *g;

	if (task->died)
		death_tell(task);
	g = TAILQ_FIRST(&task->space->gathers);
	while (g) {
		/* With its end others may have ended or begun, which know of the death. */
		g = gather_fail_if_gone(g, how) ? TAILQ_FIRST(&task->space->gathers)
						: TAILQ_NEXT(g, link);
	}
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

/* ---- what other nodes ask of one that waits for this node ----------------------------------- */

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
