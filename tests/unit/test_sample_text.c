/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/account/usage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stepd/account/account.h"

static void test_formats(void **state)
{
	(void)state;
	assert_int_equal(sample_format_of("x.csv"), SAMPLE_CSV);
	assert_int_equal(sample_format_of(""), SAMPLE_CSV);
	assert_int_equal(sample_format_of("json"), SAMPLE_CSV);
	assert_int_equal(sample_format_of("x.json.gz"), SAMPLE_CSV);
	assert_int_equal(sample_format_of("/a/x.json"), SAMPLE_JSON);
	assert_int_equal(sample_format_of("x.jsonl"), SAMPLE_JSON);
	assert_int_equal(sample_format_of(".ndjson"), SAMPLE_JSON);
}

/* The heading and a line of the step, then of a task; the caller frees it. */
static char *print(enum sample_format format)
{
	stepd_usage_t usage = {0};
	struct sample_line line = {
		.time_usec = 1700000000000001, .elapsed_usec = 5, .rank = -1, .usage = &usage};
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	usage.value[STEPD_USAGE_CPU_USER_USEC] = 0;
	usage.source[STEPD_USAGE_CPU_USER_USEC] = STEPD_USAGE_CGROUP;
	usage.value[STEPD_USAGE_SWAP_BYTES] = 9; /* of nobody */
	usage.value[STEPD_USAGE_IO_PRESSURE_USEC] = UINT64_MAX;
	usage.source[STEPD_USAGE_IO_PRESSURE_USEC] = STEPD_USAGE_PROC;
	sample_print_heading(f, format);
	sample_print_line(f, format, &line);
	line.rank = 3;
	usage = (stepd_usage_t){0};
	sample_print_line(f, format, &line);
	assert_int_equal(fclose(f), 0);
	return text;
}

static void test_csv(void **state)
{
	_cleanup_free_ char *text = print(SAMPLE_CSV);
	const char *line;
	int commas[3] = {0}, i = 0;

	(void)state;
	assert_string_equal(text,
		"time_usec,elapsed_usec,rank,cpu_user_usec,cpu_system_usec,cpu_throttled_usec,"
		"memory_bytes,memory_peak_bytes,swap_bytes,page_faults,major_faults,oom_events,"
		"oom_kills,processes,pids_max_events,io_read_bytes,io_write_bytes,"
		"cpu_pressure_usec,memory_pressure_usec,io_pressure_usec,sources\n"
		"1700000000000001,5,,0,,,,,,,,,,,,,,,,18446744073709551615,c---------------p\n"
		"1700000000000001,5,3,,,,,,,,,,,,,,,,,,-----------------\n");
	for (line = text; *line; line++) {
		commas[i] += *line == ',';
		i += *line == '\n';
	}
	assert_int_equal(commas[0], commas[1]);
	assert_int_equal(commas[0], commas[2]);
}

static void test_json(void **state)
{
	_cleanup_free_ char *text = print(SAMPLE_JSON);

	(void)state;
	assert_string_equal(text,
		"{\"time_usec\":1700000000000001,\"elapsed_usec\":5,\"usage\":{\"cpu_user_usec\":0,"
		"\"io_pressure_usec\":18446744073709551615},\"sources\":\"c---------------p\"}\n"
		"{\"time_usec\":1700000000000001,\"elapsed_usec\":5,\"rank\":3,\"usage\":{},"
		"\"sources\":\"-----------------\"}\n");
}

static void test_intervals(void **state)
{
	struct err err = ERR_INIT;
	uint64_t ms = 7;

	(void)state;
	assert_int_equal(sample_parse_interval("99ms", &ms, &err), -ERANGE);
	assert_string_equal(err.text, "the interval '99ms' is not between 100ms and 1d");
	assert_int_equal(sample_parse_interval("86401", &ms, &err), -ERANGE);
	assert_int_equal(sample_parse_interval("fast", &ms, &err), -EINVAL);
	assert_int_equal(sample_parse_interval("0", &ms, &err), -ERANGE);
	assert_int_equal(ms, 7);
	assert_int_equal(sample_parse_interval("100ms", &ms, &err), 0);
	assert_int_equal(ms, 100);
	assert_int_equal(sample_parse_interval("1d", &ms, &err), 0);
	assert_int_equal(ms, 86400000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_csv),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_intervals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
