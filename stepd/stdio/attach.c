/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/attach.h"

#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "stepd/base/buffer.h"
#include "stepd/base/err.h"
#include "stepd/process/process.h"
#include "stepd/snapshot/handover.h"
#include "stepd/stdio/attach_wire.h"
#include "stepd/stdio/ring.h"

#define HUPS_PER_TURN 16

/* attach_finish(): the kernel holds so much for a client that is behind; one that takes nothing for
 * that long is given up; and how often all others are waited for. */
#define FINISH_BUFFER_BYTES (1 << 20)
#define FINISH_PATIENCE_S   1.0
#define FINISH_ROUNDS_MAX   5

/* Positions that are none. */
#define NOT_FOLLOWED UINT64_MAX
#define HAS_ENDED    (UINT64_MAX - 1)
#define POSITION_MAX (UINT64_MAX - 2)

struct attach_stream {
	struct attach *attach;
	struct ring ring;
	uint32_t rank;
	int stream;
	bool ended;
	bool is_terminal; /* which has returned the carriage at the ends of lines */
	size_t number;    /* in the array, and of clients' positions */
};

struct attach_input {
	uint32_t rank;
	bool is_terminal, by_default;
};

/* What a rank has not taken yet of the client's first message. */
struct piece {
	LIST_ENTRY(piece) list;
	struct attach_client *client;
	uint32_t rank;
	int fd; /* a copy: the rank's input does not end before it has these bytes */
	size_t at;
	ev_io io;
};

LIST_HEAD(piece_list, piece);

struct attach_client {
	TAILQ_ENTRY(attach_client) list;
	struct attach *attach;
	int fd; /* -1: it is gone, and is about to be freed */
	uid_t uid;
	ev_io in_io, out_io;

	uint32_t *ranks; /* NULL: all */
	size_t ranks_count;
	unsigned streams;   /* as in struct attach_choice */
	uint64_t *position; /* by the streams' numbers */
	size_t positions;
	size_t turn;        /* the stream that is served first */
	bool blocked;       /* its channel is full */
	bool progress;      /* it has taken bytes since the last round of attach_finish() */
	bool finished;      /* it has the last record, but for the rest */
	struct buffer rest; /* of a record of which the channel has taken a part */

	bool takes_input;
	bool unread_due, unread_sent; /* the record ATTACH_UNREAD */
	struct buffer in;             /* received; the first message may wait for ranks */
	struct piece_list pieces;
	bool has_window;
	struct winsize window;
};

TAILQ_HEAD(client_list, attach_client);

struct attach {
	struct ev_loop *loop;
	const struct log *log;
	size_t ring_size;
	struct attach_inputs functions;
	struct attach_stream **streams;
	size_t streams_count, streams_capacity;
	size_t next_known; /* attach_restore(): the stream that is likely added next */
	bool restored;
	struct attach_input *inputs;
	size_t inputs_count, inputs_capacity, terminals_count;
	struct client_list clients, gone; /* the one whose window counts is the first */
	unsigned clients_count;
	int hup_fd; /* an epoll(7) that knows when clients hang up */
	ev_io hup_io;
	bool finishing;
	ev_timer patience;
	unsigned rounds;
	void (*done)(void *userdata); /* NULL: not finishing, or done */
	void *userdata;
};

/* ---- choices ------------------------------------------------------------------------------- */

static int attach_compare_ranks(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static bool has_rank(const uint32_t *ranks, size_t count, uint32_t rank)
{
	return !ranks || bsearch(&rank, ranks, count, sizeof(rank), attach_compare_ranks);
}

static bool client_follows(const struct attach_client *client, const struct attach_stream *s)
{
	return client->streams >> s->stream & 1 &&
		has_rank(client->ranks, client->ranks_count, s->rank);
}

static bool is_chosen(const struct attach_input *input, const uint32_t *ranks, size_t count)
{
	return ranks ? has_rank(ranks, count, input->rank) : input->by_default;
}

static bool client_types_to(const struct attach_client *client, const struct attach_input *input)
{
	return is_chosen(input, client->ranks, client->ranks_count);
}

bool attach_has_input(const struct attach *a, const struct attach_choice *choice)
{
	size_t i = 0;

	while (i < a->inputs_count && !is_chosen(&a->inputs[i], choice->ranks, choice->ranks_count))
		i++;
	return i < a->inputs_count;
}

bool attach_has_terminal(const struct attach *a, const struct attach_choice *choice)
{
	size_t i;

	for (i = 0; i < a->inputs_count; i++) {
		if (a->inputs[i].is_terminal &&
			is_chosen(&a->inputs[i], choice->ranks, choice->ranks_count))
			return true;
	}
	return false;
}

unsigned attach_admit(const struct attach *a, uid_t uid)
{
	unsigned limit = uid == 0 ? ATTACH_CLIENTS_MAX : ATTACH_OTHERS_MAX;

	return a->clients_count < limit ? 0 : limit;
}

/* ---- the end of a client ------------------------------------------------------------------- */

static void piece_free(struct piece *piece)
{
	ev_io_stop(piece->client->attach->loop, &piece->io);
	LIST_REMOVE(piece, list);
	(void)close_fd(piece->fd);
	free(piece);
}

static void client_clear_pieces(struct attach_client *client)
{
	struct piece *piece;

	while ((piece = LIST_FIRST(&client->pieces)))
		piece_free(piece);
}

static void window_apply(struct attach_client *client, bool redraw);

/* The one before decides again, or nobody. */
static void window_lost(struct attach *a)
{
	struct attach_client *client;

	TAILQ_FOREACH(client, &a->clients, list)
	{
		if (client->has_window) {
			window_apply(client, false);
			return;
		}
	}
	a->functions.no_window(a->functions.userdata);
}

/* It is freed by attach_reap(), at the end of the event. */
static void client_fail(struct attach_client *client)
{
	struct attach *a = client->attach;
	bool decided = client->has_window && TAILQ_FIRST(&a->clients) == client;

	if (client->fd < 0)
		return;
	ev_io_stop(a->loop, &client->in_io);
	ev_io_stop(a->loop, &client->out_io);
	/* A child before its exec has a copy, by which the epoll would know it still, and the peer
	 * would not see the end. */
	(void)epoll_ctl(a->hup_fd, EPOLL_CTL_DEL, client->fd, NULL);
	(void)shutdown(client->fd, SHUT_RDWR); /* ENOTCONN: the peer has closed it */
	client->fd = close_fd(client->fd);
	client_clear_pieces(client);
	TAILQ_REMOVE(&a->clients, client, list);
	TAILQ_INSERT_TAIL(&a->gone, client, list);
	a->clients_count--;
	if (decided && !a->finishing)
		window_lost(a);
}

static void client_free(struct attach_client *client)
{
	struct attach *a = client->attach;

	client_clear_pieces(client);
	ev_io_stop(a->loop, &client->in_io);
	ev_io_stop(a->loop, &client->out_io);
	(void)close_fd(client->fd);
	buffer_clear(&client->rest);
	buffer_clear(&client->in);
	free(client->ranks);
	free(client->position);
	free(client);
}

/* At the end of each event: it may call done(), which may free the object. */
static void attach_reap(struct attach *a)
{
	void (*done)(void *userdata) = a->done;
	struct attach_client *client;

	while ((client = TAILQ_FIRST(&a->gone))) {
		TAILQ_REMOVE(&a->gone, client, list);
		client_free(client);
	}
	if (!a->finishing || !done || !TAILQ_EMPTY(&a->clients))
		return;
	ev_timer_stop(a->loop, &a->patience);
	a->done = NULL;
	done(a->userdata);
}

/* ---- output to a client -------------------------------------------------------------------- */

static void client_block(struct attach_client *client)
{
	client->blocked = true;
	ev_io_start(client->attach->loop, &client->out_io);
}

static bool client_keep_rest(
	struct attach_client *client, const struct iovec *iov, size_t count, size_t sent)
{
	size_t i, skip;
	int r = 0;

	for (i = 0; i < count && r == 0; i++) {
		skip = sent < iov[i].iov_len ? sent : iov[i].iov_len;
		sent -= skip;
		r = buffer_add(
			&client->rest, (const char *)iov[i].iov_base + skip, iov[i].iov_len - skip);
	}
	return r == 0;
}

static ssize_t channel_send(int fd, struct iovec *iov, size_t count)
{
	const struct msghdr m = {.msg_iov = iov, .msg_iovlen = count};
	ssize_t n;

	do
		n = sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n;
}

/* body: NULL, or two pieces. True: the record is on its way; false: it is to be sent later, or the
 * client is gone. */
static bool client_send(
	struct attach_client *client, const struct attach_head *head, const struct iovec *body)
{
	struct iovec iov[3] = {
		{.iov_base = (void *)(uintptr_t)head, .iov_len = sizeof(*head)},
		body ? body[0] : (struct iovec){0},
		body ? body[1] : (struct iovec){0},
	};
	ssize_t n = channel_send(client->fd, iov, ARRAY_SIZE(iov));

	if (n < 0 && errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM) {
		client_fail(client);
		return false;
	}
	if (n < 0) {
		client_block(client);
		return false;
	}
	client->progress = true;
	if ((size_t)n == sizeof(*head) + head->size)
		return true;
	if (!client_keep_rest(client, iov, ARRAY_SIZE(iov), (size_t)n))
		client_fail(client); /* half a record can't be taken back */
	else
		client_block(client);
	return true;
}

static bool client_can_send(const struct attach_client *client)
{
	return client->fd >= 0 && !client->blocked;
}

/* One record of the stream. False: it has nothing to send, or it can't be sent now. */
static bool client_send_stream(struct attach_client *client, const struct attach_stream *s)
{
	struct attach_head head = {.rank = s->rank, .stream = (uint32_t)s->stream};
	uint64_t *at = &client->position[s->number];
	struct iovec body[2] = {{0}, {0}};
	uint64_t next = *at;

	if (!client_can_send(client) || next == NOT_FOLLOWED || next == HAS_ENDED)
		return false;
	if (next < s->ring.begin) {
		head.kind = ATTACH_LOST;
		head.count = s->ring.begin - next;
		head.offset = next = s->ring.begin;
	} else if (next < s->ring.end) {
		head.kind = ATTACH_DATA;
		head.offset = next;
		head.count = s->is_terminal;
		head.size = (uint32_t)ring_get(&s->ring, next, ATTACH_DATA_MAX, body);
		next += head.size;
	} else if (s->ended) {
		head.kind = ATTACH_END;
		head.offset = s->ring.end;
		next = HAS_ENDED;
	} else {
		return false;
	}
	if (!client_send(client, &head, body))
		return false;
	*at = next;
	return true;
}

static void client_flush_rest(struct attach_client *client)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buffer_bytes(&client->rest),
		.iov_len = buffer_size(&client->rest)};
	ssize_t n = iov.iov_len > 0 ? channel_send(client->fd, &iov, 1) : 0;

	if (n < 0 && errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM)
		client_fail(client);
	if (n <= 0)
		return;
	client->progress = true;
	buffer_drop(&client->rest, (size_t)n);
}

static void client_send_unread(struct attach_client *client)
{
	const struct attach_head head = {.kind = ATTACH_UNREAD};

	if (!client->unread_due || !client_can_send(client) || !client_send(client, &head, NULL))
		return;
	client->unread_due = false;
	client->unread_sent = true;
}

static void client_send_finished(struct attach_client *client)
{
	const struct attach_head head = {.kind = ATTACH_FINISHED};

	if (client_can_send(client) && !client->finished)
		client->finished = client_send(client, &head, NULL);
	if (client->finished && buffer_size(&client->rest) == 0)
		client_fail(client); /* it has all */
}

/* Sends what it can, a record of each stream in turn. */
static void client_serve(struct attach_client *client)
{
	const struct attach *a = client->attach;
	size_t i, idle = 0;

	client_send_unread(client);
	while (client_can_send(client) && idle < a->streams_count) {
		i = client->turn % a->streams_count;
		client->turn = i + 1;
		idle = client_send_stream(client, a->streams[i]) ? 0 : idle + 1;
	}
	if (a->finishing && client->fd >= 0)
		client_send_finished(client);
}

static void client_go_on(struct attach_client *client)
{
	client_flush_rest(client);
	if (client->fd < 0 || buffer_size(&client->rest) > 0)
		return;
	ev_io_stop(client->attach->loop, &client->out_io);
	client->blocked = false;
	client_serve(client);
}

static void client_on_writable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct attach_client *client = io->data;
	struct attach *a = client->attach;

	client_go_on(client);
	attach_reap(a);
}

/* ---- the tasks' output --------------------------------------------------------------------- */

static void stream_send(struct attach_stream *s)
{
	struct attach_client *client, *next;

	for (client = TAILQ_FIRST(&s->attach->clients); client; client = next) {
		next = TAILQ_NEXT(client, list);
		while (client_send_stream(client, s))
			;
	}
	attach_reap(s->attach);
}

void attach_put(struct attach_stream *s, const void *data, size_t size)
{
	if (!s)
		return;
	ring_put(&s->ring, data, size);
	if (!TAILQ_EMPTY(&s->attach->clients))
		stream_send(s);
}

void attach_end(struct attach_stream *s)
{
	if (!s || s->ended)
		return;
	s->ended = true;
	stream_send(s);
}

static int client_reserve_positions(struct attach_client *client, size_t count)
{
	uint64_t *grown = realloc(client->position, count * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	client->position = grown;
	return 0;
}

/* Of a stream that begins now. */
static int client_add_stream(struct attach_client *client, const struct attach_stream *s)
{
	assert(s->number == client->positions);
	if (client_reserve_positions(client, client->positions + 1) < 0)
		return -ENOMEM;
	client->position[client->positions++] = client_follows(client, s) ? 0 : NOT_FOLLOWED;
	return 0;
}

/* They are added in their former order. */
static struct attach_stream *find_stream(struct attach *a, uint32_t rank, int stream)
{
	struct attach_stream *s;
	size_t i;

	for (i = 0; a->restored && i < a->streams_count; i++) {
		s = a->streams[(a->next_known + i) % a->streams_count];
		if (s->rank == rank && s->stream == stream) {
			a->next_known = s->number + 1;
			return s;
		}
	}
	return NULL;
}

static bool has_terminal(const struct attach *a, uint32_t rank)
{
	size_t i = a->terminals_count > 0 ? 0 : a->inputs_count;

	while (i < a->inputs_count && (a->inputs[i].rank != rank || !a->inputs[i].is_terminal))
		i++;
	return i < a->inputs_count;
}

static struct attach_stream *new_stream(struct attach *a, uint32_t rank, int stream)
{
	struct attach_stream *s = NULL;

	if (array_reserve(a->streams, a->streams_capacity, a->streams_count + 1) == 0)
		s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	*s = (struct attach_stream){.attach = a,
		.ring.size = a->ring_size,
		.rank = rank,
		.stream = stream,
		.is_terminal = has_terminal(a, rank),
		.number = a->streams_count};
	a->streams[a->streams_count++] = s;
	return s;
}

struct attach_stream *attach_add_stream(struct attach *a, uint32_t rank, int stream)
{
	struct attach_stream *s = find_stream(a, rank, stream);
	struct attach_client *client, *next;

	if (s)
		return s;
	s = new_stream(a, rank, stream);
	for (client = TAILQ_FIRST(&a->clients); s && client; client = next) {
		next = TAILQ_NEXT(client, list);
		if (client_add_stream(client, s) < 0)
			client_fail(client);
	}
	return s;
}

/* ---- the clients' windows ------------------------------------------------------------------ */

/* A program that draws does so again when the size changes: where it does not, it does for a
 * moment. */
static void terminal_resize(int fd, const struct winsize *size, bool redraw)
{
	struct winsize now, other = *size;

	if (redraw && ioctl(fd, TIOCGWINSZ, &now) == 0 && now.ws_row == size->ws_row &&
		now.ws_col == size->ws_col) {
		other.ws_row++;
		(void)ioctl(fd, TIOCSWINSZ, &other);
	}
	(void)ioctl(fd, TIOCSWINSZ, size); /* EIO: it is gone */
}

/* The terminals that it types to get its size, until another client's counts. */
static void window_apply(struct attach_client *client, bool redraw)
{
	struct attach *a = client->attach;
	size_t i;
	int fd;

	TAILQ_REMOVE(&a->clients, client, list);
	TAILQ_INSERT_HEAD(&a->clients, client, list);
	for (i = 0; i < a->inputs_count; i++) {
		if (!a->inputs[i].is_terminal || !client_types_to(client, &a->inputs[i]))
			continue;
		fd = a->functions.find(a->inputs[i].rank, a->functions.userdata);
		if (fd >= 0)
			terminal_resize(fd, &client->window, redraw);
	}
}

static void client_set_window(struct attach_client *client, const char *body)
{
	struct attach_window w;
	bool first = !client->has_window;

	memcpy(&w, body, sizeof(w));
	if (w.rows == 0 || w.columns == 0)
		return;
	client->has_window = true;
	client->window = (struct winsize){.ws_row = w.rows,
		.ws_col = w.columns,
		.ws_xpixel = w.x_pixels,
		.ws_ypixel = w.y_pixels};
	window_apply(client, first);
}

/* ---- input from a client ------------------------------------------------------------------- */

static const char *message_body(const struct attach_client *client)
{
	return buffer_bytes(&client->in) + sizeof(struct attach_head);
}

/* Whether there is a whole one; false, too, where it is invalid, and the client is gone then. */
static bool message_get(struct attach_client *client, struct attach_head *ret_head)
{
	bool valid;

	if (client->fd < 0 || buffer_size(&client->in) < sizeof(*ret_head))
		return false;
	memcpy(ret_head, buffer_bytes(&client->in), sizeof(*ret_head));
	switch (ret_head->kind) {
	case ATTACH_INPUT:
		valid = client->takes_input && ret_head->size <= ATTACH_INPUT_MAX;
		break;
	case ATTACH_WINDOW:
		valid = client->takes_input && ret_head->size == sizeof(struct attach_window);
		break;
	case ATTACH_INPUT_END:
		valid = client->takes_input && ret_head->size == 0;
		break;
	default:
		valid = false;
		break;
	}
	if (!valid) {
		log_debug(client->attach->log,
			"an attached client of user %lld sent an invalid record",
			(long long)client->uid);
		client_fail(client);
	}
	return valid && buffer_size(&client->in) >= sizeof(*ret_head) + ret_head->size;
}

/* How many bytes the rank has taken; negative: it takes no more. */
static ssize_t input_write(int fd, const char *data, size_t size)
{
	size_t at = 0;
	ssize_t n;

	while (at < size) {
		n = write(fd, data + at, size - at);
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)at;
}

static void client_run(struct attach_client *client);

static void piece_on_writable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct piece *piece = io->data;
	struct attach_client *client = piece->client;
	struct attach *a = client->attach;
	struct attach_head head;
	ssize_t n;

	memcpy(&head, buffer_bytes(&client->in), sizeof(head));
	n = input_write(piece->fd, message_body(client) + piece->at, head.size - piece->at);
	piece->at += n > 0 ? (size_t)n : 0;
	if (n >= 0 && piece->at < head.size)
		return;
	piece_free(piece);
	if (LIST_EMPTY(&client->pieces)) {
		buffer_drop(&client->in, sizeof(head) + head.size);
		client_run(client);
	}
	attach_reap(a);
}

/* fd is a copy, or -1. */
static int piece_add_take(struct attach_client *client, uint32_t rank, int fd, size_t at)
{
	struct piece *piece = fd < 0 ? NULL : calloc(1, sizeof(*piece));

	if (!piece) {
		(void)close_fd(fd);
		return -ENOMEM;
	}
	*piece = (struct piece){.client = client, .rank = rank, .fd = fd, .at = at};
	LIST_INSERT_HEAD(&client->pieces, piece, list);
	ev_io_init(&piece->io, piece_on_writable, fd, EV_WRITE);
	piece->io.data = piece;
	ev_io_start(client->attach->loop, &piece->io);
	return 0;
}

/* Whether the rank takes input. */
static bool client_type(struct attach_client *client, uint32_t rank, size_t size)
{
	const struct attach_inputs *functions = &client->attach->functions;
	int fd = functions->find(rank, functions->userdata);
	ssize_t n = fd < 0 ? -1 : input_write(fd, message_body(client), size);

	/* A hole in the input would be worse than its end. */
	if (n >= 0 && (size_t)n < size &&
		piece_add_take(
			client, rank, fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), (size_t)n) < 0)
		client_fail(client);
	return n >= 0;
}

static void client_type_to_all(struct attach_client *client, size_t size)
{
	const struct attach *a = client->attach;
	bool is_read = false;
	size_t i;

	if (client->has_window && TAILQ_FIRST(&a->clients) != client)
		window_apply(client, false);
	for (i = 0; i < a->inputs_count && client->fd >= 0; i++) {
		if (client_types_to(client, &a->inputs[i]))
			is_read |= client_type(client, a->inputs[i].rank, size);
	}
	if (is_read || client->fd < 0)
		return;
	client->unread_due = !client->unread_sent;
	client_send_unread(client);
}

static void client_end_input(const struct attach_client *client)
{
	const struct attach *a = client->attach;
	size_t i;

	for (i = 0; i < a->inputs_count; i++) {
		if (client_types_to(client, &a->inputs[i]))
			a->functions.end(a->inputs[i].rank, a->functions.userdata);
	}
}

/* Takes messages, until one waits for a rank. */
static void client_run(struct attach_client *client)
{
	struct attach_head head;

	while (LIST_EMPTY(&client->pieces) && message_get(client, &head)) {
		if (head.kind == ATTACH_INPUT)
			client_type_to_all(client, head.size);
		else if (head.kind == ATTACH_WINDOW)
			client_set_window(client, message_body(client));
		else
			client_end_input(client);
		if (LIST_EMPTY(&client->pieces))
			buffer_drop(&client->in, sizeof(head) + head.size);
	}
	if (client->fd < 0 || !LIST_EMPTY(&client->pieces))
		ev_io_stop(client->attach->loop, &client->in_io);
	else
		ev_io_start(client->attach->loop, &client->in_io);
}

/* One read, and the messages in it. False: there was nothing. */
static bool client_read(struct attach_client *client)
{
	char bytes[sizeof(struct attach_head) + ATTACH_INPUT_MAX];
	ssize_t n = recv(client->fd, bytes, sizeof(bytes) - buffer_size(&client->in), MSG_DONTWAIT);

	if (n == 0) /* it sends no more; when it is gone hup_fd tells */
		ev_io_stop(client->attach->loop, &client->in_io);
	else if (n < 0 && errno != EAGAIN && errno != EINTR)
		client_fail(client);
	else if (n > 0 && buffer_add(&client->in, bytes, (size_t)n) < 0)
		client_fail(client);
	else if (n > 0)
		client_run(client);
	return n > 0;
}

static void client_on_readable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct attach_client *client = io->data;
	struct attach *a = client->attach;

	(void)client_read(client);
	attach_reap(a);
}

/* It is gone. What it sent before still counts, as far as the tasks take it now. */
static void client_hang_up(struct attach_client *client)
{
	while (client->fd >= 0 && LIST_EMPTY(&client->pieces) && client_read(client))
		;
	client_fail(client);
}

int attach_add_input(struct attach *a, uint32_t rank, bool is_terminal, bool by_default)
{
	if (array_reserve(a->inputs, a->inputs_capacity, a->inputs_count + 1) < 0)
		return -ENOMEM;
	a->inputs[a->inputs_count++] = (struct attach_input){
		.rank = rank, .is_terminal = is_terminal, .by_default = by_default};
	a->terminals_count += is_terminal;
	return 0;
}

/* ---- a client comes, and goes -------------------------------------------------------------- */

static struct attach_client *client_new_take(struct attach *a, int fd)
{
	struct attach_client *client = calloc(1, sizeof(*client));
	struct epoll_event event = {.events = 0, .data.ptr = client}; /* EPOLLHUP comes always */

	if (!client || epoll_ctl(a->hup_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
		free(client);
		(void)close_fd(fd);
		return NULL;
	}
	client->attach = a;
	client->fd = fd;
	LIST_INIT(&client->pieces);
	ev_io_init(&client->in_io, client_on_readable, fd, EV_READ);
	ev_io_init(&client->out_io, client_on_writable, fd, EV_WRITE);
	client->in_io.data = client->out_io.data = client;
	TAILQ_INSERT_TAIL(&a->clients, client, list);
	a->clients_count++;
	return client;
}

static uint64_t first_position(const struct attach_stream *s, const struct attach_choice *choice)
{
	switch (choice->from) {
	case ATTACH_FROM_TAIL:
		return s->ring.begin;
	case ATTACH_FROM_OFFSET:
		return choice->offset < POSITION_MAX ? choice->offset : POSITION_MAX;
	default:
		return s->ring.end;
	}
}

static int client_choose(struct attach_client *client, const struct attach_choice *choice)
{
	const struct attach *a = client->attach;
	size_t i;

	client->uid = choice->uid;
	client->streams = choice->streams;
	client->takes_input = choice->input;
	if (choice->ranks) {
		client->ranks_count = choice->ranks_count;
		client->ranks = malloc((choice->ranks_count + 1) * sizeof(*client->ranks));
		if (!client->ranks)
			return -ENOMEM;
		memcpy(client->ranks, choice->ranks, choice->ranks_count * sizeof(*client->ranks));
	}
	if (client_reserve_positions(client, a->streams_count + 1) < 0)
		return -ENOMEM;
	for (i = 0; i < a->streams_count; i++)
		client->position[i] = client_follows(client, a->streams[i])
			? first_position(a->streams[i], choice)
			: NOT_FOLLOWED;
	client->positions = a->streams_count;
	return 0;
}

int attach_client_take(struct attach *a, int fd, const struct attach_choice *choice)
{
	struct attach_client *client;

	if (a->finishing) {
		(void)close_fd(fd);
		return -ESRCH;
	}
	client = client_new_take(a, fd);
	if (!client)
		return -ENOMEM;
	if (client_choose(client, choice) < 0) {
		client_fail(client);
		attach_reap(a);
		return -ENOMEM;
	}
	client_serve(client);
	if (client->fd >= 0)
		ev_io_start(a->loop, &client->in_io);
	attach_reap(a);
	return 0;
}

static void attach_on_hup(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct attach *a = io->data;
	struct epoll_event events[HUPS_PER_TURN];
	int i, n = epoll_wait(a->hup_fd, events, HUPS_PER_TURN, 0);

	for (i = 0; i < n; i++)
		client_hang_up(events[i].data.ptr);
	attach_reap(a);
}

/* ---- the end of the streams ---------------------------------------------------------------- */

static void on_patience(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct attach *a = timer->data;
	struct attach_client *client, *next;

	a->rounds++;
	for (client = TAILQ_FIRST(&a->clients); client; client = next) {
		next = TAILQ_NEXT(client, list);
		if (!client->progress || a->rounds >= FINISH_ROUNDS_MAX)
			client_fail(client);
		client->progress = false;
	}
	attach_reap(a);
}

/* One that is behind, and has what is left in its socket, need not be waited for. */
static void client_grow_buffer(const struct attach_client *client)
{
	const int size = FINISH_BUFFER_BYTES;

	if (setsockopt(client->fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) < 0)
		(void)setsockopt(client->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

void attach_finish(struct attach *a, void (*done)(void *userdata), void *userdata)
{
	struct attach_client *client, *next;
	size_t i;

	assert(done && !a->finishing);
	for (i = 0; i < a->streams_count; i++)
		attach_end(a->streams[i]);
	a->finishing = true;
	a->done = done;
	a->userdata = userdata;
	for (client = TAILQ_FIRST(&a->clients); client; client = next) {
		next = TAILQ_NEXT(client, list);
		client_clear_pieces(client);
		ev_io_stop(a->loop, &client->in_io);
		if (client->blocked)
			client_grow_buffer(client);
		client_go_on(client);
		client->progress = true; /* since now */
	}
	if (!TAILQ_EMPTY(&a->clients)) {
		ev_timer_set(&a->patience, FINISH_PATIENCE_S, FINISH_PATIENCE_S);
		ev_timer_start(a->loop, &a->patience);
	}
	attach_reap(a);
}

/* ---- life ---------------------------------------------------------------------------------- */

int attach_new(struct ev_loop *loop, const struct log *log, size_t ring_size,
	const struct attach_inputs *inputs, struct attach **ret_attach)
{
	struct attach *a = calloc(1, sizeof(*a));
	int fd;

	if (!a)
		return -ENOMEM;
	a->loop = loop;
	a->log = log;
	a->ring_size = ring_size;
	a->functions = *inputs;
	TAILQ_INIT(&a->clients);
	TAILQ_INIT(&a->gone);
	fd = epoll_create1(EPOLL_CLOEXEC);
	fd = fd < 0 ? -errno : stdfd_move_above(fd);
	if (fd < 0) {
		free(a);
		return fd;
	}
	a->hup_fd = fd;
	ev_io_init(&a->hup_io, attach_on_hup, fd, EV_READ);
	ev_timer_init(&a->patience, on_patience, 0., 0.);
	a->hup_io.data = a->patience.data = a;
	ev_io_start(loop, &a->hup_io);
	*ret_attach = a;
	return 0;
}

static void free_clients(struct client_list *clients)
{
	struct attach_client *client;

	while ((client = TAILQ_FIRST(clients))) {
		TAILQ_REMOVE(clients, client, list);
		client_free(client);
	}
}

struct attach *attach_free(struct attach *a)
{
	size_t i;

	if (!a)
		return NULL;
	free_clients(&a->clients);
	free_clients(&a->gone);
	ev_io_stop(a->loop, &a->hup_io);
	ev_timer_stop(a->loop, &a->patience);
	(void)close_fd(a->hup_fd);
	for (i = 0; i < a->streams_count; i++) {
		ring_clear(&a->streams[i]->ring);
		free(a->streams[i]);
	}
	free(a->streams);
	free(a->inputs);
	free(a);
	return NULL;
}

/* ---- re-exec ------------------------------------------------------------------------------- */

static void save_stream(const struct attach_stream *s, struct handover *h, json_t *object)
{
	size_t size = (size_t)(s->ring.end - s->ring.begin);
	_cleanup_free_ char *bytes = malloc(size + 1);
	struct iovec iov[2];

	handover_put_int(h, object, "rank", s->rank);
	handover_put_int(h, object, "stream", s->stream);
	handover_put_bool(h, object, "ended", s->ended);
	handover_put_int(h, object, "end", (int64_t)s->ring.end);
	if (!bytes || size == 0)
		return; /* without memory the clients lose what they have not got */
	(void)ring_get(&s->ring, s->ring.begin, size, iov);
	memcpy(bytes, iov[0].iov_base, iov[0].iov_len);
	memcpy(bytes + iov[0].iov_len, iov[1].iov_base, iov[1].iov_len);
	handover_put_bytes(h, object, "bytes", bytes, size);
}

static void save_pieces(const struct attach_client *client, struct handover *h, json_t *object)
{
	json_t *pieces = handover_put_array(h, object, "pieces"), *entry;
	const struct piece *piece;

	LIST_FOREACH(piece, &client->pieces, list)
	{
		entry = handover_append_object(h, pieces);
		handover_put_int(h, entry, "rank", piece->rank);
		handover_put_fd(h, entry, "fd", piece->fd);
		handover_put_int(h, entry, "at", (int64_t)piece->at);
	}
}

static void save_client(const struct attach_client *client, struct handover *h, json_t *object)
{
	handover_put_fd(h, object, "fd", client->fd);
	handover_put_int(h, object, "uid", client->uid);
	handover_put_int(h, object, "streams", client->streams);
	handover_put_bool(h, object, "input", client->takes_input);
	handover_put_bool(h, object, "unread_due", client->unread_due);
	handover_put_bool(h, object, "unread_sent", client->unread_sent);
	handover_put_bool(h, object, "finished", client->finished);
	if (client->ranks)
		handover_put_bytes(h, object, "ranks", client->ranks,
			client->ranks_count * sizeof(*client->ranks));
	handover_put_bytes(h, object, "positions", client->position,
		client->positions * sizeof(*client->position));
	if (buffer_size(&client->rest) > 0)
		handover_put_bytes(
			h, object, "rest", buffer_bytes(&client->rest), buffer_size(&client->rest));
	if (buffer_size(&client->in) > 0)
		handover_put_bytes(
			h, object, "in", buffer_bytes(&client->in), buffer_size(&client->in));
	if (client->has_window)
		handover_put_bytes(h, object, "window", &client->window, sizeof(client->window));
	save_pieces(client, h, object);
}

void attach_save(const struct attach *a, struct handover *h, json_t *object)
{
	json_t *inputs = handover_put_array(h, object, "inputs"), *streams, *clients, *entry;
	const struct attach_client *client;
	size_t i;

	for (i = 0; i < a->inputs_count; i++) {
		entry = handover_append_object(h, inputs);
		handover_put_int(h, entry, "rank", a->inputs[i].rank);
		handover_put_bool(h, entry, "terminal", a->inputs[i].is_terminal);
		handover_put_bool(h, entry, "default", a->inputs[i].by_default);
	}
	if (handover_is_held(h))
		return; /* clients and what was written end with the agent */
	handover_put_bool(h, object, "finishing", a->finishing);
	handover_put_bool(h, object, "done", a->finishing && !a->done);
	streams = handover_put_array(h, object, "streams");
	for (i = 0; i < a->streams_count; i++)
		save_stream(a->streams[i], h, handover_append_object(h, streams));
	clients = handover_put_array(h, object, "clients");
	TAILQ_FOREACH(client, &a->clients, list)
	{
		save_client(client, h, handover_append_object(h, clients));
	}
}

static int restore_stream(struct attach *a, const struct handover *h, const json_t *object)
{
	struct attach_stream *s = new_stream(a, (uint32_t)json_get_int(object, "rank", 0),
		(int)json_get_int(object, "stream", STDOUT_FILENO));
	const char *bytes;
	size_t size = 0;

	if (!s)
		return -ENOMEM;
	bytes = handover_get_bytes(h, object, "bytes", &size);
	s->ended = json_get_bool(object, "ended", false);
	s->ring.begin = s->ring.end = (uint64_t)json_get_int(object, "end", 0) - size;
	if (bytes && size > 0)
		ring_put(&s->ring, bytes, size);
	return 0;
}

static int restore_input(struct attach *a, const json_t *object)
{
	return attach_add_input(a, (uint32_t)json_get_int(object, "rank", 0),
		json_get_bool(object, "terminal", false), json_get_bool(object, "default", true));
}

static int restore_bytes(
	struct buffer *b, const struct handover *h, const json_t *object, const char *name)
{
	size_t size = 0;
	const char *bytes = handover_get_bytes(h, object, name, &size);

	return bytes ? buffer_add(b, bytes, size) : 0;
}

/* A copy of an array's bytes; NULL: there is none. */
static int restore_array(const struct handover *h, const json_t *object, const char *name,
	void **ret_array, size_t *ret_size)
{
	const char *bytes = handover_get_bytes(h, object, name, ret_size);

	*ret_array = NULL;
	if (!bytes)
		return 0;
	*ret_array = malloc(*ret_size + 1);
	if (!*ret_array)
		return -ENOMEM;
	memcpy(*ret_array, bytes, *ret_size);
	return 0;
}

/* The message that ranks still wait for is the first one, and whole. */
static int restore_pieces(struct attach_client *client, const json_t *pieces)
{
	struct attach_head head = {0};
	const json_t *entry;
	size_t i, at;
	int fd;

	if (buffer_size(&client->in) >= sizeof(head))
		memcpy(&head, buffer_bytes(&client->in), sizeof(head));
	for (i = 0; i < json_array_size(pieces); i++) {
		entry = json_array_get(pieces, i);
		fd = handover_get_fd(entry, "fd");
		at = (size_t)json_get_int(entry, "at", 0);
		if (head.kind != ATTACH_INPUT || at > head.size ||
			buffer_size(&client->in) < sizeof(head) + head.size) {
			(void)close_fd(fd);
			return -EPROTO;
		}
		if (piece_add_take(client, (uint32_t)json_get_int(entry, "rank", 0), fd, at) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int restore_choice(
	struct attach_client *client, const struct handover *h, const json_t *object)
{
	size_t size = 0;
	void *array = NULL;
	int r = restore_array(h, object, "ranks", &array, &size);

	client->ranks = array;
	client->ranks_count = size / sizeof(*client->ranks);
	size = 0;
	if (r == 0)
		r = restore_array(h, object, "positions", &array, &size);
	if (r < 0)
		return r;
	client->position = array;
	client->positions = size / sizeof(*client->position);
	client->uid = (uid_t)json_get_int(object, "uid", 0);
	client->streams = (unsigned)json_get_int(object, "streams", 0);
	client->takes_input = json_get_bool(object, "input", false);
	client->unread_due = json_get_bool(object, "unread_due", false);
	client->unread_sent = json_get_bool(object, "unread_sent", false);
	client->finished = json_get_bool(object, "finished", false);
	return client->positions == client->attach->streams_count ? 0 : -EPROTO;
}

static void restore_window(
	struct attach_client *client, const struct handover *h, const json_t *object)
{
	size_t size = 0;
	const char *bytes = handover_get_bytes(h, object, "window", &size);

	client->has_window = bytes && size == sizeof(client->window);
	if (client->has_window)
		memcpy(&client->window, bytes, size);
}

/* It is served by the loop. */
static int restore_client(struct attach *a, const struct handover *h, const json_t *object)
{
	int fd = handover_get_fd(object, "fd"), r;
	struct attach_client *client = fd < 0 ? NULL : client_new_take(a, fd);

	if (!client)
		return fd < 0 ? -EPROTO : -ENOMEM;
	r = restore_choice(client, h, object);
	if (r == 0)
		r = restore_bytes(&client->rest, h, object, "rest");
	if (r == 0)
		r = restore_bytes(&client->in, h, object, "in");
	if (r == 0)
		r = restore_pieces(client, json_get_array(object, "pieces"));
	if (r < 0)
		return r;
	restore_window(client, h, object);
	client_block(client);
	if (LIST_EMPTY(&client->pieces) && !a->finishing)
		ev_io_start(a->loop, &client->in_io);
	return 0;
}

int attach_restore(struct attach *a, const struct handover *h, const json_t *object,
	void (*done)(void *userdata), void *userdata)
{
	const json_t *streams = json_get_array(object, "streams");
	const json_t *inputs = json_get_array(object, "inputs");
	const json_t *clients = json_get_array(object, "clients");
	size_t i;
	int r = 0;

	a->finishing = json_get_bool(object, "finishing", false);
	a->restored = true;
	for (i = 0; r == 0 && i < json_array_size(inputs); i++)
		r = restore_input(a, json_array_get(inputs, i));
	for (i = 0; r == 0 && i < json_array_size(streams); i++)
		r = restore_stream(a, h, json_array_get(streams, i));
	for (i = 0; r == 0 && i < json_array_size(clients); i++)
		r = restore_client(a, h, json_array_get(clients, i));
	if (r < 0 || !a->finishing)
		return r;
	a->done = json_get_bool(object, "done", false) ? NULL : done;
	a->userdata = userdata;
	if (a->done) {
		ev_timer_set(&a->patience, FINISH_PATIENCE_S, FINISH_PATIENCE_S);
		ev_timer_start(a->loop, &a->patience);
	}
	return 0;
}
