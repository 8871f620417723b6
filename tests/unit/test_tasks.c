/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stepd/account/tasks.h"

/* Raw wait statuses, as wait(2) packs them. */
#define EXITED(n)    ((n) << 8)
#define SIGNALLED(n) (n)
#define CORE_DUMPED  0x80

static void start(struct tasks *ts, uint32_t index, pid_t pid)
{
	tasks_started(ts, index, pid, 0);
}

static void end(struct tasks *ts, pid_t pid, int wait_status)
{
	struct task *task = tasks_find(ts, pid);

	assert_non_null(task);
	tasks_ended(ts, task, wait_status, 1);
}

static void test_words(void **state)
{
	char buf[STATUS_TEXT_SIZE];

	(void)state;
	assert_string_equal(status_text(EXITED(3), buf, sizeof(buf)), "exited with status 3");
	assert_string_equal(
		status_text(SIGNALLED(9), buf, sizeof(buf)), "killed by signal 9 (KILL)");
	assert_string_equal(status_text(SIGNALLED(11) | CORE_DUMPED, buf, sizeof(buf)),
		"killed by signal 11 (SEGV), core dumped");
	assert_int_equal(status_exit_code(EXITED(255)), 255);
	assert_int_equal(status_exit_code(SIGNALLED(15)), 143);
}

static void test_largest_exit_status(void **state)
{
	struct status s = {0};

	(void)state;
	status_count(&s, EXITED(3));
	status_count(&s, EXITED(7));
	status_count(&s, EXITED(5));
	assert_int_equal(s.code, 7);
}

static void test_first_signal_wins(void **state)
{
	struct status s = {0};

	(void)state;
	status_count(&s, EXITED(200));
	status_count(&s, SIGNALLED(6));
	status_count(&s, SIGNALLED(11));
	status_count(&s, EXITED(255));
	assert_int_equal(s.code, 128 + 6);
}

static void test_requested_ends_do_not_count(void **state)
{
	static const uint32_t ranks[] = {4, 5, 6};
	struct tasks ts;

	(void)state;
	assert_int_equal(tasks_init(&ts, ranks, 3), 0);
	start(&ts, 0, 100);
	start(&ts, 1, 101);
	start(&ts, 2, 102);
	end(&ts, 101, EXITED(2));
	tasks_mark_requested(&ts);
	end(&ts, 100, SIGNALLED(15));
	end(&ts, 102, EXITED(99));
	assert_int_equal(ts.running, 0);
	assert_int_equal(ts.status.code, 2);
	assert_true(task_failed(&ts.v[1]));
	assert_false(task_failed(&ts.v[0]));
	tasks_clear(&ts);
}

static void test_exec_failure_counts_even_if_requested(void **state)
{
	static const uint32_t ranks[] = {0};
	struct tasks ts;
	char buf[96];

	(void)state;
	assert_int_equal(tasks_init(&ts, ranks, 1), 0);
	start(&ts, 0, 100);
	ts.v[0].exec_status = STATUS_NOT_FOUND;
	tasks_mark_requested(&ts);
	end(&ts, 100, EXITED(127));
	assert_int_equal(ts.status.code, 127);
	assert_string_equal(task_text(&ts.v[0], buf, sizeof(buf)), "never executed (not found)");
	tasks_clear(&ts);
}

/* Told to end between its report and its exit: it was not executed all the same. */
static void test_exec_failure_counts_even_if_killed(void **state)
{
	static const uint32_t ranks[] = {0};
	struct tasks ts;

	(void)state;
	assert_int_equal(tasks_init(&ts, ranks, 1), 0);
	start(&ts, 0, 100);
	ts.v[0].exec_status = STATUS_NOT_FOUND;
	tasks_mark_requested(&ts);
	end(&ts, 100, SIGTERM);
	assert_false(ts.status.signalled);
	assert_int_equal(ts.status.code, 127);
	tasks_clear(&ts);
}

/* Pids that fall into the same slot, one of them used again after its task's end. */
static void test_find_among_colliding_and_reused_pids(void **state)
{
	static const uint32_t ranks[] = {0, 1, 2, 3};
	struct tasks ts;

	(void)state;
	assert_int_equal(tasks_init(&ts, ranks, 4), 0);
	start(&ts, 0, 8);
	start(&ts, 1, 16);
	start(&ts, 2, 24);
	end(&ts, 8, EXITED(0));
	start(&ts, 3, 8);
	assert_ptr_equal(tasks_find(&ts, 8), &ts.v[3]);
	assert_ptr_equal(tasks_find(&ts, 16), &ts.v[1]);
	assert_ptr_equal(tasks_find(&ts, 24), &ts.v[2]);
	assert_null(tasks_find(&ts, 9));
	assert_null(tasks_find(&ts, 0));
	tasks_clear(&ts);
}

static void test_a_thousand_tasks(void **state)
{
	enum {
		N = 1000
	};
	uint32_t ranks[N], i;
	struct tasks ts;

	(void)state;
	for (i = 0; i < N; i++)
		ranks[i] = i;
	assert_int_equal(tasks_init(&ts, ranks, N), 0);
	for (i = 0; i < N; i++)
		start(&ts, i, (pid_t)(1000 + i * 2048)); /* the same low bits */
	for (i = 0; i < N; i++)
		end(&ts, (pid_t)(1000 + i * 2048), EXITED((int)i % 4));
	assert_int_equal(ts.status.code, 3);
	assert_int_equal(ts.running, 0);
	tasks_clear(&ts);
}

/* Who ran out of memory is told apart from how it ended. */
static void test_out_of_memory(void **state)
{
	const uint32_t ranks[] = {0, 1};
	char buf[TASK_TEXT_SIZE];
	struct tasks ts;

	(void)state;
	assert_int_equal(tasks_init(&ts, ranks, 2), 0);
	start(&ts, 0, 100);
	start(&ts, 1, 101);
	ts.v[0].oom_kills = 1;
	ts.v[1].oom_kills = 2;
	end(&ts, 100, EXITED(0));
	assert_string_equal(
		task_text(&ts.v[0], buf, sizeof(buf)), "exited with status 0, out of memory");
	assert_false(task_failed(&ts.v[0]));
	tasks_mark_requested(&ts);
	end(&ts, 101, SIGNALLED(9));
	assert_string_equal(task_text(&ts.v[1], buf, sizeof(buf)),
		"killed by signal 9 (KILL), on request, out of memory");
	assert_int_equal(ts.status.code, 0);
	tasks_clear(&ts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_largest_exit_status),
		cmocka_unit_test(test_first_signal_wins),
		cmocka_unit_test(test_requested_ends_do_not_count),
		cmocka_unit_test(test_exec_failure_counts_even_if_requested),
		cmocka_unit_test(test_exec_failure_counts_even_if_killed),
		cmocka_unit_test(test_find_among_colliding_and_reused_pids),
		cmocka_unit_test(test_a_thousand_tasks),
		cmocka_unit_test(test_out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
