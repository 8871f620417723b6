/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/base64.h"

#include <stdint.h>
#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const void *bytes, size_t size, char *text)
{
	const unsigned char *p = bytes;
	uint32_t bits;
	size_t i;

	for (i = 0; i < size; i += 3) {
		bits = (uint32_t)p[i] << 16 | (i + 1 < size ? (uint32_t)p[i + 1] << 8 : 0) |
			(i + 2 < size ? p[i + 2] : 0);
		*text++ = letters[bits >> 18];
		*text++ = letters[bits >> 12 & 63];
		*text++ = i + 1 < size ? letters[bits >> 6 & 63] : '=';
		*text++ = i + 2 < size ? letters[bits & 63] : '=';
	}
	*text = '\0';
}

static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

ssize_t base64_decode(const char *text, size_t size, void *bytes)
{
	size_t padding = 0, i;
	unsigned char *to = bytes;
	uint32_t bits = 0;
	int value;

	if (size % 4 != 0)
		return -EINVAL;
	while (padding < 2 && padding < size && text[size - 1 - padding] == '=')
		padding++;
	for (i = 0; i < size - padding; i++) {
		value = value_of(text[i]);
		if (value < 0)
			return -EINVAL;
		bits = bits << 6 | (uint32_t)value;
		if (i % 4 == 3) {
			*to++ = (unsigned char)(bits >> 16);
			*to++ = (unsigned char)(bits >> 8);
			*to++ = (unsigned char)bits;
			bits = 0;
		}
	}
	bits <<= 6 * padding;
	if (padding && (bits & (padding == 1 ? 0xffu : 0xffffu)))
		return -EINVAL; /* bits that no byte has */
	if (padding)
		*to++ = (unsigned char)(bits >> 16);
	if (padding == 1)
		*to++ = (unsigned char)(bits >> 8);
	return to - (unsigned char *)bytes;
}
