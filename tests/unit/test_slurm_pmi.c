/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of Slurm's mpi/pmi2, and a record of accounting that nodes have added up.
 */
#include "contrib/slurm/pmi_messages.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "contrib/slurm/step_record.h"

static struct slice slice_of_pack(const struct pack *p)
{
	return (struct slice){buffer_bytes(&p->bytes), buffer_size(&p->bytes)};
}

static void assert_bytes(const struct pack *p, const void *expected, size_t size)
{
	assert_false(p->failed);
	assert_int_equal(buffer_size(&p->bytes), size);
	assert_memory_equal(buffer_bytes(&p->bytes), expected, size);
}

static void test_fence(void **state)
{
	static const char expected[] = "\0\0"
				       "\0\0\0\3"
				       "\0\0\0\3n4\0"
				       "\0\0\0\1"
				       "\0\0\0\2"
				       "\0\0\0\4key\0"
				       "\0\0\0\6value\0";
	_cleanup_bytes_ struct bytes pairs = {0};
	_cleanup_pack_ struct pack p = {0}, torn = {0};
	struct slice rest;

	(void)state;
	manager_pair_add(&pairs, slice_of_text("key"), slice_of_text("value"));
	rest = slice_of(&pairs);
	assert_int_equal(slurm_pmi_fence(&p, 3, "n4", 2, rest), 0);
	assert_bytes(&p, expected, sizeof(expected) - 1);
	rest.size--;
	assert_int_equal(slurm_pmi_fence(&torn, 3, "n4", 2, rest), -EBADMSG);
}

static void test_fenced(void **state)
{
	static const char message[] = "\0\1"
				      "\0\0\0\2"
				      "\0\0\0\2a\0"
				      "\0\0\0\3b;\0"
				      "\0\0\0\2c\0"
				      "\0\0\0\0";
	struct slice all = {message, sizeof(message) - 1}, rest, key, value;
	size_t cut;
	uint32_t number = 0;

	(void)state;
	assert_int_equal(slurm_pmi_type(all), SLURM_PMI_FENCED);
	for (cut = 0; cut <= all.size; cut++) {
		_cleanup_bytes_ struct bytes pairs = {0};
		int r = slurm_pmi_fenced((struct slice){message, cut}, &number, &pairs);

		/* Without pairs, with one, with both. */
		assert_int_equal(r, cut == 6 || cut == 19 || cut == all.size ? 0 : -EBADMSG);
		if (cut < all.size)
			continue;
		assert_int_equal(number, 2);
		rest = slice_of(&pairs);
		assert_true(manager_pair_take(&rest, &key, &value));
		assert_true(slice_is(key, "a") && slice_is(value, "b;"));
		assert_true(manager_pair_take(&rest, &key, &value));
		assert_true(slice_is(key, "c") && value.size == 0 && rest.size == 0);
	}
	assert_int_equal(slurm_pmi_type((struct slice){"\0", 1}), SLURM_PMI_TYPE_MAX);
	assert_int_equal(slurm_pmi_type((struct slice){"\0\11", 2}), SLURM_PMI_TYPE_MAX);
}

static void test_names(void **state)
{
	static const char publish[] = "\0\4"
				      "\0\0\0\2n\0"
				      "\0\0\0\2p\0",
			  lookup[] = "\0\6"
				     "\0\0\0\2n\0";
	_cleanup_pack_ struct pack p = {0}, l = {0}, unknown = {0};
	struct slice value;

	(void)state;
	assert_int_equal(
		slurm_pmi_query(&p, MANAGER_PUBLISH, slice_of_text("n"), slice_of_text("p")), 0);
	assert_bytes(&p, publish, sizeof(publish) - 1);
	assert_int_equal(
		slurm_pmi_query(&l, MANAGER_LOOKUP, slice_of_text("n"), slice_of_text("")), 0);
	assert_bytes(&l, lookup, sizeof(lookup) - 1);
	assert_int_equal(
		slurm_pmi_query(&unknown, MANAGER_QUERY_MAX, slice_of_text("n"), slice_of_text("")),
		-EBADMSG);

	assert_int_equal(slurm_pmi_reply(MANAGER_PUBLISH, (struct slice){"\0\0\0\0", 4}, &value),
		MANAGER_DONE);
	assert_int_equal(slurm_pmi_reply(MANAGER_UNPUBLISH, (struct slice){"\0\0\0\1", 4}, &value),
		MANAGER_FAILED);
	assert_int_equal(
		slurm_pmi_reply(MANAGER_PUBLISH, (struct slice){"\0", 1}, &value), MANAGER_FAILED);
	assert_int_equal(slurm_pmi_reply(MANAGER_LOOKUP, (struct slice){"\0\0\0\0", 4}, &value),
		MANAGER_UNKNOWN);
	assert_int_equal(slurm_pmi_reply(MANAGER_LOOKUP, (struct slice){"\0\0\0\3pq\0", 7}, &value),
		MANAGER_DONE);
	assert_true(slice_is(value, "pq"));
}

/* ---- records ------------------------------------------------------------------------------- */

#define COLUMNS 14
#define UNKNOWN UINT64_MAX

/* Of two resources; values: those of the first, whose others are unknown. */
static void pack_record(struct pack *p, uint32_t second_id, uint64_t sec, uint32_t usec,
	const uint64_t values[COLUMNS])
{
	int c;

	pack_u8(p, 1);
	pack_u64(p, sec);
	pack_u32(p, usec);
	pack_u64(p, 0);
	pack_u32(p, 0);
	pack_u32(p, 0);
	pack_u64(p, 0);
	pack_u32_array(p, (const uint32_t[]){1, second_id}, 2);
	pack_u32(p, 0xfffffffe);
	for (c = 0; c < COLUMNS; c++) {
		pack_u32(p, 2);
		pack_u64(p, values[c]);
		pack_u64(p, UNKNOWN);
	}
}

static void read_record(struct step_record *r, const struct pack *p)
{
	struct slice s = slice_of_pack(p);

	assert_int_equal(step_record_read(r, s.data, s.size), 0);
}

static void test_records_are_added(void **state)
{
	/* most, its node and task, least, its node and task, sum; the same of what is put out */
	static const uint64_t one[COLUMNS] = {9, 0, 4, 2, 0, 5, 11, UNKNOWN, UNKNOWN, UNKNOWN,
		UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN},
			      two[COLUMNS] = {7, 1, 6, 1, 1, 7, 8, 3, 1, 6, 3, 1, 6, 3},
			      sum[COLUMNS] = {9, 0, 4, 1, 1, 7, 19, 3, 1, 6, 3, 1, 6, 3};
	_cleanup_pack_ struct pack a = {0}, b = {0}, c = {0}, expected = {0}, got = {0};
	_cleanup_step_record_ struct step_record total = {0}, other = {0}, strange = {0};

	(void)state;
	pack_record(&a, 2, 1, 600000, one);
	pack_record(&b, 2, 2, 500000, two);
	pack_record(&c, 3, 0, 0, two);
	pack_record(&expected, 2, 4, 100000, sum);
	read_record(&other, &a);
	assert_int_equal(step_record_add(&total, &other), 0); /* to nothing */
	step_record_clear(&other);
	assert_int_equal(step_record_add(&total, &other), 0); /* nothing to it */
	read_record(&other, &b);
	assert_int_equal(step_record_add(&total, &other), 0);
	read_record(&strange, &c);
	assert_int_equal(step_record_add(&total, &strange), -EINVAL);
	step_record_pack(&total, &got);
	assert_bytes(&got, buffer_bytes(&expected.bytes), buffer_size(&expected.bytes));
}

static void test_records_are_read_whole(void **state)
{
	static const uint64_t values[COLUMNS] = {0};
	_cleanup_step_record_ struct step_record r = {0};
	_cleanup_pack_ struct pack p = {0};
	struct slice all;
	size_t cut;

	(void)state;
	pack_record(&p, 2, 1, 2, values);
	all = slice_of_pack(&p);
	for (cut = 1; cut < all.size; cut++)
		assert_int_equal(step_record_read(&r, all.data, cut), -EBADMSG);
	assert_int_equal(step_record_read(&r, "\0", 1), 0);
	assert_null(r.values);
	assert_int_equal(step_record_read(&r, NULL, 0), 0);
	assert_null(r.values);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fence),
		cmocka_unit_test(test_fenced),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_records_are_added),
		cmocka_unit_test(test_records_are_read_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
