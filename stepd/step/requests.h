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
 * time it leaves the step from its delivery on: where that takes long (a walk over a large /proc),
 * a task has its time all the same. When the last one, SIGKILL, has not emptied the container
 * within the unkillable timeout, the owner is notified and decides. */

struct killseq {
	struct ev_loop *loop;
	const struct spec_kill *steps; /* borrowed */
	size_t count, next;
	uint64_t unkillable_timeout_ms;
	ev_timer timer;
	bool started;
	bool exhausted;  /* the unkillable timeout runs, or has run out */
	bool delivering; /* the last signal is on its way, and its time does not count yet */
	void (*send)(int signal, void *userdata);
	void (*unkillable)(void *userdata);
	void *userdata;
};

/* Sends the first signals at once. A second call changes nothing. */
void killseq_start(struct killseq *ks);

/* The step has that signal, or can't have it: the time that it leaves begins. Does nothing where
 * the last one sent was another, or is delivered. */
void killseq_delivered(struct killseq *ks, int signal);

/* Another sequence, borrowed like the first. One that runs goes on behind its last signal in the
 * new one, whose time counts since then; or at its begin, where that signal is not in it. False:
 * the one that runs is at its end as early, and stays. */
bool killseq_shorten(struct killseq *ks, const struct spec_kill *steps, size_t count);

/* Goes to the last signal now, whatever was to come before it. Repeats it if it was sent. */
void killseq_kill_now(struct killseq *ks);

/* The container is empty, or the owner gives up. */
void killseq_stop(struct killseq *ks);

/* Where it stands, for the program that goes on with it (handover.h). restore: ks is set up as for
 * killseq_start(), with the same steps. */
void killseq_save(const struct killseq *ks, struct handover *h, struct json_t *object);
void killseq_restore(struct killseq *ks, const struct json_t *object);

/* ---- requests ------------------------------------------------------------------------------ */

enum request_kind {
	REQUEST_SIGNAL,
	REQUEST_SUSPEND,
	REQUEST_RESUME,
};

/* Whom a signal goes to. */
enum request_whom {
	REQUEST_STEP,    /* all members */
	REQUEST_TASKS,   /* those of some tasks */
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

/* Called once, with what done gets; -ECANCELED: a kill has overtaken it; -ESRCH: no
 * member is left. */
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
	/* Just before it is carried out, and after; r as of proctrack.h, or of worker_done_fn. */
	void (*begin)(const struct request *request, void *userdata);
	void (*done)(const struct request *request, int r, const struct err *err, void *userdata);
	/* NULL, or: they rest, and the one that was under way has come to its end, by done or
	 * overtaken by a kill. */
	void (*rested)(void *userdata);
	void *userdata;

	struct worker worker;
	bool open; /* between requests_init() and requests_clear() */
	struct request_list waiting;
	struct request *now;               /* under way */
	bool resting;                      /* none is begun: requests_rest() */
	bool holding;                      /* a suspension was requested, and no resumption since */
	uint64_t held;                     /* signals to all members, 1 << (n - 1) */
	struct request_list held_requests; /* signals to some */
	unsigned held_count;
};

/* The first five are set, and stay the caller's. */
int requests_init(struct requests *rq, struct ev_loop *loop) _must_check_;

/* Drops all; a signal that is under way is waited for, a second at most, and answered with what
 * became of it. Nothing can be requested any more. */
void requests_clear(struct requests *rq);

/* -ENOMEM. -ESRCH after requests_clear(). done may come before this returns, where no worker can be
 * had. */
int requests_add(struct requests *rq, enum request_kind kind, int signal) _must_check_;

/* A signal to some, or whose caller waits for it; the target is copied. A held one is answered at
 * once. On failure nothing is answered; -EAGAIN: too many are held. */
int requests_add_signal(struct requests *rq, int signal, const struct request_target *target,
	const struct request_answer *answer) _must_check_;

/* Takes back a suspension that is waiting, or under way: then done gets -ECANCELED when that has
 * ended, and some may stand until REQUEST_RESUME. */
void requests_withdraw_suspend(struct requests *rq);

/* SIGKILL, now: 0 or -errno. done is not called for what was under way or waiting; who waits for an
 * answer gets it. */
int requests_kill(struct requests *rq) _must_check_;

/* While they rest none is begun, and requests wait; a kill does not. The one under way comes to its
 * end, with done. */
void requests_rest(struct requests *rq, bool rest);

/* Whether one is under way. */
bool requests_is_busy(const struct requests *rq);

/* Whose answer goes to that userdata: its number among those that wait, -1 if it
 * is none of them; and the other way round, in the new program. False: there is none. */
int64_t requests_number_of(const struct requests *rq, const void *userdata);
bool requests_set_answer(
	struct requests *rq, int64_t number, const struct request_answer *answer) _must_check_;

/* At a re-exec (handover.h): those that wait. restore:
 * after requests_init(); they rest, and begin with requests_rest(). */
void requests_save(const struct requests *rq, struct handover *h, struct json_t *object);
int requests_restore(struct requests *rq, const struct json_t *object) _must_check_;

#endif
