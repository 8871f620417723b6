/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The process that holds an agent's streams: what an adopter gets from it, whom it trusts, and the
 * process's end. A child is the agent that dies.
 */
#include "stepd/stdio/hold.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "stepd/base/json.h"
#include "stepd/snapshot/handover.h"
#include "stepd/stdio/tally.h"
#include "tests/lib/scratch.h"

struct fixture {
	char *dir;
	int dir_fd;
	int source[2], dest[2]; /* pipes: a task's, and that of the output's reader */
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->dir = scratch_make();
	f->dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f->dir_fd >= 0);
	assert_int_equal(fchmod(f->dir_fd, 0755), 0);
	assert_int_equal(close(openat(f->dir_fd, "state.json", O_CREAT | O_WRONLY, 0644)), 0);
	assert_int_equal(pipe2(f->source, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(pipe2(f->dest, O_CLOEXEC | O_NONBLOCK), 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	int i;

	for (i = 0; i < 2; i++) {
		(void)close_fd(f->source[i]);
		(void)close_fd(f->dest[i]);
	}
	(void)close(f->dir_fd);
	scratch_remove(f->dir);
	free(f->dir);
	free(f);
	return 0;
}

/* As an agent's: the source's reading end, the destination's writing end. */
static void give(struct hold *hold, int source, int dest)
{
	struct handover *h = hold_document(hold);
	struct tally *tally = NULL;
	json_t *entry;

	assert_int_equal(tally_new(1, 1, NULL, &tally), 0);
	tally->sources[0].read = 7;
	entry = handover_append_object(h, handover_put_array(h, handover_root(h), "sources"));
	handover_put_int(h, entry, "stream", 1);
	handover_put_fd(h, entry, "fd", source);
	handover_put_fd(h, handover_root(h), "dest_fd", dest);
	assert_int_equal(hold_give(hold, h, tally->fd, NULL), 0);
	(void)tally_free(tally);
	(void)handover_free(h);
}

static void run_agent(struct fixture *f)
{
	struct hold *hold = NULL;
	int status = -1;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (hold_start(f->dir_fd, "7.0", &hold, NULL) < 0)
			_exit(1);
		give(hold, f->source[0], f->dest[1]);
		_exit(0); /* as if killed: the holder is told nothing */
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static bool has_ended(int fd)
{
	struct pollfd p = {.fd = fd};

	assert_int_equal(poll(&p, 1, 30000), 1);
	return p.revents & (POLLHUP | POLLERR);
}

static int take(struct fixture *f, const char *label, struct hold **ret_hold,
	struct handover **ret_h, int *ret_counts_fd)
{
	struct err err = ERR_INIT;

	return hold_take(f->dir_fd, label, ret_hold, ret_h, ret_counts_fd, &err);
}

static void test_taken(void **state)
{
	struct fixture *f = *state;
	struct handover *h = NULL;
	struct tally *tally = NULL;
	struct hold *hold = NULL;
	const json_t *source;
	int counts_fd = -1, fd;
	char text[8];

	run_agent(f);
	f->source[0] = close_fd(f->source[0]);
	f->dest[1] = close_fd(f->dest[1]);
	assert_int_equal(write(f->source[1], "hello", 5), 5); /* there is a reader still */
	assert_int_equal(take(f, "7.0", &hold, &h, &counts_fd), 0);
	source = json_array_get(json_get_array(handover_root(h), "sources"), 0);
	fd = f->source[0] = handover_get_fd(source, "fd");
	assert_int_equal(read(fd, text, sizeof(text)), 5);
	assert_memory_equal(text, "hello", 5);
	assert_int_equal(tally_open_take(counts_fd, &tally), 0);
	assert_int_equal(tally->sources[0].read - tally->sources[0].written, 7);
	f->dest[1] = handover_get_fd(handover_root(h), "dest_fd");

	/* The adopter's own take their place; what it drops is closed, too. */
	give(hold, f->source[0], f->dest[1]);
	hold_drop(hold, f->dest[1]);
	f->dest[1] = close_fd(f->dest[1]);
	assert_true(has_ended(f->dest[0]));

	(void)hold_end(hold);
	f->source[0] = close_fd(f->source[0]);
	assert_true(has_ended(f->source[1]));
	assert_int_equal(take(f, "7.0", &hold, &h, &counts_fd), -ENOENT);
	(void)tally_free(tally);
	(void)handover_free(h);
}

static void test_refused(void **state)
{
	struct fixture *f = *state;
	struct handover *h = NULL;
	struct hold *hold = NULL;
	int counts_fd;

	assert_int_equal(take(f, "7.0", &hold, &h, &counts_fd), -ENOENT);
	run_agent(f);
	assert_int_equal(take(f, "7.1", &hold, &h, &counts_fd), -EPROTO);
	assert_int_equal(fchmod(f->dir_fd, 0777), 0);
	assert_int_equal(take(f, "7.0", &hold, &h, &counts_fd), -EPERM);
	assert_int_equal(fchmod(f->dir_fd, 0755), 0);
	assert_int_equal(unlinkat(f->dir_fd, "state.json", 0), 0);
	assert_int_equal(take(f, "7.0", &hold, &h, &counts_fd), -ENOENT);

	/* Counts that an adopter is to report: it stays for that. */
	assert_int_equal(close(openat(f->dir_fd, "state.json", O_CREAT | O_WRONLY, 0644)), 0);
	f->source[1] = close_fd(f->source[1]);
	assert_int_equal(take(f, "7.0", &hold, &h, &counts_fd), 0);
	(void)hold_end(hold);
	(void)handover_free(h);
	(void)close(counts_fd);
}

/* The agent's own. */
static void test_ended(void **state)
{
	struct fixture *f = *state;
	struct hold *hold = NULL;

	assert_int_equal(hold_start(f->dir_fd, "7.0", &hold, NULL), 0);
	assert_true(hold_get_child(hold) > 0);
	give(hold, f->source[0], f->dest[1]);
	f->source[0] = close_fd(f->source[0]);
	f->dest[1] = close_fd(f->dest[1]);
	assert_int_equal(write(f->source[1], "held", 4), 4);
	(void)hold_end(hold);
	assert_true(has_ended(f->source[1]));
	assert_true(has_ended(f->dest[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_taken, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_ended, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
