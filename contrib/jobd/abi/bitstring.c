/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/api/bitstring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/jobd/abi/bits.h"

#define WORD_BITS  BITS_WORD
#define SIZE_LIMIT ((bitoff_t)INT32_MAX) /* what counts of bits are given in */

_Noreturn static void mistake(const char *function, const char *what)
{
	(void)fprintf(stderr, "jobd: %s(): %s\n", function, what);
	abort();
}

static void check_bit(const bitstr_t *b, bitoff_t bit, const char *function)
{
	if (!b || bit < 0 || bit >= b->size)
		mistake(function, "there is no such bit");
}

static void check_sizes(const bitstr_t *b1, const bitstr_t *b2, const char *function)
{
	if (!b1 || !b2 || b1->size != b2->size)
		mistake(function, "the bitmaps have different sizes");
}

static size_t words_of(const bitstr_t *b)
{
	return (size_t)(b->size + WORD_BITS - 1) / WORD_BITS;
}

/* From this bit of a word on. */
static uint64_t mask_from(unsigned bit)
{
	return ~UINT64_C(0) << bit;
}

/* The bits of the last word that there are. */
static uint64_t last_mask(const bitstr_t *b)
{
	unsigned used = (unsigned)(b->size % WORD_BITS);

	return used ? ~mask_from(used) : ~UINT64_C(0);
}

/* ---- making -----------------------------------------------------------------------------------
 */

bitstr_t *bit_alloc(bitoff_t size)
{
	bool possible = size >= 0 && size <= SIZE_LIMIT;
	size_t words = possible ? (size_t)(size + WORD_BITS - 1) / WORD_BITS : 0;
	bitstr_t *b = calloc(1, sizeof(*b) + words * sizeof(*b->words));

	if (!b || !possible)
		mistake("bit_alloc", "out of memory");
	b->size = size;
	return b;
}

bitstr_t *bit_copy(const bitstr_t *b)
{
	bitstr_t *copy = bit_alloc(bit_size(b));

	bit_copybits(copy, b);
	return copy;
}

void bit_free(bitstr_t *b)
{
	free(b);
}

bitoff_t bit_size(const bitstr_t *b)
{
	if (!b)
		mistake("bit_size", "there is no bitmap");
	return b->size;
}

/* ---- bits --------------------------------------------------------------------------------------
 */

bool bit_test(const bitstr_t *b, bitoff_t bit)
{
	check_bit(b, bit, "bit_test");
	return bits_test(b, bit);
}

void bit_set(bitstr_t *b, bitoff_t bit)
{
	check_bit(b, bit, "bit_set");
	bits_set(b, bit);
}

void bit_clear(bitstr_t *b, bitoff_t bit)
{
	check_bit(b, bit, "bit_clear");
	bits_clear(b, bit);
}

/* Calls for each word that has some of these bits, with a mask of them. */
static void fill(bitstr_t *b, bitoff_t start, bitoff_t stop, bool value)
{
	bitoff_t first = start / WORD_BITS, last = stop / WORD_BITS, i;
	uint64_t mask;

	for (i = first; i <= last; i++) {
		mask = i == first ? mask_from((unsigned)(start % WORD_BITS)) : ~UINT64_C(0);
		if (i == last && stop % WORD_BITS < WORD_BITS - 1)
			mask &= ~mask_from((unsigned)(stop % WORD_BITS) + 1);
		if (value)
			b->words[i] |= mask;
		else
			b->words[i] &= ~mask;
	}
}

void bit_nset(bitstr_t *b, bitoff_t start, bitoff_t stop)
{
	check_bit(b, start, "bit_nset");
	check_bit(b, stop, "bit_nset");
	fill(b, start, stop, true);
}

void bit_nclear(bitstr_t *b, bitoff_t start, bitoff_t stop)
{
	check_bit(b, start, "bit_nclear");
	check_bit(b, stop, "bit_nclear");
	fill(b, start, stop, false);
}

void bit_set_all(bitstr_t *b)
{
	if (bit_size(b) > 0)
		fill(b, 0, b->size - 1, true);
}

void bit_clear_all(bitstr_t *b)
{
	if (bit_size(b) > 0)
		fill(b, 0, b->size - 1, false);
}

/* ---- searching ---------------------------------------------------------------------------------
 */

/* flip: ~0 searches for clear bits. */
static bitoff_t find_from(const bitstr_t *b, bitoff_t bit, uint64_t flip)
{
	size_t i = (size_t)bit / WORD_BITS, n = words_of(b);
	uint64_t word, mask = mask_from((unsigned)(bit % WORD_BITS));

	for (; i < n; i++, mask = ~UINT64_C(0)) {
		word = (b->words[i] ^ flip) & mask;
		if (i == n - 1)
			word &= last_mask(b);
		if (word)
			return (bitoff_t)i * WORD_BITS + __builtin_ctzll(word);
	}
	return -1;
}

bitoff_t bit_ffs_from_bit(const bitstr_t *b, bitoff_t bit)
{
	return bit >= 0 && bit < bit_size(b) ? find_from(b, bit, 0) : -1;
}

bitoff_t bit_ffc_from_bit(const bitstr_t *b, bitoff_t bit)
{
	return bit >= 0 && bit < bit_size(b) ? find_from(b, bit, ~UINT64_C(0)) : -1;
}

bitoff_t bit_ffs(const bitstr_t *b)
{
	return bit_ffs_from_bit(b, 0);
}

bitoff_t bit_ffc(const bitstr_t *b)
{
	return bit_ffc_from_bit(b, 0);
}

bitoff_t bit_fls(const bitstr_t *b)
{
	size_t i;

	(void)bit_size(b); /* there is one */
	for (i = words_of(b); i > 0; i--) {
		if (b->words[i - 1])
			return (bitoff_t)i * WORD_BITS - 1 - __builtin_clzll(b->words[i - 1]);
	}
	return -1;
}

/* The first n in a row for which find() and end() are each other's opposite. */
static bitoff_t find_run(const bitstr_t *b, int32_t n, bitoff_t (*find)(const bitstr_t *, bitoff_t),
	bitoff_t (*end)(const bitstr_t *, bitoff_t))
{
	bitoff_t from = 0, to;

	while ((from = find(b, from)) >= 0) {
		to = end(b, from);
		if (to < 0)
			to = b->size;
		if (to - from >= n)
			return from;
		from = to;
	}
	return -1;
}

bitoff_t bit_nffc(const bitstr_t *b, int32_t n)
{
	return find_run(b, n, bit_ffc_from_bit, bit_ffs_from_bit);
}

bitoff_t bit_nffs(const bitstr_t *b, int32_t n)
{
	return find_run(b, n, bit_ffs_from_bit, bit_ffc_from_bit);
}

/* ---- counting ----------------------------------------------------------------------------------
 */

/* Of words, as far as others has the same bits; NULL: all of them. */
__attribute__((always_inline)) static inline int32_t count_each(
	const uint64_t *words, const uint64_t *others, size_t n)
{
	int32_t count = 0;
	size_t i;

	for (i = 0; i < n; i++)
		count += __builtin_popcountll(others ? words[i] & others[i] : words[i]);
	return count;
}

/* By the processor's instruction, where it has it: in a tenth of the time. */
#if defined(__x86_64__)
__attribute__((target("popcnt"))) static int32_t count_fast(
	const uint64_t *words, const uint64_t *others, size_t n)
{
	return count_each(words, others, n);
}
#endif

static int32_t count_words(const uint64_t *words, const uint64_t *others, size_t n)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("popcnt"))
		return count_fast(words, others, n);
#endif
	return count_each(words, others, n);
}

int32_t bit_set_count(const bitstr_t *b)
{
	(void)bit_size(b); /* there is one */
	return count_words(b->words, NULL, words_of(b));
}

int32_t bit_clear_count(const bitstr_t *b)
{
	return (int32_t)bit_size(b) - bit_set_count(b);
}

int32_t bit_set_count_range(const bitstr_t *b, bitoff_t start, bitoff_t end)
{
	bitoff_t first = start / WORD_BITS, last = (end - 1) / WORD_BITS;
	uint64_t from = mask_from((unsigned)(start % WORD_BITS)), to = ~UINT64_C(0);

	if (start >= end)
		return 0;
	check_bit(b, start, "bit_set_count_range");
	check_bit(b, end - 1, "bit_set_count_range");
	if (end % WORD_BITS)
		to = ~mask_from((unsigned)(end % WORD_BITS));
	if (first == last)
		return count_words(&b->words[first], (const uint64_t[]){from & to}, 1);
	return count_words(&b->words[first], &from, 1) +
		count_words(&b->words[first + 1], NULL, (size_t)(last - first - 1)) +
		count_words(&b->words[last], &to, 1);
}

/* ---- two of them -------------------------------------------------------------------------------
 */

/* Four words at a time, as far as the processor has such instructions. */
typedef uint64_t four_words __attribute__((vector_size(32), aligned(8), may_alias));

#define COMBINE(b1, operation, b2)                                                                 \
	do {                                                                                       \
		uint64_t *to = (b1)->words;                                                        \
		const uint64_t *from = (b2)->words;                                                \
		size_t n = words_of(b1), i = 0;                                                    \
                                                                                                   \
		for (; i + 4 <= n; i += 4)                                                         \
			*(four_words *)(to + i) operation *(const four_words *)(from + i);         \
		for (; i < n; i++)                                                                 \
			to[i] operation from[i];                                                   \
	} while (0)

void bit_and(bitstr_t *b1, const bitstr_t *b2)
{
	check_sizes(b1, b2, "bit_and");
	COMBINE(b1, &=, b2);
}

void bit_or(bitstr_t *b1, const bitstr_t *b2)
{
	check_sizes(b1, b2, "bit_or");
	COMBINE(b1, |=, b2);
}

void bit_and_not(bitstr_t *b1, const bitstr_t *b2)
{
	check_sizes(b1, b2, "bit_and_not");
	COMBINE(b1, &= ~, b2);
}

void bit_not(bitstr_t *b)
{
	size_t i, n = bit_size(b) > 0 ? words_of(b) : 0;

	for (i = 0; i < n; i++)
		b->words[i] = ~b->words[i];
	if (n > 0)
		b->words[n - 1] &= last_mask(b);
}

void bit_copybits(bitstr_t *to, const bitstr_t *from)
{
	check_sizes(to, from, "bit_copybits");
	memcpy(to->words, from->words, words_of(from) * sizeof(*from->words));
}

bool bit_equal(const bitstr_t *b1, const bitstr_t *b2)
{
	return bit_size(b1) == bit_size(b2) &&
		memcmp(b1->words, b2->words, words_of(b1) * sizeof(*b1->words)) == 0;
}

bool bit_super_set(const bitstr_t *b1, const bitstr_t *b2)
{
	size_t i, n;

	check_sizes(b1, b2, "bit_super_set");
	n = words_of(b1);
	for (i = 0; i < n; i++) {
		if (b1->words[i] & ~b2->words[i])
			return false;
	}
	return true;
}

int32_t bit_overlap(const bitstr_t *b1, const bitstr_t *b2)
{
	check_sizes(b1, b2, "bit_overlap");
	return count_words(b1->words, b2->words, words_of(b1));
}

bool bit_overlap_any(const bitstr_t *b1, const bitstr_t *b2)
{
	size_t i, n;

	check_sizes(b1, b2, "bit_overlap_any");
	n = words_of(b1);
	for (i = 0; i < n; i++) {
		if (b1->words[i] & b2->words[i])
			return true;
	}
	return false;
}

/* ---- text --------------------------------------------------------------------------------------
 */

char *bit_fmt(char *text, int32_t size, const bitstr_t *b)
{
	bitoff_t from = 0, to;
	int at = 0, n;

	if (size > 0)
		text[0] = '\0';
	while ((from = bit_ffs_from_bit(b, from)) >= 0 && at < size) {
		to = bit_ffc_from_bit(b, from);
		if (to < 0)
			to = b->size;
		n = snprintf(text + at, (size_t)(size - at), to - from > 1 ? "%s%ld-%ld" : "%s%ld",
			at ? "," : "", (long)from, (long)to - 1);
		at += n;
		from = to;
	}
	return text;
}

/* A number, as long as it is a bit of b; -1: none. */
static bitoff_t parse_bit(const bitstr_t *b, const char **text)
{
	bitoff_t n = 0;

	if (**text < '0' || **text > '9')
		return -1;
	for (; **text >= '0' && **text <= '9'; (*text)++) {
		n = n * 10 + (**text - '0');
		if (n >= b->size)
			return -1;
	}
	return n;
}

int bit_unfmt(bitstr_t *b, const char *text)
{
	bitoff_t from, to;

	bit_clear_all(b);
	while (*text) {
		from = to = parse_bit(b, &text);
		if (from >= 0 && *text == '-') {
			text++;
			to = parse_bit(b, &text);
		}
		if (from < 0 || to < from || (*text && *text != ','))
			return -1;
		fill(b, from, to, true);
		if (*text == ',' && *++text == '\0')
			return -1;
	}
	return 0;
}
