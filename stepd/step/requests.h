/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What is to be done to the step's container, one after the other in the order of the requests:
 * suspend, resume, and signals. A worker carries each out, so that nothing here waits. SIGKILL is
 * the exception: it goes out at once, ends the worker and drops what was still to come.
 *
 * A signal to a suspended step is sent and waits in the kernel until the step is resumed. Those of
 * job control (CONT, STOP, TSTP, TTIN, TTOU) act on a process that stands still, too: they are held
 * here, the later cancelling the earlier as in the kernel, and sent after the resumption.
 */
#ifndef STEPD_STEP_REQUESTS_H
#define STEPD_STEP_REQUESTS_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "stepd/loop/loop.h"

struct handover;
struct json_t;
struct proctrack;
struct spec_kill;

/* ---- the kill sequence --------------------------------------------------------------------- */

/* The escalation: the signals of the spec's kill sequence, one after the other, each with the
 * time it leaves the step from its delivery on: even if that takes long (a walk over a large
 * /proc), a task gets its time. If the last one, SIGKILL, has not emptied the container within
 * the unkillable timeout, the owner is notified and decides. */

struct killseq {
	struct ev_loop *loop;
	const struct spec_kill *steps; /* borrowed */
	size_t count, next;
	uint64_t unkillable_timeout_ms;
	ev_timer timer;
	bool started;
	bool exhausted;  /* the unkillable timeout is running, or has expired */
	bool delivering; /* the last signal is being delivered, and its time does not count yet */
	void (*send)(int signal, void *userdata);
	void (*unkillable)(void *userdata);
	void *userdata;
};

/* Sends the first signals at once. A second call has no effect. */
void killseq_start(struct killseq *ks);

/* The signal is delivered, or can't be: its time starts. Does nothing if the last one sent was
 * another, or is already delivered. */
void killseq_delivered(struct killseq *ks, int signal);

/* Another sequence, borrowed like the first. A running one continues after its last signal in the
 * new one, whose time counts since then; or at the beginning, if that signal is not in it. False:
 * the running one ends as early, and stays. */
bool killseq_shorten(struct killseq *ks, const struct spec_kill *steps, size_t count);

/* Sends the last signal now, and skips all before it. Repeats it if it was sent. */
void killseq_kill_now(struct killseq *ks);

/* The container is empty, or the owner gives up. */
void killseq_stop(struct killseq *ks);

/* Its progress, for a new program (handover.h). restore: ks is set up as for killseq_start(),
 * with the same steps. */
void killseq_save(const struct killseq *ks, struct handover *h, struct json_t *object);
void killseq_restore(struct killseq *ks, const struct json_t *object);

/* ---- requests ------------------------------------------------------------------------------ */

enum request_kind {
	REQUEST_SIGNAL,
	REQUEST_SUSPEND,
	REQUEST_RESUME,
};

/* The receivers of a signal. */
enum request_whom {
	REQUEST_STEP,    /* all members */
	REQUEST_TASKS,   /* the members of some tasks */
	REQUEST_PROCESS, /* one member */
};

struct request_target {
	enum request_whom whom;
	bool alone;            /* not to the descendants of the tasks' first processes, or of pid */
	const uint32_t *ranks; /* of REQUEST_TASKS */
	size_t ranks_count;
	pid_t pid;            /* of REQUEST_PROCESS */
	uint64_t start_ticks; /* 0: any */
};

/* Called once, with the arguments of done; -ECANCELED: a kill has overtaken it; -ESRCH: no member
 * is left. */
struct request_answer {
	void (*fn)(int r, const struct err *err, void *userdata); /* NULL: nobody waits */
	void *userdata;
};

struct request {
	STAILQ_ENTRY(request) link;
	enum request_kind kind;
	int signal; /* of REQUEST_SIGNAL */
	struct request_target target;
	uint32_t *ranks; /* the target's, owned */
	struct request_answer answer;
};

STAILQ_HEAD(request_list, request);

struct requests {
	struct proctrack *pt;
	stepd_step_rec_t *job;
	uint64_t suspend_timeout_ms;
	/* Called just before it is carried out, and after; r as of proctrack.h, or of
	 * worker_done_fn. */
	void (*begin)(const struct request *request, void *userdata);
	void (*done)(const struct request *request, int r, const struct err *err, void *userdata);
	/* The pipes, at most two, whose ends mean that tasks which were forked have been executed
	 * (launch.h), where that is not known yet: how many. NULL: there are none. */
	size_t (*executing)(int fds[2], void *userdata);
	/* NULL, or: called when they are paused and the one under way is done or was overtaken by
	 * a kill. */
	void (*rested)(void *userdata);
	void *userdata;

	struct worker worker;
	bool open; /* between requests_init() and requests_clear() */
	struct request_list waiting;
	struct request *now; /* under way */
	bool resting;        /* paused: requests_rest() */
	bool holding;        /* a suspension was requested, without a resumption since */
	uint64_t held;       /* pending signals to all members, 1 << (n - 1) */
	struct request_list held_requests; /* pending signals to some */
	unsigned held_count;
};

/* The first five are set, and stay the caller's. */
int requests_init(struct requests *rq, struct ev_loop *loop) _must_check_;

/* Drops all requests; waits for a signal under way, a second at most, and replies with its
 * outcome. No request is accepted any more. */
void requests_clear(struct requests *rq);

/* -ENOMEM. -ESRCH after requests_clear(). done may be called before this returns, if no worker
 * can be started. */
int requests_add(struct requests *rq, enum request_kind kind, int signal) _must_check_;

/* A signal to some members, or whose caller waits for it; the target is copied. A held one is
 * replied to at once. On failure answer is not called; -EAGAIN: too many are held. */
int requests_add_signal(struct requests *rq, int signal, const struct request_target *target,
	const struct request_answer *answer) _must_check_;

/* Cancels a suspension that is pending or under way: done gets -ECANCELED when it has ended, and
 * some members may stay stopped until REQUEST_RESUME. */
void requests_withdraw_suspend(struct requests *rq);

/* SIGKILL, now: 0 or -errno. done is not called for requests under way or pending; callers that
 * wait get their reply. */
int requests_kill(struct requests *rq) _must_check_;

/* While paused none is begun: requests wait, except a kill. The one under way is finished, with
 * done. */
void requests_rest(struct requests *rq, bool rest);

/* Whether one is under way. */
bool requests_is_busy(const struct requests *rq);

/* The position of the pending request whose answer has that userdata, or -1; and in the new
 * program the userdata set by that position. False: there is none. */
int64_t requests_number_of(const struct requests *rq, const void *userdata);
bool requests_set_answer(
	struct requests *rq, int64_t number, const struct request_answer *answer) _must_check_;

/* At a re-exec (handover.h): the pending ones. restore: after requests_init(); they stay paused
 * until requests_rest(). */
void requests_save(const struct requests *rq, struct handover *h, struct json_t *object);
int requests_restore(struct requests *rq, const struct json_t *object) _must_check_;

#endif
