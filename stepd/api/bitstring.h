/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Bitmaps of nodes and of cores, for select plugins: the functions that Slurm's guide sends its
 * plugins to, by the same names. The host exports them; a plugin links with nothing.
 *
 * Bits count from 0. A bit outside of its bitmap, or two bitmaps of different sizes where equal
 * ones are needed, is a mistake of the caller's: the program ends with a message (abort()).
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

/* All bits are clear; size is from 0 to INT32_MAX. The program ends where there is no memory, as
 * with each that makes one. The caller frees what it gets. NULL is fine for bit_free(). */
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

/* From start to stop, both included; none where stop is less. */
void bit_nset(bitstr_t *b, bitoff_t start, bitoff_t stop);
void bit_nclear(bitstr_t *b, bitoff_t start, bitoff_t stop);
void bit_set_all(bitstr_t *b);
void bit_clear_all(bitstr_t *b);

/* The first or last bit that is set, the first that is clear; the same from a bit on, of which
 * there is none outside of the bitmap. */
bitoff_t bit_ffs(const bitstr_t *b);
bitoff_t bit_fls(const bitstr_t *b);
bitoff_t bit_ffc(const bitstr_t *b);
bitoff_t bit_ffs_from_bit(const bitstr_t *b, bitoff_t bit);
bitoff_t bit_ffc_from_bit(const bitstr_t *b, bitoff_t bit);

/* The first of n bits in a row that are clear, and of n that are set. */
bitoff_t bit_nffc(const bitstr_t *b, int32_t n);
bitoff_t bit_nffs(const bitstr_t *b, int32_t n);

int32_t bit_set_count(const bitstr_t *b);
int32_t bit_clear_count(const bitstr_t *b);
int32_t bit_set_count_range(const bitstr_t *b, bitoff_t start, bitoff_t end); /* without end */

/* b1 becomes what is in both, in either, in b1 and not in b2; what was not in b. */
void bit_and(bitstr_t *b1, const bitstr_t *b2);
void bit_or(bitstr_t *b1, const bitstr_t *b2);
void bit_and_not(bitstr_t *b1, const bitstr_t *b2);
void bit_not(bitstr_t *b);
void bit_copybits(bitstr_t *to, const bitstr_t *from);

bool bit_equal(const bitstr_t *b1, const bitstr_t *b2);       /* false for different sizes */
bool bit_super_set(const bitstr_t *b1, const bitstr_t *b2);   /* b2 has all that b1 has */
int32_t bit_overlap(const bitstr_t *b1, const bitstr_t *b2);  /* how many are in both */
bool bit_overlap_any(const bitstr_t *b1, const bitstr_t *b2); /* whether any is */

/* The bits that are set as "0-3,7", cut to size with its NUL; returns text. */
char *bit_fmt(char *text, int32_t size, const bitstr_t *b);

/* Sets the bits of such a text, all others are clear. 0, or -1 where it is none or does not fit. */
int bit_unfmt(bitstr_t *b, const char *text);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
