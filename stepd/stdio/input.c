/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/input.h"

#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "stepd/base/buffer.h"
#include "stepd/base/err.h"
#include "stepd/process/process.h"
#include "stepd/snapshot/handover.h"

/* ---- one input for several tasks ----------------------------------------------------------- */

#define RELEASE_BYTES (1u << 20) /* read from the file before its space is given back */
#define PTY_PROBE_MS  10         /* from output of a terminal to a look at its mode */

struct writer_out {
	struct writer_out *next;
	struct stdin_writer *writer;
	ev_io io; /* active while bytes wait for space in the pipe */
	int fd;   /* -1: the task has closed it */
	uint32_t rank;
	int64_t at; /* position of the next byte for it */

	/* Of a pseudo-terminal. At the end of the input its descriptor stays open. */
	bool is_pty;
	bool ended;           /* the end has been typed, or is to be */
	bool canonical;       /* the terminal's mode then */
	char end_char;        /* to type */
	unsigned end_pending; /* how often still */
	ev_timer probe;       /* of the mode, after output */
};

struct stdin_writer {
	struct ev_loop *loop;
	const struct log *log;
	ev_io io; /* active while the next piece is wanted */
	int fd;
	int own_fd; /* fd reopened, or -1 */
	bool is_socket;
	bool drops;    /* bytes that a slow task lacks, rather than to wait for it */
	bool started;  /* stdin_writer_start() */
	bool types;    /* to pseudo-terminals */
	bool paused;   /* the terminal that it reads is somebody else's */
	bool mid_line; /* the last byte was no newline */
	bool at_end;   /* of the input: what some lack is still written */
	bool warned;   /* that the file can't grow, or that bytes are dropped */
	struct backlog *backlog;
	struct writer_out *outs;
	size_t open;    /* outs that take input */
	size_t ready;   /* of these, those that have all bytes */
	size_t lagging; /* those that have to come to limit before the next piece is read */
	int64_t limit;
	uint64_t read_back; /* bytes from the backlog's file since its space was given back */
	uint64_t dropped;
};

static bool writer_takes(const struct writer_out *out)
{
	return out->fd >= 0 && !out->ended;
}

static void writer_close_out(struct writer_out *out)
{
	struct stdin_writer *writer = out->writer;

	ev_io_stop(writer->loop, &out->io);
	if (out->at == backlog_end(writer->backlog))
		writer->ready--;
	if (writer->lagging > 0 && out->at < writer->limit)
		writer->lagging--;
	if (out->is_pty)
		out->ended = true;
	else
		out->fd = close_fd(out->fd);
	writer->open--;
}

static void writer_write_end(struct writer_out *out)
{
	ssize_t n;

	while (out->end_pending > 0) {
		n = write(out->fd, &out->end_char, 1);
		if (n < 0 && errno == EAGAIN) {
			ev_io_start(out->writer->loop, &out->io);
			return;
		}
		if (n == 1)
			out->end_pending--;
		else if (errno != EINTR)
			break; /* nobody has the terminal open */
	}
	out->end_pending = 0;
	ev_io_stop(out->writer->loop, &out->io);
}

/* Behind an incomplete line the first one only completes it: in canonical mode, where the kernel
 * collects lines. In another mode the program reads the character itself. */
static void writer_type_end(struct writer_out *out)
{
	struct termios t = {.c_lflag = ICANON};

	(void)tcgetattr(out->fd, &t); /* it is a terminal */
	out->canonical = t.c_lflag & ICANON;
	out->end_char = (char)(t.c_cc[VEOF] == _POSIX_VDISABLE ? CEOF : t.c_cc[VEOF]);
	out->end_pending = out->canonical && out->writer->mid_line ? 2 : 1;
	writer_write_end(out);
}

static void writer_on_probe(_unused_ struct ev_loop *loop, ev_timer *probe, _unused_ int revents)
{
	struct writer_out *out = probe->data;
	struct termios t;

	assert(out && out->ended);
	if (out->end_pending == 0 && tcgetattr(out->fd, &t) == 0 &&
		out->canonical != !!(t.c_lflag & ICANON))
		writer_type_end(out);
}

/* A program that writes much would pay for a look at each piece. */
static void writer_begin_probe(struct writer_out *out)
{
	if (!out->ended || ev_is_active(&out->probe))
		return;
	ev_timer_set(&out->probe, PTY_PROBE_MS / 1e3, 0.);
	ev_timer_start(out->writer->loop, &out->probe);
}

/* It has got all. */
static void writer_end_out(struct writer_out *out)
{
	writer_close_out(out);
	if (out->is_pty)
		writer_type_end(out);
}

/* No more input: those that have all of it get the end, the others after the rest. */
static void writer_end(struct stdin_writer *writer)
{
	struct writer_out *out;

	ev_io_stop(writer->loop, &writer->io);
	writer->at_end = true;
	if (writer->own_fd >= 0)
		writer->fd = -1;
	writer->own_fd = close_fd(writer->own_fd);
	for (out = writer->outs; out; out = out->next) {
		if (writer_takes(out) && out->at == backlog_end(writer->backlog))
			writer_end_out(out);
	}
}

static void writer_move(struct writer_out *out, int64_t to)
{
	struct stdin_writer *writer = out->writer;

	if (writer->lagging > 0 && out->at < writer->limit && to >= writer->limit)
		writer->lagging--;
	out->at = to;
	if (to == backlog_end(writer->backlog))
		writer->ready++;
}

/* One piece. It has all bytes afterwards, or is closed, or waits for space. */
static void writer_write_out(struct writer_out *out)
{
	struct stdin_writer *writer = out->writer;
	const char *data;
	ssize_t size = backlog_get(writer->backlog, out->at, &data), n;

	if (size < 0) {
		log_warning(writer->log,
			"read the file of the input that rank %u lacks: %s; its standard input "
			"ends here",
			out->rank, strerror((int)-size));
		writer_close_out(out);
		return;
	}
	n = write(out->fd, data, (size_t)size);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		writer_close_out(out); /* EPIPE: the task has closed it */
		return;
	}
	if (n > 0)
		writer_move(out, out->at + n);
	if (out->at < backlog_end(writer->backlog)) {
		ev_io_start(writer->loop, &out->io);
		return;
	}
	ev_io_stop(writer->loop, &out->io);
	if (writer->at_end)
		writer_end_out(out);
}

/* The position of the one that is behind most; NULL: all have got everything. */
static struct writer_out *writer_find_slowest(const struct stdin_writer *writer)
{
	int64_t lowest = backlog_end(writer->backlog);
	struct writer_out *out, *slowest = NULL;

	for (out = writer->outs; out; out = out->next) {
		if (!writer_takes(out) || out->at >= lowest)
			continue;
		slowest = out;
		lowest = out->at;
	}
	return slowest;
}

static int64_t writer_lowest(const struct stdin_writer *writer)
{
	const struct writer_out *slowest = writer_find_slowest(writer);

	return slowest ? slowest->at : backlog_end(writer->backlog);
}

static void writer_drop(struct stdin_writer *writer, int64_t limit)
{
	struct writer_out *out;

	for (out = writer->outs; out; out = out->next) {
		if (!writer_takes(out) || out->at >= limit)
			continue;
		if (!writer->warned)
			log_warning(writer->log,
				"rank %u reads its standard input too slowly: bytes are left out of "
				"it (--input-overflow=spill and wait leave out none)",
				out->rank);
		writer->warned = true;
		writer->dropped += (uint64_t)(limit - out->at);
		writer_move(out, limit);
	}
}

/* The next piece is read when no task is behind limit any more. */
static void writer_wait_for_slow(struct stdin_writer *writer, int64_t limit)
{
	struct writer_out *out;

	writer->limit = limit;
	for (out = writer->outs; out; out = out->next)
		writer->lagging += writer_takes(out) && out->at < limit;
}

/* Space for a piece of input. False: some tasks have to read first. */
static bool writer_make_space(struct stdin_writer *writer)
{
	const struct writer_out *slowest = writer_find_slowest(writer);
	int64_t end = backlog_end(writer->backlog), lowest = slowest ? slowest->at : end, limit;
	struct err err = ERR_INIT;
	int r = backlog_make_space(writer->backlog, lowest, &err);

	if (r == 0)
		return true;
	assert(slowest);
	limit = backlog_limit(writer->backlog);
	if (writer->drops) {
		writer_drop(writer, limit);
		return backlog_make_space(writer->backlog, limit, &err) == 0;
	}
	if (r != -EAGAIN && !writer->warned)
		log_warning(writer->log, "%s; the next input is read when rank %u has read more",
			err.text, slowest->rank);
	writer->warned |= r != -EAGAIN;
	writer_wait_for_slow(writer, limit);
	return false;
}

/* Reads the next piece when some task has all; or stops without readers. */
static void writer_go_on(struct stdin_writer *writer)
{
	if (writer->ready == writer->open)
		backlog_release(writer->backlog, backlog_end(writer->backlog));
	if (writer->open == 0)
		writer_end(writer);
	else if (writer->ready > 0 && writer->lagging == 0 && !writer->paused && !writer->at_end)
		ev_io_start(writer->loop, &writer->io);
}

static void writer_on_writable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct writer_out *out = io->data;
	struct stdin_writer *writer = out->writer;
	int64_t before = out->at;

	if (out->ended) {
		writer_write_end(out);
		return;
	}
	writer_write_out(out);
	if (backlog_in_file(writer->backlog, before)) {
		writer->read_back += (uint64_t)(out->at - before);
		if (writer->read_back >= RELEASE_BYTES ||
			!backlog_in_file(writer->backlog, out->at)) {
			backlog_release(writer->backlog, writer_lowest(writer));
			writer->read_back = 0;
		}
	}
	writer_go_on(writer);
}

/* A background process must not read a line typed for the shell: it would be stopped, or fail. */
static bool is_in_background(int fd)
{
	pid_t foreground = tcgetpgrp(fd);

	return foreground > 0 && foreground != getpgrp();
}

static ssize_t writer_read_piece(struct stdin_writer *writer)
{
	size_t size;
	char *piece = backlog_piece(writer->backlog, &size);
	ssize_t n;

	if (is_in_background(writer->fd)) {
		errno = EIO;
		return -1;
	}
	if (writer->is_socket) /* others may read it too */
		n = recv(writer->fd, piece, size, MSG_DONTWAIT);
	else
		n = read(writer->fd, piece, size);
	if (n > 0)
		writer->mid_line = piece[n - 1] != '\n';
	return n;
}

/* Those that wait for space get it later. */
static void writer_distribute(struct stdin_writer *writer, size_t size)
{
	struct writer_out *out;

	backlog_add(writer->backlog, size);
	writer->ready = 0;
	for (out = writer->outs; out; out = out->next) {
		if (writer_takes(out) && !ev_is_active(&out->io))
			writer_write_out(out);
	}
}

static void writer_on_readable(struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct stdin_writer *writer = io->data;
	ssize_t n;

	if (writer->types && is_in_background(writer->fd)) {
		stdin_writer_pause(writer, true); /* until a shell gives the terminal back */
		return;
	}
	if (!writer_make_space(writer)) {
		ev_io_stop(loop, io);
		return;
	}
	n = writer_read_piece(writer);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n < 0 &&
		errno != EIO) /* a terminal that is gone, or another session's, has merely ended */
		log_warning(writer->log,
			"read the agent's standard input: %s; the tasks' ends here",
			strerror(errno));
	if (n <= 0) {
		writer_end(writer);
		return;
	}
	ev_io_stop(loop, io);
	writer_distribute(writer, (size_t)n);
	writer_go_on(writer);
}

static void writer_init(struct stdin_writer *writer, struct ev_loop *loop, const struct log *log,
	const struct stdin_overflow *overflow)
{
	writer->loop = loop;
	writer->log = log;
	writer->drops = overflow->drops;
	ev_io_init(&writer->io, writer_on_readable, writer->fd, EV_READ);
	writer->io.data = writer;
}

int stdin_writer_new(struct ev_loop *loop, const struct log *log, int fd,
	const struct stdin_overflow *overflow, struct stdin_writer **ret_writer)
{
	struct stdin_writer *writer = calloc(1, sizeof(*writer));
	struct stat st;
	int own;

	if (!writer)
		return -ENOMEM;
	if (backlog_new(&overflow->backlog, &writer->backlog) < 0) {
		free(writer);
		return -ENOMEM;
	}
	own = stdfd_reopen(fd, O_RDONLY);
	writer->own_fd = own < 0 ? -1 : own;
	writer->fd = own < 0 ? fd : own;
	writer->is_socket = fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
	writer_init(writer, loop, log, overflow);
	*ret_writer = writer;
	return 0;
}

int stdin_writer_add_take(struct stdin_writer *writer, int fd, uint32_t rank)
{
	struct writer_out *out = calloc(1, sizeof(*out));

	if (!out) {
		(void)close_fd(fd);
		return -ENOMEM;
	}
	out->fd = fd;
	out->rank = rank;
	out->writer = writer;
	out->at = backlog_end(writer->backlog);
	ev_io_init(&out->io, writer_on_writable, fd, EV_WRITE);
	ev_init(&out->probe, writer_on_probe);
	out->io.data = out->probe.data = out;
	out->next = writer->outs;
	writer->outs = out;
	writer->open++;
	writer->ready++;
	return 0;
}

int stdin_writer_add_pty_take(struct stdin_writer *writer, int fd, uint32_t rank, bool reads)
{
	struct writer_out *out;
	int r = stdin_writer_add_take(writer, fd, rank);

	if (r < 0)
		return r;
	out = writer->outs;
	out->is_pty = true;
	writer->types = true;
	if (!reads)
		writer_end_out(out);
	return 0;
}

static struct writer_out *find_pty(const struct stdin_writer *writer, uint32_t rank)
{
	struct writer_out *out = writer->outs;

	while (out && (!out->is_pty || out->rank != rank || out->fd < 0))
		out = out->next;
	return out;
}

void stdin_writer_pty_output(struct stdin_writer *writer, uint32_t rank)
{
	struct writer_out *out = find_pty(writer, rank);

	if (out)
		writer_begin_probe(out);
}

void stdin_writer_pty_ended(struct stdin_writer *writer, uint32_t rank)
{
	struct writer_out *out = find_pty(writer, rank);

	if (!out)
		return;
	if (!out->ended)
		writer_close_out(out);
	ev_io_stop(writer->loop, &out->io);
	ev_timer_stop(writer->loop, &out->probe);
	out->end_pending = 0;
	if (writer->started)
		writer_go_on(writer);
}

int stdin_writer_find(const struct stdin_writer *writer, uint32_t rank)
{
	const struct writer_out *out = writer->outs;

	while (out && (out->rank != rank || out->fd < 0))
		out = out->next;
	return out ? out->fd : -1;
}

void stdin_writer_resize(struct stdin_writer *writer, const struct winsize *size)
{
	struct writer_out *out;

	for (out = writer->outs; out; out = out->next) {
		if (out->is_pty && out->fd >= 0)
			(void)ioctl(out->fd, TIOCSWINSZ, size); /* valid arguments can't fail */
	}
}

void stdin_writer_pause(struct stdin_writer *writer, bool pause)
{
	writer->paused = pause;
	if (pause)
		ev_io_stop(writer->loop, &writer->io);
	else if (writer->started)
		writer_go_on(writer);
}

bool stdin_writer_is_read(const struct stdin_writer *writer)
{
	return writer->open > 0;
}

uint64_t stdin_writer_get_dropped(const struct stdin_writer *writer)
{
	return writer->dropped;
}

void stdin_writer_start(struct stdin_writer *writer)
{
	writer->started = true;
	writer_go_on(writer);
}

static void writer_save_pty(const struct writer_out *out, struct handover *h, json_t *object)
{
	handover_put_int(h, object, "pty", out->rank);
	handover_put_bool(h, object, "ended", out->ended);
	handover_put_bool(h, object, "canonical", out->canonical);
	handover_put_int(h, object, "end_char", (unsigned char)out->end_char);
	handover_put_int(h, object, "end_pending", out->end_pending);
}

void stdin_writer_save(const struct stdin_writer *writer, struct handover *h, json_t *object)
{
	json_t *outs = handover_put_array(h, object, "outs"), *out_object;
	bool held = handover_is_held(h); /* an adopter has none of the bytes */
	int64_t start = held ? 0 : backlog_save(writer->backlog, writer_lowest(writer), h, object);
	const struct writer_out *out;

	handover_put_bool(h, object, "is_socket", writer->is_socket);
	/* A terminal is not an adopter's: a shell reads it. */
	handover_put_bool(h, object, "paused", writer->paused || (held && isatty(writer->fd)));
	handover_put_bool(h, object, "mid_line", writer->mid_line);
	handover_put_bool(h, object, "at_end", writer->at_end);
	handover_put_bool(h, object, "warned", writer->warned);
	handover_put_int(h, object, "dropped", (int64_t)writer->dropped);
	handover_put_fd(h, object, "own_fd", writer->own_fd);
	/* unless reopened it reads the borrowed one */
	handover_put_int(h, object, "fd", writer->own_fd >= 0 ? -1 : writer->fd);
	for (out = writer->outs; out; out = out->next) {
		if (out->fd < 0)
			continue;
		out_object = handover_append_object(h, outs);
		handover_put_fd(h, out_object, "fd", out->fd);
		handover_put_int(h, out_object, "rank", out->rank);
		handover_put_int(h, out_object, "at", out->ended || held ? 0 : out->at - start);
		if (out->is_pty)
			writer_save_pty(out, h, out_object);
	}
}

static void writer_restore_pty(struct writer_out *out, const json_t *object)
{
	out->is_pty = out->writer->types = true;
	out->rank = (uint32_t)json_get_int(object, "pty", 0);
	out->canonical = json_get_bool(object, "canonical", false);
	out->end_char = (char)json_get_int(object, "end_char", CEOF);
	if (!json_get_bool(object, "ended", false))
		return;
	writer_close_out(out);
	out->end_pending = (unsigned)json_get_int(object, "end_pending", 0);
	if (out->end_pending > 0)
		ev_io_start(out->writer->loop, &out->io);
	writer_begin_probe(out); /* one may have been due */
}

/* A task that lacks bytes waits for space again. An agent of an earlier version names a position
 * behind the end for one that lacks none. */
static int writer_restore_out(struct stdin_writer *writer, const json_t *object)
{
	int64_t at = json_get_int(object, "at", 0), end = backlog_end(writer->backlog);
	int fd = handover_get_fd(object, "fd"), r;
	struct writer_out *out;

	if (fd < 0)
		return -EPROTO;
	r = stdin_writer_add_take(writer, fd, (uint32_t)json_get_int(object, "rank", UINT32_MAX));
	if (r < 0)
		return r;
	out = writer->outs;
	if (json_object_get(object, "pty"))
		writer_restore_pty(out, object);
	if (at >= end || out->ended)
		return 0;
	out->at = at;
	writer->ready--;
	ev_io_start(writer->loop, &out->io);
	return 0;
}

int stdin_writer_restore(struct ev_loop *loop, const struct log *log, const struct handover *h,
	const json_t *object, const struct stdin_overflow *overflow,
	struct stdin_writer **ret_writer)
{
	_cleanup_stdin_writer_ struct stdin_writer *writer = calloc(1, sizeof(*writer));
	const json_t *outs = json_get_array(object, "outs");
	size_t i;
	int r;

	if (!writer)
		return -ENOMEM;
	writer->own_fd = handover_get_fd(object, "own_fd");
	writer->fd = writer->own_fd >= 0 ? writer->own_fd : handover_get_fd(object, "fd");
	writer->is_socket = json_get_bool(object, "is_socket", false);
	writer_init(writer, loop, log, overflow);
	writer->paused = json_get_bool(object, "paused", false);
	writer->mid_line = json_get_bool(object, "mid_line", false);
	writer->at_end = json_get_bool(object, "at_end", false);
	writer->warned = json_get_bool(object, "warned", false);
	writer->dropped = (uint64_t)json_get_int(object, "dropped", 0);
	writer->started = true;
	r = backlog_restore(&overflow->backlog, h, object, &writer->backlog);
	for (i = 0; r == 0 && i < json_array_size(outs); i++)
		r = writer_restore_out(writer, json_array_get(outs, i));
	if (r == 0 && writer->fd < 0 && writer->open > 0 && !writer->at_end)
		r = -EPROTO;
	if (r < 0)
		return r;
	if (writer->open > 0)
		writer_go_on(writer);
	*ret_writer = take_ptr(writer);
	return 0;
}

struct stdin_writer *stdin_writer_free(struct stdin_writer *writer)
{
	struct writer_out *out;

	if (!writer)
		return NULL;
	ev_io_stop(writer->loop, &writer->io);
	(void)close_fd(writer->own_fd);
	while ((out = writer->outs)) {
		writer->outs = out->next;
		ev_io_stop(writer->loop, &out->io);
		ev_timer_stop(writer->loop, &out->probe);
		(void)close_fd(out->fd);
		free(out);
	}
	(void)backlog_free(writer->backlog);
	free(writer);
	return NULL;
}

/* ---- input from tools ---------------------------------------------------------------------- */

struct toolin_task {
	struct toolin_task *next;
	struct toolin *input;
	uint32_t rank;
	int fd;              /* -1: closed by the task, or the input has ended */
	struct buffer piece; /* not in the pipe yet */
	bool end;            /* an end after it */
	int64_t id;
	ev_io io; /* active while it waits for space */
};

struct toolin {
	struct ev_loop *loop;
	struct toolin_task *tasks;
	toolin_done_fn done; /* may be NULL */
	void *userdata;
};

static void toolin_close_task(struct toolin_task *task)
{
	ev_io_stop(task->input->loop, &task->io);
	task->fd = close_fd(task->fd);
}

/* Writes to the pipe: the number of bytes that it took, or -EPIPE. */
static ssize_t toolin_write_piece(struct toolin_task *task, const char *data, size_t size)
{
	size_t at = 0;
	ssize_t n;

	while (at < size) {
		n = write(task->fd, data + at, size - at);
		if (n < 0 && errno == EAGAIN)
			return (ssize_t)at;
		if (n < 0 && errno != EINTR) {
			toolin_close_task(task);
			return -EPIPE;
		}
		at += n > 0 ? (size_t)n : 0;
	}
	if (task->end)
		toolin_close_task(task);
	return (ssize_t)at;
}

static void toolin_end_piece(struct toolin_task *task, int r)
{
	struct toolin *input = task->input;

	ev_io_stop(input->loop, &task->io);
	buffer_clear(&task->piece);
	if (input->done)
		input->done(input->userdata, task->id, r);
}

static void toolin_on_writable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct toolin_task *task = io->data;
	ssize_t n = toolin_write_piece(task, buffer_bytes(&task->piece), buffer_size(&task->piece));

	if (n > 0)
		buffer_drop(&task->piece, (size_t)n);
	if (n < 0 || buffer_size(&task->piece) == 0)
		toolin_end_piece(task, n < 0 ? (int)n : 0);
}

static struct toolin_task *find_task(const struct toolin *input, uint32_t rank)
{
	struct toolin_task *task = input->tasks;

	while (task && task->rank != rank)
		task = task->next;
	return task;
}

int toolin_find(const struct toolin *input, uint32_t rank)
{
	const struct toolin_task *task = find_task(input, rank);

	return task ? task->fd : -1;
}

void toolin_end(struct toolin *input, uint32_t rank)
{
	struct toolin_task *task = find_task(input, rank);

	if (task && buffer_size(&task->piece) > 0)
		task->end = true;
	else if (task)
		toolin_close_task(task);
}

int toolin_put(
	struct toolin *input, uint32_t rank, int64_t id, const void *data, size_t size, bool end)
{
	struct toolin_task *task = find_task(input, rank);
	ssize_t n;

	assert(size <= TOOLIN_SIZE);
	if (!task)
		return -ESRCH;
	if (task->fd < 0)
		return -EPIPE;
	if (buffer_size(&task->piece) > 0)
		return -EBUSY;
	task->end = end;
	task->id = id;
	n = toolin_write_piece(task, data, size);
	if (n < 0 || (size_t)n == size)
		return n < 0 ? (int)n : 1;
	if (buffer_add(&task->piece, (const char *)data + n, size - (size_t)n) < 0) {
		toolin_close_task(task); /* a hole in the input would be worse */
		return -ENOMEM;
	}
	ev_io_start(input->loop, &task->io);
	return 0;
}

/* ---- life ---------------------------------------------------------------------------------- */

int toolin_new(struct ev_loop *loop, struct toolin **ret_input)
{
	struct toolin *input = calloc(1, sizeof(*input));

	if (!input)
		return -ENOMEM;
	input->loop = loop;
	*ret_input = input;
	return 0;
}

void toolin_on_done(struct toolin *input, toolin_done_fn done, void *userdata)
{
	input->done = done;
	input->userdata = userdata;
}

int toolin_add_take(struct toolin *input, int fd, uint32_t rank)
{
	struct toolin_task *task = calloc(1, sizeof(*task));

	if (!task) {
		(void)close_fd(fd);
		return -ENOMEM;
	}
	*task = (struct toolin_task){.next = input->tasks, .input = input, .rank = rank, .fd = fd};
	ev_io_init(&task->io, toolin_on_writable, fd, EV_WRITE);
	task->io.data = task;
	input->tasks = task;
	return 0;
}

struct toolin *toolin_free(struct toolin *input)
{
	struct toolin_task *task;

	if (!input)
		return NULL;
	while ((task = input->tasks)) {
		input->tasks = task->next;
		toolin_close_task(task);
		if (buffer_size(&task->piece) > 0)
			toolin_end_piece(task, -EPIPE);
		free(task);
	}
	free(input);
	return NULL;
}

/* ---- re-exec ------------------------------------------------------------------------------- */

void toolin_save(const struct toolin *input, struct handover *h, json_t *object)
{
	json_t *tasks = handover_put_array(h, object, "tasks"), *entry;
	const struct toolin_task *task;

	for (task = input->tasks; task; task = task->next) {
		entry = handover_append_object(h, tasks);
		handover_put_int(h, entry, "rank", task->rank);
		handover_put_fd(h, entry, "fd", task->fd);
		if (buffer_size(&task->piece) == 0)
			continue;
		handover_put_bytes(
			h, entry, "bytes", buffer_bytes(&task->piece), buffer_size(&task->piece));
		handover_put_bool(h, entry, "end", task->end);
		handover_put_int(h, entry, "id", task->id);
	}
}

static int toolin_restore_task(struct toolin *input, const struct handover *h, const json_t *object)
{
	struct toolin_task *task;
	const char *bytes;
	size_t size = 0;
	int r = toolin_add_take(
		input, handover_get_fd(object, "fd"), (uint32_t)json_get_int(object, "rank", 0));

	if (r < 0)
		return r;
	task = input->tasks;
	bytes = handover_get_bytes(h, object, "bytes", &size);
	if (!bytes || size == 0)
		return 0;
	if (size > TOOLIN_SIZE || task->fd < 0)
		return -EPROTO;
	if (buffer_add(&task->piece, bytes, size) < 0)
		return -ENOMEM;
	task->end = json_get_bool(object, "end", false);
	task->id = json_get_int(object, "id", 0);
	ev_io_start(input->loop, &task->io);
	return 0;
}

int toolin_restore(struct ev_loop *loop, const struct handover *h, const json_t *object,
	struct toolin **ret_input)
{
	_cleanup_toolin_ struct toolin *input = NULL;
	const json_t *tasks = json_get_array(object, "tasks");
	size_t i;
	int r = toolin_new(loop, &input);

	/* the list has the latest first */
	for (i = json_array_size(tasks); r == 0 && i > 0; i--)
		r = toolin_restore_task(input, h, json_array_get(tasks, i - 1));
	if (r == 0)
		*ret_input = take_ptr(input);
	return r;
}
