/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Bits of <stepd/bitstring.h> without a call and without a check, for the host's longest loops: the
 * bit must be in the bitmap.
 */
#ifndef JOBD_ABI_BITS_H
#define JOBD_ABI_BITS_H

#include "stepd/api/bitstring.h"

#define BITS_WORD 64

struct stepd_bitstring {
	bitoff_t size;
	uint64_t words[]; /* bits beyond size are clear */
};

static inline bool bits_test(const bitstr_t *b, bitoff_t bit)
{
	return b->words[bit / BITS_WORD] >> (bit % BITS_WORD) & 1;
}

static inline void bits_set(bitstr_t *b, bitoff_t bit)
{
	b->words[bit / BITS_WORD] |= UINT64_C(1) << (bit % BITS_WORD);
}

static inline void bits_clear(bitstr_t *b, bitoff_t bit)
{
	b->words[bit / BITS_WORD] &= ~(UINT64_C(1) << (bit % BITS_WORD));
}

#endif
