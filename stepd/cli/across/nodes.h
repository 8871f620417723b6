/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The nodes of a step and its launcher: from the options, and in an allocation of Slurm from its
 * variables.
 */
#ifndef STEPD_CLI_ACROSS_NODES_H
#define STEPD_CLI_ACROSS_NODES_H

#include "stepd/cli/across/options.h"

struct nodes_found {
	uint32_t count;
	uint32_t ntasks;    /* of the allocation; 0: not known */
	uint32_t *cpus;     /* of each node in the allocation; NULL: not known */
	uint32_t *on_nodes; /* with LAYOUT_ARBITRARY: the node of each rank */
	uint32_t on_nodes_count;
};

/* Fills in options' launcher, here and nodes. */
int nodes_find(struct steprun_options *options, enum layout_kind kind, char **environment,
	struct nodes_found *ret_found, struct err *err) _must_check_;

void nodes_found_clear(struct nodes_found *found);

#endif
