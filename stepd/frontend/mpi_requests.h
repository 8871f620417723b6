/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The frontend of the MPI service process: its requests over the link (mpi/link.h), which are the
 * step's owner's. What is an operation is called as one; the tasks that it spawns and the copies of
 * streams that it takes are its own alone, and answered with descriptors.
 */
#ifndef STEPD_FRONTEND_MPI_REQUESTS_H
#define STEPD_FRONTEND_MPI_REQUESTS_H

#include <stdbool.h>

struct json_t;
struct operations;

/* Takes the request of that name, and answers it over the link, now or later. False: there is no
 * such request. */
bool mpi_requests_take(struct operations *o, const char *name, const struct json_t *request);

#endif
