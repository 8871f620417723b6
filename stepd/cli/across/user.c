/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/across/user.h"

#include <assert.h>
#include <ev.h>
#include <signal.h>
#include <sys/signalfd.h>

#include "stepd/base/signals.h"
#include "stepd/process/process.h"

#define AGAIN_MS 1000 /* a second ^C has to come within this */

struct user {
	struct ev_loop *loop;
	int fd;
	ev_io io;
	ev_timer again;
	int ended_by;
	const struct user_events *events;
	void *userdata;
};

/* What is handed on to the tasks. */
static const int forwarded[] = {SIGHUP, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM};

static void terminate(struct user *u, int signal)
{
	bool now = u->ended_by != 0;

	if (now)
		fprintf(stderr, "steprun: killing the step\n");
	else
		fprintf(stderr, "steprun: ending the step\n");
	if (!u->ended_by)
		u->ended_by = signal;
	ev_timer_stop(u->loop, &u->again);
	u->events->terminate(now, u->userdata);
}

static void on_interrupt(struct user *u)
{
	if (u->ended_by || ev_is_active(&u->again)) {
		terminate(u, SIGINT);
		return;
	}
	u->events->tell(u->userdata);
	fprintf(stderr, "steprun: interrupt again within a second to end the step\n");
	ev_timer_set(&u->again, AGAIN_MS / 1e3, 0.);
	ev_timer_start(u->loop, &u->again);
}

static void on_again(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)w;
	(void)revents;
}

/* By the default action of SIGTSTP, which does nothing where no shell could continue it. */
static void stop_here(struct user *u)
{
	sigset_t stop, pending;

	u->events->suspend(true, u->userdata);
	(void)sigemptyset(&stop); /* can't fail, nor can the others with valid arguments */
	(void)sigaddset(&stop, SIGTSTP);
	(void)raise(SIGTSTP);
	(void)sigprocmask(SIG_UNBLOCK, &stop, NULL); /* here it stands, until a SIGCONT */
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
		terminate(u, SIGQUIT);
	else if (signal == SIGTSTP)
		stop_here(u);
	else if (signal == SIGCONT)
		u->events->suspend(false, u->userdata);
	else
		u->events->signal(signals_name(signal, name, sizeof(name)), u->userdata);
}

static void on_signals(struct ev_loop *loop, ev_io *w, int revents)
{
	struct user *u = w->data;
	struct signalfd_siginfo info;

	assert(u);
	(void)loop;
	(void)revents;
	while (read(u->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		on_signal(u, (int)info.ssi_signo);
}

int user_new(struct ev_loop *loop, const struct user_events *events, void *userdata,
	struct user **ret_user, struct err *err)
{
	struct user *u = calloc(1, sizeof(*u));
	sigset_t set;
	size_t i;

	if (!u)
		return err_set(err, -ENOMEM, "watch for signals");
	(void)sigemptyset(&set); /* can't fail, nor can the others with valid arguments */
	for (i = 0; i < ARRAY_SIZE(forwarded); i++) {
		if (forwarded[i] != SIGHUP || !process_ignores_hup())
			(void)sigaddset(&set, forwarded[i]);
	}
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGQUIT);
	(void)sigaddset(&set, SIGTSTP);
	(void)sigaddset(&set, SIGCONT);
	u->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (u->fd < 0) {
		free(u);
		return err_set(err, -errno, "make a descriptor for signals");
	}
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	u->loop = loop;
	u->events = events;
	u->userdata = userdata;
	ev_io_init(&u->io, on_signals, u->fd, EV_READ);
	u->io.data = u;
	ev_io_start(loop, &u->io);
	ev_timer_init(&u->again, on_again, 0., 0.);
	*ret_user = u;
	return 0;
}

int user_ended_by(const struct user *u)
{
	return u->ended_by;
}

struct user *user_free(struct user *u)
{
	if (!u)
		return NULL;
	ev_io_stop(u->loop, &u->io);
	ev_timer_stop(u->loop, &u->again);
	(void)close_fd(u->fd);
	free(u);
	return NULL;
}
