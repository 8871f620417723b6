/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stepd/base/err.h"
#include "stepd/cli/across/launch.h"

static struct launcher make(const char *text)
{
	struct launcher l = {.program = "/opt/st epd"};

	assert_int_equal(launcher_parse(text, &l), 0);
	return l;
}

/* words: joined by "|" */
static void commands(const struct launcher *l, uint32_t index, const char *host, const char *words)
{
	_cleanup_strv_ struct strv argv = {0};
	char all[1024] = "";
	size_t i, used = 0;

	assert_int_equal(launcher_command(l, index, host, "n[1-2]", 2, &argv), 0);
	for (i = 0; i < argv.n; i++)
		used += (size_t)snprintf(
			all + used, sizeof(all) - used, "%s%s", i ? "|" : "", argv.v[i]);
	assert_string_equal(all, words);
}

static void test_kinds(void **state)
{
	static const char *const wrong[] = {"", "ssh2", "loca", "local:", "slurm:x", "exec",
		"exec:", "exec:prog %h", "EXEC:%c", ":%c"};
	struct launcher l = {0};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(launcher_parse(wrong[i], &l), -EINVAL);
	assert_false(make("ssh:-p 2").at_once);
	assert_true(make("slurm").at_once);
	assert_false(make("exec:on %h %c").at_once);
	assert_true(make("exec:on %H %c").at_once);
	assert_true(make("exec:on %N %q").at_once);
	assert_false(make("exec:on %%N %c").at_once);
}

static void test_commands(void **state)
{
	struct launcher l = make("local");

	(void)state;
	commands(&l, 1, "n2", "/opt/st epd|relay|--index=1|--node=n2");
	l = make("ssh:-p  22");
	commands(&l, 0, "n1",
		"ssh|-T|-x|-o|BatchMode=yes|-p|22|--|n1|exec '/opt/st epd' relay --index=0 --node=n1");
	l = make("exec:on %h %n %% %x %q");
	commands(&l, 0, "n1",
		"/bin/sh|-c|on n1 0 % %x ''\\''/opt/st epd'\\'' relay --index=0 --node=n1'");
	l = make("exec:all %H %N %c %");
	l.ifname = "ib0;x";
	commands(&l, 0, "n1", "/bin/sh|-c|all 'n[1-2]' 2 '/opt/st epd' relay '--ifname=ib0;x' %");
	l = make("exec:on %h %c");
	commands(&l, 0, "a b;c",
		"/bin/sh|-c|on 'a b;c' '/opt/st epd' relay --index=0 '--node=a b;c'");
}

static void test_srun(void **state)
{
	_cleanup_strv_ struct strv argv = {0};
	struct launcher l = make("slurm");

	(void)state;
	assert_int_equal(launcher_command(&l, 0, "n1", "n[1-2]", 2, &argv), 0);
	assert_string_equal(argv.v[0], "srun");
	assert_string_equal(argv.v[argv.n - 1], "--index-from=SLURM_PROCID");
	assert_string_equal(argv.v[argv.n - 2], "relay");
	assert_string_equal(argv.v[argv.n - 5], "--nodelist=n[1-2]");
	assert_string_equal(argv.v[argv.n - 6], "--ntasks=2");
}

static void test_no_program(void **state)
{
	char *argv[] = {(char *)"/nonexistent/launcher", NULL};
	struct launched launched;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(launch(argv, &launched, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/nonexistent/launcher"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_commands),
		cmocka_unit_test(test_srun),
		cmocka_unit_test(test_no_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
