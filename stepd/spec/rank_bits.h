/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A set of ranks below a limit, a bit for each.
 */
#ifndef STEPD_SPEC_RANK_BITS_H
#define STEPD_SPEC_RANK_BITS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Empty; for free(). NULL: no memory. */
static inline unsigned char *rank_bits_new(uint32_t limit)
{
	return calloc(limit / 8 + 1, 1);
}

static inline bool rank_bits_test(const unsigned char *bits, uint32_t rank)
{
	return bits[rank / 8] >> (rank & 7) & 1;
}

/* Whether it was there already. */
static inline bool rank_bits_set(unsigned char *bits, uint32_t rank)
{
	bool was = rank_bits_test(bits, rank);

	bits[rank / 8] |= (unsigned char)(1u << (rank & 7));
	return was;
}

#endif
