/* SPDX-License-Identifier: BSD-3-Clause
 *
 * libstepd's view of the step directories: which steps there are, whether somebody answers for
 * them, and which one a name means.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/lib/client_rig.h"

/* The directory of a step; free() it. */
static char *make_dir(struct rig *rig, const char *node, const char *step)
{
	_cleanup_free_ char *name = NULL;
	char *directory;

	assert_true(asprintf(&name, "%s_%s", node, step) > 0);
	directory = scratch_path(rig->runtime, name);
	assert_true(mkdir(directory, 0755) == 0 || errno == EEXIST);
	return directory;
}

static void write_state(struct rig *rig, const char *node, unsigned job, const char *step)
{
	_cleanup_free_ char *directory = NULL;
	char text[512], label[64];

	(void)snprintf(label, sizeof(label), "%u.%s", job, step);
	directory = make_dir(rig, node, label);
	(void)snprintf(text, sizeof(text),
		"{\"version\":1,\"job\":%u,\"step\":\"%s\",\"node\":\"%s\",\"uid\":1000,\"user\":"
		"\"alice\",\"state\":\"running\",\"proctrack\":\"proctrack/cgroup\","
		"\"container_id\":77,\"agent_pid\":4711,\"later\":true}",
		job, step, node);
	scratch_write(directory, "state.json", text, strlen(text), 0644);
}

static void write_result(struct rig *rig, const char *node, const char *label)
{
	_cleanup_free_ char *directory = make_dir(rig, node, label);
	char text[512];

	(void)snprintf(text, sizeof(text),
		"{\"version\":1,\"step\":\"%s\",\"node\":\"%s\",\"uid\":1001,\"user\":\"bob\","
		"\"state\":\"ended\",\"exit_code\":0,\"container\":{\"plugin\":\"proctrack/pgid\","
		"\"id\":5}}",
		label, node);
	scratch_write(directory, "result.json", text, strlen(text), 0644);
}

/* Holds the lock of a step as its agent does. */
static int lock_step(struct rig *rig, const char *node, const char *label)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	_cleanup_free_ char *directory = make_dir(rig, node, label);
	_cleanup_free_ char *path = scratch_path(directory, "lock");
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &whole), 0);
	return fd;
}

/* ---- each ---------------------------------------------------------------------------------- */

static int note_step(const struct stepd_step *step, void *userdata)
{
	char *text = userdata;

	(void)snprintf(text + strlen(text), 4096 - strlen(text), "%s/%s %u:%s %s %s %d %d %d\n",
		step->node, step->step, (unsigned)step->uid, step->user, step->state,
		step->proctrack, (int)step->container_id, (int)step->agent_pid,
		(int)step->presence);
	if (step->directory[0] != '/' ||
		strncmp(strrchr(step->directory, '/') + 1, step->node, 2) != 0)
		return -EBADF;
	return 0;
}

static void test_each(void **state)
{
	struct rig *rig = *state;
	char text[4096] = "", *line;
	int fd;

	write_state(rig, "n1", 7, "0");
	write_state(rig, "n1", 7, "batch");
	write_result(rig, "n1", "8.0");
	fd = lock_step(rig, "n1", "7.0");
	assert_int_equal(stepd_each_step(rig->runtime, note_step, text, &rig->error), 0);
	for (line = text; *line; line++)
		*line = *line == '\n' ? ';' : *line;
	assert_non_null(strstr(text, "n1/7.0 1000:alice running proctrack/cgroup 77 4711 0;"));
	assert_non_null(strstr(text, "n1/7.batch 1000:alice running proctrack/cgroup 77 4711 1;"));
	assert_non_null(strstr(text, "n1/8.0 1001:bob ended proctrack/pgid 5 0 2;"));
	assert_int_equal(close(fd), 0);
}

/* At its end an agent writes the result, and removes the state after it. */
static void test_both_files(void **state)
{
	struct rig *rig = *state;
	char text[4096] = "";
	int fd;

	write_state(rig, "n1", 7, "0");
	write_result(rig, "n1", "7.0");
	fd = lock_step(rig, "n1", "7.0");
	assert_int_equal(stepd_each_step(rig->runtime, note_step, text, &rig->error), 0);
	assert_string_equal(text, "n1/7.0 1000:alice running proctrack/cgroup 77 4711 0\n");
	assert_int_equal(close(fd), 0);
	text[0] = '\0';
	assert_int_equal(stepd_each_step(rig->runtime, note_step, text, &rig->error), 0);
	assert_string_equal(text, "n1/7.0 1001:bob ended proctrack/pgid 5 0 2\n");
}

static void test_what_is_no_step(void **state)
{
	static const char *const texts[] = {"", "{", "[]", "{\"job\":\"x\"}", "{\"step\":\"7.0\"}"};
	struct rig *rig = *state;
	_cleanup_free_ char *directory = make_dir(rig, "n1", "7.0");
	char text[4096] = "";
	size_t i;

	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		scratch_write(directory, "state.json", texts[i], strlen(texts[i]), 0644);
		scratch_write(directory, "result.json", texts[i], strlen(texts[i]), 0644);
		assert_int_equal(stepd_each_step(rig->runtime, note_step, text, &rig->error), 0);
	}
	scratch_write(rig->runtime, "n1_9.0", "{}", 2, 0644);
	assert_int_equal(stepd_each_step(rig->runtime, note_step, text, &rig->error), 0);
	assert_string_equal(text, "");
	assert_int_equal(stepd_each_step("/nonexistent", note_step, text, &rig->error), 0);
	assert_int_equal(stepd_each_step("/dev/null", note_step, text, &rig->error), -ENOTDIR);
	assert_non_null(strstr(rig->error.text, "/dev/null"));
}

static void hang_up(int fd)
{
	(void)fd;
}

/* As another user: 0 if it is as expected, in a process of its own. */
static int look_as_another(struct rig *rig, const char *expected)
{
	pid_t pid = fork();
	char text[4096] = "";
	int status = -1;

	if (pid == 0) {
		if (setresuid(65533, 65533, 65533) < 0 ||
			stepd_each_step(rig->runtime, note_step, text, NULL) < 0)
			_exit(98);
		_exit(strcmp(text, expected) != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* Who may not open the lock finds out whether somebody listens. */
static void test_as_another_user(void **state)
{
	struct rig *rig = *state;
	struct fake_agent agent;
	int fd;

	if (geteuid() != 0)
		skip();
	write_state(rig, "n1", 7, "0");
	fd = lock_step(rig, "n1", "7.0");
	agent = fake_agent_start(rig->runtime, hang_up, 0);
	assert_int_equal(
		look_as_another(rig, "n1/7.0 1000:alice running proctrack/cgroup 77 4711 0\n"), 0);
	fake_agent_stop(&agent);
	assert_int_equal(
		look_as_another(rig, "n1/7.0 1000:alice running proctrack/cgroup 77 4711 1\n"), 0);
	assert_int_equal(close(fd), 0);
}

static int stop_at_first(const struct stepd_step *step, void *userdata)
{
	(void)step;
	(*(int *)userdata)++;
	return 42;
}

static void test_stop(void **state)
{
	struct rig *rig = *state;
	int n = 0;

	write_result(rig, "n1", "7.0");
	write_result(rig, "n1", "7.1");
	assert_int_equal(stepd_each_step(rig->runtime, stop_at_first, &n, &rig->error), 42);
	assert_int_equal(n, 1);
	assert_int_equal(rig->error.code, 0);
}

/* ---- by name ------------------------------------------------------------------------------- */

static void test_find(void **state)
{
	static const struct {
		const char *name, *directory;
		int r;
	} table[] = {
		{"7.0", "n1_7.0", 0},
		{"n1/7.0", "n1_7.0", 0},
		{"7.01", "n1_7.01", 0},
		{"7.b", "n1_7.batch", 0},
		{"8", "n3_8.0", 0},
		{"n3", "n3_8.0", 0},
		{"n3/", "n3_8.0", 0},
		{"n3/8.", "n3_8.0", 0},
		{"7", NULL, -ENOTUNIQ},
		{"n1/7.", NULL, -ENOTUNIQ},
		{"9.0", NULL, -ENOTUNIQ}, /* on two nodes */
		{"n1/9.0", "n1_9.0", 0},
		{"10.0", NULL, -ENOENT},
		{"7.00", NULL, -ENOENT},
		{"1", NULL, -ENOENT}, /* not 12 */
		{"12.3", NULL, -ENOENT},
		{"n4/12.3", NULL, -ENOENT},
		{"n4/12", "n4_12.34", 0},
		{"n4/12.", "n4_12.34", 0},
		{"n", NULL, -ENOTUNIQ},
		{"h", "h10_13.0", 0},
		{"h1", NULL, -ENOENT},
		{"n3/7.0", NULL, -ENOENT},
		{"1/7.0", NULL, -ENOENT},
		{"", NULL, -EINVAL},
		{"/", NULL, -EINVAL},
		{"/7.0", NULL, -EINVAL},
		{"n1/7.0/x", NULL, -EINVAL},
		{"../n1/7.0", NULL, -EINVAL},
		{"7.0\n", NULL, -EINVAL},
		{"7 .0", NULL, -EINVAL},
		{"7.*", NULL, -EINVAL},
		{"\xc3\xa9", NULL, -EINVAL},
		{"%s%n", NULL, -EINVAL},
	};
	struct rig *rig = *state;
	size_t i;

	write_state(rig, "n1", 7, "0");
	write_state(rig, "n1", 7, "01");
	write_state(rig, "n1", 7, "batch");
	write_state(rig, "n1", 9, "0");
	write_state(rig, "n2", 9, "0");
	write_result(rig, "n3", "8.0");
	write_result(rig, "n4", "12.34");
	write_result(rig, "h10", "13.0");
	for (i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_free_ char *directory = NULL;
		int r = stepd_find_step(rig->runtime, table[i].name, &directory, &rig->error);

		if (r != table[i].r)
			fail_msg("'%s': %d, not %d", table[i].name, r, table[i].r);
		if (r == 0)
			assert_string_equal(strrchr(directory, '/') + 1, table[i].directory);
	}
}

static void test_what_else_it_could_be(void **state)
{
	struct rig *rig = *state;
	char *directory = NULL, name[400];

	write_result(rig, "n1", "7.0");
	write_result(rig, "n1", "7.1");
	assert_int_equal(stepd_find_step(rig->runtime, "7", &directory, &rig->error), -ENOTUNIQ);
	assert_non_null(strstr(rig->error.text, "n1/7.0"));
	assert_non_null(strstr(rig->error.text, "n1/7.1"));
	memset(name, '7', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(stepd_find_step(rig->runtime, name, &directory, &rig->error), -EINVAL);
	assert_int_equal(stepd_find_step(rig->runtime, "7", &directory, NULL), -ENOTUNIQ);
}

/* A step that has ended has no agent to connect to, and that is what the caller hears. */
static void test_connect_to_the_ended(void **state)
{
	struct stepd_client *client = NULL;
	struct rig *rig = *state;

	write_result(rig, "n1", "7.0");
	assert_int_equal(
		stepd_connect(rig->runtime, "7", 1000, &client, &rig->error), -ECONNREFUSED);
	assert_non_null(strstr(rig->error.text, "step n1/7.0 has ended"));
	assert_int_equal(stepd_connect(rig->runtime, "8", 1000, &client, &rig->error), -ENOENT);
}

static void test_read_result(void **state)
{
	struct rig *rig = *state;
	_cleanup_free_ char *directory = NULL, *json = NULL;

	write_result(rig, "n1", "7.0");
	directory = make_dir(rig, "n1", "7.0");
	assert_int_equal(stepd_read_result(directory, &json, &rig->error), 0);
	assert_non_null(strstr(json, "\"exit_code\":0"));
	free(directory);
	directory = make_dir(rig, "n1", "7.1");
	assert_int_equal(stepd_read_result(directory, &json, &rig->error), -ENOENT);
	assert_non_null(strstr(rig->error.text, "step n1/7.1: "));
	assert_int_equal(stepd_read_result("/nonexistent", &json, NULL), -ENOENT);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_begin, rig_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_each),
		TEST(test_both_files),
		TEST(test_what_is_no_step),
		TEST(test_as_another_user),
		TEST(test_stop),
		TEST(test_find),
		TEST(test_what_else_it_could_be),
		TEST(test_connect_to_the_ended),
		TEST(test_read_result),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
