/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/stdio_rig.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define GUARD_S 300

struct rig_task {
	struct rig *rig;
	pid_t pid;
	int pidfd;
	int gate_fd; /* in turn: it waits for a byte */
	ev_io io;
};

static void on_guard(struct ev_loop *loop, ev_timer *timer, int revents)
{
	(void)revents;
	(void)timer;
	ev_break(loop, EVBREAK_ALL);
}

static void admit(struct rig_task *task)
{
	assert_int_equal(write(task->gate_fd, "", 1), 1);
	task->gate_fd = close_fd(task->gate_fd);
}

static void on_idle(struct ev_loop *loop, ev_idle *idle, int revents)
{
	struct rig *rig = idle->data;

	(void)revents;
	ev_idle_stop(loop, idle);
	admit(&rig->tasks[++rig->turn]);
}

int rig_set_up(void **state)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	int i;

	if (!rig)
		return -1;
	(void)signal(SIGPIPE, SIG_IGN);
	(void)alarm(2 * GUARD_S); /* where the loop itself hangs, or a reader */
	rig->loop = ev_loop_new(EVFLAG_AUTO);
	if (!rig->loop)
		return -1;
	ev_now_update(rig->loop);
	/* The loop makes its descriptors when it first runs: before they are counted. */
	(void)ev_run(rig->loop, EVRUN_NOWAIT);
	ev_timer_init(&rig->guard, on_guard, 0., GUARD_S);
	ev_idle_init(&rig->idle, on_idle);
	rig->idle.data = rig;
	rig->log.fd = memfd_create("log", MFD_CLOEXEC);
	rig->log.most = LOG_LEVEL_DEBUG;
	(void)snprintf(rig->log.ident, sizeof(rig->log.ident), "stepd");
	rig->dir = scratch_make();
	rig->mask = 022;
	rig->id = (struct identity){.uid = geteuid(), .gid = getegid(), .user_name = strdup("ada")};
	rig->spec.job_id = 7;
	rig->spec.step_name = strdup("0");
	rig->spec.job_name = strdup("job");
	rig->spec.node_name = strdup("n1");
	rig->spec.in.mode = SPEC_STREAM_NONE;
	for (i = 0; i < 3; i++)
		rig->std_saved[i] = -2;
	rig_layout(rig, 1);
	*state = rig;
	return 0;
}

int rig_tear_down(void **state)
{
	struct rig *rig = *state;
	uint32_t i;

	(void)stdio_free(rig->io);
	(void)alarm(0);
	for (i = 0; i < rig->forked; i++) {
		if (rig->tasks[i].pid > 0) {
			(void)kill(rig->tasks[i].pid, SIGKILL); /* our child, not reaped */
			(void)waitpid(rig->tasks[i].pid, NULL, 0);
		}
		(void)close_fd(rig->tasks[i].pidfd);
		(void)close_fd(rig->tasks[i].gate_fd);
	}
	rig_end_captures(rig);
	ev_loop_destroy(rig->loop);
	(void)close(rig->log.fd);
	scratch_remove(rig->dir);
	free(rig->dir);
	free(rig->id.user_name);
	free(rig->spec.step_name);
	free(rig->spec.job_name);
	free(rig->spec.node_name);
	free(rig->spec.ranks);
	free(rig->spec.in.pattern);
	free(rig->spec.out.pattern);
	free(rig->spec.err.pattern);
	free(rig->tasks);
	free(rig);
	return 0;
}

void rig_layout(struct rig *rig, uint32_t ntasks)
{
	uint32_t i;

	free(rig->spec.ranks);
	free(rig->tasks);
	rig->spec.ntasks = rig->spec.local_ntasks = ntasks;
	rig->spec.ranks = calloc(ntasks + 1, sizeof(uint32_t));
	rig->tasks = calloc(ntasks + 1, sizeof(*rig->tasks));
	if (!rig->spec.ranks || !rig->tasks)
		err(99, "calloc");
	for (i = 0; i < ntasks; i++)
		rig->spec.ranks[i] = i;
}

void rig_std(struct rig *rig, int n, int fd)
{
	if (rig->std_saved[n] == -2)
		rig->std_saved[n] = fcntl(n, F_DUPFD_CLOEXEC, 10);
	if (fd < 0)
		(void)close(n);
	else if (dup2(fd, n) < 0)
		err(99, "dup2");
	(void)close_fd(fd);
}

static void capture(struct rig *rig, int n, const char *name, int reader, int writer)
{
	_cleanup_free_ char *path = scratch_path(rig->dir, name);
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	char buf[65536];
	ssize_t got;
	pid_t pid;

	pid = file < 0 ? -1 : fork();
	if (pid < 0)
		err(99, "capture");
	if (pid == 0) {
		(void)close(writer);
		while ((got = read(reader, buf, sizeof(buf))) > 0) {
			if (fs_write_all(file, buf, (size_t)got) < 0)
				_exit(1);
		}
		_exit(got < 0);
	}
	(void)close(file);
	(void)close(reader);
	rig->readers[rig->readers_count++] = pid;
	rig_std(rig, n, writer);
}

void rig_capture(struct rig *rig, int n, const char *name)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC) < 0)
		err(99, "pipe2");
	capture(rig, n, name, fd[0], fd[1]);
}

void rig_capture_socket(struct rig *rig, int n, const char *name)
{
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0)
		err(99, "socketpair");
	capture(rig, n, name, fd[0], fd[1]);
}

void rig_open(struct rig *rig)
{
	int r;

	rig->fds = scratch_count_fds();
	r = stdio_open(&rig->spec, &rig->id, rig->dir, rig->mask, rig->loop, &rig->log, &rig->io,
		&rig->err);
	if (r < 0)
		fail_msg("stdio_open: %s", rig->err.text);
}

static int open_stream(const struct stdio_stream *s)
{
	int fd;

	if (s->fd >= 0)
		return fcntl(s->fd, F_DUPFD_CLOEXEC, 10);
	fd = open(s->path, s->flags, 0666);
	if (fd >= 0)
		(void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	return fd;
}

_noreturn_ static void be_task(
	struct rig *rig, const struct stdio_task *task, int gate_fd, rig_body_fn body, void *arg)
{
	int fd[3], i;
	char byte;

	(void)signal(SIGPIPE, SIG_DFL);
	(void)umask(rig->mask);
	if (chdir(rig->dir) < 0)
		_exit(90);
	for (i = 0; i < 3; i++) {
		fd[i] = task->stream[i].as_stdout ? fd[1] : open_stream(&task->stream[i]);
		if (fd[i] < 0)
			_exit(91);
	}
	if (gate_fd >= 0 && read(gate_fd, &byte, 1) != 1)
		_exit(92);
	for (i = 0; i < 3; i++)
		(void)dup2(fd[i], i);
	(void)syscall(SYS_close_range, 3, ~0u, 0);
	_exit(body(task->local_id, arg));
}

static void on_exit_of(struct ev_loop *loop, ev_io *io, int revents)
{
	struct rig_task *task = io->data;
	int status = -1;

	(void)revents;
	ev_io_stop(loop, io);
	(void)waitpid(task->pid, &status, 0);
	task->pid = 0;
	assert_int_equal(status, 0);
	if (--task->rig->running == 0)
		ev_break(loop, EVBREAK_ALL);
	else if (task->rig->in_turn)
		ev_idle_start(loop, &task->rig->idle);
}

/* The gate's end for the task; -1: it has none. */
static int make_gate(struct rig *rig, struct rig_task *task)
{
	int fd[2];

	task->gate_fd = -1;
	if (!rig->in_turn || rig->forked == 0)
		return -1;
	if (pipe2(fd, O_CLOEXEC) < 0)
		err(99, "pipe2");
	task->gate_fd = fd[1];
	return fd[0];
}

void rig_fork(struct rig *rig, rig_body_fn body, void *userdata)
{
	struct rig_task *task = &rig->tasks[rig->forked];
	struct stdio_task io;
	int r = stdio_task_open(rig->io, rig->forked, &io, &rig->err), gate_fd;

	if (r < 0)
		fail_msg("stdio_task_open: %s", rig->err.text);
	gate_fd = make_gate(rig, task);
	task->rig = rig;
	task->pid = fork();
	if (task->pid == 0)
		be_task(rig, &io, gate_fd, body, userdata);
	(void)close_fd(gate_fd);
	stdio_task_close(rig->io, &io);
	task->pidfd = (int)syscall(SYS_pidfd_open, task->pid, 0);
	if (task->pid < 0 || task->pidfd < 0)
		err(99, "fork");
	ev_io_init(&task->io, on_exit_of, task->pidfd, EV_READ);
	task->io.data = task;
	ev_io_start(rig->loop, &task->io);
	rig->forked++;
	rig->running++;
}

void rig_fork_all(struct rig *rig, rig_body_fn body, void *userdata)
{
	while (rig->forked < rig->spec.local_ntasks)
		rig_fork(rig, body, userdata);
}

static void run_guarded(struct rig *rig)
{
	ev_timer_again(rig->loop, &rig->guard);
	(void)ev_run(rig->loop, 0);
	ev_timer_stop(rig->loop, &rig->guard);
}

void rig_run_tasks(struct rig *rig)
{
	stdio_start(rig->io);
	if (rig->running > 0)
		run_guarded(rig);
	assert_int_equal(rig->running, 0);
}

static void on_done(void *userdata)
{
	struct rig *rig = userdata;

	rig->done++;
	ev_break(rig->loop, EVBREAK_ALL);
}

void rig_finish(struct rig *rig)
{
	stdio_finish(rig->io, on_done, rig);
	if (!rig->done)
		run_guarded(rig);
	assert_int_equal(rig->done, 1);
}

void rig_run(struct rig *rig)
{
	rig_run_tasks(rig);
	rig_finish(rig);
}

void rig_free(struct rig *rig)
{
	uint32_t i;

	rig->io = stdio_free(rig->io);
	for (i = 0; i < rig->forked; i++)
		ev_io_stop(rig->loop, &rig->tasks[i].io);
	for (i = 0; i < rig->forked; i++)
		rig->tasks[i].pidfd = close_fd(rig->tasks[i].pidfd);
	assert_int_equal(scratch_count_fds(), rig->fds);
}

void rig_step(struct rig *rig, rig_body_fn body, void *userdata)
{
	rig_open(rig);
	rig_fork_all(rig, body, userdata);
	rig_run(rig);
	rig_free(rig);
}

void rig_end_captures(struct rig *rig)
{
	int i, status;

	for (i = 0; i < 3; i++) {
		if (rig->std_saved[i] == -1)
			(void)close(i);
		if (rig->std_saved[i] >= 0 && dup2(rig->std_saved[i], i) < 0)
			err(99, "dup2");
		if (rig->std_saved[i] >= 0)
			(void)close(rig->std_saved[i]);
		rig->std_saved[i] = -2;
	}
	while (rig->readers_count > 0) {
		(void)waitpid(rig->readers[--rig->readers_count], &status, 0);
		assert_int_equal(status, 0);
	}
}

char *rig_file(struct rig *rig, const char *name, size_t *ret_size)
{
	_cleanup_free_ char *path = scratch_path(rig->dir, name);
	char *text = NULL;

	assert_int_equal(fs_read(AT_FDCWD, path, SIZE_MAX / 2, &text, ret_size), 0);
	return text;
}

void rig_expect_file(struct rig *rig, const char *name, const char *wanted)
{
	_cleanup_free_ char *text = NULL;
	size_t size;

	text = rig_file(rig, name, &size);
	assert_string_equal(text, wanted);
	assert_int_equal(size, strlen(wanted));
}

size_t rig_log_count(struct rig *rig, const char *text)
{
	char log[16384];
	ssize_t n = pread(rig->log.fd, log, sizeof(log) - 1, 0);
	size_t count = 0;
	const char *p = log;

	assert_true(n >= 0);
	log[n] = '\0';
	while ((p = strstr(p, text))) {
		count++;
		p += strlen(text);
	}
	return count;
}

static size_t line_length(unsigned *seed)
{
	unsigned kind = (unsigned)rand_r(seed) % 100;

	if (kind < 10)
		return 0;
	if (kind < 90)
		return (size_t)rand_r(seed) % 120;
	if (kind < 99)
		return (size_t)rand_r(seed) % 6000;
	return (size_t)rand_r(seed) % 200000;
}

char *rig_lines(unsigned seed, size_t least_size, bool partial, size_t *ret_size)
{
	char *buf = malloc(least_size + 200001);
	size_t size = 0, n;

	if (!buf)
		err(99, "malloc");
	while (size < least_size) {
		for (n = line_length(&seed); n > 0; n--) {
			buf[size] = (char)rand_r(&seed);
			size += buf[size] != '\n';
		}
		buf[size++] = '\n';
	}
	if (partial)
		buf[size - 1] = 'p';
	*ret_size = size;
	return buf;
}

int rig_write_lines(uint32_t local_id, void *userdata)
{
	const struct rig_lines_arg *arg = userdata;
	unsigned seed = local_id + 1000;
	size_t size, at, n;
	char *buf = rig_lines(local_id, arg->least_size, arg->partial, &size);

	for (at = 0; at < size; at += n) {
		n = (size_t)rand_r(&seed) % (rand_r(&seed) % 8 ? 300 : 20000) + 1;
		if (n > size - at)
			n = size - at;
		if (fs_write_all(STDOUT_FILENO, buf + at, n) < 0)
			return 1;
	}
	free(buf);
	return 0;
}
