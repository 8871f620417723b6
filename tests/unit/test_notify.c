/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What is told to a service manager, by a socket of the test's own, and to the journal.
 */
#include "systemd/systemd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tests/lib/scratch.h"

/* Listens at that address, '@' for the abstract name space; sets NOTIFY_SOCKET. */
static int listen_at(const char *address)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(sa.sun_path, address, strlen(address));
	if (address[0] == '@')
		sa.sun_path[0] = '\0';
	assert_int_equal(
		bind(fd, (struct sockaddr *)&sa,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(address))),
		0);
	(void)setenv("NOTIFY_SOCKET", address, 1);
	return fd;
}

static void expect(int fd, const char *want)
{
	char text[256];
	ssize_t n = recv(fd, text, sizeof(text) - 1, 0);

	assert_true(n > 0);
	text[n] = '\0';
	assert_string_equal(text, want);
}

static void test_it_arrives(_unused_ void **state)
{
	char path[64], abstract[64];
	int fds = scratch_count_fds(), fd;

	(void)snprintf(path, sizeof(path), "/tmp/stepd-test-notify-%d", (int)getpid());
	(void)snprintf(abstract, sizeof(abstract), "@stepd-test-notify-%d", (int)getpid());
	(void)unlink(path);
	fd = listen_at(path);
	assert_true(notify_is_wanted());
	assert_int_equal(notify_send("READY=1\nSTATUS=step %s\n", "7.0"), 0);
	expect(fd, "READY=1\nSTATUS=step 7.0\n");
	(void)close(fd);
	assert_int_equal(notify_send("STOPPING=1"), -ECONNREFUSED);
	(void)unlink(path);
	assert_int_equal(notify_send("STOPPING=1"), -ENOENT);
	fd = listen_at(abstract);
	assert_int_equal(notify_send("STOPPING=1"), 0);
	expect(fd, "STOPPING=1");
	(void)close(fd);
	assert_int_equal(scratch_count_fds(), fds);
}

static void test_nobody_wants_it(_unused_ void **state)
{
	static const char *const addresses[] = {"", "/", "@", "vsock:2:7", "relative"};
	char longer[200];
	size_t i;

	(void)unsetenv("NOTIFY_SOCKET");
	assert_false(notify_is_wanted());
	assert_int_equal(notify_send("READY=1"), 0);
	for (i = 0; i < ARRAY_SIZE(addresses); i++) {
		(void)setenv("NOTIFY_SOCKET", addresses[i], 1);
		assert_false(notify_is_wanted());
		assert_int_equal(notify_send("READY=1"), 0);
	}
	memset(longer, 'x', sizeof(longer) - 1);
	longer[0] = '/';
	longer[sizeof(longer) - 1] = '\0';
	(void)setenv("NOTIFY_SOCKET", longer, 1);
	assert_int_equal(notify_send("READY=1"), -ENAMETOOLONG);
}

/* A manager that reads nothing holds nobody up. */
static void test_a_full_queue(_unused_ void **state)
{
	char address[64];
	int fd, r, sent = 0;

	(void)snprintf(address, sizeof(address), "@stepd-test-full-%d", (int)getpid());
	fd = listen_at(address);
	while ((r = notify_send("STATUS=%d", sent)) == 0)
		assert_true(++sent < 1000000);
	assert_int_equal(r, -EAGAIN);
	assert_true(sent > 0);
	expect(fd, "STATUS=0");
	assert_int_equal(notify_send("STATUS=again"), 0);
	(void)close(fd);
}

static void test_a_stream_to_the_journal(_unused_ void **state)
{
	int fd = memfd_create("stream", MFD_CLOEXEC);
	char text[64];
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	(void)unsetenv("JOURNAL_STREAM");
	assert_false(journal_has_stream(fd));
	(void)snprintf(text, sizeof(text), "%llu:%llu", (unsigned long long)st.st_dev,
		(unsigned long long)st.st_ino);
	(void)setenv("JOURNAL_STREAM", text, 1);
	assert_true(journal_has_stream(fd));
	assert_false(journal_has_stream(-1));
	(void)setenv("JOURNAL_STREAM", "0:0", 1); /* redirected since */
	assert_false(journal_has_stream(fd));
	(void)close(fd);
}

/* Nobody writes a field by a name with a newline. */
static void test_a_line_is_one_field(_unused_ void **state)
{
	static const struct journal_line text = {.text = "a\nSTEPD_STEP=8.0"};
	static const struct journal_line step = {.step = "7.0\n_UID=0", .text = "a"};

	assert_int_equal(journal_send(&text), -EINVAL);
	assert_int_equal(journal_send(&step), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_arrives),
		cmocka_unit_test(test_nobody_wants_it),
		cmocka_unit_test(test_a_full_queue),
		cmocka_unit_test(test_a_stream_to_the_journal),
		cmocka_unit_test(test_a_line_is_one_field),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
