/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/viewer.h"

#include <assert.h>
#include <ctype.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>

#include "stepd/base/buffer.h"
#include "stepd/stdio/attach_wire.h"

#define READ_SIZE    (256u << 10) /* of the channel, at a time */
#define PENDING_MAX  65536u       /* typed bytes that the agent has not taken */
#define TERMINAL_MAX 4096u        /* bytes for a terminal at a time: signals are served between */
#define LABEL_SIZE   16

struct viewer_source {
	struct viewer_source *next;
	struct buffer in;
	bool finished; /* its streams have ended */
	bool unread;   /* no task of it reads input */
};

/* A stream's incomplete line. */
struct line {
	const struct viewer_source *source;
	uint32_t rank, stream;
	struct buffer text; /* at most VIEWER_LINE_MAX */
};

struct view_out {
	int fd;
	const struct line *owner; /* of the incomplete line that was written last */
	struct buffer pending;
};

struct viewer {
	const struct viewer_options *o;
	viewer_send_fn *send;
	void *userdata;
	struct viewer_source *sources;
	struct view_out outs[2];
	struct view_out
		*out_of[2];  /* of standard output and error: the same where they are one file */
	struct line **lines; /* by rank and stream */
	size_t lines_count, lines_capacity;
	bool raw;
	struct termios before;
	sigset_t mask_before;
	int signal_fd;  /* -1: signals have their usual effect */
	int signal;     /* that ends the program */
	size_t matched; /* detach keys that were typed */
	bool in_ended;
	bool begun; /* all sources are there */
	bool over;
	enum viewer_end end;
	struct err *err;
};

/* ---- detach keys --------------------------------------------------------------------------- */

static int key_parse(const char *text, size_t size, char *ret_key)
{
	static const char ctrl[] = "ctrl-";
	const size_t prefix = sizeof(ctrl) - 1;

	if (size == 1 && isalpha((unsigned char)*text)) {
		*ret_key = *text;
		return 0;
	}
	if (size != prefix + 1 || strncmp(text, ctrl, prefix) != 0)
		return -EINVAL;
	text += prefix;
	if (!islower((unsigned char)*text) && (!*text || !strchr("@[\\]^_", *text)))
		return -EINVAL;
	*ret_key = (char)(*text & 0x1f);
	return 0;
}

int detach_keys_parse(const char *text, struct detach_keys *ret_keys, struct err *err)
{
	struct detach_keys keys = {.count = 0};
	const char *at = text;
	size_t size;

	while (*at) {
		size = strcspn(at, ",");
		if (keys.count == DETACH_KEYS_MAX ||
			key_parse(at, size, &keys.bytes[keys.count++]) < 0 ||
			(at[size] && !at[size + 1]))
			return err_set_text(err, -EINVAL,
				"'%.200s' are not keys such as " DETACH_KEYS_USUAL
				": letters, and ctrl- with one of a-z @ [ \\ ] ^ _",
				text);
		at += size + (at[size] == ',');
	}
	*ret_keys = keys;
	return 0;
}

/* ---- the terminal, and signals ------------------------------------------------------------- */

static const int viewer_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};

static void viewer_end(struct viewer *v, enum viewer_end end)
{
	if (!v->over)
		v->end = end;
	v->over = true;
}

static void terminal_make_raw(struct viewer *v)
{
	struct termios raw = v->before;

	cfmakeraw(&raw);
	v->raw = tcsetattr(v->o->in_fd, TCSANOW, &raw) == 0;
}

static void viewer_restore_terminal(struct viewer *v)
{
	if (v->raw)
		(void)tcsetattr(v->o->in_fd, TCSANOW, &v->before); /* EIO: it is gone */
	v->raw = false;
}

static void send_window(struct viewer *v)
{
	struct attach_window window;
	struct winsize size;

	if (ioctl(v->o->in_fd, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0)
		return;
	window = (struct attach_window){.rows = size.ws_row,
		.columns = size.ws_col,
		.x_pixels = size.ws_xpixel,
		.y_pixels = size.ws_ypixel};
	v->send(ATTACH_WINDOW, &window, sizeof(window), v->userdata);
}

/* Where no shell could continue it, the kernel does not stop it. */
static void viewer_stop(struct viewer *v)
{
	sigset_t set;

	viewer_restore_terminal(v);
	(void)sigemptyset(&set); /* neither can fail */
	(void)sigaddset(&set, SIGTSTP);
	(void)raise(SIGTSTP);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL); /* it stops here, until a SIGCONT */
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
}

void viewer_on_signal(struct viewer *v)
{
	struct signalfd_siginfo info;

	if (read(v->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	switch (info.ssi_signo) {
	case SIGTSTP:
		viewer_stop(v);
		break;
	case SIGCONT: /* a shell has set it as it likes */
		break;
	case SIGWINCH:
		send_window(v);
		return;
	default:
		v->signal = (int)info.ssi_signo;
		viewer_end(v, VIEWER_DETACHED);
		return;
	}
	terminal_make_raw(v);
	send_window(v);
}

static void terminal_begin(struct viewer *v)
{
	sigset_t set;
	size_t i;

	if (!v->o->input || !v->o->terminal || tcgetattr(v->o->in_fd, &v->before) < 0)
		return;
	(void)sigemptyset(&set);
	for (i = 0; i < ARRAY_SIZE(viewer_signals); i++)
		(void)sigaddset(&set, viewer_signals[i]);
	v->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (v->signal_fd < 0) {
		(void)err_set(v->err, -errno, "wait for signals");
		viewer_end(v, VIEWER_OUTPUT);
		return;
	}
	(void)sigprocmask(SIG_BLOCK, &set, &v->mask_before);
	terminal_make_raw(v);
	send_window(v);
}

/* A signal that was received ends the program here. */
static void terminal_end(struct viewer *v)
{
	if (v->signal_fd < 0)
		return;
	viewer_restore_terminal(v);
	v->signal_fd = close_fd(v->signal_fd);
	if (v->signal)
		(void)raise(v->signal);
	(void)sigprocmask(SIG_SETMASK, &v->mask_before, NULL);
}

/* ---- output -------------------------------------------------------------------------------- */

/* Until fd takes bytes; false: a signal has ended the viewer. */
static bool await_output(struct viewer *v, int fd)
{
	struct pollfd p[2] = {
		{.fd = fd, .events = POLLOUT}, {.fd = v->signal_fd, .events = POLLIN}};

	while (!v->over) {
		if (poll(p, 2, -1) < 0)
			continue; /* EINTR */
		if (p[1].revents)
			viewer_on_signal(v);
		if (p[0].revents)
			break;
	}
	return !v->over;
}

static void write_all(struct viewer *v, int fd, const char *data, size_t size)
{
	bool served = v->signal_fd >= 0;
	size_t at = 0, most = served ? TERMINAL_MAX : size;
	ssize_t n;

	while (at < size && !v->over) {
		if (served && !await_output(v, fd))
			return;
		n = write(fd, data + at, size - at < most ? size - at : most);
		if (n >= 0) {
			at += (size_t)n;
		} else if (errno == EAGAIN) {
			(void)await_output(v, fd);
		} else if (errno != EINTR) {
			(void)err_set(v->err, -errno, "write the step's output");
			viewer_end(v, VIEWER_OUTPUT);
		}
	}
}

static void view_flush(struct viewer *v, struct view_out *out)
{
	write_all(v, out->fd, buffer_bytes(&out->pending), buffer_size(&out->pending));
	buffer_drop(&out->pending, buffer_size(&out->pending));
}

static void view_put(struct viewer *v, struct view_out *out, const char *data, size_t size)
{
	if (buffer_size(&out->pending) + size > READ_SIZE)
		view_flush(v, out);
	if (buffer_add(&out->pending, data, size) < 0) {
		(void)err_set(v->err, -ENOMEM, "write the step's output");
		viewer_end(v, VIEWER_OUTPUT);
	}
}

/* The terminal is raw, and these bytes are not of one. */
static void view_put_lines(struct viewer *v, struct view_out *out, const char *data, size_t size)
{
	const char *end;

	while ((end = memchr(data, '\n', size))) {
		view_put(v, out, data, (size_t)(end - data));
		view_put(v, out, "\r\n", 2);
		size -= (size_t)(end + 1 - data);
		data = end + 1;
	}
	view_put(v, out, data, size);
}

static void view_text(
	struct viewer *v, struct view_out *out, const char *data, size_t size, bool of_terminal)
{
	if (size == 0)
		return;
	if (v->raw && !of_terminal)
		view_put_lines(v, out, data, size);
	else
		view_put(v, out, data, size);
}

static void view_message(struct viewer *v, const char *text)
{
	struct view_out *out = v->out_of[1];

	if (out->owner)
		view_text(v, out, "\n", 1, false);
	out->owner = NULL;
	view_text(v, out, v->o->program, strlen(v->o->program), false);
	view_text(v, out, ": ", 2, false);
	view_text(v, out, text, strlen(text), false);
	view_text(v, out, "\n", 1, false);
}

/* ---- lines behind labels ------------------------------------------------------------------- */

static int line_compare(const struct line *line, uint32_t rank, uint32_t stream)
{
	if (line->rank != rank)
		return line->rank < rank ? -1 : 1;
	return (line->stream > stream) - (line->stream < stream);
}

/* The place of that line in the array. */
static size_t line_search(const struct viewer *v, uint32_t rank, uint32_t stream)
{
	size_t low = 0, high = v->lines_count, middle;

	while (low < high) {
		middle = (low + high) / 2;
		if (line_compare(v->lines[middle], rank, stream) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct line *line_get(
	struct viewer *v, const struct viewer_source *source, uint32_t rank, uint32_t stream)
{
	size_t at = line_search(v, rank, stream);
	struct line *line = at < v->lines_count ? v->lines[at] : NULL;

	if (line && line_compare(line, rank, stream) == 0)
		return line;
	line = NULL;
	if (array_reserve(v->lines, v->lines_capacity, v->lines_count + 1) == 0)
		line = calloc(1, sizeof(*line));
	if (!line) {
		(void)err_set(v->err, -ENOMEM, "write the step's output");
		viewer_end(v, VIEWER_OUTPUT);
		return NULL;
	}
	*line = (struct line){.source = source, .rank = rank, .stream = stream};
	memmove(&v->lines[at + 1], &v->lines[at], (v->lines_count - at) * sizeof(struct line *));
	v->lines[at] = line;
	v->lines_count++;
	return line;
}

/* Writes what there is of it, and data behind. */
static void line_write(struct viewer *v, struct line *line, const char *data, size_t size,
	bool whole, bool of_terminal)
{
	struct view_out *out = v->out_of[line->stream == STDERR_FILENO];
	char label[LABEL_SIZE];
	int width = snprintf(NULL, 0, "%u", v->o->ntasks ? v->o->ntasks - 1 : 0);

	if (out->owner && out->owner != line)
		view_text(v, out, "\n", 1, false);
	if (out->owner != line) {
		(void)snprintf(label, sizeof(label), "%*u: ", width, line->rank);
		view_text(v, out, label, strlen(label), false);
	}
	view_text(v, out, buffer_bytes(&line->text), buffer_size(&line->text), of_terminal);
	view_text(v, out, data, size, of_terminal);
	buffer_clear(&line->text);
	out->owner = whole ? NULL : line;
}

/* An end that has no newline. */
static void line_end(struct viewer *v, uint32_t rank, uint32_t stream)
{
	size_t at = line_search(v, rank, stream);

	if (at < v->lines_count && line_compare(v->lines[at], rank, stream) == 0 &&
		buffer_size(&v->lines[at]->text) > 0)
		line_write(v, v->lines[at], "", 0, false, true);
}

static void line_add(
	struct viewer *v, struct line *line, const char *data, size_t size, bool of_terminal)
{
	const char *end;
	size_t n;

	while (size > 0 && !v->over) {
		end = memchr(data, '\n', size);
		n = end ? (size_t)(end + 1 - data) : size;
		if (end || buffer_size(&line->text) + n > VIEWER_LINE_MAX) {
			line_write(v, line, data, n, end != NULL, of_terminal);
		} else if (buffer_add(&line->text, data, n) < 0) {
			(void)err_set(v->err, -ENOMEM, "write the step's output");
			viewer_end(v, VIEWER_OUTPUT);
		}
		data += n;
		size -= n;
	}
}

/* ---- records ------------------------------------------------------------------------------- */

static void take_data(struct viewer *v, const struct viewer_source *source,
	const struct attach_head *head, const char *body)
{
	struct line *line;

	if (!v->o->label) {
		view_text(v, v->out_of[head->stream == STDERR_FILENO], body, head->size,
			head->count != 0);
		return;
	}
	line = line_get(v, source, head->rank, head->stream);
	if (line)
		line_add(v, line, body, head->size, head->count != 0);
}

static void take_lost(struct viewer *v, const struct attach_head *head)
{
	char text[160];

	line_end(v, head->rank, head->stream);
	(void)snprintf(text, sizeof(text),
		"rank %u: %llu bytes of its standard %s are missing here: the agent holds no more "
		"of them",
		head->rank, (unsigned long long)head->count,
		head->stream == STDERR_FILENO ? "error" : "output");
	view_message(v, text);
}

/* Once all sources say so. */
static void check_unread(struct viewer *v)
{
	const struct viewer_source *s;

	for (s = v->sources; s && (s->unread || s->finished); s = s->next)
		;
	if (s || !v->begun)
		return;
	view_message(v, "no task reads this input any more");
	v->in_ended |= !v->raw; /* else the detach keys are still read */
}

static void take_finished(struct viewer *v, struct viewer_source *source)
{
	const struct viewer_source *s;

	source->finished = true;
	for (s = v->sources; s && s->finished; s = s->next)
		;
	if (!s && v->begun)
		viewer_end(v, VIEWER_FINISHED);
}

static void take_record(struct viewer *v, struct viewer_source *source,
	const struct attach_head *head, const char *body)
{
	switch (head->kind) {
	case ATTACH_DATA:
		take_data(v, source, head, body);
		break;
	case ATTACH_LOST:
		take_lost(v, head);
		break;
	case ATTACH_END:
		line_end(v, head->rank, head->stream);
		break;
	case ATTACH_UNREAD:
		source->unread = true;
		check_unread(v);
		break;
	case ATTACH_FINISHED:
		take_finished(v, source);
		break;
	default: /* of a later version */
		break;
	}
}

/* An agent would not send a larger record. */
static bool record_is_sane(struct viewer *v, const struct attach_head *head)
{
	if (head->size <= ATTACH_DATA_MAX)
		return true;
	(void)err_set_text(v->err, -EPROTO, "what the agent sends is not understood here");
	viewer_end(v, VIEWER_OUTPUT);
	return false;
}

static void view_flush_all(struct viewer *v)
{
	view_flush(v, &v->outs[0]);
	view_flush(v, &v->outs[1]);
}

static void take_records(struct viewer *v, struct viewer_source *source)
{
	struct attach_head head;

	while (!v->over && !source->finished && buffer_size(&source->in) >= sizeof(head)) {
		memcpy(&head, buffer_bytes(&source->in), sizeof(head));
		if (!record_is_sane(v, &head) ||
			buffer_size(&source->in) < sizeof(head) + head.size)
			break;
		take_record(v, source, &head, buffer_bytes(&source->in) + sizeof(head));
		buffer_drop(&source->in, sizeof(head) + head.size);
	}
	if (!v->over) /* else viewer_write_rest() does it */
		view_flush_all(v);
}

void viewer_feed(struct viewer *v, struct viewer_source *source, const void *bytes, size_t size)
{
	if (v->over)
		return;
	if (buffer_add(&source->in, bytes, size) < 0) {
		(void)err_set(v->err, -ENOMEM, "show the step's streams");
		viewer_end(v, VIEWER_OUTPUT);
		return;
	}
	take_records(v, source);
}

void viewer_end_source(struct viewer *v, struct viewer_source *source)
{
	size_t i;

	buffer_clear(&source->in);
	for (i = 0; i < v->lines_count && !v->over; i++) {
		if (v->lines[i]->source == source)
			line_end(v, v->lines[i]->rank, v->lines[i]->stream);
	}
	if (!v->over)
		view_flush_all(v);
	if (!source->finished)
		take_finished(v, source);
}

bool viewer_source_is_finished(const struct viewer_source *source)
{
	return source->finished;
}

void viewer_message(struct viewer *v, const char *text)
{
	view_message(v, text);
	if (!v->over)
		view_flush_all(v);
}

/* ---- input --------------------------------------------------------------------------------- */

/* Leaves out the detach keys; those of a beginning that goes on otherwise are typed. to has space
 * for DETACH_KEYS_MAX bytes more. Returns the number of bytes in it. */
static size_t filter_keys(struct viewer *v, const char *typed, size_t size, char *to)
{
	const struct detach_keys *keys = &v->o->keys;
	size_t i, n = 0;

	for (i = 0; i < size && !v->over; i++) {
		if (v->matched > 0 && typed[i] != keys->bytes[v->matched]) {
			memcpy(to + n, keys->bytes, v->matched);
			n += v->matched;
			v->matched = 0;
		}
		if (keys->count > 0 && typed[i] == keys->bytes[v->matched])
			v->matched++;
		else
			to[n++] = typed[i];
		if (keys->count > 0 && v->matched == keys->count)
			viewer_end(v, VIEWER_DETACHED);
	}
	return n;
}

void viewer_on_input(struct viewer *v)
{
	char typed[ATTACH_INPUT_MAX - DETACH_KEYS_MAX], kept[ATTACH_INPUT_MAX];
	ssize_t n = read(v->o->in_fd, typed, sizeof(typed));
	size_t size;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 && v->signal_fd >= 0) { /* the terminal is gone */
		viewer_end(v, VIEWER_DETACHED);
		return;
	}
	if (n <= 0) {
		v->in_ended = true;
		v->send(ATTACH_INPUT_END, NULL, 0, v->userdata);
		return;
	}
	if (v->signal_fd < 0) {
		v->send(ATTACH_INPUT, typed, (size_t)n, v->userdata);
		return;
	}
	size = filter_keys(v, typed, (size_t)n, kept);
	if (size > 0)
		v->send(ATTACH_INPUT, kept, size, v->userdata);
}

bool viewer_wants_input(const struct viewer *v, size_t pending)
{
	/* A terminal is read as long as it can be, for the detach keys. */
	return v->o->input && v->begun && !v->over && !v->in_ended &&
		(v->signal_fd >= 0 ? pending < PENDING_MAX : pending == 0);
}

/* ---- life ---------------------------------------------------------------------------------- */

static bool is_same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
		x.st_ino == y.st_ino;
}

struct viewer *viewer_new(
	const struct viewer_options *o, viewer_send_fn *send, void *userdata, struct err *err)
{
	struct viewer *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->o = o;
	v->send = send;
	v->userdata = userdata;
	v->outs[0].fd = o->out_fd;
	v->outs[1].fd = o->err_fd;
	v->out_of[0] = &v->outs[0];
	v->out_of[1] = is_same_file(o->out_fd, o->err_fd) ? &v->outs[0] : &v->outs[1];
	v->signal_fd = -1;
	v->err = err;
	return v;
}

struct viewer_source *viewer_add_source(struct viewer *v, bool reads)
{
	struct viewer_source *source = calloc(1, sizeof(*source));

	if (source) {
		source->unread = !reads;
		source->next = v->sources;
		v->sources = source;
	}
	return source;
}

void viewer_begin(struct viewer *v)
{
	const struct viewer_source *s;

	v->begun = true;
	for (s = v->sources; s && s->finished; s = s->next)
		;
	if (!s) {
		viewer_end(v, VIEWER_FINISHED);
		return;
	}
	terminal_begin(v);
	if (v->o->input)
		check_unread(v);
}

int viewer_signal_fd(const struct viewer *v)
{
	return v->signal_fd;
}

bool viewer_is_over(const struct viewer *v)
{
	return v->over;
}

/* The incomplete lines, whatever the end. */
static void viewer_write_rest(struct viewer *v)
{
	bool over = v->over;
	size_t i;

	v->over = v->end == VIEWER_OUTPUT || v->signal;
	for (i = 0; i < v->lines_count && !v->over; i++)
		line_end(v, v->lines[i]->rank, v->lines[i]->stream);
	view_flush_all(v);
	v->over = over;
}

static void viewer_clear(struct viewer *v)
{
	struct viewer_source *source;
	size_t i;

	for (i = 0; i < v->lines_count; i++) {
		buffer_clear(&v->lines[i]->text);
		free(v->lines[i]);
	}
	free(v->lines);
	while ((source = v->sources)) {
		v->sources = source->next;
		buffer_clear(&source->in);
		free(source);
	}
	buffer_clear(&v->outs[0].pending);
	buffer_clear(&v->outs[1].pending);
}

enum viewer_end viewer_free(struct viewer *v)
{
	enum viewer_end end = v->end;

	viewer_write_rest(v);
	terminal_end(v);
	viewer_clear(v);
	free(v);
	return end;
}

/* ---- one agent ----------------------------------------------------------------------------- */

struct single {
	struct viewer *viewer;
	struct viewer_source *source;
	int channel;
	struct buffer out;
	struct err *err;
};

static void single_send(uint32_t kind, const void *data, size_t size, void *userdata)
{
	const struct attach_head head = {.kind = kind, .size = (uint32_t)size};
	struct single *s = userdata;

	assert(s);
	if (buffer_add(&s->out, &head, sizeof(head)) < 0 || buffer_add(&s->out, data, size) < 0) {
		(void)err_set(s->err, -ENOMEM, "send input to the step");
		viewer_end(s->viewer, VIEWER_OUTPUT);
	}
}

static void channel_on_writable(struct single *s)
{
	ssize_t n = send(s->channel, buffer_bytes(&s->out), buffer_size(&s->out),
		MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n > 0)
		buffer_drop(&s->out, (size_t)n);
	else if (n < 0 && errno != EAGAIN && errno != EINTR)
		buffer_drop(&s->out, buffer_size(&s->out)); /* what it has sent is still read */
}

static void channel_on_readable(struct single *s)
{
	char piece[READ_SIZE];
	ssize_t n = recv(s->channel, piece, sizeof(piece), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		viewer_end(s->viewer, VIEWER_AGENT_GONE);
	else
		viewer_feed(s->viewer, s->source, piece, (size_t)n);
}

static void single_turn(struct single *s)
{
	struct viewer *v = s->viewer;
	size_t pending = buffer_size(&s->out);
	struct pollfd p[] = {
		{.fd = s->channel, .events = (short)(POLLIN | (pending > 0 ? POLLOUT : 0))},
		{.fd = v->signal_fd, .events = POLLIN},
		{.fd = viewer_wants_input(v, pending) ? v->o->in_fd : -1, .events = POLLIN},
	};

	if (poll(p, ARRAY_SIZE(p), -1) < 0)
		return; /* EINTR, or a moment without memory */
	if (p[1].revents)
		viewer_on_signal(v);
	if (p[2].revents && !v->over)
		viewer_on_input(v);
	if (p[0].revents & POLLOUT)
		channel_on_writable(s);
	if (p[0].revents & (POLLIN | POLLHUP | POLLERR) && !v->over)
		channel_on_readable(s);
}

enum viewer_end viewer_run(
	const struct viewer_options *options, int channel, struct buffer *rest, struct err *err)
{
	struct single s = {.channel = channel, .err = err};
	enum viewer_end end;

	s.viewer = viewer_new(options, single_send, &s, err);
	s.source = s.viewer ? viewer_add_source(s.viewer, options->input) : NULL;
	if (!s.source) {
		if (s.viewer)
			(void)viewer_free(s.viewer); /* it has shown nothing */
		(void)err_set(err, -ENOMEM, "show the step's streams");
		return VIEWER_OUTPUT;
	}
	s.source->in = take_struct(*rest);
	viewer_begin(s.viewer);
	take_records(s.viewer, s.source);
	while (!s.viewer->over)
		single_turn(&s);
	if (buffer_size(&s.out) > 0) /* typed before the detach keys */
		channel_on_writable(&s);
	end = viewer_free(s.viewer);
	buffer_clear(&s.out);
	return end;
}
