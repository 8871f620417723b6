/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/across/user.h"

#include <assert.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stepd/base/clock.h"
#include "stepd/base/proc.h"
#include "stepd/process/process.h"

/* ---- streams ------------------------------------------------------------------------------- */

#define READ_SIZE 16384u
#define FULL_AT   (1u << 20) /* bytes that wait */
#define EMPTY_AT  (256u << 10)

/* ---- input --------------------------------------------------------------------------------- */

static void on_input_readable(struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct input *in = w->data;
	char bytes[READ_SIZE];
	ssize_t n;

	assert(in);
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
	if (!in->ended && in->sent - in->taken + READ_SIZE <= INPUT_WINDOW)
		ev_io_start(in->loop, &in->io);
}

void input_stop(struct input *in)
{
	in->ended = true;
	if (in->loop)
		ev_io_stop(in->loop, &in->io);
}

/* ---- output -------------------------------------------------------------------------------- */

static void output_fail(struct output *o, int error)
{
	o->failed = true;
	buffer_clear(&o->queue);
	ev_io_stop(o->loop, &o->io);
	if (o->full) {
		o->full = false;
		o->events->full(false, o->userdata);
	}
	o->events->failed(error, o->userdata);
	o->events->empty(o->userdata);
}

static void on_output_writable(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct output *o = w->data;
	size_t size;
	ssize_t n;

	assert(o);
	size = buffer_size(&o->queue);
	if (o->blocks && size > PIPE_BUF)
		size = PIPE_BUF;
	n = write(o->fd, buffer_bytes(&o->queue), size);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		output_fail(o, -errno);
		return;
	}
	buffer_drop(&o->queue, n > 0 ? (size_t)n : 0);
	if (o->full && buffer_size(&o->queue) <= EMPTY_AT) {
		o->full = false;
		o->events->full(false, o->userdata);
	}
	if (buffer_size(&o->queue) == 0) {
		ev_io_stop(o->loop, &o->io);
		o->events->empty(o->userdata);
	}
}

static void output_enqueue(struct output *o, const void *bytes, size_t size)
{
	if (o->failed || size == 0)
		return;
	if (buffer_add(&o->queue, bytes, size) < 0) {
		output_fail(o, -ENOMEM);
		return;
	}
	ev_io_start(o->loop, &o->io);
	if (!o->full && buffer_size(&o->queue) > FULL_AT) {
		o->full = true;
		o->events->full(true, o->userdata);
	}
}

void output_flush(struct output_source *s)
{
	ev_timer_stop(s->output->loop, &s->timeout);
	output_enqueue(s->output, buffer_bytes(&s->begun), buffer_size(&s->begun));
	buffer_clear(&s->begun);
}

static void output_await_rest(struct output_source *s)
{
	ev_timer_set(&s->timeout, OUTPUT_TIMEOUT_MS / 1e3, 0.);
	ev_timer_start(s->output->loop, &s->timeout);
}

static void on_line_timeout(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	struct output_source *s = w->data;

	assert(s);
	if (s->output->full) /* its end isn't read meanwhile */
		output_await_rest(s);
	else
		output_flush(s);
}

void output_write(struct output_source *s, const void *bytes, size_t size)
{
	const char *begin = bytes, *newline = memrchr(bytes, '\n', size);
	size_t whole = newline ? (size_t)(newline - begin) + 1 : 0;

	if (s->output->failed)
		return;
	if (whole) {
		output_flush(s);
		output_enqueue(s->output, begin, whole);
		size -= whole;
	}
	if (size == 0)
		return;
	if (buffer_add(&s->begun, begin + whole, size) < 0) {
		output_flush(s);
		output_enqueue(s->output, begin + whole, size);
	} else if (buffer_size(&s->begun) > OUTPUT_LINE_MAX) {
		output_flush(s);
	} else if (!ev_is_active(&s->timeout)) {
		output_await_rest(s);
	}
}

void output_init(struct output *o, struct ev_loop *loop, int fd, const struct output_events *events,
	void *userdata)
{
	struct stat st;

	*o = (struct output){.loop = loop,
		.fd = fd,
		.blocks = fstat(fd, &st) < 0 || !S_ISREG(st.st_mode),
		.events = events,
		.userdata = userdata};
	ev_io_init(&o->io, on_output_writable, fd, EV_WRITE);
	o->io.data = o;
}

void output_source_init(struct output_source *s, struct output *o)
{
	*s = (struct output_source){.output = o};
	ev_timer_init(&s->timeout, on_line_timeout, 0., 0.);
	ev_set_priority(&s->timeout, EV_MINPRI); /* after what has come meanwhile */
	s->timeout.data = s;
}

bool output_is_empty(const struct output *o)
{
	return buffer_size(&o->queue) == 0;
}

void output_source_clear(struct output_source *s)
{
	if (s->output)
		ev_timer_stop(s->output->loop, &s->timeout);
	buffer_clear(&s->begun);
}

void output_clear(struct output *o)
{
	if (o->loop)
		ev_io_stop(o->loop, &o->io);
	buffer_clear(&o->queue);
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

static void print_ranks(const char *before, const struct bitset *set, const char *behind)
{
	char text[SHOWN_SIZE];
	size_t size = bitset_format_list(set, text, sizeof(text));

	fprintf(stderr, "%s %s%s%s", before, text, size >= sizeof(text) ? "..." : "", behind);
}

void running_print(const struct running *running)
{
	_cleanup_bitset_ struct bitset run = {0};
	uint32_t i;

	if (bitset_init(&run, running->ntasks) < 0)
		return;
	for (i = 0; i < running->ntasks; i++) {
		if (!bitset_test(&running->ended, i))
			bitset_set(&run, i);
	}
	fputs("steprun:", stderr);
	if (bitset_count(&run) > 0)
		print_ranks(" running: tasks", &run, running_any_ended(running) ? ";" : "");
	if (running_any_ended(running))
		print_ranks(" ended: tasks", &running->ended, "");
	fputc('\n', stderr);
}

void running_clear(struct running *running)
{
	bitset_clear(&running->ended);
}

/* ---- signals ------------------------------------------------------------------------------- */

static void user_terminate(struct user *u, int signal)
{
	bool now = u->ended_by != 0;

	fprintf(stderr, "steprun: %s the step\n", now ? "killing" : "ending");
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
	fprintf(stderr, "steprun: interrupt again within a second to end the step\n");
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
	static const int signals[] = {SIGINT, SIGQUIT, SIGTSTP, SIGCONT, /* for the tasks: */
		SIGHUP, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM};
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
