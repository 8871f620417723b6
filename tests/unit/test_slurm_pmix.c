/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fences of PMIx among nodes as Slurm's mpi/pmix has them, whatever the order in which messages
 * come; the messages themselves; and what slurm.conf and mpi.conf have for them.
 */
#include "contrib/slurm/pmix_fence.h"

#include <arpa/inet.h>
#include <ev.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/queue.h>

#include <cmocka.h>

#include "contrib/slurm/pmix_settings.h"
#include "contrib/slurm/site_nodes.h"
#include "tests/lib/scratch.h"

#define NODES_MAX 13u
#define NSPACE    "slurm.pmix.7.1"

static struct slice slice_of_pack(const struct pack *p)
{
	return (struct slice){buffer_bytes(&p->bytes), buffer_size(&p->bytes)};
}

/* ---- nodes that exchange messages ---------------------------------------------------------- */

struct message {
	STAILQ_ENTRY(message) link;
	uint32_t from, to;
	struct slurm_pmix_head head;
	struct pack body;
};

struct cluster;

struct node {
	struct cluster *cluster;
	uint32_t number;
	struct pmix_fences *fences;
	unsigned ended, failed;
	char data[512];
};

struct cluster {
	struct ev_loop *loop;
	uint32_t n;
	uint32_t rank_nodes[2 * NODES_MAX]; /* two ranks a node, cyclic */
	struct node nodes[NODES_MAX];
	STAILQ_HEAD(messages, message) messages;
	unsigned count, sent; /* under way; ever */
	const char *broken;
	bool fails; /* what is sent: all fences of its sender fail */
	uint32_t random;
};

static void on_send(
	void *userdata, uint32_t to, const struct slurm_pmix_head *head, struct pack *body)
{
	struct node *node = userdata;
	struct message *m = calloc(1, sizeof(*m));

	assert_non_null(m);
	assert_true(to < node->cluster->n && to != node->number);
	m->from = node->number;
	m->to = to;
	m->head = *head;
	m->body = take_struct(*body);
	assert_false(m->body.failed);
	STAILQ_INSERT_TAIL(&node->cluster->messages, m, link);
	node->cluster->count++;
	node->cluster->sent++;
	if (node->cluster->fails)
		pmix_fences_fail(node->fences, EIO);
}

static void on_done(void *userdata, uint32_t id, int error, struct slice data)
{
	struct node *node = userdata;

	assert_int_equal(id, node->number + 100);
	assert_true(data.size < sizeof(node->data));
	memcpy(node->data, data.data, data.size);
	node->data[data.size] = '\0';
	node->ended += !error;
	node->failed += error != 0;
}

static void on_any_done(
	_unused_ void *userdata, _unused_ uint32_t id, int error, _unused_ struct slice data)
{
	assert_int_equal(error, 0);
}

static void on_broken(void *userdata, const char *why)
{
	struct node *node = userdata;

	node->cluster->broken = why;
	pmix_fences_fail(node->fences, EIO);
}

static void cluster_begin(struct cluster *c, uint32_t n, uint32_t width, bool direct)
{
	uint32_t i;

	*c = (struct cluster){.loop = ev_loop_new(EVFLAG_NOENV), .n = n, .random = 1 + n + width};
	assert_non_null(c->loop);
	STAILQ_INIT(&c->messages);
	for (i = 0; i < 2 * n; i++)
		c->rank_nodes[i] = i % n;
	for (i = 0; i < n; i++) {
		const struct pmix_fences_options options = {.loop = c->loop,
			.timeout_s = 60,
			.nspace = NSPACE,
			.node = i,
			.nnodes = n,
			.rank_nodes = c->rank_nodes,
			.ntasks = 2 * n,
			.tree_width = width,
			.direct = direct,
			.send = on_send,
			.done = on_done,
			.broken = on_broken,
			.userdata = &c->nodes[i]};

		c->nodes[i].cluster = c;
		c->nodes[i].number = i;
		assert_int_equal(pmix_fences_new(&options, &c->nodes[i].fences), 0);
	}
}

/* One of the messages between two nodes that have the order in which they were sent. */
static struct message *take_any(struct cluster *c)
{
	struct message *m, *first;
	unsigned k;

	c->random = c->random * 1103515245u + 12345u;
	k = (c->random >> 16) % c->count;
	m = STAILQ_FIRST(&c->messages);
	while (k-- > 0)
		m = STAILQ_NEXT(m, link);
	STAILQ_FOREACH(first, &c->messages, link)
	{
		if (first->from == m->from && first->to == m->to)
			break;
	}
	STAILQ_REMOVE(&c->messages, first, message, link);
	c->count--;
	return first;
}

static void deliver(struct cluster *c, struct message *m)
{
	pmix_fences_take(c->nodes[m->to].fences, m->from, &m->head, slice_of_pack(&m->body));
	pack_clear(&m->body);
	free(m);
}

static void deliver_all(struct cluster *c)
{
	while (c->count > 0)
		deliver(c, take_any(c));
}

static void cluster_end(struct cluster *c)
{
	uint32_t i;

	while (c->count > 0) {
		struct message *m = take_any(c);

		pack_clear(&m->body);
		free(m);
	}
	for (i = 0; i < c->n; i++)
		c->nodes[i].fences = pmix_fences_free(c->nodes[i].fences);
	ev_loop_destroy(c->loop);
}

static void set_of_all(struct pack *set)
{
	slurm_pmix_begin_set(set, 1);
	slurm_pmix_add_rank(set, slice_of_text(NSPACE), SLURM_PMIX_WILDCARD);
}

static int begin(struct cluster *c, uint32_t node, enum slurm_pmix_kind kind,
	const struct pack *set, const char *data)
{
	return pmix_fences_begin(
		c->nodes[node].fences, kind, slice_of_pack(set), node + 100, slice_of_text(data));
}

/* Each node's part is "<N.TURN>", in any order. */
static void assert_whole(
	const struct node *node, const uint32_t *members, uint32_t n, unsigned turn)
{
	size_t size = 0;
	char part[32];
	uint32_t i;

	for (i = 0; i < n; i++) {
		(void)snprintf(part, sizeof(part), "<%u.%u>", members[i], turn);
		assert_non_null(strstr(node->data, part));
		size += strlen(part);
	}
	assert_int_equal(strlen(node->data), size);
}

static void run_fences(enum slurm_pmix_kind kind, uint32_t n, uint32_t width, bool direct)
{
	static const uint32_t all[NODES_MAX] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
	_cleanup_pack_ struct pack set = {0};
	struct cluster c;
	char part[32];
	unsigned turn;
	uint32_t i;

	cluster_begin(&c, n, width, direct);
	set_of_all(&set);
	for (turn = 0; turn < 5; turn++) {
		for (i = 0; i < n; i++) {
			(void)snprintf(part, sizeof(part), "<%u.%u>", i, turn);
			assert_int_equal(begin(&c, i, kind, &set, part), 0);
			/* Some of the messages come before others begin. */
			if (c.count > 0 && i % 2)
				deliver(&c, take_any(&c));
		}
		deliver_all(&c);
		assert_null(c.broken);
		for (i = 0; i < n; i++) {
			assert_int_equal(c.nodes[i].ended, turn + 1);
			assert_whole(&c.nodes[i], all, n, turn);
		}
	}
	cluster_end(&c);
}

static void test_rings(void **state)
{
	uint32_t n;

	(void)state;
	for (n = 1; n <= NODES_MAX; n++)
		run_fences(SLURM_PMIX_BY_RING, n, 50, true);
}

static void test_trees(void **state)
{
	uint32_t n, width;

	(void)state;
	for (n = 2; n <= NODES_MAX; n++) {
		for (width = 1; width <= n; width++) {
			run_fences(SLURM_PMIX_BY_TREE, n, width, true);
			run_fences(SLURM_PMIX_BY_TREE, n, width, false);
		}
	}
}

/* A node begins its next fence as soon as it has the end of the last one, whatever the others do.
 */
static void run_ahead(enum slurm_pmix_kind kind, bool direct)
{
	enum {
		TURNS = 20,
		N = 7
	};
	_cleanup_pack_ struct pack set = {0};
	unsigned begun[N] = {0}, all = 0;
	struct cluster c;
	uint32_t i;

	cluster_begin(&c, N, 2, direct);
	set_of_all(&set);
	while (all < TURNS * N) {
		for (i = 0; i < N; i++) {
			if (begun[i] == TURNS || begun[i] > c.nodes[i].ended)
				continue;
			assert_int_equal(begin(&c, i, kind, &set, "x"), 0);
			begun[i]++;
		}
		if (c.count > 0)
			deliver(&c, take_any(&c));
		for (all = i = 0; i < N; i++)
			all += c.nodes[i].ended;
	}
	assert_null(c.broken);
	assert_int_equal(c.count, 0);
	for (i = 0; i < N; i++)
		assert_int_equal(strlen(c.nodes[i].data), N);
	cluster_end(&c);
}

static void test_ahead(void **state)
{
	(void)state;
	run_ahead(SLURM_PMIX_BY_RING, true);
	run_ahead(SLURM_PMIX_BY_TREE, true);
	run_ahead(SLURM_PMIX_BY_TREE, false);
}

/* The places that Slurm 22.05 gives them. */
static void test_branches(void **state)
{
	static const struct {
		uint32_t node, count, width, parent, first, distance, children;
	} rows[] = {
		{0, 4, 50, PMIX_NO_PARENT, 0, 0, 0},
		{3, 4, 50, PMIX_NO_PARENT, 0, 0, 0},
		{0, 4, 4, PMIX_NO_PARENT, 1, 1, 3},
		{3, 4, 4, 0, 4, 0, 0},
		{0, 4, 2, PMIX_NO_PARENT, 1, 3, 1},
		{1, 4, 2, 0, 2, 1, 2},
		{2, 4, 2, 1, 3, 0, 0},
		{3, 4, 2, 1, 4, 0, 0},
		{0, 9, 2, PMIX_NO_PARENT, 1, 7, 2},
		{1, 9, 2, 0, 2, 3, 2},
		{5, 9, 2, 1, 6, 1, 2},
		{8, 9, 2, 0, 9, 3, 0},
		{2, 3, 1, 1, 3, 0, 0},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct pmix_branch b = pmix_find_branch(rows[i].node, rows[i].count, rows[i].width);

		assert_int_equal(b.parent, rows[i].parent);
		assert_int_equal(b.children, rows[i].children);
		if (b.children > 0) {
			assert_int_equal(b.first, rows[i].first);
			assert_true(b.children == 1 || b.distance == rows[i].distance);
		}
	}
}

/* Of ranks 1, 4 and 6 of 4 nodes: nodes 1, 0 and 2. */
static void test_subsets(void **state)
{
	static const uint32_t members[] = {0, 1, 2};
	_cleanup_pack_ struct pack set = {0}, other = {0}, strange = {0}, huge = {0};
	struct cluster c;
	char part[32];
	uint32_t i;

	(void)state;
	cluster_begin(&c, 4, 2, true);
	slurm_pmix_begin_set(&set, 3);
	slurm_pmix_add_rank(&set, slice_of_text(NSPACE), 1);
	slurm_pmix_add_rank(&set, slice_of_text(NSPACE), 4);
	slurm_pmix_add_rank(&set, slice_of_text(NSPACE), 6);
	for (i = 0; i < 3; i++) {
		(void)snprintf(part, sizeof(part), "<%u.0>", i);
		assert_int_equal(begin(&c, i, SLURM_PMIX_BY_RING, &set, part), 0);
	}
	assert_int_equal(begin(&c, 3, SLURM_PMIX_BY_RING, &set, ""), -ESRCH);
	assert_int_equal(begin(&c, 0, SLURM_PMIX_BY_RING, &set, ""), -EALREADY);
	deliver_all(&c);
	for (i = 0; i < 3; i++)
		assert_whole(&c.nodes[i], members, 3, 0);
	slurm_pmix_begin_set(&other, 1);
	slurm_pmix_add_rank(&other, slice_of_text(NSPACE), 8);
	assert_int_equal(begin(&c, 0, SLURM_PMIX_BY_RING, &other, ""), -ESRCH);
	slurm_pmix_begin_set(&strange, 1);
	slurm_pmix_add_rank(&strange, slice_of_text("slurm.pmix.7.2"), 0);
	assert_int_equal(begin(&c, 0, SLURM_PMIX_BY_TREE, &strange, ""), -ESRCH);
	slurm_pmix_begin_set(&huge, UINT32_MAX);
	assert_int_equal(begin(&c, 0, SLURM_PMIX_BY_TREE, &huge, ""), -ESRCH);
	assert_null(c.broken);
	cluster_end(&c);
}

/* Any number of ranks, of which a hostile server can make sets without end. */
static void test_large_sets(void **state)
{
	enum {
		RANKS = 40000, /* 23 bytes each */
		SETS = 64
	};
	_cleanup_free_ uint32_t *rank_nodes = calloc(RANKS, sizeof(*rank_nodes));
	struct pmix_fences_options options = {.nspace = NSPACE,
		.nnodes = 1,
		.ntasks = RANKS,
		.tree_width = 50,
		.timeout_s = 60,
		.done = on_any_done};
	struct pmix_fences *fences;
	unsigned begun = 0;
	uint32_t i;
	int r;

	(void)state;
	assert_non_null(rank_nodes);
	options.rank_nodes = rank_nodes;
	options.loop = ev_loop_new(EVFLAG_NOENV);
	assert_non_null(options.loop);
	assert_int_equal(pmix_fences_new(&options, &fences), 0);
	do {
		_cleanup_pack_ struct pack set = {0};

		slurm_pmix_begin_set(&set, RANKS);
		for (i = 0; i < RANKS; i++)
			slurm_pmix_add_rank(
				&set, slice_of_text(NSPACE), i == begun ? SLURM_PMIX_WILDCARD : i);
		r = pmix_fences_begin(
			fences, SLURM_PMIX_BY_TREE, slice_of_pack(&set), 0, slice_of_text(""));
	} while (r == 0 && ++begun < 2 * SETS);
	assert_int_equal(r, -ENOBUFS);
	assert_in_range(begun, SETS, 2 * SETS - 1);
	(void)pmix_fences_free(fences);
	ev_loop_destroy(options.loop);
}

/* ---- what goes wrong ----------------------------------------------------------------------- */

static const char *take_one(
	enum slurm_pmix_type type, uint32_t seq, uint32_t from, const struct slurm_pmix_ring *ring)
{
	static const char *why;
	_cleanup_pack_ struct pack set = {0}, body = {0};
	const struct slurm_pmix_head head = {.type = type, .seq = seq};
	struct cluster c;

	cluster_begin(&c, 4, 2, true);
	set_of_all(&set);
	slurm_pmix_put_set(
		&body, ring ? SLURM_PMIX_BY_RING : SLURM_PMIX_BY_TREE, slice_of_pack(&set));
	if (ring)
		slurm_pmix_put_ring(&body, ring);
	pmix_fences_take(c.nodes[1].fences, from, &head, slice_of_pack(&body));
	why = c.broken;
	cluster_end(&c);
	return why;
}

static void test_apart(void **state)
{
	const struct slurm_pmix_ring good = {.contributor = 0, .sender = 0},
				     next = {.contributor = 0, .sender = 0, .seq = 1},
				     later = {.contributor = 0, .sender = 0, .seq = 2},
				     large = {.contributor = 4, .sender = 0},
				     own = {.contributor = 1, .sender = 0},
				     other = {.contributor = 0, .sender = 2},
				     longer = {.contributor = 0, .sender = 0, .size = 1};

	(void)state;
	assert_null(take_one(SLURM_PMIX_RING, 0, 0, &good));
	assert_null(take_one(SLURM_PMIX_RING, 1, 0, &next));
	assert_non_null(take_one(SLURM_PMIX_RING, 0, 0, &next));
	assert_non_null(take_one(SLURM_PMIX_RING, 2, 0, &later));
	assert_non_null(take_one(SLURM_PMIX_RING, 0, 2, &good));
	assert_non_null(take_one(SLURM_PMIX_RING, 0, 0, &large));
	assert_non_null(take_one(SLURM_PMIX_RING, 0, 0, &own));
	assert_non_null(take_one(SLURM_PMIX_RING, 0, 0, &other));
	assert_non_null(take_one(SLURM_PMIX_RING, 0, 0, &longer));
	/* Node 1's children are 2 and 3, its parent 0. */
	assert_null(take_one(SLURM_PMIX_FAN_IN, 0, 2, NULL));
	assert_null(take_one(SLURM_PMIX_FAN_IN, 1, 3, NULL));
	assert_null(take_one(SLURM_PMIX_FAN_IN, UINT32_MAX, 3, NULL));
	assert_non_null(take_one(SLURM_PMIX_FAN_IN, 7, 3, NULL));
	assert_non_null(take_one(SLURM_PMIX_FAN_IN, 0, 0, NULL));
	assert_non_null(take_one(SLURM_PMIX_FAN_OUT, 0, 0, NULL));
	assert_non_null(take_one(SLURM_PMIX_FAN_OUT, 0, 2, NULL));
}

/* A node that does not come: those that wait fail, and what it sends later is of the next fence. */
static void test_failure(void **state)
{
	_cleanup_pack_ struct pack set = {0};
	struct cluster c;
	uint32_t i;

	(void)state;
	cluster_begin(&c, 3, 50, true);
	set_of_all(&set);
	for (i = 0; i < 2; i++)
		assert_int_equal(begin(&c, i, SLURM_PMIX_BY_RING, &set, "x"), 0);
	deliver_all(&c);
	for (i = 0; i < 3; i++) {
		pmix_fences_fail(c.nodes[i].fences, EIO);
		assert_int_equal(c.nodes[i].failed, i < 2);
		assert_int_equal(c.nodes[i].ended, 0);
	}
	assert_null(c.broken);
	cluster_end(&c);
}

/* What this node brings itself is too much: the fence has one end, and is the last one. */
static void test_too_much(void **state)
{
	_cleanup_pack_ struct pack set = {0};
	struct cluster c;

	(void)state;
	cluster_begin(&c, 2, 50, true);
	set_of_all(&set);
	assert_int_equal(
		pmix_fences_begin(c.nodes[0].fences, SLURM_PMIX_BY_RING, slice_of_pack(&set), 100,
			(struct slice){"", PMIX_FENCES_BYTES + 1}),
		-ENOMEM);
	assert_non_null(c.broken);
	assert_int_equal(c.nodes[0].failed, 0);
	assert_int_equal(begin(&c, 0, SLURM_PMIX_BY_RING, &set, ""), -EIO);
	assert_int_equal(c.nodes[0].failed, 0);
	assert_int_equal(c.sent, 0);
	cluster_end(&c);
}

/* A message that can't be sent ends all fences of its node, the one that sends it among them. */
static void run_unsent(bool direct)
{
	static const char zeros[4096];
	_cleanup_pack_ struct pack set = {0};
	struct cluster c;
	uint32_t i;

	cluster_begin(&c, 4, 4, direct);
	set_of_all(&set);
	for (i = 1; i < 4; i++)
		assert_int_equal(
			pmix_fences_begin(c.nodes[i].fences, SLURM_PMIX_BY_TREE,
				slice_of_pack(&set), i + 100, (struct slice){zeros, sizeof(zeros)}),
			0);
	deliver_all(&c);
	c.sent = 0;
	c.fails = true;
	assert_int_equal(begin(&c, 0, SLURM_PMIX_BY_TREE, &set, "x"), 0);
	assert_int_equal(c.sent, 1);
	assert_int_equal(c.nodes[0].failed, 1);
	assert_int_equal(c.nodes[0].ended, 0);
	cluster_end(&c);
}

static void test_unsent(void **state)
{
	(void)state;
	run_unsent(true);
	run_unsent(false);
}

/* ---- messages ------------------------------------------------------------------------------ */

static void test_heads(void **state)
{
	static const char expected[] = "\xca\xfe\xca\x11"
				       "\0\0\0\5"
				       "\0\0\0\2"
				       "\0\0\0\3"
				       "\0\0\0\x06"
				       "\1";
	const struct slurm_pmix_head head = {
		.type = SLURM_PMIX_RING, .seq = 2, .node = 3, .size = 6, .has_port = true};
	struct slurm_pmix_head read;
	_cleanup_pack_ struct pack p = {0}, native = {0};
	struct slice rest;
	uint16_t port;

	(void)state;
	slurm_pmix_put_head(&p, &head, false);
	assert_int_equal(buffer_size(&p.bytes), SLURM_PMIX_HEAD_SIZE);
	assert_memory_equal(buffer_bytes(&p.bytes), expected, SLURM_PMIX_HEAD_SIZE);
	slurm_pmix_put_port(&p, 4711);
	rest = slice_of_pack(&p);
	assert_int_equal(slurm_pmix_read_head(rest, false, &read), 0);
	assert_true(read.type == head.type && read.seq == 2 && read.node == 3 && read.size == 6 &&
		read.has_port);
	rest.data += SLURM_PMIX_HEAD_SIZE;
	rest.size -= SLURM_PMIX_HEAD_SIZE;
	assert_int_equal(rest.size, SLURM_PMIX_PORT_SIZE);
	assert_true(slurm_pmix_take_port(&rest, &port));
	assert_int_equal(port, 4711);
	assert_false(slurm_pmix_take_port(&rest, &port));
	slurm_pmix_put_head(&native, &head, true);
	assert_int_equal(slurm_pmix_read_head(slice_of_pack(&native), true, &read), 0);
	assert_int_equal(
		slurm_pmix_read_head(slice_of_pack(&native), htonl(1) != 1 ? false : true, &read),
		htonl(1) != 1 ? -EBADMSG : 0);
	assert_int_equal(slurm_pmix_read_head(
				 (struct slice){expected, SLURM_PMIX_HEAD_SIZE - 1}, false, &read),
		-EBADMSG);
}

static void test_modex(void **state)
{
	const struct slurm_pmix_modex request = {.nspace = {NSPACE, strlen(NSPACE)},
					      .sender = {NSPACE, strlen(NSPACE)},
					      .rank = 5},
				      reply = {.is_reply = true,
					      .nspace = {"a", 1},
					      .sender = {"b", 1},
					      .rank = 6,
					      .status = -1,
					      .data = {"data", 4}};
	struct slurm_pmix_modex read;
	_cleanup_pack_ struct pack p = {0}, q = {0}, c = {0};
	struct slice all;
	size_t cut;

	(void)state;
	slurm_pmix_put_modex(&p, &request);
	assert_true(slurm_pmix_read_modex(slice_of_pack(&p), &read));
	assert_true(!read.is_reply && slice_is(read.nspace, NSPACE) && read.rank == 5);
	slurm_pmix_put_modex(&q, &reply);
	all = slice_of_pack(&q);
	assert_true(slurm_pmix_read_modex(all, &read));
	assert_true(read.is_reply && slice_is(read.sender, "b") && read.rank == 6 &&
		read.status == -1 && slice_is(read.data, "data"));
	/* Slurm sends a failure without data. */
	for (cut = 0; cut < all.size; cut++)
		assert_int_equal(slurm_pmix_read_modex((struct slice){all.data, cut}, &read),
			cut == all.size - 8);
	slurm_pmix_put_credential(&c, 101, "MUNGE:x:");
	assert_string_equal(slurm_pmix_read_credential(slice_of_pack(&c), 101), "MUNGE:x:");
	assert_null(slurm_pmix_read_credential(slice_of_pack(&c), 103));
	assert_null(slurm_pmix_read_credential((struct slice){buffer_bytes(&c.bytes), 12}, 101));
}

/* ---- configuration ------------------------------------------------------------------------- */

/* A packed list of texts: the launch message's environment. */
static struct slurm_launch make_launch(struct pack *p, const char *const *env, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		pack_text(p, env[i]);
	return (struct slurm_launch){
		.env = {n, (const uint8_t *)buffer_bytes(&p->bytes), buffer_size(&p->bytes)}};
}

static void test_settings(void **state)
{
	static const char conf[] = "# of the site\n"
				   "PMIxDirectConn=no PMIxDirectSameArch=YES\n"
				   "PMIxTimeout=20\n"
				   "PMIxCliTmpDirBase=/scratch\n"
				   "PMIxEnv=UCX_TLS=self;=x;none;SLURM_PMIX_FENCE=ring;A=\n"
				   "PMIxCollFence=tree\n";
	static const char *const env[] = {
		"SLURM_PMIX_TIMEOUT=30", "SLURM_PMIX_FENCE=mixed", "SLURM_PMIX_DIRECT_CONN=true"};
	_cleanup_free_ char *dir = scratch_make(), *path = scratch_path(dir, "slurm.conf");
	_cleanup_pack_ struct pack p = {0}, q = {0};
	struct slurm_launch plain = make_launch(&p, NULL, 0), given = make_launch(&q, env, 3);
	struct pmix_settings s;
	struct slice name, value;
	struct err err = ERR_INIT;
	const char *rest;

	(void)state;
	assert_int_equal(pmix_settings_read(path, &plain, &s, &err), 0);
	assert_true(s.direct && !s.native && !s.by_ucx && s.kind == SLURM_PMIX_KIND_MAX &&
		s.timeout_s == 300 && !s.tmpdir && !s.env);
	pmix_settings_clear(&s);
	scratch_write(dir, "mpi.conf", conf, sizeof(conf) - 1, 0644);
	assert_int_equal(pmix_settings_read(path, &plain, &s, &err), 0);
	assert_true(!s.direct && s.native && s.kind == SLURM_PMIX_BY_RING && s.timeout_s == 20);
	assert_string_equal(s.tmpdir, "/scratch");
	rest = s.env;
	assert_true(pmix_settings_next(&rest, &name, &value));
	assert_true(slice_is(name, "UCX_TLS") && slice_is(value, "self"));
	assert_true(pmix_settings_next(&rest, &name, &value));
	assert_true(slice_is(name, "SLURM_PMIX_FENCE") && slice_is(value, "ring"));
	assert_true(pmix_settings_next(&rest, &name, &value));
	assert_true(slice_is(name, "A") && value.size == 0);
	assert_false(pmix_settings_next(&rest, &name, &value));
	pmix_settings_clear(&s);
	assert_int_equal(pmix_settings_read(path, &given, &s, &err), 0);
	/* The site's environment counts more than the user's, and that more than the file's. */
	assert_true(s.direct && s.kind == SLURM_PMIX_BY_RING && s.timeout_s == 30);
	pmix_settings_clear(&s);
	scratch_remove(dir);
}

/* A step's nodes in any order, of which HET components may have one twice. */
static void test_nodes(void **state)
{
	static const char conf[] = "SlurmdPort=7000\n"
				   "NodeName=n[1-3] NodeAddr=127.0.0.[1-3] Port=7001-7003\n"
				   "NodeName=m[1-2] NodeHostname=127.0.0.9 CPUs=4\n"
				   "NodeName=other[1-2] Port=none\n"
				   "NodeName=cloud NodeAddr=127.0.0.7 State=CLOUD\n"
				   "NodeName=127.0.0.8\n";
	char n1[] = "n1", n3[] = "n3", m2[] = "m2", plain[] = "127.0.0.8", x[] = "x";
	char cloud[] = "cloud";
	char *names[] = {n3, m2, plain, n1, n3}, *missing[] = {n1, x}, *dynamic[] = {cloud, n1};
	static const struct {
		const char *address;
		uint16_t port;
	} expected[] = {{"127.0.0.3", 7003}, {"127.0.0.9", 7000}, {"127.0.0.8", 7000},
		{"127.0.0.1", 7001}, {"127.0.0.3", 7003}};
	_cleanup_free_ char *dir = scratch_make(), *path = scratch_path(dir, "slurm.conf");
	struct err err = ERR_INIT;
	struct sockaddr_in found[ARRAY_SIZE(names)];
	char address[INET_ADDRSTRLEN];
	size_t i;

	(void)state;
	scratch_write(dir, "slurm.conf", conf, sizeof(conf) - 1, 0644);
	assert_int_equal(site_nodes_find(path, names, ARRAY_SIZE(names), found, &err), 0);
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		assert_non_null(inet_ntop(AF_INET, &found[i].sin_addr, address, sizeof(address)));
		assert_string_equal(address, expected[i].address);
		assert_int_equal(ntohs(found[i].sin_port), expected[i].port);
	}
	assert_int_equal(site_nodes_find(path, missing, 2, found, &err), -ENOENT);
	assert_non_null(strstr(err.text, "'x'"));
	assert_int_equal(site_nodes_find(path, dynamic, 2, found, &err), -EADDRNOTAVAIL);
	assert_non_null(strstr(err.text, "'cloud'"));
	scratch_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rings),
		cmocka_unit_test(test_trees),
		cmocka_unit_test(test_ahead),
		cmocka_unit_test(test_branches),
		cmocka_unit_test(test_subsets),
		cmocka_unit_test(test_large_sets),
		cmocka_unit_test(test_apart),
		cmocka_unit_test(test_failure),
		cmocka_unit_test(test_unsent),
		cmocka_unit_test(test_too_much),
		cmocka_unit_test(test_heads),
		cmocka_unit_test(test_modex),
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_nodes),
	};

	return cmocka_run_group_tests_name("slurm_pmix", tests, NULL, NULL);
}
