/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Bitmaps of nodes and of cores, for select plugins: the functions that Slurm's guide refers
 * plugins to, by the same names. The host exports them; a plugin links with nothing.
 *
 * Bits count from 0. A bit outside its bitmap, or two bitmaps of different sizes where equal sizes
 * are required, is the caller's bug: the program ends with a message (abort()).
 */
#ifndef STEPD_API_BITSTRING_H
#define STEPD_API_BITSTRING_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default) /* the host has them, for its plugins */

typedef struct stepd_bitstring bitstr_t;
typedef int64_t bitoff_t; /* the number of a bit; -1: there is none */

/* All bits are clear; size is from 0 to INT32_MAX. Functions that make a bitmap end the program if
 * memory is short. The caller frees the bitmap. NULL is fine for bit_free(). */
bitstr_t *bit_alloc(bitoff_t size);
bitstr_t *bit_copy(const bitstr_t *b);
void bit_free(bitstr_t *b);
#define FREE_NULL_BITMAP(b)                                                                        \
	do {                                                                                       \
		bit_free(b);                                                                       \
		(b) = NULL;                                                                        \
	} while (0)

bitoff_t bit_size(const bitstr_t *b);
bool bit_test(const bitstr_t *b, bitoff_t bit);
void bit_set(bitstr_t *b, bitoff_t bit);
void bit_clear(bitstr_t *b, bitoff_t bit);

/* From start to stop, inclusive; none if stop is less. */
void bit_nset(bitstr_t *b, bitoff_t start, bitoff_t stop);
void bit_nclear(bitstr_t *b, bitoff_t start, bitoff_t stop);
void bit_set_all(bitstr_t *b);
void bit_clear_all(bitstr_t *b);

/* The first or last bit that is set, and the first that is clear; the same from a bit on, which may
 * be outside the bitmap: -1. */
bitoff_t bit_ffs(const bitstr_t *b);
bitoff_t bit_fls(const bitstr_t *b);
bitoff_t bit_ffc(const bitstr_t *b);
bitoff_t bit_ffs_from_bit(const bitstr_t *b, bitoff_t bit);
bitoff_t bit_ffc_from_bit(const bitstr_t *b, bitoff_t bit);

/* The first of n consecutive bits that are clear, or set. */
bitoff_t bit_nffc(const bitstr_t *b, int32_t n);
bitoff_t bit_nffs(const bitstr_t *b, int32_t n);

int32_t bit_set_count(const bitstr_t *b);
int32_t bit_clear_count(const bitstr_t *b);
int32_t bit_set_count_range(const bitstr_t *b, bitoff_t start, bitoff_t end); /* end is exclusive */

/* b1 becomes b1 & b2, b1 | b2, b1 & ~b2; b becomes ~b. */
void bit_and(bitstr_t *b1, const bitstr_t *b2);
void bit_or(bitstr_t *b1, const bitstr_t *b2);
void bit_and_not(bitstr_t *b1, const bitstr_t *b2);
void bit_not(bitstr_t *b);
void bit_copybits(bitstr_t *to, const bitstr_t *from);

bool bit_equal(const bitstr_t *b1, const bitstr_t *b2);       /* false for different sizes */
bool bit_super_set(const bitstr_t *b1, const bitstr_t *b2);   /* b2 has all bits of b1 */
int32_t bit_overlap(const bitstr_t *b1, const bitstr_t *b2);  /* the number of common bits */
bool bit_overlap_any(const bitstr_t *b1, const bitstr_t *b2); /* whether there are any */

/* Formats the bits that are set as "0-3,7", cut to size with the NUL; returns text. */
char *bit_fmt(char *text, int32_t size, const bitstr_t *b);

/* Sets the bits of such a text and clears all others. 0, or -1 if it is malformed or too large. */
int bit_unfmt(bitstr_t *b, const char *text);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
