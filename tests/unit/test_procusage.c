/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/procusage.h"

#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/lib/child.h"
#include "tests/lib/scratch.h"

#define HOG_BYTES (24u << 20)

/* Has memory, faults and CPU time, in itself and in a child that it has waited for; then waits. */
static _noreturn_ void work(int ready)
{
	char *hog =
		mmap(NULL, HOG_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rusage ru;
	pid_t child;
	int i;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* where a test fails */
	if (hog == MAP_FAILED || madvise(hog, HOG_BYTES, MADV_NOHUGEPAGE) < 0)
		_exit(1);
	memset(hog, 1, HOG_BYTES);
	(void)munmap(hog + HOG_BYTES / 2, HOG_BYTES / 2); /* its own: can't fail */
	for (i = 0; i < 2; i++) {
		child = i == 1 ? fork() : 0;
		do {
			(void)getrusage(RUSAGE_SELF, &ru); /* valid arguments can't fail */
		} while (child == 0 && ru.ru_utime.tv_usec + ru.ru_stime.tv_usec < 100000 &&
			ru.ru_utime.tv_sec == 0);
		if (i == 1 && child == 0)
			_exit(0);
		if (child > 0 && waitpid(child, NULL, 0) != child)
			_exit(1);
	}
	if (write(ready, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static pid_t start(void)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		work(ready[1]);
	assert_int_equal(close(ready[1]), 0);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(close(ready[0]), 0);
	return pid;
}

static void the_usage_of_a_process_is_read(void **state)
{
	_cleanup_procusage_ struct procusage all = {0};
	int fds = scratch_count_fds(), i;
	pid_t pids[2] = {start(), INT_MAX}; /* one is gone since the list */
	stepd_usage_t u;

	(void)state;
	assert_int_equal(procusage_read(pids, 2, &all), 0);
	assert_int_equal(all.n, 1);
	assert_int_equal(all.v[0].ppid, getpid());
	procusage_sum(&all, &u);
	assert_in_range(u.value[STEPD_USAGE_CPU_USER_USEC] + u.value[STEPD_USAGE_CPU_SYSTEM_USEC],
		180000, 5000000); /* ticks are rounded down */
	assert_in_range(u.value[STEPD_USAGE_MEMORY_BYTES], HOG_BYTES / 2, HOG_BYTES - 1);
	assert_in_range(u.value[STEPD_USAGE_MEMORY_PEAK_BYTES], HOG_BYTES, 2 * HOG_BYTES);
	assert_in_range(u.value[STEPD_USAGE_PAGE_FAULTS], HOG_BYTES / 4096, HOG_BYTES / 2048);
	assert_int_equal(u.value[STEPD_USAGE_SWAP_BYTES], 0);
	assert_int_equal(u.value[STEPD_USAGE_PROCESSES], 1);
	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		if (i != STEPD_USAGE_IO_READ_BYTES && i != STEPD_USAGE_IO_WRITE_BYTES)
			assert_int_equal(u.source[i],
				procusage_has((enum stepd_usage_value)i) ? STEPD_USAGE_PROC
									 : STEPD_USAGE_UNKNOWN);
	}
	child_end(pids[0]);
	assert_int_equal(scratch_count_fds(), fds);
}

/* 10 <- 11 <- 12 of task 0; 20 of task 1; 13 <- 14 of nobody; 30's task has ended. */
static void usage_is_summed_by_task(void **state)
{
	struct procusage_process v[] = {
		{.pid = 10, .ppid = 1},
		{.pid = 11, .ppid = 10},
		{.pid = 12, .ppid = 11},
		{.pid = 13, .ppid = 1},
		{.pid = 14, .ppid = 13},
		{.pid = 20, .ppid = 1},
	};
	const struct procusage all = {.v = v, .n = ARRAY_SIZE(v)};
	const stepd_step_task_info_t tasks[] = {{.pid = 10}, {.pid = 20}, {.pid = 0}, {.pid = 30}};
	stepd_usage_t u[ARRAY_SIZE(tasks)], sum;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(v); i++) {
		v[i].usage.value[STEPD_USAGE_PROCESSES] = 1;
		v[i].usage.source[STEPD_USAGE_PROCESSES] = STEPD_USAGE_PROC;
		v[i].usage.value[STEPD_USAGE_MEMORY_PEAK_BYTES] = 100 + i;
		v[i].usage.source[STEPD_USAGE_MEMORY_PEAK_BYTES] = STEPD_USAGE_PROC;
		v[i].usage.value[STEPD_USAGE_IO_READ_BYTES] = 5;
		v[i].usage.source[STEPD_USAGE_IO_READ_BYTES] =
			i == 1 ? STEPD_USAGE_UNKNOWN : STEPD_USAGE_PROC;
	}
	assert_int_equal(procusage_sum_tasks(&all, tasks, ARRAY_SIZE(tasks), u), 0);
	assert_int_equal(u[0].value[STEPD_USAGE_PROCESSES], 3);
	assert_int_equal(u[0].value[STEPD_USAGE_MEMORY_PEAK_BYTES], 102); /* the largest */
	assert_int_equal(u[0].source[STEPD_USAGE_IO_READ_BYTES], STEPD_USAGE_UNKNOWN);
	assert_int_equal(u[1].value[STEPD_USAGE_PROCESSES], 1);
	assert_int_equal(u[1].value[STEPD_USAGE_IO_READ_BYTES], 5);
	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		assert_int_equal(u[2].source[i], STEPD_USAGE_UNKNOWN);
		assert_int_equal(u[3].source[i], STEPD_USAGE_UNKNOWN);
	}
	procusage_sum(&all, &sum);
	assert_int_equal(sum.value[STEPD_USAGE_PROCESSES], 6);
	assert_int_equal(sum.source[STEPD_USAGE_IO_READ_BYTES], STEPD_USAGE_UNKNOWN);
}

/* A line of parents that leads round, as pids used again between two reads can make it. */
static void a_circle_of_parents_ends(void **state)
{
	struct procusage_process v[] = {{.pid = 10, .ppid = 11}, {.pid = 11, .ppid = 10}};
	const struct procusage all = {.v = v, .n = ARRAY_SIZE(v)};
	const stepd_step_task_info_t task = {.pid = 12};
	stepd_usage_t u;

	(void)state;
	assert_int_equal(procusage_sum_tasks(&all, &task, 1, &u), 0);
	assert_int_equal(u.source[STEPD_USAGE_PROCESSES], STEPD_USAGE_UNKNOWN);
}

static void no_process_has_no_usage(void **state)
{
	const struct procusage none = {0};
	const stepd_step_task_info_t task = {.pid = 12};
	stepd_usage_t u, more = {0};

	(void)state;
	procusage_sum(&none, &u);
	assert_int_equal(u.source[STEPD_USAGE_PROCESSES], STEPD_USAGE_PROC);
	assert_int_equal(u.value[STEPD_USAGE_PROCESSES], 0);
	assert_int_equal(u.source[STEPD_USAGE_CPU_USER_USEC], STEPD_USAGE_UNKNOWN);
	assert_int_equal(procusage_sum_tasks(&none, &task, 1, &u), 0);
	assert_int_equal(u.source[STEPD_USAGE_PROCESSES], STEPD_USAGE_UNKNOWN);
	more.value[STEPD_USAGE_PROCESSES] = 3;
	more.source[STEPD_USAGE_PROCESSES] = STEPD_USAGE_CGROUP;
	procusage_fill(&u, &more);
	more.value[STEPD_USAGE_PROCESSES] = 4;
	procusage_fill(&u, &more);
	assert_int_equal(u.value[STEPD_USAGE_PROCESSES], 3);
	assert_int_equal(u.source[STEPD_USAGE_PROCESSES], STEPD_USAGE_CGROUP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_usage_of_a_process_is_read),
		cmocka_unit_test(usage_is_summed_by_task),
		cmocka_unit_test(a_circle_of_parents_ends),
		cmocka_unit_test(no_process_has_no_usage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
