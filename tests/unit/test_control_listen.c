/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The socket in its directory: for everybody, in the place of an old one, at a path of any length,
 * and gone at the end.
 */
#include "stepd/control/listen.h"

#include "tests/lib/control_rig.h"

static mode_t mode_of(const struct rig *rig)
{
	struct stat st;

	return fstatat(rig->dir_fd, LISTEN_NAME, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_mode;
}

static void test_for_everybody(void **state)
{
	struct rig *rig = *state;
	mode_t umask_before = umask(0177);

	rig_open(rig);
	(void)umask(umask_before);
	assert_int_equal(mode_of(rig), S_IFSOCK | 0666);
	rig->control = control_close(rig->control);
	assert_int_equal(mode_of(rig), 0);
}

static void test_in_the_place_of_another(void **state)
{
	struct rig *rig = *state;
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd;

	rig->control = control_close(rig->control);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/socket", rig->dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	(void)close(fd);
	rig_open(rig);
	rig_try(rig, "{\"method\":\"org.example.Trial.Echo\"}", "{\"parameters\":{}}");
}

/* What can't be made says so, and nothing is left. */
static void test_failures(void **state)
{
	struct rig *rig = *state;
	struct control *c = NULL;
	struct err err = ERR_INIT;
	int fds;

	rig->control = control_close(rig->control);
	fds = scratch_count_fds();
	assert_int_equal(mkdirat(rig->dir_fd, "socket", 0755), 0);
	assert_true(control_open(&rig->options, &c, &err) < 0);
	assert_non_null(strstr(err.text, "/socket'"));
	assert_int_equal(unlinkat(rig->dir_fd, "socket", AT_REMOVEDIR), 0);
	rig->options.path = "/nowhere/at/all";
	assert_int_equal(control_open(&rig->options, &c, &err), -ENOENT);
	assert_string_equal(err.text,
		"make the control socket '/nowhere/at/all/socket': No such file or directory");
	assert_null(c);
	assert_int_equal(scratch_count_fds(), fds);
}

static void try_length(struct rig *rig, size_t size)
{
	char *short_dir = rig->dir;
	const size_t at = strlen(short_dir);
	_cleanup_free_ char *dir = malloc(size + 1);
	int dir_fd = rig->dir_fd;

	assert_true(at + 2 < size);
	memcpy(dir, short_dir, at);
	memset(dir + at, 'd', size - at);
	dir[at] = '/';
	dir[size] = '\0';
	assert_int_equal(mkdir(dir, 0755), 0);
	rig->options.path = dir;
	rig->options.dir_fd = rig->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)snprintf(rig->address.sun_path, sizeof(rig->address.sun_path),
		"/proc/self/fd/%d/socket", rig->dir_fd);
	rig_open(rig);
	rig_try(rig, "{\"method\":\"org.example.Trial.Echo\"}", "{\"parameters\":{}}");
	assert_int_equal(mode_of(rig), S_IFSOCK | 0666);
	rig->control = control_close(rig->control);
	(void)close(rig->dir_fd);
	rig->dir_fd = dir_fd;
}

static void test_lengths(void **state)
{
	struct rig *rig = *state;
	size_t size;

	for (size = 95; size < 115; size++)
		try_length(rig, size);
	try_length(rig, 250);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_for_everybody, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(
			test_in_the_place_of_another, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_failures, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_lengths, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
