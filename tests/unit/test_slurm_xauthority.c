/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The file with the cookie of a display, made by a real xauth(1) as the user, and removed.
 */
#include "contrib/slurm/xauthority.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/scratch.h"

#define USER 54321
#define needs_xauth()                                                                              \
	do {                                                                                       \
		if (access("/usr/bin/xauth", X_OK) < 0)                                            \
			skip();                                                                    \
	} while (0)
#define COOKIE "00112233445566778899aabbccddeeff"

static const struct log silent = {.fd = -1};

struct rig {
	char *dir;
	struct xauthority_options options;
	size_t fds;
};

static int set_up(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	r->fds = (size_t)scratch_count_fds();
	r->dir = scratch_make();
	assert_int_equal(chmod(r->dir, 01777), 0);
	r->options = (struct xauthority_options){.uid = getuid() ? getuid() : USER,
		.gid = getuid() ? getgid() : USER,
		.directory = r->dir,
		.display = 21,
		.cookie = COOKIE};
	*state = r;
	return 0;
}

static int tear_down(void **state)
{
	struct rig *r = *state;

	assert_int_equal(scratch_count_fds(), r->fds);
	scratch_remove(r->dir);
	free(r->dir);
	free(r);
	return 0;
}

/* As the test's user. What it prints is for free(). */
static char *run_xauth(const char *path, const char *const *args)
{
	const char *argv[10] = {"xauth", "-q", "-f", path};
	char *text = calloc(1, 4096);
	int fds[2], status;
	ssize_t n = 1;
	size_t i, size = 0;
	pid_t pid;

	for (i = 0; args[i]; i++)
		argv[4 + i] = args[i];
	assert_non_null(text);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		(void)dup2(fds[1], STDOUT_FILENO);
		(void)execv("/usr/bin/xauth", (char *const *)argv);
		_exit(127);
	}
	assert_true(pid > 0);
	(void)close(fds[1]);
	while (n > 0 && size < 4095) {
		n = read(fds[0], text + size, 4095 - size);
		size += n > 0 ? (size_t)n : 0;
	}
	(void)close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return text;
}

static char *list(const char *path)
{
	static const char *const args[] = {"list", NULL};

	return run_xauth(path, args);
}

static unsigned count_files(const char *dir)
{
	_cleanup_closedir_ DIR *d = opendir(dir);
	const struct dirent *entry;
	unsigned n = 0;

	while (d && (entry = readdir(d)))
		n += entry->d_name[0] != '.' || strncmp(entry->d_name, ".Xauthority", 11) == 0;
	return n;
}

static void expect_entry(char text[static 256], unsigned display)
{
	char host[128] = "";

	assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
	(void)snprintf(text, 256, "%s/unix:%u  MIT-MAGIC-COOKIE-1  " COOKIE "\n", host, display);
}

static void test_new_file(void **state)
{
	struct rig *r = *state;
	struct xauthority *file = NULL;
	struct err err = ERR_INIT;
	struct stat st;
	char wanted[256];

	needs_xauth();
	assert_int_equal(xauthority_make(&r->options, &file, &err), 0);
	assert_int_equal(stat(xauthority_get_path(file), &st), 0);
	assert_int_equal(st.st_uid, r->options.uid);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(strncmp(xauthority_get_path(file), r->dir, strlen(r->dir)), 0);
	expect_entry(wanted, 21);
	{
		_cleanup_free_ char *text = list(xauthority_get_path(file));

		assert_string_equal(text, wanted);
	}
	(void)xauthority_remove(file, &silent);
	assert_int_equal(count_files(r->dir), 0);
}

/* Beside entries of the user's own. */
static void test_home(void **state)
{
	struct rig *r = *state;
	_cleanup_free_ char *path = scratch_path(r->dir, ".Xauthority");
	static const char *const add[] = {
		"add", "other/unix:1", "MIT-MAGIC-COOKIE-1", COOKIE, NULL};
	struct xauthority *file = NULL;
	struct err err = ERR_INIT;
	char wanted[256];

	needs_xauth();
	free(run_xauth(path, add));
	assert_int_equal(chown(path, r->options.uid, (gid_t)-1), 0);
	r->options.home = r->dir;
	r->options.directory = NULL;
	assert_int_equal(xauthority_make(&r->options, &file, &err), 0);
	assert_string_equal(xauthority_get_path(file), path);
	expect_entry(wanted, 21);
	{
		_cleanup_free_ char *text = list(path);

		assert_non_null(strstr(text, wanted));
		assert_non_null(strstr(text, "other/unix:1"));
	}
	(void)xauthority_remove(file, &silent);
	{
		_cleanup_free_ char *text = list(path);

		assert_null(strstr(text, wanted));
		assert_non_null(strstr(text, "other/unix:1"));
	}
}

static void expect_failure(struct rig *r, int wanted)
{
	struct xauthority *file = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(xauthority_make(&r->options, &file, &err), wanted);
	assert_true(err.text[0]);
	assert_int_equal(count_files(r->dir), 0);
}

/* It becomes a command of xauth's. */
static void test_cookie(void **state)
{
	static const char *const cookies[] = {NULL, "", "0g", "00\nremove x", "00 11", "-"};
	struct rig *r = *state;
	char many[1024];
	size_t i;

	needs_xauth();
	for (i = 0; i < ARRAY_SIZE(cookies); i++) {
		r->options.cookie = cookies[i];
		expect_failure(r, -EINVAL);
	}
	memset(many, '0', sizeof(many) - 1);
	many[sizeof(many) - 1] = '\0';
	r->options.cookie = many;
	expect_failure(r, -EINVAL);
	r->options.cookie = "123"; /* an odd number of digits: xauth refuses it */
	expect_failure(r, -EREMOTEIO);
}

/* A process with another file system at that directory. */
static pid_t start_inside(const char *dir)
{
	int fds[2];
	char byte = 0;
	pid_t pid;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) == 0 &&
			mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) == 0 &&
			mount("tmpfs", dir, "tmpfs", 0, NULL) == 0 && write(fds[1], &byte, 1) == 1)
			(void)pause();
		_exit(1);
	}
	(void)close(fds[1]);
	if (read(fds[0], &byte, 1) != 1) {
		(void)waitpid(pid, NULL, 0);
		pid = -1;
	}
	(void)close(fds[0]);
	return pid;
}

static void test_namespace(void **state)
{
	struct rig *r = *state;
	struct xauthority *file = NULL;
	struct err err = ERR_INIT;
	char path[64], inside[PATH_MAX];
	struct stat st;
	pid_t pid;

	needs_xauth();
	r->options.mount_namespace = "/nowhere/.ns";
	expect_failure(r, geteuid() ? -EPERM : -ENOENT);
	pid = start_inside(r->dir);
	if (pid < 0)
		skip();
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
	r->options.mount_namespace = path;
	assert_int_equal(xauthority_make(&r->options, &file, &err), 0);
	assert_int_equal(count_files(r->dir), 0);
	(void)snprintf(
		inside, sizeof(inside), "/proc/%d/root%s", (int)pid, xauthority_get_path(file));
	assert_int_equal(stat(inside, &st), 0);
	assert_int_equal(st.st_uid, r->options.uid);
	assert_true(st.st_size > 0); /* xauth was there */
	assert_null(xauthority_remove(file, &silent));
	assert_int_equal(stat(inside, &st), -1);
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_no_directory(void **state)
{
	struct rig *r = *state;

	r->options.directory = "/nonexistent/directory";
	expect_failure(r, -ENOENT);
}

/* The user's own rights count, and root's file stays as it is. */
static void test_rights(void **state)
{
	struct rig *r = *state;
	_cleanup_free_ char *home = scratch_path(r->dir, "home"),
			    *link = scratch_path(home, ".Xauthority"),
			    *target = scratch_path(r->dir, "root");
	struct xauthority *file = NULL;
	struct err err = ERR_INIT;
	struct stat st;

	needs_xauth();
	if (getuid() != 0)
		skip();
	assert_int_equal(chmod(r->dir, 0755), 0);
	expect_failure(r, -EACCES);
	assert_int_equal(chmod(r->dir, 01777), 0);
	scratch_write(r->dir, "root", "root's", 6, 0600);
	assert_int_equal(mkdir(home, 0700), 0);
	assert_int_equal(symlink(target, link), 0);
	assert_int_equal(lchown(link, USER, USER), 0);
	assert_int_equal(chown(home, USER, USER), 0);
	r->options.home = home;
	assert_int_equal(xauthority_make(&r->options, &file, &err), -EREMOTEIO);
	assert_int_equal(stat(target, &st), 0);
	assert_int_equal(st.st_size, 6);
	assert_int_equal(st.st_uid, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_new_file, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_home, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_cookie, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_namespace, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_directory, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_rights, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
