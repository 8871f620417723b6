/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stepd/spec/spec.h"
#include "stepd/step/requests.h"

struct rig {
	struct killseq ks;
	int sent[16];
	int n;
	int unkillable;
	int ends_at;     /* the step ends when this signal is sent */
	int not_reached; /* this signal is not delivered within the call */
};

static void on_send(int sig, void *userdata)
{
	struct rig *rig = userdata;

	rig->sent[rig->n++] = sig;
	if (sig == rig->ends_at) {
		killseq_stop(&rig->ks);
		ev_break(rig->ks.loop, EVBREAK_ALL);
	}
	if (sig != rig->not_reached)
		killseq_delivered(&rig->ks, sig);
}

static void on_unkillable(void *userdata)
{
	struct rig *rig = userdata;

	rig->unkillable++;
	ev_break(rig->ks.loop, EVBREAK_ALL);
}

static void make(struct rig *rig, const struct spec_kill *steps, size_t count)
{
	*rig = (struct rig){.ends_at = -1};
	rig->ks = (struct killseq){.loop = ev_loop_new(0),
		.steps = steps,
		.count = count,
		.unkillable_timeout_ms = 20,
		.send = on_send,
		.unkillable = on_unkillable,
		.userdata = rig};
	assert_non_null(rig->ks.loop);
}

static const struct spec_kill sequence[] = {
	{SIGCONT, 0}, {SIGTERM, 20}, {SIGINT, 10}, {SIGKILL, 0}};

static void test_whole_sequence_then_unkillable(void **state)
{
	static const int wanted[] = {SIGCONT, SIGTERM, SIGINT, SIGKILL};
	struct rig rig;

	(void)state;
	make(&rig, sequence, 4);
	killseq_start(&rig.ks);
	assert_int_equal(rig.n, 2); /* up to the first that leaves time, at once */
	killseq_start(&rig.ks);     /* changes nothing */
	assert_int_equal(rig.n, 2);
	ev_run(rig.ks.loop, 0);
	assert_int_equal(rig.n, 4);
	assert_memory_equal(rig.sent, wanted, sizeof(wanted));
	assert_int_equal(rig.unkillable, 1);
	ev_loop_destroy(rig.ks.loop);
}

static void test_ends_early(void **state)
{
	struct rig rig;

	(void)state;
	make(&rig, sequence, 4);
	rig.ends_at = SIGINT;
	killseq_start(&rig.ks);
	ev_run(rig.ks.loop, 0);
	assert_int_equal(rig.n, 3);
	ev_run(rig.ks.loop, 0); /* nothing is left that could call */
	assert_int_equal(rig.n, 3);
	assert_int_equal(rig.unkillable, 0);
	ev_loop_destroy(rig.ks.loop);
}

static void test_kill_now_skips_the_wait(void **state)
{
	static const struct spec_kill slow[] = {{SIGTERM, 600000}, {SIGKILL, 0}};
	struct rig rig;

	(void)state;
	make(&rig, slow, 2);
	killseq_start(&rig.ks);
	assert_int_equal(rig.n, 1);
	killseq_kill_now(&rig.ks);
	assert_int_equal(rig.n, 2);
	assert_int_equal(rig.sent[1], SIGKILL);
	killseq_kill_now(&rig.ks); /* again */
	assert_int_equal(rig.n, 3);
	ev_run(rig.ks.loop, 0);
	assert_int_equal(rig.unkillable, 1);
	ev_loop_destroy(rig.ks.loop);
}

static uint64_t left_ms(struct rig *rig)
{
	return (uint64_t)(ev_timer_remaining(rig->ks.loop, &rig->ks.timer) * 1e3);
}

/* Where the signals go by a walk over /proc, each used to be overtaken by the next. */
static void test_time_counts_from_the_delivery(void **state)
{
	struct rig rig;

	(void)state;
	make(&rig, sequence, 4);
	rig.not_reached = SIGTERM;
	killseq_start(&rig.ks);
	assert_int_equal(rig.n, 2);
	assert_true(left_ms(&rig) > 1000); /* it is on its way, and has its 20 ms still */
	killseq_delivered(&rig.ks, SIGCONT);
	assert_true(left_ms(&rig) > 1000); /* that was another one */
	killseq_delivered(&rig.ks, SIGTERM);
	assert_true(left_ms(&rig) <= 20);
	killseq_delivered(&rig.ks, SIGTERM); /* from somebody else: its time goes on */
	ev_run(rig.ks.loop, 0);
	assert_int_equal(rig.n, 4);
	assert_int_equal(rig.unkillable, 1);
	ev_loop_destroy(rig.ks.loop);
}

/* What hangs on its way keeps no KILL from coming. */
static void test_a_lost_delivery_delays_for_a_bounded_time(void **state)
{
	struct rig rig;

	(void)state;
	make(&rig, sequence, 4);
	rig.not_reached = SIGTERM;
	killseq_start(&rig.ks);
	assert_in_range(left_ms(&rig), 1000, 10000);
	killseq_kill_now(&rig.ks);
	assert_int_equal(rig.sent[2], SIGKILL);
	assert_true(left_ms(&rig) <= 20);
	killseq_delivered(&rig.ks, SIGTERM); /* too late to change anything */
	assert_true(left_ms(&rig) <= 20);
	ev_run(rig.ks.loop, 0);
	assert_int_equal(rig.unkillable, 1);
	ev_loop_destroy(rig.ks.loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_sequence_then_unkillable),
		cmocka_unit_test(test_ends_early),
		cmocka_unit_test(test_kill_now_skips_the_wait),
		cmocka_unit_test(test_time_counts_from_the_delivery),
		cmocka_unit_test(test_a_lost_delivery_delays_for_a_bounded_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
