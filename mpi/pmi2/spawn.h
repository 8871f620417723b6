/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spawn, in the words of either protocol: a draft is filled command by command and then handed to
 * all nodes.
 */
#ifndef MPI_PMI2_SPAWN_H
#define MPI_PMI2_SPAWN_H

#include "mpi/pmi2/pmi_impl.h"
#include "stepd/base/strv.h"

#define SPAWN_TASKS_MAX 1048576

struct draft_command {
	struct strv argv, hosts;
	uint32_t count;
	char *cwd;
	char *path; /* where to look for the program */
};

struct draft {
	struct draft_command *commands;
	size_t count;
	struct bytes preput; /* as kvs_list_add() writes it */
};

/* The new command, or NULL for want of memory. */
struct draft_command *draft_add(struct draft *d);
/* What is not known here is ignored, as MPI wants it. 0, -ENOMEM, or -EINVAL for a bad value. */
int draft_add_info(struct draft_command *c, struct slice key, struct slice value) _must_check_;
int draft_add_arg(struct draft_command *c, struct slice arg) _must_check_;
int draft_preput(struct draft *d, struct slice key, struct slice value) _must_check_;
void draft_clear(struct draft *d);
#define _cleanup_draft_ _cleanup_(draft_clear)

/* Begins it; the ask is answered at its end. 0 or -ENOMEM. */
int draft_start(struct draft *d, const struct ask *ask) _must_check_;

int spawn2_run(struct ask *ask, const struct pmi_message *m);

#endif
