/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_u64(void **state)
{
	static const struct {
		const char *text;
		uint64_t least, most;
		int r;
		uint64_t n;
	} rows[] = {
		{"0", 0, UINT64_MAX, 0, 0}, {"007", 0, UINT64_MAX, 0, 7},
		{"18446744073709551615", 0, UINT64_MAX, 0, UINT64_MAX},
		{"18446744073709551616", 0, UINT64_MAX, -ERANGE, 0},
		{"99999999999999999999999999999", 0, UINT64_MAX, -ERANGE, 0},
		{"4", 5, 6, -ERANGE, 0}, {"5", 5, 6, 0, 5}, {"6", 5, 6, 0, 6},
		{"7", 5, 6, -ERANGE, 0}, {"", 0, 9, -EINVAL, 0}, {" 1", 0, 9, -EINVAL, 0},
		{"1 ", 0, 9, -EINVAL, 0}, {"+1", 0, 9, -EINVAL, 0},
		{"-1", 0, UINT64_MAX, -EINVAL, 0}, {"0x10", 0, 99, -EINVAL, 0},
		{"1e3", 0, 9999, -EINVAL, 0}, {"1.0", 0, 9, -EINVAL, 0}, {"one", 0, 9, -EINVAL, 0},
		{"1\n", 0, 9, -EINVAL, 0}, {"\xd9\xa1", 0, 9, -EINVAL, 0}, /* a digit elsewhere */
	};
	uint64_t n;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		n = 0xbad;
		if (parse_u64(rows[i].text, rows[i].least, rows[i].most, &n) != rows[i].r ||
			n != (rows[i].r == 0 ? rows[i].n : 0xbad))
			fail_msg("'%s'", rows[i].text);
	}
}

static void test_u32(void **state)
{
	uint32_t n = 0xbad;

	(void)state;
	assert_int_equal(parse_u32("4294967296", 0, UINT32_MAX, &n), -ERANGE);
	assert_int_equal(parse_u32("-1", 0, UINT32_MAX, &n), -EINVAL);
	assert_int_equal(n, 0xbad);
	assert_int_equal(parse_u32("4294967295", 0, UINT32_MAX, &n), 0);
	assert_int_equal(n, UINT32_MAX);
}

static void test_line(void **state)
{
	static const char text[] = "oom 2\noom_kill 17\nTgid:\t4711\nbad x\nlast 5";
	uint64_t n = 0xbad;

	(void)state;
	assert_int_equal(parse_line_u64(text, "kill ", &n), -EBADMSG);
	assert_int_equal(parse_line_u64(text, "bad ", &n), -EBADMSG);
	assert_int_equal(parse_line_u64("", "oom ", &n), -EBADMSG);
	assert_int_equal(n, 0xbad);
	assert_int_equal(parse_line_u64(text, "oom ", &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(parse_line_u64(text, "Tgid:", &n), 0);
	assert_int_equal(n, 4711);
	assert_int_equal(parse_line_u64(text, "last ", &n), 0);
	assert_int_equal(n, 5);
}

static void test_i32(void **state)
{
	static const char *const refused[] = {"", "-", "--1", "+1", "- 1", "-1 ", "1-", "-x"};
	int32_t n = 7;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(refused); i++)
		assert_int_equal(parse_i32(refused[i], INT32_MIN, INT32_MAX, &n), -EINVAL);
	assert_int_equal(parse_i32("2147483648", INT32_MIN, INT32_MAX, &n), -ERANGE);
	assert_int_equal(parse_i32("-2147483649", INT32_MIN, INT32_MAX, &n), -ERANGE);
	assert_int_equal(parse_i32("-99999999999999999999", INT32_MIN, INT32_MAX, &n), -ERANGE);
	assert_int_equal(parse_i32("-21", -20, 19, &n), -ERANGE);
	assert_int_equal(n, 7);
	assert_int_equal(parse_i32("-2147483648", INT32_MIN, INT32_MAX, &n), 0);
	assert_int_equal(n, INT32_MIN);
	assert_int_equal(parse_i32("-20", -20, 19, &n), 0);
	assert_int_equal(n, -20);
}

static void test_size(void **state)
{
	static const struct {
		const char *text;
		uint64_t bare_unit;
		int r;
		uint64_t bytes;
	} rows[] = {
		{"0", 1, 0, 0},
		{"4096", 1, 0, 4096},
		{"512", 1u << 20, 0, 512ull << 20},
		{"0.5", 1u << 20, 0, 512u << 10},
		{"1K", 0, 0, 1024},
		{"1k", 0, 0, 1024},
		{"512M", 0, 0, 512ull << 20},
		{"2G", 1, 0, 2ull << 30},
		{"1.5G", 0, 0, 3ull << 29},
		{"0.001K", 0, 0, 1},
		{"3T", 0, 0, 3ull << 40},
		{"1P", 0, 0, 1ull << 50},
		{"15E", 0, 0, 15ull << 60},
		{"1.99999999999999999999999999999999K", 0, 0, 2048},
		{"16E", 0, -ERANGE, 0},
		{"18446744073709551615", 1, 0, UINT64_MAX},
		{"18446744073709551616", 1, -ERANGE, 0},
		{"99999999999999999999G", 0, -ERANGE, 0},
		{"4096", 0, -EINVAL, 0},
		{"", 1, -EINVAL, 0},
		{"K", 1, -EINVAL, 0},
		{".5G", 1, -EINVAL, 0},
		{"1.", 1, -EINVAL, 0},
		{"1.G", 1, -EINVAL, 0},
		{"1.5.5G", 1, -EINVAL, 0},
		{"-1", 1, -EINVAL, 0},
		{"+1", 1, -EINVAL, 0},
		{"1 G", 1, -EINVAL, 0},
		{"1GB", 1, -EINVAL, 0},
		{"1GiB", 1, -EINVAL, 0},
		{"1B", 1, -EINVAL, 0},
		{"0x10", 1, -EINVAL, 0},
		{"1e9", 1, -EINVAL, 0},
	};
	uint64_t bytes;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		bytes = 0xbad;
		if (parse_size(rows[i].text, rows[i].bare_unit, &bytes) != rows[i].r ||
			bytes != (rows[i].r == 0 ? rows[i].bytes : 0xbad))
			fail_msg("'%s': %llu", rows[i].text, (unsigned long long)bytes);
	}
}

struct time_row {
	const char *text;
	int r;
	uint64_t ms;
};

static void check_times(
	int (*parse)(const char *, uint64_t *), const struct time_row *rows, size_t n_rows)
{
	uint64_t ms;
	size_t i;

	for (i = 0; i < n_rows; i++) {
		ms = 0xbad;
		if (parse(rows[i].text, &ms) != rows[i].r ||
			ms != (rows[i].r == 0 ? rows[i].ms : 0xbad))
			fail_msg("'%s': %llu", rows[i].text, (unsigned long long)ms);
	}
}

static void test_duration(void **state)
{
	static const struct time_row rows[] = {
		{"0", 0, 0},
		{"30", 0, 30000},
		{"30s", 0, 30000},
		{"250ms", 0, 250},
		{"0.25ms", 0, 0},
		{"0.5ms", 0, 1},
		{"5m", 0, 300000},
		{"2h", 0, 7200000},
		{"1d", 0, 86400000},
		{"1.5s", 0, 1500},
		{"1.5", 0, 1500},
		{"0.1d", 0, 8640000},
		{"0.999", 0, 999},
		{"36459d", -ERANGE, 0},
		{"99999999999999999999999999999999s", -ERANGE, 0},
		{"", -EINVAL, 0},
		{"s", -EINVAL, 0},
		{".5s", -EINVAL, 0},
		{"1.", -EINVAL, 0},
		{"1.s", -EINVAL, 0},
		{"1.5.5", -EINVAL, 0},
		{"-1s", -EINVAL, 0},
		{"+1s", -EINVAL, 0},
		{"1 s", -EINVAL, 0},
		{"1S", -EINVAL, 0},
		{"1sec", -EINVAL, 0},
		{"1e3s", -EINVAL, 0},
		{"0x1s", -EINVAL, 0},
		{"inf", -EINVAL, 0},
		{"nan", -EINVAL, 0},
		{"1s\n", -EINVAL, 0},
	};
	char *digits = malloc(5001);
	uint64_t ms = 7;

	(void)state;
	check_times(parse_duration_ms, rows, ARRAY_SIZE(rows));
	assert_non_null(digits);
	memset(digits, '9', 5000); /* beyond what a double holds */
	digits[5000] = '\0';
	assert_int_equal(parse_duration_ms(digits, &ms), -ERANGE);
	assert_int_equal(ms, 7);
	free(digits);
}

static void test_slurm_time(void **state)
{
	static const struct time_row rows[] = {
		{"0", 0, 0},
		{"5", 0, 300000},
		{"5:30", 0, 330000},
		{"1:5:30", 0, 3930000},
		{"90:90", 0, 5490000},
		{"2-3", 0, (2 * 24 + 3) * 3600000ull},
		{"2-3:4", 0, ((2 * 24 + 3) * 60 + 4) * 60000ull},
		{"2-3:4:5", 0, (((2 * 24 + 3) * 60 + 4) * 60 + 5) * 1000ull},
		{"0-0:0:1", 0, 1000},
		{"36500-0", -ERANGE, 0},
		{"999999999", -ERANGE, 0},
		{"", -EINVAL, 0},
		{":", -EINVAL, 0},
		{"1:", -EINVAL, 0},
		{":1", -EINVAL, 0},
		{"1::1", -EINVAL, 0},
		{"1:2:3:4", -EINVAL, 0},
		{"1-2:3:4:5", -EINVAL, 0},
		{"-1", -EINVAL, 0},
		{"1-", -EINVAL, 0},
		{"1-2-3", -EINVAL, 0},
		{"1:2-3", -EINVAL, 0},
		{"36501-0", -EINVAL, 0},
		{"99999999999999999999-0", -EINVAL, 0},
		{"99999999999999999999", -EINVAL, 0},
		{"1:+2", -EINVAL, 0},
		{"1: 2", -EINVAL, 0},
		{"1:-2", -EINVAL, 0},
		{"1h", -EINVAL, 0},
		{"1.5", -EINVAL, 0},
		{"INFINITE", -EINVAL, 0},
	};

	(void)state;
	check_times(parse_slurm_time_ms, rows, ARRAY_SIZE(rows));
}

struct list {
	char text[256];
	int stop_at; /* -EXDEV from the add after so many; -1 never */
	int n;
};

static int add_to_list(uint32_t n, void *userdata)
{
	struct list *list = userdata;
	size_t at = strlen(list->text);

	if (list->n == list->stop_at)
		return -EXDEV;
	list->n++;
	(void)snprintf(list->text + at, sizeof(list->text) - at, "%u ", (unsigned)n);
	return list->n; /* what is not negative is not handed on */
}

static void test_ranges(void **state)
{
	static const struct {
		const char *text;
		uint32_t limit;
		int r;
		const char *numbers;
	} rows[] = {
		{"0", 1, 0, "0 "},
		{"0-3,8", 9, 0, "0 1 2 3 8 "},
		{"8,0-3", 9, 0, "8 0 1 2 3 "},
		{"2-2,2", 9, 0, "2 2 "},
		{"4294967293-4294967294", UINT32_MAX, 0, "4294967293 4294967294 "},
		{"4294967295", UINT32_MAX, -ERANGE, ""},
		{"9", 9, -ERANGE, ""},
		{"0-9", 9, -ERANGE, ""},
		{"1,9", 9, -ERANGE, "1 "},
		{"0", 0, -ERANGE, ""},
		{"3-2", 9, -EINVAL, ""},
		{"", 9, -EINVAL, ""},
		{",", 9, -EINVAL, ""},
		{"1,", 9, -EINVAL, "1 "},
		{",1", 9, -EINVAL, ""},
		{"1,,2", 9, -EINVAL, "1 "},
		{"-", 9, -EINVAL, ""},
		{"-3", 9, -EINVAL, ""},
		{"3-", 9, -EINVAL, ""},
		{"1-2-3", 9, -EINVAL, ""},
		{"1--2", 9, -EINVAL, ""},
		{"1 -2", 9, -EINVAL, ""},
		{"1, 2", 9, -EINVAL, "1 "},
		{"0x1", 9, -EINVAL, ""},
		{"99999999999999999999", 9, -ERANGE, ""},
	};
	struct list list;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		list = (struct list){.stop_at = -1};
		if (parse_ranges(rows[i].text, rows[i].limit, add_to_list, &list) != rows[i].r ||
			strcmp(list.text, rows[i].numbers) != 0)
			fail_msg("'%s': %s", rows[i].text, list.text);
	}
	list = (struct list){.stop_at = 3};
	assert_int_equal(parse_ranges("0-1,0-4000000000", UINT32_MAX, add_to_list, &list), -EXDEV);
	assert_string_equal(list.text, "0 1 0 ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_u64),
		cmocka_unit_test(test_u32),
		cmocka_unit_test(test_line),
		cmocka_unit_test(test_i32),
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_duration),
		cmocka_unit_test(test_slurm_time),
		cmocka_unit_test(test_ranges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
