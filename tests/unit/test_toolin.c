/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Standard inputs that come from tools: a piece at a time, at the pace of the task; the end; tasks
 * that read no more.
 */
#include "stepd/stdio/input.h"

#include <jansson.h>

#include "stepd/process/process.h"
#include "stepd/snapshot/handover.h"
#include "tests/lib/stdio_rig.h"

struct answers {
	int count;
	int64_t id;
	int r;
};

static void on_done(void *userdata, int64_t id, int r)
{
	struct answers *answers = userdata;

	answers->count++;
	answers->id = id;
	answers->r = r;
}

/* An input with one task, of rank 3, whose end of the pipe is *ret_fd. */
static struct toolin *make(struct rig *rig, struct answers *answers, int *ret_fd)
{
	struct toolin *in;
	int fd[2];

	*answers = (struct answers){0};
	assert_int_equal(toolin_new(rig->loop, &in), 0);
	toolin_on_done(in, on_done, answers);
	assert_int_equal(stdfd_pipe(false, fd), 0);
	assert_int_equal(toolin_add_take(in, fd[1], 3), 0);
	*ret_fd = fd[0];
	return in;
}

static size_t read_some(int fd, size_t most)
{
	static char buf[TOOLIN_SIZE];
	size_t got = 0;
	ssize_t n;

	while (got < most) {
		n = read(fd, buf, most - got < sizeof(buf) ? most - got : sizeof(buf));
		assert_true(n >= 0);
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return got;
}

static char piece[TOOLIN_SIZE];

/* As many pieces as the pipe takes, and the one that waits, of id 50. */
static size_t fill(struct toolin *in)
{
	size_t size = 0;
	int r;

	do {
		r = toolin_put(in, 3, 50, piece, sizeof(piece), false);
		assert_true(r == 0 || r == 1);
		size += sizeof(piece);
	} while (r == 1);
	return size;
}

static void test_pieces(void **state)
{
	struct answers answers;
	struct toolin *in;
	size_t size;
	char c;
	int fd;

	in = make(*state, &answers, &fd);
	assert_int_equal(toolin_put(in, 4, 1, "x", 1, false), -ESRCH);
	assert_int_equal(toolin_put(in, 3, 1, "x", 1, false), 1);
	assert_int_equal(toolin_put(in, 3, 2, NULL, 0, false), 1);
	assert_int_equal(read(fd, &c, 1), 1);
	size = fill(in);
	/* not more than that */
	assert_int_equal(toolin_put(in, 3, 51, "x", 1, false), -EBUSY);
	assert_int_equal(answers.count, 0);
	assert_int_equal(read_some(fd, sizeof(piece)), sizeof(piece));
	while (answers.count == 0)
		(void)ev_run(((struct rig *)*state)->loop, EVRUN_ONCE);
	assert_int_equal(answers.id, 50);
	assert_int_equal(answers.r, 0);
	assert_int_equal(read_some(fd, size - sizeof(piece)), size - sizeof(piece));
	assert_int_equal(toolin_put(in, 3, 52, "end", 3, true), 1);
	assert_int_equal(read_some(fd, 100), 3); /* and the end */
	assert_int_equal(toolin_put(in, 3, 53, "x", 1, false), -EPIPE);
	assert_null(toolin_free(in));
	assert_int_equal(answers.count, 1);
	(void)close(fd);
}

static void test_gone(void **state)
{
	struct answers answers;
	struct toolin *in;
	int fd;

	in = make(*state, &answers, &fd);
	(void)fill(in);
	(void)close(fd);
	while (answers.count == 0)
		(void)ev_run(((struct rig *)*state)->loop, EVRUN_ONCE);
	assert_int_equal(answers.id, 50);
	assert_int_equal(answers.r, -EPIPE);
	assert_int_equal(toolin_put(in, 3, 51, "x", 1, false), -EPIPE);
	assert_null(toolin_free(in));

	in = make(*state, &answers, &fd);
	(void)fill(in);
	assert_null(toolin_free(in)); /* who waits is told */
	assert_int_equal(answers.count, 1);
	assert_int_equal(answers.r, -EPIPE);
	(void)close(fd);
}

static void test_handover(void **state)
{
	struct rig *rig = *state;
	struct handover *h = handover_new("1"), *read_back = NULL;
	struct answers answers, after = {0};
	struct err err = ERR_INIT;
	struct toolin *in, *next = NULL;
	struct json_t *task;
	size_t size;
	int fd, memfd, kept, number;

	in = make(rig, &answers, &fd);
	size = fill(in);
	toolin_save(in, h, handover_root(h));
	memfd = handover_finish(h, &err);
	assert_true(memfd >= 0);
	(void)handover_free(h);
	assert_int_equal(handover_open(memfd, false, &read_back, &err), 0);
	(void)close(memfd);
	task = json_array_get(json_get_array(handover_root(read_back), "tasks"), 0);
	number = (int)json_get_int(task, "fd", -1);
	kept = dup(number);
	(void)toolin_free(in);
	assert_int_equal(dup2(kept, number), number);
	(void)close(kept);
	assert_int_equal(toolin_restore(rig->loop, read_back, handover_root(read_back), &next), 0);
	(void)handover_free(read_back);
	toolin_on_done(next, on_done, &after);
	assert_int_equal(toolin_put(next, 3, 51, "x", 1, false), -EBUSY);
	assert_int_equal(read_some(fd, sizeof(piece)), sizeof(piece));
	while (after.count == 0)
		(void)ev_run(rig->loop, EVRUN_ONCE);
	assert_int_equal(after.id, 50);
	assert_int_equal(after.r, 0);
	assert_int_equal(toolin_put(next, 3, 52, NULL, 0, true), 1);
	assert_int_equal(read_some(fd, size), size - sizeof(piece));
	(void)toolin_free(next);
	(void)close(fd);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, rig_set_up, rig_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_pieces),
		TEST(test_gone),
		TEST(test_handover),
	};

	return cmocka_run_group_tests_name("toolin", tests, NULL, NULL);
}
