/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/names.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_socket_names(void **state)
{
	static const struct {
		const char *node, *step, *wanted;
	} rows[] = {
		{"n1", "7.0", "n1_7.0"},
		{"n1", "4294967295.4294967289", "n1_4294967295.4294967289"},
		{"n1", "7.batch", "n1_7.4294967291"},
		{"n1", "7.extern", "n1_7.4294967292"},
		{"n1", "7.interactive", "n1_7.4294967290"},
		{"a_b.c-d", "1.2", "a_b.c-d_1.2"},
		{"n1", "7.0+0", "n1_7.0.0"},
		{"n1", "7.3+12", "n1_7.3.12"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_free_ char *name = NULL;

		assert_int_equal(names_make_socket(rows[i].node, rows[i].step, &name), 0);
		assert_string_equal(name, rows[i].wanted);
		assert_true(names_is_socket(name));
	}
}

static void test_nameless(void **state)
{
	static const struct {
		const char *node, *step;
	} rows[] = {
		{"n1", "7"},
		{"n1", "7."},
		{"n1", ".0"},
		{"n1", "0.0"},
		{"n1", "7.Batch"},
		{"n1", "7.0 "},
		{"n1", "7.-1"},
		{"n1", "7+1.0"},
		{"n1", "7.0+"},
		{"n1", "7.0+1+1"},
		{"n1", "7.0+4294967296"},
		{"n1", "7.4294967290"}, /* which Slurm would take for "interactive" */
		{"n1", "7.4294967296"},
		{"n1", "4294967296.0"},
		{"", "7.0"},
		{"../n1", "7.0"},
	};
	char *name = NULL;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (names_make_socket(rows[i].node, rows[i].step, &name) != -EINVAL)
			fail_msg("%s on '%s' has a name", rows[i].step, rows[i].node);
	}
	assert_null(name);
}

static void test_recognised(void **state)
{
	static const char *const good[] = {"n1_7.0", "a_b_7.4294967291", "n1_7.0.1", "._1.1"};
	static const char *const bad[] = {"", "n1", "n1_", "n1_7", "n1_7.", "n1_.7", "_7.0",
		"n1_7.0.", "n1_7.0.1.2", "n1_7.0x", "n1_x.0", "n1_7.batch", ".lock", ".new",
		"cred_state", "job00007"};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(good); i++) {
		if (!names_is_socket(good[i]))
			fail_msg("'%s' is not recognised", good[i]);
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		if (names_is_socket(bad[i]))
			fail_msg("'%s' is taken for a socket", bad[i]);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_socket_names),
		cmocka_unit_test(test_nameless),
		cmocka_unit_test(test_recognised),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
