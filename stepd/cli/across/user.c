/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/across/user.h"

#include <assert.h>
#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "stepd/base/clock.h"
#include "stepd/base/proc.h"
#include "stepd/process/process.h"

/* ---- streams ------------------------------------------------------------------------------- */

#define READ_SIZE  65536u
#define FULL_AT    (1u << 20) /* bytes that wait */
#define EMPTY_AT   (256u << 10)
#define STAGE_SIZE (256u << 10) /* of a pipe of our own */
#define MOVE_LEAST 32768u       /* bytes that are worth the system calls */
#define TAIL_SIZE  4096u        /* bytes at the end that are looked through first */
#define PUSHES     8            /* before other watchers of the loop are served */

/* ---- input --------------------------------------------------------------------------------- */

/* Another process group has the terminal whose user types for a task: until a shell gives it back.
 */
static bool input_is_elsewhere(const struct input *in)
{
	pid_t foreground = in->raw ? tcgetpgrp(STDIN_FILENO) : 0;

	return foreground > 0 && foreground != getpgrp();
}

static void on_input_readable(struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct input *in = w->data;
	char bytes[READ_SIZE];
	ssize_t n;

	assert(in);
	if (input_is_elsewhere(in)) {
		input_pause(in, true);
		return;
	}
	n = read(STDIN_FILENO, bytes, sizeof(bytes));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) { /* a terminal in the background, too: EIO */
		n = 0;
		input_stop(in);
	}
	in->sent += (uint64_t)n;
	if (in->sent - in->taken + READ_SIZE > INPUT_WINDOW)
		ev_io_stop(loop, w);
	in->on_bytes(bytes, (size_t)n, in->userdata);
}

void input_start(struct input *in, struct ev_loop *loop, input_fn *on_bytes, void *userdata)
{
	*in = (struct input){.loop = loop, .on_bytes = on_bytes, .userdata = userdata};
	ev_io_init(&in->io, on_input_readable, STDIN_FILENO, EV_READ);
	in->io.data = in;
	ev_io_start(loop, &in->io);
}

void input_taken(struct input *in, uint64_t total)
{
	in->taken = total < in->sent ? total : in->sent;
	if (in->sent - in->taken + READ_SIZE > INPUT_WINDOW)
		ev_io_stop(in->loop, &in->io);
	else if (!in->paused && !in->ended)
		ev_io_start(in->loop, &in->io);
}

void input_pause(struct input *in, bool pause)
{
	in->paused = pause;
	if (pause && in->loop)
		ev_io_stop(in->loop, &in->io);
	else if (in->loop)
		input_taken(in, in->taken);
}

void input_stop(struct input *in)
{
	in->ended = true;
	if (in->loop)
		ev_io_stop(in->loop, &in->io);
}

/* ---- output -------------------------------------------------------------------------------- */

static size_t output_pending(const struct output *o)
{
	return o->staged + buffer_size(&o->queue);
}

static void output_close_pipes(struct output *o)
{
	int i;

	for (i = 0; i < 2; i++) {
		o->stage[i] = close_fd(o->stage[i]);
		o->scratch[i] = close_fd(o->scratch[i]);
	}
	o->null_fd = close_fd(o->null_fd);
	o->staged = 0;
}

static void labelled_set_waits(struct output_source *s, bool waits)
{
	struct output *o = s->output;

	if (s->waits == waits)
		return;
	s->waits = waits;
	if (o->events->waits)
		o->events->waits(s, waits, o->userdata);
}

static void output_fail(struct output *o, int error)
{
	struct output_source *s;

	o->failed = true;
	for (s = o->sources; s; s = s->next)
		labelled_set_waits(s, false);
	buffer_clear(&o->queue);
	output_close_pipes(o);
	ev_io_stop(o->loop, &o->io);
	if (o->full) {
		o->full = false;
		o->events->full(false, o->userdata);
	}
	o->events->failed(error, o->userdata);
	o->events->empty(o->userdata);
}

static void output_enqueue(struct output *o, const void *bytes, size_t size)
{
	if (o->failed || size == 0)
		return;
	if (buffer_add(&o->queue, bytes, size) < 0)
		output_fail(o, -ENOMEM);
}

static bool make_pipe(int pipe[2])
{
	if (pipe[0] >= 0)
		return true;
	if (stdfd_pipe(true, pipe) < 0 || stdfd_set_nonblock(pipe[1], true) < 0)
		return false;
	(void)fcntl(pipe[1], F_SETPIPE_SZ, STAGE_SIZE); /* else it is smaller */
	return true;
}

/* What is staged can't be spliced into this kind of file after all. */
static void output_unstage(struct output *o)
{
	_cleanup_buffer_ struct buffer later = o->queue;
	char bytes[PIPE_BUF];
	ssize_t n;

	o->moves = false;
	if (o->kind == OUTPUT_PIPE)
		o->kind = OUTPUT_OTHER;
	o->queue = (struct buffer){.data = NULL};
	while (!o->failed && (n = read(o->stage[0], bytes, sizeof(bytes))) > 0)
		output_enqueue(o, bytes, (size_t)n);
	o->staged = 0;
	output_enqueue(o, buffer_bytes(&later), buffer_size(&later));
}

/* Writes as much of the bytes as the output takes without waiting: how many, or -1. Nothing is
 * staged. writable: the loop has seen that it is. A pipe gets them by splice(), which can be told
 * not to wait while the flags of the descriptor, which others share, stay as they are. */
static ssize_t output_put(struct output *o, const void *bytes, size_t size, bool writable)
{
	ssize_t n;

	if (o->kind == OUTPUT_FILE)
		return write(o->fd, bytes, size);
	if (o->kind == OUTPUT_SOCKET)
		return send(o->fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (o->kind == OUTPUT_PIPE && !make_pipe(o->stage))
		o->kind = OUTPUT_OTHER;
	if (writable && (size <= PIPE_BUF || o->kind == OUTPUT_OTHER))
		return write(o->fd, bytes, size < PIPE_BUF ? size : PIPE_BUF);
	if (o->kind == OUTPUT_OTHER) {
		errno = EAGAIN;
		return -1;
	}
	n = write(o->stage[1], bytes, size);
	o->staged = n > 0 ? (size_t)n : 0;
	return n;
}

/* The next bytes. False: nothing more at the moment. */
static bool output_push(struct output *o, bool writable)
{
	ssize_t n;

	if (o->staged > 0) {
		n = splice(o->stage[0], NULL, o->fd, NULL, o->staged,
			SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
		o->staged -= n > 0 ? (size_t)n : 0;
		if (n < 0 && errno == EINVAL) {
			output_unstage(o);
			return !o->failed;
		}
	} else {
		n = output_put(o, buffer_bytes(&o->queue), buffer_size(&o->queue), writable);
		buffer_drop(&o->queue, n > 0 ? (size_t)n : 0);
	}
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		output_fail(o, -errno);
		return false;
	}
	return n > 0 && output_pending(o) > 0;
}

/* What is still pending waits until the output is writable. */
static void output_settle(struct output *o, bool full)
{
	if (o->failed)
		return;
	if (output_pending(o) > 0)
		ev_io_start(o->loop, &o->io);
	if (o->full != full) {
		o->full = full;
		o->events->full(full, o->userdata);
	}
}

static void on_output_writable(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct output *o = w->data;
	int i;

	assert(o);
	for (i = 0; output_push(o, i == 0) && i < PUSHES; i++)
		;
	if (o->failed)
		return;
	output_settle(o, o->full && (o->staged > 0 || buffer_size(&o->queue) > EMPTY_AT));
	if (output_pending(o) == 0) {
		ev_io_stop(o->loop, &o->io);
		o->events->empty(o->userdata);
	}
}

/* At once, if it is worth a system call of its own and nothing waits. */
static void output_add(struct output *o, const char *bytes, size_t size)
{
	ssize_t n = 0;

	if (o->failed || size == 0)
		return;
	if (size > PIPE_BUF && output_pending(o) == 0)
		n = output_put(o, bytes, size, false);
	if (n < 0) /* output_push() meets the error again */
		n = 0;
	output_enqueue(o, bytes + n, size - (size_t)n);
	if (o->staged > 0 && !o->failed)
		(void)output_push(o, false); /* best effort */
	output_settle(o, o->full || buffer_size(&o->queue) > FULL_AT);
}

static void output_flush_begun(struct output_source *s)
{
	ev_timer_stop(s->output->loop, &s->timeout);
	output_add(s->output, buffer_bytes(&s->begun), buffer_size(&s->begun));
	buffer_clear(&s->begun);
}

static void output_await_rest(struct output_source *s)
{
	unsigned ms = s->output->labelled ? s->output->idle_ms : OUTPUT_TIMEOUT_MS;

	ev_timer_stop(s->output->loop, &s->timeout);
	ev_timer_set(&s->timeout, ms / 1e3, 0.);
	ev_timer_start(s->output->loop, &s->timeout);
}

/* ---- lines with labels --------------------------------------------------------------------- */

/* What a source has, or the first size bytes of it: it is nobody else's turn. */
static void labelled_put(struct output_source *s, size_t size)
{
	struct output *o = s->output;
	const char *bytes = buffer_bytes(&s->begun);

	if (size == 0)
		return;
	if (o->unended && o->owner != s)
		output_add(o, o->crlf ? "\r\n" : "\n", o->crlf ? 2 : 1);
	if (s->broken)
		output_add(o, s->label, strlen(s->label));
	s->broken = false;
	o->unended = bytes[size - 1] != '\n';
	output_add(o, bytes, size);
	buffer_drop(&s->begun, size);
}

/* "12: ", which its agent has put before the line. */
static void labelled_read(struct output_source *s)
{
	const char *bytes = buffer_bytes(&s->begun);
	size_t n = 0, digits;

	while (n < OUTPUT_LABEL_SIZE - 3 && bytes[n] == ' ')
		n++;
	for (digits = 0;
		n + digits < OUTPUT_LABEL_SIZE - 3 && isdigit((unsigned char)bytes[n + digits]);
		digits++)
		;
	n = digits > 0 && bytes[n + digits] == ':' && bytes[n + digits + 1] == ' ' ? n + digits + 2
										   : 0;
	memcpy(s->label, bytes, n);
	s->label[n] = '\0';
}

static size_t labelled_whole(const struct output_source *s)
{
	const char *bytes = buffer_bytes(&s->begun);
	const char *newline = bytes ? memrchr(bytes, '\n', buffer_size(&s->begun)) : NULL;

	return newline ? (size_t)(newline - bytes) + 1 : 0;
}

/* Writes what is complete, and of a line that is too long to hold all there is. */
static void labelled_write_lines(struct output_source *s)
{
	struct output *o = s->output;

	labelled_set_waits(s, false);
	labelled_put(s, labelled_whole(s));
	if (o->owner == s && !o->unended) {
		ev_timer_stop(o->loop, &s->timeout);
		o->owner = NULL;
	}
	if (o->owner != s && !s->broken && buffer_size(&s->begun) > OUTPUT_LINE_MAX)
		labelled_read(s);
	if (o->owner != s && buffer_size(&s->begun) <= OUTPUT_LINE_MAX && !s->ended)
		return;
	labelled_put(s, buffer_size(&s->begun));
	ev_timer_stop(o->loop, &s->timeout);
	o->owner = s->ended || !o->unended ? NULL : s;
	o->idle = false;
	if (o->owner == s)
		output_await_rest(s);
}

/* The owner's line is over, or broken. */
static void labelled_release(struct output *o)
{
	struct output_source *s;

	o->held = 0;
	for (s = o->sources; s && !o->owner; s = s->next)
		labelled_write_lines(s);
	for (; s; s = s->next)
		o->held += buffer_size(&s->begun);
}

static void labelled_break(struct output *o)
{
	ev_timer_stop(o->loop, &o->owner->timeout);
	o->owner->broken = true;
	o->owner = NULL;
	labelled_release(o);
}

static void labelled_write(struct output_source *s, const void *bytes, size_t size)
{
	struct output *o = s->output;
	bool waits = o->owner && o->owner != s;

	if (buffer_add(&s->begun, bytes, size) < 0) {
		output_fail(o, -ENOMEM);
		return;
	}
	o->held += waits ? size : 0;
	if (waits && buffer_size(&s->begun) > OUTPUT_LINE_MAX)
		labelled_set_waits(s, true);
	if (waits &&
		((o->idle && labelled_whole(s) > 0) ||
			(o->held > OUTPUT_HELD_MAX && !o->events->waits)))
		labelled_break(o);
	else if (!waits)
		labelled_write_lines(s);
	if (!o->owner && o->held > 0)
		labelled_release(o);
}

/* The owner's line has not grown for long: it goes on unless another's waits. */
static void labelled_idle(struct output *o)
{
	const struct output_source *s = o->sources;

	while (s && (s == o->owner || labelled_whole(s) == 0))
		s = s->next;
	o->idle = true;
	if (s && o->owner)
		labelled_break(o);
}

static void labelled_flush(struct output_source *s)
{
	struct output *o = s->output;

	s->ended = true;
	if (o->owner && o->owner != s) {
		o->held += buffer_size(&s->begun); /* a last line without an end, too */
		return;                            /* labelled_release() */
	}
	labelled_write_lines(s);
	if (o->held > 0)
		labelled_release(o);
}

void output_set_labelled(struct output *o, unsigned idle_ms)
{
	o->labelled = true;
	o->idle_ms = idle_ms;
}

/* ---- lines --------------------------------------------------------------------------------- */

void output_flush(struct output_source *s)
{
	if (s->output->labelled && !s->output->failed)
		labelled_flush(s);
	else
		output_flush_begun(s);
}

static void on_line_timeout(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	struct output_source *s = w->data;

	assert(s);
	if (s->output->full) { /* its end isn't read meanwhile */
		output_await_rest(s);
	} else if (s->output->labelled) {
		labelled_idle(s->output);
	} else {
		output_flush_begun(s);
	}
}

static void output_write_lines(struct output_source *s, const char *begin, size_t size)
{
	const char *newline = memrchr(begin, '\n', size);
	size_t whole = newline ? (size_t)(newline - begin) + 1 : 0;

	if (whole) {
		output_flush_begun(s);
		output_add(s->output, begin, whole);
		size -= whole;
	}
	if (size == 0)
		return;
	if (buffer_add(&s->begun, begin + whole, size) < 0) {
		output_flush_begun(s);
		output_add(s->output, begin + whole, size);
	} else if (buffer_size(&s->begun) > OUTPUT_LINE_MAX || s->is_terminal) {
		output_flush_begun(s);
	} else if (!ev_is_active(&s->timeout)) {
		output_await_rest(s);
	}
}

/* With labels or not. */
static void output_write_piece(struct output_source *s, const char *bytes, size_t size)
{
	if (s->output->failed || size == 0)
		return;
	if (s->output->labelled)
		labelled_write(s, bytes, size);
	else
		output_write_lines(s, bytes, size);
}

void output_write(struct output_source *s, const void *bytes, size_t size)
{
	const char *at = bytes, *end = at + size, *newline;

	/* Where there is one already, it is that of a terminal whose user does not type. */
	while (s->output->crlf && !s->is_terminal &&
		(newline = memchr(at, '\n', (size_t)(end - at)))) {
		output_write_piece(s, at, (size_t)(newline - at));
		s->last = newline > at ? newline[-1] : s->last;
		if (s->last != '\r')
			output_write_piece(s, "\r", 1);
		output_write_piece(s, "\n", 1);
		s->last = '\n';
		at = newline + 1;
	}
	output_write_piece(s, at, (size_t)(end - at));
	s->last = end > at ? end[-1] : s->last;
}

/* ---- moving -------------------------------------------------------------------------------- */

/* Reads the last of size bytes at the front of a pipe, which stay there: how many it has looked at,
 * at least those of the tail. -errno */
static ssize_t output_peek(struct output *o, int pipe_fd, size_t size, char *tail, size_t tail_size)
{
	ssize_t n = tee(pipe_fd, o->scratch[1], size, SPLICE_F_NONBLOCK), skipped;
	size_t skip;

	if (n <= 0)
		return n < 0 ? -errno : -EAGAIN;
	tail_size = (size_t)n < tail_size ? (size_t)n : tail_size;
	for (skip = (size_t)n - tail_size; skip > 0; skip -= (size_t)skipped) {
		skipped = splice(o->scratch[0], NULL, o->null_fd, NULL, skip, 0);
		if (skipped <= 0)
			return -EIO;
	}
	return read(o->scratch[0], tail, tail_size) == (ssize_t)tail_size ? n : -EIO;
}

/* How many of the size bytes at the front of a pipe end with a line; of what is too long for a line
 * all do. 0: none, or it isn't known. */
static size_t output_find_lines(struct output *o, int pipe_fd, size_t size)
{
	static const size_t tail_sizes[] = {TAIL_SIZE, OUTPUT_LINE_MAX};
	char tail[OUTPUT_LINE_MAX], *newline;
	size_t tail_size, i;
	ssize_t n = 0;

	for (i = 0; i < ARRAY_SIZE(tail_sizes); i++) {
		n = output_peek(o, pipe_fd, size, tail, tail_sizes[i]);
		if (n < 0) {
			o->moves = o->moves && n == -EAGAIN;
			return 0;
		}
		tail_size = (size_t)n < tail_sizes[i] ? (size_t)n : tail_sizes[i];
		newline = memrchr(tail, '\n', tail_size);
		if (newline)
			return (size_t)n - tail_size + (size_t)(newline - tail) + 1;
	}
	return (size_t)n > OUTPUT_LINE_MAX && !o->labelled ? (size_t)n : 0;
}

/* What the stage did not take, behind it: how many bytes. */
static size_t output_read_rest(struct output *o, int pipe_fd, size_t size)
{
	char bytes[PIPE_BUF];
	size_t left;
	ssize_t n;

	for (left = size; left > 0 && !o->failed; left -= (size_t)n) {
		n = read(pipe_fd, bytes, left < sizeof(bytes) ? left : sizeof(bytes));
		if (n <= 0)
			break; /* there is less than there was: another process has read it */
		output_enqueue(o, bytes, (size_t)n);
	}
	return size - left;
}

/* The pipes, and what is needed beside them. */
static bool output_can_move(struct output *o)
{
	if (o->null_fd < 0)
		o->null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	o->moves = o->null_fd >= 0 && make_pipe(o->scratch) && make_pipe(o->stage);
	return o->moves;
}

size_t output_move(struct output_source *s, int pipe_fd, size_t size)
{
	struct output *o = s->output;
	size_t begun = buffer_size(&s->begun);
	int there = 0;
	ssize_t n;

	if (!o->moves || o->failed || output_pending(o) > 0 || begun > PIPE_BUF || o->unended ||
		o->owner || size < MOVE_LEAST || ioctl(pipe_fd, FIONREAD, &there) < 0 ||
		!output_can_move(o))
		return 0;
	size = size < (size_t)there ? size : (size_t)there;
	if (size >= MOVE_LEAST && o->sources_count > 1)
		size = output_find_lines(o, pipe_fd, size);
	if (size < MOVE_LEAST)
		return 0;
	if (begun > 0 && write(o->stage[1], buffer_bytes(&s->begun), begun) != (ssize_t)begun)
		return 0; /* never: so much fits into an empty pipe */
	ev_timer_stop(o->loop, &s->timeout);
	buffer_clear(&s->begun);
	n = splice(pipe_fd, NULL, o->stage[1], NULL, size, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	n = n > 0 ? n : 0;
	o->staged = begun + (size_t)n;
	size = (size_t)n + output_read_rest(o, pipe_fd, size - (size_t)n);
	while (output_push(o, false))
		;
	output_settle(o, output_pending(o) > 0);
	return size;
}

static enum output_kind kind_of(int fd, const struct stat *st)
{
	int type = 0;
	socklen_t size = sizeof(type);

	if (S_ISREG(st->st_mode) || (S_ISCHR(st->st_mode) && !isatty(fd)))
		return OUTPUT_FILE;
	if (S_ISSOCK(st->st_mode) && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
		type == SOCK_STREAM)
		return OUTPUT_SOCKET;
	return S_ISFIFO(st->st_mode) ? OUTPUT_PIPE : OUTPUT_OTHER;
}

void output_init(struct output *o, struct ev_loop *loop, int fd, const struct output_events *events,
	void *userdata)
{
	struct stat st;

	*o = (struct output){.loop = loop,
		.fd = fd,
		.kind = fstat(fd, &st) < 0 ? OUTPUT_OTHER : kind_of(fd, &st),
		.stage = {-1, -1},
		.scratch = {-1, -1},
		.null_fd = -1,
		.events = events,
		.userdata = userdata};
	o->moves = o->kind == OUTPUT_PIPE || o->kind == OUTPUT_FILE;
	ev_io_init(&o->io, on_output_writable, fd, EV_WRITE);
	o->io.data = o;
}

void output_source_init(struct output_source *s, struct output *o)
{
	*s = (struct output_source){.output = o, .next = o->sources};
	o->sources = s;
	o->sources_count++;
	ev_timer_init(&s->timeout, on_line_timeout, 0., 0.);
	ev_set_priority(&s->timeout, EV_MINPRI); /* after what has come meanwhile */
	s->timeout.data = s;
}

bool output_is_empty(const struct output *o)
{
	return output_pending(o) == 0;
}

void output_source_clear(struct output_source *s)
{
	if (s->output)
		ev_timer_stop(s->output->loop, &s->timeout);
	buffer_clear(&s->begun);
}

void output_clear(struct output *o)
{
	if (!o->loop)
		return;
	ev_io_stop(o->loop, &o->io);
	output_close_pipes(o);
	buffer_clear(&o->queue);
}

/* ---- lines on standard error --------------------------------------------------------------- */

void user_print(const char *fmt, ...)
{
	char text[8192];
	struct termios t;
	bool raw =
		isatty(STDERR_FILENO) && tcgetattr(STDERR_FILENO, &t) == 0 && !(t.c_oflag & OPOST);
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fprintf(stderr, "steprun: %s%s", text, raw ? "\r\n" : "\n");
}

void user_report(const char *fmt, ...)
{
	char raw[2048], text[4 * sizeof(raw)];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(raw, sizeof(raw), fmt, args);
	va_end(args);
	err_printable(text, sizeof(text), raw);
	user_print("%s", text);
}

/* ---- signals ------------------------------------------------------------------------------- */

#define AGAIN_MS   1000 /* a second ^C has to come within this */
#define SHOWN_SIZE 400  /* of a list of ranks */

/* ---- which tasks run ----------------------------------------------------------------------- */

int running_init(struct running *running, uint32_t ntasks)
{
	running->ntasks = ntasks;
	return bitset_init(&running->ended, ntasks);
}

void running_end(struct running *running, uint32_t rank)
{
	if (rank < running->ntasks)
		bitset_set(&running->ended, rank);
}

bool running_has_ended(const struct running *running, uint32_t rank)
{
	return rank >= running->ntasks || bitset_test(&running->ended, rank);
}

bool running_any_ended(const struct running *running)
{
	return bitset_count(&running->ended) > 0;
}

/* Ranks as text, which is cut where it is long. */
static const char *format_ranks(const struct bitset *set, char text[static SHOWN_SIZE + 4])
{
	if (bitset_format_list(set, text, SHOWN_SIZE) >= SHOWN_SIZE)
		memcpy(text + SHOWN_SIZE - 1, "...", sizeof("..."));
	return text;
}

void running_print(const struct running *running)
{
	_cleanup_bitset_ struct bitset run = {0};
	char run_text[SHOWN_SIZE + 4], ended_text[SHOWN_SIZE + 4];
	uint32_t i;

	if (bitset_init(&run, running->ntasks) < 0)
		return;
	for (i = 0; i < running->ntasks; i++) {
		if (!bitset_test(&running->ended, i))
			bitset_set(&run, i);
	}
	user_print("%s%s%s%s%s", bitset_count(&run) > 0 ? "running: tasks " : "",
		bitset_count(&run) > 0 ? format_ranks(&run, run_text) : "",
		bitset_count(&run) > 0 && running_any_ended(running) ? "; " : "",
		running_any_ended(running) ? "ended: tasks " : "",
		running_any_ended(running) ? format_ranks(&running->ended, ended_text) : "");
}

void running_clear(struct running *running)
{
	bitset_clear(&running->ended);
}

/* ---- signals ------------------------------------------------------------------------------- */

static void user_terminate(struct user *u, int signal)
{
	bool now = u->ended_by != 0;

	user_print("%s the step", now ? "killing" : "ending");
	if (!now)
		u->ended_by = signal;
	u->events->terminate(now, u->userdata);
}

static void on_interrupt(struct user *u)
{
	int64_t now_ms = clock_now_ms();

	if (u->ended_by || now_ms - u->interrupted_ms < AGAIN_MS) {
		user_terminate(u, SIGINT);
		return;
	}
	u->interrupted_ms = now_ms;
	u->events->status(u->userdata);
	user_print("interrupt again within a second to end the step");
}

/* By the default action of SIGTSTP, which does nothing where no shell could continue it. */
static void user_stop(struct user *u)
{
	sigset_t stop, pending;

	u->events->suspend(true, u->userdata);
	(void)sigemptyset(&stop); /* can't fail, nor can the others with valid arguments */
	(void)sigaddset(&stop, SIGTSTP);
	(void)raise(SIGTSTP);
	(void)sigprocmask(SIG_UNBLOCK, &stop, NULL); /* the process stops here until a SIGCONT */
	(void)sigprocmask(SIG_BLOCK, &stop, NULL);
	(void)sigpending(&pending);
	if (!sigismember(&pending, SIGCONT))
		u->events->suspend(false, u->userdata);
}

static void user_on_signal(struct user *u, int signal)
{
	char name[SIGNALS_NAME_SIZE];

	if (signal == SIGINT)
		on_interrupt(u);
	else if (signal == SIGQUIT)
		user_terminate(u, SIGQUIT);
	else if (signal == SIGTSTP)
		user_stop(u);
	else if (signal == SIGCONT)
		u->events->suspend(false, u->userdata);
	else if (signal == SIGWINCH)
		u->events->resized(u->userdata);
	else
		u->events->signal(signals_name(signal, name, sizeof(name)), u->userdata);
}

static void user_on_signals(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct user *u = w->data;
	struct signalfd_siginfo info;

	assert(u);
	while (read(u->io.fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		user_on_signal(u, (int)info.ssi_signo);
}

int user_watch(struct user *u, struct ev_loop *loop, const struct user_events *events,
	void *userdata, struct err *err)
{
	static const int signals[] = {SIGINT, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH,
		/* for the tasks: */ SIGHUP, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM};
	int fd = process_watch_signals(signals, ARRAY_SIZE(signals), err);

	if (fd < 0)
		return fd;
	*u = (struct user){.loop = loop, .events = events, .userdata = userdata};
	ev_io_init(&u->io, user_on_signals, fd, EV_READ);
	u->io.data = u;
	ev_io_start(loop, &u->io);
	return 0;
}

void user_clear(struct user *u)
{
	if (!u->loop)
		return;
	ev_io_stop(u->loop, &u->io);
	(void)close_fd(u->io.fd);
}
