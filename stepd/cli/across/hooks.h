/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The MPI plugin's two hooks in the client: one before anything is launched, which may change the
 * tasks' environment, and one after all tasks have ended.
 */
#ifndef STEPD_CLI_ACROSS_HOOKS_H
#define STEPD_CLI_ACROSS_HOOKS_H

#include "stepd/api/mpi.h"
#include "stepd/base/err.h"

struct json_t;
struct mpi;

struct hooks {
	struct mpi *mpi;
	mpi_plugin_client_state_t *state;
};

/* doc is the step's document, with job; the plugin is that of its "mpi". */
int hooks_prelaunch(const char *plugin_dir, struct json_t *doc, uint32_t nnodes, uint32_t ntasks,
	struct hooks *ret_hooks, struct err *err) _must_check_;

/* Once, and only where the other one has succeeded. */
int hooks_fini(struct hooks *hooks, struct err *err) _must_check_;

/* Calls nothing. */
void hooks_clear(struct hooks *hooks);

#endif
