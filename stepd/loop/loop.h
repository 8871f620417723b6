/* SPDX-License-Identifier: BSD-3-Clause
 *
 * With libev, and what it lacks: timers that can be paused, a watch on files of the kernel, and
 * worker processes for what may block.
 */
#ifndef STEPD_LOOP_LOOP_H
#define STEPD_LOOP_LOOP_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "stepd/api/step.h"
#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"

struct handover;
struct json_t;
struct worker_answer;

/* ---- a timer that can be paused ------------------------------------------------------------ */

/* A timer that can be paused: time limits do not run while the step is suspended. */

struct pausable {
	struct ev_loop *loop;
	ev_timer timer;
	bool set; /* running or paused */
	bool paused;
	double left_sec; /* while it is paused */
};

/* expired gets userdata as its watcher's data. */
void pausable_init(struct pausable *p, struct ev_loop *loop,
	void (*expired)(struct ev_loop *loop, ev_timer *w, int revents), void *userdata);

/* Starts the timer; if it is paused it runs once it is resumed. */
void pausable_start(struct pausable *p, uint64_t ms);

/* Stops the timer; a timer that was never started is allowed. */
void pausable_stop(struct pausable *p);

bool pausable_is_set(const struct pausable *p);

void pausable_pause(struct pausable *p);
void pausable_continue(struct pausable *p);

/* At a re-exec (handover.h). restore: after pausable_init(). */
void pausable_save(const struct pausable *p, struct handover *h, struct json_t *object);
void pausable_restore(struct pausable *p, const struct json_t *object);

/* ---- a watch on a file of the kernel ------------------------------------------------------- */

/* Watches a file of the kernel that signals changes by EPOLLPRI, as cgroup.events and
 * memory.events do. libev has no such event; an epoll descriptor around the file becomes readable
 * instead. */

typedef void (*pri_watch_fn)(void *userdata);

struct pri_watch {
	struct ev_loop *loop;
	int fd; /* of the file; -1: nothing is watched */
	int epoll_fd;
	ev_io io;
	char text[512]; /* the file, as it was read last */
	pri_watch_fn news;
	void *userdata;
};

#define PRI_WATCH_INIT                                                                             \
	{                                                                                          \
		.fd = -1, .epoll_fd = -1                                                           \
	}

/* The watch owns fd from the call on, on failure too. Reads the file; no later change is missed.
 * 0 or -errno. */
int pri_watch_start(struct pri_watch *w, struct ev_loop *loop, int fd, pri_watch_fn news,
	void *userdata) _must_check_;

/* Reads the file into text: 0 or -errno, with the text as it was. */
int pri_watch_read(struct pri_watch *w) _must_check_;

void pri_watch_stop(struct pri_watch *w);

/* ---- a worker process ---------------------------------------------------------------------- */

/* A short-lived child of the agent for work that may take long (stopping a container whose
 * processes hang in the kernel, a signal by passes over a large /proc), so that the agent's loop
 * does not block. It is a copy of the agent: it has the plugins with their state, and its changes
 * to that state end with it. Its result comes back through a page of shared memory; its pidfd
 * reports its end.
 *
 * It is none of the step's processes: job->worker_pid is for trackers that go by descent. It has
 * no exit signal, so that the agent's wait for children passes it over, and the kernel ends it
 * when the agent dies. */
/* In the worker: 0 or -errno, with err filled. */
typedef int (*worker_fn)(void *userdata, struct err *err);

/* In the agent, once the worker has ended. Where it could not report a result: -ECANCELED,
 * worker_cancel() ended it; -ETIME, it exceeded its limit; -EPIPE, something else ended it. */
typedef void (*worker_done_fn)(int r, const struct err *err, void *userdata);

struct worker {
	struct ev_loop *loop;
	stepd_step_rec_t *job;
	worker_done_fn done;
	void *userdata;
	struct worker_answer *answer; /* shared with the worker */
	int pidfd;                    /* -1: none runs */
	int cancelled;                /* passed to worker_done_fn instead of its result, unless 0 */
	ev_io io;
	ev_timer limit;
};

int worker_init(struct worker *w, struct ev_loop *loop, stepd_step_rec_t *job, worker_done_fn done,
	void *userdata) _must_check_;

/* One at a time. limit_ms: it is killed after that time. A failure leaves nothing behind: the
 * caller can do the work itself. */
int worker_start(struct worker *w, worker_fn work, void *userdata, uint64_t limit_ms) _must_check_;

/* Whether r is one of those three. */
bool worker_is_lost(int r);

bool worker_is_busy(const struct worker *w);

/* Ends the one that runs, if any; done comes when it is gone. */
void worker_cancel(struct worker *w);

/* Waits at most a second for the running worker's end, and stores what done would get. False:
 * none is running, or it has no result. worker_clear() comes next, and done does not. */
bool worker_wait(struct worker *w, int *ret_r, struct err *ret_err) _must_check_;

/* As worker_cancel(), without a report and without waiting. A worker that was never started is
 * allowed.
 */
void worker_clear(struct worker *w);

#endif
