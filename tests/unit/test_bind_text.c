/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stepd/spec/bind_text.h"

typedef int (*parse_fn)(const char *text, struct bind_text *ret_text, struct err *err);

static void good(parse_fn parse, const char *text, unsigned how, bool verbose, const char *list)
{
	_cleanup_(bind_text_clear) struct bind_text b = {0};
	struct err err = ERR_INIT;

	if (parse(text, &b, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	assert_true(b.given);
	assert_int_equal(b.how, how);
	assert_int_equal(b.verbose, verbose);
	if (list)
		assert_string_equal(b.list, list);
	else
		assert_null(b.list);
	assert_int_equal(b.items_count > 0, list != NULL);
}

static void bad(parse_fn parse, const char *text, const char *wanted)
{
	struct bind_text b = {.how = 77};
	struct err err = ERR_INIT;

	if (parse(text, &b, &err) >= 0)
		fail_msg("%s: was taken", text);
	if (!strstr(err.text, wanted))
		fail_msg("%s: got '%s', which lacks '%s'", text, err.text, wanted);
	assert_int_equal(b.how, 77);
}

static void test_words(void **state)
{
	unsigned how;

	(void)state;
	for (how = 0; how < BIND_CPU_MAX; how++) {
		assert_non_null(bind_cpu_names[how]);
		if (!strchr(bind_cpu_names[how], 'm') || how == BIND_CPU_RANK_LDOM ||
			how == BIND_CPU_LDOMS)
			good(bind_text_parse_cpu, bind_cpu_names[how], how, false, NULL);
	}
	good(bind_text_parse_cpu, "quiet,cores", BIND_CPU_CORES, false, NULL);
	good(bind_text_parse_cpu, "verbose,cores", BIND_CPU_CORES, true, NULL);
	good(bind_text_parse_cpu, "verbose", BIND_CPU_NONE, true, NULL);
	good(bind_text_parse_cpu, "quiet", BIND_CPU_NONE, false, NULL);
	good(bind_text_parse_cpu, "verbose,map_cpu:0,0x1F,3*4", BIND_CPU_MAP, true, "0,0x1F,3*4");
	good(bind_text_parse_cpu, "mask_ldom:f", BIND_CPU_MASK_LDOM, false, "f");
	good(bind_text_parse_mem, "none", BIND_MEM_NONE, false, NULL);
	good(bind_text_parse_mem, "local", BIND_MEM_LOCAL, false, NULL);
	good(bind_text_parse_mem, "rank", BIND_MEM_RANK, false, NULL);
	good(bind_text_parse_mem, "verbose,map_mem:0,1", BIND_MEM_MAP, true, "0,1");
	good(bind_text_parse_mem, "mask_mem:0x3", BIND_MEM_MASK, false, "0x3");
}

static void test_prefer(void **state)
{
	static const char *const texts[] = {
		"prefer,local", "verbose,prefer,local", "prefer,verbose,local"};
	struct err err = ERR_INIT;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		struct bind_text b = {0};

		assert_int_equal(bind_text_parse_mem(texts[i], &b, &err), 0);
		assert_true(b.prefer);
		assert_int_equal(b.how, BIND_MEM_LOCAL);
		assert_int_equal(b.verbose, i > 0);
		bind_text_clear(&b);
	}
	bad(bind_text_parse_mem, "prefer", "needs a type");
	bad(bind_text_parse_mem, "prefer,none", "needs a type");
	bad(bind_text_parse_cpu, "prefer,cores", "'prefer'");
}

static void test_items(void **state)
{
	_cleanup_(bind_text_clear) struct bind_text b = {0}, m = {0};
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(bind_text_parse_cpu("map_cpu:7,0x10*65536,65535", &b, &err), 0);
	assert_int_equal(b.items_count, 3);
	assert_int_equal(b.items[0].number, 7);
	assert_int_equal(b.items[0].repeat, 1);
	assert_null(b.items[0].digits);
	assert_int_equal(b.items[1].number, 16);
	assert_int_equal(b.items[1].repeat, 65536);
	assert_int_equal(b.items[2].number, 65535);
	assert_int_equal(bind_text_parse_cpu("mask_cpu:0Xff*2,0x0,0", &m, &err), -EINVAL);
	assert_int_equal(bind_text_parse_cpu("mask_cpu:0Xff*2,00aB", &m, &err), 0);
	assert_int_equal(m.items_count, 2);
	assert_int_equal(m.items[0].digits_len, 2);
	assert_memory_equal(m.items[0].digits, "ff", 2);
	assert_int_equal(m.items[0].repeat, 2);
	assert_memory_equal(m.items[1].digits, "00aB", 4);
}

static void test_bad(void **state)
{
	_cleanup_free_ char *longest = malloc(100000);

	(void)state;
	bad(bind_text_parse_cpu, "", "no type ''");
	bad(bind_text_parse_cpu, "nope", "no type 'nope'");
	bad(bind_text_parse_cpu, "core", "no type 'core'");
	bad(bind_text_parse_cpu, "CORES", "no type");
	bad(bind_text_parse_cpu, "verbose,", "no type ''");
	bad(bind_text_parse_cpu, "quiet,verbose,cores", "conflict");
	bad(bind_text_parse_cpu, "cores,verbose", "comes after the type");
	bad(bind_text_parse_cpu, "cores,threads", "one type");
	bad(bind_text_parse_cpu, "cores:1", "takes no list");
	bad(bind_text_parse_cpu, "map_cpu", "needs a list");
	bad(bind_text_parse_cpu, "mask_cpu", "0x1,0x2");
	bad(bind_text_parse_cpu, "map_cpu:", "'' is not a number");
	bad(bind_text_parse_cpu, "map_cpu:1,", "'' is not a number");
	bad(bind_text_parse_cpu, "map_cpu:1,,2", "'' is not a number");
	bad(bind_text_parse_cpu, "map_cpu:-1", "'-1' is not a number");
	bad(bind_text_parse_cpu, "map_cpu:1-3", "not a number");
	bad(bind_text_parse_cpu, "map_cpu:0x", "not a number");
	bad(bind_text_parse_cpu, "map_cpu:0xg", "not a number");
	bad(bind_text_parse_cpu, "map_cpu: 1", "not a number");
	bad(bind_text_parse_cpu, "map_cpu:65536", "above 65535");
	bad(bind_text_parse_cpu, "map_cpu:0x10000", "above 65535");
	bad(bind_text_parse_cpu, "map_cpu:99999999999999999999999", "above 65535");
	bad(bind_text_parse_cpu, "map_cpu:1*0", "repeated");
	bad(bind_text_parse_cpu, "map_cpu:1*", "repeated");
	bad(bind_text_parse_cpu, "map_cpu:1*65537", "repeated");
	bad(bind_text_parse_cpu, "map_cpu:1*2*3", "repeated");
	bad(bind_text_parse_cpu, "map_cpu:1*99999999999999999999", "repeated");
	bad(bind_text_parse_cpu, "mask_cpu:", "hexadecimal");
	bad(bind_text_parse_cpu, "mask_cpu:0x", "hexadecimal");
	bad(bind_text_parse_cpu, "mask_cpu:0xg", "hexadecimal");
	bad(bind_text_parse_cpu, "mask_cpu:-f", "hexadecimal");
	bad(bind_text_parse_cpu, "mask_cpu:0", "empty");
	bad(bind_text_parse_cpu, "mask_cpu:0x000*3", "empty");
	bad(bind_text_parse_mem, "cores", "no type 'cores'");
	bad(bind_text_parse_mem, "sort", "no type 'sort'");
	bad(bind_text_parse_mem, "map_mem:70000", "above 65535");
	assert_non_null(longest);
	memset(longest, 'z', 100000);
	longest[99999] = '\0';
	bad(bind_text_parse_cpu, longest, "no type 'zzz");
	memcpy(longest, "map_cpu:", 8);
	bad(bind_text_parse_cpu, longest, "'zzz");
}

static void test_distribution(void **state)
{
	static const struct {
		const char *text;
		uint32_t plane;
	} cases[] = {{"block", 0}, {"cyclic", 1}, {"plane=7", 7}, {"plane=65536", 65536},
		{"cyclic:block", 0}, {"*:cyclic", 1}, {"block:plane=2", 2}, {"arbitrary:block", 0}};
	static const char *const none[] = {"", "blocks", "plane", "plane=", "plane=0",
		"plane=65537", "plane=-1", "plane=2:block", "block:", "block:cyclic:block",
		"fcyclic", ":block"};
	struct err err = ERR_INIT;
	uint32_t plane;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		plane = 99;
		if (bind_text_parse_distribution(cases[i].text, &plane, &err) < 0)
			fail_msg("%s: %s", cases[i].text, err.text);
		assert_int_equal(plane, cases[i].plane);
	}
	for (i = 0; i < ARRAY_SIZE(none); i++) {
		plane = 99;
		if (bind_text_parse_distribution(none[i], &plane, &err) >= 0)
			fail_msg("%s: was taken", none[i]);
		assert_int_equal(plane, 99);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_prefer),
		cmocka_unit_test(test_items),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_distribution),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
