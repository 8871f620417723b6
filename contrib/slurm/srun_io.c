/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/srun_io.h"

#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/inotify.h>

#include "contrib/slurm/pack.h"
#include "contrib/slurm/unpack.h"

#define HELD_MAX 65536u
/* A last read of what nobody writes to any more: as much as a FIFO holds. */
#define FIFO_MAX (1u << 20)
/* The last messages, for the next sattach. */
#define REPLAY_MAX 128u

struct output {
	struct srun_io *io;
	int fd;       /* -1: it has ended */
	int other_fd; /* of a terminal that the task has not opened yet: its end; else -1 */
	enum io_message_type type;
	uint32_t rank, local_id;
	struct buffer held; /* the beginning of a line, or what srun does not take yet */
	bool silent;        /* no task writes any more, but notes may come */
	ev_io watcher;
};

struct input {
	struct srun_io *io;
	int fd;       /* -1: it has ended */
	bool is_open; /* the task has its end */
	bool at_end;  /* srun has ended it: closed when all is written */
	uint32_t rank;
	struct buffer held;
	ev_io watcher;
};

struct srun_io {
	struct srun_io_options options;
	struct io_client *srun; /* NULL: not yet there, or gone */
	struct io_client *attached[SRUN_IO_ATTACHED_MAX];
	unsigned attached_ids[SRUN_IO_ATTACHED_MAX];
	bool ready[SRUN_IO_ATTACHED_MAX]; /* it gets what all get */
	bool finishing;
	bool blocked; /* an output waits for somebody who takes no more */
	bool was_connected;
	struct buffer replay; /* the last messages, and their sizes by their number */
	uint32_t replay_sizes[REPLAY_MAX + 1];
	uint64_t replay_next, replay_first;
	struct output *outputs;
	uint32_t outputs_count, outputs_open;
	struct input *inputs;
	uint32_t inputs_count;
	int inotify_fd;
	ev_io inotify;
};

static void srun_io_watch(struct srun_io *io);

/* ---- to srun and to those that are attached ------------------------------------------------ */

/* Holds it for the next sattach in place of the oldest one. */
static void replay_add(struct srun_io *io, const struct io_message *m)
{
	struct pack p = {.bytes = io->replay};
	size_t before = buffer_size(&io->replay);

	pack_u16(&p, (uint16_t)m->type);
	pack_u16(&p, (uint16_t)m->rank);
	pack_u16(&p, (uint16_t)m->local_id);
	pack_bytes(&p, m->data, m->size);
	io->replay = p.bytes;
	if (p.failed) { /* without memory there is none */
		buffer_clear(&io->replay);
		io->replay_first = io->replay_next;
		return;
	}
	io->replay_sizes[io->replay_next++ % ARRAY_SIZE(io->replay_sizes)] =
		(uint32_t)(buffer_size(&io->replay) - before);
	if (io->replay_next - io->replay_first > REPLAY_MAX)
		buffer_drop(&io->replay,
			io->replay_sizes[io->replay_first++ % ARRAY_SIZE(io->replay_sizes)]);
}

static void put_message(struct srun_io *io, const struct output *o, const void *data, uint32_t size)
{
	const struct io_message m = {.type = o->type,
		.rank = o->rank,
		.local_id = o->local_id,
		.data = data,
		.size = size};
	size_t i;

	if (io->srun)
		io_client_put(io->srun, &m);
	for (i = 0; i < SRUN_IO_ATTACHED_MAX; i++) {
		if (io->ready[i])
			io_client_put(io->attached[i], &m);
	}
	replay_add(io, &m);
}

/* The client that takes least; without any all is dropped, but for what is held for an sattach. */
static size_t find_pending(const struct srun_io *io)
{
	size_t i, n, most = io->srun ? io_client_get_pending(io->srun) : 0;

	for (i = 0; i < SRUN_IO_ATTACHED_MAX; i++) {
		n = io->ready[i] ? io_client_get_pending(io->attached[i]) : 0;
		most = n > most ? n : most;
	}
	return most;
}

static bool takes_output(const struct srun_io *io)
{
	return io->was_connected && find_pending(io) < IO_PENDING_MAX;
}

static void output_watch(struct output *o)
{
	struct ev_loop *loop = o->io->options.loop;
	bool reads =
		o->fd >= 0 && !o->silent && takes_output(o->io) && buffer_size(&o->held) < HELD_MAX;

	if (reads && !ev_is_active(&o->watcher))
		ev_io_start(loop, &o->watcher);
	else if (!reads)
		ev_io_stop(loop, &o->watcher);
	o->io->blocked |= !reads;
}

/* The next message's size: as many whole lines as there are in one, or without any what fills
 * it; at the end the rest. */
static uint32_t next_size(const struct output *o, bool ended)
{
	size_t size = buffer_size(&o->held);
	uint32_t most = size > IO_MESSAGE_MAX ? IO_MESSAGE_MAX : (uint32_t)size;
	const char *bytes = buffer_bytes(&o->held);
	const char *newline = most ? memrchr(bytes, '\n', most) : NULL;

	if (o->io->options.unbuffered)
		return most;
	if (newline)
		return (uint32_t)(newline - bytes) + 1;
	return ended || size >= IO_MESSAGE_MAX ? most : 0;
}

static void output_send(struct output *o, bool ended)
{
	struct srun_io *io = o->io;
	uint32_t n;

	while (buffer_size(&o->held) > 0 && takes_output(io) && (n = next_size(o, ended)) > 0) {
		put_message(io, o, buffer_bytes(&o->held), n);
		buffer_drop(&o->held, n);
	}
}

static void check_finished(struct srun_io *io)
{
	if (io->finishing && io->outputs_open == 0 && find_pending(io) == 0) {
		io->finishing = false;
		io->options.finished(io->options.userdata);
	}
}

/* The rest, which waits for space like all else, and the end. */
static void output_end(struct output *o)
{
	struct srun_io *io = o->io;

	ev_io_stop(io->options.loop, &o->watcher);
	o->fd = close_fd(o->fd);
	o->other_fd = close_fd(o->other_fd);
	output_send(o, true);
	if (buffer_size(&o->held) > 0) {
		io->blocked = true; /* output_resume() */
		return;
	}
	put_message(io, o, NULL, 0);
	io->outputs_open--;
	o->io = NULL; /* done */
}

static void output_read(struct output *o)
{
	ssize_t n = buffer_read(&o->held, o->fd, HELD_MAX);

	if (n == -EAGAIN || n == -EINTR)
		return;
	o->silent =
		n == 0 && o->io->options.notes_later && o->type == IO_STDERR && o->local_id == 0;
	if (!o->silent && n <= 0) {
		output_end(o);
		return;
	}
	output_send(o, false);
	output_watch(o);
}

static void output_on_io(_unused_ struct ev_loop *loop, ev_io *watcher, _unused_ int revents)
{
	struct output *o = watcher->data;
	struct srun_io *io = o->io;

	assert(io);
	output_read(o);
	srun_io_watch(io);
}

static void output_resume(struct output *o)
{
	if (!o->io)
		return;
	if (o->fd < 0) {
		output_end(o);
		return;
	}
	output_send(o, false);
	output_watch(o);
}

/* Somebody takes something again, or has gone. */
static void resume_outputs(struct srun_io *io)
{
	uint32_t i;

	if (!io->blocked || !io->was_connected || find_pending(io) >= IO_PENDING_LOW)
		return;
	io->blocked = false;
	for (i = 0; i < io->outputs_count; i++) {
		if (takes_output(io))
			output_resume(&io->outputs[i]);
		else
			io->blocked = true;
	}
}

static void put_note(struct srun_io *io, const struct output *o, const char *text, uint32_t size)
{
	uint32_t n;

	for (; size > 0; text += n, size -= n) {
		n = size > IO_MESSAGE_MAX ? IO_MESSAGE_MAX : size;
		put_message(io, o, text, n);
	}
}

static bool has_terminal(const struct srun_io *io)
{
	return io->options.terminal_fd >= 0;
}

bool srun_io_note(struct srun_io *io, const char *text)
{
	const struct output note = {.type = has_terminal(io) ? IO_STDOUT : IO_STDERR,
		.rank = has_terminal(io) ? 0 : io->options.ranks[0]};
	uint32_t size = (uint32_t)strlen(text);

	if ((!io->options.uses[FIFO_STDERR] && !has_terminal(io)) || !io->srun ||
		io_client_has_gone(io->srun))
		return false;
	if (!has_terminal(io)) {
		put_note(io, &note, text, size);
	} else { /* as if it were written there */
		put_note(io, &note, text, size - 1);
		put_note(io, &note, "\r\n", 2);
	}
	srun_io_watch(io);
	return true;
}

/* ---- from srun ----------------------------------------------------------------------------- */

static void input_close(struct input *in)
{
	ev_io_stop(in->io->options.loop, &in->watcher);
	in->fd = close_fd(in->fd);
	buffer_clear(&in->held);
}

static void input_write(struct input *in)
{
	ssize_t n = 0;

	if (in->fd < 0 || !in->is_open)
		return;
	if (buffer_size(&in->held) > 0)
		n = write(in->fd, buffer_bytes(&in->held), buffer_size(&in->held));
	if (n > 0)
		buffer_drop(&in->held, (size_t)n);
	if ((n < 0 && errno != EAGAIN && errno != EINTR) ||
		(in->at_end && buffer_size(&in->held) == 0))
		input_close(in); /* the task has closed it, or this is its end */
	else if (buffer_size(&in->held) > 0 && !ev_is_active(&in->watcher))
		ev_io_start(in->io->options.loop, &in->watcher);
	else if (buffer_size(&in->held) == 0)
		ev_io_stop(in->io->options.loop, &in->watcher);
}

static void input_on_io(_unused_ struct ev_loop *loop, ev_io *watcher, _unused_ int revents)
{
	struct input *in = watcher->data;

	assert(in);
	input_write(in);
	srun_io_watch(in->io);
}

/* The task has opened its end, so that the one that also reads is not needed any more. */
static void input_opened(struct input *in)
{
	int fd;

	if (in->fd < 0 || in->is_open)
		return;
	fd = fifos_open_writer(in->io->options.fifos, in->rank);
	in->fd = close_fd(in->fd);
	if (fd < 0) {
		input_close(in); /* it has closed it, too */
		return;
	}
	in->fd = fd;
	in->is_open = true;
	ev_io_set(&in->watcher, fd, EV_WRITE);
	input_write(in);
}

static struct input *find_input(const struct srun_io *io, uint32_t rank)
{
	uint32_t i;

	for (i = 0; i < io->inputs_count; i++) {
		if (io->inputs[i].rank == rank)
			return &io->inputs[i];
	}
	return NULL;
}

static void on_opened(_unused_ struct ev_loop *loop, ev_io *watcher, _unused_ int revents)
{
	_Alignas(struct inotify_event) char buf[4096];
	const struct inotify_event *event;
	struct srun_io *io = watcher->data;
	struct input *in;
	ssize_t n, at;
	uint32_t rank;

	assert(io);
	n = read(io->inotify_fd, buf, sizeof(buf));
	for (at = 0; at < n; at += (ssize_t)(sizeof(*event) + event->len)) {
		event = (const struct inotify_event *)(buf + at);
		in = event->len && fifos_parse_input(io->options.fifos, event->name, &rank)
			? find_input(io, rank)
			: NULL;
		if (in)
			input_opened(in);
	}
	srun_io_watch(io);
}

static int input_add(struct input *in, const void *data, size_t size)
{
	if (in->fd < 0 || in->at_end)
		return 0; /* nobody reads it */
	in->at_end = size == 0;
	return size ? buffer_add(&in->held, data, size) : 0;
}

static int take_input(
	struct srun_io *io, unsigned type, unsigned rank, const void *data, size_t size)
{
	struct input *in;
	uint32_t i;
	int r = 0;

	if (type == IO_STDIN) {
		in = find_input(io, rank);
		if (!in)
			return io->inputs_count > 0 ? -EBADMSG : 0;
		r = input_add(in, data, size);
		input_write(in);
		return r;
	}
	for (i = 0; r == 0 && i < io->inputs_count; i++) {
		r = input_add(&io->inputs[i], data, size);
		input_write(&io->inputs[i]);
	}
	return r;
}

static int on_message(_unused_ struct io_client *client, const struct io_message *m, void *userdata)
{
	struct srun_io *io = userdata;

	assert(io);
	if (m->type != IO_STDIN && m->type != IO_ALL_STDIN)
		return -EBADMSG;
	return take_input(io, m->type, m->rank, m->data, m->size);
}

/* Whether each task has taken enough of what has come. */
static bool takes_input(const struct srun_io *io)
{
	uint32_t i;

	for (i = 0; i < io->inputs_count; i++) {
		if (buffer_size(&io->inputs[i].held) >= HELD_MAX)
			return false;
	}
	return true;
}

/* ---- the connections ----------------------------------------------------------------------- */

/* srun is gone: the tasks run on, with an end of input, and their output is for those that are
 * attached. */
static void srun_io_lose(struct srun_io *io)
{
	uint32_t i;

	io->srun = io_client_free(io->srun);
	for (i = 0; i < io->inputs_count; i++) {
		if (io->inputs[i].fd >= 0)
			io->inputs[i].at_end = true;
		input_write(&io->inputs[i]);
	}
}

static void drop_gone(struct srun_io *io)
{
	size_t i;

	if (io->srun && io_client_has_gone(io->srun))
		srun_io_lose(io);
	for (i = 0; i < SRUN_IO_ATTACHED_MAX; i++) {
		if (!io->attached[i] || !io_client_has_gone(io->attached[i]))
			continue;
		io->attached[i] = io_client_free(io->attached[i]);
		io->ready[i] = false;
		if (io->outputs_open > 0)
			io->options.detached(io->attached_ids[i], io->options.userdata);
	}
}

/* Behind each event: what it lets go on. */
static void srun_io_watch(struct srun_io *io)
{
	bool reads;
	size_t i;

	resume_outputs(io);
	reads = takes_input(io);
	if (io->srun)
		io_client_watch(io->srun, reads);
	for (i = 0; i < SRUN_IO_ATTACHED_MAX; i++) {
		if (io->attached[i])
			io_client_watch(io->attached[i], reads);
	}
}

static void on_client(_unused_ struct io_client *client, void *userdata)
{
	struct srun_io *io = userdata;

	assert(io);
	drop_gone(io);
	srun_io_watch(io);
	check_finished(io);
}

static uint32_t count_outputs(const struct srun_io *io, enum io_message_type type)
{
	uint32_t i, n = 0;

	for (i = 0; i < io->outputs_count; i++)
		n += io->outputs[i].type == type;
	return n;
}

static void on_srun(struct io_client *client, int r, void *userdata)
{
	struct srun_io *io = userdata;

	assert(io);
	io_client_put_hello(client, count_outputs(io, IO_STDOUT), count_outputs(io, IO_STDERR));
	io->was_connected = true;
	io->options.connected(r, io->options.userdata);
}

static struct io_client_options client_options(struct srun_io *io)
{
	return (struct io_client_options){.loop = io->options.loop,
		.address = io->options.address,
		.version = io->options.version,
		.node_id = io->options.node_id,
		.key = io->options.key,
		.key_size = (uint32_t)io->options.key_size,
		.connected = on_srun,
		.message = on_message,
		.event = on_client,
		.userdata = io};
}

/* ---- sattach ------------------------------------------------------------------------------- */

/* Of the streams of a type: those whose end the client is going to get. */
static uint32_t count_ends(const struct srun_io *io, enum io_message_type type)
{
	struct unpack u = {.data = (const uint8_t *)buffer_bytes(&io->replay),
		.size = buffer_size(&io->replay)};
	uint32_t i, n = 0, size;
	enum io_message_type of;

	for (i = 0; i < io->outputs_count; i++)
		n += io->outputs[i].io && io->outputs[i].type == type;
	while (u.at < u.size) {
		of = (enum io_message_type)unpack_u16(&u);
		(void)unpack_u32(&u); /* rank and local id */
		size = unpack_u32(&u);
		unpack_skip_bytes(&u, size);
		n += of == type && size == 0;
	}
	return n;
}

static void on_attached(struct io_client *client, int r, void *userdata)
{
	struct srun_io *io = userdata;
	size_t i;

	assert(io);
	for (i = 0; r == 0 && i < SRUN_IO_ATTACHED_MAX; i++)
		io->ready[i] |= io->attached[i] == client;
	io_client_put_hello(client, count_ends(io, IO_STDOUT), count_ends(io, IO_STDERR));
	io_client_put_raw(client, buffer_bytes(&io->replay), buffer_size(&io->replay));
	if (io->finishing)
		io_client_finish(client);
}

int srun_io_attach(struct srun_io *io, const struct srun_io_attach *attach, struct err *err)
{
	struct io_client_options options = client_options(io);
	size_t i;

	for (i = 0; i < SRUN_IO_ATTACHED_MAX && io->attached[i]; i++)
		;
	if (i == SRUN_IO_ATTACHED_MAX)
		return err_set_text(err, -EUSERS, "%zu clients are attached already", i);
	options.address = attach->address;
	options.version = attach->version;
	options.node_id = io->options.attach_node_id;
	options.key = attach->key;
	options.key_size = attach->key_size;
	options.patience_s = io->options.patience_s;
	options.connected = on_attached;
	io->attached_ids[i] = attach->id;
	return io_client_new(&options, &io->attached[i], err);
}

/* ---- life ---------------------------------------------------------------------------------- */

/* fd is taken over. */
static void output_init(struct srun_io *io, uint32_t local_id, enum io_message_type type, int fd)
{
	struct output *o = &io->outputs[io->outputs_count++];

	*o = (struct output){.io = io,
		.fd = fd,
		.other_fd = -1,
		.type = type,
		.rank = io->options.ranks[local_id],
		.local_id = local_id};
	ev_io_init(&o->watcher, output_on_io, fd, EV_READ);
	o->watcher.data = o;
	io->outputs_open++;
}

static int add_output(struct srun_io *io, uint32_t local_id, enum fifo_kind kind, struct err *err)
{
	const struct srun_io_options *o = &io->options;
	bool terminal = kind == FIFO_STDOUT && o->unbuffered;
	uint32_t rank = o->ranks[local_id];
	int other = -1,
	    fd = terminal ? fifos_make_terminal(o->fifos, rank, o->uid, &other, err)
			  : fifos_make(o->fifos, kind, rank, o->uid, err);

	if (fd < 0)
		return fd;
	output_init(io, local_id, kind == FIFO_STDOUT ? IO_STDOUT : IO_STDERR, fd);
	io->outputs[io->outputs_count - 1].other_fd = other;
	return 0;
}

/* fd, which may be -1, is taken over. */
static void input_init(struct srun_io *io, uint32_t local_id, int fd)
{
	struct input *in = &io->inputs[io->inputs_count++];

	*in = (struct input){.io = io, .fd = fd, .rank = io->options.ranks[local_id]};
	ev_io_init(&in->watcher, input_on_io, fd, EV_WRITE);
	in->watcher.data = in;
}

static int add_input(struct srun_io *io, uint32_t local_id, struct err *err)
{
	const struct srun_io_options *o = &io->options;
	uint32_t rank = o->ranks[local_id];
	int fd;

	if (o->one_input && rank != o->input_rank)
		return fifos_make_empty(o->fifos, rank, err);
	fd = fifos_make(o->fifos, FIFO_STDIN, rank, o->uid, err);
	if (fd < 0)
		return fd;
	input_init(io, local_id, fd);
	return 0;
}

static int watch_inputs(struct srun_io *io, struct err *err)
{
	io->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (io->inotify_fd < 0 ||
		inotify_add_watch(io->inotify_fd, io->options.fifos->path, IN_OPEN) < 0)
		return err_set(err, -errno, "watch '%s'", io->options.fifos->path);
	ev_io_init(&io->inotify, on_opened, io->inotify_fd, EV_READ);
	io->inotify.data = io;
	ev_io_start(io->options.loop, &io->inotify);
	return 0;
}

static int make_fifos(struct srun_io *io, struct err *err)
{
	const struct srun_io_options *o = &io->options;
	uint32_t i;
	int r = 0;

	for (i = 0; r == 0 && i < o->ntasks; i++) {
		if (o->uses[FIFO_STDIN])
			r = add_input(io, i, err);
		if (r == 0 && o->uses[FIFO_STDOUT])
			r = add_output(io, i, FIFO_STDOUT, err);
		if (r == 0 && o->uses[FIFO_STDERR])
			r = add_output(io, i, FIFO_STDERR, err);
	}
	/* Only now: these opens are not the tasks'. */
	return r == 0 && o->uses[FIFO_STDIN] ? watch_inputs(io, err) : r;
}

/* A descriptor for each direction, so that each has its own end. */
static int use_terminal(struct srun_io *io, struct err *err)
{
	const struct srun_io_options *o = &io->options;
	int out = fcntl(o->terminal_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), in;
	uint32_t first = 0;

	if (out < 0)
		return err_set(err, -errno, "make the step's streams");
	while (first + 1 < o->ntasks && o->ranks[first] != 0)
		first++;
	output_init(io, first, IO_STDOUT, out);
	in = fcntl(o->terminal_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (in < 0)
		return err_set(err, -errno, "make the step's streams");
	input_init(io, first, in);
	return 0;
}

static int make_streams(struct srun_io *io, struct err *err)
{
	const struct srun_io_options *o = &io->options;

	io->outputs = calloc((size_t)o->ntasks * 2, sizeof(*io->outputs));
	io->inputs = calloc(o->ntasks, sizeof(*io->inputs));
	if (!io->outputs || !io->inputs)
		return err_set(err, -ENOMEM, "make the step's streams");
	return has_terminal(io) ? use_terminal(io, err) : make_fifos(io, err);
}

void srun_io_start(struct srun_io *io)
{
	uint32_t i;

	for (i = 0; i < io->outputs_count; i++)
		io->outputs[i].other_fd = close_fd(io->outputs[i].other_fd);
	if (!has_terminal(io))
		return;
	io->inputs[0].is_open = true;
	input_write(&io->inputs[0]);
	srun_io_watch(io);
}

int srun_io_open(const struct srun_io_options *options, struct srun_io **ret_io, struct err *err)
{
	_cleanup_(srun_io_close_p) struct srun_io *io = calloc(1, sizeof(*io));
	struct io_client_options client;
	int r;

	if (!io)
		return err_set(err, -ENOMEM, "make the step's streams");
	assert(options->ntasks > 0 && options->ntasks <= SRUN_IO_TASKS_MAX);
	io->options = *options;
	io->blocked = true; /* until srun is there */
	io->inotify_fd = -1;
	ev_init(&io->inotify, on_opened);
	r = make_streams(io, err);
	client = client_options(io);
	if (r == 0)
		r = io_client_new(&client, &io->srun, err);
	if (r < 0)
		return r;
	*ret_io = take_ptr(io);
	return 0;
}

/* Somebody outside of the step may still have it open: what is there is taken, and no more. */
static void output_drain(struct output *o)
{
	size_t left = FIFO_MAX;
	ssize_t n;

	while (left > 0 && (n = buffer_read(&o->held, o->fd, HELD_MAX)) > 0)
		left -= (size_t)n < left ? (size_t)n : left;
	output_end(o);
}

void srun_io_finish(struct srun_io *io)
{
	uint32_t i;

	io->finishing = true;
	for (i = 0; i < SRUN_IO_ATTACHED_MAX; i++) {
		if (io->attached[i])
			io_client_finish(io->attached[i]);
	}
	for (i = 0; i < io->inputs_count; i++)
		input_close(&io->inputs[i]);
	for (i = 0; i < io->outputs_count; i++) {
		if (io->outputs[i].io && io->outputs[i].fd >= 0)
			output_drain(&io->outputs[i]);
	}
	srun_io_watch(io);
	check_finished(io);
}

struct srun_io *srun_io_close(struct srun_io *io)
{
	uint32_t i;

	if (!io)
		return NULL;
	io_client_drain(io->srun);
	io->srun = io_client_free(io->srun);
	for (i = 0; i < SRUN_IO_ATTACHED_MAX; i++)
		io->attached[i] = io_client_free(io->attached[i]);
	ev_io_stop(io->options.loop, &io->inotify);
	for (i = 0; i < io->inputs_count; i++)
		input_close(&io->inputs[i]);
	for (i = 0; i < io->outputs_count; i++) {
		ev_io_stop(io->options.loop, &io->outputs[i].watcher);
		(void)close_fd(io->outputs[i].fd);
		(void)close_fd(io->outputs[i].other_fd);
		buffer_clear(&io->outputs[i].held);
	}
	free(io->inputs);
	free(io->outputs);
	buffer_clear(&io->replay);
	(void)close_fd(io->inotify_fd);
	free(io);
	return NULL;
}
