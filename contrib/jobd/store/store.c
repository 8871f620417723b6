/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The write-ahead log is SQLite's: a commit appends to DIR/jobd.db-wal in one write(2), so a killed
 * jobd loses nothing that was committed. With locking_mode=EXCLUSIVE there is no shared memory
 * file, and no other process reads the database meanwhile.
 *
 * With STORE_SYNC_NORMAL the log reaches the disk by store_flush() and checkpoints; a power cut
 * loses whole transactions, the last ones. Even then no id may be used twice: `state` has an id
 * above all given ones, which is flushed before the first of them is given. It only counts if the
 * machine was rebooted without store_close(), so that otherwise ids have no gaps.
 */
#include "contrib/jobd/store/store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/jobd/store/private_file.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/base/strv.h"

#define FILE_NAME      "jobd.db"
#define APPLICATION_ID 0x6a6f6264 /* "jobd", in the file's header */
#define NO_BOOT_ID     "unknown"
#define IDS_AHEAD      1024u /* given out before the disk is waited for again */

const char *const store_sync_names[STORE_SYNC_MAX] = {
	[STORE_SYNC_NORMAL] = "normal",
	[STORE_SYNC_FULL] = "full",
};

const char *const store_step_state_names[STORE_STEP_MAX] = {
	[STORE_STEP_STARTING] = "STARTING",
	[STORE_STEP_RUNNING] = "RUNNING",
	[STORE_STEP_ENDED] = "ENDED",
};

/* [n] makes version n + 1 of version n; 0 is an empty file. A script that has been released stays
 * as it is. */
static const char *const migrations[] = {
	"CREATE TABLE state (next_job_id INTEGER NOT NULL, reserved_job_id INTEGER NOT NULL,"
	"  boot_id TEXT NOT NULL);" /* '': it was closed */
	"INSERT INTO state VALUES (1, 1, '');"
	"CREATE TABLE payloads (id INTEGER PRIMARY KEY, document TEXT NOT NULL);"
	"CREATE TABLE jobs (id INTEGER PRIMARY KEY, payload INTEGER, document TEXT NOT NULL);"
	"CREATE INDEX jobs_by_payload ON jobs (payload);"
	"CREATE TABLE steps (job_id INTEGER NOT NULL, step_id INTEGER NOT NULL, node TEXT NOT NULL,"
	"  agent TEXT, state TEXT NOT NULL, exit_status INTEGER NOT NULL,"
	"  PRIMARY KEY (job_id, step_id, node));"
	"CREATE TABLE nodes (name TEXT PRIMARY KEY, document TEXT NOT NULL);"
	"CREATE TABLE reservations (name TEXT PRIMARY KEY, document TEXT NOT NULL);",
};
#define SCHEMA_VERSION ((int)ARRAY_SIZE(migrations))

enum statement {
	STATEMENT_BEGIN,
	STATEMENT_COMMIT,
	STATEMENT_ROLLBACK,
	STATEMENT_GET_STATE,
	STATEMENT_SET_BOOT,
	STATEMENT_RAISE_NEXT,
	STATEMENT_RAISE_RESERVED,
	STATEMENT_UPDATE_JOB,
	STATEMENT_INSERT_JOB,
	STATEMENT_INSERT_PAYLOAD,
	STATEMENT_DELETE_PAYLOAD,
	STATEMENT_DELETE_JOB,
	STATEMENT_DELETE_JOB_STEPS,
	STATEMENT_SAVE_NODE,
	STATEMENT_SAVE_RESERVATION,
	STATEMENT_DELETE_RESERVATION,
	STATEMENT_SAVE_STEP,
	STATEMENT_DELETE_STEP,
	STATEMENT_EACH_JOB,
	STATEMENT_EACH_NODE,
	STATEMENT_EACH_RESERVATION,
	STATEMENT_EACH_STEP,
	STATEMENT_MAX
};

static const char *const statements[STATEMENT_MAX] = {
	[STATEMENT_BEGIN] = "BEGIN IMMEDIATE",
	[STATEMENT_COMMIT] = "COMMIT",
	[STATEMENT_ROLLBACK] = "ROLLBACK",
	[STATEMENT_GET_STATE] = "SELECT next_job_id, reserved_job_id, boot_id FROM state",
	[STATEMENT_SET_BOOT] = "UPDATE state SET boot_id = ?1",
	[STATEMENT_RAISE_NEXT] = "UPDATE state SET next_job_id = max(next_job_id, ?1)",
	[STATEMENT_RAISE_RESERVED] = "UPDATE state SET reserved_job_id = max(reserved_job_id, ?1)",
	[STATEMENT_UPDATE_JOB] = "UPDATE jobs SET document = ?2 WHERE id = ?1",
	[STATEMENT_INSERT_JOB] = "INSERT INTO jobs (id, payload, document) VALUES (?1, ?2, ?3)",
	[STATEMENT_INSERT_PAYLOAD] = "INSERT INTO payloads (document) VALUES (?1)",
	[STATEMENT_DELETE_PAYLOAD] =
		"DELETE FROM payloads WHERE id = (SELECT payload FROM jobs WHERE id = ?1) AND 1 ="
		" (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE payload = payloads.id LIMIT 2))",
	[STATEMENT_DELETE_JOB] = "DELETE FROM jobs WHERE id = ?1",
	[STATEMENT_DELETE_JOB_STEPS] = "DELETE FROM steps WHERE job_id = ?1",
	[STATEMENT_SAVE_NODE] = "INSERT OR REPLACE INTO nodes VALUES (?1, ?2)",
	[STATEMENT_SAVE_RESERVATION] = "INSERT OR REPLACE INTO reservations VALUES (?1, ?2)",
	[STATEMENT_DELETE_RESERVATION] = "DELETE FROM reservations WHERE name = ?1",
	[STATEMENT_SAVE_STEP] = "INSERT OR REPLACE INTO steps VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
	[STATEMENT_DELETE_STEP] = "DELETE FROM steps WHERE job_id = ?1 AND step_id = ?2",
	[STATEMENT_EACH_JOB] = "SELECT jobs.id, jobs.document, payloads.document FROM jobs"
			       " LEFT JOIN payloads ON payloads.id = jobs.payload ORDER BY jobs.id",
	[STATEMENT_EACH_NODE] = "SELECT name, document, NULL FROM nodes ORDER BY name",
	[STATEMENT_EACH_RESERVATION] =
		"SELECT name, document, NULL FROM reservations ORDER BY name",
	[STATEMENT_EACH_STEP] = "SELECT job_id, step_id, node, agent, state, exit_status"
				" FROM steps ORDER BY job_id, step_id, node",
};

struct store {
	char *path; /* of the file */
	sqlite3 *db;
	sqlite3_stmt *statements[STATEMENT_MAX];
	uint32_t next_job_id;
	int64_t reserved_job_id; /* 0: to be written again */
	bool in_group, group_failed, flush_due;
	int error; /* errno of the last statement: sqlite3_system_errno() has none of a COMMIT */

	/* of the last new job: its tasks' neighbours share it */
	char *payload;
	int64_t payload_id;
};

/* ---- failures ----------------------------------------------------------------------------------
 */

/* The subject of a message; name NULL: it has a number. */
struct subject {
	const char *kind, *name;
	int64_t id;
};

static const struct failure {
	int rc, code;
	const char *text;
} failures[] = {
	{SQLITE_FULL, -ENOSPC, "its file system is full; make space there"},
	{SQLITE_IOERR, -EIO, "reading or writing failed; look for disk errors in the kernel's log"},
	{SQLITE_CORRUPT, -EBADMSG,
		"the file is damaged; stop jobd and rescue what is left with sqlite3's .recover, "
		"or move the file away to begin without jobs"},
	{SQLITE_NOTADB, -EBADMSG,
		"the file is damaged or not a database; restore a copy of it, or move it away to "
		"begin without jobs"},
	{SQLITE_READONLY, -EROFS,
		"the file can't be written; check how its file system is mounted"},
	{SQLITE_CANTOPEN, -EIO, "a file of it can't be opened"},
	{SQLITE_NOMEM, -ENOMEM, "out of memory"},
	{SQLITE_TOOBIG, -E2BIG, "it is larger than SQLite accepts, 1 GB"},
};

static int explain(const struct store *s, int rc, char *text, size_t size)
{
	const int error = s->error;
	size_t i;

	rc &= 0xff;
	if (rc == SQLITE_IOERR && (error == ENOSPC || error == EDQUOT))
		rc = SQLITE_FULL;
	for (i = 0; i < ARRAY_SIZE(failures); i++) {
		if (failures[i].rc != rc)
			continue;
		if (error && (rc == SQLITE_IOERR || rc == SQLITE_CANTOPEN))
			(void)snprintf(text, size, "%s (%s)", failures[i].text, strerror(error));
		else
			(void)snprintf(text, size, "%s", failures[i].text);
		return failures[i].code;
	}
	(void)snprintf(
		text, size, "SQLite: %s", s->db ? sqlite3_errmsg(s->db) : sqlite3_errstr(rc));
	return -EIO;
}

static void name_subject(const struct subject *about, char *text, size_t size)
{
	if (about->name)
		(void)snprintf(text, size, "%s '%.100s'", about->kind, about->name);
	else
		(void)snprintf(text, size, "%s %lld", about->kind, (long long)about->id);
}

static int fail(const struct store *s, int rc, const struct subject *about, const char *verb,
	struct err *err)
{
	char why[400], subject[160];
	int code = explain(s, rc, why, sizeof(why));

	name_subject(about, subject, sizeof(subject));
	return err_set_text(err, code, "%s was not %s '%s': %s", subject, verb, s->path, why);
}

/* ---- statements --------------------------------------------------------------------------------
 */

static int bind_all(sqlite3_stmt *statement, const char *types, va_list ap)
{
	int i, rc = SQLITE_OK;

	for (i = 0; types[i] && rc == SQLITE_OK; i++) {
		if (types[i] == 'i')
			rc = sqlite3_bind_int64(statement, i + 1, va_arg(ap, int64_t));
		else
			rc = sqlite3_bind_text(
				statement, i + 1, va_arg(ap, const char *), -1, SQLITE_STATIC);
	}
	return rc;
}

/* Binds by types (i: an int64_t, t: a text or NULL) and runs it to its end. A code of SQLite. */
static int run(struct store *s, enum statement which, const char *types, ...)
{
	sqlite3_stmt *statement = s->statements[which];
	va_list ap;
	int rc;

	va_start(ap, types);
	rc = bind_all(statement, types, ap);
	va_end(ap);
	errno = 0;
	if (rc == SQLITE_OK)
		rc = sqlite3_step(statement);
	s->error = errno;
	(void)sqlite3_reset(statement); /* repeats the code of the step */
	(void)sqlite3_clear_bindings(statement);
	return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int prepare_all(struct store *s)
{
	int i, rc = SQLITE_OK;

	for (i = 0; i < STATEMENT_MAX && rc == SQLITE_OK; i++)
		rc = sqlite3_prepare_v2(s->db, statements[i], -1, &s->statements[i], NULL);
	return rc;
}

/* The first column of the first row, of a statement that is needed once. */
static int get_text(struct store *s, const char *sql, char *text, size_t size)
{
	sqlite3_stmt *statement = NULL;
	int rc = sqlite3_prepare_v2(s->db, sql, -1, &statement, NULL);

	text[0] = '\0';
	errno = 0;
	if (rc == SQLITE_OK)
		rc = sqlite3_step(statement);
	s->error = errno;
	if (rc == SQLITE_ROW && sqlite3_column_text(statement, 0))
		(void)snprintf(text, size, "%s", (const char *)sqlite3_column_text(statement, 0));
	(void)sqlite3_finalize(statement); /* repeats the code of the step */
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* ---- transactions ------------------------------------------------------------------------------
 */

static void roll_back(struct store *s)
{
	/* SQLite has done it by itself after some failures */
	if (!sqlite3_get_autocommit(s->db))
		(void)run(s, STATEMENT_ROLLBACK, ""); /* it only ends what is in memory */
	free(take_ptr(s->payload));
	s->reserved_job_id = 0;
}

static int flush(struct store *s)
{
	int rc;

	errno = 0;
	rc = sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	s->error = errno;
	if (rc == SQLITE_OK)
		s->flush_due = false;
	return rc;
}

/* A failure is to be rolled back, once it has been explained. */
static int commit(struct store *s)
{
	int rc = run(s, STATEMENT_COMMIT, "");

	if (rc == SQLITE_OK && s->flush_due)
		(void)flush(s); /* it is committed; the next commit tries again */
	return rc;
}

static int begin_change(struct store *s, const struct subject *about, struct err *err)
{
	char subject[160];
	int rc;

	if (s->in_group && s->group_failed) {
		name_subject(about, subject, sizeof(subject));
		return err_set_text(err, -ECANCELED,
			"%s was not written to '%s': an earlier change of its transaction failed",
			subject, s->path);
	}
	if (s->in_group)
		return 0;
	rc = run(s, STATEMENT_BEGIN, "");
	return rc == SQLITE_OK ? 0 : fail(s, rc, about, "written to", err);
}

/* rc: of the change itself. */
static int end_change(struct store *s, int rc, const struct subject *about, struct err *err)
{
	int r = 0;

	if (rc == SQLITE_OK && !s->in_group)
		rc = commit(s);
	if (rc != SQLITE_OK)
		r = fail(s, rc, about, "written to", err);
	if (r < 0 && s->in_group)
		s->group_failed = true;
	else if (r < 0)
		roll_back(s);
	return r;
}

static int fail_group(const struct store *s, int rc, struct err *err)
{
	char why[400];
	int code = explain(s, rc, why, sizeof(why));

	return err_set_text(
		err, code, "nothing of a transaction was written to '%s': %s", s->path, why);
}

int store_begin(struct store *s, struct err *err)
{
	int rc;

	assert(!s->in_group);
	rc = run(s, STATEMENT_BEGIN, "");
	if (rc != SQLITE_OK)
		return fail_group(s, rc, err);
	s->in_group = true;
	s->group_failed = false;
	return 0;
}

void store_rollback(struct store *s)
{
	if (s->in_group)
		roll_back(s);
	s->in_group = false;
}

int store_commit(struct store *s, struct err *err)
{
	int rc, r = 0;

	assert(s->in_group);
	if (s->group_failed) {
		store_rollback(s);
		return err_set_text(err, -ECANCELED,
			"nothing of a transaction was written to '%s': one of its changes failed",
			s->path);
	}
	rc = commit(s);
	if (rc != SQLITE_OK) {
		r = fail_group(s, rc, err);
		roll_back(s);
	}
	s->in_group = false;
	return r;
}

int store_flush(struct store *s, struct err *err)
{
	char why[400];
	int code, rc;

	assert(!s->in_group);
	rc = flush(s);
	if (rc == SQLITE_OK)
		return 0;
	code = explain(s, rc, why, sizeof(why));
	return err_set_text(err, code, "the last changes in '%s' could be lost in a power cut: %s",
		s->path, why);
}

/* ---- jobs --------------------------------------------------------------------------------------
 */

uint32_t store_get_next_job_id(const struct store *s)
{
	return s->next_job_id;
}

/* Moves what is written once from an object that is the caller's alone. */
static int move_payload(json_t *from, json_t *payload)
{
	static const char *const names[] = {"script", "argv", "env"};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		json_t *value = json_object_get(from, names[i]);

		if (!value)
			continue;
		if (json_object_set(payload, names[i], value) < 0 ||
			json_object_del(from, names[i]) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* New references: the document without its payload, and that, in the same places. */
static int split_job(const json_t *document, json_t **ret_rest, json_t **ret_payload)
{
	json_auto_t *rest = json_copy((json_t *)document), *payload = json_object();
	json_auto_t *request = NULL, *request_payload = json_object();

	if (!rest || !payload || !request_payload || move_payload(rest, payload) < 0)
		return -ENOMEM;
	if (json_get_object(rest, "request")) {
		request = json_copy(json_object_get(rest, "request"));
		if (!request || move_payload(request, request_payload) < 0 ||
			json_object_set(rest, "request", request) < 0)
			return -ENOMEM;
	}
	if (json_object_size(request_payload) > 0 &&
		json_object_set(payload, "request", request_payload) < 0)
		return -ENOMEM;
	*ret_rest = take_ptr(rest);
	*ret_payload = take_ptr(payload);
	return 0;
}

/* *ret_id: 0 for a job without one. */
static int insert_payload(struct store *s, const json_t *payload, int64_t *ret_id)
{
	_cleanup_free_ char *text = NULL;
	int rc;

	*ret_id = 0;
	if (json_object_size(payload) == 0)
		return SQLITE_OK;
	text = json_dumps(payload, JSON_COMPACT);
	if (!text)
		return SQLITE_NOMEM;
	if (!s->payload || strcmp(s->payload, text) != 0) {
		rc = run(s, STATEMENT_INSERT_PAYLOAD, "t", text);
		if (rc != SQLITE_OK)
			return rc;
		free(s->payload);
		s->payload = take_ptr(text);
		s->payload_id = sqlite3_last_insert_rowid(s->db);
	}
	*ret_id = s->payload_id;
	return SQLITE_OK;
}

static int raise_next(struct store *s, uint32_t job_id)
{
	const int64_t next = (int64_t)job_id + 1;
	int rc = run(s, STATEMENT_RAISE_NEXT, "i", next);

	if (rc != SQLITE_OK)
		return rc;
	if (next > s->next_job_id)
		s->next_job_id = job_id < UINT32_MAX ? job_id + 1 : UINT32_MAX;
	if (next <= s->reserved_job_id)
		return SQLITE_OK;
	s->flush_due = true; /* before this one is acknowledged */
	s->reserved_job_id = next + IDS_AHEAD;
	return run(s, STATEMENT_RAISE_RESERVED, "i", s->reserved_job_id);
}

static int write_job(struct store *s, uint32_t job_id, const char *text, const json_t *payload)
{
	int64_t payload_id;
	int rc = run(s, STATEMENT_UPDATE_JOB, "it", (int64_t)job_id, text);

	if (rc != SQLITE_OK || sqlite3_changes(s->db) > 0)
		return rc;
	rc = insert_payload(s, payload, &payload_id);
	if (rc == SQLITE_OK)
		rc = run(s, STATEMENT_INSERT_JOB, "iit", (int64_t)job_id, payload_id, text);
	return rc == SQLITE_OK ? raise_next(s, job_id) : rc;
}

int store_save_job(struct store *s, uint32_t job_id, const json_t *document, struct err *err)
{
	const struct subject about = {.kind = "job", .id = job_id};
	json_auto_t *rest = NULL, *payload = NULL;
	_cleanup_free_ char *text = NULL;
	int r;

	if (split_job(document, &rest, &payload) == 0)
		text = json_dumps(rest, JSON_COMPACT);
	r = begin_change(s, &about, err);
	if (r < 0)
		return r;
	return end_change(
		s, text ? write_job(s, job_id, text, payload) : SQLITE_NOMEM, &about, err);
}

int store_change_job(struct store *s, uint32_t job_id, const json_t *document, struct err *err)
{
	const struct subject about = {.kind = "job", .id = job_id};
	_cleanup_free_ char *text = json_dumps(document, JSON_COMPACT);
	int rc, r = begin_change(s, &about, err);

	if (r < 0)
		return r;
	rc = text ? run(s, STATEMENT_UPDATE_JOB, "it", (int64_t)job_id, text) : SQLITE_NOMEM;
	if (rc != SQLITE_OK || sqlite3_changes(s->db) > 0)
		return end_change(s, rc, &about, err);
	if (!s->in_group)
		roll_back(s); /* of nothing */
	return -ENOENT;
}

int store_forget_job(struct store *s, uint32_t job_id, struct err *err)
{
	const struct subject about = {.kind = "the end of job", .id = job_id};
	int rc, r = begin_change(s, &about, err);

	if (r < 0)
		return r;
	rc = run(s, STATEMENT_DELETE_PAYLOAD, "i", (int64_t)job_id);
	if (rc == SQLITE_OK && sqlite3_changes(s->db) > 0)
		free(take_ptr(s->payload)); /* it may have been this one */
	if (rc == SQLITE_OK)
		rc = run(s, STATEMENT_DELETE_JOB_STEPS, "i", (int64_t)job_id);
	if (rc == SQLITE_OK)
		rc = run(s, STATEMENT_DELETE_JOB, "i", (int64_t)job_id);
	return end_change(s, rc, &about, err);
}

/* ---- nodes, reservations and steps -------------------------------------------------------------
 */

static int save_named(struct store *s, enum statement which, const struct subject *about,
	const json_t *document, struct err *err)
{
	_cleanup_free_ char *text = json_dumps(document, JSON_COMPACT);
	int r = begin_change(s, about, err);

	if (r < 0)
		return r;
	return end_change(
		s, text ? run(s, which, "tt", about->name, text) : SQLITE_NOMEM, about, err);
}

int store_save_node(struct store *s, const char *name, const json_t *document, struct err *err)
{
	const struct subject about = {.kind = "node", .name = name};

	return save_named(s, STATEMENT_SAVE_NODE, &about, document, err);
}

int store_save_reservation(
	struct store *s, const char *name, const json_t *document, struct err *err)
{
	const struct subject about = {.kind = "reservation", .name = name};
	int r;

	if (document)
		return save_named(s, STATEMENT_SAVE_RESERVATION, &about, document, err);
	r = begin_change(s, &about, err);
	if (r < 0)
		return r;
	return end_change(s, run(s, STATEMENT_DELETE_RESERVATION, "t", name), &about, err);
}

int store_save_step(struct store *s, const struct store_step *step, struct err *err)
{
	const struct subject about = {.kind = "a step of job", .id = step->job_id};
	int r = begin_change(s, &about, err);

	if (r < 0)
		return r;
	return end_change(s,
		run(s, STATEMENT_SAVE_STEP, "iittti", (int64_t)step->job_id, (int64_t)step->step_id,
			step->node, step->agent, store_step_state_names[step->state],
			(int64_t)step->exit_status),
		&about, err);
}

int store_forget_step(struct store *s, uint32_t job_id, uint32_t step_id, struct err *err)
{
	const struct subject about = {.kind = "the end of a step of job", .id = job_id};
	int r = begin_change(s, &about, err);

	if (r < 0)
		return r;
	return end_change(s, run(s, STATEMENT_DELETE_STEP, "ii", (int64_t)job_id, (int64_t)step_id),
		&about, err);
}

/* ---- after a restart ---------------------------------------------------------------------------
 */

static json_t *load_column(sqlite3_stmt *statement, int column)
{
	const char *text = (const char *)sqlite3_column_text(statement, column);
	json_t *json = text ? json_loads(text, JSON_ALLOW_NUL, NULL) : NULL;

	if (json_is_object(json))
		return json;
	json_decref(json);
	return NULL;
}

/* The reverse of split_job(). */
static int join_job(json_t *document, json_t *payload)
{
	const json_t *request = json_get_object(payload, "request");

	if (request &&
		json_object_update(json_get_object(document, "request"), (json_t *)request) < 0)
		return -ENOMEM;
	(void)json_object_del(payload, "request"); /* it may have none */
	return json_object_update(document, payload) < 0 ? -ENOMEM : 0;
}

/* NULL: it is damaged, or out of memory. */
static json_t *load_row(sqlite3_stmt *statement)
{
	json_auto_t *document = load_column(statement, 1), *payload = NULL;

	if (!document || sqlite3_column_type(statement, 2) == SQLITE_NULL)
		return take_ptr(document);
	payload = load_column(statement, 2);
	return payload && join_job(document, payload) == 0 ? take_ptr(document) : NULL;
}

static int report_row(const struct store *s, sqlite3_stmt *statement, const char *table,
	const char *key, struct err *err)
{
	return err_set_text(err, -EBADMSG,
		"a record of '%s' is damaged; restore a copy of the file, or remove it: "
		"sqlite3 '%s' \"DELETE FROM %s WHERE %s = '%s'\"",
		s->path, s->path, table, key, (const char *)sqlite3_column_text(statement, 0));
}

static int end_reading(struct store *s, int rc, const char *table, struct err *err)
{
	const struct subject about = {.kind = "the table of", .name = table};

	return rc == SQLITE_DONE ? 0 : fail(s, rc, &about, "read from", err);
}

static int each_document(struct store *s, enum statement which, const char *table,
	store_document_fn fn, void *userdata, struct err *err)
{
	sqlite3_stmt *statement = s->statements[which];
	int rc, r = 0;

	while (r >= 0 && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
		json_auto_t *document = load_row(statement);

		r = document ? fn(document, userdata, err)
			     : report_row(s, statement, table,
				       which == STATEMENT_EACH_JOB ? "id" : "name", err);
	}
	r = r < 0 ? r : end_reading(s, rc, table, err);
	(void)sqlite3_reset(statement); /* repeats the code of the step */
	return r;
}

int store_each_job(struct store *s, store_document_fn fn, void *userdata, struct err *err)
{
	return each_document(s, STATEMENT_EACH_JOB, "jobs", fn, userdata, err);
}

int store_each_node(struct store *s, store_document_fn fn, void *userdata, struct err *err)
{
	return each_document(s, STATEMENT_EACH_NODE, "nodes", fn, userdata, err);
}

int store_each_reservation(struct store *s, store_document_fn fn, void *userdata, struct err *err)
{
	return each_document(s, STATEMENT_EACH_RESERVATION, "reservations", fn, userdata, err);
}

/* False: it isn't one of this program. */
static bool load_step(sqlite3_stmt *statement, struct store_step *ret_step)
{
	const char *state = (const char *)sqlite3_column_text(statement, 4);
	int i = state ? strv_index(store_step_state_names, STORE_STEP_MAX, state) : -1;

	*ret_step = (struct store_step){
		.job_id = (uint32_t)sqlite3_column_int64(statement, 0),
		.step_id = (uint32_t)sqlite3_column_int64(statement, 1),
		.node = (const char *)sqlite3_column_text(statement, 2),
		.agent = (const char *)sqlite3_column_text(statement, 3),
		.state = (enum store_step_state)i,
		.exit_status = sqlite3_column_int(statement, 5),
	};
	return i >= 0 && ret_step->node;
}

int store_each_step(struct store *s, store_step_fn fn, void *userdata, struct err *err)
{
	sqlite3_stmt *statement = s->statements[STATEMENT_EACH_STEP];
	struct store_step step;
	int rc, r = 0;

	while (r >= 0 && (rc = sqlite3_step(statement)) == SQLITE_ROW)
		r = load_step(statement, &step) ? fn(&step, userdata, err)
						: report_row(s, statement, "steps", "job_id", err);
	r = r < 0 ? r : end_reading(s, rc, "steps", err);
	(void)sqlite3_reset(statement); /* repeats the code of the step */
	return r;
}

/* ---- the file ----------------------------------------------------------------------------------
 */

static void close_db(struct store *s)
{
	int i;

	for (i = 0; i < STATEMENT_MAX; i++) {
		(void)sqlite3_finalize(s->statements[i]); /* repeats the last failure of it */
		s->statements[i] = NULL;
	}
	(void)sqlite3_close(s->db); /* can't fail without statements */
	s->db = NULL;
}

static int fail_open(struct store *s, int rc, struct err *err)
{
	char why[400], who[32] = "";
	pid_t pid;
	int code;

	if ((rc & 0xff) != SQLITE_BUSY) {
		code = explain(s, rc, why, sizeof(why));
		return err_set_text(err, code, "can't open the jobs in '%s': %s", s->path, why);
	}
	close_db(s);
	pid = private_file_find_holder(s->path);
	if (pid > 0)
		(void)snprintf(who, sizeof(who), " (pid %d)", (int)pid);
	return err_set_text(err, -EBUSY,
		"another process%s has the jobs in '%s'; stop it, or give this jobd a directory of "
		"its own",
		who, s->path);
}

/* ---- its schema --------------------------------------------------------------------------------
 */

static int migrate(struct store *s, int version)
{
	char stamp[96];
	int rc = sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);

	for (; rc == SQLITE_OK && version < SCHEMA_VERSION; version++)
		rc = sqlite3_exec(s->db, migrations[version], NULL, NULL, NULL);
	(void)snprintf(stamp, sizeof(stamp), "PRAGMA application_id=%d; PRAGMA user_version=%d",
		APPLICATION_ID, SCHEMA_VERSION);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(s->db, stamp, NULL, NULL, NULL);
	return rc == SQLITE_OK ? sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) : rc;
}

/* Before anything is written: it could be another program's. */
static int check_identity(struct store *s, int *ret_version, struct err *err)
{
	char application[32], version[32], tables[32];
	int rc = get_text(s, "PRAGMA application_id", application, sizeof(application));

	if (rc == SQLITE_OK)
		rc = get_text(s, "PRAGMA user_version", version, sizeof(version));
	if (rc == SQLITE_OK)
		rc = get_text(s, "SELECT count(*) FROM sqlite_master", tables, sizeof(tables));
	if (rc != SQLITE_OK)
		return fail_open(s, rc, err);
	if (atoi(application) != APPLICATION_ID && atoi(tables) > 0)
		return err_set_text(err, -EBADMSG,
			"'%s' is a database of another program; move it away, or give jobd a "
			"directory of its own",
			s->path);
	if (atoi(version) > SCHEMA_VERSION)
		return err_set_text(err, -EPROTO,
			"'%s' was written by a newer jobd (schema %s, this one supports %d); start "
			"that one, or move the file away to begin without jobs",
			s->path, version, SCHEMA_VERSION);
	*ret_version = atoi(version);
	return 0;
}

static int check_damage(struct store *s, struct err *err)
{
	char found[200];
	int rc = get_text(s, "PRAGMA quick_check(1)", found, sizeof(found));

	if (rc != SQLITE_OK)
		return fail_open(s, rc, err);
	return strcmp(found, "ok") == 0 ? 0 : fail_open(s, SQLITE_CORRUPT, err);
}

static int set_journal(struct store *s, enum store_sync sync, struct err *err)
{
	char mode[32];
	int rc = get_text(s, "PRAGMA journal_mode=WAL", mode, sizeof(mode));

	if (rc == SQLITE_OK && strcmp(mode, "wal") != 0)
		return err_set_text(err, -EOPNOTSUPP,
			"'%s' can't have a write-ahead log (its journal is '%s'); use a local file "
			"system",
			s->path, mode);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(s->db,
			sync == STORE_SYNC_FULL ? "PRAGMA synchronous=FULL"
						: "PRAGMA synchronous=NORMAL",
			NULL, NULL, NULL);
	return rc == SQLITE_OK ? 0 : fail_open(s, rc, err);
}

/* ---- its life ----------------------------------------------------------------------------------
 */

static void read_boot_id(char *text, size_t size)
{
	_cleanup_free_ char *all = NULL;

	/* Without /proc every start counts as one after a power cut: there are gaps, no more. */
	if (fs_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 4096, &all, NULL) < 0)
		(void)snprintf(text, size, NO_BOOT_ID);
	else
		(void)snprintf(text, size, "%.*s", (int)strcspn(all, "\n"), all);
}

/* A code of SQLite. *ret_is_new: boot_id is to be written. */
static int load_ids(struct store *s, const char *boot_id, bool *ret_is_new)
{
	sqlite3_stmt *statement = s->statements[STATEMENT_GET_STATE];
	int64_t next;
	const char *was;
	int rc = sqlite3_step(statement);

	if (rc != SQLITE_ROW || !(was = (const char *)sqlite3_column_text(statement, 2))) {
		(void)sqlite3_reset(statement); /* repeats the code of the step */
		return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_CORRUPT : rc;
	}
	next = sqlite3_column_int64(statement, 0);
	s->reserved_job_id = sqlite3_column_int64(statement, 1);
	*ret_is_new = strcmp(was, boot_id) != 0 || strcmp(was, NO_BOOT_ID) == 0;
	if (was[0] && *ret_is_new && next < s->reserved_job_id)
		next = s->reserved_job_id;
	(void)sqlite3_reset(statement);
	s->next_job_id = next < UINT32_MAX ? (uint32_t)next : UINT32_MAX;
	return next < 1 ? SQLITE_CORRUPT : SQLITE_OK;
}

static int begin_life(struct store *s)
{
	char boot_id[64];
	bool is_new = false;
	int rc;

	read_boot_id(boot_id, sizeof(boot_id));
	rc = load_ids(s, boot_id, &is_new);
	if (rc != SQLITE_OK || !is_new)
		return rc;
	rc = run(s, STATEMENT_RAISE_NEXT, "i", (int64_t)s->next_job_id);
	if (rc == SQLITE_OK)
		rc = run(s, STATEMENT_SET_BOOT, "t", boot_id);
	return rc == SQLITE_OK ? flush(s) : rc;
}

static int open_db(struct store *s, enum store_sync sync, struct err *err)
{
	int version = 0, r, rc;

	rc = sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(s->db,
			"PRAGMA locking_mode=EXCLUSIVE; PRAGMA temp_store=MEMORY;"
			"PRAGMA cache_size=-16384; PRAGMA journal_size_limit=67108864;"
			"BEGIN EXCLUSIVE; COMMIT" /* the lock stays */,
			NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		return fail_open(s, rc, err);
	r = check_identity(s, &version, err);
	if (r == 0)
		r = check_damage(s, err);
	if (r == 0)
		r = set_journal(s, sync, err);
	if (r < 0)
		return r;
	if (version < SCHEMA_VERSION)
		rc = migrate(s, version);
	if (rc == SQLITE_OK)
		rc = prepare_all(s);
	if (rc == SQLITE_OK)
		rc = begin_life(s);
	return rc == SQLITE_OK ? 0 : fail_open(s, rc, err);
}

int store_open(const char *dir, enum store_sync sync, struct store **ret_store, struct err *err)
{
	_cleanup_store_ struct store *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "open '%s'", dir);
	/* SQLite would make a file that others can read, and doesn't check the path */
	r = private_file_make(dir, FILE_NAME, &s->path, err);
	if (r == 0)
		r = open_db(s, sync, err);
	if (r == 0)
		*ret_store = take_ptr(s);
	return r;
}

struct store *store_close(struct store *s)
{
	if (!s)
		return NULL;
	store_rollback(s);
	/* Else the next one takes it for a machine that lost power: ids have a gap, no more. */
	if (s->db && s->statements[STATEMENT_SET_BOOT])
		(void)run(s, STATEMENT_SET_BOOT, "t", "");
	close_db(s);
	free(s->payload);
	free(s->path);
	free(s);
	return NULL;
}
