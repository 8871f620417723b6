/* SPDX-License-Identifier: BSD-3-Clause */
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "stepd/process/identity.h"
#include "stepd/spec/spec.h"

enum {
	USER = 65533,
	GROUP = 65532
};

/* The identity of a document's user, or the error. */
static int resolve(const char *json, struct identity *id, struct err *err)
{
	_cleanup_spec_ struct spec *spec = NULL;

	if (spec_from_text(json, strlen(json), &spec, err) < 0)
		fail_msg("%s", err->text);
	return identity_resolve(spec, id, err);
}

static void test_own_identity_does_not_switch(void **state)
{
	_cleanup_identity_ struct identity id = {0};
	struct err err = ERR_INIT;

	(void)state;
	if (resolve("{\"argv\": [\"x\"]}", &id, &err) < 0)
		fail_msg("%s", err.text);
	assert_false(id.switches);
	assert_int_equal(id.uid, geteuid());
	assert_int_equal(id.gid, getegid());
	assert_int_equal(identity_become(&id), 0);
}

static void test_who_is_not_root_stays_who_they_are(void **state)
{
	_cleanup_identity_ struct identity id = {0};
	struct err err = ERR_INIT;
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	pid = fork();
	if (pid == 0) {
		if (setgroups(0, NULL) < 0 || setgid(GROUP) < 0 || setuid(USER) < 0)
			_exit(2);
		_exit(resolve("{\"argv\": [\"x\"], \"uid\": 0}", &id, &err) == -EPERM ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void run_as_root(int (*fn)(void))
{
	int status;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	pid = fork();
	if (pid == 0)
		_exit(fn());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip(); /* it may not set them */
	assert_int_equal(status, 0);
}

/* In a child: what is assumed is taken back to the last group, and what became stays. */
static int assume_restore_become(void)
{
	static const gid_t groups[] = {7, 8, 9};
	struct identity id = {0};
	struct err err = ERR_INIT;
	gid_t now[8];
	int n;

	if (setgroups(3, groups) < 0 || setresgid(5, 5, 5) < 0)
		return 10;
	if (resolve("{\"argv\": [\"x\"], \"uid\": 65533, \"gid\": 65532, \"groups\": [11, 12]}",
		    &id, &err) < 0 ||
		!id.switches || identity_assume(&id, &err) < 0)
		return 11;
	n = getgroups(8, now);
	if (geteuid() != USER || getuid() != 0 || getegid() != GROUP || n != 2 || now[0] != 11)
		return 12;
	identity_restore(&id);
	n = getgroups(8, now);
	if (geteuid() != 0 || getegid() != 5 || n != 3 || memcmp(now, groups, sizeof(groups)) != 0)
		return 13;
	if (identity_become(&id) < 0)
		return 14;
	if (getuid() != USER || geteuid() != USER || getgid() != GROUP || setuid(0) == 0)
		return 15;
	identity_clear(&id);
	return 0;
}

static void test_assume_restore_become(void **state)
{
	(void)state;
	run_as_root(assume_restore_become);
}

static uint32_t effective_caps(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {0};

	return syscall(SYS_capget, &header, caps) < 0 ? ~0u : caps[0].effective | caps[1].effective;
}

/* In a child: the kernel takes nothing from it when its ids change. */
static int without_fixup(void)
{
	struct identity id = {0};
	struct err err = ERR_INIT;

	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0)
		return 77;
	if (resolve("{\"argv\": [\"x\"], \"uid\": 65533, \"gid\": 65532}", &id, &err) < 0 ||
		prctl(PR_GET_SECUREBITS) != 0)
		return 10;
	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0)
		return 11;
	if (identity_assume(&id, &err) < 0 || effective_caps() != 0)
		return 12;
	identity_restore(&id);
	if (effective_caps() == 0)
		return 13;
	if (identity_become(&id) < 0 || effective_caps() != 0 || setuid(0) == 0)
		return 14;
	identity_clear(&id);
	return 0;
}

static int locked_without_fixup(void)
{
	struct identity id = {0};
	struct err err = ERR_INIT;

	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED) < 0)
		return 77;
	if (resolve("{\"argv\": [\"x\"]}", &id, &err) < 0)
		return 10;
	identity_clear(&id);
	if (resolve("{\"argv\": [\"x\"], \"uid\": 65533, \"gid\": 65532}", &id, &err) != -EPERM ||
		!strstr(err.text, "securebits"))
		return 11;
	return 0;
}

static void test_securebits_leave_no_capability(void **state)
{
	(void)state;
	run_as_root(without_fixup);
}

static void test_locked_securebits_are_refused(void **state)
{
	(void)state;
	run_as_root(locked_without_fixup);
}

static void test_unknown_names(void **state)
{
	static const struct {
		const char *json, *named;
	} cases[] = {
		{"{\"argv\": [\"x\"], \"uid\": \"no-such-user\"}", "no-such-user"},
		{"{\"argv\": [\"x\"], \"gid\": \"no-such-group\"}", "no-such-group"},
		{"{\"argv\": [\"x\"], \"groups\": [\"0\", \"no-such-group\"]}", "groups[1]"},
		{"{\"argv\": [\"x\"], \"uid\": 4294900000}", "gid"},
	};
	struct identity id = {0};
	struct err err;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		err = (struct err)ERR_INIT;
		assert_true(resolve(cases[i].json, &id, &err) < 0);
		if (!strstr(err.text, cases[i].named))
			fail_msg("'%s' does not name %s", err.text, cases[i].named);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_identity_does_not_switch),
		cmocka_unit_test(test_who_is_not_root_stays_who_they_are),
		cmocka_unit_test(test_assume_restore_become),
		cmocka_unit_test(test_securebits_leave_no_capability),
		cmocka_unit_test(test_locked_securebits_are_refused),
		cmocka_unit_test(test_unknown_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
