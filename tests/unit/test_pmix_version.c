/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Versions of libpmix, as they are told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mpi/pmix/version.h"

static void assert_found(const char *text, const char *wanted)
{
	char version[VERSION_SIZE];

	version_find(text, version);
	assert_string_equal(version, wanted);
}

static void a_version_is_found_in_any_text(void **state)
{
	(void)state;
	assert_found("OpenPMIx 4.2.2rc2 (PMIx Standard: 4.2, Stable ABI: 0.0)", "4.2.2rc2");
	assert_found("3.2.3", "3.2.3");
	assert_found("  5.0.7a1\n", "5.0.7a1");
	assert_found("1.2.5%n%s", "1.2.5");
	assert_found("", "");
	assert_found("no version ", "");
	assert_found("1111111111111111111111111111111111111111111111111111111111",
		"1111111111111111111111111111111");
}

static void versions_are_compared_by_their_numbers(void **state)
{
	(void)state;
	assert_int_equal(version_major("4.2.2rc2"), 4);
	assert_int_equal(version_major("12.0"), 12);
	assert_int_equal(version_major(""), 0);
	assert_true(version_is_at_least("4.2.2rc2", 4, 2));
	assert_true(version_is_at_least("4.10.0", 4, 2));
	assert_true(version_is_at_least("7.0.0rc1", 4, 2));
	assert_false(version_is_at_least("4.1.9", 4, 2));
	assert_false(version_is_at_least("4", 4, 2));
	assert_false(version_is_at_least("3.2.3", 4, 2));
	assert_false(version_is_at_least("", 4, 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_version_is_found_in_any_text),
		cmocka_unit_test(versions_are_compared_by_their_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
