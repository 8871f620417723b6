/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the MPI service process requests of the step over its link (mpi/link.h): what the step's
 * owner may request, no more. Each message is checked and translated here; the step decides.
 */
#ifndef STEPD_FRONTEND_MPI_REQUESTS_H
#define STEPD_FRONTEND_MPI_REQUESTS_H

#include <stdbool.h>

struct agent;
struct json_t;

/* Takes the request of that name, and answers it over the link, now or later. False: there is no
 * such request. */
bool mpi_requests_take(struct agent *a, const char *name, const struct json_t *request);

#endif
