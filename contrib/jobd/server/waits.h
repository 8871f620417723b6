/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls of Wait: held until their jobs have started or ended, and answered then. The store's
 * functions report each change of a job; no thread waits, and nothing polls.
 */
#ifndef JOBD_SERVER_WAITS_H
#define JOBD_SERVER_WAITS_H

#include "contrib/jobd/server/target.h"

struct control_call;
struct waits;

struct waits *waits_new(const struct engine *e); /* NULL: out of memory */

/* To be called after the service was closed, which ended the calls. NULL is fine. Returns NULL. */
struct waits *waits_free(struct waits *w);

/* Holds the call until all of these jobs have ended, or with until_started have started. Answers
 * with the document of the job with the highest exit status, and of several such jobs the last one.
 */
void waits_add(struct waits *w, struct control_call *call, const struct target *target,
	bool until_started);

/* A job has changed, or is forgotten. May be called by the engine's store: only notes which calls
 * waits_answer() has to answer. */
void waits_job_changed(struct waits *w, const struct job *job);
void waits_job_forgotten(struct waits *w, uint32_t job_id);

/* Answers all calls whose jobs have reached the state that they wait for. */
void waits_answer(struct waits *w);

#endif
