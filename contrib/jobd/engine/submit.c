/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Makes a job from its request: applies the partition and limits, and checks whether it can ever
 * run.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/jobd/engine/engine_impl.h"
#include "contrib/jobd/engine/job_array.h"

/* ---- its partition ------------------------------------------------------------------------------
 */

static bool is_member(const struct strv *groups, uid_t uid, gid_t gid)
{
	const struct passwd *pw = groups->n ? getpwuid(uid) : NULL;
	size_t i, k;

	for (i = 0; i < groups->n; i++) {
		const struct group *group = getgrnam(groups->v[i]);

		if (!group)
			continue;
		if (group->gr_gid == gid)
			return true;
		for (k = 0; pw && group->gr_mem[k]; k++) {
			if (strcmp(group->gr_mem[k], pw->pw_name) == 0)
				return true;
		}
	}
	return groups->n == 0 || uid == 0;
}

static int find_part(const struct engine *e, const struct job_request *q)
{
	size_t i;

	if (q->partition)
		return conf_find_part(e->conf, q->partition);
	for (i = 0; i < e->conf->parts_count; i++) {
		if (e->conf->parts[i].is_default)
			return (int)i;
	}
	return -1;
}

static int choose_part(const struct engine *e, const struct job_request *q, uid_t uid, gid_t gid,
	part_record_t **ret_part, struct err *err)
{
	int i = find_part(e, q);
	const struct conf_part *part;

	if (i < 0)
		return err_set_text(err, -EINVAL,
			q->partition ? "there is no partition %.100s"
				     : "there is no default partition: name one with --partition%s",
			q->partition ? q->partition : "");
	part = &e->conf->parts[i];
	if (part->is_root_only && uid != 0)
		return err_set_text(err, -EACCES, "partition %s is for root alone", part->name);
	if (!is_member(&part->allow_groups, uid, gid))
		return err_set_text(err, -EACCES,
			"partition %s is for members of certain groups (AllowGroups)", part->name);
	if (part->is_drained)
		return err_set_text(err, -EBUSY,
			"partition %s takes no jobs now (State=DRAIN or INACTIVE)", part->name);
	*ret_part = &e->parts[i];
	return 0;
}

/* ---- its request --------------------------------------------------------------------------------
 */

static uint32_t given_or(uint32_t n, uint32_t other)
{
	return n != NO_VAL ? n : other;
}

static int set_nodes(job_details_t *d, const struct job_request *q, struct err *err)
{
	if (q->nodelist && nodes_parse(q->nodelist, &d->req_node_bitmap) < 0)
		return err_set_text(err, -EINVAL, "--nodelist=%.200s: no such nodes", q->nodelist);
	if (q->exclude && nodes_parse(q->exclude, &d->exc_node_bitmap) < 0)
		return err_set_text(err, -EINVAL, "--exclude=%.200s: no such nodes", q->exclude);
	if (d->req_node_bitmap && d->exc_node_bitmap &&
		bit_overlap_any(d->req_node_bitmap, d->exc_node_bitmap))
		return err_set_text(err, -EINVAL,
			"--nodelist and --exclude name the same node: drop it in one");
	return 0;
}

/* CPUs that it has on each of its nodes, as far as its request says: all of the largest node if it
 * gets whole ones. */
static uint64_t count_node_cpus(const struct engine *e, const job_details_t *d)
{
	uint64_t cpus = (uint64_t)d->ntasks_per_node * d->cpus_per_task;

	if (d->whole_node || !select_gives_parts(e->select))
		return e->most_cpus;
	if (!cpus)
		cpus = (d->min_cpus + d->min_nodes - 1) / d->min_nodes;
	return cpus > d->pn_min_cpus ? cpus : d->pn_min_cpus;
}

/* Whether the memory of a job is above a limit, each of them on a node or, with MEM_PER_CPU, of a
 * CPU. */
static bool is_above(uint64_t wanted, uint64_t limit, uint64_t node_cpus)
{
	uint64_t mb = wanted & ~MEM_PER_CPU, most = limit & ~MEM_PER_CPU;

	if ((wanted & MEM_PER_CPU) == (limit & MEM_PER_CPU))
		return mb > most;
	if (wanted & MEM_PER_CPU)
		return mb > most / node_cpus;
	return mb / node_cpus + (mb % node_cpus > 0) > most;
}

static const char *unit_of(uint64_t memory)
{
	return memory & MEM_PER_CPU ? "CPU" : "node";
}

/* MaxMemPerCPU or MaxMemPerNode. A job that was accepted before is not checked again. */
static int check_memory(const struct engine *e, const struct job *job, struct err *err)
{
	const part_record_t *part = job->record.part_ptr;
	uint64_t limit = part->max_mem_per_cpu ? part->max_mem_per_cpu : e->conf->max_mem;
	uint64_t wanted = job->details.pn_min_memory, cpus;

	if (!limit || !wanted)
		return 0;
	cpus = count_node_cpus(e, &job->details);
	if (!is_above(wanted, limit, cpus))
		return 0;
	return err_set_text(err, -EINVAL,
		"memory of %llu MB on each %s is more than the %llu MB on each %s of partition %s "
		"(the job has %llu CPUs on a node)",
		(unsigned long long)(wanted & ~MEM_PER_CPU), unit_of(wanted),
		(unsigned long long)(limit & ~MEM_PER_CPU), unit_of(limit), part->name,
		(unsigned long long)cpus);
}

/* Its own, else its partition's, else the cluster's. */
static uint64_t choose_memory(
	const struct engine *e, const part_record_t *part, const struct job_request *q)
{
	if (q->memory_mb != NO_VAL64)
		return q->memory_mb;
	return part->def_mem_per_cpu ? part->def_mem_per_cpu : e->conf->def_mem;
}

static int set_counts(job_details_t *d, const struct job_request *q, struct err *err)
{
	uint32_t cpus = given_or(q->cpus_per_task, 1);
	uint64_t tasks;

	if (given_or(q->ntasks_per_node, 0) > UINT16_MAX ||
		given_or(q->ntasks_per_socket, 0) > UINT16_MAX ||
		given_or(q->ntasks_per_core, 0) > UINT16_MAX ||
		given_or(q->min_cpus_per_node, 0) > UINT16_MAX)
		return err_set_text(err, -EINVAL,
			"--ntasks-per-node, --ntasks-per-socket, --ntasks-per-core and --mincpus "
			"must be %u at most",
			UINT16_MAX);
	d->min_nodes = given_or(q->min_nodes, 1);
	d->max_nodes = given_or(q->max_nodes, given_or(q->min_nodes, 0));
	d->num_tasks = given_or(q->ntasks, 0);
	d->ntasks_per_node = (uint16_t)given_or(q->ntasks_per_node, 0);
	d->ntasks_per_socket = (uint16_t)given_or(q->ntasks_per_socket, 0);
	d->ntasks_per_core = (uint16_t)given_or(q->ntasks_per_core, 0);
	d->pn_min_cpus = (uint16_t)given_or(q->min_cpus_per_node, 0);
	tasks = d->num_tasks ? d->num_tasks : d->min_nodes;
	if (!d->num_tasks && d->ntasks_per_node)
		tasks = (uint64_t)d->min_nodes * d->ntasks_per_node;
	if (cpus == 0 || cpus > UINT16_MAX || d->min_nodes == 0 || tasks == 0 ||
		tasks > (uint32_t)INT32_MAX / cpus)
		return err_set_text(err, -EINVAL,
			"--nodes, --ntasks and --cpus-per-task must be 1 or more, and together no "
			"more than %d CPUs",
			INT32_MAX);
	if (d->max_nodes && d->max_nodes < d->min_nodes)
		return err_set_text(err, -EINVAL, "--nodes=%u-%u: the maximum is below the minimum",
			d->min_nodes, d->max_nodes);
	d->cpus_per_task = (uint16_t)cpus;
	d->min_cpus = (uint32_t)tasks * cpus;
	d->max_cpus = NO_VAL;
	/* a task has no parts on two nodes */
	if (d->num_tasks && d->max_nodes > d->num_tasks && d->num_tasks >= d->min_nodes)
		d->max_nodes = d->num_tasks;
	return 0;
}

static int fill_details(const struct engine *e, const part_record_t *part, job_details_t *d,
	const struct job_request *q, struct err *err)
{
	int r = set_counts(d, q, err);

	d->contiguous = q->contiguous;
	d->whole_node = q->exclusive || part->max_share == 0;
	d->share_res = q->exclusive ? JOB_SHARED_NONE : q->oversubscribe ? JOB_SHARED_OK : NO_VAL16;
	d->features = q->features;
	d->pn_min_memory = choose_memory(e, part, q);
	if (r == 0 && q->features)
		r = features_check(q->features, err);
	if (r == 0 && q->distribution &&
		request_parse_distribution(q->distribution, &d->task_dist, &d->plane_size, err) < 0)
		r = err_prefix(err, "--distribution");
	return r < 0 ? r : set_nodes(d, q, err);
}

/* ---- its limits ---------------------------------------------------------------------------------
 */

/* Minutes: its own, or the partition's. */
static uint32_t choose_time_limit(const part_record_t *part, uint32_t requested)
{
	if (requested != NO_VAL)
		return requested;
	return part->default_time != NO_VAL ? part->default_time : part->max_time;
}

static bool has_qos_flag(const job_record_t *job, uint32_t flag)
{
	return job->qos_ptr && job->qos_ptr->flags & flag;
}

uint32_t job_least_nodes(const job_record_t *job)
{
	return has_qos_flag(job, QOS_FLAG_PART_MIN_NODE) ? 1 : job->part_ptr->min_nodes;
}

uint32_t job_most_nodes(const job_record_t *job)
{
	return has_qos_flag(job, QOS_FLAG_PART_MAX_NODE) ? INFINITE : job->part_ptr->max_nodes;
}

static enum job_reason check_limits(const job_record_t *job)
{
	const job_details_t *d = job->details;

	if (job->time_limit > job->part_ptr->max_time &&
		!has_qos_flag(job, QOS_FLAG_PART_TIME_LIMIT))
		return JOB_REASON_PART_TIME_LIMIT;
	if (d->min_nodes > job_most_nodes(job) ||
		(d->max_nodes && d->max_nodes < job_least_nodes(job)))
		return JOB_REASON_PART_NODE_LIMIT;
	return JOB_REASON_NONE;
}

static int refuse_limit(const part_record_t *part, enum job_reason reason, struct err *err)
{
	if (reason == JOB_REASON_PART_TIME_LIMIT)
		return err_set_text(err, -EINVAL,
			"the time limit is above the %u minutes of partition %s (MaxTime)",
			part->max_time, part->name);
	return err_set_text(err, -EINVAL,
		"the number of nodes is outside the limits of partition %s (MinNodes, MaxNodes)",
		part->name);
}

/* Whether it could run on an empty cluster, reservations apart. */
static int check_possible(struct engine *e, struct job *job, struct err *err)
{
	const struct reservation *resv = NULL;
	bitstr_t *nodes = job_possible_nodes(e, job);
	struct select_request q;
	int r = 0;

	if (job->request.reservation) {
		resv = reservation_find(e, job->request.reservation);
		bit_and(nodes, resv->nodes);
	}
	q = job_make_request(e, job, nodes, NULL);
	if (job_test(e, &q, SELECT_MODE_TEST_ONLY, NULL) < 0)
		r = err_set_text(err, -EINVAL, "Requested node configuration is not available");
	bit_free(nodes);
	return r;
}

static int check_reservation(const struct engine *e, const struct job *job, struct err *err)
{
	const char *name = job->request.reservation;
	const struct reservation *resv = name ? reservation_find(e, name) : NULL;
	size_t i;

	if (!name)
		return 0;
	if (!resv)
		return err_set_text(err, -EINVAL, "there is no reservation %.100s", name);
	for (i = 0; i < resv->users_count; i++) {
		if (resv->users[i] == job->record.user_id)
			return 0;
	}
	return err_set_text(err, -EACCES, "reservation %s is not for this user", resv->name);
}

static int check_qos(const struct engine *e, const struct job_request *q, struct err *err)
{
	const qos_record_t *qos = engine_find_qos(e, q->qos);

	if (q->qos && !qos)
		return err_set_text(err, -EINVAL, "there is no QOS %.100s", q->qos);
	if (qos && qos->flags & QOS_FLAG_REQ_RESV && !q->reservation)
		return err_set_text(err, -EINVAL,
			"QOS %s is for jobs with a --reservation (RequiresReservation)", qos->name);
	return 0;
}

static void clear_details(job_details_t *d)
{
	FREE_NULL_BITMAP(d->req_node_bitmap);
	FREE_NULL_BITMAP(d->exc_node_bitmap);
}

/* Fills the job, whose old details are still to be cleared. */
static int take_request(struct engine *e, struct job *job, part_record_t *part, struct err *err)
{
	const struct job_request *q = &job->request;
	job_details_t details = {.min_nodes = 0};
	struct job_warning warning = {.signal = 0};
	int r = fill_details(e, part, &details, q, err);

	if (r == 0 && q->signal && request_parse_signal(q->signal, &warning, err) < 0)
		r = err_prefix(err, "--signal");
	if (r < 0) {
		clear_details(&details);
		return r;
	}
	job->record.part_ptr = part;
	job->record.partition = part->name;
	job->record.name = job_request_name(q);
	job->record.qos = q->qos;
	job->record.qos_ptr = engine_find_qos(e, q->qos);
	job->record.details = &job->details;
	job->record.num_procs = details.min_cpus;
	job->record.bit_flags =
		(q->use_min_nodes ? USE_MIN_NODES : 0) | (q->spread_job ? SPREAD_JOB : 0);
	job->record.time_limit = choose_time_limit(part, q->time_limit_min);
	job->begin_time = q->begin_time;
	job->warning = warning;
	job->may_requeue = q->requeue < 0 ? e->conf->job_requeue : q->requeue;
	job->details = details;
	job->reason = check_limits(&job->record);
	return 0;
}

int job_apply_request(struct engine *e, struct job *job, bool by_admin, struct err *err)
{
	const struct job_request *q = &job->request;
	struct job before = *job;
	part_record_t *part = NULL;
	int r = choose_part(e, q, job->record.user_id, job->record.group_id, &part, err);

	if (r == 0)
		r = check_qos(e, q, err);
	if (r == 0)
		r = check_reservation(e, job, err);
	if (r == 0)
		r = take_request(e, job, part, err);
	if (r < 0)
		return r;
	r = check_memory(e, job, err);
	if (r == 0 && job->reason != JOB_REASON_NONE && e->conf->enforce_part_limits && !by_admin)
		r = refuse_limit(part, job->reason, err);
	if (r == 0 && job->reason == JOB_REASON_NONE)
		r = check_possible(e, job, err);
	if (r < 0) {
		clear_details(&job->details);
		*job = before;
		return r;
	}
	clear_details(&before.details);
	return 0;
}

int job_restore_request(struct engine *e, struct job *job, struct err *err)
{
	int part = find_part(e, &job->request);

	if (part < 0)
		return err_set_text(err, -EINVAL,
			"job %u: its partition %.100s is no longer configured", job->record.job_id,
			job->request.partition ? job->request.partition : "(default)");
	return take_request(e, job, &e->parts[part], err);
}

/* ---- submission ---------------------------------------------------------------------------------
 */

/* priority/basic: those that came first are first. 0 is held. */
static uint32_t choose_priority(const struct engine *e, const struct job_request *q, uid_t uid)
{
	if (q->hold)
		return 0;
	if (q->priority != NO_VAL && uid == 0)
		return q->priority;
	return UINT32_MAX - 3 - e->next_job_id;
}

/* Of as many numbers as there are jobs, and one more, one is free, if there are so many. */
static int take_job_id(struct engine *e, struct job *job, struct err *err)
{
	size_t tries;

	for (tries = 0; tries <= 2 * e->jobs_count; tries++) {
		job->record.job_id = e->next_job_id;
		e->next_job_id = e->next_job_id < e->conf->max_job_id ? e->next_job_id + 1
								      : e->conf->first_job_id;
		if (!engine_find_job(e, job->record.job_id) && !array_find(e, job->record.job_id))
			return 0;
	}
	return err_set_text(err, -EAGAIN,
		"all job ids from FirstJobId=%u to MaxJobId=%u are in use: try again later",
		e->conf->first_job_id, e->conf->max_job_id);
}

/* The parts of a new job. */
struct submission {
	const struct job_request *request;
	uid_t uid;
	gid_t gid;
	uint32_t task_id;       /* NO_VAL: it is of no array */
	const struct job *like; /* the first task of its array; NULL: itself, or it is of none */
};

static select_jobinfo_t *make_jobinfo(struct engine *e, const struct submission *s)
{
	select_jobinfo_t *info;

	if (s->like)
		return select_jobinfo_copy(e->select, s->like->record.select_jobinfo);
	info = select_jobinfo_new(e->select);
	if (info && s->request->network)
		select_jobinfo_set_network(e->select, info, s->request->network);
	return info;
}

/* One that is checked, in no table yet and without an id. */
static int make_job(
	struct engine *e, const struct submission *s, struct job **ret_job, struct err *err)
{
	struct job *job = calloc(1, sizeof(*job));
	int r = job ? request_copy(s->request, &job->request) : -ENOMEM;

	if (r < 0) {
		free(job);
		return err_set(err, r, "submit the job");
	}
	job->record.user_id = s->uid;
	job->record.group_id = s->gid;
	job->record.array_task_id = s->task_id;
	job->record.submit_time = engine_now(e);
	job->exit_status = -1;
	job->batch_node = -1;
	job->end_state = JOB_END;
	job->record.priority = choose_priority(e, s->request, s->uid);
	job->record.select_jobinfo = make_jobinfo(e, s);
	r = job->record.select_jobinfo ? job_apply_request(e, job, s->uid == 0, err)
				       : err_set(err, -ENOMEM, "submit the job");
	if (r < 0)
		job_free(e, job);
	else
		*ret_job = job;
	return r;
}

static int submit_one(
	struct engine *e, const struct submission *s, struct job **ret_job, struct err *err)
{
	struct job *job = NULL;
	int r = make_job(e, s, &job, err);

	if (r < 0)
		return r;
	r = take_job_id(e, job, err);
	if (r == 0 && job_add(e, job) < 0)
		r = err_set(err, -ENOMEM, "submit the job");
	if (r < 0) {
		job_free(e, job);
		return r;
	}
	*ret_job = job;
	return 0;
}

static int store_jobs(struct engine *e, struct job *const *jobs, size_t n, struct err *err)
{
	const struct engine_store *store = e->options.store;
	void *data = e->options.store_data;
	int r = store ? store->begin(data, err) : 0;
	size_t i;

	for (i = 0; store && r == 0 && i < n; i++)
		r = store->job_changed(jobs[i], data, err);
	if (store && r == 0)
		return store->commit(data, err);
	if (store)
		store->rollback(data);
	return r;
}

/* Stores them before anything else: a job that was accepted is never lost. */
static int accept_jobs(struct engine *e, struct job *const *jobs, size_t n, struct err *err)
{
	uint64_t pass_due_ms = e->pass_due_ms;
	int r = store_jobs(e, jobs, n, err);
	size_t i;

	if (r < 0)
		return r;
	for (i = 0; i < n; i++)
		queue_place(e, jobs[i]);
	e->stats.submitted += n;
	if (e->conf->scheduler.defer)
		e->pass_due_ms = pass_due_ms;
	return 0;
}

static int submit_array(struct engine *e, const struct job_request *q, uid_t uid, gid_t gid,
	struct job **jobs, const struct job_array_tasks *tasks, struct err *err)
{
	struct submission s = {.request = q, .uid = uid, .gid = gid};
	size_t i, n = 0;
	int r = 0;

	for (i = 0; r == 0 && i < tasks->count; i++) {
		s.task_id = tasks->ids[i];
		r = submit_one(e, &s, &jobs[i], err);
		if (r < 0)
			break;
		/* its request is a copy, and those of the others are the same one */
		s.request = &jobs[0]->request;
		s.like = jobs[0];
		n++;
		if (array_add(e, jobs[i], jobs[0]->record.job_id) < 0)
			r = err_set(err, -ENOMEM, "submit the job");
		else
			jobs[i]->array->most_active = tasks->limit;
	}
	if (r == 0)
		r = accept_jobs(e, jobs, n, err);
	for (i = 0; r < 0 && i < n; i++)
		job_forget(e, jobs[i]);
	return r;
}

int engine_submit(struct engine *e, const struct job_request *q, uid_t uid, gid_t gid,
	uint32_t *ret_job_id, struct err *err)
{
	const struct submission s = {.request = q, .uid = uid, .gid = gid, .task_id = NO_VAL};
	struct job_array_tasks tasks = {.count = 1};
	struct job **jobs;
	int r = q->array ? job_array_parse(q->array, e->conf->max_array_size, &tasks, err) : 0;

	if (r < 0)
		return r;
	jobs = calloc(tasks.count, sizeof(struct job *));
	if (!jobs)
		r = err_set(err, -ENOMEM, "submit the job");
	else if (e->jobs_count - e->jobs_forgotten + tasks.count > e->conf->max_job_count)
		r = err_set_text(err, -EAGAIN, "there are MaxJobCount=%u jobs: try again later",
			e->conf->max_job_count);
	else if (q->array)
		r = submit_array(e, q, uid, gid, jobs, &tasks, err);
	else
		r = submit_one(e, &s, &jobs[0], err);
	if (r == 0 && !q->array) {
		r = accept_jobs(e, jobs, 1, err);
		if (r < 0)
			job_forget(e, jobs[0]);
	}
	if (r == 0)
		*ret_job_id = jobs[0]->record.job_id;
	free(jobs);
	job_array_tasks_clear(&tasks);
	return r;
}

/* ---- heterogeneous jobs -------------------------------------------------------------------------
 */

static int check_component(const struct job_request *q, size_t offset, struct err *err)
{
	if (q->array)
		return err_set_text(err, -EINVAL,
			"a heterogeneous job can't be an array: submit one for each task");
	if (offset == 0)
		return 0;
	if (q->script || q->argv || q->env)
		return err_set_text(err, -EINVAL,
			"component %zu: script, arguments and environment are those of the first "
			"component",
			offset);
	if (q->begin_time || q->hold || q->dependencies_count || q->singleton ||
		q->priority != NO_VAL)
		return err_set_text(err, -EINVAL,
			"component %zu: give --begin, --dependency, --hold and --priority to the "
			"first component, for all of them",
			offset);
	return 0;
}

/* Each can run, and all together. */
static int make_components(struct engine *e, const struct job_request *requests, size_t n,
	uid_t uid, gid_t gid, struct job **jobs, size_t *ret_made, struct err *err)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < n; i++) {
		const struct submission s = {
			.request = &requests[i], .uid = uid, .gid = gid, .task_id = NO_VAL};

		r = check_component(&requests[i], i, err);
		if (r == 0)
			r = submit_one(e, &s, &jobs[i], err);
		if (r < 0)
			return i > 0 ? err_prefix(err, "component %zu", i) : r;
		*ret_made = i + 1;
		jobs[i]->record.priority = jobs[0]->record.priority;
		r = het_add(e, jobs[i], jobs[0]->record.job_id, (uint32_t)i);
	}
	return r < 0 ? err_set(err, r, "submit the job") : het_check(e, jobs[0], err);
}

int engine_submit_components(struct engine *e, const struct job_request *requests, size_t n,
	uid_t uid, gid_t gid, uint32_t *ret_job_id, struct err *err)
{
	struct job *jobs[ENGINE_COMPONENTS_MAX];
	size_t i, made = 0;
	int r;

	if (n == 1)
		return engine_submit(e, requests, uid, gid, ret_job_id, err);
	if (n == 0 || n > ENGINE_COMPONENTS_MAX)
		return err_set_text(err, -EINVAL, "a heterogeneous job has 2 to %u components",
			ENGINE_COMPONENTS_MAX);
	if (e->jobs_count - e->jobs_forgotten + n > e->conf->max_job_count)
		return err_set_text(err, -EAGAIN, "there are MaxJobCount=%u jobs: try again later",
			e->conf->max_job_count);
	r = make_components(e, requests, n, uid, gid, jobs, &made, err);
	if (r == 0)
		r = accept_jobs(e, jobs, n, err);
	for (i = 0; r < 0 && i < made; i++)
		job_forget(e, jobs[i]);
	if (r == 0)
		*ret_job_id = jobs[0]->record.job_id;
	return r;
}

/* ---- when it would start ------------------------------------------------------------------------
 */

static int check_starts(const struct engine *e, const struct job *job, struct err *err)
{
	const part_record_t *part = job->record.part_ptr;

	if (job->reason != JOB_REASON_NONE)
		return refuse_limit(part, job->reason, err);
	if (!e->conf->parts[part - e->parts].is_up)
		return err_set_text(
			err, -EBUSY, "partition %s is down: none of its jobs start", part->name);
	return 0;
}

/* Of a job that shares nodes, those that it needs at least. */
static uint32_t count_cpus(const struct engine *e, const struct job *job, const bitstr_t *nodes)
{
	uint32_t cpus = 0;
	bitoff_t i = 0;

	if (!job->details.whole_node && select_gives_parts(e->select))
		return job->record.num_procs;
	for (; (i = bit_ffs_from_bit(nodes, i)) >= 0; i++)
		cpus += node_record_table_ptr[i].cpus;
	return cpus;
}

static int find_start(
	struct engine *e, struct job *job, struct engine_start *ret_start, struct err *err)
{
	struct engine_start start = {.partition = job->record.partition};
	bitstr_t *nodes;
	int r = check_starts(e, job, err);

	if (r < 0)
		return r;
	nodes = bit_alloc(node_record_count);
	r = backfill_find_start(e, job, nodes, &start.start_time);
	if (r == -EBUSY)
		r = err_set_text(err, r,
			"the job can't start as long as nodes are down, drained or reserved");
	else if (r < 0 || !(start.nodes = nodes_text(nodes)))
		r = err_set(err, -ENOMEM, "find when the job would start");
	start.cpus = count_cpus(e, job, nodes);
	bit_free(nodes);
	if (r == 0)
		*ret_start = start;
	return r;
}

int engine_will_run(struct engine *e, const struct job_request *q, uid_t uid, gid_t gid,
	struct engine_start *ret_start, struct err *err)
{
	struct submission s = {.request = q, .uid = uid, .gid = gid, .task_id = NO_VAL};
	struct job_array_tasks tasks = {.count = 0};
	struct job *job = NULL;
	int r = q->array ? job_array_parse(q->array, e->conf->max_array_size, &tasks, err) : 0;

	if (r == 0 && q->array)
		s.task_id = tasks.ids[0];
	if (r == 0)
		r = make_job(e, &s, &job, err);
	if (r == 0)
		r = find_start(e, job, ret_start, err);
	job_free(e, job);
	job_array_tasks_clear(&tasks);
	return r;
}
