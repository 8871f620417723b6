/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Bytes cut into frames, however they come, and frames judged before they are parsed.
 */
#include "stepd/control/control_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static void expect_frame(struct frames *f, const char *want, size_t size)
{
	const char *text;
	size_t got;

	assert_int_equal(frames_first(f, &text, &got), 1);
	assert_int_equal(got, size);
	assert_memory_equal(text, want, size);
	assert_int_equal(text[got], '\0');
	frames_drop(f, got);
}

/* Frames of random lengths in pieces of random lengths. */
static void test_cut(_unused_ void **state)
{
	static char all[100000];
	size_t starts[2000], frames = 0, at = 0, fed = 0, seen = 0, piece, size;
	struct frames f = {.max = CONTROL_FRAME_MAX};
	const char *text;

	srand(4711);
	while (at + 200 < sizeof(all)) {
		starts[frames++] = at;
		size = (size_t)rand() % 150;
		memset(all + at, 'a' + rand() % 26, size);
		at += size + 1;
	}
	starts[frames] = at;
	while (fed < at) {
		piece = (size_t)rand() % 400;
		piece = piece < at - fed ? piece : at - fed;
		assert_int_equal(buffer_add(&f.bytes, all + fed, piece), 0);
		fed += piece;
		while (rand() % 4 && frames_first(&f, &text, &size) == 1) {
			expect_frame(&f, all + starts[seen], starts[seen + 1] - starts[seen] - 1);
			seen++;
		}
	}
	for (; seen < frames; seen++)
		expect_frame(&f, all + starts[seen], starts[seen + 1] - starts[seen] - 1);
	assert_int_equal(frames_first(&f, &text, &size), 0);
	assert_int_equal(f.bytes.capacity, 0); /* nothing is there, and nothing held */
}

static void test_longest(_unused_ void **state)
{
	_cleanup_free_ char *long_one = malloc(CONTROL_FRAME_MAX + 2);
	struct frames f = {.max = CONTROL_FRAME_MAX};
	const char *text;
	size_t size;

	memset(long_one, 'x', CONTROL_FRAME_MAX + 1);
	long_one[CONTROL_FRAME_MAX + 1] = '\0';
	assert_int_equal(buffer_add(&f.bytes, long_one + 1, CONTROL_FRAME_MAX), 0);
	assert_int_equal(frames_first(&f, &text, &size), 0);
	assert_int_equal(buffer_add(&f.bytes, "", 1), 0);
	expect_frame(&f, long_one + 1, CONTROL_FRAME_MAX);

	assert_int_equal(buffer_add(&f.bytes, long_one, CONTROL_FRAME_MAX + 2), 0);
	assert_int_equal(frames_first(&f, &text, &size), -EMSGSIZE);
	frames_clear(&f);
	assert_int_equal(buffer_add(&f.bytes, long_one, CONTROL_FRAME_MAX + 1), 0);
	assert_int_equal(frames_first(&f, &text, &size), -EMSGSIZE); /* whatever comes now */
	frames_clear(&f);
}

static bool is_modest(const char *text)
{
	return frame_is_bounded(text, strlen(text), CONTROL_VALUES_MAX);
}

/* N times open, "x", N times close. */
static bool nests(char open, char close, unsigned n)
{
	char text[256];

	assert_true(2 * n + 1 < sizeof(text));
	memset(text, open, n);
	text[n] = '1';
	memset(text + n + 1, close, n);
	return frame_is_bounded(text, 2 * n + 1, CONTROL_VALUES_MAX);
}

static void test_depth(_unused_ void **state)
{
	assert_true(nests('[', ']', CONTROL_DEPTH_MAX));
	assert_false(nests('[', ']', CONTROL_DEPTH_MAX + 1));
	assert_true(nests('{', '}', CONTROL_DEPTH_MAX));
	assert_false(nests('{', '}', CONTROL_DEPTH_MAX + 1));
	/* one beside the other is not deep; what a string holds is text */
	assert_true(
		is_modest("[[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],"
			  "[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[]]"));
	assert_true(is_modest("\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\""));
	assert_true(is_modest("\"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\""));
	assert_false(is_modest("\"\\\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["));
	/* any bytes: nothing is read beyond them */
	assert_true(is_modest("\""));
	assert_true(is_modest("\"\\"));
	assert_true(is_modest("]]]]"));
	assert_true(frame_is_bounded("", 0, CONTROL_VALUES_MAX));
}

static void test_values(_unused_ void **state)
{
	const size_t most = CONTROL_VALUES_MAX - 2; /* the array and its first are values, too */
	_cleanup_free_ char *text = malloc(2 * CONTROL_VALUES_MAX);

	memset(text, ',', 2 * CONTROL_VALUES_MAX);
	text[0] = '[';
	assert_true(frame_is_bounded(text, 1 + most, CONTROL_VALUES_MAX));
	assert_false(frame_is_bounded(text, 2 + most, CONTROL_VALUES_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_longest),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
