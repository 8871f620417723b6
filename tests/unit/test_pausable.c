/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>

#include "stepd/loop/loop.h"

static void on_expired(struct ev_loop *loop, ev_timer *w, int revents)
{
	int *count = w->data;

	(void)loop;
	(void)revents;
	++*count;
}

static void rest_ms(long ms)
{
	struct timespec t = {.tv_nsec = ms * 1000000};

	(void)nanosleep(&t, NULL);
}

static void test_it_expires(void **state)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_NOENV);
	struct pausable p = {0};
	int count = 0;

	(void)state;
	pausable_stop(&p); /* was never begun */
	assert_false(pausable_is_set(&p));
	pausable_init(&p, loop, on_expired, &count);
	assert_false(pausable_is_set(&p));
	pausable_start(&p, 10);
	assert_true(pausable_is_set(&p));
	ev_run(loop, 0);
	assert_int_equal(count, 1);
	ev_loop_destroy(loop);
}

/* What was left when it was paused is what is left when it goes on. */
static void test_it_pauses(void **state)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_NOENV);
	struct pausable p;
	int count = 0;
	double begin;

	(void)state;
	pausable_init(&p, loop, on_expired, &count);
	pausable_start(&p, 60);
	rest_ms(20);
	pausable_pause(&p);
	assert_true(pausable_is_set(&p));
	assert_true(p.left_sec <= 0.041);
	rest_ms(80);
	ev_run(loop, 0); /* nothing runs: it returns */
	assert_int_equal(count, 0);
	begin = ev_time();
	pausable_pause(&p); /* twice is once */
	pausable_continue(&p);
	pausable_continue(&p);
	ev_run(loop, 0);
	assert_int_equal(count, 1);
	assert_true(ev_time() - begin >= p.left_sec - 0.005);
	ev_loop_destroy(loop);
}

static void test_begun_while_paused(void **state)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_NOENV);
	struct pausable p;
	int count = 0;

	(void)state;
	pausable_init(&p, loop, on_expired, &count);
	pausable_pause(&p);
	pausable_start(&p, 1);
	ev_run(loop, 0);
	assert_int_equal(count, 0);
	assert_true(pausable_is_set(&p));
	pausable_continue(&p);
	ev_run(loop, 0);
	assert_int_equal(count, 1);
	pausable_pause(&p);
	pausable_start(&p, 1);
	pausable_stop(&p); /* and forgotten */
	pausable_continue(&p);
	ev_run(loop, 0);
	assert_int_equal(count, 1);
	ev_loop_destroy(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_expires),
		cmocka_unit_test(test_it_pauses),
		cmocka_unit_test(test_begun_while_paused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
