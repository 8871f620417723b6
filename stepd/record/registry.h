/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the node knows of a step while it lives: <runtime>/<node>_<job>.<step>/ with
 *   lock         locked by the agent for as long as it lives: when its first byte has no lock the
 *                agent is gone, whatever process has its pid now
 *   state.json   the step's identity and how its processes are found; replaced whole at each change
 *   spec.json    the document it was made of, for an agent that takes it over
 *   script       of a batch step, readable by its user alone
 *   result.json  how it ended; stays behind, alone, until it expires
 * <runtime> is /run/stepd for root; for a user $XDG_RUNTIME_DIR/stepd, or /tmp/stepd-UID.
 */
#ifndef STEPD_RECORD_REGISTRY_H
#define STEPD_RECORD_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/api/step.h"
#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"
#include "stepd/state/steps.h"

struct handover;
struct json_t;
struct registry;

/* Of state.json: grows where a field changes its meaning, not where one is added. */
#define REGISTRY_STATE_VERSION 1

/* The first member of result.json in a step's directory: microseconds since the epoch. */
#define RESULT_KEEP_UNTIL "keep_until_time_usec"

/* Claims the step's directory. -EEXIST: another agent, named in err, lives and has it. What a
 * dead agent left there is taken over with the first registry_publish(), and stays as it was if
 * it does not come to that: by it one finds what the dead agent left running. */
int registry_open(const char *runtime_dir, const stepd_step_rec_t *job, struct registry **ret_reg,
	struct err *err) _must_check_;

/* Claims the directory of a step that has one, to go on where a dead agent ended. What that one
 * left stays until registry_inherit() or registry_publish(). -ENOENT: there is none. */
int registry_take_over(const char *runtime_dir, const stepd_step_rec_t *job,
	struct registry **ret_reg, struct err *err) _must_check_;

/* What the dead agent left is this one's from now on: registry_close() removes it. */
void registry_inherit(struct registry *reg);

/* Whether a step's directory may hold a file of that name. */
bool registry_has_file(const char *name);

/* The directory of the step's container (proctrack_get_root()), by which its processes are found
 * later: it goes into state.json from now on. */
int registry_set_root(struct registry *reg, const char *container_root) _must_check_;

/* NULL: the backend needs none. */
const char *registry_get_root(const struct registry *reg);

/* The directory, for messages and paths. */
const char *registry_get_path(const struct registry *reg);
int registry_get_dirfd(const struct registry *reg);
int registry_get_lock_fd(const struct registry *reg);
int registry_get_runtime_fd(const struct registry *reg); /* of the directory above it */

/* Writes state.json: the step's identity, state (agent_state_names[], "suspended" or "unkillable")
 * and backend, and the members of more, which is borrowed; NULL: there are none. */
int registry_publish(struct registry *reg, const stepd_step_rec_t *job, const char *proctrack_type,
	const char *state, struct json_t *more, struct err *err) _must_check_;

/* The document that the step was made of, before the first registry_publish(): for this process's
 * user alone, since it has the tasks' environment. */
int registry_store_spec(struct registry *reg, const char *text, struct err *err) _must_check_;

/* Makes sure of the blocks that a result.json of this size takes, as long as the file system has
 * them. */
int registry_reserve_result(struct registry *reg, size_t size, struct err *err) _must_check_;

/* result.json, on the disk when this returns. */
int registry_store_result(struct registry *reg, const char *text, struct err *err) _must_check_;

/* Removes all that registry_open() and others made there. NULL is fine. Returns NULL. */
struct registry *registry_close(struct registry *reg);

/* The same, but result.json stays, and the directory with it. Returns NULL. */
struct registry *registry_retire(struct registry *reg);

/* Closes the directory and leaves all in it, by which the processes are found that the step could
 * not end. Returns NULL. */
struct registry *registry_leave(struct registry *reg);
DEFINE_CLEANUP(struct registry *, registry_close);
#define _cleanup_registry_ _cleanup_(registry_close_p)

/* steps_show() for what a dead agent left in the directory that registry_open() has claimed, before
 * registry_publish() replaces it. 0 where there is nothing. */
int registry_show_left(
	const struct registry *reg, steps_found_fn found, void *userdata) _must_check_;

/* At a re-exec (handover.h). The lock goes over with its descriptor. */
void registry_save(const struct registry *reg, struct handover *h, struct json_t *object);
int registry_restore(const struct handover *h, const struct json_t *object,
	struct registry **ret_reg, struct err *err) _must_check_;

/* ---- the lock ------------------------------------------------------------------------------ */

/* The file "lock" of a step's directory, by fcntl(2)'s locks of open files: they end with the
 * process, and testing one (F_OFD_GETLK) takes none, so that the test whether an agent lives is
 * never taken for an agent.
 *   byte 0        an agent's, for as long as it lives
 *   all others    an agent's, too, or of a cleaner after a dead one, for a moment
 * An agent takes byte 0 first and waits for the others; a cleaner takes those and never waits, and
 * then tests whether byte 0 is taken. So neither disturbs the other. */

/* A cleaner's, which it holds until it closes the descriptor. -EWOULDBLOCK: an agent lives, or
 * another cleaner is at work; -ESTALE: the directory was removed meanwhile. */
int registry_lock_for_cleaning(int dir_fd) _must_check_;

#endif
