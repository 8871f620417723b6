/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/jobd_rig.h"

#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "stepd/base/err.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"

#define MS_PER_S 1000u

static void *have(void *memory)
{
	if (!memory)
		errx(99, "no memory");
	return memory;
}

/* ---- the store ---------------------------------------------------------------------------------
 */

/* What a program that is killed now leaves behind. */
struct rig_left {
	uint32_t job_id;
	struct sim_processes processes;
};

static void note_left(struct rig *rig)
{
	struct rig_left *left = have(calloc(engine_count_jobs(rig->e) + 1, sizeof(*left)));
	const struct job *job;
	size_t i, n = 0;

	for (i = 0; i < engine_count_jobs(rig->e); i++) {
		job = engine_get_job(rig->e, i);
		if (!job || !sim_get_processes(job, &left[n].processes))
			continue;
		left[n++].job_id = job->record.job_id;
	}
	rig->store.left = left;
	rig->store.left_count = n;
}

static const struct sim_processes *find_left(const struct rig_left *left, size_t n, uint32_t job_id)
{
	size_t i;

	for (i = 0; i < n && left[i].job_id != job_id; i++)
		;
	return i < n ? &left[i].processes : NULL;
}

static int store_write(
	struct rig *rig, json_t *table, const char *key, json_t *value, struct err *err)
{
	if (rig->store.fails) {
		json_decref(value);
		return err_set_text(err, -ENOSPC, "the store is full");
	}
	if (rig->store.most && rig->store.changes >= rig->store.most && !rig->store.killed) {
		rig->store.killed = true;
		note_left(rig);
		if (rig->store.open) { /* what was begun is undone */
			json_decref(rig->store.jobs);
			rig->store.jobs = json_incref(rig->store.begun_jobs);
		}
	}
	if (rig->store.killed) {
		json_decref(value);
		return 0;
	}
	rig->store.changes++;
	if (value)
		(void)json_object_set_new(table, key, value);
	else
		(void)json_object_del(table, key);
	return 0;
}

static int store_begin(void *userdata, struct err *err)
{
	struct rig *rig = userdata;

	(void)err;
	if (rig->store.open)
		errx(99, "the store is begun twice");
	rig->store.open = true;
	if (rig->store.most > 0) { /* it may be killed before the commit; documents never change */
		json_decref(rig->store.begun_jobs);
		rig->store.begun_jobs = have(json_copy(rig->store.jobs));
	}
	return 0;
}

static int store_commit(void *userdata, struct err *err)
{
	struct rig *rig = userdata;

	(void)err;
	if (!rig->store.open)
		errx(99, "the store is committed without a begin");
	rig->store.open = false;
	rig->store.commits++;
	return 0;
}

static void store_rollback(void *userdata)
{
	struct rig *rig = userdata;

	if (!rig->store.open)
		errx(99, "the store is rolled back without a begin");
	rig->store.open = false;
	rig->store.rollbacks++;
}

static int store_job(const struct job *job, void *userdata, struct err *err)
{
	struct rig *rig = userdata;
	json_t *json = have(job_to_stored_json(rig->e, job));
	struct job_request view = job->request;
	char key[16];

	if (rig->store.no_payload)
		view.script = NULL;
	(void)json_object_set_new(json, "request", have(request_to_json(&view)));
	(void)snprintf(key, sizeof(key), "%u", job->record.job_id);
	return store_write(rig, rig->store.jobs, key, json, err);
}

static int store_forgotten(uint32_t job_id, void *userdata, struct err *err)
{
	struct rig *rig = userdata;
	char key[16];

	(void)snprintf(key, sizeof(key), "%u", job_id);
	return store_write(rig, rig->store.jobs, key, NULL, err);
}

static int store_node(const node_record_t *node, void *userdata, struct err *err)
{
	struct rig *rig = userdata;

	return store_write(
		rig, rig->store.nodes, node->name, have(node_to_stored_json(rig->e, node)), err);
}

static int store_reservation(const char *name, const json_t *json, void *userdata, struct err *err)
{
	struct rig *rig = userdata;

	return store_write(
		rig, rig->store.reservations, name, json ? have(json_deep_copy(json)) : NULL, err);
}

static const struct engine_store store = {
	.begin = store_begin,
	.commit = store_commit,
	.rollback = store_rollback,
	.job_changed = store_job,
	.job_forgotten = store_forgotten,
	.node_changed = store_node,
	.reservation_changed = store_reservation,
};

/* ---- the rig -----------------------------------------------------------------------------------
 */

static void note(struct rig *rig, uint64_t value)
{
	rig->history = (rig->history ^ value) * 1099511628211u;
}

static void note_bits(struct rig *rig, const bitstr_t *bits)
{
	bitoff_t i = 0;

	for (; bits && (i = bit_ffs_from_bit(bits, i)) >= 0; i++)
		note(rig, (uint64_t)i);
}

static void note_start(struct rig *rig, const struct job *job)
{
	const job_record_t *r = &job->record;

	rig->starts++;
	note(rig, r->job_id);
	note(rig, (uint64_t)r->start_time);
	note_bits(rig, r->node_bitmap);
	note_bits(rig, r->job_resrcs ? r->job_resrcs->core_bitmap : NULL);
}

/* A request's comment has how the job runs: so it is found again with it. */
static void plan_job(const struct job *job, struct sim_job_plan *plan, void *userdata)
{
	const char *text = job->request.comment, *fault = text ? strstr(text, "fault=") : NULL;
	unsigned int run_s = 0, term_s = 0;
	struct rig *rig = userdata;
	int status = 0;

	note_start(rig, job);
	if (!text || sscanf(text, "run=%u term=%u exit=%d", &run_s, &term_s, &status) != 3)
		return;
	plan->run_ms = run_s ? (uint64_t)run_s * MS_PER_S : SIM_NEVER;
	plan->term_ms = term_s == NO_VAL ? SIM_NEVER : (uint64_t)term_s * MS_PER_S;
	plan->exit_status = status;
	if (!fault)
		return;
	if (strstr(fault, "=suspend"))
		plan->suspend_error = -EIO;
	if (strstr(fault, "=resume"))
		plan->resume_error = -EIO;
	if (strstr(fault, "=start"))
		plan->start_error = -EIO;
	/* only there, so that the job runs elsewhere */
	if (strstr(fault, "node=") && job->record.node_bitmap &&
		bit_test(job->record.node_bitmap, atoi(strstr(fault, "node=") + 5)))
		plan->failed_node = atoi(strstr(fault, "node=") + 5);
}

static int text_file(const char *text, size_t size, char *path, size_t path_size)
{
	int fd = fs_memory("slurm.conf", text, size);

	if (fd < 0)
		errx(99, "no memory");
	(void)snprintf(path, path_size, "/proc/self/fd/%d", fd);
	return fd;
}

struct conf *rig_conf(const char *conf_text)
{
	const char *qos = strstr(conf_text, "QOSName=");
	char path[64], qos_path[64];
	int fd = text_file(
		conf_text, qos ? (size_t)(qos - conf_text) : strlen(conf_text), path, sizeof(path));
	int qos_fd = qos ? text_file(qos, strlen(qos), qos_path, sizeof(qos_path)) : -1;
	struct err e = ERR_INIT;
	struct conf *conf = NULL;

	if (conf_read(path, qos ? qos_path : NULL, &conf, &e) < 0)
		errx(99, "slurm.conf: %s", e.text);
	(void)close(fd);
	if (qos)
		(void)close(qos_fd);
	return conf;
}

const char *rig_plugins;
bool rig_no_plans, rig_plain;

void rig_make_at(struct rig *rig, const char *conf_text, uint32_t now_s)
{
	static const struct log log = {
		.fd = STDERR_FILENO, .most = LOG_LEVEL_ERROR, .ident = "rig"};
	const char *builddir = getenv("top_builddir");
	struct err e = ERR_INIT;
	char dir[4096];
	struct sim_options options = {.conf = rig_conf(conf_text),
		.plugin_dir = dir,
		.log = &log,
		.store = &store,
		.store_data = rig,
		.now_ms = (uint64_t)(RIG_BEGIN_S + now_s) * MS_PER_S,
		.no_plans = rig_no_plans,
		.plain = rig_plain,
		.plan = plan_job,
		.plan_data = rig};

	*rig = (struct rig){.sim = NULL};
	rig->store = (struct rig_store){.jobs = have(json_object()),
		.nodes = have(json_object()),
		.reservations = have(json_object())};
	if (!builddir)
		errx(99, "top_builddir is not set");
	(void)snprintf(dir, sizeof(dir), "%s/%s", builddir,
		rig_plugins ? rig_plugins : "stepd/cli/plugins");
	if (sim_new(&options, &rig->sim, &e) < 0)
		errx(99, "%s", e.text);
	rig->e = sim_get_engine(rig->sim);
}

void rig_make(struct rig *rig, const char *conf_text)
{
	struct err e = ERR_INIT;

	rig_make_at(rig, conf_text, 0);
	if (engine_begin(rig->e, NULL, &e) < 0)
		errx(99, "%s", e.text);
}

void rig_clear(struct rig *rig)
{
	rig->sim = sim_free(rig->sim);
	json_decref(rig->store.jobs);
	json_decref(rig->store.nodes);
	json_decref(rig->store.reservations);
	json_decref(rig->store.begun_jobs);
	free(rig->store.left);
}

/* ---- jobs --------------------------------------------------------------------------------------
 */

static char *copy(const char *text)
{
	return text ? have(strdup(text)) : NULL;
}

static uint32_t given(uint32_t n)
{
	return n ? n : NO_VAL;
}

static void fill(const struct rig *rig, const struct rig_job *job, struct job_request *q)
{
	request_init(q);
	q->name = copy(job->name);
	q->partition = copy(job->partition);
	q->nodelist = copy(job->nodelist);
	q->exclude = copy(job->exclude);
	q->features = copy(job->features);
	q->script = copy(job->script);
	q->array = copy(job->array);
	q->reservation = copy(job->reservation);
	q->qos = copy(job->qos);
	q->min_nodes = given(job->nodes);
	q->max_nodes = job->max_nodes ? job->max_nodes : given(job->nodes);
	q->ntasks = given(job->tasks);
	q->cpus_per_task = given(job->cpus_per_task);
	q->ntasks_per_node = given(job->ntasks_per_node);
	q->ntasks_per_socket = given(job->ntasks_per_socket);
	q->ntasks_per_core = given(job->ntasks_per_core);
	q->distribution = copy(job->distribution);
	q->signal = copy(job->signal);
	q->spread_job = job->spread_job;
	q->use_min_nodes = job->use_min_nodes;
	q->time_limit_min = given(job->minutes);
	q->priority = given(job->priority);
	if (job->memory_mb)
		q->memory_mb = job->memory_mb;
	q->begin_time = job->begin_s ? engine_get_time(rig->e) + job->begin_s : 0;
	q->hold = job->hold;
	q->exclusive = job->exclusive;
	q->oversubscribe = job->oversubscribe;
	q->contiguous = job->contiguous;
	q->singleton = job->singleton;
	q->requeue = job->requeue ? 1 : job->no_requeue ? 0 : -1;
	if (job->after) {
		q->dependencies = have(calloc(1, sizeof(*q->dependencies)));
		q->dependencies_count = 1;
		q->dependencies[0] = (struct job_dependency){.kind = job->kind,
			.job_id = job->after,
			.task_id = job->of_task ? job->task : NO_VAL,
			.delay_min = job->delay_min};
	}
	if (asprintf(&q->comment, "run=%u term=%u exit=%d %s%s", job->run_s, job->term_s,
		    job->exit_status, job->fault ? "fault=" : "", job->fault ? job->fault : "") < 0)
		have(NULL);
}

int rig_try(struct rig *rig, const struct rig_job *job, uint32_t *ret_id, struct err *e)
{
	_cleanup_request_ struct job_request q;

	fill(rig, job, &q);
	return engine_submit(rig->e, &q, job->uid, job->uid, ret_id, e);
}

int rig_try_components(
	struct rig *rig, const struct rig_job *jobs, size_t n, uint32_t *ret_id, struct err *e)
{
	struct job_request q[8] = {{.name = NULL}};
	size_t i;
	int r;

	if (n > 8)
		errx(99, "too many components");
	for (i = 0; i < n; i++)
		fill(rig, &jobs[i], &q[i]);
	r = engine_submit_components(rig->e, q, n, jobs->uid, jobs->uid, ret_id, e);
	for (i = 0; i < n; i++)
		request_clear(&q[i]);
	return r;
}

int rig_test(
	struct rig *rig, const struct rig_job *job, struct engine_start *ret_start, struct err *e)
{
	_cleanup_request_ struct job_request q;

	fill(rig, job, &q);
	return engine_will_run(rig->e, &q, job->uid, job->uid, ret_start, e);
}

struct job *rig_add(struct rig *rig, struct rig_job job)
{
	struct err e = ERR_INIT;
	uint32_t id = 0;

	if (rig_try(rig, &job, &id, &e) < 0)
		errx(99, "a job is refused: %s", e.text);
	rig_run(rig, rig_now(rig));
	return engine_find_job(rig->e, id);
}

void rig_run(struct rig *rig, uint32_t until_s)
{
	sim_run_until(rig->sim, (uint64_t)(RIG_BEGIN_S + until_s) * MS_PER_S);
}

uint32_t rig_now(const struct rig *rig)
{
	return (uint32_t)(engine_get_time(rig->e) - RIG_BEGIN_S);
}

/* ---- what was kept -----------------------------------------------------------------------------
 */

void rig_restore_later(struct rig *from, struct rig *to, const char *conf_text, uint32_t seconds)
{
	json_t *jobs = json_incref(from->store.jobs), *nodes = json_incref(from->store.nodes);
	json_t *resvs = json_incref(from->store.reservations), *value;
	uint32_t now_s = rig_now(from) + seconds;
	struct rig_left *left;
	size_t left_count;
	struct err e = ERR_INIT;
	const char *key;
	size_t i;

	if (!from->store.left)
		note_left(from);
	left = from->store.left;
	left_count = from->store.left_count;
	from->store.left = NULL;
	rig_clear(from);
	rig_make_at(to, conf_text, now_s);
	json_object_foreach (nodes, key, value) {
		if (engine_restore_node(to->e, value, &e) < 0)
			errx(99, "%s", e.text);
	}
	json_object_foreach (resvs, key, value) {
		if (engine_restore_reservation(to->e, value, &e) < 0)
			errx(99, "%s", e.text);
	}
	json_object_foreach (jobs, key, value) {
		if (engine_restore_job(to->e, value, &e) < 0)
			errx(99, "%s", e.text);
	}
	if (engine_begin(to->e, NULL, &e) < 0)
		errx(99, "%s", e.text);
	for (i = 0; i < engine_count_jobs(to->e); i++) {
		struct job *job = engine_get_job(to->e, i);

		if (sim_adopt(to->sim, job, find_left(left, left_count, job->record.job_id)) < 0)
			errx(99, "no memory");
	}
	free(left);
	json_decref(to->store.jobs);
	json_decref(to->store.nodes);
	json_decref(to->store.reservations);
	to->store.jobs = jobs;
	to->store.nodes = nodes;
	to->store.reservations = resvs;
}

void rig_restore(struct rig *from, struct rig *to, const char *conf_text)
{
	rig_restore_later(from, to, conf_text, 0);
}
