/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How a fork of the agent becomes an MPI service process.
 */
#ifndef MPI_SERVICE_PROCESS_H
#define MPI_SERVICE_PROCESS_H

#include "mpi/service.h"

struct service_process {
	stepd_mpi_service_t service;
	stepd_mpi_service_fn main;
	const struct mpi_service_options *options;
};

/* In the fork, with all signals blocked: gives up what is the agent's, takes on the identity and
 * runs main. Ends the process with main's status, or with 1 and a word over the link. */
_noreturn_ void service_process_run(const struct service_process *p);

#endif
