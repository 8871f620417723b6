/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A decoded launch message as a step's document, stepd-spec(5).
 */
#ifndef SLURM_STEP_SPEC_H
#define SLURM_STEP_SPEC_H

#include "contrib/slurm/fifos.h"
#include "contrib/slurm/init.h"
#include "contrib/slurm/launch.h"

struct json_t;
struct pmix_settings;
struct site_conf;
struct slurm_init;
struct strv;

struct step_spec_input {
	const struct slurm_node_conf *node;
	const struct slurm_launch *launch;
	const struct site_conf *site;
	const struct slurm_init *init; /* for its limits and devices; NULL: it has none */
	uint32_t node_id;
	const uint32_t *ranks; /* of this node's tasks, in the whole step: slurm_whole_ranks() */
	const uint32_t *groups;
	uint32_t ntasks, groups_count;
	const struct fifos *fifos;
	const struct json_t *tasks; /* of "--multi-prog"; NULL: all run the same */
	bool has_terminal;
	const char *pmi_manager; /* step_spec_is_managed(): the socket's path; NULL: it is not */
	const char *pmix_nspace; /* with it, of PMIx: the name of its ranks; NULL: it has none */
	const struct pmix_settings *pmix; /* of a step with PMIx; NULL: it is none */
	const char *cwd;                  /* the one that the user can enter */
	const char *program;              /* where it was found; NULL: as it is given */
	const struct strv *before;        /* arguments before those of the program; NULL: none */
	const char *task_program;         /* which the first one of them is, if there are any */
};

/* Which of the streams are srun's, by a FIFO of each task: none with --pty. */
void step_spec_uses(const struct slurm_launch *launch, bool ret_uses[static FIFO_KIND_MAX]);

/* "srun --input=N": the one rank that has srun's standard input, the others /dev/null. */
bool step_spec_find_input(const struct slurm_launch *launch, uint32_t *ret_rank);

/* Whether the step has a terminal, that of rank 0, instead of all streams. */
bool step_spec_wants_terminal(const struct slurm_launch *launch);

/* Whether its MPI goes over the step's nodes as Slurm's does: pmi_tree.h, pmix_nodes.h. */
bool step_spec_is_managed(const struct slurm_launch *launch, const struct site_conf *site);

/* How many nodes may be srun's neighbours there, and each other's: pmi_gather.h. */
uint32_t step_spec_tree_width(const struct slurm_launch *launch, const struct site_conf *site);
/* Whether its MPI is PMIx. */
bool step_spec_has_pmix(const struct slurm_launch *launch, const struct site_conf *site);

/* Whether a file's name has only such patterns as mean the same to the agent. */
bool step_spec_knows_pattern(
	const struct slurm_launch *launch, const struct site_conf *site, const char *name);

/* Of an extern step: it has no tasks, and ends by TERM and, a second later, KILL. */
int step_spec_make_extern(
	const struct step_spec_input *input, struct json_t **ret_doc, struct err *err) _must_check_;

/* A new reference. -EILSEQ: a text is not UTF-8, which a document can't hold. */
int step_spec_make(
	const struct step_spec_input *input, struct json_t **ret_doc, struct err *err) _must_check_;

/* What all kinds of steps have: whom they run as, the environment, limits, the mask. 0 or -errno.
 */
int step_spec_set_shared(struct json_t *doc, const struct step_spec_input *input) _must_check_;

/* The plugin of stepd that serves an MPI of Slurm's by that name, NULL for the default of Slurm;
 * NULL: none does. */
const char *step_spec_find_mpi(const char *type);

/* Of each task, as slurmstepd limits it; 0: there is no limit. The second one is the address space
 * by VSizeFactor. */
uint64_t step_spec_memory_bytes(const struct slurm_launch *launch);
uint64_t step_spec_virtual_bytes(const struct slurm_launch *launch, const struct site_conf *site);

/* The value of a variable of the message's environment, borrowed; NULL: it has none. */
const char *step_spec_getenv(const struct slurm_launch *launch, const char *name);

#endif
