/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <jansson.h>

#include "stepd/cli/run/multi_prog.h"

/* Entries are compared with ' for ". */
static void good_with(const char *text, uint32_t ntasks, char *const *extra, const char *wanted)
{
	json_t *tasks = NULL;
	struct err err = ERR_INIT;
	char *got, *p;

	if (multi_prog_parse(text, ntasks, extra, &tasks, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	got = json_dumps(tasks, JSON_COMPACT);
	assert_non_null(got);
	for (p = got; (p = strchr(p, '"')); p++)
		*p = '\'';
	if (strcmp(got, wanted) != 0)
		fail_msg("%s:\n  got:    %s\n  wanted: %s", text, got, wanted);
	free(got);
	json_decref(tasks);
}

static void good(const char *text, uint32_t ntasks, const char *wanted)
{
	good_with(text, ntasks, NULL, wanted);
}

static void bad(const char *text, uint32_t ntasks, const char *wanted)
{
	json_t *tasks = NULL;
	struct err err = ERR_INIT;
	int r = multi_prog_parse(text, ntasks, NULL, &tasks, &err);

	if (r >= 0)
		fail_msg("%s: was taken", text);
	if (strcmp(err.text, wanted) != 0)
		fail_msg("%s:\n  got:    %s\n  wanted: %s", text, err.text, wanted);
	assert_null(tasks);
}

static void test_lines(void **state)
{
	(void)state;
	good("0 a\n1 b c\n", 2, "[{'ranks':'0','argv':['a']},{'ranks':'1','argv':['b','c']}]");
	good("# who runs what\n\n  # indented\n0-2,4\t/bin/x  y \r\n3 z", 5,
		"[{'ranks':'0-2,4','argv':['/bin/x','y']},{'ranks':'3','argv':['z']}]");
	good("0 a#b #c", 1, "[{'ranks':'0','argv':['a#b','#c']}]");
}

static void test_rest(void **state)
{
	(void)state;
	good("* a", 4, "[{'ranks':'0-3','argv':['a']}]");
	good("1,4 a\n* b\n\n# nothing more\n", 8,
		"[{'ranks':'1,4','argv':['a']},{'ranks':'0,2-3,5-7','argv':['b']}]");
	good("0-1 a\n* b\n", 2, "[{'ranks':'0-1','argv':['a']}]"); /* nobody is left */
}

static void test_marks(void **state)
{
	(void)state;
	good("2,0-1 a %t:%o %%t %x", 3,
		"[{'rank':2,'argv':['a','2:0','%2','%x']},{'rank':0,'argv':['a','0:1','%0','%x']},"
		"{'rank':1,'argv':['a','1:2','%1','%x']}]");
	good("1 a\n* b%o", 3,
		"[{'ranks':'1','argv':['a']},{'rank':0,'argv':['b0']},{'rank':2,'argv':['b2']}]");
	good("0 a '%t' \"%t\" \\%t %", 1, "[{'rank':0,'argv':['a','%t','0','%t','%']}]");
}

static void test_quotes(void **state)
{
	(void)state;
	good("0 'a b' \"c 'd\" e\\ f '' \"\" g'h'\"i\"", 1,
		"[{'ranks':'0','argv':['a b','c 'd','e f','','','ghi']}]");
	good("0 a \\\\ '\\' \\'x", 1, "[{'ranks':'0','argv':['a','\\\\','\\\\',''x']}]");
	good("0 a \\\n  b \\\n c\n1 d", 2,
		"[{'ranks':'0','argv':['a','b','c']},{'ranks':'1','argv':['d']}]");
}

static void test_extra_arguments(void **state)
{
	char more[] = "more", latin[] = "%t \xe4";
	char *extra[] = {more, NULL}, *bytes[] = {latin, NULL};
	json_t *tasks = NULL, *argv;
	struct err err = ERR_INIT;

	(void)state;
	good_with("0 a b\n1 c %t", 2, extra,
		"[{'ranks':'0','argv':['a','b','more']},{'rank':1,'argv':['c','1','more']}]");
	/* Not UTF-8, and nothing of it is replaced. */
	assert_int_equal(multi_prog_parse("0 a", 1, bytes, &tasks, &err), 0);
	argv = json_object_get(json_array_get(tasks, 0), "argv");
	assert_string_equal(json_string_value(json_array_get(argv, 1)), "%t \xe4");
	json_decref(tasks);
}

static void test_errors(void **state)
{
	(void)state;
	bad("", 1, "rank 0 has no program (there are 1 tasks)");
	bad("0 a\n2 b", 3, "rank 1 has no program (there are 3 tasks)");
	bad("0 a\n\n0-1 b", 2, "line 3: rank 0 has a program already");
	bad("0,0 a", 1, "line 1: rank 0 has a program already");
	bad("0 a \\\n b\n7 c", 2,
		"line 3: '7' holds a rank that is not below 2, the number of tasks");
	bad("x a", 2, "line 1: 'x' is not a list of ranks such as \"0-3,8\" or \"*\"");
	bad("4-0 a", 5, "line 1: '4-0' is not a list of ranks such as \"0-3,8\" or \"*\"");
	bad("0", 1, "line 1: there is no program behind '0'");
	bad("0   \n", 1, "line 1: there is no program behind '0'");
	bad("0 'a", 1, "line 1: a quote is not closed");
	bad("* a\n0 b", 2, "line 2: the line with '*' must be the last");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_rest),
		cmocka_unit_test(test_marks),
		cmocka_unit_test(test_quotes),
		cmocka_unit_test(test_extra_arguments),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
