/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_set(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(err.code, 0);
	assert_string_equal(err.text, "");
	assert_int_equal(err_set(&err, -ENOENT, "open '%s'", "/x"), -ENOENT);
	assert_int_equal(err.code, -ENOENT);
	assert_string_equal(err.text, "open '/x': No such file or directory");
	assert_int_equal(err_set_text(&err, -EINVAL, "%d is too many", 7), -EINVAL);
	assert_int_equal(err.code, -EINVAL);
	assert_string_equal(err.text, "7 is too many");
}

static void test_nobody_asks(void **state)
{
	(void)state;
	assert_int_equal(err_set(NULL, -EPERM, "%s", "x"), -EPERM);
	assert_int_equal(err_set_text(NULL, -EPERM, "%s", "x"), -EPERM);
}

static void test_prefix(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	(void)err_set(&err, -EACCES, "read '%s'", "f");
	assert_int_equal(err_prefix(&err, "tasks[%d]", 3), -EACCES);
	assert_string_equal(err.text, "tasks[3]: read 'f': Permission denied");
	assert_int_equal(err_prefix(&err, "spec"), -EACCES);
	assert_string_equal(err.text, "spec: tasks[3]: read 'f': Permission denied");
}

/* What a user names must not steer the operator's terminal, nor begin a line of its own. */
static void test_control_bytes(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	(void)err_set_text(&err, -EINVAL, "'%s'", "a\nb\033[31m\177\t\001");
	assert_string_equal(err.text, "'a\\x0ab\\x1b[31m\\x7f\\x09\\x01'");
	(void)err_prefix(&err, "p\r");
	assert_string_equal(err.text, "p\\x0d: 'a\\x0ab\\x1b[31m\\x7f\\x09\\x01'");
	(void)err_set_text(
		&err, -EINVAL, "%s", "\xc3\xa4\xff"); /* UTF-8 stays, what is none does not */
	assert_string_equal(err.text, "\xc3\xa4\\xff");
	/* An escape sequence of eight bits, as UTF-8 and not; what is cut, overlong, a surrogate */
	(void)err_set_text(&err, -EINVAL, "%s",
		"\x9b"
		"31m \xc2\x9b"
		"31m");
	assert_string_equal(err.text, "\\x9b31m \\xc2\\x9b31m");
	(void)err_set_text(&err, -EINVAL, "%s", "\xe2\x82\xac \xf0\x9f\x90\xa7 \xe2\x82");
	assert_string_equal(err.text, "\xe2\x82\xac \xf0\x9f\x90\xa7 \\xe2\\x82");
	(void)err_set_text(&err, -EINVAL, "%s", "\xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80");
	assert_string_equal(err.text, "\\xc0\\xaf \\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80");
}

static void test_long_texts_are_cut(void **state)
{
	char name[4 * ERR_TEXT_SIZE];
	struct err err = ERR_INIT;
	int i;

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	(void)err_set(&err, -EIO, "%s", name);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	for (i = 0; i < 3; i++)
		assert_int_equal(err_prefix(&err, "%s", name), -EIO);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	/* each byte would take four: cut between, not within */
	memset(name, '\n', sizeof(name) - 1);
	(void)err_set_text(&err, -EIO, "%s", name);
	assert_in_range(strlen(err.text), sizeof(err.text) - 8, sizeof(err.text) - 1);
	assert_string_equal(err.text + strlen(err.text) - 4, "\\x0a");
}

/* An argument may be the old text. */
static void test_in_place(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	(void)err_set_text(&err, -EIO, "old");
	(void)err_set(&err, -EIO, "new of %s", err.text);
	assert_string_equal(err.text, "new of old: Input/output error");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set),
		cmocka_unit_test(test_nobody_asks),
		cmocka_unit_test(test_prefix),
		cmocka_unit_test(test_control_bytes),
		cmocka_unit_test(test_long_texts_are_cut),
		cmocka_unit_test(test_in_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
