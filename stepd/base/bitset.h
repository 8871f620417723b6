/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sets of small numbers (CPUs, NUMA nodes, ranks), in words of bits as the kernel takes them. A set
 * has the width that it was made with; a struct bitset may be a view of one in a table.
 */
#ifndef STEPD_BASE_BITSET_H
#define STEPD_BASE_BITSET_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"

#define BITSET_NONE      0xffffffffu /* "no number" */
#define BITSET_WORD_BITS (8u * sizeof(unsigned long))

struct bitset {
	unsigned long *words;
	size_t width; /* in words */
};

/* Empty, with capacity for the numbers below bits. 0 or -ENOMEM. */
int bitset_init(struct bitset *b, size_t bits) _must_check_;
void bitset_clear(struct bitset *b); /* frees it */
#define _cleanup_bitset_ _cleanup_(bitset_clear)

/* Reduces the capacity to the word of the largest number. */
void bitset_trim(struct bitset *b);

/* n must be within its capacity. Returns whether it was in the set already. */
bool bitset_set(struct bitset *b, uint32_t n);
bool bitset_test(const struct bitset *b, uint32_t n); /* any n */
uint32_t bitset_count(const struct bitset *b);

/* The least number from n on, or BITSET_NONE. */
uint32_t bitset_next(const struct bitset *b, uint32_t n);

/* The least number that is in b and not in other, or BITSET_NONE. */
uint32_t bitset_first_outside(const struct bitset *b, const struct bitset *other);

/* Removes from b what is not in other. */
void bitset_intersect(struct bitset *b, const struct bitset *other);

/* Adds the bits of a hexadecimal number of len digits. -EINVAL: not a number; -ERANGE: a bit is
 * beyond the capacity. b is changed on success only. */
int bitset_add_hex(struct bitset *b, const char *digits, size_t len) _must_check_;

/* Adds the numbers of a list such as "0-3,8"; an empty text has none. -EINVAL, -ERANGE: as above,
 * after some may have been added. */
int bitset_add_list(struct bitset *b, const char *text) _must_check_;

/* "0-3,8" and "0x10f" into text, as snprintf(3): cut to size, the whole length is returned. An
 * empty set is "" and "0x0". */
size_t bitset_format_list(const struct bitset *b, char *text, size_t size);
size_t bitset_format_hex(const struct bitset *b, char *text, size_t size);

/* Sets of equal width in one array. */
struct bitset_table {
	unsigned long *words;
	size_t width;
	size_t count;
};

int bitset_table_init(struct bitset_table *t, size_t count, size_t bits) _must_check_;
void bitset_table_clear(struct bitset_table *t);
#define _cleanup_bitset_table_ _cleanup_(bitset_table_clear)

static inline struct bitset bitset_table_get(const struct bitset_table *t, size_t i)
{
	return (struct bitset){.words = t->words + i * t->width, .width = t->width};
}

#endif
