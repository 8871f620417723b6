/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/store/engine_store.h"

#include <assert.h>
#include <errno.h>

#include "stepd/base/cleanup.h"

static int on_begin(void *userdata, struct err *err)
{
	const struct engine_store_data *data = userdata;

	assert(data);
	return store_begin(data->store, err);
}

static int on_commit(void *userdata, struct err *err)
{
	const struct engine_store_data *data = userdata;

	assert(data);
	return store_commit(data->store, err);
}

static void on_rollback(void *userdata)
{
	const struct engine_store_data *data = userdata;

	assert(data);
	store_rollback(data->store);
}

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

static int on_job_changed(const struct job *job, void *userdata, struct err *err)
{
	const struct engine_store_data *data = userdata;
	struct job_request request = job->request; /* a view of it */
	json_auto_t *document = NULL, *whole = NULL;
	int r;

	assert(data && data->engine);
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

static int on_job_forgotten(uint32_t job_id, void *userdata, struct err *err)
{
	const struct engine_store_data *data = userdata;

	assert(data);
	return store_forget_job(data->store, job_id, err);
}

static int on_node_changed(const node_record_t *node, void *userdata, struct err *err)
{
	const struct engine_store_data *data = userdata;
	json_auto_t *document = NULL;

	assert(data && data->engine);
	document = node_to_json(data->engine, node);
	if (!document)
		return err_set(err, -ENOMEM, "keep node '%s'", node->name);
	return store_save_node(data->store, node->name, document, err);
}

static int on_reservation_changed(
	const char *name, const json_t *json, void *userdata, struct err *err)
{
	const struct engine_store_data *data = userdata;

	assert(data);
	return store_save_reservation(data->store, name, json, err);
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
