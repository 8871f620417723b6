/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Labelled output, through the door that the agent uses: byte for byte what the tasks wrote,
 * whole lines, bounded buffers, and destinations that fail.
 */
#include "stepd/stdio/pump.h"

#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stepd/process/process.h"
#include "stepd/stdio/output.h"
#include "tests/lib/stdio_rig.h"

static int say(uint32_t local_id, void *userdata)
{
	const char *const *texts = userdata;

	return fs_write_all(STDOUT_FILENO, texts[local_id], strlen(texts[local_id])) < 0;
}

/* Takes the text apart by its labels: what each task wrote, in order. A line's bytes must be
 * one task's. Every line has a label, as wide as width. */
static void strip(
	const char *text, size_t size, int width, uint32_t ntasks, char **bodies, size_t *sizes)
{
	const char *p = text, *end = text + size, *eol;
	char label[32];
	uint32_t rank;
	size_t n;

	while (p < end) {
		assert_true(end - p >= width + 2);
		memcpy(label, p, (size_t)width + 2);
		label[width + 2] = '\0';
		assert_int_equal(sscanf(label, "%u", &rank), 1);
		assert_true(rank < ntasks);
		assert_string_equal(label + width, ": ");
		p += width + 2;
		eol = memchr(p, '\n', (size_t)(end - p));
		n = eol ? (size_t)(eol + 1 - p) : (size_t)(end - p);
		memcpy(bodies[rank] + sizes[rank], p, n);
		sizes[rank] += n;
		p += n;
	}
}

static void expect_lines(struct rig *rig, const char *name, int width, size_t least_size)
{
	uint32_t n = rig->spec.ntasks, i;
	_cleanup_free_ char *text = NULL;
	size_t size, sizes[256] = {0}, wanted_size;
	char *bodies[256], *wanted;

	text = rig_file(rig, name, &size);
	for (i = 0; i < n; i++) {
		bodies[i] = malloc(size + 1);
		assert_non_null(bodies[i]);
	}
	strip(text, size, width, n, bodies, sizes);
	for (i = 0; i < n; i++) {
		wanted = rig_lines(i, least_size, false, &wanted_size);
		assert_int_equal(sizes[i], wanted_size);
		assert_memory_equal(bodies[i], wanted, wanted_size);
		free(wanted);
		free(bodies[i]);
	}
}

static void test_exact_64_tasks(void **state)
{
	struct rig *rig = *state;
	struct rig_lines_arg arg = {.least_size = 100000};

	rig->spec.label = true;
	rig_layout(rig, 64);
	rig_capture(rig, 1, "got");
	rig_step(rig, rig_write_lines, &arg);
	rig_end_captures(rig);
	expect_lines(rig, "got", 2, arg.least_size);
	assert_int_equal(rig_log_count(rig, "stepd: "), 0);
}

static void test_exact_to_socket(void **state)
{
	struct rig *rig = *state;
	struct rig_lines_arg arg = {.least_size = 300000};

	rig->spec.label = true;
	rig_layout(rig, 11);
	rig_capture_socket(rig, 1, "got");
	rig_open(rig);
	rig_fork_all(rig, rig_write_lines, &arg);
	rig_run(rig);
	assert_int_equal(fcntl(1, F_GETFL) & O_NONBLOCK, 0);
	rig_free(rig);
	rig_end_captures(rig);
	expect_lines(rig, "got", 2, arg.least_size);
}

static void test_exact_to_file(void **state)
{
	struct rig *rig = *state;
	struct rig_lines_arg arg = {.least_size = 1000000};

	rig->spec.label = true;
	rig->spec.out = (struct spec_stream){.mode = SPEC_STREAM_FILE, .pattern = strdup("out.%j")};
	rig_layout(rig, 5);
	rig_step(rig, rig_write_lines, &arg);
	expect_lines(rig, "out.7", 1, arg.least_size);
}

/* Becomes a user who can't open this pipe once more. */
static void be_nobody(int fd)
{
	if (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0)
		_exit(98);
	if (stdfd_reopen(fd, O_WRONLY) >= 0)
		_exit(97);
}

/* As a user who can't open the agent's pipe once more: the way by poll(2) and small writes. */
static int run_as_nobody(struct rig *rig)
{
	struct rig_lines_arg arg = {.least_size = 500000};
	int flags;

	be_nobody(STDOUT_FILENO);
	rig_open(rig);
	rig_fork_all(rig, rig_write_lines, &arg);
	rig_run(rig);
	flags = fcntl(1, F_GETFL);
	return flags < 0 || (flags & O_NONBLOCK);
}

static void test_exact_polled(void **state)
{
	struct rig *rig = *state;
	int status = 0;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	rig->spec.label = true;
	rig_layout(rig, 6);
	rig_capture(rig, 1, "got");
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(run_as_nobody(rig));
	(void)waitpid(pid, &status, 0);
	rig_end_captures(rig);
	assert_int_equal(status, 0);
	expect_lines(rig, "got", 1, 500000);
}

static int write_megabyte_lines(uint32_t local_id, void *userdata)
{
	_cleanup_free_ char *line = malloc(1 << 20);
	int i;

	(void)userdata;
	for (i = 0; line && i < 3; i++) {
		memset(line, 'a' + (int)local_id, 1 << 20);
		line[(1 << 20) - 1] = '\n';
		if (fs_write_all(STDOUT_FILENO, line, 1 << 20) < 0)
			return 1;
	}
	return !line;
}

static void test_megabyte_lines(void **state)
{
	struct rig *rig = *state;
	_cleanup_free_ char *text = NULL;
	size_t size, at, count[4] = {0}, n;
	unsigned rank;

	rig->spec.label = true;
	rig_layout(rig, 4);
	rig_capture(rig, 1, "got");
	rig_step(rig, write_megabyte_lines, NULL);
	rig_end_captures(rig);
	text = rig_file(rig, "got", &size);
	assert_int_equal(size, 12 * ((1 << 20) + 3));
	for (at = 0; at < size; at += (1 << 20) + 3) {
		rank = (unsigned)(text[at] - '0');
		assert_true(rank < 4);
		assert_memory_equal(text + at + 1, ": ", 2);
		for (n = 0; n < (1 << 20) - 1 && text[at + 3 + n] == (char)('a' + rank); n++)
			;
		assert_int_equal(n, (1 << 20) - 1);
		assert_int_equal(text[at + 3 + n], '\n');
		count[rank]++;
	}
	for (rank = 0; rank < 4; rank++)
		assert_int_equal(count[rank], 3);
}

static void test_label_width(void **state)
{
	struct rig *rig = *state;
	const char *texts[] = {"a\n\nb\n", "c\n"};

	rig->in_turn = true;
	rig->spec.label = true;
	rig_layout(rig, 2);
	rig->spec.ntasks = 1001;
	rig->spec.ranks[0] = 9;
	rig->spec.ranks[1] = 1000;
	rig_capture(rig, 1, "got");
	rig_step(rig, say, texts);
	rig_end_captures(rig);
	rig_expect_file(rig, "got", "   9: a\n   9: \n   9: b\n1000: c\n");
}

static void test_partial_single(void **state)
{
	struct rig *rig = *state;
	const char *texts[] = {"one\ntwo"};

	rig->spec.label = true;
	rig_capture(rig, 1, "got");
	rig_open(rig);
	rig_fork(rig, say, texts);
	rig_run(rig);
	rig_free(rig);
	rig_end_captures(rig);
	rig_expect_file(rig, "got", "0: one\n0: two");
}

static void test_partial_then_another(void **state)
{
	struct rig *rig = *state;
	const char *texts[] = {"no end", "line\n"};

	rig->in_turn = true;
	rig->spec.label = true;
	rig_layout(rig, 2);
	rig_capture(rig, 1, "got");
	rig_step(rig, say, texts);
	rig_end_captures(rig);
	rig_expect_file(rig, "got", "0: no end\n1: line\n");
}

static int say_on_both(uint32_t local_id, void *userdata)
{
	char buf[64];
	int i, n;

	(void)userdata;
	for (i = 0; i < 200; i++) {
		n = snprintf(buf, sizeof(buf), "out %u %d\n", local_id, i);
		if (write(STDOUT_FILENO, buf, 5) != 5 || write(STDERR_FILENO, "err\n", 4) != 4 ||
			write(STDOUT_FILENO, buf + 5, (size_t)n - 5) != n - 5)
			return 1;
	}
	return 0;
}

/* stdout and stderr of the agent are one pipe: lines of the two don't mix. */
static void test_both_to_one(void **state)
{
	struct rig *rig = *state;
	_cleanup_free_ char *text = NULL;
	size_t size;
	char *line, *next;
	int outs = 0, errs = 0;

	rig->spec.label = true;
	rig_layout(rig, 8);
	rig_capture(rig, 1, "got");
	rig_std(rig, 2, fcntl(1, F_DUPFD_CLOEXEC, 10));
	rig_step(rig, say_on_both, NULL);
	rig_end_captures(rig);
	text = rig_file(rig, "got", &size);
	for (line = text; *line; line = next) {
		next = strchr(line, '\n') + 1;
		next[-1] = '\0';
		outs += strncmp(line + 1, ": out ", 6) == 0 && strlen(line) >= 10;
		errs += strcmp(line + 1, ": err") == 0;
	}
	assert_int_equal(outs, 1600);
	assert_int_equal(errs, 1600);
}

static int say_out_err(uint32_t local_id, void *userdata)
{
	(void)userdata;
	return dprintf(STDOUT_FILENO, "out %u\n", local_id) < 0 ||
		dprintf(STDERR_FILENO, "err %u", local_id) < 0;
}

static void test_files_of_tasks(void **state)
{
	struct rig *rig = *state;
	_cleanup_free_ char *sub = scratch_path(rig->dir, "sub");
	uint32_t ranks[] = {1}, entries[] = {0, 1};
	struct spec_override override = {.ranks = ranks, .ranks_count = 1, .cwd = sub};

	assert_int_equal(mkdir(sub, 0755), 0);
	rig->spec.label = true;
	rig->spec.overrides = &override;
	rig->spec.overrides_count = 1;
	rig->spec.rank_entries = entries;
	rig->spec.out = (struct spec_stream){.mode = SPEC_STREAM_FILE, .pattern = strdup("o%2t")};
	rig->spec.err = (struct spec_stream){
		.mode = SPEC_STREAM_FILE, .pattern = strdup("e%t"), .append = true};
	scratch_write(rig->dir, "o00", "old", 3, 0644);
	scratch_write(rig->dir, "e0", "old\n", 4, 0644);
	rig_layout(rig, 2);
	rig_step(rig, say_out_err, NULL);
	rig_expect_file(rig, "o00", "0: out 0\n");
	rig_expect_file(rig, "e0", "old\n0: err 0");
	rig_expect_file(rig, "sub/o01", "1: out 1\n");
	rig_expect_file(rig, "sub/e1", "1: err 1");
}

static void test_one_file_for_both(void **state)
{
	struct rig *rig = *state;

	rig->spec.label = true;
	rig->spec.out = (struct spec_stream){.mode = SPEC_STREAM_FILE, .pattern = strdup("o%t")};
	rig->spec.err = (struct spec_stream){.mode = SPEC_STREAM_FILE, .pattern = strdup("o%0t")};
	rig_layout(rig, 2);
	rig_step(rig, say_out_err, NULL);
	rig_expect_file(rig, "o0", "0: out 0\n0: err 0");
	rig_expect_file(rig, "o1", "1: out 1\n1: err 1");
}

static void test_stderr_where_stdout_goes(void **state)
{
	struct rig *rig = *state;

	rig->spec.label = true;
	rig->spec.err.mode = SPEC_STREAM_STDOUT;
	rig_capture(rig, 1, "got");
	rig_step(rig, say_out_err, NULL);
	rig_end_captures(rig);
	rig_expect_file(rig, "got", "0: out 0\n0: err 0");
}

/* Nothing goes to the stream of others than the rank. */
static void test_rank(void **state)
{
	struct rig *rig = *state;

	rig->spec.label = true;
	rig->spec.out = (struct spec_stream){.mode = SPEC_STREAM_RANK, .rank = 2};
	rig->spec.err.mode = SPEC_STREAM_NONE;
	rig_layout(rig, 4);
	rig_capture(rig, 1, "got");
	rig_step(rig, say_out_err, NULL);
	rig_end_captures(rig);
	rig_expect_file(rig, "got", "2: out 2\n");
}

/* ---- destinations that fail or stop -------------------------------------------------------- */

static void test_full_disk(void **state)
{
	struct rig *rig = *state;
	struct rig_lines_arg arg = {.least_size = 400000};

	rig->spec.label = true;
	rig->spec.err = (struct spec_stream){.mode = SPEC_STREAM_FILE, .pattern = strdup("err")};
	rig->spec.out =
		(struct spec_stream){.mode = SPEC_STREAM_FILE, .pattern = strdup("/dev/full")};
	rig_layout(rig, 5);
	rig_step(rig, rig_write_lines, &arg);
	assert_int_equal(rig_log_count(rig, "warning: "), 1);
	assert_int_equal(rig_log_count(rig, "to /dev/full: No space left on device"), 1);
}

/* The agent's stdout fails while stderr goes on. */
static void test_full_inherited(void **state)
{
	struct rig *rig = *state;

	rig->in_turn = true;
	rig->spec.label = true;
	rig_layout(rig, 3);
	rig_std(rig, 1, open("/dev/full", O_WRONLY | O_CLOEXEC));
	rig_capture(rig, 2, "got");
	rig_step(rig, say_out_err, NULL);
	rig_end_captures(rig);
	rig_expect_file(rig, "got", "0: err 0\n1: err 1\n2: err 2");
	assert_int_equal(rig_log_count(rig, "warning: "), 1);
	assert_int_equal(rig_log_count(rig, "standard output: No space left on device"), 1);
}

static void closed_reader(struct rig *rig, int fd[2], const char *wanted)
{
	struct rig_lines_arg arg = {.least_size = 400000};

	(void)close(fd[0]);
	rig->spec.label = true;
	rig_layout(rig, 5);
	rig_std(rig, 1, fd[1]);
	rig_step(rig, rig_write_lines, &arg);
	rig_end_captures(rig);
	assert_int_equal(rig_log_count(rig, "warning: "), 1);
	assert_int_equal(rig_log_count(rig, wanted), 1);
}

static void test_closed_pipe(void **state)
{
	int fd[2];

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	closed_reader(*state, fd, "standard output: Broken pipe");
}

static void test_closed_socket(void **state)
{
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	closed_reader(*state, fd, "standard output: Broken pipe");
}

/* The reader goes while output is on its way: `| head -1`. */
static void test_reader_that_leaves(void **state)
{
	struct rig *rig = *state;
	struct rig_lines_arg arg = {.least_size = 1000000};
	char buf[10];
	int fd[2];
	pid_t pid;

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		(void)close(fd[1]);
		_exit(read(fd[0], buf, sizeof(buf)) <= 0);
	}
	(void)close(fd[0]);
	rig->readers[rig->readers_count++] = pid;
	rig->spec.label = true;
	rig_layout(rig, 5);
	rig_std(rig, 1, fd[1]);
	rig_step(rig, rig_write_lines, &arg);
	rig_end_captures(rig);
	assert_int_equal(rig_log_count(rig, "warning: "), 1);
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int revents)
{
	int *ticks = timer->data;

	(void)revents;
	if (++*ticks == 40) {
		ev_timer_stop(loop, timer);
		ev_break(loop, EVBREAK_ALL);
	}
}

/* The loop goes on for 0.2 s: nothing in it blocks. */
static void tick_40_times(struct rig *rig)
{
	int ticks = 0;
	ev_timer tick;

	ev_timer_init(&tick, on_tick, 0.005, 0.005);
	tick.data = &ticks;
	ev_timer_start(rig->loop, &tick);
	(void)ev_run(rig->loop, 0);
	assert_int_equal(ticks, 40);
}

/* How far a task came is seen in its file offset of a shared file. */
static int count_and_write(uint32_t local_id, void *userdata)
{
	int progress = *(int *)userdata;
	char line[100];
	int i;

	(void)local_id;
	memset(line, 'x', sizeof(line));
	line[99] = '\n';
	for (i = 0; i < 20000; i++) {
		if (fs_write_all(STDOUT_FILENO, line, sizeof(line)) < 0)
			return 1;
		if (pwrite(progress, &i, sizeof(i), 0) != sizeof(i))
			return 1;
	}
	return 0;
}

/* A reader that takes nothing: the loop runs on, the task waits, little is kept; then the reader
 * goes on, and nothing is lost. */
static void stopped_reader(struct rig *rig, int fd[2])
{
	int progress = memfd_create("progress", 0), reached = 0;
	char page[4096];
	pid_t pid;

	/* the task's descriptors are closed above 2: hand it as its stdin */
	rig->spec.label = true;
	rig->spec.in.mode = SPEC_STREAM_INHERIT;
	rig_std(rig, 0, fcntl(progress, F_DUPFD_CLOEXEC, 10));
	rig_std(rig, 1, fd[1]);
	rig_open(rig);
	rig_fork(rig, count_and_write, &(int){0});
	stdio_start(rig->io);
	tick_40_times(rig);
	assert_int_equal(
		read(fd[0], page, sizeof(page)), sizeof(page)); /* space, but not for all */
	tick_40_times(rig);
	assert_int_equal(rig->running, 1);
	assert_int_equal(pread(progress, &reached, sizeof(reached), 0), sizeof(reached));
	assert_true(reached > 500);
	assert_true(reached * 100 < 512 * 1024);
	pid = fork();
	if (pid == 0) {
		char buf[4096];
		long sum = 0;
		ssize_t n;

		(void)dup2(fd[0], 0);
		(void)syscall(SYS_close_range, 1, ~0u, 0); /* the agent's too, or no end comes */
		while ((n = read(0, buf, sizeof(buf))) > 0)
			sum += n;
		_exit(n < 0 || sum != 20000 * 103L - (long)sizeof(page));
	}
	(void)close(fd[0]);
	rig->fds--; /* fd[0] */
	rig->readers[rig->readers_count++] = pid;
	rig_run(rig);
	rig_free(rig);
	rig_end_captures(rig);
	(void)close(progress);
}

static void test_stopped_pipe(void **state)
{
	int fd[2];

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	stopped_reader(*state, fd);
}

/* The same where the agent's pipe is all there is: shared, blocking. */
static void test_stopped_polled(void **state)
{
	int fd[2], status = 0;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		be_nobody(fd[1]);
		stopped_reader(*state, fd);
		_exit(0);
	}
	(void)close(fd[0]);
	(void)close(fd[1]);
	(void)waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

static void test_stopped_socket(void **state)
{
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	stopped_reader(*state, fd);
}

static int write_50_kib(uint32_t local_id, void *userdata)
{
	char block[50 * 1024];

	(void)userdata;
	memset(block, 'a' + (int)local_id, sizeof(block));
	block[sizeof(block) - 1] = '\n';
	return fs_write_all(1, block, sizeof(block)) < 0;
}

/* A reader that never goes on: the end waits for it, stdio_free() ends that. */
static void test_free_with_stopped_reader(void **state)
{
	struct rig *rig = *state;
	int fd[2];

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	rig->spec.label = true;
	rig_layout(rig, 4);
	rig_std(rig, 1, fd[1]);
	rig_open(rig);
	rig_fork_all(rig, write_50_kib, NULL);
	rig_run_tasks(rig);
	stdio_finish(rig->io, (stdio_done_fn)abort, NULL);
	tick_40_times(rig);
	rig_free(rig);
	(void)close(fd[0]);
}

/* ---- long lines and late writers ----------------------------------------------------------- */

static int write_long_and_pause(uint32_t local_id, void *userdata)
{
	int gate = STDIN_FILENO;
	atomic_bool *begun = userdata;
	char c, block[70000];

	memset(block, 'L', sizeof(block));
	/* A pipe takes less at once: some of it has been read when this returns. */
	if (local_id == 0) {
		if (fs_write_all(1, block, sizeof(block)) < 0)
			return 1;
		atomic_store(begun, true);
		return read(gate, &c, 1) != 1 || fs_write_all(1, "rest\n", 5) < 0;
	}
	/* the other: after the long line has begun, a line of its own; then the first goes on */
	while (!atomic_load(begun))
		(void)poll(NULL, 0, 1);
	return fs_write_all(1, "short\n", 6) < 0;
}

struct pause {
	struct rig *rig;
	ev_idle idle;
	ev_timer timer;
	double for_s;
	int gate_fd;
};

static void on_pause_end(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct pause *pause = timer->data;

	(void)loop;
	(void)revents;
	assert_int_equal(write(pause->gate_fd, "x", 1), 1);
}

/* Nothing is to be read; and the writer of the short line has ended. */
static void on_idle(struct ev_loop *loop, ev_idle *idle, int revents)
{
	struct pause *pause = idle->data;

	if (pause->rig->running > 1)
		return;
	ev_idle_stop(loop, idle);
	if (pause->for_s > 0.)
		ev_timer_start(loop, &pause->timer);
	else
		on_pause_end(loop, &pause->timer, revents);
}

/* for_s: how long the writer of the long line pauses when the other's line waits. */
static char *long_line_with_pause(struct rig *rig, double for_s, size_t *ret_size)
{
	struct pause pause = {.rig = rig, .for_s = for_s};
	int gate[2];
	atomic_bool *begun = mmap(
		NULL, sizeof(*begun), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
	assert_ptr_not_equal(begun, MAP_FAILED);
	rig->spec.label = true;
	rig->spec.in = (struct spec_stream){.mode = SPEC_STREAM_RANK, .rank = 0};
	rig_layout(rig, 2);
	rig_std(rig, 0, gate[0]);
	rig_capture(rig, 1, "got");
	rig_open(rig);
	rig_fork_all(rig, write_long_and_pause, begun);
	pause.gate_fd = gate[1];
	ev_timer_init(&pause.timer, on_pause_end, for_s, 0.);
	ev_idle_init(&pause.idle, on_idle);
	pause.timer.data = pause.idle.data = &pause;
	ev_idle_start(rig->loop, &pause.idle);
	rig_run(rig);
	rig_free(rig);
	(void)close(gate[1]);
	(void)munmap(begun, sizeof(*begun));
	rig_end_captures(rig);
	return rig_file(rig, "got", ret_size);
}

static void test_long_line_waits(void **state)
{
	_cleanup_free_ char *text = NULL;
	size_t size;

	text = long_line_with_pause(*state, 0., &size);
	assert_int_equal(size, 3 + 70000 + 5 + 9);
	assert_string_equal(text + 3 + 70000, "rest\n1: short\n");
}

static void test_long_line_broken(void **state)
{
	_cleanup_free_ char *text = NULL;
	size_t size;

	text = long_line_with_pause(*state, PUMP_IDLE_S * 2, &size);
	assert_string_equal(text + 3 + 70000, "\n1: short\n0: rest\n");
}

/* A pid that a task writes and the test reads. */
static pid_t *shared_pid(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

static int leave_writer(uint32_t local_id, void *userdata)
{
	pid_t *left = userdata, pid;

	(void)local_id;
	if (dprintf(1, "before\n") < 0)
		return 1;
	pid = fork();
	if (pid == 0) {
		for (;;)
			pause();
	}
	*left = pid;
	return pid < 0;
}

/* A process that holds the pipe and can't be killed (D state): the end does not wait for it. */
static void test_writer_that_stays(void **state)
{
	struct rig *rig = *state;
	pid_t *left = shared_pid();

	rig->spec.label = true;
	rig_capture(rig, 1, "got");
	rig_open(rig);
	rig_fork(rig, leave_writer, left);
	rig_run(rig);
	rig_free(rig);
	rig_end_captures(rig);
	assert_true(*left > 0);
	assert_int_equal(kill(*left, SIGKILL), 0);
	rig_expect_file(rig, "got", "0: before\n");
}

static int leave_busy_writer(uint32_t local_id, void *userdata)
{
	pid_t *left = userdata, pid;

	(void)local_id;
	pid = fork();
	if (pid == 0) {
		while (fs_write_all(1, "y\n", 2) == 0)
			;
	}
	*left = pid;
	return pid < 0;
}

/* One that writes for ever: what stands in the pipe at the end is the end. */
static void test_writer_that_goes_on(void **state)
{
	struct rig *rig = *state;
	pid_t *left = shared_pid();

	rig->spec.label = true;
	rig->spec.out =
		(struct spec_stream){.mode = SPEC_STREAM_FILE, .pattern = strdup("/dev/null")};
	rig_open(rig);
	rig_fork(rig, leave_busy_writer, left);
	rig_run(rig);
	assert_true(*left > 0);
	assert_int_equal(kill(*left, SIGKILL), 0);
	rig_free(rig);
}

/* ---- life ---------------------------------------------------------------------------------- */

static void test_finish_without_start(void **state)
{
	struct rig *rig = *state;
	const char *texts[] = {"said\n"};

	rig->spec.label = true;
	rig_capture(rig, 1, "got");
	rig_open(rig);
	rig_fork(rig, say, texts);
	(void)ev_run(rig->loop, EVRUN_ONCE);
	assert_int_equal(rig->running, 0);
	rig_finish(rig);
	rig_free(rig);
	rig_end_captures(rig);
	rig_expect_file(rig, "got", "0: said\n");
}

static void test_finish_without_tasks(void **state)
{
	struct rig *rig = *state;

	rig->spec.label = true;
	rig_layout(rig, 0);
	rig_open(rig);
	rig_finish(rig);
	rig_free(rig);
}

static void free_in_done(void *userdata)
{
	struct rig *rig = userdata;

	rig->done++;
	rig->io = stdio_free(rig->io);
	ev_break(rig->loop, EVBREAK_ALL);
}

static void test_free_in_done(void **state)
{
	struct rig *rig = *state;
	struct rig_lines_arg arg = {.least_size = 200000};

	rig->spec.label = true;
	rig_layout(rig, 8);
	rig_capture(rig, 1, "got");
	rig_open(rig);
	rig_fork_all(rig, rig_write_lines, &arg);
	rig_run_tasks(rig);
	stdio_finish(rig->io, free_in_done, rig);
	if (!rig->done)
		(void)ev_run(rig->loop, 0);
	assert_int_equal(rig->done, 1);
	rig_free(rig);
	rig_end_captures(rig);
	expect_lines(rig, "got", 1, arg.least_size);
}

static void test_free_in_the_middle(void **state)
{
	struct rig *rig = *state;
	struct rig_lines_arg arg = {.least_size = 300000};
	uint32_t i;

	rig->spec.label = true;
	rig_layout(rig, 8);
	rig_capture(rig, 1, "got");
	rig_open(rig);
	for (i = 0; i < 7; i++)
		rig_fork(rig, rig_write_lines, &arg);
	stdio_start(rig->io);
	for (i = 0; i < 20; i++)
		(void)ev_run(rig->loop, EVRUN_NOWAIT);
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, rig_set_up, rig_tear_down)
		T(test_exact_64_tasks),
		T(test_exact_to_socket),
		T(test_exact_to_file),
		T(test_exact_polled),
		T(test_megabyte_lines),
		T(test_label_width),
		T(test_partial_single),
		T(test_partial_then_another),
		T(test_both_to_one),
		T(test_files_of_tasks),
		T(test_one_file_for_both),
		T(test_stderr_where_stdout_goes),
		T(test_rank),
		T(test_full_disk),
		T(test_full_inherited),
		T(test_closed_pipe),
		T(test_closed_socket),
		T(test_reader_that_leaves),
		T(test_stopped_pipe),
		T(test_stopped_polled),
		T(test_stopped_socket),
		T(test_free_with_stopped_reader),
		T(test_long_line_waits),
		T(test_long_line_broken),
		T(test_writer_that_stays),
		T(test_writer_that_goes_on),
		T(test_finish_without_start),
		T(test_finish_without_tasks),
		T(test_free_in_done),
		T(test_free_in_the_middle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
