/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The status of an abort, for srun, which exits with it: a number at the port that Slurm's mpi/pmix
 * has there, which srun sends back. It is tried once, for 5 seconds; nothing waits.
 */
#ifndef SLURM_SRUN_ABORT_H
#define SLURM_SRUN_ABORT_H

#include <netinet/in.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"

struct ev_loop;
struct srun_abort;

/* done() comes once, from the loop, whether srun has it or not; the abort is gone then. 0 or
 * -errno.
 */
int srun_abort_begin(struct ev_loop *loop, const struct sockaddr_in *address, uint32_t status,
	void (*done)(void *userdata), void *userdata, struct srun_abort **ret_abort) _must_check_;

/* Without a call of done(). NULL is fine. Returns NULL. */
struct srun_abort *srun_abort_cancel(struct srun_abort *abort);

#endif
