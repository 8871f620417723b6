/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The end of a spawn, told to who asked for it.
 */
#ifndef MPI_PMI2_SPAWN_ANSWER_H
#define MPI_PMI2_SPAWN_ANSWER_H

#include "mpi/pmi2/pmi_impl.h"

struct spawning {
	struct ask ask;
	uint32_t size; /* tasks asked for */
};

void spawn_answer(struct spawning *s, int r, uint32_t number, uint32_t size, const int *errcodes,
	const struct err *err);

#endif
