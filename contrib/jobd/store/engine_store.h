/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The store as the engine calls it. Documents are those of job_to_stored_json(), with the request
 * as member "request", and of node_to_stored_json(): engine_restore_job() and _node() take them.
 */
#ifndef JOBD_STORE_ENGINE_STORE_H
#define JOBD_STORE_ENGINE_STORE_H

#include "contrib/jobd/engine/engine.h"
#include "contrib/jobd/store/store.h"
#include "stepd/base/strv.h"

/* engine_options.store_data, the caller's: store and engine are set once engine_new() has returned,
 * before anything is submitted. The engine has transactions of its own: none is open when it is
 * called. */
struct engine_store_data {
	struct store *store;
	struct engine *engine;
	bool in_group;
	struct strv unsaved_nodes, unsaved_reservations; /* by name */
	uint32_t *unsaved_jobs;
	size_t unsaved_jobs_count, unsaved_jobs_capacity;
};

/* A change that the store could not take, because its disk was full, is not lost as long as this
 * process lives: this tries again, all that has changed since. 1: it is written; 0: there was
 * nothing. */
int engine_store_retry(struct engine_store_data *data, struct err *err) _must_check_;
/* A job that the store has and the engine has not. */
void engine_store_forget_later(struct engine_store_data *data, uint32_t job_id);
void engine_store_clear(struct engine_store_data *data);

/* engine_options.store */
extern const struct engine_store engine_store_functions;

#endif
