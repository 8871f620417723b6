/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a process that connects to libpmix says of itself, read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/pmix/claim.h"

struct message {
	char bytes[1024];
	size_t size;
};

static void put(struct message *m, const void *bytes, size_t size)
{
	assert_true(m->size + size <= sizeof(m->bytes));
	memcpy(m->bytes + m->size, bytes, size);
	m->size += size;
}

static void put_u32(struct message *m, uint32_t number)
{
	number = htonl(number);
	put(m, &number, sizeof(number));
}

/* A client's up to its kind, with a credential as libpmix has it. */
static struct message begin(unsigned char kind)
{
	struct message m = {.size = CLAIM_HEADER_SIZE};

	put(&m, "native", 7);
	put_u32(&m, 8);
	put(&m, "\1\2\3\4\5\6\7", 8);
	put(&m, &kind, 1);
	return m;
}

static void put_proc(struct message *m)
{
	put(m, "stepd.7.0", 10);
	put_u32(m, 3);
	put(m, "4.2.2", 6);
}

/* From memory of just that size, so that a sanitizer sees what is read beyond. */
static int parse(const struct message *m, size_t size, struct claim *claim)
{
	char *copy = malloc(size + !size);
	int r;

	assert_non_null(copy);
	memcpy(copy, m->bytes, size);
	r = claim_parse(copy, size, claim);
	free(copy);
	return r;
}

static void a_client_has_namespace_and_rank(void **state)
{
	struct message m = begin(0);
	struct claim claim;

	(void)state;
	put_proc(&m);
	assert_int_equal(parse(&m, m.size, &claim), 0);
	assert_false(claim.is_tool);
	assert_true(claim.has_proc);
	assert_string_equal(claim.nspace, "stepd.7.0");
	assert_int_equal(claim.rank, 3);
}

static void a_tool_has_a_user_and_perhaps_a_name(void **state)
{
	static const unsigned char named[] = {4, 5, 7, 8, 9, 10}, nameless[] = {1, 2, 3, 6};
	struct claim claim;

	(void)state;
	for (size_t i = 0; i < sizeof(named) + sizeof(nameless); i++) {
		bool has_name = i < sizeof(named);
		struct message m = begin(has_name ? named[i] : nameless[i - sizeof(named)]);

		put_u32(&m, 1000);
		put_u32(&m, 100);
		if (has_name)
			put_proc(&m);
		assert_int_equal(parse(&m, m.size, &claim), 0);
		assert_true(claim.is_tool);
		assert_int_equal(claim.uid, 1000);
		assert_int_equal(claim.has_proc, has_name);
		if (has_name)
			assert_int_equal(claim.rank, 3);
	}
}

static void what_is_cut_off_is_refused(void **state)
{
	struct message m = begin(4);
	struct claim claim;
	size_t needed;

	(void)state;
	put_u32(&m, 1000);
	put_u32(&m, 100);
	put(&m, "stepd.7.0", 10);
	put_u32(&m, 3);
	needed = m.size;
	for (size_t size = 0; size < needed; size++)
		assert_int_equal(parse(&m, size, &claim), -EBADMSG);
	assert_int_equal(parse(&m, needed, &claim), 0);
}

static void what_no_libpmix_says_is_refused(void **state)
{
	struct message m = begin(11);
	struct claim claim;
	char name[300];

	(void)state;
	put_proc(&m);
	assert_int_equal(parse(&m, m.size, &claim), -EBADMSG); /* no such kind */
	m = begin(0);
	memset(name, 'x', sizeof(name));
	name[256] = '\0';
	put(&m, name, 257);
	put_u32(&m, 0);
	assert_int_equal(parse(&m, m.size, &claim), -EBADMSG); /* a name too long for libpmix */
	m = (struct message){.size = CLAIM_HEADER_SIZE};
	put(&m, "native", 7);
	put_u32(&m, 0xffffffff);
	put_proc(&m);
	assert_int_equal(parse(&m, m.size, &claim), -EBADMSG); /* a credential beyond the end */
}

static void a_header_tells_how_much_to_read(void **state)
{
	char header[CLAIM_HEADER_SIZE] = {0};
	uint32_t size = 100;

	(void)state;
	memcpy(header + 8, &size, sizeof(size));
	assert_int_equal(claim_size(header), CLAIM_HEADER_SIZE + 100);
	size = 0xffffffff;
	memcpy(header + 8, &size, sizeof(size));
	assert_int_equal(claim_size(header), CLAIM_SIZE_MAX);
	size = CLAIM_SIZE_MAX;
	memcpy(header + 8, &size, sizeof(size));
	assert_int_equal(claim_size(header), CLAIM_SIZE_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_has_namespace_and_rank),
		cmocka_unit_test(a_tool_has_a_user_and_perhaps_a_name),
		cmocka_unit_test(what_is_cut_off_is_refused),
		cmocka_unit_test(what_no_libpmix_says_is_refused),
		cmocka_unit_test(a_header_tells_how_much_to_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
