/* SPDX-License-Identifier: BSD-3-Clause
 *
 * This node's part of a step that this process serves, from slurmd's init to the
 * confirmation of its end, by slurmctld or a node above: one thread, one loop.
 *
 *	prepared, all that may still fail without a trace: the credential, the spec, the streams,
 *	the socket in slurmd's spool directory
 *	-> slurmd has its answer -> srun's streams -> the agent, a process of its own, "stepd serve"
 *	-> srun knows the tasks' pids -> and their ends, as they come
 *	-> the agent has ended -> srun has all output -> the nodes below have reported the end
 *	-> slurmctld, or the node above, knows it
 *
 * A batch script has no srun (batch.h), and an extern step no tasks either: its agent holds the
 * processes that others have it add. slurmd starts the job's other steps when it has the answer for
 * that one, so it gets it when the agent runs.
 *
 * The agent that is killed is succeeded by one that ends its tasks. If this process is killed the
 * agent ends the step.
 */
#ifndef SLURM_SERVED_H
#define SLURM_SERVED_H

#include "contrib/slurm/decision.h"

struct served;

/* init is borrowed, as are the bytes that it was decoded from. On failure there is nothing left,
 * and the step can be handed over. */
int served_prepare(const struct slurm_init *init, const struct log *log, struct served **ret_served,
	struct err *err) _must_check_;

/* Returns when the step is over and reported: the exit status of this process. -ECANCELED: it could
 * not be started, and slurmd has no answer: it can still be handed over. */
int served_run(struct served *served);

/* NULL is fine. Returns NULL. */
struct served *served_free(struct served *served);
DEFINE_CLEANUP(struct served *, served_free);

#endif
