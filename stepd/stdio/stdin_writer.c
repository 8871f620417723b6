/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/stdin_writer.h"

#include <ev.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "stepd/base/log.h"
#include "stepd/process/process.h"
#include "stepd/snapshot/handover.h"

#define STDIN_WRITER_SIZE 65536u

struct writer_out {
	struct writer_out *next;
	struct stdin_writer *writer;
	ev_io io;  /* active while bytes wait for space in the pipe */
	int fd;    /* -1: the task has closed it */
	size_t at; /* of the writer's buffer: what the task has of it */
};

struct stdin_writer {
	struct ev_loop *loop;
	const struct log *log;
	ev_io io; /* active while the next piece is wanted */
	int fd;
	int own_fd; /* fd opened once more, or -1 */
	bool is_socket;
	struct writer_out *outs;
	size_t open;   /* outs with a descriptor */
	size_t behind; /* outs that have not all of the buffer */
	size_t size;
	char buf[STDIN_WRITER_SIZE];
};

static void close_out(struct writer_out *out)
{
	ev_io_stop(out->writer->loop, &out->io);
	out->fd = close_fd(out->fd);
	out->writer->open--;
}

static void end_input(struct stdin_writer *writer)
{
	struct writer_out *out;

	ev_io_stop(writer->loop, &writer->io);
	writer->own_fd = close_fd(writer->own_fd);
	for (out = writer->outs; out; out = out->next) {
		if (out->fd >= 0)
			close_out(out);
	}
}

static void write_out(struct writer_out *out)
{
	struct stdin_writer *writer = out->writer;
	ssize_t n = 0;

	while (out->at < writer->size && n >= 0) {
		n = write(out->fd, writer->buf + out->at, writer->size - out->at);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n > 0)
			out->at += (size_t)n;
	}
	if (n < 0 && errno == EAGAIN) {
		ev_io_start(writer->loop, &out->io);
		return;
	}
	if (n < 0)
		close_out(out); /* EPIPE: it reads no more */
	else
		ev_io_stop(writer->loop, &out->io);
	writer->behind--;
}

/* All have the piece: the next one, or nobody is left to want it. */
static void go_on(struct stdin_writer *writer)
{
	if (writer->open == 0)
		end_input(writer);
	else if (writer->behind == 0)
		ev_io_start(writer->loop, &writer->io);
}

static void on_writable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct writer_out *out = io->data;

	write_out(out);
	go_on(out->writer);
}

/* A terminal's line typed for the shell is not ours: reading it from the background would stop
 * this process, or fail. */
static bool in_background(int fd)
{
	pid_t foreground = tcgetpgrp(fd);

	return foreground > 0 && foreground != getpgrp();
}

static ssize_t read_piece(struct stdin_writer *writer)
{
	if (in_background(writer->fd)) {
		errno = EIO;
		return -1;
	}
	if (writer->is_socket) /* others may read it too */
		return recv(writer->fd, writer->buf, STDIN_WRITER_SIZE, MSG_DONTWAIT);
	return read(writer->fd, writer->buf, STDIN_WRITER_SIZE);
}

static void on_readable(struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct stdin_writer *writer = io->data;
	struct writer_out *out;
	ssize_t n = read_piece(writer);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n < 0 && errno != EIO) /* a terminal that is gone or another's has ended, no more */
		log_warning(writer->log,
			"read the agent's standard input: %s; the tasks' ends here",
			strerror(errno));
	if (n <= 0) {
		end_input(writer);
		return;
	}
	ev_io_stop(loop, io);
	writer->size = (size_t)n;
	writer->behind = writer->open;
	for (out = writer->outs; out; out = out->next) {
		out->at = 0;
		if (out->fd >= 0)
			write_out(out);
	}
	go_on(writer);
}

int stdin_writer_new(
	struct ev_loop *loop, const struct log *log, int fd, struct stdin_writer **ret_writer)
{
	struct stdin_writer *writer = calloc(1, sizeof(*writer));
	struct stat st;
	int own;

	if (!writer)
		return -ENOMEM;
	own = stdfd_reopen(fd, O_RDONLY);
	writer->own_fd = own < 0 ? -1 : own;
	writer->fd = own < 0 ? fd : own;
	writer->is_socket = fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
	writer->loop = loop;
	writer->log = log;
	ev_io_init(&writer->io, on_readable, writer->fd, EV_READ);
	writer->io.data = writer;
	*ret_writer = writer;
	return 0;
}

int stdin_writer_add_take(struct stdin_writer *writer, int fd)
{
	struct writer_out *out = calloc(1, sizeof(*out));

	if (!out) {
		(void)close_fd(fd);
		return -ENOMEM;
	}
	out->fd = fd;
	out->writer = writer;
	ev_io_init(&out->io, on_writable, fd, EV_WRITE);
	out->io.data = out;
	out->next = writer->outs;
	writer->outs = out;
	writer->open++;
	return 0;
}

void stdin_writer_start(struct stdin_writer *writer)
{
	go_on(writer);
}

void stdin_writer_save(const struct stdin_writer *writer, struct handover *h, json_t *object)
{
	json_t *outs = handover_put_array(h, object, "outs"), *out_object;
	const struct writer_out *out;

	handover_put_bool(h, object, "is_socket", writer->is_socket);
	handover_put_fd(h, object, "own_fd", writer->own_fd);
	/* without one of its own it reads what it borrowed */
	handover_put_int(h, object, "fd", writer->own_fd >= 0 ? -1 : writer->fd);
	if (writer->behind > 0)
		handover_put_bytes(h, object, "bytes", writer->buf, writer->size);
	for (out = writer->outs; out; out = out->next) {
		if (out->fd < 0)
			continue;
		out_object = handover_append_object(h, outs);
		handover_put_fd(h, out_object, "fd", out->fd);
		handover_put_int(h, out_object, "at", (int64_t)out->at);
	}
}

/* A task in the middle of a piece waits for space again. */
static int restore_out(struct stdin_writer *writer, const json_t *object)
{
	int64_t at = json_get_int(object, "at", 0);
	int fd = handover_get_fd(object, "fd"), r;

	if (fd < 0 || at < 0)
		return -EPROTO;
	r = stdin_writer_add_take(writer, fd);
	if (r < 0)
		return r;
	writer->outs->at = (size_t)at;
	if (writer->outs->at >= writer->size)
		return 0;
	writer->behind++;
	ev_io_start(writer->loop, &writer->outs->io);
	return 0;
}

int stdin_writer_restore(struct ev_loop *loop, const struct log *log, const struct handover *h,
	const json_t *object, struct stdin_writer **ret_writer)
{
	_cleanup_stdin_writer_ struct stdin_writer *writer = calloc(1, sizeof(*writer));
	const json_t *outs = json_get_array(object, "outs");
	const char *bytes;
	size_t i, size = 0;
	int r = 0;

	if (!writer)
		return -ENOMEM;
	writer->loop = loop;
	writer->log = log;
	writer->own_fd = handover_get_fd(object, "own_fd");
	writer->fd = writer->own_fd >= 0 ? writer->own_fd : handover_get_fd(object, "fd");
	writer->is_socket = json_get_bool(object, "is_socket", false);
	ev_io_init(&writer->io, on_readable, writer->fd, EV_READ);
	writer->io.data = writer;
	bytes = handover_get_bytes(h, object, "bytes", &size);
	if (size > STDIN_WRITER_SIZE || (writer->fd < 0 && json_array_size(outs) > 0))
		return -EPROTO;
	if (bytes)
		memcpy(writer->buf, bytes, size);
	writer->size = size;
	for (i = 0; r == 0 && i < json_array_size(outs); i++)
		r = restore_out(writer, json_array_get(outs, i));
	if (r < 0)
		return r;
	if (writer->open > 0 && writer->behind == 0)
		ev_io_start(loop, &writer->io);
	*ret_writer = take_ptr(writer);
	return 0;
}

struct stdin_writer *stdin_writer_free(struct stdin_writer *writer)
{
	struct writer_out *out;

	if (!writer)
		return NULL;
	end_input(writer);
	while ((out = writer->outs)) {
		writer->outs = out->next;
		free(out);
	}
	free(writer);
	return NULL;
}
