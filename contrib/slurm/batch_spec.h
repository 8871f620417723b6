/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The launch message of a batch script as a step's document, stepd-spec(5): its environment, which
 * is whole, as slurmstepd makes it, and the names of its files.
 */
#ifndef SLURM_BATCH_SPEC_H
#define SLURM_BATCH_SPEC_H

#include "contrib/slurm/step_spec.h"
#include "stepd/base/err.h"

/* The script's standard streams: absolute paths. */
struct batch_files {
	char *path[3]; /* NULL: /dev/null for input, and the output's file for errors */
};

void batch_files_clear(struct batch_files *files);
#define _cleanup_batch_files_ _cleanup_(batch_files_clear)

/* Whether a file's name has only patterns that are known: %A, %a, %J, %j, %N, %n, %s, %t, %u, %x
 * and %%. */
bool batch_knows_pattern(const char *name);

/* -EINVAL: a name leads to what only this process could open. */
int batch_expand_files(const struct slurm_launch *launch, const struct slurm_node_conf *node,
	struct batch_files *ret_files, struct err *err) _must_check_;

/* The tasks of each node that "srun" would start in the job, each in tasks, n of them, for
 * SLURM_TASKS_PER_NODE. capacity: how many each node has processors for, at least 1. packs: a node
 * is filled before the next one gets more than one. */
void batch_lay_out(
	const uint32_t *capacity, uint32_t *tasks, uint32_t n, uint32_t total, bool packs);

/* A new reference. script: the path of the copy that is executed. -EILSEQ: a text is not UTF-8. */
int batch_spec_make(const struct step_spec_input *input, const struct batch_files *files,
	const char *script, struct json_t **ret_doc, struct err *err) _must_check_;

#endif
