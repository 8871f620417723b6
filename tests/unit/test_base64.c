/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stepd/base/base64.h"

/* Of RFC 4648, and bytes of every kind. */
static void test_both_ways(void **state)
{
	static const char *const pairs[][2] = {
		{"", ""},
		{"f", "Zg=="},
		{"fo", "Zm8="},
		{"foo", "Zm9v"},
		{"foob", "Zm9vYg=="},
		{"fooba", "Zm9vYmE="},
		{"foobar", "Zm9vYmFy"},
		{"\xff\xfe\xfd\x80", "//79gA=="},
		{"\xfb\xff", "+/8="},
	};
	char text[32], bytes[32];
	size_t i, size;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(pairs); i++) {
		size = strlen(pairs[i][0]);
		base64_encode(pairs[i][0], size, text);
		assert_string_equal(text, pairs[i][1]);
		assert_int_equal(strlen(text), BASE64_SIZE(size));
		assert_int_equal(base64_decode(text, strlen(text), bytes), size);
		assert_memory_equal(bytes, pairs[i][0], size);
	}
}

static void test_all_bytes_in_place(void **state)
{
	char text[BASE64_SIZE(256) + 1];
	unsigned char bytes[256];
	size_t size, i;

	(void)state;
	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)i;
	for (size = 0; size <= sizeof(bytes); size++) {
		base64_encode(bytes, size, text);
		assert_int_equal(base64_decode(text, strlen(text), text), size);
		assert_memory_equal(text, bytes, size);
	}
}

static void test_wrong_texts(void **state)
{
	static const char *const texts[] = {"Z", "Zg", "Zg=", "=",
		"==", "===", "====", "Z===", "Zm9v=", "Zm9vZ", "Zm9v====", "Zg==Zg==", "Zg=a",
		"Z=g=", "Zm9\n", "Zm 9", "Zm9-", "Zm9_",
		"Zh==", "Zm9=", "Zm9vYh==", "\xff\xff\xff\xff"};
	char bytes[32];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(base64_decode(texts[i], strlen(texts[i]), bytes), -EINVAL);
	assert_int_equal(base64_decode("Zg\0=", 4, bytes), -EINVAL);
}

/* In each of four places: a letter, or nothing that is base64; and padding only at the end. */
static void test_every_character(void **state)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	static const char last[] = "AQgw"; /* of which a letter before two paddings is one */
	unsigned char bytes[3];
	char text[5];
	int c, at;

	(void)state;
	for (c = 0; c <= UINT8_MAX; c++) {
		for (at = 0; at < 4; at++) {
			const char *letter = c ? strchr(letters, c) : NULL;
			ssize_t wanted = letter ? 3 : c == '=' && at == 3 ? 2 : -EINVAL;

			memcpy(text, "AAAA", 5);
			text[at] = (char)c;
			assert_int_equal(base64_decode(text, 4, bytes), wanted);
			if (letter)
				assert_int_equal(bytes[0] << 16 | bytes[1] << 8 | bytes[2],
					(letter - letters) << (18 - 6 * at));
		}
		memcpy(text, "A_==", 5);
		text[1] = (char)c;
		assert_int_equal(base64_decode(text, 4, bytes), c && strchr(last, c) ? 1 : -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_ways),
		cmocka_unit_test(test_all_bytes_in_place),
		cmocka_unit_test(test_wrong_texts),
		cmocka_unit_test(test_every_character),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
