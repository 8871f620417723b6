/* SPDX-License-Identifier: BSD-3-Clause
 *
 * PMI_process_mapping: where ranks are, as a list of blocks "(vector,(FIRST,COUNT,EACH),...)": of
 * COUNT nodes from node FIRST on, each has the next EACH ranks. Clients begin the list again where
 * it ends before the ranks do; it is written so only where the whole is longer than they can read.
 */
#ifndef MPI_PMI2_MAPPING_H
#define MPI_PMI2_MAPPING_H

#include <stdint.h>

#include "stepd/base/cleanup.h"

/* nodes: of each of size ranks; NULL: all on node 0. The caller's to free. 0 or -ENOMEM. */
int mapping_format(const uint32_t *nodes, uint32_t size, char **ret_text) _must_check_;

#endif
