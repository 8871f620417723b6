/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/spec/fname.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct fname_vars vars = {
	.job_id = 1234,
	.step_name = "56",
	.rank = 7,
	.node_id = 3,
	.node_name = "n001",
	.user_name = "ada",
	.job_name = "sim",
};

static void expect(const char *pattern, const struct fname_vars *v, const char *wanted)
{
	_cleanup_free_ char *name = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(fname_expand(pattern, v, &name, &err), 0);
	assert_string_equal(name, wanted);
	assert_int_equal(fname_check(pattern, &err), 0);
	assert_string_equal(err.text, "");
}

static void test_fields(void **state)
{
	(void)state;
	expect("out", &vars, "out");
	expect("/a/%j/%J/%s/%t", &vars, "/a/1234/1234.56/56/7");
	expect("%n-%N-%u-%x-100%%", &vars, "3-n001-ada-sim-100%");
	expect("%%t%%%%", &vars, "%t%%");
}

static void test_widths(void **state)
{
	(void)state;
	expect("%4t", &vars, "0007");
	expect("%04t", &vars, "0007");
	expect("%0t", &vars, "7");
	expect("%2j", &vars, "1234");
	expect("%6j_%6J_%4s_%2n", &vars, "001234_001234.56_0056_03");
	expect("%10t", &vars, "0000000007");
	expect("%99t", &vars, "0000000007");
	expect("%99999999999999999999t", &vars, "0000000007");
	expect("%5N%5u%5x", &vars, "n001adasim");
}

static void test_step_names(void **state)
{
	struct fname_vars batch = vars;

	(void)state;
	batch.step_name = "batch";
	expect("%s", &batch, "batch");
	expect("%8s", &batch, "batch");
	expect("%8J", &batch, "00001234.batch");
}

/* A user's job name must not choose the directory. */
static void test_hostile_values(void **state)
{
	struct fname_vars v = vars;

	(void)state;
	v.job_name = "../../etc/passwd";
	expect("/d/%x", &v, "/d/.._.._etc_passwd");
	v.job_name = "..";
	expect("/d/%x/f", &v, "/d/__/f");
	v.job_name = ".";
	expect("/d/%x%x/.%x", &v, "/d/__/._");
	v.job_name = "%t%j";
	expect("%x", &v, "%t%j");
	v.job_name = NULL;
	expect("a%xb", &v, "ab");
	v.job_name = "\n\x1b[2J";
	expect("%x", &v, "\n\x1b[2J");
}

static void test_backslash(void **state)
{
	(void)state;
	expect("\\%t.%j", &vars, "%t.%j");
	expect("a\\b%t", &vars, "ab%t");
	expect("a\\\\b%q", &vars, "a\\b%q");
	expect("%t\\", &vars, "%t\\");
	assert_false(fname_per_task("\\%t"));
}

static void test_per_task(void **state)
{
	(void)state;
	assert_true(fname_per_task("%t"));
	assert_true(fname_per_task("a%j.%04t.out"));
	assert_true(fname_per_task("%%%t"));
	assert_false(fname_per_task("%%t"));
	assert_false(fname_per_task("%j.%n"));
	assert_false(fname_per_task("t"));
}

static void test_unknown(void **state)
{
	static const char *const bad[] = {
		"%", "a%", "%4", "%q", "%t%A", "%-4t", "%4%", "% t", "%T"};
	struct err err;
	char *name;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		err = (struct err)ERR_INIT;
		name = (char *)-1;
		assert_int_equal(fname_check(bad[i], &err), -EINVAL);
		assert_non_null(strstr(err.text, bad[i]));
		assert_int_equal(fname_expand(bad[i], &vars, &name, &err), -EINVAL);
		assert_ptr_equal(name, (char *)-1);
	}
	assert_int_equal(fname_check("out.%4q.txt", &err), -EINVAL);
	assert_non_null(strstr(err.text, "'%4q.txt'"));
}

static void test_lengths(void **state)
{
	char pattern[PATH_MAX + 1], value[PATH_MAX];
	struct fname_vars v = vars;
	struct err err = ERR_INIT;
	char *name = NULL;

	(void)state;
	memset(pattern, 'a', PATH_MAX);
	pattern[PATH_MAX] = '\0';
	assert_int_equal(fname_check(pattern, &err), -ENAMETOOLONG);
	pattern[PATH_MAX - 1] = '\0';
	expect(pattern, &vars, pattern);
	memset(value, 'b', PATH_MAX - 1);
	value[PATH_MAX - 1] = '\0';
	v.job_name = value;
	expect("%x", &v, value);
	assert_int_equal(fname_expand("%x%t", &v, &name, &err), -ENAMETOOLONG);
	assert_null(name);
	assert_int_equal(fname_check("", &err), -EINVAL);
	v.job_name = "";
	assert_int_equal(fname_expand("%x", &v, &name, &err), -EINVAL);
	assert_null(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_widths),
		cmocka_unit_test(test_step_names),
		cmocka_unit_test(test_hostile_values),
		cmocka_unit_test(test_backslash),
		cmocka_unit_test(test_per_task),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_lengths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
