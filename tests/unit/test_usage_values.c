/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/account/usage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "stepd/base/cleanup.h"

static void set(stepd_usage_t *u, enum stepd_usage_value which, uint64_t value,
	enum stepd_usage_source source)
{
	u->value[which] = value;
	u->source[which] = (uint8_t)source;
}

/* Every row is there, with a name that tells its unit. */
static void test_table(void **state)
{
	static const char *const endings[] = {
		[USAGE_UNIT_USEC] = "_usec", [USAGE_UNIT_BYTES] = "_bytes"};
	int i, k;

	(void)state;
	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		const struct usage_value *v = &usage_values[i];

		assert_non_null(v->name);
		assert_in_range(strlen(v->title), 1, 16);
		if (v->unit != USAGE_UNIT_COUNT)
			assert_string_equal(v->name + strlen(v->name) - strlen(endings[v->unit]),
				endings[v->unit]);
		for (k = 0; k < i; k++)
			assert_string_not_equal(usage_values[k].name, v->name);
	}
	assert_int_equal(strlen(usage_source_letters), STEPD_USAGE_SOURCE_COUNT);
	for (i = 0; i < STEPD_USAGE_SOURCE_COUNT; i++)
		assert_non_null(usage_source_names[i]);
}

static void test_texts(void **state)
{
	static const struct {
		enum stepd_usage_value which;
		uint64_t value;
		const char *text;
	} cases[] = {
		{STEPD_USAGE_CPU_USER_USEC, 0, "0 us"},
		{STEPD_USAGE_CPU_USER_USEC, 999, "999 us"},
		{STEPD_USAGE_CPU_USER_USEC, 1000, "1.00 ms"},
		{STEPD_USAGE_CPU_USER_USEC, 9994, "9.99 ms"},
		{STEPD_USAGE_CPU_USER_USEC, 9995, "10.0 ms"},
		{STEPD_USAGE_CPU_USER_USEC, 99950, "100 ms"},
		{STEPD_USAGE_CPU_USER_USEC, 999499, "999 ms"},
		{STEPD_USAGE_CPU_USER_USEC, 999500, "1.00 s"},
		{STEPD_USAGE_CPU_USER_USEC, 599499999, "599 s"},
		{STEPD_USAGE_CPU_USER_USEC, 600000000, "10m00s"},
		{STEPD_USAGE_CPU_USER_USEC, 3599000000, "59m59s"},
		{STEPD_USAGE_CPU_USER_USEC, 3600000000, "1h00m"},
		{STEPD_USAGE_CPU_USER_USEC, 359999000000, "99h59m"},
		{STEPD_USAGE_CPU_USER_USEC, 360000000000, "4d04h"},
		{STEPD_USAGE_MEMORY_BYTES, 0, "0 B"},
		{STEPD_USAGE_MEMORY_BYTES, 1023, "1023 B"},
		{STEPD_USAGE_MEMORY_BYTES, 1024, "1.00 KiB"},
		{STEPD_USAGE_MEMORY_BYTES, (1u << 20) - 1, "1.00 MiB"},
		{STEPD_USAGE_MEMORY_BYTES, 16u << 20, "16.0 MiB"},
		{STEPD_USAGE_MEMORY_BYTES, UINT64_MAX, "16.0 EiB"},
		{STEPD_USAGE_PAGE_FAULTS, 0, "0"},
		{STEPD_USAGE_PAGE_FAULTS, 9999999, "9999999"},
		{STEPD_USAGE_PAGE_FAULTS, 10000000, "10000 k"},
		{STEPD_USAGE_PAGE_FAULTS, 99999999999, "99999 M"},
	};
	char buf[USAGE_TEXT_SIZE];
	stepd_usage_t u = {0};
	size_t i;

	(void)state;
	assert_string_equal(usage_text(&u, STEPD_USAGE_MEMORY_BYTES, buf), "-");
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		set(&u, cases[i].which, cases[i].value, STEPD_USAGE_PROC);
		assert_string_equal(usage_text(&u, cases[i].which, buf), cases[i].text);
		assert_in_range(strlen(buf), 1, 8);
	}
}

static void test_json(void **state)
{
	stepd_usage_t u = {0};
	json_t *doc = json_object(), *wanted;

	(void)state;
	set(&u, STEPD_USAGE_CPU_USER_USEC, 7, STEPD_USAGE_CGROUP);
	set(&u, STEPD_USAGE_MAJOR_FAULTS, 0, STEPD_USAGE_RUSAGE);
	u.value[STEPD_USAGE_SWAP_BYTES] = 3; /* without a source it says nothing */
	assert_int_equal(usage_pack(doc, &u), 0);
	wanted = json_pack("{s:{s:i, s:i}, s:{s:s, s:s}}", "usage", "cpu_user_usec", 7,
		"major_faults", 0, "usage_sources", "cpu_user_usec", "cgroup", "major_faults",
		"rusage");
	assert_true(json_equal(doc, wanted));
	json_decref(doc);
	json_decref(wanted);
}

static void test_sum(void **state)
{
	stepd_usage_t sum = {0}, one = {0};

	(void)state;
	set(&one, STEPD_USAGE_PAGE_FAULTS, 5, STEPD_USAGE_RUSAGE);
	set(&one, STEPD_USAGE_MEMORY_PEAK_BYTES, 100, STEPD_USAGE_RUSAGE);
	usage_add(&sum, &one);
	one.value[STEPD_USAGE_MEMORY_PEAK_BYTES] = 70;
	usage_add(&sum, &one);
	assert_int_equal(sum.value[STEPD_USAGE_PAGE_FAULTS], 10);
	assert_int_equal(sum.value[STEPD_USAGE_MEMORY_PEAK_BYTES], 100); /* the largest */
	assert_int_equal(sum.source[STEPD_USAGE_PAGE_FAULTS], STEPD_USAGE_RUSAGE);
	assert_int_equal(sum.source[STEPD_USAGE_CPU_USER_USEC], STEPD_USAGE_UNKNOWN);
}

static void test_update(void **state)
{
	static const struct {
		enum stepd_usage_value which;
		uint64_t last;
		enum stepd_usage_source last_source;
		uint64_t look;
		enum stepd_usage_source look_source;
		bool taken;
	} cases[] = {
		{STEPD_USAGE_PAGE_FAULTS, 0, STEPD_USAGE_UNKNOWN, 5, STEPD_USAGE_PROC, true},
		{STEPD_USAGE_PAGE_FAULTS, 5, STEPD_USAGE_PROC, 0, STEPD_USAGE_UNKNOWN, false},
		{STEPD_USAGE_PAGE_FAULTS, 5, STEPD_USAGE_PROC, 6, STEPD_USAGE_RUSAGE, true},
		{STEPD_USAGE_PAGE_FAULTS, 5, STEPD_USAGE_PROC, 5, STEPD_USAGE_RUSAGE, true},
		/* a count does not go back, but for a better source */
		{STEPD_USAGE_PAGE_FAULTS, 5, STEPD_USAGE_PROC, 4, STEPD_USAGE_RUSAGE, false},
		{STEPD_USAGE_PAGE_FAULTS, 5, STEPD_USAGE_PROC, 4, STEPD_USAGE_CGROUP, true},
		{STEPD_USAGE_PAGE_FAULTS, 5, STEPD_USAGE_CGROUP, 9, STEPD_USAGE_RUSAGE, false},
		{STEPD_USAGE_PAGE_FAULTS, 5, STEPD_USAGE_CGROUP, 9, STEPD_USAGE_CGROUP, true},
		/* what is of the moment does */
		{STEPD_USAGE_MEMORY_BYTES, 5, STEPD_USAGE_PROC, 4, STEPD_USAGE_PROC, true},
		{STEPD_USAGE_MEMORY_BYTES, 5, STEPD_USAGE_PROC, 0, STEPD_USAGE_UNKNOWN, false},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		stepd_usage_t last = {0}, look = {0};

		set(&last, cases[i].which, cases[i].last, cases[i].last_source);
		set(&look, cases[i].which, cases[i].look, cases[i].look_source);
		usage_update(&last, &look);
		assert_int_equal(
			last.value[cases[i].which], cases[i].taken ? cases[i].look : cases[i].last);
		assert_int_equal(last.source[cases[i].which],
			cases[i].taken ? cases[i].look_source : cases[i].last_source);
	}
}

static void test_rusage(void **state)
{
	const struct rusage ru = {.ru_utime = {1, 2},
		.ru_stime = {0, 3},
		.ru_maxrss = 4,
		.ru_minflt = 5,
		.ru_majflt = 6,
		.ru_inblock = 7,
		.ru_oublock = 8};
	bool counts_io = access("/proc/self/io", F_OK) == 0;
	stepd_usage_t u;

	(void)state;
	usage_from_rusage(&ru, 4, &u);
	assert_int_equal(u.source[STEPD_USAGE_MEMORY_PEAK_BYTES], STEPD_USAGE_UNKNOWN);
	usage_from_rusage(&ru, 3, &u);
	assert_int_equal(u.value[STEPD_USAGE_CPU_USER_USEC], 1000002);
	assert_int_equal(u.value[STEPD_USAGE_CPU_SYSTEM_USEC], 3);
	assert_int_equal(u.value[STEPD_USAGE_MEMORY_PEAK_BYTES], 4096);
	assert_int_equal(u.value[STEPD_USAGE_PAGE_FAULTS], 11);
	assert_int_equal(u.value[STEPD_USAGE_MAJOR_FAULTS], 6);
	assert_int_equal(u.source[STEPD_USAGE_IO_READ_BYTES],
		counts_io ? STEPD_USAGE_RUSAGE : STEPD_USAGE_UNKNOWN);
	if (counts_io)
		assert_int_equal(u.value[STEPD_USAGE_IO_WRITE_BYTES], 4096);
	assert_int_equal(u.source[STEPD_USAGE_MEMORY_BYTES], STEPD_USAGE_UNKNOWN);
	assert_int_equal(u.source[STEPD_USAGE_OOM_KILLS], STEPD_USAGE_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_sum),
		cmocka_unit_test(test_update),
		cmocka_unit_test(test_rusage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
