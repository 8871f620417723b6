/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stepd/agent/killseq.h"
#include "stepd/agent/spec/spec.h"

struct rig {
	struct killseq ks;
	int sent[16];
	int n;
	int unkillable;
	int ends_at; /* the step ends when this signal is sent */
};

static void on_send(int sig, void *userdata)
{
	struct rig *rig = userdata;

	rig->sent[rig->n++] = sig;
	if (sig == rig->ends_at) {
		killseq_stop(&rig->ks);
		ev_break(rig->ks.loop, EVBREAK_ALL);
	}
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_sequence_then_unkillable),
		cmocka_unit_test(test_ends_early),
		cmocka_unit_test(test_kill_now_skips_the_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
