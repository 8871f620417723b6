/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/loop/worker.h"

#include <assert.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef P_PIDFD /* glibc has it since 2.36 */
#define P_PIDFD 3
#endif

#define WORKER_NAME "stepd-worker"

/* For the end of one that was killed: it may stand in the kernel for a moment. */
#define END_PATIENCE_MS 1000

struct worker_answer {
	bool given;
	int result;
	struct err err;
};

static void close_pidfd(struct worker *w)
{
	siginfo_t info;

	ev_io_stop(w->loop, &w->io);
	ev_timer_stop(w->loop, &w->limit);
	/* Reaps it if it has ended; else init does, after the agent's own end: of one that the
	 * kernel does not let go. */
	(void)waitid(P_PIDFD, (id_t)w->pidfd, &info, WEXITED | WNOHANG | __WALL);
	w->pidfd = close_fd(w->pidfd);
	w->job->worker_pid = 0;
}

static void on_end(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct worker *w = io->data;
	struct err err = ERR_INIT;
	int r;

	assert(w);
	close_pidfd(w);
	if (w->cancelled)
		r = err_set_text(&err, w->cancelled, "it took too long and was given up");
	else if (!w->answer->given)
		r = err_set_text(&err, -EPIPE, "the agent's worker was killed");
	else { /* a copy: the owner may clear the worker meanwhile */
		r = w->answer->result;
		err = w->answer->err;
	}
	w->done(r, &err, w->userdata);
}

static void stop_it(struct worker *w, int why)
{
	if (!w->cancelled)
		w->cancelled = why;
	/* ours and not reaped: it can't be another, and not be there */
	(void)syscall(SYS_pidfd_send_signal, w->pidfd, SIGKILL, NULL, 0);
}

/* It holds copies of all that the agent has open, the registry's lock among them: nobody shall find
 * it after the agent's end. */
static void wait_end(const struct worker *w)
{
	struct pollfd end = {.fd = w->pidfd, .events = POLLIN};

	while (poll(&end, 1, END_PATIENCE_MS) < 0 && errno == EINTR)
		;
}

static void on_limit(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	assert(timer->data);
	stop_it(timer->data, -ETIME);
}

int worker_init(struct worker *w, struct ev_loop *loop, stepd_step_rec_t *job, worker_done_fn done,
	void *userdata)
{
	void *page = mmap(NULL, sizeof(struct worker_answer), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return -errno;
	*w = (struct worker){
		.loop = loop,
		.job = job,
		.done = done,
		.userdata = userdata,
		.answer = page,
		.pidfd = -1,
	};
	ev_init(&w->limit, on_limit);
	w->limit.data = w;
	return 0;
}

/* Signals that the agent reads from a descriptor are blocked here, too: a terminal's are not for
 * this process. */
_noreturn_ static void be_worker(struct worker *w, worker_fn work, void *userdata, pid_t agent)
{
	struct worker_answer *answer = w->answer;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != agent)
		_exit(1);
	(void)prctl(PR_SET_NAME, WORKER_NAME); /* for ps(1) only */
	w->job->worker_pid = getpid();
	answer->result = work(userdata, &answer->err);
	answer->given = true;
	_exit(0);
}

/* Not clone3(2), which old kernels and filters lack: this one does all that is needed. */
static pid_t clone_worker(int *ret_pidfd)
{
	return (pid_t)syscall(SYS_clone, CLONE_PIDFD, NULL, ret_pidfd, NULL, 0);
}

int worker_start(struct worker *w, worker_fn work, void *userdata, uint64_t limit_ms)
{
	pid_t agent = getpid(), pid;
	int pidfd = -1;

	assert(w->pidfd < 0);
	w->answer->given = false;
	w->answer->err = (struct err)ERR_INIT;
	pid = clone_worker(&pidfd);
	if (pid == 0)
		be_worker(w, work, userdata, agent);
	if (pid < 0)
		return -errno;
	w->pidfd = pidfd;
	w->cancelled = 0;
	w->job->worker_pid = pid;
	ev_io_init(&w->io, on_end, pidfd, EV_READ);
	w->io.data = w;
	ev_io_start(w->loop, &w->io);
	ev_now_update(w->loop);
	ev_timer_set(&w->limit, (double)limit_ms / 1e3, 0.);
	ev_timer_start(w->loop, &w->limit);
	return 0;
}

bool worker_is_lost(int r)
{
	return r == -ECANCELED || r == -ETIME || r == -EPIPE;
}

bool worker_is_busy(const struct worker *w)
{
	return w->answer && w->pidfd >= 0;
}

void worker_cancel(struct worker *w)
{
	if (worker_is_busy(w))
		stop_it(w, -ECANCELED);
}

bool worker_wait(struct worker *w, int *ret_r, struct err *ret_err)
{
	if (!worker_is_busy(w) || w->cancelled)
		return false;
	wait_end(w);
	if (!w->answer->given)
		return false;
	*ret_r = w->answer->result;
	*ret_err = w->answer->err;
	return true;
}

void worker_clear(struct worker *w)
{
	if (!w->answer)
		return;
	if (w->pidfd >= 0) {
		stop_it(w, -ECANCELED);
		wait_end(w);
		close_pidfd(w);
	}
	(void)munmap(w->answer, sizeof(*w->answer)); /* what mmap() gave: can't fail */
	w->answer = NULL;
}
