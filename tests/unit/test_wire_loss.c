/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fences that can't end well: every one ends, at every node, once, and with the right name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/wire_sim.h"

/* Whether the text names that node as lost. */
static bool names(const char *text, uint32_t node)
{
	char name[40];

	(void)snprintf(name, sizeof(name), "node %u is lost: it has closed", node);
	return strncmp(text, name, strlen(name)) == 0;
}

/* A node dies at any moment of fences under way; those that begin later fail at once. */
static void fences_fail_when_a_node_dies_at_any_moment(void **state)
{
	unsigned round, good = 0, bad = 0;
	uint32_t i;

	(void)state;
	for (round = 0; round < 600; round++) {
		struct sim s = {.size = 10 + 30000 * (round % 4 == 0), .seed = 9 + round};
		uint32_t victim;

		sim_open(&s, 6 + round % 20, 1 + round % 5, 1);
		victim = (uint32_t)sim_random(&s, s.count);
		for (i = 0; i < s.count; i++) {
			if (sim_random(&s, 4) > 0 || i == victim)
				assert_int_equal(sim_fence(&s, i, 0, NULL, 0), 0);
			(void)sim_run_random(&s, sim_random(&s, 4));
		}
		(void)sim_run_random(&s, sim_random(&s, 2 * s.count));
		sim_kill(&s, victim);
		(void)sim_run_random(&s, sim_random(&s, 2 * s.count));
		for (i = 0; i < s.count; i++) {
			if (i != victim && wire_group_find(s.nodes[i].wire, 0) &&
				wire_group_find(s.nodes[i].wire, 0)->began > 0)
				continue;
			if (i != victim)
				assert_int_equal(sim_fence(&s, i, 0, NULL, 0), 0);
		}
		sim_run_until(&s, 0);
		for (i = 0; i < s.count; i++) {
			const struct sim_end *end = &s.nodes[i].end[0];

			if (i == victim)
				continue;
			assert_int_equal(end->count, 1);
			assert_int_equal(s.nodes[i].lost, 1);
			if (end->r == 0) {
				assert_true(end->is_right);
				good++;
			} else {
				assert_true(names(end->text, victim));
				bad++;
			}
			/* and from now on at once */
			assert_int_equal(sim_fence(&s, i, 0, NULL, 0), 0);
			assert_int_equal(end->count, 2);
			assert_true(names(end->text, victim));
		}
		assert_false(s.failed);
		sim_close(&s);
	}
	assert_true(good > 0 && bad > 0);
}

/* Several die; fences of nodes that still reach each other go on. */
static void fences_of_nodes_that_reach_each_other_go_on(void **state)
{
	unsigned round, k;
	uint32_t i, j;

	(void)state;
	for (round = 0; round < 200; round++) {
		struct sim s = {.size = 10, .seed = 400 + round};
		bool is_dead[40] = {false};

		sim_open(&s, 15 + round % 20, 1 + round % 4, 2);
		for (i = 0; i < s.count; i++)
			assert_int_equal(sim_fence(&s, i, 0, NULL, 0), 0);
		for (k = 0; k < 3; k++) {
			i = (uint32_t)sim_random(&s, s.count);
			(void)sim_run_random(&s, sim_random(&s, 20));
			if (!is_dead[i])
				sim_kill(&s, i);
			is_dead[i] = true;
		}
		sim_run_until(&s, 0);
		for (i = 0; i < s.count; i++) {
			const struct sim_end *end = &s.nodes[i].end[0];

			if (is_dead[i])
				continue;
			assert_int_equal(end->count, 1);
			assert_true(end->r == 0 || strstr(end->text, " is lost: "));
		}
		for (i = 1; i < s.count; i++) {
			char list[40];

			j = (i - 1) / s.fanout;
			(void)snprintf(list, sizeof(list), "%u,%u", j, i);
			if (is_dead[i] || is_dead[j])
				continue;
			assert_int_equal(sim_fence(&s, i, 1, list, 0), 0);
			assert_int_equal(sim_fence(&s, j, 1, list, 0), 0);
			sim_run_until(&s, 0);
			assert_int_equal(s.nodes[i].end[1].r, 0);
			assert_int_equal(s.nodes[j].end[1].r, 0);
		}
		assert_false(s.failed);
		sim_close(&s);
	}
}

/* ---- deadlines ---------------------------------------------------------------------------- */

static void the_deadline_of_a_fence_names_the_missing_ranks(void **state)
{
	unsigned round;
	uint32_t i;

	(void)state;
	for (round = 0; round < 100; round++) {
		struct sim s = {.size = 10, .seed = 31 + round};
		uint32_t late;
		char text[200];

		sim_open(&s, 3 + round % 30, 1 + round % 5, 1);
		late = (uint32_t)sim_random(&s, s.count);
		for (i = 0; i < s.count; i++) {
			if (i != late)
				assert_int_equal(sim_fence(&s, i, 0, NULL, 500), 0);
		}
		sim_run_until(&s, 499);
		for (i = 0; i < s.count; i++)
			assert_int_equal(s.nodes[i].end[0].count, 0);
		sim_run_until(&s, 501);
		(void)snprintf(text, sizeof(text),
			"a fence of %u nodes was not complete after 500 ms: missing are rank %u on"
			" node %u",
			s.count, 10 * late, late);
		for (i = 0; i < s.count; i++) {
			assert_int_equal(s.nodes[i].end[0].count, i != late);
			if (i != late)
				assert_string_equal(s.nodes[i].end[0].text, text);
		}
		/* when it comes at last, it hears the same; and the next fence is a new one */
		assert_int_equal(sim_fence(&s, late, 0, NULL, 500), 0);
		assert_int_equal(s.nodes[late].end[0].count, 1);
		assert_int_equal(s.nodes[late].end[0].r, -ETIMEDOUT);
		assert_string_equal(s.nodes[late].end[0].text, text);
		for (i = 0; i < s.count; i++)
			assert_int_equal(sim_fence(&s, i, 0, NULL, 500), 0);
		sim_run_until(&s, 5000);
		for (i = 0; i < s.count; i++) {
			assert_int_equal(s.nodes[i].end[0].count, 2);
			assert_true(s.nodes[i].end[0].is_right);
		}
		assert_false(s.failed);
		sim_close(&s);
	}
}

/* A node that hangs gives no answer, and is named for that; if it is the top, by each one itself.
 */
static void a_node_that_hangs_is_named(void **state)
{
	uint32_t silent, i;

	(void)state;
	for (silent = 0; silent < 7; silent++) {
		struct sim s = {.size = 10};
		size_t n, edge;

		sim_open(&s, 7, 2, 1);
		for (i = 0; i < 7; i++) {
			if (i != silent)
				assert_int_equal(sim_fence(&s, i, 0, NULL, 500), 0);
		}
		/* nothing of it goes out */
		do {
			for (n = 0; n < s.active_count; n++) {
				uint32_t node = s.active[n].node;

				edge = s.active[n].edge;
				if (node != silent)
					continue;
				while (wire_link_next(s.nodes[node].wire, edge))
					assert_int_equal(
						wire_link_sent(s.nodes[node].wire, edge), 0);
				s.active[n--] = s.active[--s.active_count];
			}
		} while (sim_run_random(&s, 1) > 0 || sim_tick(&s, 10000));
		for (i = 0; i < 7; i++) {
			const struct sim_end *end = &s.nodes[i].end[0];
			char name[20];

			(void)snprintf(name, sizeof(name), "node %u", silent);
			if (i == silent)
				continue;
			assert_int_equal(end->count, 1);
			assert_int_equal(end->r, -ETIMEDOUT);
			assert_non_null(strstr(end->text, "no answer"));
			/* a node below a silent one knows only that the top is silent */
			if (!wire_tree_is_below(&s.nodes[i].wire->tree, i, silent))
				assert_non_null(strstr(end->text, name));
		}
		sim_close(&s);
	}
}

/* ---- fences in vain ----------------------------------------------------------------------- */

static void expect_next(struct sim *s, unsigned count)
{
	uint32_t i;

	for (i = 0; i < s->count; i++)
		assert_int_equal(sim_fence(s, i, 0, NULL, 0), 0);
	sim_run_until(s, s->now_ms + 5000);
	for (i = 0; i < s->count; i++) {
		assert_int_equal(s->nodes[i].end[0].count, count);
		assert_true(s->nodes[i].end[0].is_right);
	}
	assert_false(s->failed);
}

/* Two nodes come to the deadline together, with ranks of their own missing: all are told of both.
 */
static void nodes_that_abandon_a_fence_get_all_missing_ranks(void **state)
{
	unsigned round;
	uint32_t i;

	(void)state;
	for (round = 0; round < 100; round++) {
		struct sim s = {.size = 10, .seed = 5 + round};
		uint32_t a, b;
		char one[100], two[100];

		sim_open(&s, 3 + round % 30, 1 + round % 5, 1);
		a = (uint32_t)sim_random(&s, s.count);
		b = (a + 1 + (uint32_t)sim_random(&s, s.count - 1)) % s.count;
		for (i = 0; i < s.count; i++) {
			if (i != a && i != b)
				assert_int_equal(sim_fence(&s, i, 0, NULL, 0), 0);
		}
		assert_int_equal(sim_abandon(&s, a, 0, 500, NULL), 0);
		assert_int_equal(sim_abandon(&s, b, 0, 500, NULL), 0);
		sim_run_until(&s, 50);
		(void)snprintf(one, sizeof(one), "rank %u on node %u", 10 * a, a);
		(void)snprintf(two, sizeof(two), "rank %u on node %u", 10 * b, b);
		for (i = 0; i < s.count; i++) {
			assert_int_equal(s.nodes[i].end[0].count, 1);
			assert_int_equal(s.nodes[i].end[0].r, -ETIMEDOUT);
			assert_non_null(
				strstr(s.nodes[i].end[0].text, "not complete after 500 ms"));
			assert_non_null(strstr(s.nodes[i].end[0].text, one));
			assert_non_null(strstr(s.nodes[i].end[0].text, two));
		}
		expect_next(&s, 2);
		sim_close(&s);
	}
}

/* A node that knows why ends its own part at once and the others' by a word; each counts it. */
static void a_node_that_abandons_a_fence_gives_the_reason(void **state)
{
	unsigned round;
	uint32_t i;

	(void)state;
	for (round = 0; round < 100; round++) {
		struct sim s = {.size = 10, .seed = 77 + round};
		uint32_t node;

		sim_open(&s, 2 + round % 17, 1 + round % 4, 1);
		node = (uint32_t)sim_random(&s, s.count);
		for (i = 0; i < s.count && round % 2; i++) {
			if (i != node)
				assert_int_equal(sim_fence(&s, i, 0, NULL, 0), 0);
		}
		assert_int_equal(sim_abandon(&s, node, 0, 0, "it is dead"), 0);
		assert_int_equal(s.nodes[node].end[0].count, 1);
		sim_run_until(&s, 50);
		for (i = 0; i < s.count && !(round % 2); i++) {
			if (i != node)
				assert_int_equal(sim_abandon(&s, i, 0, 0, "another one"), 0);
		}
		for (i = 0; i < s.count; i++) {
			assert_int_equal(s.nodes[i].end[0].count, 1);
			assert_int_equal(s.nodes[i].end[0].r, -ECANCELED);
			assert_string_equal(s.nodes[i].end[0].text, "it is dead");
		}
		expect_next(&s, 2);
		sim_close(&s);
	}
}

/* ---- other ends --------------------------------------------------------------------------- */

static void fail_at(struct sim *s, uint32_t node, const char *why)
{
	struct bitset set;
	uint32_t i;

	assert_int_equal(bitset_init(&set, s->count), 0);
	for (i = 0; i < s->count; i++)
		bitset_set(&set, i);
	assert_int_equal(wire_fence_fail(s->nodes[node].wire, &(struct wire_set){set, 0}, why), 0);
	bitset_clear(&set);
}

static void a_failed_fence_ends_on_all_nodes(void **state)
{
	unsigned round;
	uint32_t i;

	(void)state;
	for (round = 0; round < 100; round++) {
		struct sim s = {.size = 10, .seed = 3 + round};
		uint32_t node;

		sim_open(&s, 2 + round % 17, 1 + round % 4, 1);
		node = (uint32_t)sim_random(&s, s.count);
		for (i = 0; i < s.count; i++) {
			if (i != node || round % 2)
				assert_int_equal(sim_fence(&s, i, 0, NULL, 0), 0);
			if (i == node) {
				fail_at(&s, node, "rank 7 has died");
				if (round % 2 == 0)
					fail_at(&s, node, "rank 8 has died");
			}
			(void)sim_run_random(&s, sim_random(&s, 3));
		}
		sim_run_until(&s, 0);
		if (round % 2 == 0)
			assert_int_equal(sim_fence(&s, node, 0, NULL, 0), 0);
		for (i = 0; i < s.count; i++) {
			assert_int_equal(s.nodes[i].end[0].count, 1);
			/* the last one to begin may come too late with its failure */
			assert_int_equal(s.nodes[i].end[0].r, s.nodes[0].end[0].r);
			if (round % 2 && s.nodes[0].end[0].r == 0)
				continue;
			assert_int_equal(s.nodes[i].end[0].r, -ECANCELED);
			assert_string_equal(s.nodes[i].end[0].text, "rank 7 has died");
		}
		assert_false(s.failed);
		sim_close(&s);
	}
}

/* Nodes that do not agree on who takes part: that is seen where the two meet, and else, where one
 * still waits for a node below it, ends at the deadline. */
static void nodes_that_disagree_on_a_fence_are_named(void **state)
{
	unsigned round;
	uint32_t i;

	(void)state;
	for (round = 0; round < 60; round++) {
		struct sim s = {.size = 10, .seed = 3 + round};
		uint32_t other;

		sim_open(&s, 10, 1 + round % 4, 1);
		other = (uint32_t)sim_random(&s, 9);
		for (i = 0; i < 9; i++) {
			assert_int_equal(sim_fence(&s, i, 0, i == other ? "0-9" : "0-8", 500), 0);
			(void)sim_run_random(&s, sim_random(&s, 3));
		}
		sim_run_until(&s, 10000);
		for (i = 0; i < 9; i++) {
			assert_int_equal(s.nodes[i].end[0].count, 1);
			if (other == 8 && s.fanout == 1) {
				assert_int_equal(s.nodes[i].end[0].r, -ETIMEDOUT);
				continue;
			}
			assert_int_equal(s.nodes[i].end[0].r, -EBADMSG);
			assert_true(strstr(s.nodes[i].end[0].text, "do not agree") ||
				strstr(s.nodes[i].end[0].text, "others take part in"));
		}
		assert_false(s.failed);
		sim_close(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fences_fail_when_a_node_dies_at_any_moment),
		cmocka_unit_test(fences_of_nodes_that_reach_each_other_go_on),
		cmocka_unit_test(the_deadline_of_a_fence_names_the_missing_ranks),
		cmocka_unit_test(a_node_that_hangs_is_named),
		cmocka_unit_test(nodes_that_abandon_a_fence_get_all_missing_ranks),
		cmocka_unit_test(a_node_that_abandons_a_fence_gives_the_reason),
		cmocka_unit_test(a_failed_fence_ends_on_all_nodes),
		cmocka_unit_test(nodes_that_disagree_on_a_fence_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
