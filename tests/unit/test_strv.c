/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/strv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_add(void **state)
{
	_cleanup_strv_ struct strv sv = {0};
	char want[16];
	size_t i;

	(void)state;
	for (i = 0; i < 1000; i++) {
		assert_int_equal(i % 2 ? strv_add(&sv, "odd") : strv_addf(&sv, "%zu%%", i), 0);
		assert_int_equal(sv.n, i + 1);
		assert_null(sv.v[sv.n]);
		assert_true(sv.capacity > sv.n);
	}
	for (i = 0; i < 1000; i++) {
		(void)snprintf(want, sizeof(want), "%zu%%", i);
		assert_string_equal(sv.v[i], i % 2 ? "odd" : want);
	}
}

static void test_quote(void **state)
{
	_cleanup_strv_ struct strv sv = {0};
	_cleanup_free_ char *text = NULL;

	(void)state;
	assert_int_equal(strv_add(&sv, "a-b_=+./:,@%9") | strv_add(&sv, "") | strv_add(&sv, "b c") |
			strv_add(&sv, "it's") | strv_add(&sv, "$x;`y`\n"),
		0);
	text = strv_quote(&sv);
	assert_string_equal(text, "a-b_=+./:,@%9 '' 'b c' 'it'\\''s' '$x;`y`\n'");
}

static void test_add_take(void **state)
{
	_cleanup_strv_ struct strv sv = {0};
	char *s = strdup("mine");

	(void)state;
	assert_int_equal(strv_add_take(&sv, s), 0);
	assert_ptr_equal(sv.v[0], s);
	assert_int_equal(strv_add_take(&sv, NULL), -ENOMEM); /* of a strdup() that failed */
	assert_int_equal(sv.n, 1);
}

static void test_env(void **state)
{
	_cleanup_strv_ struct strv sv = {0};

	(void)state;
	assert_null(strv_env_get(&sv, "PATH"));
	strv_env_unset(&sv, "PATH");
	assert_int_equal(strv_env_set(&sv, "PATH", "/bin"), 0);
	assert_int_equal(strv_env_set(&sv, "PATH_MORE", "a=b"), 0);
	assert_int_equal(strv_env_set(&sv, "EMPTY", ""), 0);
	assert_string_equal(strv_env_get(&sv, "PATH"), "/bin");
	assert_string_equal(strv_env_get(&sv, "PATH_MORE"), "a=b");
	assert_string_equal(strv_env_get(&sv, "EMPTY"), "");
	assert_null(strv_env_get(&sv, "PAT"));
	assert_null(strv_env_get(&sv, "PATH_"));
	assert_int_equal(strv_env_set(&sv, "PATH", "/usr/bin"), 0);
	assert_int_equal(sv.n, 3);
	assert_string_equal(sv.v[0], "PATH=/usr/bin");
}

static void add_all(struct strv *sv, const char *const *texts, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		assert_int_equal(strv_add(sv, texts[i]), 0);
}

static void test_env_put_all(void **state)
{
	static const char *const texts[] = {"B=2", "E=", "A=1", "B=3=4", "D=new", "AB=long"};
	static const char *const wanted[] = {"A=1", "B=3=4", "C=kept", "E=", "D=new", "AB=long"};
	_cleanup_strv_ struct strv sv = {0}, entries = {0};
	size_t i;

	(void)state;
	add_all(&entries, texts, ARRAY_SIZE(texts));
	assert_int_equal(strv_env_put_all(&sv, NULL, 0), 0);
	assert_int_equal(sv.n, 0);
	assert_int_equal(
		strv_add(&sv, "A=old") | strv_add(&sv, "B=old") | strv_add(&sv, "C=kept"), 0);
	assert_int_equal(strv_env_put_all(&sv, entries.v, entries.n), 0);
	assert_int_equal(sv.n, ARRAY_SIZE(wanted));
	for (i = 0; i < sv.n; i++)
		assert_string_equal(sv.v[i], wanted[i]);
	assert_null(sv.v[sv.n]);
}

static void test_names(void **state)
{
	static const char *const texts[] = {"B=1", "A=2", "AA", "B=3", "=x"};
	_cleanup_strv_names_ struct strv_names names = {0};
	_cleanup_strv_ struct strv entries = {0};

	(void)state;
	add_all(&entries, texts, ARRAY_SIZE(texts));
	assert_int_equal(strv_names_find(&names, "A="), STRV_NAMES_NONE);
	assert_int_equal(strv_names_make(&names, entries.v, entries.n), 0);
	assert_int_equal(strv_names_find(&names, "A=anything"), 1);
	assert_int_equal(strv_names_find(&names, "A"), 1);
	assert_int_equal(strv_names_find(&names, "AA=1"), 2);
	assert_int_equal(strv_names_find(&names, "B="), 3);
	assert_int_equal(strv_names_find(&names, ""), 4);
	assert_int_equal(strv_names_find(&names, "AB="), STRV_NAMES_NONE);
	assert_int_equal(strv_names_find(&names, "C="), STRV_NAMES_NONE);
}

static void test_env_unset(void **state)
{
	static const char *const names[] = {"A", "B", "C"};
	_cleanup_strv_ struct strv sv = {0};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(strv_env_set(&sv, names[i], "1"), 0);
	strv_env_unset(&sv, "B");
	assert_int_equal(sv.n, 2);
	assert_string_equal(sv.v[0], "A=1");
	assert_string_equal(sv.v[1], "C=1");
	assert_null(sv.v[2]);
	strv_env_unset(&sv, "C");
	strv_env_unset(&sv, "A");
	strv_env_unset(&sv, "A");
	assert_int_equal(sv.n, 0);
	assert_null(sv.v[0]);
}

static void test_extend(void **state)
{
	_cleanup_strv_ struct strv a = {0}, b = {0};
	size_t i;

	(void)state;
	assert_int_equal(strv_extend(&a, &b), 0);
	assert_int_equal(a.n, 0);
	for (i = 0; i < 20; i++)
		assert_int_equal(strv_addf(&b, "%zu", i), 0);
	assert_int_equal(strv_add(&a, "first"), 0);
	assert_int_equal(strv_extend(&a, &b), 0);
	assert_int_equal(a.n, 21);
	assert_string_equal(a.v[20], "19");
	assert_ptr_not_equal(a.v[20], b.v[19]);
	assert_null(a.v[21]);
}

static void test_index(void **state)
{
	static const char *const names[] = {"a", NULL, "ab", "a"};

	(void)state;
	assert_int_equal(strv_index(names, 4, "a"), 0);
	assert_int_equal(strv_index(names, 4, "ab"), 2);
	assert_int_equal(strv_index(names, 2, "ab"), -1);
	assert_int_equal(strv_index(names, 4, ""), -1);
}

static void test_join(void **state)
{
	_cleanup_strv_ struct strv sv = {0};
	char *text = strv_join(sv.v, ',');

	(void)state;
	assert_string_equal(text, "");
	free(text);
	assert_int_equal(strv_add(&sv, "a b"), 0);
	text = strv_join(sv.v, ',');
	assert_string_equal(text, "a b");
	free(text);
	assert_int_equal(strv_add(&sv, ""), 0);
	assert_int_equal(strv_add(&sv, "c"), 0);
	text = strv_join(sv.v, ',');
	assert_string_equal(text, "a b,,c");
	free(text);
}

static void test_clear(void **state)
{
	struct strv sv = {0};

	(void)state;
	strv_clear(&sv);
	assert_int_equal(strv_add(&sv, "x"), 0);
	strv_clear(&sv);
	assert_null(sv.v);
	assert_int_equal(sv.n + sv.capacity, 0);
	strv_clear(&sv);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_add),
		cmocka_unit_test(test_add_take),
		cmocka_unit_test(test_quote),
		cmocka_unit_test(test_env),
		cmocka_unit_test(test_env_put_all),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_env_unset),
		cmocka_unit_test(test_extend),
		cmocka_unit_test(test_index),
		cmocka_unit_test(test_join),
		cmocka_unit_test(test_clear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
