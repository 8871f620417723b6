/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Jobs, nodes and partitions as JSON, as described in engine.h; and their restoration.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/jobd/engine/engine_impl.h"
#include "contrib/jobd/select/use.h"
#include "stepd/base/buffer.h"
#include "stepd/base/err.h"
#include "stepd/base/json.h"

#define COMMAND_MAX 1024u /* bytes of it in a document */

/* ---- members ------------------------------------------------------------------------------------
 */

static void put_int(json_t *json, const char *name, int64_t n)
{
	(void)json_object_set_new(json, name, json_integer(n));
}

/* Unless it is 0. */
static void put_time(json_t *json, const char *name, time_t t)
{
	if (t)
		put_int(json, name, t);
}

static void put_text(json_t *json, const char *name, const char *text)
{
	if (text)
		(void)json_object_set_new(json, name, json_string(text));
}

static void put_bool(json_t *json, const char *name, bool is)
{
	(void)json_object_set_new(json, name, json_boolean(is));
}

/* INFINITE is -1. */
static void put_limit(json_t *json, const char *name, uint32_t n)
{
	put_int(json, name, n == INFINITE ? -1 : (int64_t)n);
}

static void put_memory(json_t *json, const char *per_node, const char *per_cpu, uint64_t memory)
{
	put_int(json, memory & MEM_PER_CPU ? per_cpu : per_node, (int64_t)(memory & ~MEM_PER_CPU));
}

static void put_nodes(json_t *json, const char *name, const bitstr_t *nodes)
{
	char *text = nodes ? nodes_text(nodes) : NULL;

	put_text(json, name, text);
	free(text);
}

/* ---- cores of a node ----------------------------------------------------------------------------
 */

json_t *node_cores_json(const node_record_t *node, const bitstr_t *cores)
{
	bitstr_t *own = bit_alloc(node->tot_cores);
	json_t *json = json_object();
	uint32_t core;
	char text[1024];

	for (core = 0; core < node->tot_cores; core++) {
		if (bit_test(cores, (bitoff_t)node->core_offset + core))
			bit_set(own, core);
	}
	put_text(json, "name", node->name);
	put_text(json, "cores", bit_fmt(text, sizeof(text), own));
	bit_free(own);
	return json;
}

int node_cores_parse(const node_record_t *node, const char *text, bitstr_t *cores)
{
	bitstr_t *own = bit_alloc(node->tot_cores);
	bitoff_t core = 0;
	int r = bit_unfmt(own, text) == 0 ? 0 : -EINVAL;

	for (; r == 0 && (core = bit_ffs_from_bit(own, core)) >= 0; core++)
		bit_set(cores, (bitoff_t)node->core_offset + core);
	bit_free(own);
	return r;
}

/* ---- a job --------------------------------------------------------------------------------------
 */

static void put_state(json_t *json, const struct engine *e, const struct job *job)
{
	json_t *flags = json_array();

	if (job->record.job_state & JOB_COMPLETING)
		(void)json_array_append_new(flags, json_string("COMPLETING"));
	if (job->record.job_state & JOB_CONFIGURING)
		(void)json_array_append_new(flags, json_string("CONFIGURING"));
	put_text(json, "job_state", job_state_name(job_base_state(job)));
	(void)json_object_set_new(json, "state_flags", flags);
	put_text(json, "state_reason", job_reason_name(engine_get_reason(e, job)));
	put_text(json, "state_description", job->description);
}

static void put_times(json_t *json, const struct engine *e, const struct job *job)
{
	const job_record_t *r = &job->record;
	bool pending = job_is_pending(job);

	put_time(json, "submit_time", r->submit_time);
	put_time(json, "eligible_time", job->eligible_time);
	put_time(json, "begin_time", job->begin_time);
	put_time(json, "last_start_time", job->last_start_time);
	put_time(json, "start_time", pending ? job->planned_start : r->start_time);
	if (!pending && (job_has_ended(job) || r->time_limit != INFINITE))
		put_time(json, "end_time", r->end_time);
	if (job_base_state(job) == JOB_SUSPENDED)
		put_time(json, "suspend_time", r->suspend_time);
	put_time(json, "suspended_s", r->tot_sus_time);
	put_time(json, "preempt_time", job->preempt_time);
	put_time(json, "preemptable_time", job_preemptable_time(e, job));
	put_limit(json, "time_limit_min", r->time_limit);
}

static void put_array(json_t *json, const struct job *job)
{
	if (!job->array)
		return;
	put_int(json, "array_job_id", job->record.array_job_id);
	put_int(json, "array_task_id", job->record.array_task_id);
	put_int(json, "array_max_tasks", job->array->most_active);
}

static void put_het(json_t *json, const struct job *job)
{
	if (!job->het)
		return;
	put_int(json, "het_job_id", job->record.het_job_id);
	put_int(json, "het_job_offset", job->record.het_job_offset);
}

static uint32_t sum_cpus(const struct job *job)
{
	return job->record.job_resrcs ? job->record.job_resrcs->ncpus : job->record.num_procs;
}

static void put_needs(json_t *json, const struct job *job)
{
	const job_details_t *d = &job->details;

	put_int(json, "node_count",
		job->record.node_cnt ? job->record.node_cnt : job->details.min_nodes);
	put_int(json, "cpus", sum_cpus(job));
	put_int(json, "tasks", d->num_tasks ? d->num_tasks : d->min_nodes);
	put_int(json, "cpus_per_task", d->cpus_per_task);
	if (d->ntasks_per_node)
		put_int(json, "ntasks_per_node", d->ntasks_per_node);
	if (d->ntasks_per_socket)
		put_int(json, "ntasks_per_socket", d->ntasks_per_socket);
	if (d->ntasks_per_core)
		put_int(json, "ntasks_per_core", d->ntasks_per_core);
	put_text(json, "distribution", job->request.distribution);
	put_bool(json, "spread_job", job->record.bit_flags & SPREAD_JOB);
	put_bool(json, "use_min_nodes", job->record.bit_flags & USE_MIN_NODES);
	put_int(json, "min_nodes", d->min_nodes);
	if (d->max_nodes)
		put_int(json, "max_nodes", d->max_nodes);
	if (d->pn_min_cpus)
		put_int(json, "minimum_cpus_per_node", d->pn_min_cpus);
	put_memory(json, "memory_per_node_mb", "memory_per_cpu_mb", d->pn_min_memory);
	put_nodes(json, "required_nodes", d->req_node_bitmap);
	put_nodes(json, "excluded_nodes", d->exc_node_bitmap);
	put_text(json, "features", d->features);
	put_bool(json, "contiguous", d->contiguous);
	put_bool(json, "exclusive", d->whole_node);
	put_text(json, "oversubscribe",
		d->share_res == JOB_SHARED_NONE         ? "NO"
			: d->share_res == JOB_SHARED_OK ? "YES"
							: "OK");
}

static const char *dependency_name(enum job_dependency_kind kind)
{
	static const char *const names[] = {
		[DEPENDS_AFTER] = "after",
		[DEPENDS_AFTER_ANY] = "afterany",
		[DEPENDS_AFTER_OK] = "afterok",
		[DEPENDS_AFTER_NOT_OK] = "afternotok",
	};

	return names[kind];
}

static void put_dependency(json_t *json, const struct job *job)
{
	const struct job_request *q = &job->request;
	char *text = NULL, *longer;
	size_t i;

	for (i = 0; job_is_pending(job) && i < q->dependencies_count; i++) {
		const struct job_dependency *d = &q->dependencies[i];

		if (asprintf(&longer, "%s%s%s:%u", text ? text : "",
			    !text                         ? ""
				    : q->dependencies_any ? "?"
							  : ",",
			    dependency_name(d->kind), d->job_id) < 0)
			break;
		free(text);
		text = longer;
		if (d->task_id != NO_VAL && asprintf(&longer, "%s_%u", text, d->task_id) >= 0) {
			free(text);
			text = longer;
		}
		if (d->delay_min && asprintf(&longer, "%s+%u", text, d->delay_min) >= 0) {
			free(text);
			text = longer;
		}
	}
	if (job_is_pending(job) && q->singleton &&
		asprintf(&longer, "%s%ssingleton", text ? text : "", text ? "," : "") >= 0) {
		free(text);
		text = longer;
	}
	put_text(json, "dependency", text);
	free(text);
}

static json_t *allocated_json(const job_resources_t *r)
{
	json_t *list = json_array(), *one;
	bitoff_t i = 0;
	uint32_t k = 0;

	for (; (i = bit_ffs_from_bit(r->node_bitmap, i)) >= 0; i++, k++) {
		const node_record_t *node = &node_record_table_ptr[i];

		one = r->core_bitmap ? node_cores_json(node, r->core_bitmap) : json_object();
		put_text(one, "name", node->name);
		put_int(one, "cpus", r->cpus[k]);
		put_int(one, "memory_mb", (int64_t)r->memory_allocated[k]);
		(void)json_array_append_new(list, one);
	}
	return list;
}

/* With the script's arguments, as long as they are not very long: it is in all lists. */
static void put_command(json_t *json, const struct job_request *q)
{
	_cleanup_buffer_ struct buffer b = {0};
	size_t i, size;
	int r = q->command ? buffer_add(&b, q->command, strlen(q->command)) : -ENOENT;

	for (i = 0; r == 0 && q->argv && q->argv[i] && buffer_size(&b) <= COMMAND_MAX; i++) {
		r = buffer_add(&b, " ", 1);
		if (r == 0)
			r = buffer_add(&b, q->argv[i], strnlen(q->argv[i], COMMAND_MAX + 1));
	}
	size = r == 0 ? buffer_size(&b) : 0;
	if (size > COMMAND_MAX) {
		/* not within a character */
		for (size = COMMAND_MAX; size > 0 && (buffer_bytes(&b)[size] & 0xc0) == 0x80;
			size--)
			;
		b.end = b.at + size;
		r = buffer_add(&b, "...", 3);
	}
	if (r == 0)
		(void)json_object_set_new(
			json, "command", json_stringn(buffer_bytes(&b), buffer_size(&b)));
}

/* By its whole path; its patterns are replaced where it runs. */
static void put_file(json_t *json, const char *name, const char *dir, const char *file)
{
	_cleanup_free_ char *path = NULL;

	if (file[0] == '/' || !dir || asprintf(&path, "%s/%s", dir, file) < 0) {
		path = NULL;
		put_text(json, name, file);
		return;
	}
	put_text(json, name, path);
}

static void put_files(json_t *json, const struct job *job)
{
	const struct job_request *q = &job->request;
	const job_record_t *r = &job->record;
	const char *out = q->stdout_file, *error = q->stderr_file;
	char own[64];

	if (r->array_task_id == NO_VAL)
		(void)snprintf(own, sizeof(own), "slurm-%u.out", r->job_id);
	else
		(void)snprintf(
			own, sizeof(own), "slurm-%u_%u.out", r->array_job_id, r->array_task_id);
	out = out && *out ? out : own;
	put_file(json, "standard_output", q->work_dir, out);
	put_file(json, "standard_error", q->work_dir, error && *error ? error : out);
	if (q->stdin_file && *q->stdin_file)
		put_file(json, "standard_input", q->work_dir, q->stdin_file);
}

static void put_texts(json_t *json, const struct job *job)
{
	const struct job_request *q = &job->request;

	put_text(json, "name", job->record.name);
	put_text(json, "partition", job->record.partition);
	put_text(json, "qos", q->qos);
	put_text(json, "resv_name", q->reservation);
	put_text(json, "comment", q->comment);
	put_text(json, "network", q->network);
	put_text(json, "signal", q->signal);
	put_text(json, "current_working_directory", q->work_dir);
	put_command(json, q);
	if (q->script)
		put_files(json, job);
}

/* NULL: nothing. Takes text over. */
static void put_plugin_text(json_t *json, const char *name, char *text)
{
	if (text)
		put_text(json, name, text);
	free(text);
}

json_t *job_to_json(const struct engine *e, const struct job *job)
{
	json_t *json = json_object();
	const job_record_t *r = &job->record;

	if (!json)
		return NULL;
	put_int(json, "job_id", r->job_id);
	put_array(json, job);
	put_het(json, job);
	put_texts(json, job);
	put_state(json, e, job);
	put_int(json, "user_id", r->user_id);
	put_int(json, "group_id", r->group_id);
	put_int(json, "priority", r->priority);
	put_int(json, "restart_cnt", job->restarts);
	put_times(json, e, job);
	put_text(json, "nodes", r->nodes);
	if (r->node_bitmap && job->batch_node >= 0)
		put_text(json, "batch_host", node_record_table_ptr[job->batch_node].name);
	put_nodes(json, "leaving_nodes", job->leaving_nodes);
	put_nodes(json, "scheduled_nodes", job->planned_nodes);
	put_needs(json, job);
	put_bool(json, "requeue", job->may_requeue);
	put_bool(json, "batch", job->request.script != NULL);
	put_dependency(json, job);
	if (job_has_ended(job) && job->exit_status >= 0)
		put_int(json, "exit_code", job->exit_status);
	if (r->job_resrcs)
		(void)json_object_set_new(json, "allocated_nodes", allocated_json(r->job_resrcs));
	put_plugin_text(json, "select_jobinfo",
		select_jobinfo_describe(e->select, r->select_jobinfo, false));
	put_plugin_text(
		json, "select_data", select_jobinfo_describe(e->select, r->select_jobinfo, true));
	return json;
}

json_t *job_to_stored_json(const struct engine *e, const struct job *job)
{
	json_t *json = job_to_json(e, job);
	const job_resources_t *res = job->record.job_resrcs;

	if (!json)
		return NULL;
	put_int(json, "end_state", job->end_state);
	put_nodes(json, "failed_nodes", job->failed_nodes);
	if (job->preemptor_id)
		put_int(json, "preemptor_id", job->preemptor_id);
	if (job->warned)
		put_bool(json, "warned", true);
	if (job_base_state(job) == JOB_SUSPENDED)
		(void)json_object_set_new(json, "gang_stopped", json_boolean(job->gang_stopped));
	if (job_base_state(job) == JOB_SUSPENDED || job_is_completing(job))
		(void)json_object_set_new(json, "launched", json_boolean(job->launched));
	put_plugin_text(
		json, "select_state", select_jobinfo_pack(e->select, job->record.select_jobinfo));
	put_time(json, "start_time", job->record.start_time);
	put_time(json, "end_time", job->record.end_time);
	if (res) {
		put_int(json, "node_sharing", res->node_req);
		put_int(json, "whole_nodes", res->whole_node);
	}
	return json;
}

/* ---- nodes and partitions -----------------------------------------------------------------------
 */

static const char *base_name(uint32_t state)
{
	static const char *const names[] = {
		[NODE_STATE_UNKNOWN] = "UNKNOWN",
		[NODE_STATE_DOWN] = "DOWN",
		[NODE_STATE_IDLE] = "IDLE",
		[NODE_STATE_ALLOCATED] = "ALLOCATED",
		[NODE_STATE_MIXED] = "MIXED",
	};

	state &= NODE_STATE_BASE;
	return state < ARRAY_SIZE(names) ? names[state] : "UNKNOWN";
}

const char *node_state_name(uint32_t state)
{
	uint32_t base = state & NODE_STATE_BASE;

	if (base == NODE_STATE_DOWN)
		return "down";
	if (state & NODE_STATE_DRAIN)
		return base == NODE_STATE_IDLE && !(state & NODE_STATE_COMPLETING) ? "drained"
										   : "draining";
	if (state & NODE_STATE_COMPLETING)
		return "completing";
	if (base == NODE_STATE_ALLOCATED)
		return "allocated";
	if (base == NODE_STATE_MIXED)
		return "mixed";
	return base == NODE_STATE_IDLE ? "idle" : "unknown";
}

static json_t *node_flags(const struct engine *e, const node_record_t *node)
{
	json_t *flags = json_array();
	size_t i;

	if (node->node_state & NODE_STATE_DRAIN)
		(void)json_array_append_new(flags, json_string("DRAIN"));
	if (node->node_state & NODE_STATE_COMPLETING)
		(void)json_array_append_new(flags, json_string("COMPLETING"));
	for (i = 0; i < e->reservations_count; i++) {
		const struct reservation *resv = e->reservations[i];

		if (resv->begun && bit_test(resv->nodes, node->index))
			(void)json_array_append_new(
				flags, json_string(resv->maintenance ? "MAINT" : "RESERVED"));
	}
	return flags;
}

static json_t *node_parts(const struct engine *e, const node_record_t *node)
{
	json_t *list = json_array();
	size_t i;

	for (i = 0; i < e->parts_count; i++) {
		if (bit_test(e->parts[i].node_bitmap, node->index))
			(void)json_array_append_new(list, json_string(e->parts[i].name));
	}
	return list;
}

json_t *node_to_json(const struct engine *e, const node_record_t *node)
{
	const struct node_extra *extra = &e->nodes[node->index];
	json_t *json = json_object();
	uint64_t memory;
	uint16_t cpus;

	if (!json)
		return NULL;
	select_node_use(e->select, node, &cpus, &memory);
	put_text(json, "name", node->name);
	put_text(json, "features", node->features);
	put_text(json, "reason", extra->reason);
	put_time(json, "reason_changed_at", extra->reason_time);
	if (extra->reason)
		put_int(json, "reason_set_by_user", extra->reason_uid);
	put_text(json, "state", base_name(node->node_state));
	(void)json_object_set_new(json, "state_flags", node_flags(e, node));
	(void)json_object_set_new(json, "partitions", node_parts(e, node));
	put_int(json, "cpus", node->cpus);
	put_int(json, "sockets", node->tot_sockets);
	put_int(json, "cores", node->cores);
	put_int(json, "threads", node->threads);
	put_int(json, "weight", node->weight);
	put_int(json, "real_memory_mb", (int64_t)node->real_memory);
	put_int(json, "mem_spec_limit_mb", (int64_t)node->mem_spec_limit);
	put_int(json, "alloc_cpus", cpus);
	put_int(json, "alloc_memory_mb", (int64_t)memory);
	put_int(json, "running_jobs", node->run_job_cnt);
	put_int(json, "suspended_jobs", node->sus_job_cnt);
	return json;
}

json_t *node_to_stored_json(const struct engine *e, const node_record_t *node)
{
	json_t *json = node_to_json(e, node);

	if (json)
		put_plugin_text(json, "select_state", select_nodeinfo_pack(e->select, node));
	return json;
}

static void put_sharing(json_t *json, uint16_t max_share)
{
	char text[32];
	uint16_t n = max_share & (uint16_t)~SHARED_FORCE;

	if (max_share & SHARED_FORCE)
		(void)snprintf(text, sizeof(text), "FORCE:%u", n);
	else if (max_share > 1)
		(void)snprintf(text, sizeof(text), "YES:%u", n);
	put_text(json, "oversubscribe",
		max_share == 0           ? "EXCLUSIVE"
			: max_share == 1 ? "NO"
					 : text);
}

static const char *preempt_mode_name(uint16_t mode)
{
	bool gang = mode & PREEMPT_MODE_GANG;

	switch (mode & ~PREEMPT_MODE_GANG) {
	case PREEMPT_MODE_SUSPEND:
		return gang ? "GANG,SUSPEND" : "SUSPEND";
	case PREEMPT_MODE_REQUEUE:
		return gang ? "GANG,REQUEUE" : "REQUEUE";
	case PREEMPT_MODE_CANCEL:
		return gang ? "GANG,CANCEL" : "CANCEL";
	default:
		return gang ? "GANG" : "OFF";
	}
}

json_t *part_to_json(const struct engine *e, const part_record_t *part)
{
	const struct conf_part *conf = &e->conf->parts[part - e->parts];
	uint16_t mode = part->preempt_mode == NO_VAL16 ? e->conf->preempt_mode : part->preempt_mode;
	json_t *json = json_object(), *groups = json_array();
	size_t i;

	for (i = 0; i < conf->allow_groups.n; i++)
		(void)json_array_append_new(groups, json_string(conf->allow_groups.v[i]));
	put_text(json, "name", part->name);
	put_nodes(json, "nodes", part->node_bitmap);
	put_bool(json, "is_default", conf->is_default);
	put_bool(json, "is_hidden", conf->is_hidden);
	put_bool(json, "root_only", conf->is_root_only);
	put_text(json, "state",
		conf->is_up                ? conf->is_drained ? "DRAIN" : "UP"
			: conf->is_drained ? "INACTIVE"
					   : "DOWN");
	put_int(json, "total_nodes", part->total_nodes);
	put_int(json, "total_cpus", part->total_cpus);
	put_int(json, "min_nodes", part->min_nodes);
	put_limit(json, "max_nodes", part->max_nodes);
	put_limit(json, "max_time_min", part->max_time);
	if (part->default_time != NO_VAL)
		put_limit(json, "default_time_min", part->default_time);
	put_memory(json, "def_mem_per_node_mb", "def_mem_per_cpu_mb", part->def_mem_per_cpu);
	put_memory(json, "max_mem_per_node_mb", "max_mem_per_cpu_mb", part->max_mem_per_cpu);
	put_sharing(json, part->max_share);
	put_text(json, "preempt_mode", preempt_mode_name(mode));
	put_int(json, "priority_tier", part->priority_tier);
	put_int(json, "priority_job_factor", part->priority_job_factor);
	put_int(json, "grace_time_s", part->grace_time);
	(void)json_object_set_new(json, "allow_groups", groups);
	return json;
}

/* ---- a job that was kept ------------------------------------------------------------------------
 */

static uint32_t parse_state(const json_t *json)
{
	const char *name = json_get_text(json, "job_state", "");
	json_t *flag;
	uint32_t state, flags = 0;
	size_t i;

	for (state = 0; state < JOB_END; state++) {
		if (strcmp(job_state_name(state), name) == 0)
			break;
	}
	json_array_foreach (json_get_array(json, "state_flags"), i, flag) {
		const char *text = json_is_string(flag) ? json_string_value(flag) : "";

		if (strcmp(text, "COMPLETING") == 0)
			flags |= JOB_COMPLETING;
		if (strcmp(text, "CONFIGURING") == 0)
			flags |= JOB_CONFIGURING;
	}
	return state == JOB_END ? JOB_END : state | flags;
}

static int restore_allocation(struct job *job, const json_t *json)
{
	json_t *list = json_get_array(json, "allocated_nodes"), *one;
	const node_record_t *last = &node_record_table_ptr[node_record_count - 1];
	bitstr_t *nodes = NULL;
	job_resources_t *res;
	size_t i;
	int r = 0;

	if (!list)
		return 0;
	if (nodes_parse(json_get_text(json, "nodes", ""), &nodes) < 0 ||
		(size_t)bit_set_count(nodes) != json_array_size(list)) {
		bit_free(nodes);
		return -EINVAL;
	}
	res = use_resources_new(nodes);
	bit_free(nodes);
	res->node_req = (uint8_t)json_get_int(json, "node_sharing", NODE_CR_RESERVED);
	res->whole_node = (uint8_t)json_get_int(json, "whole_nodes", 0);
	json_array_foreach (list, i, one) {
		const char *cores = json_get_text(one, "cores", NULL);
		const node_record_t *node;

		res->cpus[i] = (uint16_t)json_get_int(one, "cpus", 0);
		res->ncpus += res->cpus[i];
		res->memory_allocated[i] = (uint64_t)json_get_int(one, "memory_mb", 0);
		if (!cores || nodes_parse(json_get_text(one, "name", ""), &nodes) < 0)
			continue;
		node = &node_record_table_ptr[bit_ffs(nodes)];
		bit_free(nodes);
		if (!res->core_bitmap)
			res->core_bitmap = bit_alloc((bitoff_t)last->core_offset + last->tot_cores);
		if (node_cores_parse(node, cores, res->core_bitmap) < 0)
			r = -EINVAL;
	}
	job->record.job_resrcs = res;
	return r;
}

static void restore_times(struct job *job, const json_t *json)
{
	job_record_t *r = &job->record;

	r->submit_time = (time_t)json_get_int(json, "submit_time", 0);
	r->start_time = job_is_pending(job) ? 0 : (time_t)json_get_int(json, "start_time", 0);
	r->suspend_time = (time_t)json_get_int(json, "suspend_time", 0);
	r->tot_sus_time = (time_t)json_get_int(json, "suspended_s", 0);
	r->end_time = (time_t)json_get_int(json, "end_time", r->start_time + 365 * 24 * 3600);
	job->eligible_time = (time_t)json_get_int(json, "eligible_time", 0);
	job->begin_time = (time_t)json_get_int(json, "begin_time", 0);
	job->last_start_time = (time_t)json_get_int(json, "last_start_time", 0);
	job->preempt_time = (time_t)json_get_int(json, "preempt_time", 0);
	job->preemptor_id = (uint32_t)json_get_int(json, "preemptor_id", 0);
	job->preempted = job->preemptor_id && !job_is_pending(job);
	job->warned = json_get_bool(json, "warned", false);
}

static int restore_array(struct engine *e, struct job *job, const json_t *json)
{
	uint32_t id = (uint32_t)json_get_int(json, "array_job_id", 0);

	job->record.array_task_id = (uint32_t)json_get_int(json, "array_task_id", NO_VAL);
	if (id == 0)
		return 0;
	if (array_add(e, job, id) < 0)
		return -ENOMEM;
	if (job->array->first != job)
		request_unify(&job->request, &job->array->first->request);
	job->array->most_active = (uint32_t)json_get_int(json, "array_max_tasks", 0);
	return 0;
}

static int restore_het(struct engine *e, struct job *job, const json_t *json)
{
	int64_t id = json_get_int(json, "het_job_id", 0);

	return id == 0
		? 0
		: het_add(e, job, (uint32_t)id, (uint32_t)json_get_int(json, "het_job_offset", 0));
}

/* Its timer and lists, as its state has it. */
static void restore_place(struct engine *e, struct job *job)
{
	if (job_is_completing(job)) {
		nodes_begin_completing(e, job->record.node_bitmap);
		/* its end_time is the time of the request to end it */
		timer_set(
			e, job, MS_PER_S * (uint64_t)(job->record.end_time + e->conf->kill_wait_s));
	} else if (job_has_ended(job)) {
		timer_set(e, job,
			MS_PER_S * (uint64_t)(job->record.end_time + e->conf->min_job_age_s));
	} else if (job->record.job_resrcs) {
		nodes_add_job(e, job);
		array_count(job);
		if (job->record.job_state & JOB_CONFIGURING)
			timer_set(e, job, e->now_ms);
		else if (job_base_state(job) == JOB_RUNNING)
			job_set_limit_timer(e, job);
	}
}

static int restore_jobinfo(struct engine *e, struct job *job, const json_t *json)
{
	const char *text = json_get_text(json, "select_state", NULL);

	if (text)
		job->record.select_jobinfo = select_jobinfo_unpack(e->select, text);
	if (text && !job->record.select_jobinfo)
		log_warning(e->log,
			"job %u: the select plugin can't read what it has stored of it, ignoring",
			job->record.job_id);
	if (!job->record.select_jobinfo)
		job->record.select_jobinfo = select_jobinfo_new(e->select);
	return job->record.select_jobinfo ? 0 : -ENOMEM;
}

/* The node of its script, and those that it gives up. */
static int restore_nodes(struct job *job, const json_t *json)
{
	const char *host = json_get_text(json, "batch_host", NULL);
	const char *leaving = json_get_text(json, "leaving_nodes", NULL);
	bitstr_t *node = NULL;

	job->batch_node =
		job->record.job_resrcs ? (int)bit_ffs(job->record.job_resrcs->node_bitmap) : -1;
	if (host && nodes_parse(host, &node) < 0)
		return -EINVAL;
	if (node)
		job->batch_node = (int)bit_ffs(node);
	bit_free(node);
	return leaving ? nodes_parse(leaving, &job->leaving_nodes) : 0;
}

static int restore_job(struct engine *e, struct job *job, const json_t *json, struct err *err)
{
	job_record_t *r = &job->record;
	int64_t id = json_get_int(json, "job_id", 0);
	int ret;

	if (id <= 0 || id >= NO_VAL)
		return err_set_text(err, -EINVAL, "a job in the store has no number");
	r->job_id = (uint32_t)id;
	ret = request_from_json(json_get_object(json, "request"), &job->request, err);
	if (ret < 0)
		return ret;
	/* before anything points to its texts */
	if (request_share(&job->request) < 0 || restore_array(e, job, json) < 0 ||
		restore_het(e, job, json) < 0 || restore_jobinfo(e, job, json) < 0)
		return err_set(err, -ENOMEM, "restore job %u", r->job_id);
	r->user_id = (uid_t)json_get_int(json, "user_id", 0);
	r->group_id = (gid_t)json_get_int(json, "group_id", 0);
	r->job_state = parse_state(json);
	if ((r->job_state & JOB_STATE_BASE) == JOB_END)
		return err_set_text(err, -EINVAL, "job %u: its state is unknown", r->job_id);
	r->priority = (uint32_t)json_get_int(json, "priority", 0);
	ret = job_restore_request(e, job, err);
	if (ret < 0)
		return ret;
	job->restarts = (uint32_t)json_get_int(json, "restart_cnt", 0);
	job->exit_status = (int)json_get_int(json, "exit_code", -1);
	job->end_state = (uint32_t)json_get_int(json, "end_state", JOB_END);
	job->held_by_admin = strcmp(json_get_text(json, "state_reason", ""),
				     job_reason_name(JOB_REASON_HELD_ADMIN)) == 0;
	if (r->priority == 0 &&
		strcmp(json_get_text(json, "state_reason", ""),
			job_reason_name(JOB_REASON_LAUNCH_FAILED)) == 0)
		job->reason = JOB_REASON_LAUNCH_FAILED;
	if (json_get_text(json, "failed_nodes", NULL) &&
		nodes_parse(json_get_text(json, "failed_nodes", ""), &job->failed_nodes) < 0)
		return err_set_text(err, -EINVAL,
			"job %u: its failed nodes are no longer configured", r->job_id);
	engine_job_describe(job, json_get_text(json, "state_description", NULL));
	restore_times(job, json);
	if (restore_allocation(job, json) < 0 || restore_nodes(job, json) < 0)
		return err_set_text(err, -EINVAL,
			"job %u: its nodes are configured in another way now", r->job_id);
	return job_add(e, job) < 0 ? err_set(err, -ENOMEM, "restore job %u", r->job_id) : 0;
}

bool engine_is_stored_job_over(const json_t *json)
{
	const uint32_t state = parse_state(json);

	return (state & JOB_STATE_BASE) >= JOB_COMPLETE && (state & JOB_STATE_BASE) < JOB_END &&
		!(state & JOB_COMPLETING);
}

int engine_restore_job(struct engine *e, const json_t *json, struct err *err)
{
	struct job *job = calloc(1, sizeof(*job));
	int r = job ? restore_job(e, job, json, err) : err_set(err, -ENOMEM, "restore a job");

	if (r < 0) {
		job_free(e, job);
		return r;
	}
	if (job->record.job_id >= e->next_job_id)
		e->next_job_id = job->record.job_id + 1;
	if (job->record.job_resrcs)
		job_give(job);
	if (job_has_nodes(job) && !job_has_ended(job))
		(void)list_append(job_list, &job->record);
	job->gang_stopped = json_get_bool(json, "gang_stopped", false);
	job->launched = job->record.job_resrcs && !(job->record.job_state & JOB_CONFIGURING) &&
		!job_has_ended(job) && json_get_bool(json, "launched", true);
	job->cleaning = job_is_completing(job) && !job->launched;
	if (job->leaving_nodes && job->launched)
		nodes_begin_completing(e, job->leaving_nodes);
	else
		FREE_NULL_BITMAP(job->leaving_nodes);
	restore_place(e, job);
	return 0;
}
