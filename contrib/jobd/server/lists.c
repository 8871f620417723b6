/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queries: documents of jobs, nodes, partitions and reservations. A reply has so many of them that
 * it takes some ms, and no more memory than a connection has.
 */
#include <string.h>

#include "contrib/jobd/server/server_impl.h"
#include "stepd/base/buffer.h"

#define JOBS_PER_REPLY  1000
#define NODES_PER_REPLY 4000

/* Of the documents: one more may follow, with a script of MBs in it. */
#define REPLY_BYTES (4u << 20)

/* ---- a reply with a list ------------------------------------------------------------------------
 */

struct list {
	struct buffer text;
	size_t count;
	bool no_memory;
};

static void list_add_text(struct list *l, const char *text)
{
	if (!l->no_memory && buffer_add(&l->text, text, strlen(text)) < 0)
		l->no_memory = true;
}

static void list_begin(struct list *l, const char *member)
{
	list_add_text(l, "{\"");
	list_add_text(l, member);
	list_add_text(l, "\":[");
}

/* NULL: there was no memory for it. */
static void list_add_take(struct list *l, json_t *document)
{
	char *text = document ? json_dumps(document, JSON_COMPACT) : NULL;

	json_decref(document);
	if (l->count++ > 0)
		list_add_text(l, ",");
	if (text)
		list_add_text(l, text);
	else
		l->no_memory = true;
	free(text);
}

static bool list_is_full(const struct list *l, size_t most)
{
	return l->count >= most || buffer_size(&l->text) >= REPLY_BYTES || l->no_memory;
}

/* next: where the rest begins; -1: that was all. */
static void list_reply(struct list *l, struct call *call, int64_t next)
{
	char end[96];
	int n = snprintf(end, sizeof(end), "],\"time\":%lld",
		(long long)engine_get_time(call->server->engine));

	if (next >= 0 && n > 0 && (size_t)n < sizeof(end))
		(void)snprintf(end + n, sizeof(end) - (size_t)n, ",\"next\":%lld", (long long)next);
	list_add_text(l, end);
	list_add_text(l, "}");
	if (l->no_memory)
		control_no_memory(call->control);
	else
		control_reply_text(
			call->control, buffer_bytes(&l->text), buffer_size(&l->text), true);
	buffer_clear(&l->text);
}

/* ---- jobs ---------------------------------------------------------------------------------------
 */

/* NULL: there is no memory. */
static json_t *make_job(const struct call *call, const struct job *job)
{
	const bool may = call->is_root || job->record.user_id == call->uid;
	json_t *document = job_to_json(call->server->engine, job);
	json_t *request;

	if (!document)
		return NULL;
	if (!may || !json_get_bool(call->parameters, "details", false)) {
		(void)json_object_del(document, "request"); /* if it is there */
		return document;
	}
	if (json_object_get(document, "request"))
		return document;
	request = request_to_json(&job->request);
	if (!request || json_object_set_new(document, "request", request) < 0) {
		json_decref(document);
		return NULL;
	}
	return document;
}

static void list_target(struct call *call, const char *text, uint32_t from)
{
	_cleanup_target_ struct target target = {NULL, 0};
	struct list l = {.count = 0};
	int64_t next = -1;
	size_t i;

	if (!call_find(call, text, &target))
		return;
	list_begin(&l, "jobs");
	for (i = 0; i < target.count && next < 0; i++) {
		if (target.jobs[i]->record.job_id < from)
			continue;
		if (list_is_full(&l, JOBS_PER_REPLY))
			next = target.jobs[i]->record.job_id;
		else
			list_add_take(&l, make_job(call, target.jobs[i]));
	}
	list_reply(&l, call, next);
}

static void list_all(struct call *call, uint32_t from)
{
	struct engine *e = call->server->engine;
	const size_t count = engine_count_jobs(e);
	size_t i = target_first_index(e, from);
	struct list l = {.count = 0};
	const struct job *job;
	int64_t next = -1;

	list_begin(&l, "jobs");
	for (; i < count && next < 0; i++) {
		job = engine_get_job(e, i);
		if (job && list_is_full(&l, JOBS_PER_REPLY))
			next = job->record.job_id;
		else if (job)
			list_add_take(&l, make_job(call, job));
	}
	list_reply(&l, call, next);
}

static int64_t get_from(const struct call *call)
{
	int64_t from = 0;

	(void)json_get_range(call->parameters, "from", 0, UINT32_MAX, &from); /* else: from 0 */
	return from;
}

void run_list_jobs(struct call *call)
{
	const char *text = json_get_text(call->parameters, "job", NULL);

	if (text)
		list_target(call, text, (uint32_t)get_from(call));
	else
		list_all(call, (uint32_t)get_from(call));
}

/* ---- the rest -----------------------------------------------------------------------------------
 */

void run_list_nodes(struct call *call)
{
	int64_t i = get_from(call), next = -1;
	struct list l = {.count = 0};

	list_begin(&l, "nodes");
	for (; i < node_record_count && next < 0; i++) {
		if (list_is_full(&l, NODES_PER_REPLY))
			next = i;
		else
			list_add_take(
				&l, node_to_json(call->server->engine, &node_record_table_ptr[i]));
	}
	list_reply(&l, call, next);
}

void run_list_partitions(struct call *call)
{
	ListIterator iterator = list_iterator_create(part_list);
	struct list l = {.count = 0};
	const part_record_t *part;

	list_begin(&l, "partitions");
	while ((part = list_next(iterator)))
		list_add_take(&l, part_to_json(call->server->engine, part));
	list_iterator_destroy(iterator);
	list_reply(&l, call, -1);
}

void run_list_reservations(struct call *call)
{
	json_t *all = engine_reservations_to_json(call->server->engine);
	struct list l = {.no_memory = !all};
	json_t *one;
	size_t i;

	list_begin(&l, "reservations");
	json_array_foreach (all, i, one)
		list_add_take(&l, json_incref(one));
	json_decref(all);
	list_reply(&l, call, -1);
}

static void count_states(
	struct engine *e, json_int_t *pending, json_int_t *running, json_int_t *suspended)
{
	const size_t count = engine_count_jobs(e);
	const struct job *job;
	uint32_t state;
	size_t i;

	*pending = *running = *suspended = 0;
	for (i = 0; i < count; i++) {
		job = engine_get_job(e, i);
		state = job ? job->record.job_state & JOB_STATE_BASE : JOB_END;
		*pending += state == JOB_PENDING && !(job->record.job_state & JOB_COMPLETING);
		*running += state == JOB_RUNNING;
		*suspended += state == JOB_SUSPENDED;
	}
}

static int put_counts(json_t *reply, const struct engine_stats *stats)
{
	const struct {
		const char *name;
		uint64_t n;
	} rows[] = {
		{"submitted", stats->submitted},
		{"started", stats->started},
		{"backfilled", stats->backfilled},
		{"completed", stats->completed},
		{"cancelled", stats->cancelled},
		{"failed", stats->failed},
		{"requeued", stats->requeued},
		{"preempted", stats->preempted},
		{"passes", stats->passes},
		{"backfill_cycles", stats->backfill_cycles},
		{"tests", stats->tests},
		{"last_backfill_jobs", stats->last_backfill_jobs},
	};
	size_t i;
	int r = 0;

	for (i = 0; i < ARRAY_SIZE(rows) && r == 0; i++)
		r = json_object_set_new(reply, rows[i].name, json_integer((json_int_t)rows[i].n));
	return r;
}

void run_stats(struct call *call)
{
	struct engine *e = call->server->engine;
	const struct conf *conf = engine_get_conf(e);
	json_int_t pending, running, suspended;
	json_t *reply;

	count_states(e, &pending, &running, &suspended);
	reply = json_pack("{s:I, s:I, s:s, s:s, s:s, s:I, s:I, s:I}", "since",
		(json_int_t)call->server->since, "time", (json_int_t)engine_get_time(e), "cluster",
		conf->cluster_name ? conf->cluster_name : "cluster", "select_type",
		conf->select_type, "preempt_type", conf->preempt_type ? conf->preempt_type : "none",
		"pending", pending, "running", running, "suspended", suspended);
	if (reply && put_counts(reply, engine_get_stats(e)) == 0) {
		call_reply(call, reply);
		return;
	}
	json_decref(reply);
	control_no_memory(call->control);
}
