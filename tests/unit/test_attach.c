/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Clients attached to the tasks' streams: what a client has, with what it is told to lack, is what
 * was written; nobody waits for one; input reaches the chosen ranks; and all of it over a re-exec.
 */
#include "stepd/stdio/attach.h"

#include <jansson.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "stepd/snapshot/handover.h"
#include "stepd/stdio/attach_wire.h"
#include "stepd/stdio/ring.h"
#include "tests/lib/stdio_rig.h"

#define RING 8192u

/* ---- the ring ------------------------------------------------------------------------------ */

static void fill(char *bytes, size_t size, uint64_t offset)
{
	size_t i;

	for (i = 0; i < size; i++)
		bytes[i] = (char)((offset + i) * 7 % 251);
}

static void expect(const struct iovec *iov, uint64_t offset)
{
	const char *p;
	size_t i, k;

	for (k = 0; k < 2; k++) {
		p = iov[k].iov_base;
		for (i = 0; i < iov[k].iov_len; i++, offset++)
			assert_int_equal(p[i], (char)(offset * 7 % 251));
	}
}

static void test_ring(void **state)
{
	static const size_t sizes[] = {1, 7, 4095, 4096, 4097, 3, 12000, 4096, 50};
	_cleanup_ring_ struct ring ring = {.size = 4096};
	struct iovec iov[2];
	char bytes[12000];
	size_t i, n;

	(void)state;
	assert_int_equal(ring_get(&ring, 0, 10, iov), 0);
	assert_null(ring.data);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		fill(bytes, sizes[i], ring.end);
		ring_put(&ring, bytes, sizes[i]);
		n = (size_t)(ring.end - ring.begin);
		assert_int_equal(n, ring.end < 4096 ? ring.end : 4096);
		assert_int_equal(ring_get(&ring, ring.begin, SIZE_MAX, iov), n);
		assert_int_equal(iov[0].iov_len + iov[1].iov_len, n);
		expect(iov, ring.begin);
		assert_int_equal(ring_get(&ring, ring.end - 1, 100, iov), 1);
		assert_int_equal(ring_get(&ring, ring.begin, 1, iov), 1);
		expect(iov, ring.begin);
	}
}

/* ---- clients ------------------------------------------------------------------------------- */

/* The tasks' inputs are pipes, or a terminal. */
struct scene {
	struct rig *rig;
	struct attach *attach;
	struct attach_stream *out[2], *err[2];
	int input[2]; /* written to */
	int task[2];  /* read from */
	unsigned ended, no_window, done;
};

static int scene_find(uint32_t rank, void *userdata)
{
	const struct scene *s = userdata;

	return s->input[rank];
}

static void scene_end(uint32_t rank, void *userdata)
{
	((struct scene *)userdata)->ended |= 1u << rank;
}

static void scene_no_window(void *userdata)
{
	((struct scene *)userdata)->no_window++;
}

static void scene_done(void *userdata)
{
	((struct scene *)userdata)->done++;
}

static struct attach_inputs scene_functions(struct scene *s)
{
	return (struct attach_inputs){
		.find = scene_find, .end = scene_end, .no_window = scene_no_window, .userdata = s};
}

static void scene_streams(struct scene *s)
{
	uint32_t i;

	for (i = 0; i < 2; i++) {
		s->out[i] = attach_add_stream(s->attach, i, STDOUT_FILENO);
		s->err[i] = attach_add_stream(s->attach, i, STDERR_FILENO);
		assert_non_null(s->out[i]);
		assert_non_null(s->err[i]);
	}
}

static void scene_begin_with(struct scene *s, struct rig *rig, size_t ring_size)
{
	const struct attach_inputs functions = scene_functions(s);
	uint32_t i;
	int fd[2];

	*s = (struct scene){.rig = rig};
	assert_int_equal(attach_new(rig->loop, &rig->log, ring_size, &functions, &s->attach), 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(pipe2(fd, O_CLOEXEC | O_NONBLOCK), 0);
		s->task[i] = fd[0];
		s->input[i] = fd[1];
		assert_int_equal(attach_add_input(s->attach, i, false, true), 0);
	}
	scene_streams(s);
}

static void scene_begin(struct scene *s, struct rig *rig)
{
	scene_begin_with(s, rig, RING);
}

static void scene_close(struct scene *s)
{
	uint32_t i;

	s->attach = attach_free(s->attach);
	for (i = 0; i < 2; i++) {
		s->task[i] = close_fd(s->task[i]);
		s->input[i] = close_fd(s->input[i]);
	}
}

/* A client of all output, as choice has it otherwise. */
static int scene_client(struct scene *s, struct attach_choice choice)
{
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
	if (!choice.streams)
		choice.streams = 1u << STDOUT_FILENO | 1u << STDERR_FILENO;
	assert_int_equal(attach_client_take(s->attach, fd[0], &choice), 0);
	return fd[1];
}

static void run_loop(struct scene *s)
{
	int i;

	for (i = 0; i < 20; i++)
		ev_run(s->rig->loop, EVRUN_NOWAIT);
}

struct record {
	struct attach_head head;
	char body[ATTACH_DATA_MAX];
};

static bool take_bytes(struct scene *s, int fd, void *to, size_t size)
{
	size_t at = 0;
	ssize_t n;

	while (at < size) {
		n = recv(fd, (char *)to + at, size - at, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && at == 0))
			return false;
		if (n < 0)
			run_loop(s); /* the rest of a record */
		else
			at += (size_t)n;
	}
	return true;
}

/* False: there is none now, or none any more. */
static bool take(struct scene *s, int fd, struct record *r)
{
	if (!take_bytes(s, fd, &r->head, sizeof(r->head)))
		return false;
	assert_true(r->head.size <= ATTACH_DATA_MAX);
	assert_true(r->head.size == 0 || take_bytes(s, fd, r->body, r->head.size));
	return true;
}

static void expect_data(struct scene *s, int fd, uint32_t rank, int stream, const char *text)
{
	struct record r;

	assert_true(take(s, fd, &r));
	assert_int_equal(r.head.kind, ATTACH_DATA);
	assert_int_equal(r.head.rank, rank);
	assert_int_equal(r.head.stream, stream);
	assert_int_equal(r.head.size, strlen(text));
	assert_memory_equal(r.body, text, r.head.size);
}

static void expect_kind(struct scene *s, int fd, enum attach_kind kind)
{
	struct record r;

	assert_true(take(s, fd, &r));
	assert_int_equal(r.head.kind, kind);
}

static void expect_nothing(struct scene *s, int fd)
{
	struct record r;

	assert_false(take(s, fd, &r));
}

static void put(struct attach_stream *stream, const char *text)
{
	attach_put(stream, text, strlen(text));
}

static void test_choices(void **state)
{
	const uint32_t one[] = {1};
	struct scene s;
	int all, rank, errors, tail, since, later;

	scene_begin(&s, *state);
	put(s.out[0], "before");
	all = scene_client(&s, (struct attach_choice){0});
	rank = scene_client(&s, (struct attach_choice){.ranks = one, .ranks_count = 1});
	errors = scene_client(&s, (struct attach_choice){.streams = 1u << STDERR_FILENO});
	tail = scene_client(&s, (struct attach_choice){.from = ATTACH_FROM_TAIL});
	since = scene_client(&s, (struct attach_choice){.from = ATTACH_FROM_OFFSET, .offset = 4});
	later = scene_client(&s, (struct attach_choice){.from = ATTACH_FROM_OFFSET, .offset = 8});
	put(s.out[0], "now");
	put(s.err[1], "error");
	expect_data(&s, all, 0, STDOUT_FILENO, "now");
	expect_data(&s, all, 1, STDERR_FILENO, "error");
	expect_data(&s, rank, 1, STDERR_FILENO, "error");
	expect_data(&s, errors, 1, STDERR_FILENO, "error");
	expect_data(&s, tail, 0, STDOUT_FILENO, "before");
	expect_data(&s, tail, 0, STDOUT_FILENO, "now");
	expect_data(&s, since, 0, STDOUT_FILENO, "re");
	expect_data(&s, later, 0, STDOUT_FILENO, "w");
	expect_nothing(&s, rank);
	expect_nothing(&s, errors);
	scene_close(&s);
	expect_nothing(&s, all); /* it has ended */
	(void)close(all);
	(void)close(rank);
	(void)close(errors);
	(void)close(tail);
	(void)close(since);
	(void)close(later);
}

/* A task that joins, and the ends. */
static void test_ends(void **state)
{
	struct attach_stream *joined;
	struct scene s;
	struct record r;
	int all, i;

	scene_begin(&s, *state);
	all = scene_client(&s, (struct attach_choice){0});
	joined = attach_add_stream(s.attach, 7, STDOUT_FILENO);
	put(joined, "joined");
	expect_data(&s, all, 7, STDOUT_FILENO, "joined");
	attach_end(s.out[0]);
	assert_true(take(&s, all, &r));
	assert_int_equal(r.head.kind, ATTACH_END);
	assert_int_equal(r.head.rank, 0);
	attach_finish(s.attach, scene_done, &s);
	assert_int_equal(s.done, 1);
	for (i = 0; i < 4; i++)
		expect_kind(&s, all, ATTACH_END);
	expect_kind(&s, all, ATTACH_FINISHED);
	expect_nothing(&s, all);
	assert_int_equal(recv(all, &r, sizeof(r), MSG_DONTWAIT), 0);
	(void)close(all);
	scene_close(&s);
}

/* What the client has got and lacks is checked by the offsets. Returns how much it lacks. */
static uint64_t take_stream(struct scene *s, int fd, uint64_t *next)
{
	uint64_t lost = 0;
	struct record r;
	size_t i;

	while (take(s, fd, &r)) {
		if (r.head.kind == ATTACH_LOST) {
			assert_int_equal(*next + r.head.count, r.head.offset);
			*next = r.head.offset;
			lost += r.head.count;
			continue;
		}
		assert_int_equal(r.head.kind, ATTACH_DATA);
		assert_int_equal(r.head.offset, *next);
		for (i = 0; i < r.head.size; i++)
			assert_int_equal(r.body[i], (char)((*next + i) * 7 % 251));
		*next += r.head.size;
		run_loop(s);
	}
	return lost;
}

static void test_slow(void **state)
{
	uint64_t put_bytes = 0, slow_next = 0, fast_next = 0, lost;
	char bytes[5000];
	struct scene s;
	int slow, fast, i;

	scene_begin(&s, *state);
	slow = scene_client(&s, (struct attach_choice){0});
	fast = scene_client(&s, (struct attach_choice){0});
	for (i = 0; i < 400; i++) {
		fill(bytes, sizeof(bytes), put_bytes);
		attach_put(s.out[0], bytes, sizeof(bytes));
		put_bytes += sizeof(bytes);
		assert_int_equal(take_stream(&s, fast, &fast_next), 0);
	}
	assert_int_equal(fast_next, put_bytes);
	lost = take_stream(&s, slow, &slow_next);
	run_loop(&s);
	lost += take_stream(&s, slow, &slow_next);
	assert_int_equal(slow_next, put_bytes);
	assert_true(lost > 0);
	(void)close(slow);
	(void)close(fast);
	run_loop(&s);
	assert_int_equal(attach_admit(s.attach, 1), 0);
	scene_close(&s);
}

/* Reads to the end. Returns whether the last record was there. */
static bool has_finished(struct scene *s, int fd)
{
	bool finished = false;
	struct record r;

	while (take(s, fd, &r))
		finished = r.head.kind == ATTACH_FINISHED;
	return finished;
}

/* At the end the kernel has what a client has not read. */
static void test_late_end(void **state)
{
	char bytes[5000] = {0};
	struct scene s;
	int fd, i;

	scene_begin(&s, *state);
	fd = scene_client(&s, (struct attach_choice){0});
	for (i = 0; i < 200; i++)
		attach_put(s.out[0], bytes, sizeof(bytes));
	attach_finish(s.attach, scene_done, &s);
	assert_int_equal(s.done, 1);
	scene_close(&s);
	assert_true(has_finished(&s, fd));
	(void)close(fd);
}

/* Of more than that one that reads nothing is not waited for, and one that reads gets all. */
static void test_slow_end(void **state)
{
	char bytes[5000] = {0};
	struct scene s;
	bool finished = false;
	int dead, fd, i;

	scene_begin_with(&s, *state, 16u << 20);
	dead = scene_client(&s, (struct attach_choice){0});
	fd = scene_client(&s, (struct attach_choice){0});
	for (i = 0; i < 1600; i++)
		attach_put(s.out[0], bytes, sizeof(bytes));
	attach_finish(s.attach, scene_done, &s);
	assert_int_equal(s.done, 0);
	while (s.done == 0) {
		finished |= has_finished(&s, fd);
		ev_run(s.rig->loop, EVRUN_ONCE);
	}
	assert_int_equal(s.done, 1);
	assert_true(finished || has_finished(&s, fd));
	(void)close(dead);
	(void)close(fd);
	scene_close(&s);
}

static void test_limits(void **state)
{
	int fd[ATTACH_CLIENTS_MAX];
	struct scene s;
	size_t i;

	scene_begin(&s, *state);
	for (i = 0; i < ATTACH_CLIENTS_MAX; i++) {
		assert_int_equal(attach_admit(s.attach, 0), 0);
		assert_int_equal(attach_admit(s.attach, 1) > 0, i >= ATTACH_OTHERS_MAX);
		fd[i] = scene_client(&s, (struct attach_choice){0});
	}
	assert_int_equal(attach_admit(s.attach, 0), ATTACH_CLIENTS_MAX);
	for (i = 0; i < ATTACH_CLIENTS_MAX; i++)
		(void)close(fd[i]);
	run_loop(&s);
	assert_int_equal(attach_admit(s.attach, 1), 0);
	scene_close(&s);
}

/* ---- input --------------------------------------------------------------------------------- */

static void send_record(int fd, enum attach_kind kind, const void *body, size_t size)
{
	const struct attach_head head = {.kind = kind, .size = (uint32_t)size};

	assert_int_equal(send(fd, &head, sizeof(head), MSG_NOSIGNAL), sizeof(head));
	if (size > 0)
		assert_int_equal(send(fd, body, size, MSG_NOSIGNAL), size);
}

static void expect_input(int fd, const char *text)
{
	char got[64];
	ssize_t n = read(fd, got, sizeof(got));

	assert_int_equal(n, *text ? (ssize_t)strlen(text) : -1);
	if (n > 0)
		assert_memory_equal(got, text, (size_t)n);
}

static void test_input(void **state)
{
	const uint32_t one[] = {1};
	struct scene s;
	int all, rank, silent;
	char byte;

	scene_begin(&s, *state);
	all = scene_client(&s, (struct attach_choice){.input = true});
	rank = scene_client(
		&s, (struct attach_choice){.input = true, .ranks = one, .ranks_count = 1});
	silent = scene_client(&s, (struct attach_choice){0});
	send_record(all, ATTACH_INPUT, "both", 4);
	run_loop(&s);
	expect_input(s.task[0], "both");
	expect_input(s.task[1], "both");
	send_record(rank, ATTACH_INPUT, "one", 3);
	run_loop(&s);
	expect_input(s.task[0], "");
	expect_input(s.task[1], "one");
	s.task[1] = close_fd(s.task[1]);
	send_record(rank, ATTACH_INPUT, "one", 3);
	run_loop(&s);
	expect_kind(&s, rank, ATTACH_UNREAD);
	send_record(rank, ATTACH_INPUT, "one", 3);
	run_loop(&s);
	expect_nothing(&s, rank); /* once is enough */
	send_record(all, ATTACH_INPUT_END, NULL, 0);
	run_loop(&s);
	assert_int_equal(s.ended, 3);
	/* It has not asked for that. */
	send_record(silent, ATTACH_INPUT, "x", 1);
	run_loop(&s);
	assert_int_equal(recv(silent, &byte, 1, MSG_DONTWAIT), 0);
	(void)close(all);
	(void)close(rank);
	(void)close(silent);
	scene_close(&s);
}

/* Takes size bytes of the pipe, which must be x. */
static void drain(struct scene *s, int fd, size_t size)
{
	char got[4096];
	ssize_t n;

	while (size > 0) {
		n = read(fd, got, size < sizeof(got) ? size : sizeof(got));
		if (n > 0)
			size -= (size_t)n;
		else
			run_loop(s);
	}
}

/* A rank that does not read holds its client up, and nobody else. */
static void test_input_waits(void **state)
{
	const uint32_t zero[] = {0}, one[] = {1};
	char piece[ATTACH_INPUT_MAX];
	struct scene s;
	int stuck, other, i;

	scene_begin(&s, *state);
	memset(piece, 'x', sizeof(piece));
	stuck = scene_client(
		&s, (struct attach_choice){.input = true, .ranks = zero, .ranks_count = 1});
	other = scene_client(
		&s, (struct attach_choice){.input = true, .ranks = one, .ranks_count = 1});
	for (i = 0; i < 8; i++) {
		send_record(stuck, ATTACH_INPUT, piece, sizeof(piece));
		run_loop(&s);
	}
	send_record(other, ATTACH_INPUT, "free", 4);
	run_loop(&s);
	expect_input(s.task[1], "free");
	put(s.out[0], "output");
	expect_data(&s, stuck, 0, STDOUT_FILENO, "output");
	drain(&s, s.task[0], 8 * sizeof(piece));
	expect_input(s.task[0], "");
	/* One that is gone while it waits is removed. */
	for (i = 0; i < 8; i++) {
		send_record(stuck, ATTACH_INPUT, piece, sizeof(piece));
		run_loop(&s);
	}
	(void)close(stuck);
	run_loop(&s);
	(void)close(other);
	run_loop(&s);
	scene_close(&s);
}

static void test_invalid(void **state)
{
	struct attach_head head = {.kind = ATTACH_INPUT, .size = ATTACH_INPUT_MAX + 1};
	struct scene s;
	char byte;
	int fd;

	scene_begin(&s, *state);
	fd = scene_client(&s, (struct attach_choice){.input = true});
	assert_int_equal(send(fd, &head, sizeof(head), MSG_NOSIGNAL), sizeof(head));
	run_loop(&s);
	assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), 0);
	(void)close(fd);
	scene_close(&s);
}

static void expect_size(int fd, unsigned rows, unsigned columns)
{
	struct winsize size;

	assert_int_equal(ioctl(fd, TIOCGWINSZ, &size), 0);
	assert_int_equal(size.ws_row, rows);
	assert_int_equal(size.ws_col, columns);
}

static void test_windows(void **state)
{
	const struct attach_window small = {.rows = 20, .columns = 60};
	const struct attach_window large = {.rows = 50, .columns = 160};
	struct scene s;
	int a, b;

	scene_begin(&s, *state);
	(void)close(s.input[1]);
	s.input[1] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	assert_true(s.input[1] >= 0);
	assert_int_equal(grantpt(s.input[1]), 0);
	assert_int_equal(unlockpt(s.input[1]), 0);
	assert_int_equal(attach_add_input(s.attach, 1, true, true), 0);
	a = scene_client(&s, (struct attach_choice){.input = true});
	b = scene_client(&s, (struct attach_choice){.input = true});
	send_record(a, ATTACH_WINDOW, &small, sizeof(small));
	run_loop(&s);
	expect_size(s.input[1], 20, 60);
	send_record(b, ATTACH_WINDOW, &large, sizeof(large));
	run_loop(&s);
	expect_size(s.input[1], 50, 160);
	send_record(a, ATTACH_INPUT, "x", 1);
	run_loop(&s);
	expect_size(s.input[1], 20, 60);
	(void)close(a);
	run_loop(&s);
	expect_size(s.input[1], 50, 160);
	assert_int_equal(s.no_window, 0);
	(void)close(b);
	run_loop(&s);
	assert_int_equal(s.no_window, 1);
	scene_close(&s);
}

/* ---- a re-exec ----------------------------------------------------------------------------- */

/* The descriptors of the new object are copies. */
static void copy_fds(const json_t *array)
{
	json_t *entry;
	size_t i;

	json_array_foreach (array, i, entry) {
		assert_int_equal(json_object_set_new(entry, "fd",
					 json_integer(dup(handover_get_fd(entry, "fd")))),
			0);
		copy_fds(json_object_get(entry, "pieces"));
	}
}

static void scene_reexec(struct scene *s)
{
	const struct attach_inputs functions = scene_functions(s);
	_cleanup_handover_ struct handover *saved = handover_new("test"), *h = NULL;
	_cleanup_close_ int fd = -1;
	struct err err = ERR_INIT;
	const json_t *object;

	assert_non_null(saved);
	attach_save(s->attach, saved, handover_put_object(saved, handover_root(saved), "attach"));
	fd = handover_finish(saved, &err);
	assert_true(fd >= 0);
	assert_int_equal(handover_open(fd, false, &h, &err), 0);
	object = json_get_object(handover_root(h), "attach");
	copy_fds(json_get_array(object, "clients"));
	s->attach = attach_free(s->attach);
	assert_int_equal(attach_new(s->rig->loop, &s->rig->log, RING, &functions, &s->attach), 0);
	assert_int_equal(attach_restore(s->attach, h, object, scene_done, s), 0);
	scene_streams(s);
}

static void test_reexec(void **state)
{
	uint64_t put_bytes = 0, next = 0, lost;
	char bytes[5000], piece[ATTACH_INPUT_MAX];
	const uint32_t one[] = {1};
	struct scene s;
	int slow, tail, types, i;

	scene_begin(&s, *state);
	slow = scene_client(&s, (struct attach_choice){.ranks = one, .ranks_count = 1});
	types = scene_client(
		&s, (struct attach_choice){.input = true, .streams = 1u << STDERR_FILENO});
	memset(piece, 'x', sizeof(piece));
	for (i = 0; i < 8; i++) {
		send_record(types, ATTACH_INPUT, piece, sizeof(piece));
		run_loop(&s);
	}
	for (i = 0; i < 100; i++) {
		fill(bytes, sizeof(bytes), put_bytes);
		attach_put(s.out[1], bytes, sizeof(bytes));
		put_bytes += sizeof(bytes);
	}
	put(s.out[0], "kept");
	attach_end(s.err[0]);
	expect_kind(&s, types, ATTACH_END);
	scene_reexec(&s);
	scene_reexec(&s);
	tail = scene_client(&s,
		(struct attach_choice){.from = ATTACH_FROM_TAIL, .streams = 1u << STDOUT_FILENO});
	expect_data(&s, tail, 0, STDOUT_FILENO, "kept");
	run_loop(&s);
	lost = take_stream(&s, slow, &next);
	assert_int_equal(next, put_bytes);
	assert_true(lost > 0);
	for (i = 0; i < 8; i++) { /* each waits for both */
		drain(&s, s.task[0], sizeof(piece));
		drain(&s, s.task[1], sizeof(piece));
	}
	expect_input(s.task[0], "");
	expect_input(s.task[1], "");
	put(s.err[1], "after");
	expect_data(&s, types, 1, STDERR_FILENO, "after");
	attach_finish(s.attach, scene_done, &s);
	(void)close(slow);
	(void)close(tail);
	(void)close(types);
	run_loop(&s);
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ring),
		cmocka_unit_test_setup_teardown(test_choices, rig_set_up, rig_tear_down),
		cmocka_unit_test_setup_teardown(test_ends, rig_set_up, rig_tear_down),
		cmocka_unit_test_setup_teardown(test_slow, rig_set_up, rig_tear_down),
		cmocka_unit_test_setup_teardown(test_late_end, rig_set_up, rig_tear_down),
		cmocka_unit_test_setup_teardown(test_slow_end, rig_set_up, rig_tear_down),
		cmocka_unit_test_setup_teardown(test_limits, rig_set_up, rig_tear_down),
		cmocka_unit_test_setup_teardown(test_input, rig_set_up, rig_tear_down),
		cmocka_unit_test_setup_teardown(test_input_waits, rig_set_up, rig_tear_down),
		cmocka_unit_test_setup_teardown(test_invalid, rig_set_up, rig_tear_down),
		cmocka_unit_test_setup_teardown(test_windows, rig_set_up, rig_tear_down),
		cmocka_unit_test_setup_teardown(test_reexec, rig_set_up, rig_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
