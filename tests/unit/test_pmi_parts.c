/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the PMI server is made of: texts, keys, places.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mpi/pmi2/kvs.h"
#include "mpi/pmi2/mapping.h"
#include "mpi/pmi2/message.h"

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

static void test_mapping(void **state)
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

static void test_kvs(void **state)
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
	assert_int_equal(b.size, 4 + 16 + 2 + 3);
	/* A fence that fails leaves it for the next. */
	bytes_cut(&b, 0);
	kvs_encode(&k, true, &b);
	assert_int_equal(b.size, 4 + 16 + 2 + 3);
	for (i = 1; i < b.size; i++) {
		if (i != 4) /* a clock alone */
			assert_int_equal(kvs_merge(&other, (struct slice){b.data, i}), -EBADMSG);
	}
	kvs_clear(&k);
	kvs_clear(&other);
}

/* What is put and published is counted once, and a replaced value no longer. */
static void test_kvs_bytes(void **state)
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

static void test_kvs_bound(void **state)
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

static void test_heads(void **state)
{
	static const struct {
		const char *head;
		int length;
	} cases[] = {
		{"12    ", 12},
		{"    12", 12},
		{"  12  ", 12},
		{"000012", 12},
		{"999999", 999999},
		{"", -EAGAIN},
		{"12", -EAGAIN},
		{"  ", -EAGAIN},
		{"12 ", -EAGAIN},
		{"x", -EBADMSG},
		{"1 2", -EBADMSG},
		{"12x", -EBADMSG},
		{"      ", -EBADMSG},
		{"0     ", -EBADMSG},
		{"-12   ", -EBADMSG},
		{"12    cmd", 12},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		if (pmi2_parse_head(text(cases[i].head)) != cases[i].length)
			fail_msg("'%s'", cases[i].head);
	}
}

static void test_escapes(void **state)
{
	static const struct {
		const char *body, *value;
	} cases[] = {
		{"cmd=x;v=a;", "a"},
		{"cmd=x;v=a", "a"},
		{"cmd=x;v=;", ""},
		{"cmd=x;v=;w=1;", ""},
		{"cmd=x;v=a;;b;w=1;", "a;b"},
		{"cmd=x;v=;;;w=1;", ";"},
		{"cmd=x;v=;;;;;w=1;", ";;"},
		{"cmd=x;v=a=b;w=1;", "a=b"},
		{"cmd=x;v=a b\n;w=1;", "a b\n"},
	};
	_cleanup_message_ struct message m = {0};
	struct slice value;
	char body[64];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bytes_ struct bytes again = {0};

		(void)snprintf(body, sizeof(body), "%s", cases[i].body);
		assert_int_equal(pmi2_parse(body, strlen(body), &m), 0);
		assert_true(message_get(&m, "v", &value));
		if (!slice_is(value, cases[i].value))
			fail_msg("'%s'", cases[i].body);
		pmi2_escape(value, &again);
		assert_int_equal(again.size, pmi2_escaped_size(value));
	}
}

static void test_lines(void **state)
{
	_cleanup_message_ struct message m = {0};
	struct slice value;
	int64_t n;

	(void)state;
	assert_int_equal(pmi1_parse(text("cmd=get  kvsname=a key=b=c"), &m), 0);
	assert_true(message_get(&m, "key", &value) && slice_is(value, "b=c"));
	assert_int_equal(pmi1_parse(text("cmd=put key=k value=a b c=d"), &m), 0);
	assert_true(message_get(&m, "value", &value) && slice_is(value, "a b c=d"));
	assert_int_equal(pmi1_parse(text("cmd=get value=a b"), &m), -EBADMSG);
	assert_int_equal(pmi1_parse(text(""), &m), -EBADMSG);
	assert_int_equal(pmi1_parse(text("   "), &m), -EBADMSG);
	assert_int_equal(pmi1_parse(text("=a"), &m), -EBADMSG);
	assert_int_equal(pmi1_parse(text("cmd=x n=-5 big=99999999999999999999 bad=5x no="), &m), 0);
	assert_int_equal(message_get_int(&m, "n", -5, 5, &n), 0);
	assert_int_equal(n, -5);
	assert_int_equal(message_get_int(&m, "n", 0, 5, &n), -EINVAL);
	assert_int_equal(message_get_int(&m, "big", 0, INT64_MAX, &n), -EINVAL);
	assert_int_equal(message_get_int(&m, "bad", 0, 9, &n), -EINVAL);
	assert_int_equal(message_get_int(&m, "no", 0, 9, &n), -EINVAL);
	assert_int_equal(message_get_int(&m, "none", 0, 9, &n), -EINVAL);
}

static void test_bytes(void **state)
{
	_cleanup_bytes_ struct bytes b = {0};
	struct slice s, taken;
	uint32_t n;
	int i;

	(void)state;
	for (i = 0; i < 10000; i++) {
		bytes_addf(&b, "%04d", i);
		if (i % 2)
			bytes_drop(&b, 4);
	}
	assert_int_equal(b.size, 20000);
	assert_memory_equal(b.data, "50005001", 8);
	assert_true(b.room < 100000);
	bytes_clear(&b);
	bytes_add_u32(&b, 3);
	bytes_add(&b, "abcd", 4);
	s = slice_of(&b);
	assert_true(slice_take_sized(&s, &taken) && slice_is(taken, "abc"));
	assert_false(slice_take_u32(&s, &n));
	assert_true(slice_take(&s, 1, &taken) && slice_is(taken, "d"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mapping),
		cmocka_unit_test(test_kvs),
		cmocka_unit_test(test_kvs_bytes),
		cmocka_unit_test(test_kvs_bound),
		cmocka_unit_test(test_heads),
		cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
