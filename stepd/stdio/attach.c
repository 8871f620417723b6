/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/attach.h"

#include <assert.h>
#include <jansson.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "stepd/base/err.h"
#include "stepd/process/process.h"
#include "stepd/snapshot/handover.h"
#include "stepd/stdio/attach_impl.h"
#include "stepd/stdio/attach_wire.h"

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

/* ---- choices ------------------------------------------------------------------------------- */

static int attach_compare_ranks(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

bool attach_has_rank(const uint32_t *ranks, size_t count, uint32_t rank)
{
	return !ranks || bsearch(&rank, ranks, count, sizeof(rank), attach_compare_ranks);
}

static bool client_follows(const struct attach_client *client, const struct attach_stream *s)
{
	return client->streams >> s->stream & 1 &&
		attach_has_rank(client->ranks, client->ranks_count, s->rank);
}

unsigned attach_admit(const struct attach *a, uid_t uid)
{
	unsigned limit = uid == 0 ? ATTACH_CLIENTS_MAX : ATTACH_OTHERS_MAX;

	return a->clients_count < limit ? 0 : limit;
}

/* ---- the end of a client ------------------------------------------------------------------- */

void attach_client_fail(struct attach_client *client)
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
	attach_client_clear_pieces(client);
	TAILQ_REMOVE(&a->clients, client, list);
	TAILQ_INSERT_TAIL(&a->gone, client, list);
	a->clients_count--;
	if (decided && !a->finishing)
		attach_window_lost(a);
}

static void client_free(struct attach_client *client)
{
	struct attach *a = client->attach;

	attach_client_clear_pieces(client);
	ev_io_stop(a->loop, &client->in_io);
	ev_io_stop(a->loop, &client->out_io);
	(void)close_fd(client->fd);
	buffer_clear(&client->rest);
	buffer_clear(&client->in);
	free(client->ranks);
	free(client->position);
	free(client);
}

void attach_reap(struct attach *a)
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
		attach_client_fail(client);
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
		attach_client_fail(client); /* half a record can't be taken back */
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
		attach_client_fail(client);
	if (n <= 0)
		return;
	client->progress = true;
	buffer_drop(&client->rest, (size_t)n);
}

void attach_client_send_unread(struct attach_client *client)
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
		attach_client_fail(client); /* it has all */
}

/* Sends what it can, a record of each stream in turn. */
static void client_serve(struct attach_client *client)
{
	const struct attach *a = client->attach;
	size_t i, idle = 0;

	attach_client_send_unread(client);
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
		.is_terminal = attach_rank_has_terminal(a, rank),
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
			attach_client_fail(client);
	}
	return s;
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
	ev_io_init(&client->in_io, attach_client_on_readable, fd, EV_READ);
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
		attach_client_fail(client);
		attach_reap(a);
		return -ENOMEM;
	}
	client_serve(client);
	if (client->fd >= 0)
		ev_io_start(a->loop, &client->in_io);
	attach_reap(a);
	return 0;
}

static void client_hang_up(struct attach_client *client)
{
	attach_client_read_rest(client);
	attach_client_fail(client);
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
			attach_client_fail(client);
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
		attach_client_clear_pieces(client);
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

static void save_client(const struct attach_client *client, struct handover *h, json_t *object)
{
	handover_put_fd(h, object, "fd", client->fd);
	handover_put_int(h, object, "uid", client->uid);
	handover_put_int(h, object, "streams", client->streams);
	handover_put_bool(h, object, "finished", client->finished);
	if (client->ranks)
		handover_put_bytes(h, object, "ranks", client->ranks,
			client->ranks_count * sizeof(*client->ranks));
	handover_put_bytes(h, object, "positions", client->position,
		client->positions * sizeof(*client->position));
	if (buffer_size(&client->rest) > 0)
		handover_put_bytes(
			h, object, "rest", buffer_bytes(&client->rest), buffer_size(&client->rest));
	attach_client_save_input(client, h, object);
}

void attach_save(const struct attach *a, struct handover *h, json_t *object)
{
	const struct attach_client *client;
	json_t *streams, *clients;
	size_t i;

	attach_inputs_save(a, h, object);
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

static int restore_rest(
	struct attach_client *client, const struct handover *h, const json_t *object)
{
	size_t size = 0;
	const char *bytes = handover_get_bytes(h, object, "rest", &size);

	return bytes ? buffer_add(&client->rest, bytes, size) : 0;
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
	client->finished = json_get_bool(object, "finished", false);
	return client->positions == client->attach->streams_count ? 0 : -EPROTO;
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
		r = restore_rest(client, h, object);
	if (r == 0)
		r = attach_client_restore_input(client, h, object);
	if (r < 0)
		return r;
	client_block(client);
	if (LIST_EMPTY(&client->pieces) && !a->finishing)
		ev_io_start(a->loop, &client->in_io);
	return 0;
}

int attach_restore(struct attach *a, const struct handover *h, const json_t *object,
	void (*done)(void *userdata), void *userdata)
{
	const json_t *streams = json_get_array(object, "streams");
	const json_t *clients = json_get_array(object, "clients");
	size_t i;
	int r;

	a->finishing = json_get_bool(object, "finishing", false);
	a->restored = true;
	r = attach_inputs_restore(a, object);
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
