/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stepd/base/cleanup.h"
#include "stepd/base/dynlib.h"

struct maths {
	double (*floor)(double x);
	double (*sqrt)(double x);
};

static const struct dynlib_symbol symbols[] = {
	{"floor", offsetof(struct maths, floor)},
	{"sqrt", offsetof(struct maths, sqrt)},
};

static void test_functions_are_filled_in(void **state)
{
	struct maths m = {.floor = NULL};
	void *handle = dynlib_open("libm.so.6", symbols, ARRAY_SIZE(symbols), &m);

	(void)state;
	assert_non_null(handle);
	assert_true(m.floor(2.5) == 2.0);
	assert_true(m.sqrt(9.0) == 3.0);
	assert_null(dynlib_close(handle));
}

static void test_what_is_not_there(void **state)
{
	static const struct dynlib_symbol wrong[] = {{"floor", 0}, {"no_such_function", 0}};
	struct maths m = {.floor = NULL};

	(void)state;
	assert_null(dynlib_open("libnosuch.so.1", symbols, ARRAY_SIZE(symbols), &m));
	assert_null(dynlib_open("libm.so.6", wrong, ARRAY_SIZE(wrong), &m));
	assert_null(dynlib_close(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions_are_filled_in),
		cmocka_unit_test(test_what_is_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
