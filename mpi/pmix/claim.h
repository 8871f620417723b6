/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The claim of a process that connects to libpmix: the beginning of its first message, which
 * is the same in all versions from PMIx 2 to 7.0. A header (index, tag, length), the name of a
 * security module, a credential, what it is, and then, of a client its namespace and rank, of a
 * tool its user and group, and the namespace and rank it was given, if any. What comes in is not
 * trusted.
 */
#ifndef MPI_PMIX_CLAIM_H
#define MPI_PMIX_CLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"

#define CLAIM_HEADER_SIZE (3 * sizeof(uint32_t) + (sizeof(size_t) - sizeof(uint32_t)))
#define CLAIM_SIZE_MAX    8192u /* of what is read; a credential has a few hundred bytes */

struct claim {
	bool is_tool;
	bool has_proc;    /* what follows is there */
	uint32_t uid;     /* of a tool */
	char nspace[256]; /* PMIX_MAX_NSLEN and a NUL */
	uint32_t rank;
};

/* How many bytes to read for claim_parse(), CLAIM_SIZE_MAX at most, from the CLAIM_HEADER_SIZE
 * bytes of a header. */
size_t claim_size(const char *header);

/* 0, or -EBADMSG where bytes are no such message. */
int claim_parse(const char *bytes, size_t size, struct claim *ret_claim) _must_check_;

#endif
