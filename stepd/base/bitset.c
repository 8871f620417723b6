/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/bitset.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "stepd/base/parse.h"

static size_t width_of(size_t bits)
{
	return (bits + BITSET_WORD_BITS - 1) / BITSET_WORD_BITS;
}

int bitset_init(struct bitset *b, size_t bits)
{
	size_t width = width_of(bits);
	unsigned long *words = calloc(width + 1, sizeof(*words));

	if (!words)
		return -ENOMEM;
	*b = (struct bitset){.words = words, .width = width};
	return 0;
}

void bitset_clear(struct bitset *b)
{
	free(b->words);
	*b = (struct bitset){0};
}

void bitset_trim(struct bitset *b)
{
	while (b->width > 1 && b->words[b->width - 1] == 0)
		b->width--;
}

bool bitset_set(struct bitset *b, uint32_t n)
{
	const unsigned long bit = 1ul << n % BITSET_WORD_BITS;
	unsigned long *word = &b->words[n / BITSET_WORD_BITS];
	bool was = *word & bit;

	assert(n / BITSET_WORD_BITS < b->width);
	*word |= bit;
	return was;
}

bool bitset_test(const struct bitset *b, uint32_t n)
{
	return n / BITSET_WORD_BITS < b->width &&
		b->words[n / BITSET_WORD_BITS] >> n % BITSET_WORD_BITS & 1;
}

uint32_t bitset_count(const struct bitset *b)
{
	uint32_t n = 0;
	size_t i;

	for (i = 0; i < b->width; i++)
		n += (uint32_t)__builtin_popcountl(b->words[i]);
	return n;
}

uint32_t bitset_next(const struct bitset *b, uint32_t n)
{
	size_t i = n / BITSET_WORD_BITS;
	unsigned long word;

	if (i >= b->width)
		return BITSET_NONE;
	word = b->words[i] & ~0ul << n % BITSET_WORD_BITS;
	while (!word) {
		if (++i == b->width)
			return BITSET_NONE;
		word = b->words[i];
	}
	return (uint32_t)(i * BITSET_WORD_BITS) + (uint32_t)__builtin_ctzl(word);
}

uint32_t bitset_first_outside(const struct bitset *b, const struct bitset *other)
{
	uint32_t n;

	for (n = bitset_next(b, 0); n != BITSET_NONE && bitset_test(other, n);)
		n = bitset_next(b, n + 1);
	return n;
}

void bitset_intersect(struct bitset *b, const struct bitset *other)
{
	size_t i;

	for (i = 0; i < b->width; i++)
		b->words[i] &= i < other->width ? other->words[i] : 0;
}

/* ---- texts --------------------------------------------------------------------------------- */

static unsigned digit_value(char digit)
{
	if (isdigit((unsigned char)digit))
		return (unsigned)(digit - '0');
	return (unsigned)(tolower((unsigned char)digit) - 'a') + 10;
}

int bitset_add_hex(struct bitset *b, const char *digits, size_t len)
{
	size_t i, at;

	for (i = 0; i < len; i++) {
		if (!isxdigit((unsigned char)digits[i]))
			return -EINVAL;
	}
	if (len == 0)
		return -EINVAL;
	while (len > 1 && *digits == '0') {
		digits++;
		len--;
	}
	/* A word holds whole digits. */
	if (len > b->width * BITSET_WORD_BITS / 4)
		return -ERANGE;
	for (i = 0; i < len; i++) {
		at = (len - 1 - i) * 4;
		b->words[at / BITSET_WORD_BITS] |= (unsigned long)digit_value(digits[i])
			<< at % BITSET_WORD_BITS;
	}
	return 0;
}

static int add_number(uint32_t n, void *userdata)
{
	bitset_set(userdata, n);
	return 0;
}

int bitset_add_list(struct bitset *b, const char *text)
{
	if (!*text)
		return 0;
	return parse_ranges(text, (uint32_t)(b->width * BITSET_WORD_BITS), add_number, b);
}

size_t bitset_format_list(const struct bitset *b, char *text, size_t size)
{
	uint32_t first, last;
	size_t used = 0;

	if (size)
		text[0] = '\0';
	for (first = bitset_next(b, 0); first != BITSET_NONE; first = bitset_next(b, last + 1)) {
		for (last = first; bitset_test(b, last + 1); last++)
			;
		used += (size_t)snprintf(used < size ? text + used : NULL,
			used < size ? size - used : 0, used ? ",%u" : "%u", first);
		if (last != first)
			used += (size_t)snprintf(used < size ? text + used : NULL,
				used < size ? size - used : 0, "-%u", last);
	}
	return used;
}

size_t bitset_format_hex(const struct bitset *b, char *text, size_t size)
{
	size_t i = b->width, used = 0;

	while (i > 1 && b->words[i - 1] == 0)
		i--;
	used += (size_t)snprintf(text, size, "0x%lx", i ? b->words[i - 1] : 0);
	while (i-- > 1)
		used += (size_t)snprintf(used < size ? text + used : NULL,
			used < size ? size - used : 0, "%0*lx", (int)(BITSET_WORD_BITS / 4),
			b->words[i - 1]);
	return used;
}

/* ---- tables -------------------------------------------------------------------------------- */

int bitset_table_init(struct bitset_table *t, size_t count, size_t bits)
{
	size_t width = width_of(bits);
	unsigned long *words = calloc(count + 1, (width + 1) * sizeof(*words));

	if (!words)
		return -ENOMEM;
	*t = (struct bitset_table){.words = words, .width = width, .count = count};
	return 0;
}

void bitset_table_clear(struct bitset_table *t)
{
	free(t->words);
	*t = (struct bitset_table){0};
}
