/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The end of a step of several nodes: which of them have reported, in which order, and what becomes
 * of a report. The loop never runs here, so no message leaves.
 */
#include "contrib/slurm/tree.h"

#include <errno.h>
#include <ev.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "contrib/slurm/site_conf.h"

/* ---- ranges -------------------------------------------------------------------------------- */

static void assert_ranges(const struct tree_ranks *ranks, const char *wanted)
{
	uint32_t from = ranks->first, first, last;
	char text[256] = "";
	size_t n = 0;

	while (tree_ranks_next(ranks, from, &first, &last)) {
		n += (size_t)snprintf(
			text + n, sizeof(text) - n, n ? " %u-%u" : "%u-%u", first, last);
		from = last + 1;
	}
	assert_string_equal(text, wanted);
}

static void add(struct tree_ranks *ranks, uint32_t first, uint32_t last, int32_t status)
{
	assert_int_equal(tree_ranks_add(ranks, first, last, status), 0);
}

static void test_ranges(void **state)
{
	struct tree_ranks ranks;

	(void)state;
	assert_int_equal(tree_ranks_init(&ranks, 3, 9), 0);
	assert_int_equal(ranks.missing, 10);
	assert_ranges(&ranks, "");
	add(&ranks, 3, 3, 0);
	assert_ranges(&ranks, "3-3");
	add(&ranks, 5, 7, 0);
	add(&ranks, 9, 9, 0);
	assert_ranges(&ranks, "3-3 5-7 9-9");
	add(&ranks, 4, 4, 0);
	assert_ranges(&ranks, "3-7 9-9");
	assert_int_equal(ranks.missing, 4);
	add(&ranks, 11, 12, 0);
	add(&ranks, 8, 8, 0);
	add(&ranks, 10, 10, 0);
	assert_ranges(&ranks, "3-12");
	assert_int_equal(ranks.missing, 0);
	tree_ranks_clear(&ranks);
}

/* Without an end of its own: the ranges of those below are reported all the same. */
static void test_own_is_missing(void **state)
{
	struct tree_ranks ranks;

	(void)state;
	assert_int_equal(tree_ranks_init(&ranks, 0, 2), 0);
	add(&ranks, 1, 2, 0);
	assert_ranges(&ranks, "1-2");
	add(&ranks, 0, 0, 0);
	assert_ranges(&ranks, "0-2");
	tree_ranks_clear(&ranks);
}

static void test_alone(void **state)
{
	struct tree_ranks ranks;

	(void)state;
	assert_int_equal(tree_ranks_init(&ranks, 5, 0), 0);
	add(&ranks, 5, 5, 256);
	assert_ranges(&ranks, "5-5");
	assert_int_equal(ranks.missing, 0);
	assert_int_equal(ranks.status, 256);
	tree_ranks_clear(&ranks);
}

static void test_again(void **state)
{
	struct tree_ranks ranks;

	(void)state;
	assert_int_equal(tree_ranks_init(&ranks, 0, 4), 0);
	add(&ranks, 1, 2, 9);
	add(&ranks, 1, 2, 9);
	add(&ranks, 2, 3, 9);
	assert_int_equal(ranks.missing, 2);
	assert_ranges(&ranks, "1-3");
	assert_true(tree_ranks_have(&ranks, 1, 3));
	assert_false(tree_ranks_have(&ranks, 0, 3));
	assert_false(tree_ranks_have(&ranks, 3, 4));
	tree_ranks_clear(&ranks);
}

static void test_largest_status(void **state)
{
	struct tree_ranks ranks;

	(void)state;
	assert_int_equal(tree_ranks_init(&ranks, 0, 3), 0);
	add(&ranks, 0, 0, 256);
	add(&ranks, 1, 1, 9);
	assert_int_equal(ranks.status, 256);
	add(&ranks, 2, 2, 1024);
	add(&ranks, 3, 3, -1);
	assert_int_equal(ranks.status, 1024);
	tree_ranks_clear(&ranks);
}

static void test_not_below(void **state)
{
	static const struct {
		uint32_t first, last;
	} rows[] = {
		{2, 2},
		{0, UINT32_MAX},
		{2, 5},
		{5, 4},
		{9, 9},
		{8, 9},
		{9, 8},
		{3, UINT32_MAX},
		{UINT32_MAX, UINT32_MAX},
		{UINT32_MAX, 3},
	};
	struct tree_ranks ranks;
	size_t i;

	(void)state;
	assert_int_equal(tree_ranks_init(&ranks, 3, 5), 0); /* 3 to 8 */
	for (i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(tree_ranks_add(&ranks, rows[i].first, rows[i].last, 5), -ERANGE);
	assert_int_equal(ranks.missing, 6);
	assert_int_equal(ranks.status, 0);
	assert_ranges(&ranks, "");
	tree_ranks_clear(&ranks);
}

/* More than a word of bits, and every second one. */
static void test_many(void **state)
{
	struct tree_ranks ranks;
	uint32_t i, first, last, from = 1000, n = 0;

	(void)state;
	assert_int_equal(tree_ranks_init(&ranks, 1000, 4999), 0);
	for (i = 1000; i < 6000; i += 2)
		add(&ranks, i, i, 0);
	for (; tree_ranks_next(&ranks, from, &first, &last); n++, from = last + 1)
		assert_true(first == last && first == 1000 + 2 * n);
	assert_int_equal(n, 2500);
	add(&ranks, 1000, 5999, 0);
	assert_ranges(&ranks, "1000-5999");
	assert_int_equal(ranks.missing, 0);
	tree_ranks_clear(&ranks);
}

/* ---- the tree ------------------------------------------------------------------------------ */

static const struct site_conf site = {0};
static const struct log no_log = {.fd = -1};

struct fixture {
	struct slurm_init init;
	struct ev_loop *loop;
	struct tree *tree;
};

static int make_tree(struct fixture *f)
{
	struct err err = ERR_INIT;
	const struct tree_options options = {
		.loop = f->loop, .log = &no_log, .label = "7.0", .init = &f->init};

	return tree_new(&options, &f->tree, &err);
}

static void fixture_init(struct fixture *f, int32_t rank, int32_t children)
{
	*f = (struct fixture){.init = {.site = &site,
				      .launch.nnodes = 16,
				      .frame = {.rank = rank,
					      .children = children,
					      .parent_rank = rank ? 0 : -1}},
		.loop = ev_loop_new(EVFLAG_NOENV)};
	assert_non_null(f->loop);
	assert_int_equal(make_tree(f), 0);
}

static void fixture_clear(struct fixture *f)
{
	f->tree = tree_free(f->tree);
	ev_loop_destroy(f->loop);
}
#define _cleanup_fixture_ _cleanup_(fixture_clear)

static int report(const struct fixture *f, uint32_t first, uint32_t last, int32_t status)
{
	return tree_take_report(
		f->tree, &(struct tree_report){.first = first, .last = last, .status = status});
}

static void test_reports(void **state)
{
	_cleanup_fixture_ struct fixture f;

	(void)state;
	fixture_init(&f, 8, 7); /* 9 to 15 */
	assert_int_equal(report(&f, 9, 12, 0), 0);
	assert_int_equal(report(&f, 8, 8, 0), ERANGE);
	assert_int_equal(report(&f, 8, 12, 0), ERANGE);
	assert_int_equal(report(&f, 7, 16, 0), ERANGE);
	assert_int_equal(report(&f, 16, 16, 0), ERANGE);
	assert_int_equal(report(&f, 14, 13, 0), ERANGE);
	assert_int_equal(report(&f, UINT32_MAX, UINT32_MAX, 0), ERANGE);
	tree_end_take(f.tree, &(struct tree_end){0});
	assert_int_equal(report(&f, 13, 14, 0), 0);
	assert_int_equal(report(&f, 15, 15, 0), 0);
	/* All have reported: what comes now comes again. */
	assert_int_equal(report(&f, 13, 14, 0), 0);
	assert_int_equal(report(&f, 9, 15, 0), 0);
	assert_int_equal(report(&f, 9, 16, 0), ERANGE);
}

static void test_reports_of_none(void **state)
{
	_cleanup_fixture_ struct fixture f;

	(void)state;
	fixture_init(&f, 0, 0);
	assert_int_equal(report(&f, 1, 1, 0), ERANGE);
	tree_end_take(f.tree, &(struct tree_end){.status = 9});
	assert_int_equal(report(&f, 0, 0, 0), ERANGE);
}

static void test_impossible_numbers(void **state)
{
	static const struct {
		int32_t rank, children, parent;
	} rows[] = {
		{-1, 0, -1},
		{16, 0, 0},
		{INT32_MAX, 0, 0},
		{0, -1, -1},
		{0, 16, -1},
		{15, 1, 0},
		{3, INT32_MAX, 0},
		{3, 0, 3},
		{3, 0, 4},
	};
	_cleanup_fixture_ struct fixture f;
	size_t i;

	(void)state;
	fixture_init(&f, 0, 15);
	f.tree = tree_free(f.tree);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		f.init.frame.rank = rows[i].rank;
		f.init.frame.children = rows[i].children;
		f.init.frame.parent_rank = rows[i].parent;
		assert_int_equal(make_tree(&f), -EBADMSG);
	}
	assert_null(f.tree);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_own_is_missing),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_largest_status),
		cmocka_unit_test(test_not_below),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_reports),
		cmocka_unit_test(test_reports_of_none),
		cmocka_unit_test(test_impossible_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
