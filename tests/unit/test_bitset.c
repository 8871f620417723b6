/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stepd/base/bitset.h"

/* The set of a list, in room for bits. */
static struct bitset make(const char *list, size_t bits)
{
	struct bitset b = {0};

	assert_int_equal(bitset_init(&b, bits), 0);
	assert_int_equal(bitset_add_list(&b, list), 0);
	return b;
}

static void assert_formats(const struct bitset *b, const char *list, const char *hex)
{
	char text[200];

	assert_int_equal(bitset_format_list(b, text, sizeof(text)), strlen(list));
	assert_string_equal(text, list);
	assert_int_equal(bitset_format_hex(b, text, sizeof(text)), strlen(hex));
	assert_string_equal(text, hex);
}

static void test_formats(void **state)
{
	static const struct {
		const char *list, *hex;
	} cases[] = {
		{"", "0x0"},
		{"0", "0x1"},
		{"0-3,8", "0x10f"},
		{"63", "0x8000000000000000"},
		{"64", "0x10000000000000000"},
		{"62-65", "0x3c000000000000000"},
		{"1,3,5,127", "0x8000000000000000000000000000002a"},
		{"0-127", "0xffffffffffffffffffffffffffffffff"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bitset_ struct bitset b = make(cases[i].list, 128);
		_cleanup_bitset_ struct bitset again = {0};

		assert_formats(&b, cases[i].list, cases[i].hex);
		assert_int_equal(bitset_init(&again, 128), 0);
		assert_int_equal(
			bitset_add_hex(&again, cases[i].hex + 2, strlen(cases[i].hex) - 2), 0);
		assert_memory_equal(b.words, again.words, b.width * sizeof(*b.words));
	}
}

static void test_cut_formats(void **state)
{
	_cleanup_bitset_ struct bitset b = make("0-3,8,100-120", 128);
	char text[200];
	size_t size;

	(void)state;
	for (size = 1; size < 40; size++) {
		memset(text, 'x', sizeof(text));
		assert_int_equal(bitset_format_list(&b, text, size), strlen("0-3,8,100-120"));
		assert_int_equal(text[size], 'x');
		assert_true(strlen(text) < size);
		assert_memory_equal(text, "0-3,8,100-120", strlen(text));
		memset(text, 'x', sizeof(text));
		assert_int_equal(bitset_format_hex(&b, text, size), 33);
		assert_int_equal(text[size], 'x');
	}
	assert_int_equal(bitset_format_list(&b, NULL, 0), strlen("0-3,8,100-120"));
}

static void test_bad_texts(void **state)
{
	static const char *const hex[] = {"", "g", "0x1", "1 ", "-1", "12,"};
	static const char *const lists[] = {"x", "1-", "-1", "3-1", "1,,2", "1,", "128", "5-200"};
	_cleanup_bitset_ struct bitset b = make("", 128);
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(hex); i++)
		assert_int_equal(bitset_add_hex(&b, hex[i], strlen(hex[i])), -EINVAL);
	assert_int_equal(bitset_add_hex(&b, "100000000000000000000000000000000", 33), -ERANGE);
	assert_int_equal(bitset_count(&b), 0);
	/* zeros in front take no room */
	assert_int_equal(bitset_add_hex(&b, "000000000000000000000000000000000F", 34), 0);
	assert_formats(&b, "0-3", "0xf");
	for (i = 0; i < ARRAY_SIZE(lists); i++)
		assert_true(bitset_add_list(&b, lists[i]) < 0);
}

static void test_questions(void **state)
{
	_cleanup_bitset_ struct bitset b = make("1,63-64,100", 128), small = make("1,63", 64);

	(void)state;
	assert_int_equal(bitset_count(&b), 4);
	assert_true(bitset_test(&b, 64));
	assert_false(bitset_test(&b, 65));
	assert_false(bitset_test(&b, 128));
	assert_false(bitset_test(&b, BITSET_NONE));
	assert_int_equal(bitset_next(&b, 0), 1);
	assert_int_equal(bitset_next(&b, 1), 1);
	assert_int_equal(bitset_next(&b, 2), 63);
	assert_int_equal(bitset_next(&b, 65), 100);
	assert_int_equal(bitset_next(&b, 101), BITSET_NONE);
	assert_int_equal(bitset_next(&b, 4000), BITSET_NONE);
	assert_int_equal(bitset_first_outside(&b, &small), 64);
	assert_int_equal(bitset_first_outside(&small, &b), BITSET_NONE);
	bitset_intersect(&b, &small);
	assert_formats(&b, "1,63", "0x8000000000000002");
	bitset_trim(&b);
	assert_int_equal(b.width, 1);
	assert_formats(&b, "1,63", "0x8000000000000002");
}

static void test_table(void **state)
{
	_cleanup_bitset_table_ struct bitset_table t = {0};
	struct bitset a, b;

	(void)state;
	assert_int_equal(bitset_table_init(&t, 3, 65), 0);
	a = bitset_table_get(&t, 1);
	b = bitset_table_get(&t, 2);
	bitset_set(&a, 64);
	bitset_set(&b, 0);
	assert_formats(&a, "64", "0x10000000000000000");
	assert_formats(&b, "0", "0x1");
	a = bitset_table_get(&t, 0);
	assert_int_equal(bitset_count(&a), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_cut_formats),
		cmocka_unit_test(test_bad_texts),
		cmocka_unit_test(test_questions),
		cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
