/* SPDX-License-Identifier: BSD-3-Clause
 *
 * --bootstrap=pmi: an agent that an engine (srun --mpi=pmi2, mpiexec.hydra -ppn 1, flux run) has
 * started once a node gets from the engine's own PMI which node of how many it is. It listens,
 * gives the others its name and address, learns theirs and the step's ids and secret, and puts all
 * that into the step's document; then it has finalized the engine's PMI, before any task runs.
 */
#ifndef STEPD_CLI_BOOTSTRAP_H
#define STEPD_CLI_BOOTSTRAP_H

#include <stdint.h>

#include "stepd/base/err.h"

struct json_t;

/* how: "pmi" or "pmi1", or "pmi2". The descriptors that doc names from then on are open. */
int bootstrap_fill(
	const char *how, char *const *env, struct json_t *doc, struct err *err) _must_check_;

/* One node's part of the exchange. Texts are borrowed. For tests. */
struct bootstrap_card {
	const char *version; /* of the program */
	const char *name, *address, *secret;
	uint32_t job, step, local_ntasks;
};

/* Reads the card of another agent, whose text is modified. -EPROTO with a sentence: it is
 * invalid. */
int bootstrap_read_card(char *text, struct bootstrap_card *ret_card, struct err *err) _must_check_;

#endif
