/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a step's user meets on the node, where a file system of the user's own does not answer: one
 * of FUSE that nobody serves, mounted in a namespace of the test's.
 */
#include "contrib/slurm/user_probe.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/lib/scratch.h"

#define NOBODY 65534

/* -1: there is no FUSE here. */
static int mount_unserved(const char *dir)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[128];

	(void)snprintf(options, sizeof(options),
		"fd=%d,rootmode=40755,user_id=%d,group_id=%d,allow_other", fd, NOBODY, NOBODY);
	if (fd >= 0 && unshare(CLONE_NEWNS) == 0 &&
		mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		mount("test", dir, "fuse", MS_NOSUID | MS_NODEV, options) == 0)
		return fd;
	return close_fd(fd);
}

static void a_file_system_that_does_not_answer_is_not_waited_for(void **state)
{
	_cleanup_free_ char *dir = scratch_make();
	char *const programs[] = {(char *)"/bin/true"};
	struct user_probe_options options = {.uid = NOBODY,
		.gid = NOBODY,
		.cwd = "/",
		.programs = programs,
		.programs_count = 1,
		.umask = 022,
		.timeout_ms = 60000};
	struct user_probe probe;
	struct err err = ERR_INIT;
	_cleanup_close_ int fuse = -1;

	(void)state;
	if (geteuid() == 0)
		fuse = mount_unserved(dir);
	if (fuse < 0) {
		scratch_remove(dir);
		skip();
	}
	assert_int_equal(user_probe_run(&options, &probe, &err), 0);
	assert_int_equal(probe.cwd_error, 0);
	assert_int_equal(probe.program_error, 0);

	options.cwd = dir;
	options.timeout_ms = 50;
	assert_int_equal(user_probe_run(&options, &probe, &err), -ETIMEDOUT);
	/* Nothing is left of it. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	assert_int_equal(umount2(dir, MNT_DETACH), 0);
	scratch_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_system_that_does_not_answer_is_not_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
