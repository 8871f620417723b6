/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What "stepd doctor" makes of findings: their levels, the lines for people, the document for
 * programs, and what a step would have.
 */
#include "stepd/cli/doctor/findings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <jansson.h>
#include <string.h>

#include "stepd/cli/options.h"

static void add(struct findings *fs, int level, const char *id, const char *value, const char *text,
	const char *remedy)
{
	findings_add(fs,
		&(stepd_finding_t){
			.id = id, .level = level, .value = value, .text = text, .remedy = remedy});
}

/* What is printed, the caller's to free. */
static char *print(const struct findings *fs, const char *tracker, bool quiet, bool colour)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	findings_print(fs, tracker, quiet, colour, out);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void assert_wrapped(const char *text, int indent, int width, const char *wanted)
{
	_cleanup_free_ char *got = NULL;
	size_t size;
	FILE *out = open_memstream(&got, &size);

	assert_non_null(out);
	text_wrap(out, text, indent, width);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(got, wanted);
}

static void test_wrap(_unused_ void **state)
{
	assert_wrapped("", 2, 10, "\n");
	assert_wrapped("one", 2, 10, "one\n");
	assert_wrapped("one two", 0, 7, "one two\n");
	assert_wrapped("one two", 0, 6, "one\ntwo\n");
	assert_wrapped("  one   two ", 2, 9, "one two\n");
	assert_wrapped("one two three", 2, 9, "one two\n  three\n");
	assert_wrapped(
		"a /much/too/long/for/a/line b", 1, 10, "a\n /much/too/long/for/a/line\n b\n");
	/* a letter of two bytes is one column */
	assert_wrapped("\xc3\xa4\xc3\xb6\xc3\xbc ab", 0, 6, "\xc3\xa4\xc3\xb6\xc3\xbc ab\n");
}

static void test_for_people(_unused_ void **state)
{
	_cleanup_findings_ struct findings fs = {.heading = "kernel"};
	_cleanup_free_ char *got = NULL, *quiet = NULL;

	add(&fs, STEPD_FINDING_OK, "kernel.version", "6", "Linux 6", NULL);
	add(&fs, STEPD_FINDING_NOTE, "kernel.pressure", NULL, "no pressure", "boot with psi=1");
	fs.heading = "proctrack/x";
	fs.of_plugin = true;
	add(&fs, STEPD_FINDING_WARNING, "x.limits.memory", NULL,
		"memory.max can't be limited, for a reason that is as long as a line and then some",
		"do this, which is not to be had in a few words either, but takes more of them");
	add(&fs, STEPD_FINDING_OK, "x.place", "/sys/x", "steps hang there", "");
	add(&fs, STEPD_FINDING_OK, "x.limits.cpu", "cpu.max cpu.weight", "cpu", NULL);
	add(&fs, STEPD_FINDING_OK, "x.limits.devices", "devices", "devices", NULL);
	got = print(&fs, "proctrack/x", false, false);
	assert_string_equal(got,
		"kernel\n"
		"  ok       Linux 6\n"
		"  -        no pressure\n"
		"             Remedy: boot with psi=1\n"
		"\n"
		"proctrack/x\n"
		"  warning  memory.max can't be limited, for a reason that is as long as a line\n"
		"           and then some [x.limits.memory]\n"
		"             Remedy: do this, which is not to be had in a few words either, but\n"
		"             takes more of them\n"
		"  ok       steps hang there\n"
		"  ok       cpu\n"
		"  ok       devices\n"
		"\n"
		"4 ok, 1 note, 1 warning, 0 problems\n"
		"A step started now is tracked by proctrack/x below '/sys/x', and can be limited\n"
		"in: cpu.max cpu.weight devices\n");
	quiet = print(&fs, "proctrack/x", true, false);
	assert_int_equal(strncmp(quiet, "proctrack/x\n  warning  ", 23), 0);
	assert_null(strstr(quiet, "  ok"));
	assert_non_null(strstr(quiet, "4 ok, 1 note, 1 warning"));
}

static void test_quiet_says_nothing_of_good_news(_unused_ void **state)
{
	_cleanup_findings_ struct findings fs = {.heading = "kernel"};
	_cleanup_free_ char *got = NULL;

	add(&fs, STEPD_FINDING_OK, "kernel.version", "6", "Linux 6", NULL);
	add(&fs, STEPD_FINDING_NOTE, "kernel.pressure", NULL, "no pressure", NULL);
	got = print(&fs, "proctrack/x", true, false);
	assert_string_equal(got, "");
}

static void test_colour(_unused_ void **state)
{
	_cleanup_findings_ struct findings fs = {.heading = "kernel"};
	_cleanup_free_ char *got = NULL;

	add(&fs, STEPD_FINDING_PROBLEM, "kernel.pidfd", NULL, "none", NULL);
	got = print(&fs, NULL, false, true);
	assert_string_equal(got,
		"\033[1mkernel\033[0m\n  \033[1;31mPROBLEM\033[0m  none [kernel.pidfd]\n\n0 "
		"ok, 0 notes, 0 warnings, 1 problem\nNo step can be started now: see the "
		"findings marked PROBLEM\n");
}

static void assert_member(const json_t *list, size_t i, const char *name, const char *wanted)
{
	assert_string_equal(
		json_string_value(json_object_get(json_array_get(list, i), name)), wanted);
}

/* A plugin of others may tell anything. */
static void test_what_plugins_tell(_unused_ void **state)
{
	_cleanup_findings_ struct findings fs = {.heading = "proctrack/x", .of_plugin = true};
	_cleanup_free_ char *usable = NULL, *unusable = NULL;
	json_t *all, *list;

	add(&fs, 77, "x.level", NULL, "a level that there is not", NULL);
	add(&fs, -1, NULL, NULL, NULL, NULL);
	add(&fs, STEPD_FINDING_OK, "x.text", NULL, "two\nlines\033[2J\177", "a\tb");
	all = findings_to_json(&fs, NULL, false);
	list = json_object_get(all, "findings");
	assert_int_equal(json_array_size(list), 3);
	assert_member(list, 0, "level", "warning");
	assert_member(list, 1, "level", "warning");
	assert_member(list, 1, "id", "");
	assert_member(list, 2, "text", "two lines [2J ");
	assert_member(list, 2, "remedy", "a b");
	json_decref(all);

	fs.optional = true;
	add(&fs, STEPD_FINDING_PROBLEM, "x.problem", NULL, "of a plugin that is not used", NULL);
	assert_int_equal(fs.count[STEPD_FINDING_WARNING], 3);
	assert_int_equal(fs.count[STEPD_FINDING_PROBLEM], 0);
	usable = print(&fs, "proctrack/y", false, false);
	assert_non_null(strstr(usable,
		"\nA step started now is tracked by proctrack/y, and can be limited in: nothing\n"));
	fs.optional = false;
	add(&fs, STEPD_FINDING_PROBLEM, "x.problem", NULL, "of the one that is", NULL);
	unusable = print(&fs, "proctrack/x", false, false);
	assert_non_null(strstr(unusable, "\nNo step can be started now"));
}

static void test_for_programs(_unused_ void **state)
{
	_cleanup_findings_ struct findings fs = {.heading = "kernel"};
	json_t *doc, *first, *second;

	add(&fs, STEPD_FINDING_OK, "kernel.version", "6", "Linux \xff", NULL);
	fs.heading = "proctrack/x";
	fs.of_plugin = true;
	add(&fs, STEPD_FINDING_WARNING, "x.limits.memory", "memory.max", "text", "remedy");
	doc = findings_to_json(&fs, "proctrack/x", false);
	assert_non_null(doc);
	first = json_array_get(json_object_get(doc, "findings"), 0);
	second = json_array_get(json_object_get(doc, "findings"), 1);
	assert_string_equal(json_string_value(json_object_get(first, "text")), "Linux ?");
	assert_true(json_is_null(json_object_get(first, "plugin")));
	assert_string_equal(json_string_value(json_object_get(first, "remedy")), "");
	assert_string_equal(json_string_value(json_object_get(second, "plugin")), "proctrack/x");
	assert_string_equal(json_string_value(json_object_get(second, "level")), "warning");
	assert_true(json_is_null(json_object_get(json_object_get(doc, "step"), "place")));
	assert_int_equal(
		json_array_size(json_object_get(json_object_get(doc, "step"), "limits")), 1);
	json_decref(doc);

	doc = findings_to_json(&fs, "proctrack/x", true);
	assert_non_null(doc);
	assert_int_equal(json_array_size(json_object_get(doc, "findings")), 1);
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(doc, "counts"), "ok")), 1);
	json_decref(doc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrap),
		cmocka_unit_test(test_for_people),
		cmocka_unit_test(test_quiet_says_nothing_of_good_news),
		cmocka_unit_test(test_colour),
		cmocka_unit_test(test_what_plugins_tell),
		cmocka_unit_test(test_for_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
