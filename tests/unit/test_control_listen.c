/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The sockets in their directory: for everybody and for few, in the place of old ones, at a path of
 * any length, and gone at the end.
 */
#include "stepd/control/control_impl.h"

#include <sys/resource.h>

#include "tests/lib/control_rig.h"

static mode_t mode_of(const struct rig *rig)
{
	struct stat st;

	return fstatat(rig->dir_fd, "socket", &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_mode;
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

static void test_a_name_of_its_own(void **state)
{
	struct rig *rig = *state;
	struct err err = ERR_INIT;
	char name[300] = "queue";
	struct stat st;

	rig->options.socket_name = name;
	rig_open(rig);
	assert_int_equal(mode_of(rig), 0);
	assert_int_equal(fstatat(rig->dir_fd, "queue", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | 0666);
	assert_int_equal(fstatat(rig->dir_fd, "queue.agent", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | 0600);
	rig->control = control_close(rig->control);
	assert_int_equal(fstatat(rig->dir_fd, "queue", &st, AT_SYMLINK_NOFOLLOW), -1);
	assert_int_equal(fstatat(rig->dir_fd, "queue.agent", &st, AT_SYMLINK_NOFOLLOW), -1);
	memset(name, 'a', sizeof(name) - 1);
	assert_int_equal(control_open(&rig->options, &rig->control, &err), -ENAMETOOLONG);
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

/* ---- those for few ------------------------------------------------------------------------- */

#define OWNER    4001
#define STRANGER 4200

static void expect_file(const struct rig *rig, enum listener_kind kind, mode_t mode, uid_t uid)
{
	struct stat st;

	assert_int_equal(fstatat(rig->dir_fd, listener_names[kind], &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | mode);
	assert_int_equal(st.st_uid, uid);
}

/* Which of the sockets this user may connect to, as bits. */
static int try_sockets(struct rig *rig, int argument)
{
	int kind, fd, may = 0;

	(void)argument;
	for (kind = 0; kind < LISTENER_MAX; kind++) {
		fd = rig_child_try(rig, kind);
		if (fd < 0 && fd != -EACCES)
			return 90;
		may |= fd < 0 ? 0 : 1 << kind;
	}
	return may;
}

static void test_for_few(void **state)
{
	struct rig *rig = *state;

	if (geteuid() != 0)
		skip();
	expect_file(rig, LISTENER_AGENT, 0600, 0);
	expect_file(rig, LISTENER_OWNER, 0600, OWNER);
	expect_file(rig, LISTENER_ALL, 0666, 0);
	assert_int_equal(rig_wait(rig, rig_fork(rig, 0, 0, -1, try_sockets, 0)), 7);
	assert_int_equal(rig_wait(rig, rig_fork(rig, OWNER, OWNER, -1, try_sockets, 0)), 6);
	assert_int_equal(rig_wait(rig, rig_fork(rig, STRANGER, STRANGER, -1, try_sockets, 0)), 4);
	rig->control = control_close(rig->control);
	assert_int_equal(unlinkat(rig->dir_fd, "socket.agent", 0), -1);
	assert_int_equal(unlinkat(rig->dir_fd, "socket.owner", 0), -1);
	rig->options.owner_uid = 0; /* root's own step: the first is the owner's, too */
	rig_open(rig);
	assert_int_equal(faccessat(rig->dir_fd, "socket.owner", F_OK, 0), -1);
}

/* However many wait at the socket for all, root's own has a queue of its own. */
static void test_queue_of_its_own(void **state)
{
	static const char call[] = "{\"method\":\"org.example.Trial.Echo\"}";
	struct rig *rig = *state;
	const struct sockaddr_un all = rig->address;
	int queued[4096], n = 0, fd = -1, r = 0;

	while (r == 0 && n < (int)ARRAY_SIZE(queued)) {
		queued[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		assert_true(queued[n] >= 0);
		r = connect(queued[n++], (const struct sockaddr *)&all, sizeof(all)) < 0 ? errno
											 : 0;
	}
	assert_int_equal(r, EAGAIN); /* it is full */
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	(void)snprintf(rig->address.sun_path, sizeof(rig->address.sun_path),
		"/proc/self/fd/%d/socket.agent", rig->dir_fd);
	assert_int_equal(connect(fd, (struct sockaddr *)&rig->address, sizeof(rig->address)), 0);
	rig_send(rig, fd, call);
	rig_expect(rig, fd, "{\"parameters\":{}}");
	(void)close(fd);
	while (n > 0)
		(void)close(queued[--n]);
	rig_settle(rig);
}

static int more_descriptors(void **state)
{
	struct rlimit limit;

	(void)state;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max < 8192)
		return -1;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &limit);
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
		"make the control socket '/nowhere/at/all/socket.agent': No such file or directory");
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
		cmocka_unit_test_setup_teardown(test_a_name_of_its_own, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_for_few, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_queue_of_its_own, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_failures, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_lengths, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests(tests, more_descriptors, NULL);
}
