/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The exchange over many nodes in one process: what fences cost, that they end alike in any order,
 * messages, goodbyes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/wire_sim.h"

static void begin_all(struct sim *s, unsigned group)
{
	uint32_t i;

	for (i = 0; i < s->count; i++)
		assert_int_equal(sim_fence(s, i, group, NULL, 0), 0);
}

static void assert_all_right(struct sim *s, unsigned group, unsigned count)
{
	uint32_t i;

	for (i = 0; i < s->count; i++) {
		const struct sim_end *end = &s->nodes[i].end[group];

		assert_int_equal(end->count, count);
		assert_int_equal(end->r, 0);
		assert_int_equal(end->blocks, s->count);
		assert_true(end->is_right);
	}
	assert_false(s->failed);
}

static uint32_t depth(uint32_t count, uint32_t fanout)
{
	uint32_t node = count - 1, n = 0;

	for (; node > 0; n++)
		node = (node - 1) / fanout;
	return n;
}

/* A frame up and a frame down for each edge; as many rounds as twice the depth. */
static void a_fence_takes_a_frame_up_and_one_down_an_edge(void **state)
{
	static const struct {
		uint32_t count, fanout;
	} cases[] = {{2, 16}, {17, 16}, {64, 16}, {64, 2}, {64, 1}, {1024, 16}, {4096, 16},
		{4096, 2}, {4096, 64}, {4096, 4095}};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sim s = {.size = 0};

		sim_open(&s, cases[i].count, cases[i].fanout, 1);
		begin_all(&s, 0);
		assert_int_equal(sim_run_rounds(&s), 2 * (s.count - 1));
		assert_int_equal(s.frames[WIRE_FENCE_UP], s.count - 1);
		assert_int_equal(s.frames[WIRE_FENCE_DOWN], s.count - 1);
		assert_int_equal(s.rounds, 2 * depth(s.count, s.fanout));
		assert_int_equal(s.payload_bytes, 0); /* all take part, and have nothing to say */
		assert_all_right(&s, 0, 1);
		sim_close(&s);
	}
}

/* A contribution crosses an edge once on its way up, and each edge once on its way down. */
static void a_contribution_crosses_an_edge_once_each_way(void **state)
{
	struct sim s = {.size = 9};
	uint64_t each = 0, up = 0;
	uint32_t i;

	(void)state;
	sim_open(&s, 4096, 16, 1);
	begin_all(&s, 0);
	(void)sim_run_rounds(&s);
	for (i = 0; i < s.count; i++) {
		each += WIRE_BLOCK_HEADER + 9 + i % 3;
		up += (WIRE_BLOCK_HEADER + 9 + i % 3) * depth(i + 1, 16);
	}
	assert_int_equal(s.payload_bytes, up + each * (s.count - 1));
	/* one up an edge; 106 kB fit in two frames down */
	assert_int_equal(s.frames[WIRE_FENCE_UP], s.count - 1);
	assert_int_equal(s.frames[WIRE_FENCE_DOWN], 2 * (s.count - 1));
	assert_all_right(&s, 0, 1);
	sim_close(&s);
}

/* Larger than a frame: pieces, joined again. */
static void contributions_larger_than_a_frame_arrive_whole(void **state)
{
	struct sim s = {.size = 300000, .fanout = 2};

	(void)state;
	sim_open(&s, 9, 2, 1);
	begin_all(&s, 0);
	(void)sim_run_random(&s, SIZE_MAX);
	assert_all_right(&s, 0, 1);
	assert_true(s.frames[WIRE_FENCE_DOWN] >= 9 * 300000 / WIRE_RUN_MAX * 8);
	assert_true(s.frames[WIRE_FENCE_DOWN] <= (2 * 9 * 300000 / WIRE_RUN_MAX + 1) * 8);
	sim_close(&s);
}

/* Nodes on the way that take no part carry a fence, and no others do. */
static void only_nodes_on_the_way_carry_a_fence(void **state)
{
	static const struct {
		const char *nodes;
		uint32_t frames;
	} cases[] = {
		{"0", 0},              /* alone */
		{"13", 0}, {"1,3", 2}, /* parent and child: 3's edge, up and down */
		{"3,4", 4},            /* over node 1 */
		{"7-10", 12},          /* 7, 8 below 3 and 9, 10 below 4, over node 1 */
		{"7,14", 12},          /* over the root */
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sim s = {.size = 20};
		struct bitset set;
		uint32_t n;

		sim_open(&s, 15, 2, 1);
		assert_int_equal(bitset_init(&set, 15), 0);
		assert_int_equal(bitset_add_list(&set, cases[i].nodes), 0);
		for (n = bitset_next(&set, 0); n != BITSET_NONE; n = bitset_next(&set, n + 1))
			assert_int_equal(sim_fence(&s, n, 0, cases[i].nodes, 0), 0);
		assert_int_equal(sim_run_rounds(&s), cases[i].frames);
		for (n = 0; n < 15; n++) {
			assert_int_equal(s.nodes[n].end[0].count, bitset_test(&set, n));
			assert_true(!bitset_test(&set, n) || s.nodes[n].end[0].is_right);
			assert_true(!bitset_test(&set, n) ||
				s.nodes[n].end[0].blocks == bitset_count(&set));
		}
		bitset_clear(&set);
		sim_close(&s);
	}
}

/* Fences of two groups and of several generations, each node at its own pace. */
static void fences_of_several_groups_may_overlap(void **state)
{
	static const char *const nodes[2] = {NULL, "2-6,9-12,20"};
	unsigned round, group;
	uint32_t i;

	(void)state;
	for (round = 0; round < 60; round++) {
		struct sim s = {.size = 1 + 700 * (round % 5), .seed = 1000 + round};
		unsigned began[32][2] = {{0}};
		struct bitset set;
		bool is_over = false;

		sim_open(&s, 21 + round % 12, 1 + round % 5, 2);
		assert_int_equal(bitset_init(&set, s.count), 0);
		assert_int_equal(bitset_add_list(&set, nodes[1]), 0);
		while (!is_over) {
			is_over = true;
			for (i = 0; i < s.count; i++) {
				for (group = 0; group < 2; group++) {
					if ((group == 1 && !bitset_test(&set, i)) ||
						began[i][group] == 6)
						continue;
					is_over = false;
					if (s.nodes[i].end[group].count < began[i][group] ||
						sim_random(&s, 3) == 0)
						continue;
					began[i][group]++;
					assert_int_equal(
						sim_fence(&s, i, group, nodes[group], 0), 0);
				}
			}
			(void)sim_run_random(&s, sim_random(&s, 40));
		}
		(void)sim_run_random(&s, SIZE_MAX);
		assert_all_right(&s, 0, 6);
		for (i = 0; i < s.count; i++) {
			assert_int_equal(s.nodes[i].end[1].count, bitset_test(&set, i) ? 6 : 0);
			assert_true(!bitset_test(&set, i) || s.nodes[i].end[1].is_right);
		}
		bitset_clear(&set);
		sim_close(&s);
	}
}

static void a_step_of_one_node_needs_no_edges(void **state)
{
	struct sim s = {.size = 100};

	(void)state;
	sim_open(&s, 1, 16, 1);
	assert_int_equal(sim_fence(&s, 0, 0, NULL, 1000), 0);
	assert_all_right(&s, 0, 1);
	wire_leave(s.nodes[0].wire);
	assert_int_equal(s.nodes[0].left, 0);
	assert_true(sim_tick(&s, 0));
	assert_int_equal(s.nodes[0].left, 1);
	sim_close(&s);
}

static void impossible_fences_messages_and_options_are_refused(void **state)
{
	struct sim s = {.size = 100};
	struct err err = ERR_INIT;
	struct wire *w;
	struct wire_link_options o = {.node = 3, .node_count = 3};

	(void)state;
	sim_open(&s, 3, 16, 1);
	assert_int_equal(sim_fence(&s, 1, 0, "0,2", 0), -EINVAL); /* without itself */
	assert_int_equal(sim_fence(&s, 1, 0, NULL, 0), 0);
	assert_int_equal(sim_fence(&s, 1, 0, NULL, 0), -EALREADY);
	assert_int_equal(wire_send(s.nodes[1].wire, 3, 0, NULL, 0, &err), -EINVAL);
	sim_close(&s);
	assert_int_equal(wire_link_open(&o, &w, &err), -EINVAL);
	assert_string_equal(err.text, "node 3 is none of a step of 3 nodes");
	o.node_count = 0;
	assert_int_equal(wire_link_open(&o, &w, &err), -EINVAL);
	o.node_count = WIRE_NODES_MAX + 1;
	assert_int_equal(wire_link_open(&o, &w, &err), -EINVAL);
}

/* ---- messages ----------------------------------------------------------------------------- */

static void note_order(
	struct sim_node *n, uint32_t from, uint16_t channel, const struct wire_block *block)
{
	uint32_t number = 0;
	size_t i;

	if (block->size >= sizeof(number))
		memcpy(&number, block->data, sizeof(number));
	if (from < ARRAY_SIZE(n->last_message)) {
		n->message_wrong |= number != n->last_message[from] + 1;
		n->last_message[from] = number;
	}
	n->message_wrong |= channel != (uint16_t)(from + 300) || block->node != from;
	for (i = sizeof(number); i < block->size; i++)
		n->message_wrong |=
			((const unsigned char *)block->data)[i] != (unsigned char)(number + i);
}

static void send_number(struct sim *s, uint32_t from, uint32_t to, uint32_t number, size_t size)
{
	unsigned char *bytes = malloc(size);
	struct iovec iov = {bytes, size};
	struct err err = ERR_INIT;
	size_t i;

	assert_non_null(bytes);
	memcpy(bytes, &number, sizeof(number));
	for (i = sizeof(number); i < size; i++)
		bytes[i] = (unsigned char)(number + i);
	if (to == WIRE_NODE_ALL)
		assert_int_equal(
			wire_broadcast(s->nodes[from].wire, (uint16_t)(from + 300), &iov, 1, &err),
			0);
	else
		assert_int_equal(
			wire_send(s->nodes[from].wire, to, (uint16_t)(from + 300), &iov, 1, &err),
			0);
	free(bytes);
}

static void messages_arrive_whole_and_in_order(void **state)
{
	uint32_t i, number;
	unsigned round;

	(void)state;
	for (round = 0; round < 20; round++) {
		struct sim s = {.seed = 77 + round, .on_message = note_order};

		sim_open(&s, 12, 1 + round % 4, 1);
		for (number = 1; number <= 30; number++) {
			/* from 5 and 0 to each one, singly or to all, small or of several frames */
			for (i = 0; i < s.count; i++) {
				if (number % 3 == 0 && (i == 5 || i == 0))
					continue;
				if (number % 3 == 0)
					continue;
				send_number(
					&s, 5, i, number, number % 7 == 0 ? 200000 : 4 + number);
			}
			if (number % 3 == 0) {
				send_number(&s, 5, WIRE_NODE_ALL, number, 70000);
				send_number(&s, 5, 5, number, 4);
			}
			(void)sim_run_random(&s, sim_random(&s, 60));
		}
		sim_run_until(&s, 0);
		for (i = 0; i < s.count; i++) {
			assert_false(s.nodes[i].message_wrong);
			assert_int_equal(s.nodes[i].messages, 30);
			assert_int_equal(s.nodes[i].last_message[5], 30);
		}
		assert_false(s.failed);
		sim_close(&s);
	}
}

/* A broadcast takes a frame an edge, a message one for each on its way. */
static void a_broadcast_takes_a_frame_an_edge(void **state)
{
	struct sim s = {.size = 0};
	struct err err = ERR_INIT;

	(void)state;
	sim_open(&s, 4096, 16, 1);
	assert_int_equal(wire_broadcast(s.nodes[4095].wire, 1, NULL, 0, &err), 0);
	assert_int_equal(sim_run_rounds(&s), 4095);
	assert_int_equal(s.rounds, 2 * depth(4096, 16));
	assert_int_equal(wire_send(s.nodes[4095].wire, 4094, 1, NULL, 0, &err), 0);
	assert_int_equal(sim_run_rounds(&s), 2);
	assert_int_equal(s.nodes[4094].messages, 2);
	assert_int_equal(s.nodes[4095].messages, 0);
	sim_close(&s);
}

/* ---- goodbyes ----------------------------------------------------------------------------- */

static void a_node_leaves_when_all_below_have_left(void **state)
{
	unsigned round;
	uint32_t i, n;

	(void)state;
	for (round = 0; round < 60; round++) {
		struct sim s = {.seed = 5 + round};
		uint32_t order[20];

		sim_open(&s, 1 + round % 20, 1 + round % 4, 1);
		for (i = 0; i < s.count; i++)
			order[i] = i;
		for (i = 0; i < s.count; i++) {
			uint32_t j = (uint32_t)sim_random(&s, s.count), t = order[i];

			order[i] = order[j];
			order[j] = t;
		}
		for (n = 0; n < s.count; n++) {
			for (i = 0; i < s.count; i++)
				assert_true(n == s.count || i > 0 || s.nodes[0].left == 0);
			wire_leave(s.nodes[order[n]].wire);
			wire_leave(s.nodes[order[n]].wire);
			(void)sim_run_random(&s, sim_random(&s, 10));
		}
		sim_run_until(&s, 0);
		for (i = 0; i < s.count; i++) {
			assert_int_equal(s.nodes[i].left, 1);
			assert_int_equal(s.nodes[i].lost, 0);
		}
		assert_int_equal(s.frames[WIRE_BYE], 2 * (s.count - 1));
		/* and what is closed now is no loss */
		for (i = 0; i < s.count; i++)
			sim_kill(&s, order[i]);
		for (i = 0; i < s.count; i++)
			assert_int_equal(s.nodes[i].lost, 0);
		assert_false(s.failed);
		sim_close(&s);
	}
}

/* A fence that one has left before it began fails with its name, wherever the others are. */
static void a_fence_without_a_node_that_has_left_fails(void **state)
{
	unsigned round;
	uint32_t i;

	(void)state;
	for (round = 0; round < 40; round++) {
		struct sim s = {.seed = 50 + round};
		uint32_t gone;
		char text[100];

		sim_open(&s, 14, 1 + round % 4, 1);
		gone = (uint32_t)sim_random(&s, s.count);
		for (i = 0; i < s.count; i++) {
			if (i == gone)
				wire_leave(s.nodes[i].wire);
			else
				assert_int_equal(sim_fence(&s, i, 0, NULL, 0), 0);
			(void)sim_run_random(&s, sim_random(&s, 5));
		}
		sim_run_until(&s, 0);
		(void)snprintf(text, sizeof(text),
			"a fence can't end: the tasks of node %u have ended", gone);
		for (i = 0; i < s.count; i++) {
			assert_int_equal(s.nodes[i].end[0].count, i != gone);
			if (i != gone)
				assert_string_equal(s.nodes[i].end[0].text, text);
		}
		sim_close(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fence_takes_a_frame_up_and_one_down_an_edge),
		cmocka_unit_test(a_contribution_crosses_an_edge_once_each_way),
		cmocka_unit_test(contributions_larger_than_a_frame_arrive_whole),
		cmocka_unit_test(only_nodes_on_the_way_carry_a_fence),
		cmocka_unit_test(fences_of_several_groups_may_overlap),
		cmocka_unit_test(a_step_of_one_node_needs_no_edges),
		cmocka_unit_test(impossible_fences_messages_and_options_are_refused),
		cmocka_unit_test(messages_arrive_whole_and_in_order),
		cmocka_unit_test(a_broadcast_takes_a_frame_an_edge),
		cmocka_unit_test(a_node_leaves_when_all_below_have_left),
		cmocka_unit_test(a_fence_without_a_node_that_has_left_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
