/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The answer to a call that is waited for on libpmix's thread, which serves nobody meanwhile: for
 * the one upcall where libpmix (up to 4.2) can't be answered later, as it frees what the answer
 * needs. The wait is short and has an end: the loop may itself be waiting for that thread.
 */
#ifndef MPI_PMIX_PENDING_H
#define MPI_PMIX_PENDING_H

#include <pmix_common.h>

struct pending;

/* NULL: no memory. */
struct pending *pending_new(void);

/* Once, on libpmix's thread; gives it up. otherwise: where there is no answer in time. */
pmix_status_t pending_wait(struct pending *pending, pmix_status_t otherwise);

/* Once, in the loop; gives it up. */
void pending_answer(struct pending *pending, pmix_status_t status);

#endif
