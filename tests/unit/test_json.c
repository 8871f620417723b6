/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static json_t *load(const char *text)
{
	json_t *doc = json_loads(text, 0, NULL);

	assert_non_null(doc);
	return doc;
}

static void test_members_that_are_there(void **state)
{
	static const char *const names[] = {"new", NULL, "running"};
	json_t *doc = load("{\"o\": {}, \"a\": [1], \"n\": -7, \"yes\": true, \"no\": false, "
			   "\"text\": \"running\"}");
	int64_t n = 0;

	(void)state;
	assert_non_null(json_get_object(doc, "o"));
	assert_int_equal(json_array_size(json_get_array(doc, "a")), 1);
	assert_int_equal(json_get_int(doc, "n", 1), -7);
	assert_true(json_get_bool(doc, "yes", false));
	assert_false(json_get_bool(doc, "no", true));
	assert_string_equal(json_get_text(doc, "text", NULL), "running");
	assert_int_equal(json_get_choice(doc, "text", names, 3, -1), 2);
	assert_true(json_get_range(doc, "n", -7, -7, &n));
	assert_int_equal(n, -7);
	json_decref(doc);
}

static void test_others_are_missing(void **state)
{
	static const char *const names[] = {"new"};
	/* another type, another value, and no object at all */
	json_t *docs[] = {load("{\"x\": null}"), load("{\"x\": 1.5}"), load("{}"), NULL};
	int64_t n = 4;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(docs); i++) {
		assert_null(json_get_object(docs[i], "x"));
		assert_null(json_get_array(docs[i], "x"));
		assert_int_equal(json_get_int(docs[i], "x", 3), 3);
		assert_true(json_get_bool(docs[i], "x", true));
		assert_string_equal(json_get_text(docs[i], "x", "none"), "none");
		assert_int_equal(json_get_choice(docs[i], "x", names, 1, -1), -1);
		assert_false(json_get_range(docs[i], "x", INT64_MIN, INT64_MAX, &n));
		assert_int_equal(n, 4);
		json_decref(docs[i]);
	}
}

static void test_a_range_has_its_ends(void **state)
{
	json_t *doc = load("{\"n\": 10}");
	int64_t n = 0;

	(void)state;
	assert_true(json_get_range(doc, "n", 10, 11, &n));
	assert_true(json_get_range(doc, "n", 9, 10, &n));
	assert_false(json_get_range(doc, "n", 11, 12, &n));
	assert_false(json_get_range(doc, "n", 8, 9, &n));
	assert_int_equal(n, 10);
	json_decref(doc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_members_that_are_there),
		cmocka_unit_test(test_others_are_missing),
		cmocka_unit_test(test_a_range_has_its_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
