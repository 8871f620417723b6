/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/loop/loop.h"

#include <assert.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stepd/snapshot/handover.h"

/* ---- a timer that can be paused ------------------------------------------------------------ */

void pausable_init(struct pausable *p, struct ev_loop *loop,
	void (*expired)(struct ev_loop *loop, ev_timer *w, int revents), void *userdata)
{
	*p = (struct pausable){.loop = loop};
	ev_init(&p->timer, expired);
	p->timer.data = userdata;
}

static void pausable_run(struct pausable *p)
{
	ev_now_update(p->loop);
	ev_timer_set(&p->timer, p->left_sec, 0.);
	ev_timer_start(p->loop, &p->timer);
}

void pausable_start(struct pausable *p, uint64_t ms)
{
	pausable_stop(p);
	p->set = true;
	p->left_sec = (double)ms / 1e3;
	if (!p->paused)
		pausable_run(p);
}

void pausable_stop(struct pausable *p)
{
	if (p->loop)
		ev_timer_stop(p->loop, &p->timer);
	p->set = false;
}

bool pausable_is_set(const struct pausable *p)
{
	return p->set;
}

void pausable_pause(struct pausable *p)
{
	if (!p->paused && ev_is_active(&p->timer)) {
		ev_now_update(p->loop);
		p->left_sec = ev_timer_remaining(p->loop, &p->timer);
		ev_timer_stop(p->loop, &p->timer);
	}
	p->paused = true;
}

void pausable_continue(struct pausable *p)
{
	if (p->paused && p->set)
		pausable_run(p);
	p->paused = false;
}

/* While it runs, the time of its expiry counts; while it is paused, the time that is left. */
void pausable_save(const struct pausable *p, struct handover *h, struct json_t *object)
{
	ev_timer *timer = (ev_timer *)&p->timer; /* libev's signature lacks const */

	handover_put_bool(h, object, "set", p->set);
	handover_put_bool(h, object, "paused", p->paused);
	if (p->set && p->paused)
		handover_put_int(h, object, "left_ns", (int64_t)(p->left_sec * 1e9));
	else if (p->set && ev_is_active(timer))
		handover_put_int(h, object, "deadline_ns",
			handover_deadline_ns(ev_timer_remaining(p->loop, timer)));
}

void pausable_restore(struct pausable *p, const struct json_t *object)
{
	int64_t deadline_ns = json_get_int(object, "deadline_ns", -1);

	p->set = json_get_bool(object, "set", false);
	p->paused = json_get_bool(object, "paused", false);
	p->left_sec = (double)json_get_int(object, "left_ns", 0) / 1e9;
	if (p->set && !p->paused && deadline_ns >= 0) {
		p->left_sec = handover_left_sec(deadline_ns);
		pausable_run(p);
	}
}

/* ---- a watch on a file of the kernel ------------------------------------------------------- */

int pri_watch_read(struct pri_watch *w)
{
	char text[sizeof(w->text)];
	ssize_t n = pread(w->fd, text, sizeof(text) - 1, 0);

	if (n < 0)
		return -errno;
	memcpy(w->text, text, (size_t)n);
	w->text[n] = '\0';
	return 0;
}

static void pri_watch_on_news(struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct pri_watch *w = io->data;

	assert(w);
	/* Only reading consumes the event. */
	if (pri_watch_read(w) == -ENODEV)
		ev_io_stop(loop, io); /* the group is gone */
	w->news(w->userdata);
}

int pri_watch_start(
	struct pri_watch *w, struct ev_loop *loop, int fd, pri_watch_fn news, void *userdata)
{
	struct epoll_event event = {.events = EPOLLPRI};
	int r;

	*w = (struct pri_watch){
		.loop = loop, .fd = fd, .epoll_fd = -1, .news = news, .userdata = userdata};
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	r = w->epoll_fd < 0 || epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
	if (r == 0)
		r = pri_watch_read(w);
	if (r < 0) {
		pri_watch_stop(w);
		return r;
	}
	ev_io_init(&w->io, pri_watch_on_news, w->epoll_fd, EV_READ);
	w->io.data = w;
	ev_io_start(loop, &w->io);
	return 0;
}

void pri_watch_stop(struct pri_watch *w)
{
	if (w->loop)
		ev_io_stop(w->loop, &w->io);
	w->epoll_fd = close_fd(w->epoll_fd);
	w->fd = close_fd(w->fd);
	w->loop = NULL;
}

/* ---- a worker process ---------------------------------------------------------------------- */

#ifndef P_PIDFD /* glibc has it since 2.36 */
#define P_PIDFD 3
#endif

#define WORKER_NAME "stepd-worker"

/* A killed worker may stay in the kernel for a moment before it ends. */
#define END_PATIENCE_MS 1000

struct worker_answer {
	bool given;
	int result;
	struct err err;
};

static void worker_close_pidfd(struct worker *w)
{
	siginfo_t info;

	ev_io_stop(w->loop, &w->io);
	ev_timer_stop(w->loop, &w->limit);
	/* Reaps it if it has ended. A worker that hangs in the kernel is reaped by init after the
	 * agent's own end. */
	(void)waitid(P_PIDFD, (id_t)w->pidfd, &info, WEXITED | WNOHANG | __WALL);
	w->pidfd = close_fd(w->pidfd);
	w->job->worker_pid = 0;
}

static void worker_on_end(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct worker *w = io->data;
	struct err err = ERR_INIT;
	int r;

	assert(w);
	worker_close_pidfd(w);
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

static void worker_stop(struct worker *w, int why)
{
	if (!w->cancelled)
		w->cancelled = why;
	/* our child, not yet reaped: the pid can't have been reused */
	(void)syscall(SYS_pidfd_send_signal, w->pidfd, SIGKILL, NULL, 0);
}

/* It holds copies of the agent's descriptors, the registry's lock among them: it must not outlive
 * the agent. */
static void worker_await_end(const struct worker *w)
{
	struct pollfd end = {.fd = w->pidfd, .events = POLLIN};

	while (poll(&end, 1, END_PATIENCE_MS) < 0 && errno == EINTR)
		;
}

static void worker_on_limit(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	assert(timer->data);
	worker_stop(timer->data, -ETIME);
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
	ev_init(&w->limit, worker_on_limit);
	w->limit.data = w;
	return 0;
}

/* Signals that the agent reads from a descriptor stay blocked here: a terminal's signals are
 * meant for the agent. */
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

/* Not clone3(2), which old kernels lack and seccomp filters refuse: clone(2) suffices. */
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
	ev_io_init(&w->io, worker_on_end, pidfd, EV_READ);
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
		worker_stop(w, -ECANCELED);
}

bool worker_wait(struct worker *w, int *ret_r, struct err *ret_err)
{
	if (!worker_is_busy(w) || w->cancelled)
		return false;
	worker_await_end(w);
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
		worker_stop(w, -ECANCELED);
		worker_await_end(w);
		worker_close_pidfd(w);
	}
	(void)munmap(w->answer, sizeof(*w->answer)); /* what mmap() gave: can't fail */
	w->answer = NULL;
}
