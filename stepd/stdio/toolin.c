/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/toolin.h"

#include <assert.h>
#include <ev.h>
#include <jansson.h>
#include <unistd.h>

#include "stepd/base/buffer.h"
#include "stepd/snapshot/handover.h"

struct toolin_task {
	struct toolin_task *next;
	struct toolin *input;
	uint32_t rank;
	int fd;              /* -1: it reads no more, or its end has come */
	struct buffer piece; /* what the pipe has not taken yet */
	bool end;            /* behind it */
	int64_t id;
	ev_io io; /* active while it waits for space */
};

struct toolin {
	struct ev_loop *loop;
	struct toolin_task *tasks;
	toolin_done_fn done; /* may be NULL */
	void *userdata;
};

static void close_task(struct toolin_task *task)
{
	ev_io_stop(task->input->loop, &task->io);
	task->fd = close_fd(task->fd);
}

/* How many of the bytes are in the pipe now, or -EPIPE. */
static ssize_t write_piece(struct toolin_task *task, const char *data, size_t size)
{
	size_t at = 0;
	ssize_t n;

	while (at < size) {
		n = write(task->fd, data + at, size - at);
		if (n < 0 && errno == EAGAIN)
			return (ssize_t)at;
		if (n < 0 && errno != EINTR) {
			close_task(task);
			return -EPIPE;
		}
		at += n > 0 ? (size_t)n : 0;
	}
	if (task->end)
		close_task(task);
	return (ssize_t)at;
}

static void end_piece(struct toolin_task *task, int r)
{
	struct toolin *input = task->input;

	ev_io_stop(input->loop, &task->io);
	buffer_clear(&task->piece);
	if (input->done)
		input->done(input->userdata, task->id, r);
}

static void on_writable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct toolin_task *task = io->data;
	ssize_t n = write_piece(task, buffer_bytes(&task->piece), buffer_size(&task->piece));

	if (n > 0)
		buffer_drop(&task->piece, (size_t)n);
	if (n < 0 || buffer_size(&task->piece) == 0)
		end_piece(task, n < 0 ? (int)n : 0);
}

int toolin_put(
	struct toolin *input, uint32_t rank, int64_t id, const void *data, size_t size, bool end)
{
	struct toolin_task *task = input->tasks;
	ssize_t n;

	assert(size <= TOOLIN_SIZE);
	while (task && task->rank != rank)
		task = task->next;
	if (!task)
		return -ESRCH;
	if (task->fd < 0)
		return -EPIPE;
	if (buffer_size(&task->piece) > 0)
		return -EBUSY;
	task->end = end;
	task->id = id;
	n = write_piece(task, data, size);
	if (n < 0 || (size_t)n == size)
		return n < 0 ? (int)n : 1;
	if (buffer_add(&task->piece, (const char *)data + n, size - (size_t)n) < 0) {
		close_task(task); /* a hole in the input would be worse */
		return -ENOMEM;
	}
	ev_io_start(input->loop, &task->io);
	return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

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
	ev_io_init(&task->io, on_writable, fd, EV_WRITE);
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
		close_task(task);
		if (buffer_size(&task->piece) > 0)
			end_piece(task, -EPIPE);
		free(task);
	}
	free(input);
	return NULL;
}

/* ---- a new program --------------------------------------------------------------------------- */

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

static int restore_task(struct toolin *input, const struct handover *h, const json_t *object)
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
		r = restore_task(input, h, json_array_get(tasks, i - 1));
	if (r == 0)
		*ret_input = take_ptr(input);
	return r;
}
