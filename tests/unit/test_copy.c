/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Copies of what tasks write: for a reader that is fast, slow, or gone, nobody waits; and what it
 * has, with what it is told to have missed, is what was written.
 */
#include "stepd/stdio/output.h"

#include <sys/socket.h>

#include "mpi/link.h"
#include "stepd/snapshot/handover.h"
#include "tests/lib/stdio_rig.h"

struct packet {
	struct link_copy head;
	char data[LINK_COPY_MAX];
};

/* 0: nothing is there; -1: the end. */
static ssize_t take(int fd, struct packet *packet)
{
	ssize_t n = recv(fd, packet, sizeof(*packet), MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN ? 0 : -1;
	if (n == 0)
		return -1;
	assert_true((size_t)n >= sizeof(packet->head));
	return n;
}

static struct copy *make(struct rig *rig, int *ret_fd)
{
	struct copy *copy;

	assert_int_equal(copy_new(rig->loop, &rig->log, &copy), 0);
	assert_int_equal(copy_open(copy, ret_fd), 0);
	assert_true(*ret_fd >= 0);
	return copy;
}

static void test_packets(void **state)
{
	struct rig *rig = *state;
	char data[LINK_COPY_MAX + 3];
	struct packet packet;
	struct copy *copy;
	uint64_t lost = 0;
	int fd, again;

	copy = make(rig, &fd);
	assert_int_equal(copy_open(copy, &again), 0);
	assert_int_equal(again, -1);
	memset(data, 'x', sizeof(data));
	copy_put(copy, 7, LINK_STDERR, data, sizeof(data), &lost);
	copy_end(copy, 7, LINK_STDERR, lost);
	assert_int_equal(take(fd, &packet), sizeof(packet));
	assert_int_equal(packet.head.rank, 7);
	assert_int_equal(packet.head.stream, LINK_STDERR);
	assert_int_equal(packet.head.end, 0);
	assert_int_equal(packet.head.lost, 0);
	assert_int_equal(take(fd, &packet), sizeof(packet.head) + 3);
	assert_int_equal(take(fd, &packet), sizeof(packet.head));
	assert_int_equal(packet.head.end, 1);
	assert_int_equal(take(fd, &packet), 0);
	/* it is the agent that writes there, nobody else */
	assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EPIPE);
	copy_close(copy);
	assert_int_equal(take(fd, &packet), -1);
	copy_put(copy, 7, LINK_STDERR, data, sizeof(data), &lost);
	copy_end(copy, 7, LINK_STDERR, lost);
	assert_int_equal(lost, 0);
	assert_null(copy_free(copy));
	(void)close(fd);
}

/* Fills the way. Returns how much was put; *lost of it has found no space. */
static size_t fill(struct copy *copy, uint64_t *lost)
{
	char data[3000] = {0};
	size_t size = 0;

	while (*lost < 10000) {
		copy_put(copy, 1, LINK_STDOUT, data, sizeof(data), lost);
		size += sizeof(data);
		assert_true(size < 64u << 20); /* it has an end */
	}
	return size;
}

static void test_slow(void **state)
{
	struct rig *rig = *state;
	size_t put, got = 0, told = 0;
	struct packet packet;
	struct copy *copy;
	uint64_t lost = 0;
	ssize_t n;
	int fd;

	copy = make(rig, &fd);
	put = fill(copy, &lost);
	assert_int_equal(rig_log_count(rig, "is not fast enough"), 1);
	while ((n = take(fd, &packet)) > 0) {
		got += (size_t)n - sizeof(packet.head);
		assert_int_equal(packet.head.lost, 0);
	}
	assert_int_equal(got + lost, put);
	/* what comes next tells it */
	copy_put(copy, 1, LINK_STDOUT, "next", 4, &lost);
	assert_int_equal(lost, 0);
	assert_int_equal(take(fd, &packet), sizeof(packet.head) + 4);
	told = packet.head.lost;
	assert_int_equal(got + told, put);
	copy_close(copy);
	assert_int_equal(rig_log_count(rig, "were left out of the copy"), 1);
	assert_null(copy_free(copy));
	(void)close(fd);
}

/* The ends of streams wait, whatever is lost. */
static void test_ends(void **state)
{
	struct rig *rig = *state;
	struct packet packet;
	unsigned ends = 0, i;
	struct copy *copy;
	uint64_t lost = 0;
	ssize_t n;
	int fd;

	copy = make(rig, &fd);
	(void)fill(copy, &lost);
	for (i = 0; i < 1000; i++)
		copy_end(copy, i, LINK_STDOUT, i == 1 ? lost : 0);
	for (;;) {
		n = take(fd, &packet);
		assert_true(n >= 0);
		if (n > 0 && packet.head.end) {
			assert_int_equal(packet.head.rank, ends);
			assert_int_equal(packet.head.lost, ends == 1 ? lost : 0);
			if (++ends == 1000)
				break;
		}
		if (n == 0)
			(void)ev_run(rig->loop, EVRUN_ONCE);
	}
	assert_int_equal(take(fd, &packet), 0);
	assert_null(copy_free(copy));
	assert_int_equal(take(fd, &packet), -1);
	(void)close(fd);
}

static void test_dead(void **state)
{
	struct rig *rig = *state;
	struct copy *copy;
	uint64_t lost = 0;
	int fd, other;

	copy = make(rig, &fd);
	(void)fill(copy, &lost);
	copy_end(copy, 1, LINK_STDOUT, lost); /* waits */
	(void)close(fd);
	lost = 0;
	copy_put(copy, 1, LINK_STDOUT, "x", 1, &lost);
	assert_int_equal(lost, 0);
	/* and another one gets nothing of that */
	assert_int_equal(copy_open(copy, &other), 0);
	assert_true(other >= 0); /* the first one was closed */
	copy_put(copy, 1, LINK_STDOUT, "y", 1, &lost);
	assert_null(copy_free(copy));
	(void)close(other);
}

static struct handover *pass_on(struct handover *written)
{
	struct err err = ERR_INIT;
	struct handover *h = NULL;
	int fd = handover_finish(written, &err);

	assert_true(fd >= 0);
	assert_int_equal(handover_open(fd, false, &h, &err), 0);
	(void)close(fd);
	(void)handover_free(written);
	return h;
}

/* A new program in the agent's place goes on, with the ends that waited. */
static void test_handover(void **state)
{
	struct rig *rig = *state;
	struct handover *h = handover_new("1");
	struct copy *copy, *next = NULL;
	struct packet packet;
	uint64_t lost = 0;
	int fd, kept, number;
	ssize_t n;

	copy = make(rig, &fd);
	(void)fill(copy, &lost);
	copy_end(copy, 5, LINK_STDERR, 77);
	copy_save(copy, h, handover_root(h));
	h = pass_on(h);
	number = (int)json_get_int(handover_root(h), "fd", -1);
	assert_true(number >= 0);
	kept = dup(number);
	(void)copy_free(copy);
	assert_int_equal(dup2(kept, number), number);
	(void)close(kept);
	assert_int_equal(copy_restore(rig->loop, &rig->log, handover_root(h), &next), 0);
	(void)handover_free(h);
	do {
		n = take(fd, &packet);
		assert_true(n >= 0);
		if (n == 0)
			(void)ev_run(rig->loop, EVRUN_ONCE);
	} while (n == 0 || !packet.head.end);
	assert_int_equal(packet.head.rank, 5);
	assert_int_equal(packet.head.stream, LINK_STDERR);
	assert_int_equal(packet.head.lost, 77);
	copy_put(next, 5, LINK_STDOUT, "on", 2, &lost);
	assert_int_equal(take(fd, &packet), sizeof(packet.head) + 2);
	(void)copy_free(next);
	(void)close(fd);
}

/* ---- with tasks ---- */

/* All that the reader has, and how much it was told to have missed. */
static char *drain(int fd, uint32_t rank, size_t *ret_size, uint64_t *ret_lost, unsigned *ret_ends)
{
	struct packet packet;
	char *all = NULL;
	size_t size = 0;
	ssize_t n;

	*ret_lost = *ret_ends = 0;
	while ((n = take(fd, &packet)) > 0) {
		size_t more = (size_t)n - sizeof(packet.head);

		if (packet.head.rank != rank)
			continue;
		all = realloc(all, size + more + 1);
		assert_non_null(all);
		memcpy(all + size, packet.data, more);
		size += more;
		*ret_lost += packet.head.lost;
		*ret_ends += packet.head.end;
	}
	assert_int_equal(n, -1);
	*ret_size = size;
	return all;
}

static int begin(struct rig *rig, uint32_t ntasks, const uint32_t *ranks, size_t count)
{
	int fd = -1;

	rig->spec.forward = true;
	rig_layout(rig, ntasks);
	rig_capture(rig, 1, "out");
	rig_capture(rig, 2, "err");
	rig_open(rig);
	rig_fork_all(rig, rig_write_lines,
		&(struct rig_lines_arg){.least_size = 40000, .partial = true});
	assert_int_equal(stdio_copy(rig->io, ranks, count, LINK_STREAMS, &fd), 0);
	assert_true(fd >= 0);
	return fd;
}

/* Little enough to wait in the socket: all of it comes, and the output is as it was written. */
static void test_tasks(void **state)
{
	struct rig *rig = *state;
	_cleanup_free_ char *wanted = NULL, *out = NULL, *copied = NULL;
	const uint32_t ranks[] = {0};
	size_t wanted_size, size;
	uint64_t lost;
	unsigned ends;
	int fd = begin(rig, 1, ranks, 1);

	rig_run(rig);
	copied = drain(fd, 0, &size, &lost, &ends);
	(void)close(fd);
	rig_free(rig);
	rig_end_captures(rig);
	wanted = rig_lines(0, 40000, true, &wanted_size);
	assert_int_equal(size, wanted_size);
	assert_memory_equal(copied, wanted, size);
	assert_int_equal(lost, 0);
	assert_int_equal(ends, 2);
	out = rig_file(rig, "out", &size);
	assert_int_equal(size, wanted_size);
	assert_memory_equal(out, wanted, size);
}

/* A reader that takes nothing: the output is whole, and the copy has an end. */
static void test_tasks_unread(void **state)
{
	struct rig *rig = *state;
	_cleanup_free_ char *out = NULL, *copied = NULL, *wanted = NULL;
	size_t size, wanted_size, total = 0;
	uint32_t rank;
	uint64_t lost;
	unsigned ends;
	int fd = -1;

	rig->spec.forward = true;
	rig_layout(rig, 3);
	rig_capture(rig, 1, "out");
	rig_open(rig);
	rig_fork_all(rig, rig_write_lines,
		&(struct rig_lines_arg){.least_size = 3u << 20, .partial = true});
	assert_int_equal(stdio_copy(rig->io, NULL, 0, LINK_STDOUT, &fd), 0);
	rig_run(rig);
	copied = drain(fd, 1, &size, &lost, &ends);
	(void)close(fd);
	rig_free(rig);
	rig_end_captures(rig);
	for (rank = 0; rank < 3; rank++) {
		free(wanted);
		wanted = rig_lines(rank, 3u << 20, true, &wanted_size);
		total += wanted_size;
	}
	out = rig_file(rig, "out", &wanted_size);
	assert_int_equal(wanted_size, total);
	assert_true(size < 3u << 20);
	assert_int_equal(rig_log_count(rig, "were left out of the copy"), 1);
}

/* What is not carried can't be copied; what is not there has an end at once. */
static void test_tasks_none(void **state)
{
	struct rig *rig = *state;
	_cleanup_free_ char *copied = NULL;
	const uint32_t ranks[] = {0};
	size_t size;
	uint64_t lost;
	unsigned ends;
	int fd = -1;

	rig_layout(rig, 1);
	rig_capture(rig, 1, "out");
	rig_open(rig);
	assert_false(stdio_can_copy(rig->io));
	assert_int_equal(stdio_copy(rig->io, ranks, 1, LINK_STDOUT, &fd), -EOPNOTSUPP);
	assert_int_equal(fd, -1);
	rig_free(rig);
	rig_end_captures(rig);

	rig->spec.forward = true;
	rig->spec.err.mode = SPEC_STREAM_STDOUT;
	rig_layout(rig, 1);
	rig_capture(rig, 1, "out2");
	rig_open(rig);
	assert_true(stdio_can_copy(rig->io));
	rig_fork_all(rig, rig_write_lines, &(struct rig_lines_arg){.least_size = 10});
	assert_int_equal(stdio_copy(rig->io, ranks, 1, LINK_STDERR, &fd), -EOPNOTSUPP);
	assert_int_equal(fd, -1);
	assert_int_equal(stdio_copy(rig->io, ranks, 1, LINK_STREAMS, &fd), 0);
	assert_int_equal(stdio_copy(rig->io, ranks, 1, 0, &(int){-1}), 0);
	copied = drain(fd, 0, &size, &lost, &ends);
	assert_int_equal(ends, 1);
	assert_int_equal(size, 0);
	(void)close(fd);
	rig_run(rig);
	rig_free(rig);
	rig_end_captures(rig);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, rig_set_up, rig_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_packets),
		TEST(test_slow),
		TEST(test_ends),
		TEST(test_dead),
		TEST(test_handover),
		TEST(test_tasks),
		TEST(test_tasks_unread),
		TEST(test_tasks_none),
	};

	return cmocka_run_group_tests_name("copy", tests, NULL, NULL);
}
