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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_ways),
		cmocka_unit_test(test_all_bytes_in_place),
		cmocka_unit_test(test_wrong_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
