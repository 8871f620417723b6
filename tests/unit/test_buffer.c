/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

static void test_bytes_come_out_as_they_went_in(void **state)
{
	_cleanup_buffer_ struct buffer b = {0};
	unsigned char in = 0, out = 0;
	size_t i, turn;

	(void)state;
	for (turn = 0; turn < 200; turn++) {
		for (i = 0; i < turn * 7 % 50; i++, in++)
			assert_int_equal(buffer_add(&b, &in, 1), 0);
		for (i = 0; i < turn * 5 % 40 && buffer_size(&b) > 0; i++, out++) {
			assert_int_equal((unsigned char)*buffer_bytes(&b), out);
			buffer_drop(&b, 1);
		}
	}
	assert_int_equal((unsigned char)(out + buffer_size(&b)), in);
}

static void test_an_empty_one_has_no_memory(void **state)
{
	struct buffer b = {0};

	(void)state;
	assert_int_equal(buffer_add(&b, "", 0), 0);
	assert_null(buffer_bytes(&b));
	assert_int_equal(buffer_add(&b, "text", 4), 0);
	assert_non_null(buffer_bytes(&b));
	buffer_drop(&b, 4);
	assert_null(buffer_bytes(&b));
	assert_int_equal(b.capacity, 0);
}

static void test_what_is_read_is_added(void **state)
{
	_cleanup_buffer_ struct buffer b = {0};
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(buffer_add(&b, "in ", 3), 0);
	assert_int_equal(buffer_receive(&b, fds[0], 4), -EAGAIN);
	assert_int_equal(write(fds[1], "front of", 8), 8);
	assert_int_equal(buffer_receive(&b, fds[0], 5), 5);
	assert_int_equal(buffer_read(&b, fds[0], 100), 3);
	assert_int_equal(buffer_size(&b), 11);
	assert_memory_equal(buffer_bytes(&b), "in front of", 11);
	(void)close(fds[1]);
	assert_int_equal(buffer_read(&b, fds[0], 100), 0);
	assert_int_equal(buffer_receive(&b, fds[0], 100), 0);
	(void)close(fds[0]);
	assert_int_equal(buffer_read(&b, -1, 100), -EBADF);
	assert_int_equal(buffer_size(&b), 11);
}

static void test_space_in_front_is_used_again(void **state)
{
	_cleanup_buffer_ struct buffer b = {0};
	char piece[100];
	size_t capacity, i;

	(void)state;
	memset(piece, 'x', sizeof(piece));
	assert_int_equal(buffer_add(&b, piece, sizeof(piece)), 0);
	capacity = b.capacity;
	for (i = 0; i < 100; i++) {
		assert_int_equal(buffer_add(&b, piece, sizeof(piece)), 0);
		buffer_drop(&b, sizeof(piece));
		assert_int_equal(b.capacity, capacity);
		assert_int_equal(buffer_capacity_for(&b, 1), capacity);
	}
}

static void test_an_array_grows(void **state)
{
	_cleanup_free_ uint32_t *v = NULL;
	size_t capacity = 0, before, grown = 0, i;

	(void)state;
	for (i = 0; i < 10000; i++) {
		before = capacity;
		assert_int_equal(array_reserve(v, capacity, i + 1), 0);
		assert_true(capacity > i);
		grown += capacity != before;
		v[i] = (uint32_t)i;
	}
	assert_true(grown < 15);
	for (i = 0; i < 10000; i++)
		assert_int_equal(v[i], i);
}

/* With AddressSanitizer too reallocarray() fails there, and does not end the program. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

static void test_an_array_that_can_not_grow_stays(void **state)
{
	_cleanup_free_ uint64_t *v = NULL;
	uint64_t *before;
	size_t capacity = 0;

	(void)state;
	assert_int_equal(array_reserve(v, capacity, 3), 0);
	before = v;
	assert_int_equal(array_reserve(v, capacity, SIZE_MAX / 4), -ENOMEM);
	assert_ptr_equal(v, before);
	assert_int_equal(array_reserve(v, capacity, capacity), 0);
	assert_ptr_equal(v, before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_come_out_as_they_went_in),
		cmocka_unit_test(test_an_empty_one_has_no_memory),
		cmocka_unit_test(test_what_is_read_is_added),
		cmocka_unit_test(test_space_in_front_is_used_again),
		cmocka_unit_test(test_an_array_grows),
		cmocka_unit_test(test_an_array_that_can_not_grow_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
