/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <jansson.h>

#include "stepd/cli/layout.h"

/* wanted: the nodes' lists with blanks between them, '-' for an empty one */
static void lays(const struct layout_request *q, const char *wanted)
{
	_cleanup_layout_ struct layout l = {0};
	struct err err = ERR_INIT;
	char all[256] = "";
	size_t used = 0, i;
	json_t *json;

	if (layout_make(q, &l, &err) < 0)
		fail_msg("%s", err.text);
	json = layout_json(&l);
	assert_int_equal(json_array_size(json), q->nodes);
	for (i = 0; i < q->nodes; i++) {
		const char *text = json_string_value(json_array_get(json, i));

		used += (size_t)snprintf(
			all + used, sizeof(all) - used, "%s%s", i ? " " : "", *text ? text : "-");
	}
	assert_string_equal(all, wanted);
	json_decref(json);
}

#define LAYS(wanted_, ...) lays(&(struct layout_request){__VA_ARGS__}, wanted_)

static void test_block(void **state)
{
	static const uint32_t counts[] = {1, 0, 3};

	(void)state;
	LAYS("0-3", .nodes = 1, .ntasks = 4);
	LAYS("0-1 2-3", .nodes = 2, .ntasks = 4);
	LAYS("0-2 3-4 5-6", .nodes = 3, .ntasks = 7);
	LAYS("0 1 -", .nodes = 3, .ntasks = 2);
	LAYS("0 1 2", .nodes = 3);
	LAYS("0-1 2-3", .nodes = 2, .tasks_per_node = 2);
	LAYS("0-1 2", .nodes = 2, .ntasks = 3, .tasks_per_node = 2);
	LAYS("0 - 1-3", .nodes = 3, .counts = counts);
	LAYS("0 - 1-2", .nodes = 3, .ntasks = 3, .counts = counts);
}

static void test_cyclic(void **state)
{
	static const uint32_t counts[] = {1, 3};

	(void)state;
	LAYS("0,2,4 1,3", .kind = LAYOUT_CYCLIC, .nodes = 2, .ntasks = 5);
	LAYS("0 1-3", .kind = LAYOUT_CYCLIC, .nodes = 2, .counts = counts);
}

static void test_plane(void **state)
{
	static const uint32_t counts[] = {1, 5};

	(void)state;
	LAYS("0-1,4-5 2-3,6", .kind = LAYOUT_PLANE, .plane = 2, .nodes = 2, .ntasks = 7);
	LAYS("0 1-5", .kind = LAYOUT_PLANE, .plane = 2, .nodes = 2, .counts = counts);
}

static void test_arbitrary(void **state)
{
	static const uint32_t on[] = {2, 0, 2, 2};

	(void)state;
	LAYS("1 - 0,2-3", .kind = LAYOUT_ARBITRARY, .nodes = 3, .ntasks = 4, .on_nodes = on);
}

static void refuses(const struct layout_request *q, const char *why)
{
	struct layout l = {0};
	struct err err = ERR_INIT;

	assert_int_equal(layout_make(q, &l, &err), -EINVAL);
	assert_string_equal(err.text, why);
	assert_null(l.counts);
}

#define REFUSES(why_, ...) refuses(&(struct layout_request){__VA_ARGS__}, why_)

static void test_wrong(void **state)
{
	static const uint32_t on[] = {0, 2}, none[] = {0, 0};

	(void)state;
	REFUSES("0 nodes are not in the range 1 to 65536", .nodes = 0);
	REFUSES("5 tasks don't fit on 2 nodes of 4 in all", .nodes = 2, .ntasks = 5,
		.tasks_per_node = 2);
	REFUSES("16777217 tasks are not in the range 1 to 16777216", .nodes = 65536,
		.ntasks = 16777217);
	REFUSES("0 tasks are not in the range 1 to 16777216", .nodes = 2, .counts = none);
	REFUSES("rank 1 is on node 2 of 2", .kind = LAYOUT_ARBITRARY, .nodes = 2, .ntasks = 2,
		.on_nodes = on);
	REFUSES("node 0 has more than 1 tasks", .kind = LAYOUT_ARBITRARY, .nodes = 2, .ntasks = 2,
		.tasks_per_node = 1, .on_nodes = none);
}

static void test_words(void **state)
{
	enum layout_kind kind = LAYOUT_KIND_MAX;
	uint32_t plane = 0;

	(void)state;
	assert_int_equal(layout_parse("block", &kind, &plane), 0);
	assert_int_equal(kind, LAYOUT_BLOCK);
	assert_int_equal(layout_parse("cyclic:block", &kind, &plane), 0);
	assert_int_equal(kind, LAYOUT_CYCLIC);
	assert_int_equal(layout_parse("*:cyclic", &kind, &plane), 0);
	assert_int_equal(kind, LAYOUT_BLOCK);
	assert_int_equal(layout_parse("arbitrary", &kind, &plane), 0);
	assert_int_equal(kind, LAYOUT_ARBITRARY);
	assert_int_equal(layout_parse("plane=4", &kind, &plane), 0);
	assert_int_equal(kind, LAYOUT_PLANE);
	assert_int_equal(plane, 4);
	assert_int_equal(layout_parse("plane", &kind, &plane), -EINVAL);
	assert_int_equal(layout_parse("plane=0", &kind, &plane), -EINVAL);
	assert_int_equal(layout_parse("blocks", &kind, &plane), -EINVAL);
	assert_int_equal(layout_parse("", &kind, &plane), -EINVAL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_block),
		cmocka_unit_test(test_cyclic),
		cmocka_unit_test(test_plane),
		cmocka_unit_test(test_arbitrary),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
