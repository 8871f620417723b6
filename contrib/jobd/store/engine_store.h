/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The store as the engine calls it. Documents are those of job_to_stored_json(), with the request
 * as member "request", and of node_to_json(): engine_restore_job() and _node() take them.
 */
#ifndef JOBD_STORE_ENGINE_STORE_H
#define JOBD_STORE_ENGINE_STORE_H

#include "contrib/jobd/engine/engine.h"
#include "contrib/jobd/store/store.h"

/* engine_options.store_data, the caller's: engine is set once engine_new() has returned, before
 * anything is submitted. The engine has transactions of its own: none is open when it is called. */
struct engine_store_data {
	struct store *store;
	const struct engine *engine;
};

/* engine_options.store */
extern const struct engine_store engine_store_functions;

#endif
