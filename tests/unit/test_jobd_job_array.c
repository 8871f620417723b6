/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/engine/job_array.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stepd/base/clock.h"

/* Parsed, and as squeue shows it. */
static void check_shown(const char *text, const char *shown)
{
	_cleanup_job_array_tasks_ struct job_array_tasks tasks = {0};
	_cleanup_free_ char *found = NULL;
	struct err err = ERR_INIT;

	if (job_array_parse(text, JOB_ARRAY_SIZE_DEFAULT, &tasks, &err) < 0)
		fail_msg("%s", err.text);
	found = job_array_format(&tasks, 0);
	assert_string_equal(found, shown);
}

static void test_texts(_unused_ void **state)
{
	static const char *const texts[][2] = {
		{"0", "[0]"},
		{"1000", "[1000]"},
		{"0-3,5%2", "[0-3,5%2]"},
		{"[0-3,5%2]", "[0-3,5%2]"},
		{"0-9:2,15%3", "[0,2,4,6,8,15%3]"},
		{"5,3,1", "[1,3,5]"},
		{"1,2", "[1-2]"},
		{"3,3,1-4,2-3", "[1-4]"},
		{"0-1000", "[0-1000]"},
		{"0-1000:1000", "[0,1000]"},
		{"1-9:4294967295", "[1]"},
		{"0-10:5", "[0,5,10]"},
		{"0-12:6", "[0-12:6]"},
		{"1-21:2%4294967295", "[1-21:2%4294967295]"},
		{"1-21:2,22", "[1,3,5,7,9,11,13,15,17,19,21-22]"},
		{"007", "[7]"},
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(texts); i++)
		check_shown(texts[i][0], texts[i][1]);
}

static void test_ids_are_ascending(_unused_ void **state)
{
	static const uint32_t wanted[] = {0, 2, 4, 6, 8, 15};
	_cleanup_job_array_tasks_ struct job_array_tasks tasks = {0};

	assert_int_equal(job_array_parse("15,0-9:2,4%3", 16, &tasks, NULL), 0);
	assert_int_equal(tasks.count, ARRAY_SIZE(wanted));
	assert_memory_equal(tasks.ids, wanted, sizeof(wanted));
	assert_int_equal(tasks.limit, 3);
}

static void test_what_is_no_array(_unused_ void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *why;
	} cases[] = {
		{"", -EINVAL, "a number, not ''"},
		{"[]", -EINVAL, "a number, not ''"},
		{"%3", -EINVAL, "a number, not ''"},
		{"1,", -EINVAL, "a number, not ''"},
		{",1", -EINVAL, "a number, not ''"},
		{"1,,2", -EINVAL, "a number, not ''"},
		{"a", -EINVAL, "a number, not 'a'"},
		{"-1", -EINVAL, "a number, not ''"},
		{"1-", -EINVAL, "a number, not ''"},
		{"1-2-3", -EINVAL, "a number, not '2-3'"},
		{" 1", -EINVAL, "a number, not ' 1'"},
		{"+1", -EINVAL, "a number, not '+1'"},
		{"[1", -EINVAL, "a number, not '[1'"},
		{"5-3", -EINVAL, "below its first id, at '3'"},
		{"0-4:0", -EINVAL, "a step of 1 or more, as in 0-8:2, not '0'"},
		{"0-4:", -EINVAL, "not ''"},
		{"0-4:2:2", -EINVAL, "not '2:2'"},
		{"4:2", -EINVAL, "not '2'"},
		{"1%0", -EINVAL, "1 or more, not '0'"},
		{"1%", -EINVAL, "1 or more, not ''"},
		{"1%2%3", -EINVAL, "not '2%3'"},
		{"1%2,3", -EINVAL, "not '2,3'"},
		{"16", -ERANGE, "at most 15 (MaxArraySize less 1), not 16"},
		{"0-4294967295", -ERANGE, "not 4294967295"},
		{"0-18446744073709551616", -ERANGE, "not 18446744073709551616"},
		{"0-15,0-15,0-15,0-15,0", -E2BIG, "more than 4 times the 16 tasks"},
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct job_array_tasks tasks = {.count = 99};
		struct err err = ERR_INIT;
		int r = job_array_parse(cases[i].text, 16, &tasks, &err);

		if (r != cases[i].code || !strstr(err.text, cases[i].why))
			fail_msg("'%s': %d, %s", cases[i].text, r, err.text);
		assert_int_equal(tasks.count, 99);
		assert_int_equal(strncmp(err.text, "Invalid job array", 17), 0);
	}
}

/* A megabyte of the largest ranges costs no more than one array of that size, some times. */
static void test_huge_texts_are_refused_quickly(_unused_ void **state)
{
	static const char range[] = "0-4000000,";
	const size_t count = (1u << 20) / strlen(range);
	_cleanup_job_array_tasks_ struct job_array_tasks tasks = {0};
	_cleanup_free_ char *text = malloc(count * strlen(range) + 1);
	struct err err = ERR_INIT;
	struct job_array_tasks other;
	uint64_t one_ns, all_ns;
	size_t i;

	assert_non_null(text);
	for (i = 0; i < count; i++)
		memcpy(text + i * strlen(range), range, strlen(range) + 1);
	one_ns = clock_now_ns();
	assert_int_equal(job_array_parse("0-4000000", JOB_ARRAY_SIZE_MAX, &tasks, NULL), 0);
	one_ns = clock_now_ns() - one_ns;
	assert_int_equal(tasks.count, JOB_ARRAY_SIZE_MAX);

	all_ns = clock_now_ns();
	assert_int_equal(job_array_parse(text, JOB_ARRAY_SIZE_MAX, &other, &err), -E2BIG);
	all_ns = clock_now_ns() - all_ns;
	/* 100,000 times the work would be, if all were added */
	assert_true(all_ns < 1000 * one_ns + 1000000000);
	assert_true(strlen(err.text) < 300);
}

static void test_texts_are_cut_behind_an_id(_unused_ void **state)
{
	static const struct {
		const char *text;
		size_t max_chars;
		const char *shown;
	} cases[] = {
		{"1,3,5,8", 7, "[1,3,5,8]"}, {"1,3,5,8", 6, "[1,...]"},
		{"1,3,5,8,10%2", 8, "[1,3,...%2]"}, {"1,3,5,8,10%2", 9, "[1,3,5,...%2]"},
		{"1,3,5,8,10%2", 10, "[1,3,5,8,10%2]"}, {"100,300", 3, "[...]"},
		{"100,300", 7, "[100,300]"}, {"100-200,300", 10, "[...]"},
		{"100-200,300", 11, "[100-200,300]"}, {"100-200,301-310", 11, "[100-200,...]"},
		{"0-999:3%5", 3, "[0-999:3%5]"}, /* it is as short as can be */
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_job_array_tasks_ struct job_array_tasks tasks = {0};
		_cleanup_free_ char *found = NULL;

		assert_int_equal(job_array_parse(cases[i].text, 1001, &tasks, NULL), 0);
		found = job_array_format(&tasks, cases[i].max_chars);
		assert_string_equal(found, cases[i].shown);
	}
}

/* What is shown names the same tasks when it is submitted. */
static void test_round_trip(_unused_ void **state)
{
	unsigned seed = 15;
	int round;

	for (round = 0; round < 2000; round++) {
		uint32_t ids[40], id = 0;
		struct job_array_tasks tasks = {.ids = ids, .limit = (uint32_t)rand_r(&seed) % 3};
		_cleanup_job_array_tasks_ struct job_array_tasks again = {0};
		_cleanup_free_ char *text = NULL;
		size_t count = 1 + (size_t)rand_r(&seed) % ARRAY_SIZE(ids);
		bool even = rand_r(&seed) % 2;

		for (; tasks.count < count; tasks.count++) {
			id += even ? 3 : 1 + (uint32_t)rand_r(&seed) % 3;
			ids[tasks.count] = id;
		}
		text = job_array_format(&tasks, 0);
		assert_int_equal(job_array_parse(text, 1001, &again, NULL), 0);
		assert_int_equal(again.count, tasks.count);
		assert_int_equal(again.limit, tasks.limit);
		assert_memory_equal(again.ids, ids, count * sizeof(*ids));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_ids_are_ascending),
		cmocka_unit_test(test_what_is_no_array),
		cmocka_unit_test(test_huge_texts_are_refused_quickly),
		cmocka_unit_test(test_texts_are_cut_behind_an_id),
		cmocka_unit_test(test_round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
