/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/proc.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "stepd/base/cleanup.h"

static void test_parse(void **state)
{
	const struct {
		const char *text;
		int signal;
	} rows[] = {
		{"TERM", SIGTERM},
		{"SIGTERM", SIGTERM},
		{"term", SIGTERM},
		{"sigKill", SIGKILL},
		{"15", SIGTERM},
		{"1", SIGHUP},
		{"64", SIGRTMAX},
		{"CONT", SIGCONT},
		{"SYS", SIGSYS},
		{"RTMIN", SIGRTMIN},
		{"RTMAX", SIGRTMAX},
		{"rtmin+3", SIGRTMIN + 3},
		{"SIGRTMAX-1", SIGRTMAX - 1},
		{"RTMIN+0", SIGRTMIN},
		{"RTMIN+30", SIGRTMAX},
		{"RTMAX-30", SIGRTMIN},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (signals_parse(rows[i].text) != rows[i].signal)
			fail_msg("'%s' is %d", rows[i].text, signals_parse(rows[i].text));
	}
}

static void test_refused(void **state)
{
	static const char *const texts[] = {"", " ", "0", "-1", "+15", " 15", "15 ", "65", "15x",
		"99999999999999999999", "SIG", "SIGSIGTERM", "TERM ", "TERMINATE", "TER", "SIG15",
		"RTMIN+", "RTMIN+31", "RTMIN-1", "RTMIN+-1", "RTMIN++1", "RTMIN+ 1", "RTMIN+-0",
		"RTMAX+1", "RTMAX-31", "RTMAX-99999999999999999999", "RTMIN3", "RT", "EXIT", "NULL",
		"TERM\n"};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		if (signals_parse(texts[i]) != -EINVAL)
			fail_msg("'%s' is accepted as %d", texts[i], signals_parse(texts[i]));
	}
}

/* Every signal's name is read back as itself. */
static void test_names(void **state)
{
	char name[SIGNALS_NAME_SIZE];
	int i;

	(void)state;
	for (i = 1; i <= SIGRTMAX; i++) {
		assert_ptr_equal(signals_name(i, name, sizeof(name)), name);
		assert_int_equal(signals_parse(name), i);
	}
	assert_string_equal(signals_name(SIGTERM, name, sizeof(name)), "TERM");
	assert_string_equal(signals_name(SIGRTMIN + 3, name, sizeof(name)), "RTMIN+3");
	assert_string_equal(signals_name(0, name, sizeof(name)), "0");
	assert_string_equal(signals_name(1000, name, sizeof(name)), "1000");
	assert_string_equal(signals_name(SIGTERM, name, 3), "TE");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
