/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/across/user.h"

#include <assert.h>
#include <signal.h>
#include <sys/signalfd.h>

#include "stepd/base/clock.h"
#include "stepd/base/signals.h"
#include "stepd/process/process.h"

#define AGAIN_MS   1000 /* a second ^C has to come within this */
#define SHOWN_SIZE 400  /* of a list of ranks */

/* ---- which tasks run ---------------------------------------------------------------------- */

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

/* ---- signals ------------------------------------------------------------------------------ */

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

static void on_signal(struct user *u, int signal)
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

static void on_signals(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct user *u = w->data;
	struct signalfd_siginfo info;

	assert(u);
	while (read(u->io.fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		on_signal(u, (int)info.ssi_signo);
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
	ev_io_init(&u->io, on_signals, fd, EV_READ);
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
