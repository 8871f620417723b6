/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <ev.h>
#include <signal.h>

#include "stepd/base/cleanup.h"
#include "stepd/cli/relay/streams.h"
#include "stepd/stdio/backlog.h"

#define PIPE_SIZE 65536u /* of a new pipe */

struct rig {
	struct ev_loop *loop;
	struct inlet inlet;
	int read_fd; /* the agent's end */
	size_t stored, taken;
	unsigned refused, warned;
};

static void on_taken(size_t size, void *userdata)
{
	((struct rig *)userdata)->taken += size;
}

static void on_stored(size_t size, void *userdata)
{
	((struct rig *)userdata)->stored += size;
}

static void on_refused(void *userdata)
{
	((struct rig *)userdata)->refused++;
}

static void on_warn(const char *text, void *userdata)
{
	(void)text;
	((struct rig *)userdata)->warned++;
}

static int set_up(void **state)
{
	static const struct inlet_events events = {
		.stored = on_stored, .taken = on_taken, .refused = on_refused, .warn = on_warn};
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

/* ---- with a backlog ------------------------------------------------------------------------ */

#define PIECE 60000u

static void store(struct rig *rig, bool spills, uint64_t spill_max, bool drops)
{
	struct backlog *backlog;

	assert_int_equal(backlog_new(&(const struct backlog_options){.spills = spills,
					     .spill_max = spill_max},
				 &backlog),
		0);
	inlet_store_in_take(&rig->inlet, backlog, drops);
}

/* Numbers from first on, so that a byte is known by its position. */
static void write_numbers(struct rig *rig, uint32_t first, size_t size)
{
	uint32_t numbers[PIECE / sizeof(uint32_t)];
	size_t i;

	for (; size > 0; size -= PIECE) {
		for (i = 0; i < ARRAY_SIZE(numbers); i++)
			numbers[i] = first++;
		inlet_write(&rig->inlet, numbers, sizeof(numbers));
	}
}

/* Reads what comes up to the end of the input, or size bytes: how many. Numbers in it must follow
 * each other, but for one gap at most. */
static size_t read_numbers(struct rig *rig, size_t size, uint32_t *first, unsigned *gaps)
{
	uint32_t numbers[PIPE_SIZE / sizeof(uint32_t)];
	size_t total = 0, i;
	ssize_t n;

	while (total < size) {
		(void)ev_run(rig->loop, EVRUN_NOWAIT);
		n = read(rig->read_fd, numbers, sizeof(numbers));
		if (n <= 0)
			break;
		assert_int_equal(n % (ssize_t)sizeof(uint32_t), 0);
		for (i = 0; i < (size_t)n / sizeof(uint32_t); i++) {
			*gaps += numbers[i] != *first;
			*first = numbers[i] + 1;
		}
		total += (size_t)n;
	}
	return total;
}

static void test_what_is_not_read_is_stored(void **state)
{
	const size_t size = 100 * PIECE;
	struct rig *rig = *state;
	uint32_t next = 0;
	unsigned gaps = 0;

	store(rig, true, 0, false);
	write_numbers(rig, 0, size);
	assert_int_equal(rig->stored, size);
	assert_in_range(rig->taken, PIECE, PIPE_SIZE);
	inlet_end(&rig->inlet);
	assert_int_equal(read_numbers(rig, SIZE_MAX, &next, &gaps), size);
	assert_int_equal(rig->taken, size);
	assert_int_equal(gaps, 0);
	assert_int_equal(rig->warned, 0);
}

static void test_what_can_not_be_stored_waits(void **state)
{
	const size_t size = 100 * PIECE;
	struct rig *rig = *state;
	uint32_t next = 0;
	unsigned gaps = 0;
	size_t stored;

	store(rig, true, 2 * BACKLOG_WINDOW, false);
	write_numbers(rig, 0, size);
	stored = rig->stored;
	assert_in_range(stored, 3 * BACKLOG_WINDOW - PIPE_SIZE, 3 * BACKLOG_WINDOW + 4 * PIPE_SIZE);
	assert_int_equal(rig->warned, 1);
	inlet_end(&rig->inlet);
	(void)read_numbers(rig, 4 * BACKLOG_WINDOW, &next, &gaps);
	assert_true(rig->stored > stored);
	(void)read_numbers(rig, SIZE_MAX, &next, &gaps);
	assert_int_equal(rig->stored, size);
	assert_int_equal(rig->taken, size);
	assert_int_equal(gaps, 0);
	assert_int_equal(rig->warned, 1);
}

static void test_without_a_file_it_waits(void **state)
{
	const size_t size = 50 * PIECE;
	struct rig *rig = *state;
	uint32_t next = 0;
	unsigned gaps = 0;

	store(rig, false, 0, false);
	write_numbers(rig, 0, size);
	assert_true(rig->stored < 2 * BACKLOG_WINDOW);
	inlet_end(&rig->inlet);
	assert_int_equal(read_numbers(rig, SIZE_MAX, &next, &gaps), size);
	assert_int_equal(rig->stored, size);
	assert_int_equal(gaps, 0);
	assert_int_equal(rig->warned, 0);
}

static void test_oldest_bytes_are_left_out(void **state)
{
	const size_t size = 50 * PIECE;
	struct rig *rig = *state;
	uint32_t next = 0;
	unsigned gaps = 0;
	size_t n;

	store(rig, false, 0, true);
	write_numbers(rig, 0, size);
	assert_int_equal(rig->stored, size);
	assert_int_equal(rig->warned, 1);
	inlet_end(&rig->inlet);
	n = read_numbers(rig, SIZE_MAX, &next, &gaps);
	assert_int_equal(n + rig->inlet.dropped, size);
	assert_int_equal(rig->taken, size);
	assert_int_equal(gaps, 1);
	assert_int_equal(next, size / sizeof(uint32_t));
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
		cmocka_unit_test_setup_teardown(test_what_is_not_read_is_stored, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			test_what_can_not_be_stored_waits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_without_a_file_it_waits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_oldest_bytes_are_left_out, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
