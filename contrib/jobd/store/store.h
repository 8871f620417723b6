/* SPDX-License-Identifier: BSD-3-Clause
 *
 * jobd's persistent state: jobs, their steps, nodes and reservations, in the SQLite database
 * DIR/jobd.db. Records are JSON documents, whose members are defined by the engine. Each change is
 * a transaction of its own, unless store_begin() was called: a change that has returned 0 survives
 * a kill -9 of jobd.
 *
 * Only one process can have a database open; an error names its pid. A process must open it only
 * once at a time, and its children must not use the struct, as SQLite's locks are those of
 * fcntl(2). Calls block while the disk does.
 */
#ifndef JOBD_STORE_STORE_H
#define JOBD_STORE_STORE_H

#include <jansson.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"

struct store;

/* The possible loss by a power cut. Neither loses anything by a kill -9. */
enum store_sync {
	/* The changes since the last store_flush(), or since SQLite has written 4 MB back by
	 * itself. Even then no job id is used twice. */
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
 * -EBUSY: another process has it; -EBADMSG: damaged, or not a database of jobd; -EPROTO: written by
 * a newer jobd; -EPERM: others could change it; or an error of the system calls. */
int store_open(const char *dir, enum store_sync sync, struct store **ret_store,
	struct err *err) _must_check_;

/* Also ends a transaction that is open, without its changes. NULL is fine. Returns NULL. */
struct store *store_close(struct store *s);
DEFINE_CLEANUP(struct store *, store_close);
#define _cleanup_store_ _cleanup_(store_close_p)

/* A transaction: store_commit() writes all of its changes or none. It holds no lock that others
 * wait for, but before the commit nothing that depends on the changes may be acknowledged or
 * started. After a failed change the following ones and the commit fail, too. After a failed commit
 * no change was written, and the transaction is closed, as after store_rollback(), which does
 * nothing if none is open. */
int store_begin(struct store *s, struct err *err) _must_check_;
int store_commit(struct store *s, struct err *err) _must_check_;
void store_rollback(struct store *s);

/* Makes all committed changes survive a power cut. Not within a transaction. */
int store_flush(struct store *s, struct err *err) _must_check_;

/* Higher than the ids of all jobs that were ever stored, including forgotten ones. */
uint32_t store_get_next_job_id(const struct store *s);

/* ---- records -----------------------------------------------------------------------------------
 *
 * The documents remain the caller's. Functions return 0, or -errno with a sentence in err that
 * names the record: -ENOSPC, -EIO, -EBADMSG (the file is damaged), -ENOMEM; the record is then
 * unchanged.
 */

/* The members "script", "argv" and "env", of the document or of its "request", are only written
 * when the job is new: they don't change later, and may be large. Tasks of an array that are stored
 * one after the other share them. */
int store_save_job(
	struct store *s, uint32_t job_id, const json_t *document, struct err *err) _must_check_;

/* The same for a stored job, with a document without those members. -ENOENT, without a text in err:
 * the job is not stored. */
int store_change_job(
	struct store *s, uint32_t job_id, const json_t *document, struct err *err) _must_check_;

/* Removes a job and its steps. A job that is not stored is fine. */
int store_forget_job(struct store *s, uint32_t job_id, struct err *err) _must_check_;

int store_save_node(
	struct store *s, const char *name, const json_t *document, struct err *err) _must_check_;

/* document NULL: removes it. */
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
	const char *agent; /* the runner's text, which names the agent */
	enum store_step_state state;
	int exit_status; /* as wait(2) has it; -1: none yet */
};
int store_save_step(struct store *s, const struct store_step *step, struct err *err) _must_check_;
int store_forget_step(struct store *s, uint32_t job_id, uint32_t step_id,
	struct err *err) _must_check_; /* on all nodes */

/* ---- after a restart ---------------------------------------------------------------------------
 *
 * Call fn for each record until it returns a negative number, which is returned with the err that
 * it filled. The argument is valid during the call; fn must not call functions of the store.
 */
typedef int (*store_document_fn)(const json_t *document, void *userdata, struct err *err);
typedef int (*store_step_fn)(const struct store_step *step, void *userdata, struct err *err);

/* In the order of ids, with the members that were only written once. */
int store_each_job(
	struct store *s, store_document_fn fn, void *userdata, struct err *err) _must_check_;
int store_each_node(
	struct store *s, store_document_fn fn, void *userdata, struct err *err) _must_check_;
int store_each_reservation(
	struct store *s, store_document_fn fn, void *userdata, struct err *err) _must_check_;
/* In the order of job, step and node. */
int store_each_step(
	struct store *s, store_step_fn fn, void *userdata, struct err *err) _must_check_;

#endif
