/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What serves requests for the step, as the step sees it: the functions that an agent is given by
 * its options (frontends of stepd/frontend/frontends.h). They call the step's operations by
 * themselves; here is what the step reports to them.
 *
 * An agent without a frontend, or whose frontend could not be opened, goes on: the functions here
 * then do nothing.
 */
#ifndef STEPD_STEP_FRONTEND_H
#define STEPD_STEP_FRONTEND_H

#include <stdbool.h>

#include "stepd/base/err.h"

struct agent;
struct handover;
struct json_t;
struct frontends;

struct frontend {
	/* Requests are served from now on, in a->loop; what changes the step waits for ready. Sets
	 * a->frontends, also where it fails but for want of memory. The step's directory and its
	 * container stand. */
	int (*open)(struct agent *a, struct err *err);

	/* The tasks have been released, or never will be: what waited for that goes on. */
	void (*ready)(struct frontends *f);

	/* The step's state may be another one. */
	void (*state_changed)(struct frontends *f);

	/* A suspension, or a resumption, that was requested has come to its end. why: it has
	 * failed, with that code. */
	void (*suspended)(struct frontends *f, bool suspend, int code, const char *why);

	/* The MPI service process has sent a request of that name (mpi/link.h), which is answered
	 * by mpi_link_answer(), now or later. False: there is no such request. */
	bool (*mpi_request)(struct frontends *f, const char *name, const struct json_t *request);

	/* The result is on the disk: whoever waits for it is answered. May run the loop for that,
	 * no longer than readers take who read at all. */
	void (*end)(struct frontends *f);
	struct frontends *(*close)(struct frontends *f);

	/* For a new program in the agent's place (reexec.h): whether an answer is being made that
	 * it could not go on with (then reexec_answered() is called once none is); it was not
	 * executed, and why; all calls that are open, and the same again, in the place of open. */
	bool (*is_answering)(const struct frontends *f);
	void (*not_reexeced)(struct frontends *f, const struct err *why);
	void (*save)(const struct frontends *f, struct handover *h, struct json_t *object);
	int (*restore)(struct agent *a, const struct handover *h, const struct json_t *object,
		struct err *err);
};

int frontend_open(struct agent *a, struct err *err) _must_check_;
void frontend_ready(struct agent *a);
void frontend_state_changed(struct agent *a);
void frontend_suspended(struct agent *a, bool suspend, int code, const char *why);
bool frontend_mpi_request(
	struct agent *a, const char *name, const struct json_t *request) _must_check_;
void frontend_end(struct agent *a);
void frontend_close(struct agent *a);
bool frontend_is_answering(const struct agent *a);
void frontend_not_reexeced(struct agent *a, const struct err *why);
void frontend_save(const struct agent *a, struct handover *h, struct json_t *root);
int frontend_restore(struct agent *a, const struct handover *h, const struct json_t *object,
	struct err *err) _must_check_;

#endif
