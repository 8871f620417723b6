/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/relay/channel.h"

#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "stepd/base/base64.h"
#include "stepd/base/buffer.h"
#include "stepd/base/parse.h"
#include "stepd/process/process.h"

#define MARK        "@stepd "
#define READ_SIZE   (128u << 10)
#define STAGE_SIZE  (256u << 10) /* bytes of the pipe for a frame on its way */
#define NODE_MAX    (CHANNEL_ALL - 1)
#define PUSHES      16 /* before other watchers of the loop are served */
#define FRAME_LARGE 32768u
#define PROBE_SIZE  255u /* bytes of all kinds, but for the newline */

/* A frame whose header has come. */
struct frame {
	struct channel_line line; /* the header; its strings are those of the channel's line */
	uint32_t size, left;
	size_t head_size; /* with the newline */
	bool open;        /* its newline has not come */
};

struct channel {
	struct ev_loop *loop;
	int in_fd, out_fd;
	ev_io reads, writes;
	char line[CHANNEL_LINE_MAX + 1]; /* the beginning of one */
	size_t line_size;
	bool cut; /* it is longer than any line of the channel, and was reported in part */
	struct frame frame;
	char fault[160];
	/* What is to be written: the first ahead bytes of out, what is staged, the rest of out. */
	struct buffer out;
	int stage[2]; /* -1: there was none yet */
	size_t staged, ahead;
	const struct channel_events *events;
	void *userdata;
	bool takes_frames, sends_frames;
	bool finished;  /* nothing more is sent */
	bool no_memory; /* for a line: channel_on_writable() ends the channel */
};

/* In place. False: it is foreign. */
static bool channel_parse(char *text, struct channel_line *ret_line)
{
	struct channel_line line = {.node = CHANNEL_ALL};
	char *node, *verb, *rest;

	if (strncmp(text, MARK, strlen(MARK)) != 0)
		return false;
	node = text + strlen(MARK);
	verb = strchr(node, ' ');
	if (!verb || !verb[1] || verb[1] == ' ')
		return false;
	*verb++ = '\0';
	if (strcmp(node, "*") != 0 && parse_u32(node, 0, NODE_MAX, &line.node) < 0) {
		verb[-1] = ' ';
		return false;
	}
	rest = strchr(verb, ' ');
	if (rest)
		*rest++ = '\0';
	line.verb = verb;
	line.text = rest ? rest : verb + strlen(verb);
	*ret_line = line;
	return true;
}

/* ---- reading ------------------------------------------------------------------------------- */

static void channel_drop_queue(struct channel *c)
{
	buffer_clear(&c->out);
	c->stage[0] = close_fd(c->stage[0]);
	c->stage[1] = close_fd(c->stage[1]);
	c->staged = c->ahead = 0;
}

static void channel_end(struct channel *c)
{
	if (c->frame.left > 0 && !*c->fault)
		(void)snprintf(c->fault, sizeof(c->fault),
			"its channel ended in the middle of output: %u of %u bytes are missing",
			c->frame.left, c->frame.size);
	ev_io_stop(c->loop, &c->reads);
	ev_io_stop(c->loop, &c->writes);
	channel_drop_queue(c);
	c->finished = true;
	c->events->end(c->userdata);
}

const char *channel_fault(const struct channel *c)
{
	return *c->fault ? c->fault : NULL;
}

static void fill_probe(char bytes[static PROBE_SIZE])
{
	int i, n = 0;

	for (i = 0; i <= UINT8_MAX; i++) {
		if (i != '\n')
			bytes[n++] = (char)i;
	}
}

/* Whether it is a probe, which has a NUL. */
static bool channel_read_probe(struct channel *c, const char *text, size_t size)
{
	char head[sizeof(MARK "4294967295 probe x")] = "", wanted[PROBE_SIZE];
	struct channel_line line;
	size_t at;

	memcpy(head, text, size < sizeof(head) - 1 ? size : sizeof(head) - 1);
	if (!channel_parse(head, &line) || strcmp(line.verb, "probe") != 0)
		return false;
	at = (size_t)(line.text - head);
	fill_probe(wanted);
	if (c->events->probed)
		c->events->probed(
			size - at == PROBE_SIZE && memcmp(text + at, wanted, PROBE_SIZE) == 0,
			c->userdata);
	return true;
}

static void channel_begin_frame(struct channel *c, const struct channel_line *line)
{
	c->frame = (struct frame){.line = *line, .open = true};
	c->frame.head_size = (size_t)(line->text + strlen(line->text) + 1 - c->line);
	if (parse_u32(line->text + 1, 1, CHANNEL_FRAME_MAX, &c->frame.size) < 0)
		(void)snprintf(c->fault, sizeof(c->fault),
			"its channel is damaged: it announces '%.16s' bytes", line->text + 1);
	c->frame.left = c->frame.size;
	c->frame.line.text += strlen(line->text);
}

static void channel_take_line(struct channel *c, const struct channel_line *line)
{
	if (c->takes_frames && *line->text == '#') {
		channel_begin_frame(c, line);
		return;
	}
	c->frame.size = 0; /* no other follows */
	c->events->line(line, c->userdata);
}

/* text has a NUL behind it. */
static void channel_take_foreign(struct channel *c, const char *text, size_t size)
{
	if (c->events->foreign && size > 0)
		c->events->foreign(text, size, c->userdata);
}

/* A line that is foreign, at least its beginning. Where frames are taken nobody else's lines are
 * passed on: another program may have written without a newline, and what follows is the relay's.
 */
static void channel_split_line(struct channel *c, char *text, size_t size, size_t from)
{
	struct channel_line line;
	char *own = from < size ? text + from : NULL;

	while (own && c->takes_frames) {
		own = memmem(own, (size_t)(text + size - own), MARK, strlen(MARK));
		if (own && strlen(own) == (size_t)(text + size - own) &&
			channel_parse(own, &line)) {
			*own = '\0';
			channel_take_foreign(c, text, (size_t)(own - text));
			channel_take_line(c, &line);
			return;
		}
		own = own ? own + 1 : NULL;
	}
	channel_take_foreign(c, text, size);
}

static void channel_read_line(struct channel *c, char *text, size_t size, bool cut)
{
	struct channel_line line;

	if (!cut && channel_read_probe(c, text, size))
		return;
	if (size > 0 && text[size - 1] == '\r') /* of a launcher with a terminal */
		size--;
	text[size] = '\0';
	if (cut || strlen(text) != size || !channel_parse(text, &line))
		channel_split_line(c, text, size, cut ? 0 : 1);
	else
		channel_take_line(c, &line);
}

/* Where a line of the channel may begin in a foreign one that is too long: size if nowhere. */
static size_t find_mark(const char *text, size_t size)
{
	const char *mark = memmem(text + 1, size - 1, MARK, strlen(MARK));
	size_t tail;

	if (mark)
		return (size_t)(mark - text);
	for (tail = strlen(MARK) - 1; tail > 0; tail--) {
		if (memcmp(text + size - tail, MARK, tail) == 0)
			break;
	}
	return size - tail;
}

/* There is no newline within it. */
static void channel_read_full(struct channel *c)
{
	size_t own = c->takes_frames ? find_mark(c->line, c->line_size) : c->line_size;
	char first = c->line[own];

	c->line[own] = '\0';
	channel_take_foreign(c, c->line, own);
	c->line[own] = first;
	memmove(c->line, c->line + own, c->line_size - own);
	c->line_size -= own;
	c->cut = c->line_size == 0;
}

/* As all that reads: returns how many bytes it has taken. */
static size_t channel_read_text(struct channel *c, const char *bytes, size_t size)
{
	size_t space = sizeof(c->line) - 1 - c->line_size, piece = size < space ? size : space;
	const char *newline = memchr(bytes, '\n', piece);
	size_t line_size;
	bool cut = c->cut;

	if (newline)
		piece = (size_t)(newline - bytes);
	/* A line that fills it has no newline within CHANNEL_LINE_MAX. */
	memcpy(c->line + c->line_size, bytes, piece);
	c->line_size += piece;
	if (newline) {
		line_size = c->line_size;
		c->line_size = 0;
		c->cut = false;
		channel_read_line(c, c->line, line_size, cut);
	} else if (c->line_size == sizeof(c->line) - 1) {
		channel_read_full(c);
	}
	return piece + (newline != NULL);
}

static size_t channel_read_frame(struct channel *c, const char *bytes, size_t size)
{
	struct frame *f = &c->frame;

	if (f->left > 0) {
		f->line.bytes = bytes;
		f->line.bytes_size = size < f->left ? size : f->left;
		f->left -= (uint32_t)f->line.bytes_size;
		c->events->line(&f->line, c->userdata);
		return f->line.bytes_size;
	}
	if (*bytes != '\n')
		(void)snprintf(c->fault, sizeof(c->fault),
			"its channel is damaged: another program has written into its output");
	f->open = false;
	return 1;
}

static void channel_read_bytes(struct channel *c, const char *bytes, size_t size)
{
	size_t n;

	for (; size > 0 && !*c->fault; bytes += n, size -= n)
		n = c->frame.open ? channel_read_frame(c, bytes, size)
				  : channel_read_text(c, bytes, size);
}

/* How much to read. Behind a large frame another one may follow, whose bytes had better stay where
 * they can be taken: no more than a header like its own. */
static size_t count_readable(const struct channel *c)
{
	const struct frame *f = &c->frame;
	size_t size = f->left + f->open + f->head_size;

	if (!c->events->take || f->size < FRAME_LARGE || c->line_size > 0)
		return READ_SIZE;
	return size < READ_SIZE ? size : READ_SIZE;
}

/* False: nothing was taken, it has to be read. */
static bool channel_take(struct channel *c)
{
	size_t taken = 0;

	if (c->frame.left > 0 && c->events->take)
		taken = c->events->take(&c->frame.line, c->in_fd, c->frame.left, c->userdata);
	assert(taken <= c->frame.left);
	c->frame.left -= (uint32_t)taken;
	return taken > 0;
}

static void channel_on_readable(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct channel *c = w->data;
	char bytes[READ_SIZE];
	ssize_t n;

	assert(c);
	if (channel_take(c))
		return;
	n = read(c->in_fd, bytes, count_readable(c));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		channel_read_bytes(c, bytes, (size_t)n);
	if (n <= 0 || *c->fault)
		channel_end(c);
	else
		(void)channel_take(c); /* of a frame whose header has come */
}

void channel_pause(struct channel *c, bool pause)
{
	if (pause)
		ev_io_stop(c->loop, &c->reads);
	else
		ev_io_start(c->loop, &c->reads);
}

/* ---- writing ------------------------------------------------------------------------------- */

static void channel_close_out(struct channel *c)
{
	ev_io_stop(c->loop, &c->writes);
	c->out_fd = close_fd(c->out_fd);
}

/* What of out can be written at once. Relays of one launcher may share a pipe, which divides what
 * is longer than PIPE_BUF where it is nearly full: then whole lines, no more. */
static size_t count_writable(const struct channel *c)
{
	const char *bytes = buffer_bytes(&c->out);
	size_t size = c->staged > 0 ? c->ahead : buffer_size(&c->out);

	if (size <= PIPE_BUF || c->sends_frames)
		return size;
	/* There always is one: a line is much shorter. */
	for (size = PIPE_BUF; size > 1 && bytes[size - 1] != '\n'; size--)
		;
	return size;
}

/* Writes the next bytes: how many, or -1. */
static ssize_t channel_write(struct channel *c)
{
	ssize_t n;

	if (c->staged > 0 && c->ahead == 0) {
		n = splice(c->stage[0], NULL, c->out_fd, NULL, c->staged, SPLICE_F_MOVE);
		c->staged -= n > 0 ? (size_t)n : 0;
		return n;
	}
	n = write(c->out_fd, buffer_bytes(&c->out), count_writable(c));
	if (n > 0) {
		buffer_drop(&c->out, (size_t)n);
		c->ahead -= c->staged > 0 ? (size_t)n : 0;
	}
	return n;
}

/* False: nothing more at the moment. */
static bool channel_push(struct channel *c)
{
	ssize_t n = channel_write(c);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		/* Reads what the other end has written before it was closed. */
		channel_drop_queue(c);
		channel_close_out(c);
		if (c->events->broken)
			c->events->broken(c->userdata);
		return false;
	}
	if (channel_queued(c) > 0)
		return n > 0;
	ev_io_stop(c->loop, &c->writes);
	if (c->finished)
		channel_close_out(c);
	if (c->events->drained)
		c->events->drained(c->userdata);
	return false;
}

static void channel_on_writable(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct channel *c = w->data;
	int i;

	assert(c);
	if (c->no_memory) {
		channel_end(c);
		return;
	}
	for (i = 0; i < PUSHES && channel_push(c); i++)
		; /* the loop comes again */
}

void channel_flush(struct channel *c)
{
	while (c->out_fd >= 0 && channel_queued(c) > 0 && channel_push(c))
		;
}

static bool channel_is_closed(const struct channel *c)
{
	return c->out_fd < 0 || c->finished || c->no_memory;
}

static void channel_enqueue(struct channel *c, const void *bytes, size_t size)
{
	ev_io_start(c->loop, &c->writes);
	if (!c->no_memory && buffer_add(&c->out, bytes, size) < 0) {
		c->no_memory = true;
		ev_feed_event(c->loop, &c->writes, EV_WRITE); /* best effort */
	}
}

/* "@stepd NODE VERB ": its length. */
static size_t format_head(char *line, size_t size, uint32_t node, const char *verb)
{
	int n = node == CHANNEL_ALL ? snprintf(line, size, MARK "* %s ", verb)
				    : snprintf(line, size, MARK "%u %s ", node, verb);

	assert(n > 0 && (size_t)n < size);
	return (size_t)n;
}

void channel_send(struct channel *c, uint32_t node, const char *verb, const char *text)
{
	char line[CHANNEL_LINE_MAX + 1];
	size_t n = format_head(line, sizeof(line), node, verb), size = strlen(text);

	if (channel_is_closed(c))
		return;
	if (size == 0)
		n--; /* without the space */
	assert(n + size < CHANNEL_LINE_MAX);
	memcpy(line + n, text, size);
	line[n + size] = '\n';
	channel_enqueue(c, line, n + size + 1);
}

void channel_sendf(struct channel *c, uint32_t node, const char *verb, const char *fmt, ...)
{
	char text[CHANNEL_LINE_MAX - 64];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	channel_send(c, node, verb, text);
}

void channel_probe(struct channel *c, uint32_t node)
{
	char line[CHANNEL_LINE_MAX];
	size_t n = format_head(line, sizeof(line), node, "probe");

	if (channel_is_closed(c))
		return;
	fill_probe(line + n);
	line[n + PROBE_SIZE] = '\n';
	channel_enqueue(c, line, n + PROBE_SIZE + 1);
}

/* ---- bytes --------------------------------------------------------------------------------- */

/* At once if nothing waits: the rest is queued. */
static void channel_send_frame(
	struct channel *c, uint32_t node, const char *verb, const char *bytes, size_t size)
{
	char head[128], newline = '\n';
	size_t n = format_head(head, sizeof(head), node, verb);
	struct iovec parts[3];
	ssize_t written = 0;
	size_t i;

	n += (size_t)snprintf(head + n, sizeof(head) - n, "#%zu\n", size);
	parts[0] = (struct iovec){.iov_base = head, .iov_len = n};
	parts[1] = (struct iovec){.iov_base = (char *)bytes, .iov_len = size};
	parts[2] = (struct iovec){.iov_base = &newline, .iov_len = 1};
	if (channel_queued(c) == 0)
		written = writev(c->out_fd, parts, ARRAY_SIZE(parts));
	if (written < 0)
		written = 0; /* channel_push() meets the error again */
	for (i = 0; i < ARRAY_SIZE(parts); i++) {
		n = (size_t)written < parts[i].iov_len ? (size_t)written : parts[i].iov_len;
		written -= (ssize_t)n;
		if (n < parts[i].iov_len)
			channel_enqueue(c, (char *)parts[i].iov_base + n, parts[i].iov_len - n);
	}
}

void channel_send_lines(
	struct channel *c, uint32_t node, const char *verb, const char *bytes, size_t size)
{
	char line[CHANNEL_LINE_MAX];
	size_t n = format_head(line, sizeof(line), node, verb), piece, end;

	if (channel_is_closed(c))
		return;
	assert(n + BASE64_SIZE(CHANNEL_PIECE_MAX) < sizeof(line));
	for (; size > 0; size -= piece, bytes += piece) {
		piece = size < CHANNEL_PIECE_MAX ? size : CHANNEL_PIECE_MAX;
		base64_encode(bytes, piece, line + n);
		end = n + BASE64_SIZE(piece);
		line[end] = '\n';
		channel_enqueue(c, line, end + 1);
	}
}

void channel_send_bytes(
	struct channel *c, uint32_t node, const char *verb, const void *bytes, size_t size)
{
	const char *p = bytes;
	size_t piece;

	if (channel_is_closed(c))
		return;
	if (!c->sends_frames) {
		channel_send_lines(c, node, verb, p, size);
		return;
	}
	for (; size > 0; size -= piece, p += piece) {
		piece = size < CHANNEL_FRAME_MAX ? size : CHANNEL_FRAME_MAX;
		channel_send_frame(c, node, verb, p, piece);
	}
}

/* splice() writes into pipes and sockets, without waiting as they don't block. */
static bool channel_has_stage(struct channel *c)
{
	struct stat st;

	if (c->stage[0] >= 0)
		return true;
	if (fstat(c->out_fd, &st) < 0 || !(S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) ||
		stdfd_pipe(true, c->stage) < 0)
		return false;
	(void)fcntl(c->stage[1], F_SETPIPE_SZ, STAGE_SIZE); /* else it is smaller */
	return true;
}

ssize_t channel_send_pipe(struct channel *c, uint32_t node, const char *verb, int pipe_fd)
{
	char head[128];
	size_t size;
	ssize_t n;

	if (!c->sends_frames || channel_is_closed(c) || c->staged > 0 || !channel_has_stage(c))
		return -EOPNOTSUPP;
	/* How much there is, another reader of the pipe could change before it is taken. */
	n = splice(pipe_fd, NULL, c->stage[1], NULL, STAGE_SIZE, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n == 0)
		return 0;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : -EOPNOTSUPP;
	size = format_head(head, sizeof(head), node, verb);
	size += (size_t)snprintf(head + size, sizeof(head) - size, "#%zd\n", n);
	channel_enqueue(c, head, size);
	c->ahead = buffer_size(&c->out);
	c->staged = (size_t)n;
	channel_enqueue(c, "\n", 1);
	while (c->staged > 0 && channel_write(c) > 0)
		; /* an error is met again by channel_push() */
	return n;
}

ssize_t channel_get_bytes(const struct channel_line *line, const char **ret_bytes)
{
	ssize_t n;

	if (line->bytes) {
		*ret_bytes = line->bytes;
		return (ssize_t)line->bytes_size;
	}
	n = base64_decode(line->text, strlen(line->text), line->text);
	if (n >= 0) {
		line->text[n] = '\0';
		*ret_bytes = line->text;
	}
	return n;
}

void channel_send_frames(struct channel *c)
{
	c->sends_frames = true;
}

void channel_take_frames(struct channel *c)
{
	c->takes_frames = true;
}

size_t channel_queued(const struct channel *c)
{
	return buffer_size(&c->out) + c->staged;
}

bool channel_is_full(const struct channel *c)
{
	return c->staged > 0 || buffer_size(&c->out) > CHANNEL_QUEUE_MAX;
}

void channel_finish(struct channel *c)
{
	c->finished = true;
	if (channel_queued(c) == 0 && c->out_fd >= 0)
		channel_close_out(c);
}

/* ---- life ---------------------------------------------------------------------------------- */

int channel_new_take(struct ev_loop *loop, int in_fd, int out_fd,
	const struct channel_events *events, void *userdata, struct channel **ret_channel)
{
	struct channel *c = calloc(1, sizeof(*c));
	int r = c ? stdfd_set_nonblock(in_fd, true) : -ENOMEM;

	if (r == 0)
		r = stdfd_set_nonblock(out_fd, true);
	if (r < 0) {
		free(c);
		(void)close_fd(out_fd);
		(void)close_fd(in_fd);
		return r;
	}
	*c = (struct channel){.loop = loop,
		.in_fd = in_fd,
		.out_fd = out_fd,
		.stage = {-1, -1},
		.events = events,
		.userdata = userdata};
	ev_io_init(&c->reads, channel_on_readable, in_fd, EV_READ);
	c->reads.data = c;
	ev_io_init(&c->writes, channel_on_writable, out_fd, EV_WRITE);
	c->writes.data = c;
	ev_io_start(loop, &c->reads);
	*ret_channel = c;
	return 0;
}

struct channel *channel_free(struct channel *c)
{
	if (!c)
		return NULL;
	ev_io_stop(c->loop, &c->reads);
	channel_close_out(c);
	(void)close_fd(c->in_fd);
	channel_drop_queue(c);
	free(c);
	return NULL;
}
