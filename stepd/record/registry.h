/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the node knows of a step while it lives: <runtime>/<node>_<job>.<step>/ with
 *   lock         locked by the agent for as long as it lives: when its first byte has no lock the
 *                agent is gone, whatever process has its pid now
 *   state.json   the step's identity and how its processes are found; replaced whole at each change
 *   spec.json    the document it was made of, for an agent that takes it over
 *   holder       the socket of what holds the tasks' streams (stdio/hold.h)
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

/* Version of state.json: increased when a field's meaning changes, not when a field is added. */
#define REGISTRY_STATE_VERSION 1

/* The first member of result.json in a step's directory: microseconds since the epoch. */
#define RESULT_KEEP_UNTIL "keep_until_time_usec"

/* Claims the step's directory. -EEXIST: another agent, named in err, lives and has it. The first
 * registry_publish() takes over a dead agent's files; before, they stay as they are, since they
 * lead to the processes that the dead agent left running. */
int registry_open(const char *runtime_dir, const stepd_step_rec_t *job, struct registry **ret_reg,
	struct err *err) _must_check_;

/* Claims the directory of an existing step, to continue for a dead agent. The dead agent's files
 * stay until registry_inherit() or registry_publish(). -ENOENT: the step has no directory. */
int registry_take_over(const char *runtime_dir, const stepd_step_rec_t *job,
	struct registry **ret_reg, struct err *err) _must_check_;

/* The dead agent's files are this agent's from now on: registry_close() removes them. */
void registry_inherit(struct registry *reg);

/* Whether name is a file of a step's directory. */
bool registry_has_file(const char *name);

/* Sets the directory of the step's container (proctrack_get_root()), by which its processes can
 * be found later: state.json has it from now on. */
int registry_set_root(struct registry *reg, const char *container_root) _must_check_;

/* NULL: the backend needs none. */
const char *registry_get_root(const struct registry *reg);

/* The directory, for messages and paths. */
const char *registry_get_path(const struct registry *reg);
int registry_get_dirfd(const struct registry *reg);
int registry_get_lock_fd(const struct registry *reg);
int registry_get_runtime_fd(const struct registry *reg); /* of the directory above it */

/* Writes state.json: the step's identity, state (agent_state_names[], "suspended" or
 * "unkillable") and backend, and the members of more, which is borrowed and may be NULL. */
int registry_publish(struct registry *reg, const stepd_step_rec_t *job, const char *proctrack_type,
	const char *state, struct json_t *more, struct err *err) _must_check_;

/* Stores the spec's document, before the first registry_publish(): readable by this process's
 * user only, since it has the tasks' environment. */
int registry_store_spec(struct registry *reg, const char *text, struct err *err) _must_check_;

/* Reserves the disk blocks of a result.json of this size, as far as the file system has them. */
int registry_reserve_result(struct registry *reg, size_t size, struct err *err) _must_check_;

/* Writes result.json, which is on the disk when this returns. */
int registry_store_result(struct registry *reg, const char *text, struct err *err) _must_check_;

/* Removes the directory and its files. NULL is allowed. Returns NULL. */
struct registry *registry_close(struct registry *reg);

/* The same, but result.json stays, and the directory with it. Returns NULL. */
struct registry *registry_retire(struct registry *reg);

/* Closes the directory and leaves all files, by which the processes that the step could not end
 * can be found. Returns NULL. */
struct registry *registry_leave(struct registry *reg);
DEFINE_CLEANUP(struct registry *, registry_close);
#define _cleanup_registry_ _cleanup_(registry_close_p)

/* steps_show() for a dead agent's files in the directory that registry_open() has claimed, before
 * registry_publish() replaces them. 0 where there are none. */
int registry_show_left(
	const struct registry *reg, steps_found_fn found, void *userdata) _must_check_;

/* At a re-exec (handover.h). The lock goes over with its descriptor. */
void registry_save(const struct registry *reg, struct handover *h, struct json_t *object);
int registry_restore(const struct handover *h, const struct json_t *object,
	struct registry **ret_reg, struct err *err) _must_check_;

/* ---- the lock ------------------------------------------------------------------------------ */

/* The file "lock" of a step's directory, by fcntl(2)'s locks of open files: they end with the
 * process, and testing one (F_OFD_GETLK) takes none, so that a test whether an agent lives can't
 * be mistaken for an agent.
 *   byte 0        an agent's, for as long as it lives
 *   all others    an agent's, too, or of a cleaner after a dead one, for a moment
 * An agent takes byte 0 first and waits for the others; a cleaner takes the others without
 * waiting, and then tests byte 0. */

/* A cleaner's lock, held until the descriptor is closed. -EWOULDBLOCK: an agent lives, or another
 * cleaner is at work; -ESTALE: the directory was removed meanwhile. */
int registry_lock_for_cleaning(int dir_fd) _must_check_;

#endif
