/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/base64.h"

#include <stdint.h>
#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#define LETTER 0x40u /* set in the value of a letter, and in no other character's */

/* clang-format off */
static const unsigned char values[256] = {
	['A'] = 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76,
	['N'] = 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89,
	['a'] = 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100, 101, 102,
	['n'] = 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115,
	['0'] = 116, 117, 118, 119, 120, 121, 122, 123, 124, 125,
	['+'] = 126,
	['/'] = 127,
};
/* clang-format on */

static void encode_three(const unsigned char *p, char *text)
{
	uint32_t bits = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];

	text[0] = letters[bits >> 18];
	text[1] = letters[bits >> 12 & 63];
	text[2] = letters[bits >> 6 & 63];
	text[3] = letters[bits & 63];
}

void base64_encode(const void *bytes, size_t size, char *text)
{
	const unsigned char *p = bytes;
	unsigned char last[3] = {0};

	for (; size >= 3; size -= 3, p += 3, text += 4)
		encode_three(p, text);
	if (size > 0) {
		memcpy(last, p, size);
		encode_three(last, text);
		text[3] = '=';
		if (size == 1)
			text[2] = '=';
		text += 4;
	}
	*text = '\0';
}

/* -EINVAL: one of them is no letter. */
static int decode_four(const unsigned char *p, uint32_t *ret_bits)
{
	unsigned char a = values[p[0]], b = values[p[1]], c = values[p[2]], d = values[p[3]];

	*ret_bits = (uint32_t)(a & 63) << 18 | (uint32_t)(b & 63) << 12 | (uint32_t)(c & 63) << 6 |
		(d & 63);
	return a & b & c & d & LETTER ? 0 : -EINVAL;
}

/* The last four characters, of which one or two are padding. */
static int decode_padded(const unsigned char *p, size_t padding, unsigned char *to)
{
	unsigned char letters_only[4] = {p[0], p[1], padding == 1 ? p[2] : 'A', 'A'};
	uint32_t bits;

	if (decode_four(letters_only, &bits) < 0 || (bits & (padding == 1 ? 0xffu : 0xffffu)))
		return -EINVAL; /* no letters, or bits that no byte has */
	to[0] = (unsigned char)(bits >> 16);
	if (padding == 1)
		to[1] = (unsigned char)(bits >> 8);
	return 0;
}

ssize_t base64_decode(const char *text, size_t size, void *bytes)
{
	const unsigned char *p = (const unsigned char *)text, *end = p + size;
	unsigned char *to = bytes;
	size_t padding = 0;
	uint32_t bits;

	if (size % 4 != 0)
		return -EINVAL;
	while (padding < 2 && padding < size && end[-1 - (ssize_t)padding] == '=')
		padding++;
	for (; p < end - (padding ? 4 : 0); p += 4) {
		if (decode_four(p, &bits) < 0)
			return -EINVAL;
		*to++ = (unsigned char)(bits >> 16);
		*to++ = (unsigned char)(bits >> 8);
		*to++ = (unsigned char)bits;
	}
	if (padding && decode_padded(p, padding, to) < 0)
		return -EINVAL;
	return to - (unsigned char *)bytes + (padding ? 3 - (ssize_t)padding : 0);
}
