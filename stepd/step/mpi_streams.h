/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tasks' streams for the MPI service process, which has them for tools (mpi/link.h), by
 * stdio's copies and inputs. It is the user's process: what it requests is checked here.
 */
#ifndef STEPD_STEP_MPI_STREAMS_H
#define STEPD_STEP_MPI_STREAMS_H

#include "stepd/base/err.h"

struct agent;
struct json_t;

/* The messages "copy" and "input". */
void mpi_streams_take_copy(struct agent *a, const struct json_t *object);
void mpi_streams_take_input(struct agent *a, const struct json_t *object);

/* These streams (enum link_stream) of the tasks that are about to join are copied from their first
 * byte, if they pass through the agent at all. */
int mpi_streams_join(struct agent *a, unsigned copy, struct err *err) _must_check_;

/* The program goes on with a step: so does what waits. */
void mpi_streams_restored(struct agent *a);

/* The service is gone. */
void mpi_streams_stop(struct agent *a);

#endif
