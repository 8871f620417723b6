/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the PMI server is made of: keys and values, and where ranks are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mpi/pmi2/kvs.h"
#include "mpi/pmi2/pmi_impl.h"

static struct slice text(const char *s)
{
	return (struct slice){s, strlen(s)};
}

static void assert_mapping(const uint32_t *nodes, uint32_t size, const char *wanted)
{
	_cleanup_free_ char *mapping = NULL;

	assert_int_equal(mapping_format(nodes, size, &mapping), 0);
	assert_string_equal(mapping, wanted);
}

static void a_mapping_lists_the_ranks_of_all_nodes(void **state)
{
	static uint32_t cyclic[2000];
	size_t i;

	(void)state;
	assert_mapping(NULL, 5, "(vector,(0,1,5))");
	assert_mapping((uint32_t[]){0}, 1, "(vector,(0,1,1))");
	assert_mapping((uint32_t[]){0, 0, 1, 1, 2, 2}, 6, "(vector,(0,3,2))");
	assert_mapping((uint32_t[]){0, 0, 1, 1, 2}, 5, "(vector,(0,2,2),(2,1,1))");
	assert_mapping((uint32_t[]){0, 1, 0, 1}, 4, "(vector,(0,2,1),(0,2,1))");
	assert_mapping((uint32_t[]){2, 2, 0, 1}, 4, "(vector,(2,1,2),(0,2,1))");
	assert_mapping((uint32_t[]){0, 2}, 2, "(vector,(0,1,1),(2,1,1))");
	/* Written once, to be repeated, where the whole would be too long. */
	for (i = 0; i < 2000; i++)
		cyclic[i] = i % 4;
	assert_mapping(cyclic, 2000, "(vector,(0,4,1))");
	cyclic[1999] = 0;
	{
		_cleanup_free_ char *mapping = NULL;

		assert_int_equal(mapping_format(cyclic, 2000, &mapping), 0);
		assert_true(strlen(mapping) > 1024);
	}
}

static void assert_value(const struct kvs *k, const char *key, const char *wanted)
{
	struct slice value = {"", 0};

	if (!kvs_get(k, text(key), &value) || !slice_is(value, wanted))
		fail_msg("%s is '%.*s', not '%s'", key, (int)value.size, value.data, wanted);
}

static void a_store_has_the_values_that_were_published(void **state)
{
	struct kvs k = {0}, other = {0};
	_cleanup_bytes_ struct bytes b = {0};
	struct slice value, key;
	char name[16];
	uint32_t i;

	(void)state;
	for (i = 0; i < 1000; i++) {
		(void)snprintf(name, sizeof(name), "k%u", i);
		assert_int_equal(kvs_put(&k, 3, text(name), text(name + 1)), 0);
	}
	assert_int_equal(kvs_put(&k, 3, text("k999"), (struct slice){"a\0;", 3}), 0);
	assert_false(kvs_get(&k, text("k999"), &value));
	i = 0;
	assert_false(kvs_next(&k, &i, &key, &value));

	kvs_encode(&k, true, &b);
	assert_int_equal(kvs_merge(&other, slice_of(&b)), 0);
	assert_int_equal(other.count, 1000);
	assert_true(kvs_get(&other, text("k999"), &value) && memcmp(value.data, "a\0;", 3) == 0);
	i = 999;
	assert_true(kvs_next(&other, &i, &key, &value) && slice_is(key, "k999"));
	i = 1000;
	assert_false(kvs_next(&other, &i, &key, &value));
	/* What is put while it is under way is of the next fence. */
	assert_int_equal(kvs_put(&k, 1, text("k5"), text("new")), 0);
	assert_int_equal(kvs_merge(&k, slice_of(&b)), 0);
	kvs_settle(&k);
	assert_value(&k, "k5", "5");
	bytes_cut(&b, 0);
	kvs_encode(&k, true, &b);
	assert_int_equal(bytes_size(&b), 4 + 16 + 2 + 3);
	/* A fence that fails leaves it for the next. */
	bytes_cut(&b, 0);
	kvs_encode(&k, true, &b);
	assert_int_equal(bytes_size(&b), 4 + 16 + 2 + 3);
	for (i = 1; i < bytes_size(&b); i++) {
		if (i != 4) /* a clock alone */
			assert_int_equal(
				kvs_merge(&other, (struct slice){buffer_bytes(&b.held), i}),
				-EBADMSG);
	}
	kvs_clear(&k);
	kvs_clear(&other);
}

/* What is put and published is counted once, and a replaced value no longer. */
static void a_store_counts_each_value_once(void **state)
{
	struct kvs k = {0};
	size_t empty, full;

	(void)state;
	assert_int_equal(kvs_set(&k, text("key"), text("")), 0);
	empty = k.bytes;
	assert_int_equal(kvs_set(&k, text("key"), text("1234")), 0);
	full = k.bytes;
	assert_int_equal(full, empty + 4);
	assert_int_equal(kvs_put(&k, 0, text("key"), text("5678")), 0);
	assert_true(k.bytes > full);
	kvs_publish(&k, true);
	kvs_settle(&k);
	assert_value(&k, "key", "5678");
	assert_int_equal(k.bytes, full);
	kvs_clear(&k);
}

static void a_store_above_its_bound_refuses_puts(void **state)
{
	struct kvs k = {.bytes = KVS_BYTES_MAX - 100};

	(void)state;
	assert_int_equal(kvs_put(&k, 0, text("k"),
				 text("a value that is longer than what is left, by "
				      "a few bytes at least: it is not stored")),
		-EDQUOT);
	assert_false(k.fresh_count > 0);
	kvs_clear(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mapping_lists_the_ranks_of_all_nodes),
		cmocka_unit_test(a_store_has_the_values_that_were_published),
		cmocka_unit_test(a_store_counts_each_value_once),
		cmocka_unit_test(a_store_above_its_bound_refuses_puts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
