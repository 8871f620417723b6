/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tasks' streams, as a plugin has them for tools: mpi/link.h, from this side.
 */
#include <assert.h>
#include <string.h>
#include <sys/socket.h>

#include "mpi/serve/serve_impl.h"
#include "stepd/base/base64.h"

#define PACKETS_MOST 32

struct streams {
	struct serve *s;
	int fd; /* -1: nothing is copied */
	ev_io io;
	struct {
		struct link_copy head;
		char data[LINK_COPY_MAX];
	} packet;
};

/* ---- what comes ----------------------------------------------------------------------------- */

static void close_copies(struct streams *streams)
{
	struct serve *s = streams->s;

	if (streams->fd < 0)
		return;
	ev_io_stop(s->loop, &streams->io);
	streams->fd = close_fd(streams->fd);
	if (s->events->output_over)
		s->events->output_over(s->userdata);
	serve_count(s, -1);
}

/* False: there is nothing now, or nothing any more. */
static bool take_packet(struct streams *streams)
{
	const struct link_copy *head = &streams->packet.head;
	struct serve *s = streams->s;
	struct serve_output output;
	ssize_t n;

	do
		n = recv(streams->fd, &streams->packet, sizeof(streams->packet), MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		close_copies(streams);
		return false;
	}
	if ((size_t)n < sizeof(*head))
		return true;
	output = (struct serve_output){
		.rank = head->rank,
		.stream = head->stream,
		.data = streams->packet.data,
		.size = (size_t)n - sizeof(*head),
		.lost = head->lost,
		.end = head->end,
	};
	if (s->events->output)
		s->events->output(s->userdata, &output);
	return true;
}

static void streams_on_readable(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct streams *streams = w->data;
	int i;

	assert(streams);
	for (i = 0; i < PACKETS_MOST && take_packet(streams); i++)
		;
}

void streams_take_copies(struct serve *s, struct link_message *message)
{
	struct streams *streams = s->streams;

	if (message->fds_count < 1)
		return;
	/* The agent has closed its end of the one before. */
	while (streams->fd >= 0 && take_packet(streams))
		;
	close_copies(streams);
	streams->fd = take_fd(&message->fds[0]);
	ev_io_set(&streams->io, streams->fd, EV_READ);
	ev_io_start(s->loop, &streams->io);
	/* Without an agent, what it has left there is still to come. */
	serve_count(s, 1);
}

/* ---- requests ------------------------------------------------------------------------------- */

/* One request to the agent or several, with one answer. */
struct copying {
	serve_done_fn done; /* may be NULL */
	void *userdata;
	unsigned pending;
	bool some;      /* one of them was answered well */
	int r;          /* the first failure */
	struct err err; /* likewise */
};

static void on_copied(void *userdata, int r, const struct err *err)
{
	struct copying *c = userdata;

	if (r < 0 && c->r == 0) {
		c->r = r;
		c->err = *err;
	}
	c->some |= r == 0;
	if (--c->pending > 0)
		return;
	if (c->done && c->some)
		c->done(c->userdata, 0, NULL);
	else if (c->done)
		c->done(c->userdata, c->r, &c->err);
	free(c);
}

/* ranks NULL: all. */
static int request_copy(struct serve *s, const uint32_t *ranks, size_t count, unsigned streams,
	struct copying *c, struct err *err)
{
	json_t *message = json_pack("{s:s, s:i}", "do", "copy", "streams", (int)streams);
	int r;

	c->pending++;
	r = serve_request_take(s, serve_add_ranks_take(message, ranks, count), on_copied, c,
		"copy what tasks write", err);
	if (r < 0)
		c->pending--;
	return r;
}

int serve_copy(struct serve *s, const uint32_t *ranks, size_t count, unsigned streams,
	serve_done_fn done, void *userdata, struct err *err)
{
	struct copying *c = calloc(1, sizeof(*c));
	size_t n, first;
	int r;

	if (!c)
		return err_set(err, -ENOMEM, "copy what tasks write");
	n = !ranks || count < LINK_RANKS_MAX ? count : LINK_RANKS_MAX;
	r = request_copy(s, ranks, n, streams, c, err);
	if (r < 0) {
		free(c);
		return r;
	}
	c->done = done;
	c->userdata = userdata;
	for (first = n; r == 0 && ranks && first < count; first += n) {
		n = count - first < LINK_RANKS_MAX ? count - first : LINK_RANKS_MAX;
		r = request_copy(s, ranks + first, n, streams, c, err);
	}
	if (r < 0 && c->r == 0) { /* those before it are answered */
		c->r = r;
		c->err = *err;
	}
	return 0;
}

int serve_input(struct serve *s, uint32_t rank, const void *data, size_t size, bool end,
	serve_done_fn done, void *userdata, struct err *err)
{
	_cleanup_free_ char *text = malloc(BASE64_SIZE(size) + 1);

	assert(size <= LINK_INPUT_MAX);
	if (!text)
		return err_set(err, -ENOMEM, "write to a task");
	base64_encode(data, size, text);
	return serve_request_take(s,
		json_pack("{s:s, s:I, s:s, s:b}", "do", "input", "rank", (json_int_t)rank, "data",
			text, "end", end),
		done, userdata, "write to a task", err);
}

bool serve_has_output(const struct serve *s)
{
	return s->streams->fd >= 0;
}

/* ---- life ----------------------------------------------------------------------------------- */

struct streams *streams_new(struct serve *s)
{
	struct streams *streams = calloc(1, sizeof(*streams));

	if (!streams)
		return NULL;
	streams->s = s;
	streams->fd = -1;
	ev_init(&streams->io, streams_on_readable);
	streams->io.data = streams;
	return streams;
}

struct streams *streams_free(struct streams *streams)
{
	if (!streams)
		return NULL;
	ev_io_stop(streams->s->loop, &streams->io);
	(void)close_fd(streams->fd);
	free(streams);
	return NULL;
}
