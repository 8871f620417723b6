/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Puts a function of ours instead of one that a loaded library calls in another, for that
 * library alone: in the slots of its own tables (GOT) that the dynamic linker has filled for the
 * symbol. The order in which symbols are resolved can't do that here: libpmix is loaded with
 * RTLD_DEEPBIND, and has the C library among its own (pmix.c).
 *
 * What the library does not call through such a slot is not reached; the caller must prove that
 * its function is called.
 */
#ifndef MPI_PMIX_INTERPOSE_H
#define MPI_PMIX_INTERPOSE_H

#include "stepd/base/err.h"

/* In the library that has address in it. -ENOENT: it has no slot for that symbol. */
int interpose(
	const void *address, const char *symbol, void *function, struct err *err) _must_check_;

#endif
