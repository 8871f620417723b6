/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Names of services, and values of other spaces: what is asked of another node.
 */
#ifndef MPI_PMI2_NAMES_H
#define MPI_PMI2_NAMES_H

#include "mpi/pmi2/pmi_impl.h"

/* Commands of both protocols. */
int name_publish(struct ask *ask, const struct pmi_message *m);
int name_unpublish(struct ask *ask, const struct pmi_message *m);
int name_lookup(struct ask *ask, const struct pmi_message *m);

/* The value of a key in a space that has no task here. */
int remote_get(struct ask *ask, struct pmi_space *space, struct slice key);

void remote_drop(struct pmi *pmi);

#endif
