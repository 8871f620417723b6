/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The store's functions for the engine. Documents are those of job_to_stored_json(), with the
 * request as member "request", and of node_to_stored_json(): engine_restore_job() and _node() read
 * them.
 */
#ifndef JOBD_STORE_ENGINE_STORE_H
#define JOBD_STORE_ENGINE_STORE_H

#include "contrib/jobd/engine/engine.h"
#include "contrib/jobd/store/store.h"
#include "stepd/base/strv.h"

/* engine_options.store_data, owned by the caller: set store and engine after engine_new(), before
 * anything is submitted. The engine begins its own transactions: none may be open when it is
 * called. */
struct engine_store_data {
	struct store *store;
	struct engine *engine;
	bool in_group;
	struct strv unsaved_nodes, unsaved_reservations; /* by name */
	uint32_t *unsaved_jobs;
	size_t unsaved_jobs_count, unsaved_jobs_capacity;
};

/* Retries changes that could not be written, because the disk was full: they are not lost as long
 * as this process lives. 1: all are written; 0: there were none. */
int engine_store_retry(struct engine_store_data *data, struct err *err) _must_check_;
/* Notes a job of the store that the engine does not have. */
void engine_store_forget_later(struct engine_store_data *data, uint32_t job_id);
void engine_store_clear(struct engine_store_data *data);

/* engine_options.store */
extern const struct engine_store engine_store_functions;

#endif
