/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Changes by users while jobd runs: of jobs, their sizes, and the configuration.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/jobd/engine/engine_impl.h"
#include "stepd/base/err.h"
#include "stepd/base/json.h"

/* ---- a job --------------------------------------------------------------------------------------
 */

/* The script, its arguments and its environment can't be changed: the store does not write them
 * again. */
static int check_change(const json_t *changes, struct err *err)
{
	static const char *const fixed[] = {"script", "argv", "env", "array"};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(fixed); i++) {
		if (json_object_get(changes, fixed[i]))
			return err_set_text(err, -EINVAL,
				"%s of a job can't be changed: cancel it, and submit another one",
				fixed[i]);
	}
	return 0;
}

/* Members of a job with nodes that can be changed. */
static int check_running_change(const json_t *changes, struct err *err)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)changes, name, value) {
		if (strcmp(name, "time_limit_min") != 0 && strcmp(name, "nodelist") != 0 &&
			strcmp(name, "requeue") != 0 && strcmp(name, "comment") != 0 &&
			strcmp(name, "name") != 0)
			return err_set_text(err, -EINVAL,
				"%.60s can only be changed while the job is pending", name);
	}
	return 0;
}

/* The request with the members of changes in place of its own. What can't be changed is shared. */
static int merge_request(const struct job *job, const json_t *changes,
	struct job_request *ret_request, struct err *err)
{
	struct job_request view = job->request;
	json_t *json;
	int r;

	view.script = NULL;
	view.argv = view.env = NULL;
	json = request_to_json(&view);
	r = json ? json_object_update(json, (json_t *)changes) : -1;
	/* a running job gives up nodes; what it needs where it is queued again is as before */
	if (r == 0 && !job_is_pending(job))
		r = view.nodelist
			? json_object_set_new(json, "nodelist", json_string(view.nodelist))
			: (json_object_del(json, "nodelist"), 0);
	if (r < 0) {
		json_decref(json);
		return err_set(err, -ENOMEM, "change job %u", job->record.job_id);
	}
	r = request_from_json(json, ret_request, err);
	json_decref(json);
	if (r < 0)
		return r;
	r = request_check_texts(ret_request, err);
	if (r < 0) {
		request_clear(ret_request);
		return r;
	}
	if (request_share(ret_request) < 0) {
		request_clear(ret_request);
		return err_set(err, -ENOMEM, "change job %u", job->record.job_id);
	}
	request_take_payload(ret_request, &job->request);
	return 0;
}

static int check_rights(const struct job *job, const struct job_request *q, struct err *err)
{
	uint32_t limit = q->time_limit_min == NO_VAL ? job->record.time_limit : q->time_limit_min;

	if (limit > job->record.time_limit)
		return err_set_text(err, -EPERM,
			"only root can raise a time limit: it is %u minutes",
			job->record.time_limit);
	if (q->priority != NO_VAL && q->priority > job->record.priority)
		return err_set_text(err, -EPERM, "only root can raise a priority: it is %u",
			job->record.priority);
	return 0;
}

/* group: of its new name, taken if it returns 0. */
static int update_pending(struct engine *e, struct job *job, struct job_request *q,
	struct namesakes *group, bool by_admin, struct err *err)
{
	struct job_request before = job->request;
	int r;

	queue_take_out(e, job);
	job->request = *q;
	r = job_apply_request(e, job, by_admin, err);
	if (r < 0) {
		job->request = before;
		queue_place(e, job);
		return r;
	}
	request_clear(&before);
	request_init(q);
	if (job->request.priority != NO_VAL && job->record.priority != 0)
		job->record.priority = job->request.priority;
	namesakes_move(e, job, group);
	queue_place(e, job);
	return 0;
}

/* Of the nodes that a job had, those that it has no more: its processes there are to end, and until
 * then nobody else gets them. */
static void leave_nodes(struct engine *e, struct job *job, const bitstr_t *before)
{
	const struct engine_runner *runner = e->options.runner;
	bitstr_t *left = bit_copy(before);
	bitoff_t i = 0;

	bit_and_not(left, job->record.node_bitmap);
	for (; (i = bit_ffs_from_bit(left, i)) >= 0; i++) {
		if (!job->launched || !runner->leave ||
			!runner->leave(job, (uint32_t)i, e->options.runner_data))
			bit_clear(left, i);
	}
	nodes_begin_completing(e, left);
	if (job->leaving_nodes)
		bit_or(job->leaving_nodes, left);
	else if (bit_ffs(left) >= 0)
		job->leaving_nodes = bit_copy(left);
	bit_free(left);
}

static int parse_kept_nodes(
	const struct job *job, const char *text, bitstr_t **ret_keep, struct err *err)
{
	bitstr_t *keep = NULL;

	if (nodes_parse(text, &keep) < 0 || !bit_super_set(keep, job->record.node_bitmap) ||
		bit_set_count(keep) == 0) {
		bit_free(keep);
		return err_set_text(err, -EINVAL,
			"nodelist=%.200s: it must be some of the job's nodes, which are %s", text,
			job->record.nodes);
	}
	if (job->request.script && !bit_test(keep, job->batch_node)) {
		bit_free(keep);
		return err_set_text(err, -EINVAL,
			"nodelist=%.200s: the job's script is on node %s, which it can't give up",
			text, node_record_table_ptr[job->batch_node].name);
	}
	*ret_keep = keep;
	return 0;
}

static int drop_nodes(struct engine *e, struct job *job, const char *text, struct err *err)
{
	bitstr_t *keep = NULL, *before;
	bitoff_t i = 0;
	int r = parse_kept_nodes(job, text, &keep, err);

	if (r < 0)
		return r;
	before = bit_copy(job->record.node_bitmap);
	nodes_remove_job(e, job);
	for (; r == 0 && (i = bit_ffs_from_bit(before, i)) >= 0; i++) {
		if (!bit_test(keep, i))
			r = select_job_resized(
				e->select, &job->record, &node_record_table_ptr[i], err);
	}
	job_give(job);
	nodes_add_job(e, job);
	leave_nodes(e, job, before);
	bit_free(before);
	bit_free(keep);
	engine_want_pass(e);
	return r;
}

/* The end of a grace time is not the user's to move: a new limit only counts there if it is sooner.
 */
static void set_time_limit(struct engine *e, struct job *job, uint32_t limit_min)
{
	job_record_t *r = &job->record;
	time_t end;

	r->time_limit = limit_min;
	end = r->start_time + r->tot_sus_time + job_duration(job);
	if (!job->preempted || end < r->end_time)
		r->end_time = end;
	if (!job->preempted && r->end_time - (time_t)job->warning.before_s > engine_now(e))
		job->warned = false; /* that was of another end */
	if (r->job_state == JOB_RUNNING || job->preempted)
		job_set_limit_timer(e, job);
}

/* Likewise. */
static int update_running(struct engine *e, struct job *job, struct job_request *q,
	struct namesakes *group, const json_t *changes, struct err *err)
{
	const char *nodes = json_get_text(changes, "nodelist", NULL);
	int r = check_running_change(changes, err);

	if (r == 0 && nodes)
		r = drop_nodes(e, job, nodes, err);
	if (r < 0)
		return r;
	if (json_object_get(changes, "time_limit_min"))
		set_time_limit(e, job, q->time_limit_min);
	if (json_object_get(changes, "requeue"))
		job->may_requeue = q->requeue > 0;
	request_clear(&job->request);
	job->request = *q;
	request_init(q);
	job->record.name = job_request_name(&job->request);
	namesakes_move(e, job, group);
	job->record.qos = job->request.qos;
	job->details.features = job->request.features;
	return 0;
}

int engine_update_job(
	struct engine *e, struct job *job, const json_t *changes, bool by_admin, struct err *err)
{
	struct namesakes *group = NULL;
	struct job_request q;
	int r;

	if (job_has_ended(job) || job_is_completing(job))
		return err_set_text(err, -EINVAL, "job %u has ended", job->record.job_id);
	r = check_change(changes, err);
	if (r == 0)
		r = merge_request(job, changes, &q, err);
	if (r < 0)
		return r;
	group = namesakes_get(e, job->record.user_id, job_request_name(&q));
	if (!group)
		r = err_set(err, -ENOMEM, "change job %u", job->record.job_id);
	if (r == 0 && !by_admin)
		r = check_rights(job, &q, err);
	if (r == 0)
		r = job_is_pending(job) ? update_pending(e, job, &q, group, by_admin, err)
					: update_running(e, job, &q, group, changes, err);
	request_clear(&q);
	if (r < 0) {
		namesakes_put(e, group);
		return r;
	}
	e->waiting_changed = true; /* those with its old name */
	engine_want_pass(e);
	job_changed(e, job);
	return 0;
}

int engine_expand(struct engine *e, struct job *from, struct job *to, struct err *err)
{
	int r;

	if (from->het || to->het)
		return err_set_text(err, -EINVAL,
			"job %u can't be given what job %u has: one of them is heterogeneous",
			to->record.job_id, from->record.job_id);
	if (from == to || !job_has_nodes(from) || !job_has_nodes(to) ||
		from->record.part_ptr != to->record.part_ptr ||
		from->record.user_id != to->record.user_id)
		return err_set_text(err, -EINVAL,
			"job %u can't be given what job %u has: both must run, and have the same "
			"user and partition",
			to->record.job_id, from->record.job_id);
	if (to->leaving_nodes && bit_overlap_any(to->leaving_nodes, from->record.node_bitmap))
		return err_set_text(err, -EBUSY,
			"job %u can't be given what job %u has: its own processes are still ending "
			"there; try again",
			to->record.job_id, from->record.job_id);
	nodes_remove_job(e, from);
	nodes_remove_job(e, to);
	r = select_job_expand(e->select, &from->record, &to->record, err);
	if (r < 0) {
		nodes_add_job(e, from);
		nodes_add_job(e, to);
		return r;
	}
	/* where its processes are until they have ended stays in the other's node_bitmap */
	job_give(to);
	nodes_add_job(e, to);
	job_changed(e, to);
	job_terminate(e, from, JOB_CANCELLED);
	if (to->launched && e->options.runner->grow)
		e->options.runner->grow(to, e->options.runner_data);
	return 0;
}

/* ---- the configuration --------------------------------------------------------------------------
 */

static bool same_reason(const struct conf_node *a, const struct conf_node *b)
{
	return a->reason && b->reason ? strcmp(a->reason, b->reason) == 0 : a->reason == b->reason;
}

/* Nodes retain their states, but for those that differ between the old conf and the new one. */
static void apply_node_states(struct engine *e, const struct conf *now)
{
	struct err err = ERR_INIT;
	size_t i;

	for (i = 0; i < now->nodes_count; i++) {
		const struct conf_node *node = &now->nodes[i];
		uint32_t was = e->conf->nodes[i].state;

		if (node->state == was && same_reason(&e->conf->nodes[i], node))
			continue;
		if (engine_update_nodes(e, node->name,
			    (node->state & NODE_STATE_BASE) == NODE_STATE_DOWN ? NODE_CHANGE_DOWN
				    : node->state & NODE_STATE_DRAIN           ? NODE_CHANGE_DRAIN
									       : NODE_CHANGE_RESUME,
			    node->reason ? node->reason : "configured so", e->options.uid,
			    &err) < 0)
			log_error(e->log, "%s", err.text);
	}
}

/* Jobs and records point to names of the old configuration; and a partition may have become
 * EXCLUSIVE, or is it no more. */
static void move_records(struct engine *e)
{
	size_t i;

	for (i = 0; i < e->conf->nodes_count; i++) {
		node_record_table_ptr[i].name = e->conf->nodes[i].name;
		node_record_table_ptr[i].features = e->conf->nodes[i].features;
		node_record_table_ptr[i].weight = e->conf->nodes[i].weight;
	}
	for (i = 0; i < e->jobs_count; i++) {
		job_record_t *job = e->jobs[i] ? &e->jobs[i]->record : NULL;

		if (!job)
			continue;
		job->partition = job->part_ptr->name;
		job->qos_ptr = engine_find_qos(e, job->qos); /* NULL: there is none any more */
		job->details->whole_node =
			e->jobs[i]->request.exclusive || job->part_ptr->max_share == 0;
	}
}

int engine_reconfigure(
	struct engine *e, struct conf *conf, char **ret_needs_restart, struct err *err)
{
	struct conf *old = e->conf;
	struct err plugin_err = ERR_INIT;
	qos_record_t *qos = NULL;
	char *restarts = NULL;
	int r;

	*ret_needs_restart = NULL;
	if (e->node_order && conf->nodes_count == old->nodes_count &&
		conf_order_nodes(conf, e->node_order) < 0)
		return err_set(err, -ENOMEM, "take the configuration");
	if (engine_make_qos(conf, &qos) < 0)
		return err_set(err, -ENOMEM, "take the configuration");
	r = conf_keep(old, conf, &restarts, err);
	if (r < 0) {
		free(qos);
		return r;
	}
	apply_node_states(e, conf);
	e->conf = conf;
	free(e->qos);
	e->qos = qos;
	engine_fill_parts(e);
	move_records(e);
	(void)conf_free(old);
	/* conf is the engine's already: a plugin's failure changes nothing of that */
	if (select_reconfigure(e->select, &plugin_err) < 0)
		log_error(e->log, "%s", plugin_err.text);
	nodes_count_alone(e);
	e->gang_changed = true; /* a tier may be another one */
	engine_want_pass(e);
	*ret_needs_restart = restarts;
	return 0;
}
