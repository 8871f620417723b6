/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/store/store.h"

#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sqlite3.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "contrib/jobd/store/engine_store.h"
#include "stepd/base/json.h"
#include "tests/lib/scratch.h"

#define NOBODY 65534

struct ground {
	char *top, *dir, *file; /* dir: of the store, in top */
	int fds;
};

static int set_up(void **state)
{
	struct ground *g = calloc(1, sizeof(*g));

	if (!g)
		return -1;
	g->top = scratch_make();
	g->dir = scratch_path(g->top, "state");
	g->file = scratch_path(g->dir, "jobd.db");
	g->fds = scratch_count_fds();
	*state = g;
	return 0;
}

static int tear_down(void **state)
{
	struct ground *g = *state;
	int more = scratch_count_fds() - g->fds;

	scratch_remove(g->top);
	free(g->top);
	free(g->dir);
	free(g->file);
	free(g);
	return more;
}

static void need_root(void)
{
	if (geteuid() != 0)
		skip();
}

static struct store *open_store(const char *dir)
{
	struct store *s = NULL;
	struct err err = ERR_INIT;

	if (store_open(dir, STORE_SYNC_NORMAL, &s, &err) < 0)
		fail_msg("%s", err.text);
	return s;
}

/* The sentence has this text in it. */
static void check_refused(const char *dir, int code, const char *text)
{
	struct store *s = NULL;
	struct err err = ERR_INIT;
	int r = store_open(dir, STORE_SYNC_NORMAL, &s, &err);

	if (r != code || !strstr(err.text, text))
		fail_msg("code %d, not %d, or no '%s' in: %s", r, code, text, err.text);
	assert_null(s);
}

/* Runs fn in a child, whose failures end it with another status. */
static void in_child(void (*fn)(const struct ground *g), const struct ground *g)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		fn(g);
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define child_check(condition)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);      \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* ---- the file as sqlite3 sees it --------------------------------------------------------------
 */

static void sql(const char *file, const char *text)
{
	char *why = NULL;
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
	if (sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK)
		fail_msg("%s: %s", text, why);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static int64_t sql_number(const char *file, const char *text)
{
	sqlite3_stmt *statement = NULL;
	sqlite3 *db = NULL;
	int64_t n;

	assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, text, -1, &statement, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
	n = sqlite3_column_int64(statement, 0);
	(void)sqlite3_finalize(statement);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	return n;
}

/* ---- records ----------------------------------------------------------------------------------
 */

static json_t *make_job(uint32_t id, const char *state, const char *script)
{
	json_t *job = json_pack("{s:i, s:s, s:{s:s, s:s?, s:[s,s]}}", "job_id", (int)id, "state",
		state, "request", "name", "a job", "script", script, "env", "A=1", "B=2");

	assert_non_null(job);
	return job;
}

static int save_job(struct store *s, uint32_t id, const char *state, const char *script)
{
	json_auto_t *job = make_job(id, state, script);
	struct err err = ERR_INIT;

	return store_save_job(s, id, job, &err);
}

static int add_document(const json_t *document, void *userdata, _unused_ struct err *err)
{
	return json_array_append_new(userdata, json_deep_copy(document));
}

static json_t *get_jobs(struct store *s)
{
	json_t *all = json_array();
	struct err err = ERR_INIT;

	if (store_each_job(s, add_document, all, &err) < 0)
		fail_msg("%s", err.text);
	return all;
}

static void check_jobs(struct store *s, const char *text)
{
	json_auto_t *all = get_jobs(s), *ids = json_array();
	_cleanup_free_ char *found = NULL;
	json_t *job;
	size_t i;

	json_array_foreach (all, i, job) {
		(void)json_array_append(ids, json_object_get(job, "job_id"));
		(void)json_array_append(ids, json_object_get(job, "state"));
	}
	found = json_dumps(ids, JSON_COMPACT);
	assert_string_equal(found, text);
}

static void test_records_are_found_again(void **state)
{
	const struct ground *g = *state;
	struct store *s = open_store(g->dir);
	json_auto_t *job = make_job(7, "PENDING", "#!/bin/sh\n"), *node = NULL, *all = NULL;
	json_auto_t *odd =
		json_pack("{s:i, s:s#, s:s}", "job_id", 3, "name", "a\0\n\"", 4, "script", "top");

	node = json_pack("{s:s, s:s}", "name", "n1", "state", "idle");
	assert_int_equal(store_save_job(s, 7, job, NULL), 0);
	assert_int_equal(store_save_job(s, 3, odd, NULL), 0);
	assert_int_equal(store_save_node(s, "n1", node, NULL), 0);
	(void)json_object_set_new(node, "state", json_string("down"));
	assert_int_equal(store_save_node(s, "n1", node, NULL), 0);
	assert_int_equal(store_save_reservation(s, "r1", node, NULL), 0);
	assert_int_equal(store_save_reservation(s, "r2", node, NULL), 0);
	assert_int_equal(store_save_reservation(s, "r1", NULL, NULL), 0);
	/* the documents are as they were */
	assert_string_equal(json_get_text(odd, "script", ""), "top");
	assert_non_null(json_object_get(json_object_get(job, "request"), "env"));
	s = store_close(s);

	s = open_store(g->dir);
	all = get_jobs(s);
	assert_int_equal(json_array_size(all), 2);
	assert_true(json_equal(json_array_get(all, 0), odd));
	assert_true(json_equal(json_array_get(all, 1), job));
	(void)json_array_clear(all);
	assert_int_equal(store_each_node(s, add_document, all, NULL), 0);
	assert_int_equal(store_each_reservation(s, add_document, all, NULL), 0);
	assert_int_equal(json_array_size(all), 2);
	assert_true(json_equal(json_array_get(all, 0), node));
	assert_true(json_equal(json_array_get(all, 1), node));
	s = store_close(s);
}

static int refuse_document(const json_t *document, void *userdata, struct err *err)
{
	(*(int *)userdata)++;
	return err_set_text(
		err, -EPIPE, "job %d is refused", (int)json_get_int(document, "job_id", 0));
}

static void test_a_failure_of_the_reader_ends_the_reading(void **state)
{
	const struct ground *g = *state;
	struct store *s = open_store(g->dir);
	struct err err = ERR_INIT;
	int calls = 0;

	assert_int_equal(save_job(s, 1, "PENDING", NULL), 0);
	assert_int_equal(save_job(s, 2, "PENDING", NULL), 0);
	assert_int_equal(store_each_job(s, refuse_document, &calls, &err), -EPIPE);
	assert_string_equal(err.text, "job 1 is refused");
	assert_int_equal(calls, 1);
	check_jobs(s, "[1,\"PENDING\",2,\"PENDING\"]");
	s = store_close(s);
}

/* A change of state doesn't write the script again. */
static void test_the_payload_is_written_once(void **state)
{
	const struct ground *g = *state;
	json_auto_t *all = NULL;
	_cleanup_free_ char *script = malloc((1u << 20) + 1);
	struct store *s = open_store(g->dir);
	struct stat before, after;
	_cleanup_free_ char *wal = scratch_path(g->dir, "jobd.db-wal");
	int i;

	assert_non_null(script);
	memset(script, 's', 1u << 20);
	script[1u << 20] = '\0';
	assert_int_equal(save_job(s, 1, "PENDING", script), 0);
	assert_int_equal(store_flush(s, NULL), 0);
	assert_int_equal(stat(wal, &before), 0);
	for (i = 0; i < 100; i++)
		assert_int_equal(save_job(s, 1, "RUNNING", "another"), 0);
	assert_int_equal(stat(wal, &after), 0);
	assert_true(after.st_size <= before.st_size + (1 << 20)); /* and not 100 MB */
	all = get_jobs(s);
	assert_string_equal(json_get_text(json_array_get(all, 0), "state", ""), "RUNNING");
	assert_string_equal(
		json_get_text(json_object_get(json_array_get(all, 0), "request"), "script", ""),
		script);
	s = store_close(s);
}

static void test_tasks_of_an_array_share_their_payload(void **state)
{
	const struct ground *g = *state;
	struct store *s = open_store(g->dir);
	uint32_t id;

	assert_int_equal(store_begin(s, NULL), 0);
	for (id = 1; id <= 100; id++)
		assert_int_equal(save_job(s, id, "PENDING", "shared"), 0);
	assert_int_equal(store_commit(s, NULL), 0);
	assert_int_equal(save_job(s, 101, "PENDING", "its own"), 0);
	s = store_close(s);
	assert_int_equal(sql_number(g->file, "SELECT count(*) FROM payloads"), 2);

	s = open_store(g->dir);
	for (id = 2; id <= 101; id++)
		assert_int_equal(store_forget_job(s, id, NULL), 0);
	s = store_close(s);
	assert_int_equal(sql_number(g->file, "SELECT count(*) FROM payloads"), 1);

	/* the last one takes it away, and a new one isn't given what is gone */
	s = open_store(g->dir);
	assert_int_equal(save_job(s, 102, "PENDING", "again"), 0);
	assert_int_equal(store_forget_job(s, 102, NULL), 0);
	assert_int_equal(save_job(s, 103, "PENDING", "again"), 0);
	assert_int_equal(store_forget_job(s, 1, NULL), 0);
	s = store_close(s);
	assert_int_equal(
		sql_number(g->file,
			"SELECT count(*) FROM payloads JOIN jobs ON payload = payloads.id"),
		1);
	assert_int_equal(sql_number(g->file, "SELECT count(*) FROM payloads"), 1);
}

static int add_step(const struct store_step *step, void *userdata, _unused_ struct err *err)
{
	return json_array_append_new(userdata,
		json_pack("[I,I,s,s?,s,i]", (json_int_t)step->job_id, (json_int_t)step->step_id,
			step->node, step->agent, store_step_state_names[step->state],
			step->exit_status));
}

static void check_steps(struct store *s, const char *text)
{
	json_auto_t *all = json_array();
	_cleanup_free_ char *found = NULL;

	assert_int_equal(store_each_step(s, add_step, all, NULL), 0);
	found = json_dumps(all, JSON_COMPACT);
	assert_string_equal(found, text);
}

static void test_steps(void **state)
{
	const struct ground *g = *state;
	struct store *s = open_store(g->dir);
	struct store_step step = {.job_id = 1,
		.step_id = 4294967291u,
		.node = "n2",
		.state = STORE_STEP_STARTING,
		.exit_status = -1};

	assert_int_equal(store_save_step(s, &step, NULL), 0);
	step.node = "n1";
	assert_int_equal(store_save_step(s, &step, NULL), 0);
	step.agent = "/run/n1";
	step.state = STORE_STEP_ENDED;
	step.exit_status = 256;
	assert_int_equal(store_save_step(s, &step, NULL), 0);
	step.step_id = 0;
	assert_int_equal(store_save_step(s, &step, NULL), 0);
	step.job_id = 2;
	assert_int_equal(store_save_step(s, &step, NULL), 0);
	s = store_close(s);

	s = open_store(g->dir);
	check_steps(s,
		"[[1,0,\"n1\",\"/run/n1\",\"ENDED\",256],"
		"[1,4294967291,\"n1\",\"/run/n1\",\"ENDED\",256],"
		"[1,4294967291,\"n2\",null,\"STARTING\",-1],"
		"[2,0,\"n1\",\"/run/n1\",\"ENDED\",256]]");
	assert_int_equal(store_forget_step(s, 1, 4294967291u, NULL), 0);
	check_steps(s,
		"[[1,0,\"n1\",\"/run/n1\",\"ENDED\",256],"
		"[2,0,\"n1\",\"/run/n1\",\"ENDED\",256]]");
	assert_int_equal(store_forget_job(s, 1, NULL), 0);
	check_steps(s, "[[2,0,\"n1\",\"/run/n1\",\"ENDED\",256]]");
	s = store_close(s);
}

static void test_transactions(void **state)
{
	const struct ground *g = *state;
	struct store *s = open_store(g->dir);

	assert_int_equal(store_begin(s, NULL), 0);
	assert_int_equal(save_job(s, 1, "PENDING", "a"), 0);
	assert_int_equal(save_job(s, 2, "PENDING", "a"), 0);
	store_rollback(s);
	check_jobs(s, "[]");
	assert_int_equal(store_get_next_job_id(s), 3);

	/* the payload of what was taken back isn't shared */
	assert_int_equal(save_job(s, 3, "PENDING", "a"), 0);
	assert_int_equal(store_begin(s, NULL), 0);
	assert_int_equal(save_job(s, 3, "RUNNING", "a"), 0);
	assert_int_equal(save_job(s, 4, "PENDING", "a"), 0);
	assert_int_equal(store_commit(s, NULL), 0);
	assert_int_equal(store_begin(s, NULL), 0);
	assert_int_equal(save_job(s, 5, "PENDING", "a"), 0);
	s = store_close(s);

	s = open_store(g->dir);
	check_jobs(s, "[3,\"RUNNING\",4,\"PENDING\"]");
	assert_int_equal(store_get_next_job_id(s), 5);
	s = store_close(s);
	assert_int_equal(sql_number(g->file, "SELECT count(*) FROM payloads"), 1);
}

/* ---- job ids ----------------------------------------------------------------------------------
 */

static void leave_without_closing(const struct ground *g)
{
	struct store *s = open_store(g->dir);

	child_check(save_job(s, store_get_next_job_id(s), "PENDING", NULL) == 0);
	child_check(store_forget_job(s, store_get_next_job_id(s) - 1, NULL) == 0);
}

static void test_ids_never_come_back(void **state)
{
	const struct ground *g = *state;
	struct store *s = open_store(g->dir);

	assert_int_equal(store_get_next_job_id(s), 1);
	assert_int_equal(save_job(s, 41, "PENDING", NULL), 0);
	assert_int_equal(save_job(s, 17, "PENDING", NULL), 0);
	assert_int_equal(store_forget_job(s, 41, NULL), 0);
	assert_int_equal(store_forget_job(s, 17, NULL), 0);
	assert_int_equal(store_forget_job(s, 17, NULL), 0); /* that is fine */
	s = store_close(s);
	s = open_store(g->dir);
	assert_int_equal(store_get_next_job_id(s), 42);
	s = store_close(s);

	/* a killed one leaves no gap */
	in_child(leave_without_closing, g);
	s = open_store(g->dir);
	assert_int_equal(store_get_next_job_id(s), 43);
	assert_int_equal(save_job(s, UINT32_MAX, "PENDING", NULL), 0);
	assert_int_equal(store_get_next_job_id(s), UINT32_MAX);
	s = store_close(s);
	s = open_store(g->dir);
	assert_int_equal(store_get_next_job_id(s), UINT32_MAX);
	s = store_close(s);
}

/* What a power cut may leave: what has been flushed, and not the log behind it. */
static void test_ids_never_come_back_after_a_power_cut(void **state)
{
	const struct ground *g = *state;
	_cleanup_free_ char *wal = scratch_path(g->dir, "jobd.db-wal");
	struct store *s = NULL;
	uint32_t next;

	in_child(leave_without_closing, g);
	in_child(leave_without_closing, g);
	assert_int_equal(truncate(wal, 0), 0);
	sql(g->file, "UPDATE state SET boot_id = 'of another boot'");
	s = open_store(g->dir);
	next = store_get_next_job_id(s);
	assert_true(next > 2);
	s = store_close(s);

	/* a boot after a regular end leaves no gap */
	s = open_store(g->dir);
	assert_int_equal(store_get_next_job_id(s), next);
	s = store_close(s);
	assert_int_equal(sql_number(g->file, "SELECT count(*) FROM state WHERE boot_id = ''"), 1);
}

static void flush_and_leave(const struct ground *g)
{
	struct store *s = open_store(g->dir);

	child_check(save_job(s, 1, "PENDING", "x") == 0);
	child_check(save_job(s, 2, "PENDING", "x") == 0);
	child_check(store_flush(s, NULL) == 0);
	child_check(save_job(s, 2, "RUNNING", "x") == 0);
}

static void test_what_was_flushed_is_in_the_file(void **state)
{
	const struct ground *g = *state;
	_cleanup_free_ char *wal = scratch_path(g->dir, "jobd.db-wal");
	struct store *s = NULL;

	in_child(flush_and_leave, g);
	assert_int_equal(unlink(wal), 0);
	s = open_store(g->dir);
	check_jobs(s, "[1,\"PENDING\",2,\"PENDING\"]");
	s = store_close(s);
}

/* ---- kill -9 ----------------------------------------------------------------------------------
 */

#define MODEL_JOBS 65536
#define MODEL_LIVE 200

/* What the changes 1..seq make of an empty store: for each job the last change, 0: it is gone. */
struct model {
	uint64_t seq;
	uint32_t next, first, live;
	uint64_t changed[MODEL_JOBS];
};

struct change {
	bool forget;
	uint32_t id, count; /* several: in one transaction */
};

static uint64_t scramble(uint64_t x)
{
	x ^= x >> 31;
	x *= 0x7fb5d329728ea185u;
	x ^= x >> 27;
	x *= 0x81dadef4bc2dd44du;
	return x ^ x >> 33;
}

static struct change choose_change(const struct model *m)
{
	uint64_t h = scramble(m->seq + 1);
	struct change c = {.count = 1};

	c.forget = m->live > MODEL_LIVE;
	if (c.forget)
		c.id = m->first;
	else if (h % 3 == 0 || m->live == 0)
		c = (struct change){.id = m->next, .count = 1 + (uint32_t)(h >> 8) % 5};
	else
		c.id = m->first + (uint32_t)(h >> 8) % m->live;
	return c;
}

static void apply_change(struct model *m)
{
	struct change c = choose_change(m);
	uint32_t i;

	m->seq++;
	for (i = 0; i < c.count; i++)
		m->changed[c.id + i] = c.forget ? 0 : m->seq;
	if (c.forget) {
		m->first++;
		m->live--;
	} else if (c.id == m->next) {
		m->next += c.count;
		m->live += c.count;
	}
}

static void write_change(struct store *s, const struct model *m)
{
	struct change c = choose_change(m);
	char padding[6000];
	uint32_t i;

	if (c.forget) {
		child_check(store_forget_job(s, c.id, NULL) == 0);
		return;
	}
	memset(padding, 'p', sizeof(padding));
	if (c.count > 1)
		child_check(store_begin(s, NULL) == 0);
	for (i = 0; i < c.count; i++) {
		size_t size = scramble(m->seq + 2 + i) % sizeof(padding);
		json_auto_t *job = json_pack("{s:I, s:I, s:s#, s:s#}", "job_id",
			(json_int_t)(c.id + i), "seq", (json_int_t)(m->seq + 1), "padding", padding,
			size, "script", padding, size / 2);

		child_check(job && store_save_job(s, c.id + i, job, NULL) == 0);
	}
	if (c.count > 1)
		child_check(store_commit(s, NULL) == 0);
}

static _noreturn_ void write_until_killed(const struct ground *g, struct model *m, int fd)
{
	struct store *s = open_store(g->dir);

	for (;;) {
		write_change(s, m);
		apply_change(m);
		child_check(write(fd, &m->seq, sizeof(m->seq)) == sizeof(m->seq));
	}
}

/* The last change that was acknowledged. */
static uint64_t read_acknowledged(int fd, uint64_t seq)
{
	uint64_t next;

	while (read(fd, &next, sizeof(next)) == (ssize_t)sizeof(next))
		seq = next;
	return seq;
}

static int match_job(const json_t *job, void *userdata, _unused_ struct err *err)
{
	struct model *found = userdata;
	json_int_t id = json_get_int(job, "job_id", -1);

	child_check(id > 0 && id < MODEL_JOBS && json_object_get(job, "script"));
	found->changed[id] = (uint64_t)json_get_int(job, "seq", 0);
	found->live++;
	return 0;
}

static bool is_model(const struct model *found, const struct model *m)
{
	return found->live == m->live &&
		memcmp(found->changed, m->changed, sizeof(m->changed)) == 0;
}

/* In a child that doesn't close it, as that would wait for the disk. */
static _noreturn_ void compare(const struct ground *g, const struct model *m, bool *ret_is)
{
	struct model *found = calloc(1, sizeof(*found));
	struct store *s = open_store(g->dir);

	child_check(found);
	child_check(store_each_job(s, match_job, found, NULL) == 0);
	*ret_is = is_model(found, m);
	child_check(!*ret_is || store_get_next_job_id(s) == m->next);
	_exit(0);
}

static bool is_stored(const struct ground *g, const struct model *m)
{
	bool *is =
		mmap(NULL, sizeof(*is), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool result;
	int status;
	pid_t pid;

	assert_true(is != MAP_FAILED);
	pid = fork();
	if (pid == 0)
		compare(g, m, is);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	result = *is;
	assert_int_equal(munmap(is, sizeof(*is)), 0);
	return result;
}

static void check_model(const struct ground *g, struct model *m, uint64_t acknowledged)
{
	while (m->seq < acknowledged)
		apply_change(m);
	if (is_stored(g, m))
		return;
	apply_change(m); /* it was committed, but not acknowledged any more */
	assert_true(is_stored(g, m));
}

/* The high bits of a linear congruence, which are random enough for moments. */
static uint32_t draw(uint64_t *seed, uint32_t below)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33) % below;
}

static void test_kill_loses_nothing_acknowledged(void **state)
{
	const struct ground *g = *state;
	struct model *m = calloc(1, sizeof(*m));
	uint64_t seed = (uint64_t)getpid();
	int i, status;

	assert_non_null(m);
	m->next = m->first = 1;
	for (i = 0; i < 200 && m->next < MODEL_JOBS - 10; i++) {
		int fds[2];
		pid_t pid;

		assert_int_equal(pipe(fds), 0);
		pid = fork();
		if (pid == 0)
			write_until_killed(g, m, fds[1]);
		(void)close(fds[1]);
		if (i % 4 > 0) /* else it is killed while it opens the store */
			(void)poll(&(struct pollfd){.fd = fds[0], .events = POLLIN}, 1, 10000);
		(void)clock_nanosleep(CLOCK_MONOTONIC, 0,
			&(struct timespec){
				.tv_nsec = (long)draw(&seed, i % 4 > 0 ? 12000 : 4000) * 1000},
			NULL);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status)); /* it didn't end by itself */
		check_model(g, m, read_acknowledged(fds[0], m->seq));
		(void)close(fds[0]);
	}
	(void)printf("# %d kills, %llu changes, %u jobs\n", i, (unsigned long long)m->seq, m->next);
	assert_true(m->seq > 400);
	free(m);
}

/* ---- the disk ---------------------------------------------------------------------------------
 */

/* How many jobs fit. The last one's failure is in err. */
static uint32_t fill(struct store *s, struct err *err)
{
	uint32_t id, before = store_get_next_job_id(s);

	for (id = before; id < before + 10000; id++) {
		json_auto_t *job = make_job(id, "PENDING", NULL);
		_cleanup_free_ char *script = malloc(10001);

		child_check(job && script);
		memset(script, 'a' + (int)(id % 26), 10000);
		script[10000] = '\0';
		(void)json_object_set_new(job, "script", json_string(script));
		if (store_save_job(s, id, job, err) < 0)
			return id - before;
	}
	return id - before;
}

static size_t count_jobs(struct store *s)
{
	json_auto_t *all = get_jobs(s);

	return json_array_size(all);
}

static void on_a_full_disk(const struct ground *g)
{
	_cleanup_free_ char *dir = scratch_path(g->top, "small"), *own = NULL, *ballast = NULL;
	struct err err = ERR_INIT;
	struct store *s;
	uint32_t n;

	child_check(unshare(CLONE_NEWNS) == 0);
	child_check(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	child_check(mkdir(dir, 0755) == 0);
	child_check(mount("none", dir, "tmpfs", 0, "size=2m,mode=755") == 0);
	own = scratch_path(dir, "state");
	ballast = scratch_path(dir, "ballast");
	scratch_write(dir, "ballast", g, sizeof(*g), 0600);
	child_check(truncate(ballast, 0) == 0);
	s = open_store(own);
	{
		_cleanup_free_ char *zeros = calloc(1, 500000);

		child_check(zeros);
		scratch_write(dir, "ballast", zeros, 500000, 0600);
	}
	n = fill(s, &err);
	(void)fprintf(stderr, "# %s\n", err.text);
	child_check(err.code == -ENOSPC && n > 10 && n < 300);
	child_check(strstr(err.text, "make space") && strstr(err.text, "jobd.db'"));
	child_check(count_jobs(s) == n);

	/* in a transaction: nothing of it */
	child_check(store_begin(s, NULL) == 0);
	child_check(save_job(s, 1, "RUNNING", NULL) == 0 || true);
	(void)fill(s, &err);
	child_check(save_job(s, 1, "RUNNING", NULL) == -ECANCELED);
	child_check(store_commit(s, &err) == -ECANCELED && strstr(err.text, "nothing of"));
	child_check(count_jobs(s) == n);

	/* and goes on once there is space */
	child_check(unlink(ballast) == 0);
	child_check(save_job(s, 5000, "PENDING", NULL) == 0);
	child_check(save_job(s, 1, "RUNNING", NULL) == 0);
	s = store_close(s);
	s = open_store(own);
	child_check(count_jobs(s) == n + 1);
	s = store_close(s);
	child_check(umount(dir) == 0);
}

static void test_a_full_disk(void **state)
{
	need_root();
	in_child(on_a_full_disk, *state);
}

/* The limit of a file's size stands in for a disk that fails. */
static void on_failing_writes(const struct ground *g)
{
	struct rlimit limit;
	struct store *s = open_store(g->dir);
	struct err err = ERR_INIT;
	uint32_t n;

	child_check(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
	child_check(getrlimit(RLIMIT_FSIZE, &limit) == 0);
	limit.rlim_cur = 200000;
	child_check(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	n = fill(s, &err);
	(void)fprintf(stderr, "# %s\n", err.text);
	child_check(err.code == -EIO && n > 2);
	child_check(strstr(err.text, "was not written to") && strstr(err.text, strerror(EFBIG)));
	child_check(count_jobs(s) == n);
	limit.rlim_cur = limit.rlim_max;
	child_check(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	child_check(save_job(s, 5000, "PENDING", NULL) == 0);
	s = store_close(s);
	s = open_store(g->dir);
	child_check(count_jobs(s) == n + 1);
	s = store_close(s);
}

static void test_failing_writes(void **state)
{
	in_child(on_failing_writes, *state);
}

/* ---- files that are not as they were ----------------------------------------------------------
 */

static void fill_and_close(const struct ground *g)
{
	struct store *s = open_store(g->dir);
	struct err err = ERR_INIT;
	uint32_t id;

	for (id = 1; id <= 50; id++) {
		json_auto_t *job = make_job(id, "PENDING", NULL);

		(void)json_object_set_new(job, "padding", json_sprintf("%0*d", 2000, (int)id));
		if (store_save_job(s, id, job, &err) < 0)
			fail_msg("%s", err.text);
	}
	s = store_close(s);
}

static void test_a_truncated_file_is_refused(void **state)
{
	const struct ground *g = *state;
	struct stat st;

	fill_and_close(g);
	assert_int_equal(stat(g->file, &st), 0);
	assert_int_equal(truncate(g->file, st.st_size / 2), 0);
	check_refused(g->dir, -EBADMSG, "damaged");
	check_refused(g->dir, -EBADMSG, "move the file away");
	assert_int_equal(truncate(g->file, 50), 0);
	check_refused(g->dir, -EBADMSG, "damaged");
	scratch_write(g->dir, "jobd.db",
		"no database at all, but a text that is long enough to be "
		"one header of a hundred bytes: it is refused.....",
		100, 0600);
	check_refused(g->dir, -EBADMSG, "move it away");
}

static void test_a_damaged_page_is_refused(void **state)
{
	const struct ground *g = *state;
	char noise[4096];
	struct stat st;
	int fd;

	fill_and_close(g);
	memset(noise, 0x5a, sizeof(noise));
	assert_int_equal(stat(g->file, &st), 0);
	fd = open(g->file, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, noise, sizeof(noise), st.st_size - 8192), sizeof(noise));
	(void)close(fd);
	check_refused(g->dir, -EBADMSG, "damaged");
}

static void test_a_damaged_record_is_named(void **state)
{
	const struct ground *g = *state;
	json_auto_t *all = json_array();
	struct err err = ERR_INIT;
	struct store *s;

	fill_and_close(g);
	sql(g->file, "UPDATE jobs SET document = '{\"job_id\": ' WHERE id = 3");
	s = open_store(g->dir);
	assert_int_equal(store_each_job(s, add_document, all, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "DELETE FROM jobs WHERE id = '3'"));
	s = store_close(s);
	sql(g->file, "DELETE FROM jobs WHERE id = '3'");
	sql(g->file, "INSERT INTO steps VALUES (1, 2, 'n', NULL, 'FLYING', 0)");
	s = open_store(g->dir);
	assert_int_equal(store_each_job(s, add_document, all, &err), 0);
	assert_int_equal(store_each_step(s, add_step, all, &err), -EBADMSG);
	s = store_close(s);
}

static void test_foreign_and_newer_files_are_refused(void **state)
{
	const struct ground *g = *state;

	fill_and_close(g);
	sql(g->file, "PRAGMA user_version=99");
	check_refused(g->dir, -EPROTO, "was written by a newer jobd (schema 99");
	sql(g->file, "PRAGMA user_version=1; PRAGMA application_id=5");
	check_refused(g->dir, -EBADMSG, "of another program");
	sql(g->file, "PRAGMA user_version=0; PRAGMA application_id=0");
	check_refused(g->dir, -EBADMSG, "of another program");
	assert_int_equal(sql_number(g->file, "SELECT count(*) FROM jobs"), 50);
}

/* Version 0 is what a first start leaves that was killed before its transaction ended. */
static void test_migration_from_version_0(void **state)
{
	const struct ground *g = *state;
	struct store *s;

	assert_int_equal(mkdir(g->dir, 0700), 0);
	scratch_write(g->dir, "jobd.db", "", 0, 0600);
	s = open_store(g->dir);
	assert_int_equal(save_job(s, 1, "PENDING", NULL), 0);
	s = store_close(s);
	assert_int_equal(sql_number(g->file, "PRAGMA user_version"), 1);

	assert_int_equal(unlink(g->file), 0);
	sql(g->file, "PRAGMA journal_mode=WAL; CREATE TABLE t (x); DROP TABLE t");
	assert_int_equal(chmod(g->file, 0600), 0);
	assert_int_equal(sql_number(g->file, "PRAGMA user_version"), 0);
	s = open_store(g->dir);
	assert_int_equal(store_get_next_job_id(s), 1);
	assert_int_equal(save_job(s, 1, "PENDING", NULL), 0);
	s = store_close(s);
	assert_int_equal(sql_number(g->file, "PRAGMA user_version"), 1);
}

/* ---- who has it, and where it is --------------------------------------------------------------
 */

static void open_a_second_time(const struct ground *g)
{
	char holder[32];

	(void)snprintf(holder, sizeof(holder), "(pid %d)", (int)getppid());
	check_refused(g->dir, -EBUSY, holder);
}

static void read_beside(const struct ground *g)
{
	sqlite3 *db = NULL;

	child_check(sqlite3_open(g->file, &db) == SQLITE_OK);
	child_check(sqlite3_exec(db, "SELECT * FROM jobs", NULL, NULL, NULL) == SQLITE_BUSY);
	(void)sqlite3_close(db);
}

static void test_a_second_opener_is_told_the_first(void **state)
{
	const struct ground *g = *state;
	struct store *s = open_store(g->dir);

	in_child(open_a_second_time, g);
	in_child(read_beside, g);
	assert_int_equal(save_job(s, 1, "PENDING", NULL), 0);
	in_child(open_a_second_time, g);
	assert_int_equal(store_flush(s, NULL), 0);
	in_child(open_a_second_time, g);
	s = store_close(s);

	/* the first one has only just made the file */
	scratch_remove(g->dir);
	s = open_store(g->dir);
	in_child(open_a_second_time, g);
	s = store_close(s);
	s = open_store(g->dir);
	s = store_close(s);
}

static void test_paths_are_checked(void **state)
{
	const struct ground *g = *state;
	_cleanup_free_ char *link = scratch_path(g->top, "link"), *below = NULL, *missing = NULL;
	struct stat st;
	struct store *s;

	missing = scratch_path(g->top, "a/b");
	below = scratch_path(link, "state");
	check_refused("state", -EINVAL, "absolute path");
	check_refused("/", -EPERM, "chmod 700");
	check_refused(missing, -ENOENT, "/a'");

	s = open_store(g->dir);
	s = store_close(s);
	assert_int_equal(stat(g->dir, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(stat(g->file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);

	assert_int_equal(symlink(g->dir, link), 0);
	check_refused(link, -ENOTDIR, "realpath");
	assert_int_equal(unlink(link), 0);
	assert_int_equal(symlink(g->top, link), 0);
	check_refused(below, -ENOTDIR, "link' is a symbolic link");

	assert_int_equal(chmod(g->dir, 0750), 0);
	check_refused(g->dir, -EPERM, "chmod 700");
	assert_int_equal(chmod(g->dir, 0700), 0);
	assert_int_equal(chmod(g->top, 0775), 0);
	check_refused(g->dir, -EPERM, "can be changed by others");
	assert_int_equal(chmod(g->top, 01777), 0);
	s = open_store(g->dir);
	s = store_close(s);
}

static void test_the_file_is_checked(void **state)
{
	const struct ground *g = *state;
	_cleanup_free_ char *other = scratch_path(g->dir, "other");
	struct store *s = open_store(g->dir);

	s = store_close(s);
	assert_int_equal(chmod(g->file, 0640), 0);
	check_refused(g->dir, -EPERM, "chmod 600");
	assert_int_equal(chmod(g->file, 0600), 0);
	assert_int_equal(link(g->file, other), 0);
	check_refused(g->dir, -EPERM, "2 links");
	assert_int_equal(unlink(g->file), 0);
	assert_int_equal(symlink("other", g->file), 0);
	check_refused(g->dir, -ELOOP, "jobd.db");
	assert_int_equal(unlink(g->file), 0);
	assert_int_equal(mkfifo(g->file, 0600), 0);
	check_refused(g->dir, -EPERM, "must be a file");
}

static void test_what_a_user_owns_is_refused(void **state)
{
	const struct ground *g = *state;
	struct store *s;

	need_root();
	s = open_store(g->dir);
	s = store_close(s);
	assert_int_equal(chown(g->file, NOBODY, NOBODY), 0);
	check_refused(g->dir, -EPERM, "chmod 600");
	assert_int_equal(chown(g->file, 0, 0), 0);
	assert_int_equal(chown(g->dir, NOBODY, NOBODY), 0);
	check_refused(g->dir, -EPERM, "belongs to uid 65534 with mode 0700");
	assert_int_equal(chown(g->dir, 0, 0), 0);
	assert_int_equal(chown(g->top, NOBODY, NOBODY), 0);
	check_refused(g->dir, -EPERM, "can be changed by others (uid 65534");
}

/* ---- as the engine's store --------------------------------------------------------------------
 */

/* The engine's, of which only the address matters here. */
static const char engine;

json_t *job_to_stored_json(const struct engine *e, const struct job *job)
{
	assert_ptr_equal(e, &engine);
	return json_pack("{s:i, s:s}", "job_id", (int)job->record.job_id, "state", "PENDING");
}

json_t *node_to_stored_json(const struct engine *e, const node_record_t *node)
{
	assert_ptr_equal(e, &engine);
	return json_pack("{s:s}", "name", node->name);
}

/* What it has: a job, a node and a reservation. */
static struct job known = {.record.job_id = 21};
static node_record_t the_node = {.name = (char[]){"n8"}};
node_record_t *node_record_table_ptr = &the_node;
int node_record_count = 1;

struct job *engine_find_job(struct engine *e, uint32_t job_id)
{
	assert_ptr_equal(e, &engine);
	return job_id == 21 ? &known : NULL;
}

json_t *engine_reservations_to_json(const struct engine *e)
{
	assert_ptr_equal(e, &engine);
	return json_pack("[{s:s}]", "name", "kept");
}

static void check_request(struct store *s, size_t i, const char *name, const char *script)
{
	json_auto_t *all = get_jobs(s);
	const json_t *request = json_object_get(json_array_get(all, i), "request");

	assert_string_equal(json_get_text(request, "name", ""), name);
	assert_string_equal(json_get_text(request, "script", ""), script);
	assert_int_equal(json_array_size(json_object_get(request, "env")), 2);
}

static void test_functions_of_the_engine(void **state)
{
	static struct job job = {.record.job_id = 12};
	const struct ground *g = *state;
	const struct engine_store *functions = &engine_store_functions;
	struct store *s = open_store(g->dir);
	struct engine_store_data data = {.store = s, .engine = (struct engine *)&engine};
	node_record_t node = {.name = (char[]){"n7"}};
	json_auto_t *all = json_array(), *reservation = json_pack("{s:s}", "name", "r");
	_cleanup_free_ char *found = NULL;
	int i;

	request_init(&job.request);
	job.request.name = (char[]){"first"};
	job.request.script = (char[]){"#!/bin/sh"};
	job.request.env = (char *[]){(char[]){"A=1"}, (char[]){"B=2"}, NULL};
	for (i = 0; i < 2; i++) { /* it is there the second time */
		assert_int_equal(functions->job_changed(&job, &data, NULL), 0);
		check_request(s, 0, "first", "#!/bin/sh");
	}
	job.request.name = (char[]){"updated"};
	assert_int_equal(functions->begin(&data, NULL), 0);
	assert_int_equal(functions->job_changed(&job, &data, NULL), 0);
	job.record.job_id = 13;
	assert_int_equal(functions->job_changed(&job, &data, NULL), 0);
	assert_int_equal(functions->commit(&data, NULL), 0);
	check_request(s, 0, "updated", "#!/bin/sh");
	check_request(s, 1, "updated", "#!/bin/sh");
	assert_int_equal(functions->begin(&data, NULL), 0);
	job.record.job_id = 14;
	assert_int_equal(functions->job_changed(&job, &data, NULL), 0);
	functions->rollback(&data);
	functions->rollback(&data); /* a begin that failed is also followed by it */
	assert_int_equal(functions->job_forgotten(12, &data, NULL), 0);
	check_jobs(s, "[13,\"PENDING\"]");

	assert_int_equal(functions->node_changed(&node, &data, NULL), 0);
	assert_int_equal(functions->reservation_changed("r", reservation, &data, NULL), 0);
	assert_int_equal(store_each_node(s, add_document, all, NULL), 0);
	assert_int_equal(store_each_reservation(s, add_document, all, NULL), 0);
	assert_int_equal(functions->reservation_changed("r", NULL, &data, NULL), 0);
	assert_int_equal(store_each_reservation(s, add_document, all, NULL), 0);
	found = json_dumps(all, JSON_COMPACT);
	assert_string_equal(found, "[{\"name\":\"n7\"},{\"name\":\"r\"}]");
	s = store_close(s);
}

static bool has_job(struct store *s, int id)
{
	json_auto_t *all = get_jobs(s);
	const json_t *job;
	size_t i;

	json_array_foreach (all, i, job) {
		if (json_get_int(job, "job_id", 0) == id)
			return true;
	}
	return false;
}

static void limit_files(rlim_t bytes)
{
	struct rlimit limit;

	child_check(getrlimit(RLIMIT_FSIZE, &limit) == 0);
	limit.rlim_cur = bytes == RLIM_INFINITY ? limit.rlim_max : bytes;
	child_check(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* All four kinds of change fail, and are there once there is space again: as they are then. */
static void on_a_disk_with_space_again(const struct ground *g)
{
	const struct engine_store *functions = &engine_store_functions;
	json_auto_t *reservation = json_pack("{s:s}", "name", "kept"), *all = json_array();
	static struct job forgotten = {.record.job_id = 22};
	struct store *s = open_store(g->dir);
	struct engine_store_data data = {.store = s, .engine = (struct engine *)&engine};
	_cleanup_free_ char *found = NULL;
	struct err err = ERR_INIT;

	request_init(&known.request);
	request_init(&forgotten.request);
	child_check(functions->job_changed(&forgotten, &data, NULL) == 0);
	child_check(functions->reservation_changed("gone", reservation, &data, NULL) == 0);
	child_check(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
	limit_files(1);
	child_check(functions->job_changed(&known, &data, NULL) < 0);
	child_check(functions->job_forgotten(22, &data, NULL) < 0);
	child_check(functions->node_changed(&the_node, &data, NULL) < 0);
	child_check(functions->reservation_changed("kept", reservation, &data, NULL) < 0);
	child_check(functions->reservation_changed("gone", NULL, &data, NULL) < 0);
	/* what is in a transaction has not happened */
	child_check(functions->begin(&data, NULL) == 0);
	known.record.job_id = 5;
	(void)functions->job_changed(&known, &data, NULL); /* the commit fails, if not this */
	child_check(functions->commit(&data, NULL) < 0);
	functions->rollback(&data);
	known.record.job_id = 21;
	child_check(engine_store_retry(&data, &err) < 0 && err.code < 0);
	limit_files(RLIM_INFINITY);
	child_check(engine_store_retry(&data, &err) == 1);
	child_check(data.unsaved_jobs_count == 0);
	child_check(engine_store_retry(&data, &err) == 0);
	engine_store_clear(&data);
	s = store_close(s);
	s = open_store(g->dir);
	child_check(has_job(s, 21) && !has_job(s, 22) && !has_job(s, 5));
	child_check(store_each_node(s, add_document, all, NULL) == 0);
	child_check(store_each_reservation(s, add_document, all, NULL) == 0);
	found = json_dumps(all, JSON_COMPACT);
	child_check(found && strcmp(found, "[{\"name\":\"n8\"},{\"name\":\"kept\"}]") == 0);
	s = store_close(s);
}

static void test_changes_are_written_later(void **state)
{
	in_child(on_a_disk_with_space_again, *state);
}

#define GROUNDED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		GROUNDED(test_records_are_found_again),
		GROUNDED(test_a_failure_of_the_reader_ends_the_reading),
		GROUNDED(test_the_payload_is_written_once),
		GROUNDED(test_tasks_of_an_array_share_their_payload),
		GROUNDED(test_steps),
		GROUNDED(test_transactions),
		GROUNDED(test_ids_never_come_back),
		GROUNDED(test_ids_never_come_back_after_a_power_cut),
		GROUNDED(test_what_was_flushed_is_in_the_file),
		GROUNDED(test_kill_loses_nothing_acknowledged),
		GROUNDED(test_a_full_disk),
		GROUNDED(test_failing_writes),
		GROUNDED(test_a_truncated_file_is_refused),
		GROUNDED(test_a_damaged_page_is_refused),
		GROUNDED(test_a_damaged_record_is_named),
		GROUNDED(test_foreign_and_newer_files_are_refused),
		GROUNDED(test_migration_from_version_0),
		GROUNDED(test_a_second_opener_is_told_the_first),
		GROUNDED(test_paths_are_checked),
		GROUNDED(test_the_file_is_checked),
		GROUNDED(test_what_a_user_owns_is_refused),
		GROUNDED(test_functions_of_the_engine),
		GROUNDED(test_changes_are_written_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
