/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <ev.h>
#include <signal.h>

#include "stepd/cli/relay/streams.h"

#define PIPE_SIZE 65536u /* of a new pipe */

struct rig {
	struct ev_loop *loop;
	struct inlet inlet;
	int read_fd; /* the agent's end */
	size_t taken;
	unsigned refused;
};

static void on_taken(size_t size, void *userdata)
{
	((struct rig *)userdata)->taken += size;
}

static void on_refused(void *userdata)
{
	((struct rig *)userdata)->refused++;
}

static int set_up(void **state)
{
	static const struct inlet_events events = {.taken = on_taken, .refused = on_refused};
	struct rig *rig = calloc(1, sizeof(*rig));

	(void)signal(SIGPIPE, SIG_IGN);
	if (!rig)
		return -1;
	rig->loop = ev_loop_new(EVFLAG_NOENV);
	*state = rig;
	return inlet_open(&rig->inlet, rig->loop, &events, rig, &rig->read_fd);
}

static int tear_down(void **state)
{
	struct rig *rig = *state;

	inlet_close(&rig->inlet);
	(void)close_fd(rig->read_fd);
	ev_loop_destroy(rig->loop);
	free(rig);
	return 0;
}

static void test_small_writes_arrive_at_once(void **state)
{
	struct rig *rig = *state;
	char got[16] = "";

	inlet_write(&rig->inlet, "one ", 4);
	inlet_write(&rig->inlet, "two", 3);
	assert_int_equal(rig->taken, 7);
	assert_int_equal(read(rig->read_fd, got, sizeof(got)), 7);
	assert_string_equal(got, "one two");
	inlet_end(&rig->inlet);
	assert_int_equal(read(rig->read_fd, got, sizeof(got)), 0);
	assert_int_equal(rig->refused, 0);
}

static void test_a_full_pipe_is_written_as_it_is_read(void **state)
{
	struct rig *rig = *state;
	char *bytes = calloc(1, 2 * PIPE_SIZE);

	assert_non_null(bytes);
	inlet_write(&rig->inlet, bytes, 2 * PIPE_SIZE);
	assert_int_equal(rig->taken, PIPE_SIZE);
	inlet_end(&rig->inlet);
	assert_int_equal(read(rig->read_fd, bytes, PIPE_SIZE), PIPE_SIZE);
	(void)ev_run(rig->loop, EVRUN_NOWAIT);
	assert_int_equal(rig->taken, 2 * PIPE_SIZE);
	assert_int_equal(read(rig->read_fd, bytes, PIPE_SIZE), PIPE_SIZE);
	assert_int_equal(read(rig->read_fd, bytes, PIPE_SIZE), 0);
	free(bytes);
}

static void test_a_closed_reader_is_reported_once(void **state)
{
	struct rig *rig = *state;

	rig->read_fd = close_fd(rig->read_fd);
	inlet_write(&rig->inlet, "lost", 4);
	inlet_write(&rig->inlet, "lost", 4);
	inlet_end(&rig->inlet);
	assert_int_equal(rig->refused, 1);
	assert_int_equal(rig->taken, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_small_writes_arrive_at_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			test_a_full_pipe_is_written_as_it_is_read, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			test_a_closed_reader_is_reported_once, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
