/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What jobd must find again: jobs, their steps, nodes and reservations, in the SQLite database
 * DIR/jobd.db. Records are JSON documents, whose members are the engine's matter. Each change is a
 * transaction of its own, unless store_begin() was called: what has returned 0 survives a kill -9
 * of jobd.
 *
 * Only one process has a database open; another one gets its pid. A process opens it once at a
 * time, and no child of it uses the struct: locks of SQLite are those of fcntl(2). Calls block
 * while the disk does.
 */
#ifndef JOBD_STORE_STORE_H
#define JOBD_STORE_STORE_H

#include <jansson.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"

struct store;

/* What a power cut may cost. A kill -9 costs nothing with either. */
enum store_sync {
	/* The changes since the last store_flush(), or since SQLite has written 4 MB back by
	 * itself. Job ids given out don't come back even then. */
	STORE_SYNC_NORMAL,
	/* Nothing: each transaction waits for the disk. */
	STORE_SYNC_FULL,
	STORE_SYNC_MAX
};
extern const char *const store_sync_names[STORE_SYNC_MAX]; /* "normal", "full" */

/* Opens or makes the database, and takes it for this process.
 * dir: an absolute path without symbolic links. The last directory is made if it is missing, with
 * mode 0700, and must be the caller's with that mode; those above must be root's or the caller's,
 * and not writable by others unless sticky.
 * -EBUSY: another process has it; -EBADMSG: damaged, or no database of jobd; -EPROTO: of a newer
 * jobd; -EPERM: others could change it; else what the system calls fail with. */
int store_open(const char *dir, enum store_sync sync, struct store **ret_store,
	struct err *err) _must_check_;

/* Also ends a transaction that is open, without its changes. NULL is fine. Returns NULL. */
struct store *store_close(struct store *s);
DEFINE_CLEANUP(struct store *, store_close);
#define _cleanup_store_ _cleanup_(store_close_p)

/* Several changes as one: all are there after store_commit(), or none. It holds no lock for others
 * to wait for, but until the commit nothing may be acknowledged or started that depends on the
 * changes. After a change has failed the following ones and the commit fail, too. After a failed
 * commit nothing of it is there, and the transaction is closed, as after store_rollback(); which
 * does nothing where none is open. */
int store_begin(struct store *s, struct err *err) _must_check_;
int store_commit(struct store *s, struct err *err) _must_check_;
void store_rollback(struct store *s);

/* What was committed until now survives a power cut. Not within a transaction. */
int store_flush(struct store *s, struct err *err) _must_check_;

/* Higher than all ids of jobs that were ever stored here, forgotten ones too. */
uint32_t store_get_next_job_id(const struct store *s);

/* ---- records -----------------------------------------------------------------------------------
 *
 * The documents remain the caller's. Functions return 0, or -errno with a sentence in err that
 * names the record: -ENOSPC, -EIO, -EBADMSG (the file is damaged), -ENOMEM; the record is then as
 * it was before.
 */

/* The members "script", "argv" and "env", of the document or of its "request", are written when
 * the job is new: they don't change later, and are as large as users like. Tasks of an array that
 * are stored one after the other share them. */
int store_save_job(
	struct store *s, uint32_t job_id, const json_t *document, struct err *err) _must_check_;

/* The same for a job that is there, of a document without those members. -ENOENT, with nothing in
 * err: it isn't there. */
int store_change_job(
	struct store *s, uint32_t job_id, const json_t *document, struct err *err) _must_check_;

/* With its steps. One that isn't there is fine. */
int store_forget_job(struct store *s, uint32_t job_id, struct err *err) _must_check_;

int store_save_node(
	struct store *s, const char *name, const json_t *document, struct err *err) _must_check_;

/* document NULL: it is gone. */
int store_save_reservation(
	struct store *s, const char *name, const json_t *document, struct err *err) _must_check_;

/* A step on one of its nodes. It is stored as starting before its agent is, so that no agent is
 * overlooked after a restart. */
enum store_step_state {
	STORE_STEP_STARTING,
	STORE_STEP_RUNNING,
	STORE_STEP_ENDED,
	STORE_STEP_MAX
};
extern const char *const store_step_state_names[STORE_STEP_MAX];

struct store_step {
	uint32_t job_id, step_id;
	const char *node;
	const char *agent; /* its socket, or the step's directory: as the runner wants it */
	enum store_step_state state;
	int exit_status; /* as wait(2) has it; -1: none yet */
};
int store_save_step(struct store *s, const struct store_step *step, struct err *err) _must_check_;
int store_forget_step(struct store *s, uint32_t job_id, uint32_t step_id,
	struct err *err) _must_check_; /* on all nodes */

/* ---- after a restart ---------------------------------------------------------------------------
 *
 * Call fn for each record until it returns a negative number, which is handed on with the err that
 * it filled. The argument is valid during the call; fn calls no function of the store.
 */
typedef int (*store_document_fn)(const json_t *document, void *userdata, struct err *err);
typedef int (*store_step_fn)(const struct store_step *step, void *userdata, struct err *err);

/* By id; with the members that were written once. */
int store_each_job(
	struct store *s, store_document_fn fn, void *userdata, struct err *err) _must_check_;
int store_each_node(
	struct store *s, store_document_fn fn, void *userdata, struct err *err) _must_check_;
int store_each_reservation(
	struct store *s, store_document_fn fn, void *userdata, struct err *err) _must_check_;
/* By job, step and node. */
int store_each_step(
	struct store *s, store_step_fn fn, void *userdata, struct err *err) _must_check_;

#endif
