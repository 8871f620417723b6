/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The step's suspended state: who requests it, what it holds up, and how it is reported.
 *
 * Suspended means that all of the step's processes were seen to stand still. Until that is so, or
 * the deadline of the spec has passed and all go on as before, the step counts as running. While it
 * is suspended the limits of its time stand still. An end takes a suspension back first, so that
 * the step can act on what it is sent; SIGKILL does not need that.
 */
#ifndef STEPD_STEP_SUSPEND_H
#define STEPD_STEP_SUSPEND_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct agent;
struct handover;
struct json_t;
struct signalfd_siginfo;

struct suspend {
	bool wanted;        /* the last request was a suspension */
	bool resuming;      /* the last request was a resumption, which is under way */
	bool stands;        /* it was acknowledged, or done by hand without a request */
	bool to_check;      /* whether the kernel's state agrees, once nothing is under way */
	bool stop_self;     /* the agent stops then, too: a shell's job */
	bool stopped;       /* it has stopped, without a valid continuation */
	bool gave_terminal; /* given to the session's leader then: only an fg gives it back */
	unsigned ignored;   /* signals */
	uint64_t since_ns, total_ns;
};

/* Begins it, or replies at once if there is nothing to do. state.json has the outcome. */
void suspend_request(struct agent *a);
void suspend_resume(struct agent *a);

/* SIGTSTP suspends and SIGCONT resumes. From a terminal (^Z) the agent stops, too, once the step
 * is suspended; SIGCONT (fg, bg) continues both. The kernel lets any process of the session send
 * SIGCONT: it counts from root, the agent's user, and the owner of the session's leader (a
 * shell). If several are pending only the first one's sender is known; so it also counts if the
 * agent has the terminal again, which fg gives it first. */
void suspend_on_signal(struct agent *a, const struct signalfd_siginfo *info);

/* The outcome of a request to the container: r and err as of requests.h. */
void suspend_done(struct agent *a, int r, const struct err *err);
void suspend_resume_done(struct agent *a, int r, const struct err *err);

/* A signal's worker was lost, and may have left the container frozen. */
void suspend_thaw(struct agent *a);

/* A SIGKILL has dropped the requests under way. A step that outlives it is not left half
 * suspended. */
void suspend_overtaken(struct agent *a);

/* The container may have been frozen or thawed by hand: the kernel's state counts, and is
 * reported. */
void suspend_check(struct agent *a);

/* The step was adopted from an agent that, as recorded, had suspended it at since_ns, or was
 * about to. Changes by hand since then count. To be called before its time limits start. */
void suspend_adopt(struct agent *a, bool suspended, bool suspending, uint64_t since_ns);

/* Afterwards: finishes the dead agent's request; a suspension that it did not acknowledge is
 * undone. */
void suspend_adopted(struct agent *a, bool suspending);

/* The step is about to end otherwise than by SIGKILL. */
void suspend_give_up(struct agent *a);

/* No process is left. */
void suspend_end(struct agent *a);

/* At a re-exec (handover.h). */
void suspend_save(const struct suspend *s, struct handover *h, struct json_t *object);
void suspend_restore(struct suspend *s, const struct json_t *object);

/* "suspended", or the name of a->state. */
const char *suspend_state_name(const struct agent *a);

#endif
