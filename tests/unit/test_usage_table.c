/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/account/usage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TASKS 1000

struct data {
	stepd_usage_t step, tasks[TASKS];
	stepd_step_task_info_t task[TASKS];
};

static void set(stepd_usage_t *u, enum stepd_usage_value which, uint64_t value,
	enum stepd_usage_source source)
{
	u->value[which] = value;
	u->source[which] = (uint8_t)source;
}

/* Task i, of rank first + i, has used i + 1 s and (i + 1) KiB. */
static int set_up(void **state)
{
	struct data *d = calloc(1, sizeof(*d));
	uint32_t i;

	assert_non_null(d);
	for (i = 0; i < TASKS; i++) {
		d->task[i].gtid = 16776216 + i;
		set(&d->tasks[i], STEPD_USAGE_CPU_USER_USEC, (i + 1) * 1000000ull,
			STEPD_USAGE_CGROUP);
		set(&d->tasks[i], STEPD_USAGE_MEMORY_PEAK_BYTES, (i + 1) * 1024ull,
			STEPD_USAGE_RUSAGE);
		set(&d->tasks[i], STEPD_USAGE_MEMORY_BYTES, 7, STEPD_USAGE_PROC);
	}
	set(&d->step, STEPD_USAGE_CPU_USER_USEC, 3000000, STEPD_USAGE_CGROUP);
	set(&d->step, STEPD_USAGE_MEMORY_PEAK_BYTES, 2048, STEPD_USAGE_CGROUP);
	*state = d;
	return 0;
}

static int tear_down(void **state)
{
	free(*state);
	return 0;
}

static void check(struct data *d, size_t n, uint64_t elapsed_usec, bool live, const char *wanted)
{
	const struct usage_view view = {.label = "7.0",
		.elapsed_usec = elapsed_usec,
		.live = live,
		.step = &d->step,
		.tasks = d->tasks,
		.task = d->task,
		.n = n};
	_cleanup_free_ char *text = usage_table_format(&view);
	const char *line;

	assert_non_null(text);
	for (line = text; *line; line += strcspn(line, "\n") + 1)
		assert_in_range(strcspn(line, "\n"), 1, 80);
	assert_true(line - text > 80);
	*strstr(text, "from: ") = '\0';
	assert_string_equal(text, wanted);
}

static void test_columns(void **state)
{
	struct data *d = *state;

	d->task[0].gtid = 0;
	check(d, 0, 1500000, false,
		"Usage of step 7.0, 0 tasks, 1.50 s\n"
		"                     step  from\n"
		"CPU user           3.00 s  c\n"
		"memory peak      2.00 KiB  c\n");
	check(d, 1, 0, true,
		"Usage of step 7.0, 1 task\n"
		"                     step        @0  from\n"
		"CPU user           3.00 s    1.00 s  c\n"
		"memory now              -       7 B  -p\n"
		"memory peak      2.00 KiB  1.00 KiB  cr\n");
	d->tasks[3].source[STEPD_USAGE_CPU_USER_USEC] = STEPD_USAGE_RUSAGE;
	d->tasks[1].source[STEPD_USAGE_CPU_USER_USEC] = STEPD_USAGE_UNKNOWN;
	check(d, 4, 0, false,
		"Usage of step 7.0, 4 tasks\n"
		"                     step        @0 @16776217 @16776218 @16776219  from\n"
		"CPU user           3.00 s    1.00 s         -    3.00 s    4.00 s  c*\n"
		"memory peak      2.00 KiB  1.00 KiB  2.00 KiB  3.00 KiB  4.00 KiB  cr\n");
}

/* A peak that is one process's is not called that of all. */
static void test_a_peak_of_one(void **state)
{
	struct data *d = *state;

	d->step.source[STEPD_USAGE_MEMORY_PEAK_BYTES] = STEPD_USAGE_PROC;
	check(d, 0, 1500000, false,
		"Usage of step 7.0, 0 tasks, 1.50 s\n"
		"                     step  from\n"
		"CPU user           3.00 s  c\n"
		"largest process  2.00 KiB  p\n");
}

static void test_many(void **state)
{
	check(*state, TASKS, 0, false,
		"Usage of step 7.0, 1000 tasks\n"
		"                     step    least @rank         mean     most @rank      from\n"
		"CPU user           3.00 s   1.00 s @16776216    500 s   16m40s @16777215  c\n"
		"memory peak      2.00 KiB 1.00 KiB @16776216  500 KiB 1000 KiB @16777215  cr\n");
}

/* Of tasks that nothing is known of there is no least one. */
static void test_unknown(void **state)
{
	struct data *d = *state;
	size_t i;

	for (i = 0; i < 5; i++)
		d->tasks[i] = (stepd_usage_t){0};
	d->step.source[STEPD_USAGE_MEMORY_PEAK_BYTES] = STEPD_USAGE_UNKNOWN;
	check(d, 5, 0, false,
		"Usage of step 7.0, 5 tasks\n"
		"                     step    least @rank         mean     most @rank      from\n"
		"CPU user           3.00 s        -                  -        -            c-\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_columns, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_peak_of_one, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unknown, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
