/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/pmix_fence.h"

#include <assert.h>
#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "stepd/base/bitset.h"

#define SETS_MAX 4096u

/* One fence of a set: what has come of it so far. */
struct turn {
	struct bitset come; /* by the nodes' numbers in the set */
	uint32_t count;
	bool is_sent; /* up the tree */
	struct pack data;
};

struct fence_set {
	LIST_ENTRY(fence_set) link;
	struct pmix_fences *fences;
	enum slurm_pmix_kind kind;
	size_t size;     /* of its ranks and nodes */
	struct pack key; /* the set's bytes */
	uint32_t *nodes; /* of the step, in its order */
	uint32_t count, self;
	struct pmix_branch branch;
	uint32_t seq;
	struct turn turns[2]; /* that one, and the next */
	bool waits;           /* the server, for its end */
	uint32_t id;
	ev_timer limit;
};

struct pmix_fences {
	struct pmix_fences_options options;
	LIST_HEAD(fence_sets, fence_set) sets;
	uint32_t sets_count;
	size_t set_bytes;
	size_t bytes; /* of all turns */
	bool is_broken;
};

/* ---- trees --------------------------------------------------------------------------------- */

/* Nodes are numbered so that each subtree is a run of them; all but the last ones are full. */
struct pmix_branch pmix_find_branch(uint32_t node, uint32_t count, uint32_t width)
{
	struct pmix_branch b = {.parent = PMIX_NO_PARENT};
	uint64_t size = 1, level = 1, at = 0, distance = 0;

	if (width == 0 || width > count)
		return b;
	while (size < count) {
		level *= width;
		size += level;
	}
	while (at != node && size > 1) {
		distance = (size - 1) / width;
		b.parent = (uint32_t)at;
		at += 1 + (node - at - 1) / distance * distance;
		size = distance;
	}
	distance = (size - 1) / width;
	b.first = node + 1;
	b.distance = (uint32_t)distance;
	while (distance > 0 && b.children < width && b.first + b.children * distance < count)
		b.children++;
	return b;
}

/* ---- turns --------------------------------------------------------------------------------- */

static void turn_clear(struct fence_set *s, struct turn *t)
{
	s->fences->bytes -= buffer_size(&t->data.bytes);
	pack_clear(&t->data);
	bitset_clear(&t->come);
	*t = (struct turn){0};
}

static void break_step(struct pmix_fences *f, const char *why)
{
	if (f->is_broken)
		return;
	f->is_broken = true;
	f->options.broken(f->options.userdata, why);
}

/* What a node of the set has sent, or has itself. False: it had come before, or nothing can be done
 * with it. */
static bool turn_add(struct fence_set *s, struct turn *t, uint32_t member, struct slice data)
{
	struct pmix_fences *f = s->fences;

	if (!t->come.words && bitset_init(&t->come, s->count) < 0) {
		break_step(f, "there is no memory for a fence of PMIx");
		return false;
	}
	if (bitset_set(&t->come, member))
		return false;
	t->count++;
	if (f->bytes + data.size > PMIX_FENCES_BYTES) {
		break_step(f, "the data of its fences of PMIx are too large");
		return false;
	}
	pack_raw(&t->data, data.data, data.size);
	if (t->data.failed) {
		break_step(f, "there is no memory for a fence of PMIx");
		return false;
	}
	f->bytes += data.size;
	/* The time counts from the first one. */
	if (!ev_is_active(&s->limit)) {
		ev_timer_set(&s->limit, f->options.timeout_s, 0.);
		ev_timer_start(f->options.loop, &s->limit);
	}
	return true;
}

/* ---- the sets ------------------------------------------------------------------------------ */

static void set_free(struct fence_set *s)
{
	LIST_REMOVE(s, link);
	s->fences->sets_count--;
	s->fences->set_bytes -= s->size;
	ev_timer_stop(s->fences->options.loop, &s->limit);
	turn_clear(s, &s->turns[0]);
	turn_clear(s, &s->turns[1]);
	pack_clear(&s->key);
	free(s->nodes);
	free(s);
}

/* Its nodes. -ESRCH: it is not of this step's ranks. */
static int mark_nodes(const struct pmix_fences *f, struct slice set, struct bitset *nodes)
{
	const struct pmix_fences_options *o = &f->options;
	struct slice nspace;
	uint32_t count, rank, i;
	bool has_all = false;

	if (!slurm_pmix_take_count(&set, &count) || count > o->ntasks)
		return -ESRCH;
	while (count-- > 0) {
		if (!slurm_pmix_take_rank(&set, &nspace, &rank) || !slice_is(nspace, o->nspace))
			return -ESRCH;
		if (rank != SLURM_PMIX_WILDCARD && rank >= o->ntasks)
			return -ESRCH;
		if (rank == SLURM_PMIX_WILDCARD)
			has_all = true;
		else
			(void)bitset_set(nodes, o->rank_nodes[rank]);
	}
	/* Once, however often they stand there. */
	for (i = 0; has_all && i < o->ntasks; i++)
		(void)bitset_set(nodes, o->rank_nodes[i]);
	return bitset_test(nodes, o->node) ? 0 : -ESRCH;
}

static int list_nodes(struct fence_set *s, const struct bitset *nodes)
{
	uint32_t node;

	s->nodes = calloc(bitset_count(nodes), sizeof(*s->nodes));
	if (!s->nodes)
		return -ENOMEM;
	for (node = bitset_next(nodes, 0); node != BITSET_NONE;
		node = bitset_next(nodes, node + 1)) {
		if (node == s->fences->options.node)
			s->self = s->count;
		s->nodes[s->count++] = node;
	}
	return 0;
}

static void set_on_limit(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents);

static int set_new(struct pmix_fences *f, enum slurm_pmix_kind kind, struct slice key,
	struct fence_set **ret_set)
{
	_cleanup_bitset_ struct bitset nodes = {0};
	struct fence_set *s;
	size_t size = 0;
	int r = f->sets_count < SETS_MAX ? bitset_init(&nodes, f->options.nnodes) : -ENOBUFS;

	if (r == 0)
		r = mark_nodes(f, key, &nodes);
	if (r == 0)
		size = key.size + bitset_count(&nodes) * sizeof(*s->nodes);
	if (size > PMIX_FENCES_SET_BYTES - f->set_bytes)
		r = -ENOBUFS;
	s = r == 0 ? calloc(1, sizeof(*s)) : NULL;
	if (!s)
		return r < 0 ? r : -ENOMEM;
	s->fences = f;
	s->kind = kind;
	s->size = size;
	LIST_INSERT_HEAD(&f->sets, s, link);
	f->sets_count++;
	f->set_bytes += size;
	ev_init(&s->limit, set_on_limit);
	s->limit.data = s;
	pack_raw(&s->key, key.data, key.size);
	r = s->key.failed ? -ENOMEM : list_nodes(s, &nodes);
	if (r < 0) {
		set_free(s);
		return r;
	}
	s->branch = pmix_find_branch(s->self, s->count, f->options.tree_width);
	*ret_set = s;
	return 0;
}

static struct slice key_of(const struct fence_set *s)
{
	return (struct slice){buffer_bytes(&s->key.bytes), buffer_size(&s->key.bytes)};
}

static int find_set(struct pmix_fences *f, enum slurm_pmix_kind kind, struct slice key,
	struct fence_set **ret_set)
{
	struct fence_set *s;

	LIST_FOREACH(s, &f->sets, link)
	{
		struct slice k = key_of(s);

		if (s->kind == kind && k.size == key.size &&
			memcmp(k.data, key.data, key.size) == 0) {
			*ret_set = s;
			return 0;
		}
	}
	return set_new(f, kind, key, ret_set);
}

/* A node's number in the set. */
static bool find_member(const struct fence_set *s, uint32_t node, uint32_t *ret_member)
{
	uint32_t i;

	for (i = 0; i < s->count; i++) {
		if (s->nodes[i] == node) {
			*ret_member = i;
			return true;
		}
	}
	return false;
}

/* ---- sending ------------------------------------------------------------------------------- */

static void send_to(struct fence_set *s, uint32_t member, enum slurm_pmix_type type, uint32_t seq,
	struct pack *body)
{
	struct pmix_fences_options *o = &s->fences->options;
	const struct slurm_pmix_head head = {.type = type, .seq = seq};

	o->send(o->userdata, s->nodes[member], &head, body);
}

static void send_data(
	struct fence_set *s, uint32_t member, enum slurm_pmix_type type, struct slice data)
{
	struct pack body = {0};

	slurm_pmix_put_set(&body, SLURM_PMIX_BY_TREE, key_of(s));
	pack_raw(&body, data.data, data.size);
	send_to(s, member, type, s->seq, &body);
}

static void send_around(
	struct fence_set *s, uint32_t seq, uint32_t contributor, uint32_t hops, struct slice data)
{
	const struct slurm_pmix_ring ring = {.contributor = contributor,
		.seq = seq,
		.hops = hops,
		.sender = s->self,
		.size = data.size};
	struct pack body = {0};

	slurm_pmix_put_set(&body, SLURM_PMIX_BY_RING, key_of(s));
	slurm_pmix_put_ring(&body, &ring);
	pack_raw(&body, data.data, data.size);
	send_to(s, (s->self + 1) % s->count, SLURM_PMIX_RING, seq, &body);
}

/* ---- the end of a fence -------------------------------------------------------------------- */

static void set_progress(struct fence_set *s);

/* The next one begins, which others may have begun before. */
static void set_finish(struct fence_set *s, int error, struct slice data)
{
	struct pmix_fences_options *o = &s->fences->options;
	bool waited = s->waits;

	s->waits = false;
	if (waited)
		o->done(o->userdata, s->id, error, data);
	turn_clear(s, &s->turns[0]);
	s->turns[0] = take_struct(s->turns[1]);
	s->seq++;
	ev_timer_stop(o->loop, &s->limit);
	if (s->turns[0].count > 0) {
		ev_timer_set(&s->limit, o->timeout_s, 0.);
		ev_timer_start(o->loop, &s->limit);
	}
}

static void set_on_limit(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct fence_set *s = timer->data;

	assert(s);
	set_finish(s, ETIMEDOUT, (struct slice){"", 0});
	set_progress(s);
}

static struct slice turn_data(const struct turn *t)
{
	return (struct slice){buffer_bytes(&t->data.bytes), buffer_size(&t->data.bytes)};
}

/* ---- trees --------------------------------------------------------------------------------- */

/* False: the fence has failed meanwhile, which sending may lead to: pmix_fences_fail(). */
static bool send_down(struct fence_set *s, struct slice data)
{
	uint32_t seq = s->seq, i;

	if (s->fences->options.direct) {
		for (i = 0; i < s->branch.children && s->seq == seq; i++)
			send_data(s, s->branch.first + i * s->branch.distance, SLURM_PMIX_FAN_OUT,
				data);
		return s->seq == seq;
	}
	for (i = 1; s->self == 0 && s->branch.children > 0 && i < s->count && s->seq == seq; i++)
		send_data(s, i, SLURM_PMIX_FAN_OUT, data);
	return s->seq == seq;
}

/* The first node has all. The data are held until they are sent, also of a fence that fails. */
static void tree_end(struct fence_set *s)
{
	struct turn ended = take_struct(s->turns[0]);

	if (send_down(s, turn_data(&ended)))
		set_finish(s, 0, turn_data(&ended));
	turn_clear(s, &ended);
}

static void tree_progress(struct fence_set *s)
{
	struct turn *t = &s->turns[0];

	while (!t->is_sent && t->count == s->branch.children + 1) {
		if (s->branch.parent != PMIX_NO_PARENT) {
			t->is_sent = true;
			send_data(s, s->branch.parent, SLURM_PMIX_FAN_IN, turn_data(t));
			return;
		}
		tree_end(s);
	}
}

static bool is_child(const struct fence_set *s, uint32_t member)
{
	const struct pmix_branch *b = &s->branch;

	return b->children > 0 && member >= b->first && (member - b->first) % b->distance == 0 &&
		(member - b->first) / b->distance < b->children;
}

static void take_from_child(struct fence_set *s, struct turn *t, uint32_t member, struct slice data)
{
	if (!is_child(s, member)) {
		break_step(s->fences, "a node is not where it is expected in the tree of PMIx");
		return;
	}
	if (turn_add(s, t, member, data))
		tree_progress(s);
}

static void take_from_parent(
	struct fence_set *s, struct turn *t, uint32_t member, struct slice data)
{
	uint32_t parent = s->fences->options.direct ? s->branch.parent : 0;

	if (member != parent || s->branch.parent == PMIX_NO_PARENT || !t->is_sent) {
		break_step(s->fences, "a node has ended a fence of PMIx that others are still in");
		return;
	}
	if (!s->fences->options.direct || send_down(s, data))
		set_finish(s, 0, data);
	tree_progress(s);
}

/* ---- rings --------------------------------------------------------------------------------- */

static void ring_progress(struct fence_set *s)
{
	while (s->turns[0].count == s->count)
		set_finish(s, 0, turn_data(&s->turns[0]));
}

static void take_ring(struct fence_set *s, uint32_t seq, uint32_t member, struct slice body)
{
	struct turn *t = &s->turns[seq - s->seq];
	struct slurm_pmix_ring ring;
	uint32_t hops;

	if (!slurm_pmix_take_ring(&body, &ring) || ring.size != body.size || ring.seq != seq ||
		ring.contributor >= s->count || ring.contributor == s->self ||
		ring.sender != member || (member + 1) % s->count != s->self) {
		break_step(s->fences, "a node is not where it is expected in the ring of PMIx");
		return;
	}
	hops = (s->self + s->count - ring.contributor) % s->count - 1;
	if (ring.hops != hops || !turn_add(s, t, ring.contributor, body))
		return;
	if ((s->self + 1) % s->count != ring.contributor)
		send_around(s, seq, ring.contributor, hops + 1, body);
	ring_progress(s);
}

static void set_progress(struct fence_set *s)
{
	if (s->kind == SLURM_PMIX_BY_RING)
		ring_progress(s);
	else
		tree_progress(s);
}

/* ---- from this node and others ------------------------------------------------------------- */

int pmix_fences_begin(struct pmix_fences *f, enum slurm_pmix_kind kind, struct slice key,
	uint32_t id, struct slice data)
{
	struct fence_set *s;
	int r = f->is_broken ? -EIO : find_set(f, kind, key, &s);

	if (r < 0)
		return r;
	if (s->waits)
		return -EALREADY;
	/* It does not wait yet: the others fail if the step breaks by this one. */
	if (!turn_add(s, &s->turns[0], s->self, data))
		return -ENOMEM;
	s->waits = true;
	s->id = id;
	if (kind == SLURM_PMIX_BY_RING && s->count > 1)
		send_around(s, s->seq, s->self, 0, data);
	set_progress(s);
	return 0;
}

/* The turn of a number; NULL: it is over, or the nodes have come apart. */
static struct turn *find_turn(struct fence_set *s, uint32_t seq)
{
	if (seq == s->seq)
		return &s->turns[0];
	if (seq == s->seq + 1)
		return &s->turns[1];
	if (seq != s->seq - 1) /* that is sent again */
		break_step(s->fences, "its nodes are not in the same fence of PMIx");
	return NULL;
}

void pmix_fences_take(
	struct pmix_fences *f, uint32_t from, const struct slurm_pmix_head *head, struct slice body)
{
	enum slurm_pmix_kind kind =
		head->type == SLURM_PMIX_RING ? SLURM_PMIX_BY_RING : SLURM_PMIX_BY_TREE;
	struct fence_set *s;
	struct slice key;
	struct turn *t;
	uint32_t sent_kind, member;

	if (f->is_broken)
		return;
	if (!slurm_pmix_take_set(&body, &sent_kind, &key) || sent_kind != kind ||
		find_set(f, kind, key, &s) < 0 || !find_member(s, from, &member)) {
		break_step(f, "a node has sent a fence of PMIx that is not this node's");
		return;
	}
	t = find_turn(s, head->seq);
	if (!t)
		return;
	if (head->type == SLURM_PMIX_RING)
		take_ring(s, head->seq, member, body);
	else if (head->type == SLURM_PMIX_FAN_IN)
		take_from_child(s, t, member, body);
	else
		take_from_parent(s, t, member, body);
}

void pmix_fences_fail(struct pmix_fences *f, int error)
{
	struct fence_set *s;

	LIST_FOREACH(s, &f->sets, link)
	{
		if (s->waits)
			set_finish(s, error, (struct slice){"", 0});
	}
}

/* ---- life ---------------------------------------------------------------------------------- */

int pmix_fences_new(const struct pmix_fences_options *options, struct pmix_fences **ret_fences)
{
	struct pmix_fences *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->options = *options;
	LIST_INIT(&f->sets);
	*ret_fences = f;
	return 0;
}

struct pmix_fences *pmix_fences_free(struct pmix_fences *f)
{
	if (!f)
		return NULL;
	while (!LIST_EMPTY(&f->sets))
		set_free(LIST_FIRST(&f->sets));
	free(f);
	return NULL;
}
