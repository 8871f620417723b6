/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/store/engine_store.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stepd/base/buffer.h"
#include "stepd/base/json.h"

/* ---- transactions -------------------------------------------------------------------------------
 */

static int on_begin(void *userdata, struct err *err)
{
	struct engine_store_data *data = userdata;
	int r;

	assert(data);
	r = store_begin(data->store, err);
	data->in_group = r == 0;
	return r;
}

static int on_commit(void *userdata, struct err *err)
{
	struct engine_store_data *data = userdata;

	assert(data);
	data->in_group = false;
	return store_commit(data->store, err);
}

static void on_rollback(void *userdata)
{
	struct engine_store_data *data = userdata;

	assert(data);
	data->in_group = false;
	store_rollback(data->store);
}

/* ---- changes that could not be written ----------------------------------------------------------
 * What is within a transaction is refused as a whole, and has not happened. Without memory to
 * remember it, it is as if the process had been killed before. */

static void remember_job(struct engine_store_data *data, uint32_t job_id)
{
	size_t i;

	for (i = 0; i < data->unsaved_jobs_count && data->unsaved_jobs[i] != job_id; i++)
		;
	if (data->in_group || i < data->unsaved_jobs_count ||
		array_reserve(data->unsaved_jobs, data->unsaved_jobs_capacity,
			data->unsaved_jobs_count + 1) < 0)
		return;
	data->unsaved_jobs[data->unsaved_jobs_count++] = job_id;
}

static void remember_name(struct engine_store_data *data, struct strv *names, const char *name)
{
	if (data->in_group || strv_index((const char *const *)names->v, names->n, name) >= 0 ||
		strv_add(names, name) < 0)
		return;
}

/* ---- changes ------------------------------------------------------------------------------------
 */

/* NULL: no memory. */
static json_t *make_document(
	const struct engine *e, const struct job *job, const struct job_request *request)
{
	json_t *document = job_to_stored_json(e, job);

	if (document && json_object_set_new(document, "request", request_to_json(request)) == 0)
		return document;
	json_decref(document);
	return NULL;
}

static int save_job(const struct engine_store_data *data, const struct job *job, struct err *err)
{
	struct job_request request = job->request; /* a view of it */
	json_auto_t *document = NULL, *whole = NULL;
	int r;

	/* what is large, and there since it was submitted */
	request.script = NULL;
	request.argv = NULL;
	request.env = NULL;
	document = make_document(data->engine, job, &request);
	if (!document)
		return err_set(err, -ENOMEM, "keep job %u", job->record.job_id);
	r = store_change_job(data->store, job->record.job_id, document, err);
	if (r != -ENOENT)
		return r;
	whole = make_document(data->engine, job, &job->request);
	if (!whole)
		return err_set(err, -ENOMEM, "keep job %u", job->record.job_id);
	return store_save_job(data->store, job->record.job_id, whole, err);
}

static int save_node(
	const struct engine_store_data *data, const node_record_t *node, struct err *err)
{
	json_auto_t *document = node_to_stored_json(data->engine, node);

	if (!document)
		return err_set(err, -ENOMEM, "keep node '%s'", node->name);
	return store_save_node(data->store, node->name, document, err);
}

static int on_job_changed(const struct job *job, void *userdata, struct err *err)
{
	struct engine_store_data *data = userdata;
	int r;

	assert(data && data->engine);
	r = save_job(data, job, err);
	if (r < 0)
		remember_job(data, job->record.job_id);
	return r;
}

static int on_job_forgotten(uint32_t job_id, void *userdata, struct err *err)
{
	struct engine_store_data *data = userdata;
	int r;

	assert(data);
	r = store_forget_job(data->store, job_id, err);
	if (r < 0)
		remember_job(data, job_id);
	return r;
}

static int on_node_changed(const node_record_t *node, void *userdata, struct err *err)
{
	struct engine_store_data *data = userdata;
	int r;

	assert(data && data->engine);
	r = save_node(data, node, err);
	if (r < 0)
		remember_name(data, &data->unsaved_nodes, node->name);
	return r;
}

static int on_reservation_changed(
	const char *name, const json_t *json, void *userdata, struct err *err)
{
	struct engine_store_data *data = userdata;
	int r;

	assert(data);
	r = store_save_reservation(data->store, name, json, err);
	if (r < 0)
		remember_name(data, &data->unsaved_reservations, name);
	return r;
}

/* ---- once more ----------------------------------------------------------------------------------
 */

static int retry_jobs(struct engine_store_data *data, struct err *err)
{
	int r = 0;

	while (r == 0 && data->unsaved_jobs_count > 0) {
		const uint32_t id = data->unsaved_jobs[data->unsaved_jobs_count - 1];
		const struct job *job = engine_find_job(data->engine, id);

		r = job ? save_job(data, job, err) : store_forget_job(data->store, id, err);
		if (r == 0)
			data->unsaved_jobs_count--;
	}
	return r;
}

static int retry_nodes(struct engine_store_data *data, struct err *err)
{
	int i, r = 0;

	for (i = 0; r == 0 && data->unsaved_nodes.n > 0 && i < node_record_count; i++) {
		const node_record_t *node = &node_record_table_ptr[i];

		if (strv_index((const char *const *)data->unsaved_nodes.v, data->unsaved_nodes.n,
			    node->name) >= 0)
			r = save_node(data, node, err);
	}
	if (r == 0)
		strv_clear(&data->unsaved_nodes);
	return r;
}

static int retry_reservations(struct engine_store_data *data, struct err *err)
{
	json_auto_t *all =
		data->unsaved_reservations.n ? engine_reservations_to_json(data->engine) : NULL;
	size_t i, k;
	int r = 0;

	for (i = 0; r == 0 && i < data->unsaved_reservations.n; i++) {
		const char *name = data->unsaved_reservations.v[i];
		const json_t *one = NULL; /* it is gone */

		for (k = 0; k < json_array_size(all); k++) {
			if (strcmp(json_get_text(json_array_get(all, k), "name", ""), name) == 0)
				one = json_array_get(all, k);
		}
		r = store_save_reservation(data->store, name, one, err);
	}
	if (r == 0)
		strv_clear(&data->unsaved_reservations);
	return r;
}

int engine_store_retry(struct engine_store_data *data, struct err *err)
{
	const bool any =
		data->unsaved_jobs_count + data->unsaved_nodes.n + data->unsaved_reservations.n > 0;
	int r = retry_jobs(data, err);

	if (r == 0)
		r = retry_nodes(data, err);
	if (r == 0)
		r = retry_reservations(data, err);
	return r < 0 ? r : any;
}

void engine_store_forget_later(struct engine_store_data *data, uint32_t job_id)
{
	remember_job(data, job_id);
}

void engine_store_clear(struct engine_store_data *data)
{
	strv_clear(&data->unsaved_nodes);
	strv_clear(&data->unsaved_reservations);
	free(data->unsaved_jobs);
	data->unsaved_jobs = NULL;
	data->unsaved_jobs_count = data->unsaved_jobs_capacity = 0;
}

const struct engine_store engine_store_functions = {
	.begin = on_begin,
	.commit = on_commit,
	.rollback = on_rollback,
	.job_changed = on_job_changed,
	.job_forgotten = on_job_forgotten,
	.node_changed = on_node_changed,
	.reservation_changed = on_reservation_changed,
};
