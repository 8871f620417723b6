/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/srun_io.h"

#include <assert.h>
#include <ev.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>

#include "contrib/slurm/pack.h"
#include "contrib/slurm/unpack.h"

#define HEADER_SIZE       10u
#define MESSAGE_MAX       1024u /* bytes behind a header */
#define HELD_MAX          65536u
#define TO_SRUN_MAX       (256u << 10)
#define CONNECT_TIMEOUT_S 10.0
#define ALL_RANKS         0xffffu
/* A last read of what nobody writes to any more: as much as a FIFO holds. */
#define FIFO_MAX (1u << 20)

enum message_type {
	MESSAGE_STDIN,
	MESSAGE_STDOUT,
	MESSAGE_STDERR,
	MESSAGE_ALL_STDIN,
	MESSAGE_TEST,
};

struct output {
	struct srun_io *io;
	int fd; /* -1: it has ended */
	enum message_type type;
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
	int fd; /* -1: closed, or gone */
	bool is_connected, finishing;
	ev_io watcher;
	ev_timer timer; /* of the connection */
	struct buffer to_srun, from_srun;
	struct output *outputs;
	uint32_t outputs_count, outputs_open;
	struct input *inputs; /* NULL: none */
	int inotify_fd;
	ev_io inotify;
};

static void srun_io_watch(struct srun_io *io);

/* ---- to srun ------------------------------------------------------------------------------- */

static void srun_io_lose(struct srun_io *io);

static void put_message(struct srun_io *io, const struct output *o, const void *data, uint32_t size)
{
	struct pack p = {.bytes = io->to_srun};

	pack_u16(&p, (uint16_t)o->type);
	pack_u16(&p, (uint16_t)o->rank);
	pack_u16(&p, (uint16_t)o->local_id);
	pack_bytes(&p, data, size);
	io->to_srun = p.bytes;
	if (p.failed)
		srun_io_lose(io); /* half a message would disturb all that follow */
}

static bool takes_output(const struct srun_io *io)
{
	return io->fd < 0 || (io->is_connected && buffer_size(&io->to_srun) < TO_SRUN_MAX);
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
}

/* The next message's size: as many whole lines as there are in one, or without any what fills
 * it; at the end the rest. */
static uint32_t next_size(const struct output *o, bool ended)
{
	size_t size = buffer_size(&o->held);
	uint32_t most = size > MESSAGE_MAX ? MESSAGE_MAX : (uint32_t)size;
	const char *bytes = buffer_bytes(&o->held);
	const char *newline = most ? memrchr(bytes, '\n', most) : NULL;

	if (newline)
		return (uint32_t)(newline - bytes) + 1;
	return ended || size >= MESSAGE_MAX ? most : 0;
}

static void output_send(struct output *o, bool ended)
{
	struct srun_io *io = o->io;
	uint32_t n;

	if (io->fd < 0)
		buffer_clear(&o->held); /* nobody reads it */
	while (buffer_size(&o->held) > 0 && takes_output(io) && (n = next_size(o, ended)) > 0) {
		put_message(io, o, buffer_bytes(&o->held), n);
		buffer_drop(&o->held, n);
	}
}

static void check_finished(struct srun_io *io)
{
	if (io->finishing && io->outputs_open == 0 &&
		(io->fd < 0 || buffer_size(&io->to_srun) == 0)) {
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
	output_send(o, true);
	if (buffer_size(&o->held) > 0)
		return; /* output_resume() */
	if (io->fd >= 0)
		put_message(io, o, NULL, 0);
	io->outputs_open--;
	o->io = NULL; /* done */
}

static void output_read(struct output *o)
{
	char piece[HELD_MAX];
	ssize_t n = read(o->fd, piece, sizeof(piece));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	o->silent = n == 0 && o->io->options.notes_later && o->type == MESSAGE_STDERR &&
		o->local_id == 0;
	if (!o->silent && (n <= 0 || buffer_add(&o->held, piece, (size_t)n) < 0)) {
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

/* srun takes something again, or it is gone. */
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

static void resume_outputs(struct srun_io *io)
{
	uint32_t i;

	for (i = 0; i < io->outputs_count && takes_output(io); i++)
		output_resume(&io->outputs[i]);
	check_finished(io);
}

static void srun_io_send(struct srun_io *io)
{
	ssize_t n = send(io->fd, buffer_bytes(&io->to_srun), buffer_size(&io->to_srun),
		MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		srun_io_lose(io);
		return;
	}
	buffer_drop(&io->to_srun, (size_t)n);
	if (buffer_size(&io->to_srun) < TO_SRUN_MAX / 2)
		resume_outputs(io);
}

bool srun_io_note(struct srun_io *io, const char *text)
{
	const struct output note = {.type = MESSAGE_STDERR, .rank = io->options.ranks[0]};
	uint32_t size = (uint32_t)strlen(text), n;

	if (!io->options.uses[FIFO_STDERR] || io->fd < 0)
		return false;
	for (; size > 0 && io->fd >= 0; text += n, size -= n) {
		n = size > MESSAGE_MAX ? MESSAGE_MAX : size;
		put_message(io, &note, text, n);
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

	for (i = 0; io->inputs && i < io->options.ntasks; i++) {
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
		in = event->len && fifos_parse_input(event->name, &rank) ? find_input(io, rank)
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

	if (type == MESSAGE_STDIN) {
		in = find_input(io, rank);
		if (!in)
			return io->inputs ? -EBADMSG : 0;
		r = input_add(in, data, size);
		input_write(in);
		return r;
	}
	for (i = 0; r == 0 && io->inputs && i < io->options.ntasks; i++) {
		r = input_add(&io->inputs[i], data, size);
		input_write(&io->inputs[i]);
	}
	return r;
}

/* Takes the next message: 1; 0: it is not here yet; -EBADMSG. */
static int take_message(struct srun_io *io)
{
	struct unpack u = {.data = (const uint8_t *)buffer_bytes(&io->from_srun),
		.size = buffer_size(&io->from_srun)};
	const struct output test = {.type = MESSAGE_TEST};
	unsigned type, rank;
	uint32_t size;
	int r = 0;

	if (u.size < HEADER_SIZE)
		return 0;
	type = unpack_u16(&u);
	rank = unpack_u16(&u);
	(void)unpack_u16(&u);
	size = unpack_u32(&u);
	if (size > MESSAGE_MAX)
		return -EBADMSG;
	if (u.size - u.at < size)
		return 0;
	if (type == MESSAGE_STDIN || type == MESSAGE_ALL_STDIN)
		r = take_input(io, type, rank, u.data + u.at, size);
	else if (type == MESSAGE_TEST)
		put_message(io, &test, NULL, 0);
	else
		r = -EBADMSG;
	buffer_drop(&io->from_srun, HEADER_SIZE + size);
	return r < 0 ? r : 1;
}

/* Whether each task has taken enough of what has come. */
static bool takes_input(const struct srun_io *io)
{
	uint32_t i;

	for (i = 0; io->inputs && i < io->options.ntasks; i++) {
		if (buffer_size(&io->inputs[i].held) >= HELD_MAX)
			return false;
	}
	return true;
}

static void srun_io_receive(struct srun_io *io)
{
	char piece[16384];
	ssize_t n = recv(io->fd, piece, sizeof(piece), MSG_DONTWAIT);
	int r;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	r = n > 0 ? buffer_add(&io->from_srun, piece, (size_t)n) : -ECONNRESET;
	while (r >= 0 && io->fd >= 0 && (r = take_message(io)) > 0)
		;
	if (r < 0)
		srun_io_lose(io);
}

/* ---- the connection ------------------------------------------------------------------------ */

/* srun is gone: the tasks run on, with an end of input, and their output is read and dropped. */
static void srun_io_lose(struct srun_io *io)
{
	uint32_t i;

	ev_io_stop(io->options.loop, &io->watcher);
	ev_timer_stop(io->options.loop, &io->timer);
	io->fd = close_fd(io->fd);
	buffer_clear(&io->to_srun);
	for (i = 0; io->inputs && i < io->options.ntasks; i++) {
		if (io->inputs[i].fd >= 0)
			io->inputs[i].at_end = true;
		input_write(&io->inputs[i]);
	}
}

static void srun_io_watch(struct srun_io *io)
{
	int events;

	if (io->fd < 0) {
		ev_io_stop(io->options.loop, &io->watcher);
		resume_outputs(io);
		return;
	}
	events = !io->is_connected
		? EV_WRITE
		: (takes_input(io) ? EV_READ : 0) | (buffer_size(&io->to_srun) > 0 ? EV_WRITE : 0);
	if (ev_is_active(&io->watcher) && (io->watcher.events & (EV_READ | EV_WRITE)) == events)
		return;
	ev_io_stop(io->options.loop, &io->watcher);
	ev_io_set(&io->watcher, io->fd, events);
	if (events)
		ev_io_start(io->options.loop, &io->watcher);
}

static int put_hello(struct srun_io *io)
{
	const struct srun_io_options *o = &io->options;
	_cleanup_pack_ struct pack hello = {0};
	struct pack all = {.bytes = io->to_srun};

	pack_u16(&hello, o->version);
	pack_u32(&hello, o->node_id);
	pack_u32(&hello, o->uses[FIFO_STDOUT] ? o->ntasks : 0);
	pack_u32(&hello, o->uses[FIFO_STDERR] ? o->ntasks : 0);
	pack_bytes(&hello, o->key, (uint32_t)o->key_size);
	pack_bytes(&all, buffer_bytes(&hello.bytes), (uint32_t)buffer_size(&hello.bytes));
	io->to_srun = all.bytes;
	return hello.failed || all.failed ? -ENOMEM : 0;
}

static void connection_end(struct srun_io *io, int r)
{
	ev_timer_stop(io->options.loop, &io->timer);
	if (r == 0)
		r = put_hello(io);
	if (r < 0)
		srun_io_lose(io);
	else
		io->is_connected = true;
	io->options.connected(r, io->options.userdata);
}

static void connection_check(struct srun_io *io)
{
	socklen_t size = sizeof(int);
	int error = 0, on = 1;

	if (getsockopt(io->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		error = errno;
	/* Short messages must not wait for each other. */
	(void)setsockopt(io->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	connection_end(io, -error);
}

static void srun_io_on_io(_unused_ struct ev_loop *loop, ev_io *watcher, int revents)
{
	struct srun_io *io = watcher->data;

	assert(io);
	if (!io->is_connected) {
		connection_check(io);
		if (io->fd >= 0)
			resume_outputs(io);
	} else {
		if (revents & EV_READ)
			srun_io_receive(io);
		if (io->fd >= 0 && (revents & EV_WRITE))
			srun_io_send(io);
	}
	srun_io_watch(io);
	check_finished(io);
}

static void srun_io_on_timer(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct srun_io *io = timer->data;

	assert(io);
	connection_end(io, -ETIMEDOUT);
}

static int begin_connection(struct srun_io *io, struct err *err)
{
	const struct sockaddr_in *address = &io->options.address;

	io->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (io->fd < 0)
		return err_set(err, -errno, "connect to srun");
	/* A refusal that is known at once is reported from the loop as well. */
	if (connect(io->fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
		errno != EINPROGRESS)
		ev_timer_set(&io->timer, 0., 0.);
	ev_timer_start(io->options.loop, &io->timer);
	return 0;
}

/* ---- life ---------------------------------------------------------------------------------- */

static int add_output(struct srun_io *io, uint32_t local_id, enum fifo_kind kind, struct err *err)
{
	struct output *o = &io->outputs[io->outputs_count];

	o->fd = fifos_make(
		io->options.fifos, kind, io->options.ranks[local_id], io->options.uid, err);
	if (o->fd < 0)
		return o->fd;
	o->io = io;
	o->type = kind == FIFO_STDOUT ? MESSAGE_STDOUT : MESSAGE_STDERR;
	o->rank = io->options.ranks[local_id];
	o->local_id = local_id;
	ev_io_init(&o->watcher, output_on_io, o->fd, EV_READ);
	o->watcher.data = o;
	io->outputs_count++;
	io->outputs_open++;
	return 0;
}

static int add_input(struct srun_io *io, uint32_t local_id, struct err *err)
{
	struct input *in = &io->inputs[local_id];

	in->io = io;
	in->rank = io->options.ranks[local_id];
	ev_init(&in->watcher, input_on_io);
	in->watcher.data = in;
	in->fd = fifos_make(io->options.fifos, FIFO_STDIN, in->rank, io->options.uid, err);
	return in->fd < 0 ? in->fd : 0;
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

static int make_streams(struct srun_io *io, struct err *err)
{
	const struct srun_io_options *o = &io->options;
	uint32_t i;
	int r = 0;

	io->outputs = calloc((size_t)o->ntasks * 2, sizeof(*io->outputs));
	io->inputs = o->uses[FIFO_STDIN] ? calloc(o->ntasks, sizeof(*io->inputs)) : NULL;
	if (!io->outputs || (o->uses[FIFO_STDIN] && !io->inputs))
		return err_set(err, -ENOMEM, "make the step's streams");
	for (i = 0; io->inputs && i < o->ntasks; i++)
		io->inputs[i] = (struct input){.io = io, .fd = -1};
	for (i = 0; r == 0 && i < o->ntasks; i++) {
		if (io->inputs)
			r = add_input(io, i, err);
		if (r == 0 && o->uses[FIFO_STDOUT])
			r = add_output(io, i, FIFO_STDOUT, err);
		if (r == 0 && o->uses[FIFO_STDERR])
			r = add_output(io, i, FIFO_STDERR, err);
	}
	/* Only now: these opens are not the tasks'. */
	return r == 0 && io->inputs ? watch_inputs(io, err) : r;
}

int srun_io_open(const struct srun_io_options *options, struct srun_io **ret_io, struct err *err)
{
	_cleanup_(srun_io_close_p) struct srun_io *io = calloc(1, sizeof(*io));
	int r;

	if (!io)
		return err_set(err, -ENOMEM, "make the step's streams");
	assert(options->ntasks > 0 && options->ntasks <= SRUN_IO_TASKS_MAX);
	io->options = *options;
	io->fd = io->inotify_fd = -1;
	ev_init(&io->watcher, srun_io_on_io);
	io->watcher.data = io;
	ev_init(&io->inotify, on_opened);
	ev_timer_init(&io->timer, srun_io_on_timer, CONNECT_TIMEOUT_S, 0.);
	io->timer.data = io;
	r = make_streams(io, err);
	if (r == 0)
		r = begin_connection(io, err);
	if (r < 0)
		return r;
	srun_io_watch(io);
	*ret_io = take_ptr(io);
	return 0;
}

/* Somebody outside of the step may still have it open: what is there is taken, and no more. */
static void output_drain(struct output *o)
{
	char piece[HELD_MAX];
	size_t left = FIFO_MAX;
	ssize_t n;

	while (left > 0 && (n = read(o->fd, piece, sizeof(piece))) > 0 &&
		buffer_add(&o->held, piece, (size_t)n) == 0)
		left -= (size_t)n < left ? (size_t)n : left;
	output_end(o);
}

void srun_io_finish(struct srun_io *io)
{
	uint32_t i;

	io->finishing = true;
	for (i = 0; io->inputs && i < io->options.ntasks; i++)
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
	ev_io_stop(io->options.loop, &io->watcher);
	ev_timer_stop(io->options.loop, &io->timer);
	ev_io_stop(io->options.loop, &io->inotify);
	for (i = 0; io->inputs && i < io->options.ntasks; i++)
		input_close(&io->inputs[i]);
	for (i = 0; i < io->outputs_count; i++) {
		ev_io_stop(io->options.loop, &io->outputs[i].watcher);
		(void)close_fd(io->outputs[i].fd);
		buffer_clear(&io->outputs[i].held);
	}
	free(io->inputs);
	free(io->outputs);
	buffer_clear(&io->to_srun);
	buffer_clear(&io->from_srun);
	(void)close_fd(io->inotify_fd);
	(void)close_fd(io->fd);
	free(io);
	return NULL;
}
