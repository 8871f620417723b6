/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "stepd/base/hostlist.h"
#include "stepd/base/strv.h"

static int add(const char *name, void *userdata)
{
	return strv_add(userdata, name);
}

/* names: with blanks between them */
static void is_list(const char *text, const char *names)
{
	_cleanup_strv_ struct strv got = {0};
	char all[256] = "";
	size_t i, used = 0;

	assert_int_equal(hostlist_each(text, 100, add, &got), 0);
	for (i = 0; i < got.n; i++)
		used += (size_t)snprintf(
			all + used, sizeof(all) - used, "%s%s", i ? " " : "", got.v[i]);
	assert_string_equal(all, names);
}

static void test_lists(void **state)
{
	(void)state;
	is_list("a", "a");
	is_list("a,b.c,d-e_f", "a b.c d-e_f");
	is_list("n[1-3]", "n1 n2 n3");
	is_list("n[08-11]", "n08 n09 n10 n11");
	is_list("n[01-02,7],login", "n01 n02 n7 login");
	is_list("n[9-10]", "n9 n10");
	is_list("r[0-1]n[1-2]x", "r0n1x r0n2x r1n1x r1n2x");
	is_list("[1-2]", "1 2");
	is_list("a[000]", "a000");
}

static void test_wrong_lists(void **state)
{
	static const char *const texts[] = {"", ",", "a,", ",a", "a[", "a]", "a[]", "a[1", "a[1-",
		"a[-1]", "a[1-]", "a[2-1]", "a[1,]", "a[1,,2]", "a[x]", "a[1-2-3]", "a[[1]]",
		"a[1]]", "a b", "a[1 ]", "a[1234567890]", "a/b", "a\n",
		"[1][1][1][1][1][1][1][1][1]"};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(hostlist_each(texts[i], 100, NULL, NULL), -EINVAL);
}

static int stop(const char *name, void *userdata)
{
	(void)userdata;
	return strcmp(name, "n2") == 0 ? -ECANCELED : 0;
}

static void test_bounds(void **state)
{
	char text[HOSTLIST_NAME_MAX + 2];

	(void)state;
	assert_int_equal(hostlist_each("n[1-100]", 100, NULL, NULL), 0);
	assert_int_equal(hostlist_each("n[1-101]", 100, NULL, NULL), -E2BIG);
	assert_int_equal(hostlist_each("n[0-999999999][0-999999999]", 100, NULL, NULL), -E2BIG);
	assert_int_equal(hostlist_each("n[1-3]", 100, stop, NULL), -ECANCELED);
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(hostlist_each(text, 100, NULL, NULL), -EINVAL);
	text[sizeof(text) - 2] = '\0';
	assert_int_equal(hostlist_each(text, 100, NULL, NULL), 0);
}

/* Made of names, the list is short and means the same names. */
static void makes(const char *names, const char *wanted)
{
	_cleanup_strv_ struct strv list = {0};
	_cleanup_free_ char *copy = strdup(names);
	_cleanup_free_ char *made = NULL;
	char *save = NULL, *name;

	assert_non_null(copy);
	for (name = strtok_r(copy, " ", &save); name; name = strtok_r(NULL, " ", &save))
		assert_int_equal(strv_add(&list, name), 0);
	made = hostlist_make(list.v, list.n);
	assert_string_equal(made, wanted);
	is_list(made, names);
}

static void test_make(void **state)
{
	(void)state;
	makes("a", "a");
	makes("n1 n2 n3", "n[1-3]");
	makes("n1 n3 n4 login n5", "n[1,3-4],login,n5");
	makes("n08 n09 n10 n11", "n[08-11]");
	makes("n9 n10", "n[9-10]");
	makes("n9 n10 n12 n100", "n[9-10,12,100]");
	makes("n10 n9 n09 n010", "n[10,9,09],n010");
	makes("n99 n100 n0101", "n[99-100],n0101");
	makes("n9 n10 n010", "n[9-10],n010");
	makes("n09 n10 n9", "n[09-10],n9");
	makes("n10 n09 n9", "n[10,09,9]");
	makes("n3 n2 n1", "n[3,2,1]");
	makes("r1n1 r1n2 r2n1", "r1n[1-2],r2n1");
	makes("n1-ib n2-ib n3", "n[1-2]-ib,n3");
	makes("1 2", "[1-2]");
	makes("a b", "a,b");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_wrong_lists),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_make),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
