/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The fence: PMI-1's barrier_in and PMI-2's kvs-fence are one and the same, so that tasks of both
 * protocols meet in it. PMI 1.2 has barriers of some ranks, "group=0,1:TAG", of all, "WORLD:TAG",
 * and of those of this node, "NODE:TAG"; the answer repeats the tag. Any fence brings what has been
 * put on its nodes to all of them; only that of all ranks settles it. Before, no get finds it:
 * kvs.h.
 */
#include <inttypes.h>
#include <string.h>

#include "mpi/pmi2/gather.h"

/* ---- the fence ------------------------------------------------------------------------------ */

static void fence_encode(struct gather *g, struct bytes *b)
{
	kvs_encode(&g->space->kvs, g->world, b);
}

static void merge_local(struct gather *g)
{
	kvs_publish(&g->space->kvs, g->world);
	if (g->world)
		kvs_settle(&g->space->kvs);
}

static int fence_merge(struct gather *g, const struct wire_block *blocks, size_t count)
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

static void fence_answer(struct gather *g, struct request *request, _unused_ uint32_t local)
{
	struct answer a;

	if (request->protocol == PMI_2) {
		answer_ok(request);
		return;
	}
	answer_open(&a, request);
	if (g->tag[0]) {
		answer_int(&a, "rc", PMI_OK);
		answer_text(&a, "tag", g->tag);
	}
	answer_close(&a);
}

const struct gather_kind fence_kind = {
	.what = "fence",
	.merge_local = merge_local,
	.encode = fence_encode,
	.merge = fence_merge,
	.answer = fence_answer,
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
	/* The bitset may be larger than the space. */
	return bitset_test(ranks, task->rank) && bitset_next(ranks, space->size) == BITSET_NONE
		? 0
		: -EINVAL;
}

int fence_run(struct request *request, const struct slice *group)
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
		r = tag && strlen(tag) >= PMI_ID_SIZE ? -EINVAL
						      : parse_group(request->task, text, &ranks);
	}
	if (r == -EINVAL) {
		answer_fail(request, PMI_ARG,
			"group '%.60s' is not WORLD, NODE or a list of ranks with the caller's",
			text);
		return 0;
	}
	if (r == 0)
		r = gather_get(request->task->space, &fence_kind, ranks.words ? &ranks : NULL,
			tag ? tag : "", &g);
	if (r < 0)
		return r;
	if (gather_has(g, request->task))
		return PMI_AGAIN;
	gather_arrive(g, request);
	return 0;
}

/* ---- the ring -------------------------------------------------------------------------------
 *
 * The ring of Slurm's PMI-2: each rank brings a number and two values and gets the sum of the
 * numbers of the ranks before it, the right value of its left neighbour and the left value of its
 * right neighbour; the last and the first rank are neighbours. The ring is in the order of the
 * ranks wherever they are. Nodes exchange the ends of their runs of consecutive ranks.
 */

struct member {
	int64_t count;
	char *left, *right; /* brought */
	int64_t before;     /* to be answered */
	char *from_left, *from_right;
};

struct ring {
	uint32_t members_count;
	struct member members[];
};

/* A run of ranks on one node, or on another. */
struct run {
	uint32_t first, size;
	int64_t count;
	struct slice left, right;
};

struct runs {
	struct run *v;
	size_t n, capacity;
};

static void free_state(void *state)
{
	struct ring *ring = state;
	uint32_t i;

	for (i = 0; i < ring->members_count; i++) {
		free(ring->members[i].left);
		free(ring->members[i].right);
		free(ring->members[i].from_left);
		free(ring->members[i].from_right);
	}
	free(ring);
}

static void ring_encode(struct gather *g, struct bytes *b)
{
	const struct pmi_space *space = g->space;
	const struct ring *ring = g->state;
	uint32_t at, end;
	int64_t count;

	for (at = 0; at < space->local_count; at = end) {
		count = 0;
		for (end = at; end < space->local_count &&
			space->tasks[end].rank == space->tasks[at].rank + (end - at);
			end++)
			count += ring->members[end].count;
		bytes_add_u32(b, space->tasks[at].rank);
		bytes_add_u32(b, end - at);
		bytes_add_u32(b, (uint32_t)(count & 0xffffffff));
		bytes_add_u32(b, (uint32_t)(count >> 32));
		bytes_add_sized(b, slice_of_text(ring->members[at].left));
		bytes_add_sized(b, slice_of_text(ring->members[end - 1].right));
	}
}

static int add_run(struct runs *runs, struct slice *data)
{
	uint32_t low, high;
	struct run run;

	if (!slice_take_u32(data, &run.first) || !slice_take_u32(data, &run.size) ||
		!slice_take_u32(data, &low) || !slice_take_u32(data, &high) ||
		!slice_take_sized(data, &run.left) || !slice_take_sized(data, &run.right) ||
		run.size == 0)
		return -EBADMSG;
	run.count = (int64_t)((uint64_t)high << 32 | low);
	if (array_reserve(runs->v, runs->capacity, runs->n + 1) < 0)
		return -ENOMEM;
	runs->v[runs->n++] = run;
	return 0;
}

static int compare_runs(const void *a, const void *b)
{
	const struct run *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

/* The members of a run that is here, between the runs beside it. */
static int fill_run(struct gather *g, const struct runs *runs, size_t at, int64_t before)
{
	struct ring *ring = g->state;
	const struct run *run = &runs->v[at];
	const struct pmi_task *task = space_find_rank(g->space, run->first);
	struct slice left = runs->v[(at + runs->n - 1) % runs->n].right;
	struct slice right = runs->v[(at + 1) % runs->n].left;
	struct member *m;
	uint32_t i;

	if (!task || task->local + run->size > ring->members_count)
		return -EBADMSG;
	m = &ring->members[task->local];
	for (i = 0; i < run->size; i++) {
		m[i].before = before;
		before += m[i].count;
		m[i].from_left = i == 0 ? slice_dup(left) : strdup(m[i - 1].right);
		m[i].from_right = i + 1 == run->size ? slice_dup(right) : strdup(m[i + 1].left);
		if (!m[i].from_left || !m[i].from_right)
			return -ENOMEM;
	}
	return 0;
}

static void free_runs(struct runs *runs)
{
	free(runs->v);
}

static int ring_merge(struct gather *g, const struct wire_block *blocks, size_t count)
{
	_cleanup_(free_runs) struct runs runs = {0};
	int64_t before = 0;
	uint32_t next = 0;
	size_t i;
	int r;

	for (i = 0; i < count; i++) {
		struct slice data = {blocks[i].data, blocks[i].size};

		while (data.size > 0) {
			r = add_run(&runs, &data);
			if (r < 0)
				return r;
		}
	}
	qsort(runs.v, runs.n, sizeof(*runs.v), compare_runs);
	for (i = 0; i < runs.n; i++) {
		if (runs.v[i].first != next || runs.v[i].size > g->space->size - next)
			return -EBADMSG;
		next += runs.v[i].size;
		r = space_node_of(g->space, runs.v[i].first) == g->space->pmi->config.node
			? fill_run(g, &runs, i, before)
			: 0;
		if (r < 0)
			return r;
		before += runs.v[i].count;
	}
	return next == g->space->size ? 0 : -EBADMSG;
}

static void ring_answer(struct gather *g, struct request *request, uint32_t local)
{
	const struct member *m = &((struct ring *)g->state)->members[local];
	struct answer a;

	answer_open(&a, request);
	answer_int(&a, "rc", PMI_OK);
	answer_int(&a, "ring-count", m->before);
	answer_text(&a, "ring-left", m->from_left);
	answer_text(&a, "ring-right", m->from_right);
	answer_close(&a);
}

const struct gather_kind ring_kind = {
	.what = "ring",
	.encode = ring_encode,
	.merge = ring_merge,
	.answer = ring_answer,
	.free_state = free_state,
};

static int ring_join(struct gather *g, const struct pmi_task *task, const struct pmi_message *m)
{
	uint32_t count = g->space->local_count;
	struct slice left = {"", 0}, right = {"", 0};
	struct ring *ring = g->state;
	struct member *member;
	int64_t number = 0;

	if (!ring) {
		ring = calloc(1, sizeof(*ring) + count * sizeof(ring->members[0]));
		if (!ring)
			return -ENOMEM;
		ring->members_count = count;
		g->state = ring;
	}
	(void)pmi_message_get(m, "ring-left", &left); /* what is missing is empty */
	(void)pmi_message_get(m, "ring-right", &right);
	if (pmi_message_get_int(m, "ring-count", INT32_MIN, INT32_MAX, &number) < 0)
		number = 0;
	member = &ring->members[task->local];
	member->count = number;
	free(member->left);
	free(member->right);
	member->left = slice_dup(left);
	member->right = slice_dup(right);
	return member->left && member->right ? 0 : -ENOMEM;
}

int ring_run(struct request *request, const struct pmi_message *m)
{
	struct gather *g = NULL;
	int r;

	r = gather_get(request->task->space, &ring_kind, NULL, "", &g);
	if (r < 0)
		return r;
	if (gather_has(g, request->task))
		return PMI_AGAIN;
	r = ring_join(g, request->task, m);
	if (r < 0)
		return r;
	gather_arrive(g, request);
	return 0;
}
