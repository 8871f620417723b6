/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The fence: PMI-1's barrier_in and PMI-2's kvs-fence are one and the same, so that tasks of both
 * protocols meet in it. PMI 1.2 has barriers of some ranks, "group=0,1:TAG", of all, "WORLD:TAG",
 * and of those of this node, "NODE:TAG"; the answer repeats the tag. Any fence brings what has been
 * put on its nodes to all of them; only that of all ranks settles it. Before, no get finds it:
 * kvs.h.
 */
#include <string.h>

#include "mpi/pmi2/gather.h"

static void encode(struct gather *g, struct bytes *b)
{
	kvs_encode(&g->space->kvs, g->world, b);
}

static void merge_local(struct gather *g)
{
	kvs_publish(&g->space->kvs, g->world);
	if (g->world)
		kvs_settle(&g->space->kvs);
}

static int merge(struct gather *g, const struct wire_block *blocks, size_t count)
{
	struct pmi_space *space = g->space;
	size_t i;
	int r;

	for (i = 0; i < count; i++) {
		r = kvs_merge(&space->kvs, (struct slice){blocks[i].data, blocks[i].size});
		if (r < 0)
			return r;
	}
	if (g->world)
		kvs_settle(&space->kvs);
	return 0;
}

static void answer(struct gather *g, struct ask *ask, uint32_t local)
{
	struct answer a;

	(void)local;
	if (ask->protocol == PMI_2) {
		answer_ok(ask);
		return;
	}
	answer_open(&a, ask);
	if (g->tag[0]) {
		answer_int(&a, "rc", PMI_OK);
		answer_text(&a, "tag", g->tag);
	}
	answer_close(&a);
}

const struct gather_kind fence_kind = {
	.what = "fence",
	.merge_local = merge_local,
	.encode = encode,
	.merge = merge,
	.answer = answer,
};

/* Makes the ranks of "0,1", "WORLD" (none: NULL) or "NODE". -EINVAL: it is none of these. */
static int parse_group(const struct pmi_task *task, const char *text, struct bitset *ranks)
{
	const struct pmi_space *space = task->space;
	uint32_t i;

	if (strcmp(text, "WORLD") == 0)
		return 0;
	if (bitset_init(ranks, space->size) < 0)
		return -ENOMEM;
	if (strcmp(text, "NODE") == 0) {
		for (i = 0; i < space->local_count; i++)
			bitset_set(ranks, space->tasks[i].rank);
		return 0;
	}
	if (bitset_add_list(ranks, text) < 0 || bitset_next(ranks, 0) == BITSET_NONE)
		return -EINVAL;
	/* The room may be larger than the space. */
	return bitset_test(ranks, task->rank) && bitset_next(ranks, space->size) == BITSET_NONE
		? 0
		: -EINVAL;
}

int fence_run(struct ask *ask, const struct slice *group)
{
	_cleanup_bitset_ struct bitset ranks = {0};
	_cleanup_free_ char *text = NULL;
	char *tag = NULL;
	struct gather *g = NULL;
	int r = 0;

	if (group) {
		text = slice_dup(*group);
		if (!text)
			return -ENOMEM;
		tag = strrchr(text, ':');
		if (tag)
			*tag++ = '\0';
		r = tag && strlen(tag) >= PMI_WORD_SIZE ? -EINVAL
							: parse_group(ask->task, text, &ranks);
	}
	if (r == -EINVAL) {
		answer_fail(ask, PMI_ARG,
			"group '%.60s' is not WORLD, NODE or a list of ranks with the caller's",
			text);
		return 0;
	}
	if (r == 0)
		r = gather_get(ask->task->space, &fence_kind, ranks.words ? &ranks : NULL,
			tag ? tag : "", &g);
	if (r < 0)
		return r;
	if (gather_has(g, ask->task))
		return PMI_AGAIN;
	gather_arrive(g, ask);
	return 0;
}
