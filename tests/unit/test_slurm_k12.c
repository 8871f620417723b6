/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/k12.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The hash of n bytes of the RFC's pattern, as text. */
static void hash_pattern(size_t n, char text[static 2 * K12_SIZE + 1])
{
	uint8_t *message = malloc(n + 1), hash[K12_SIZE];
	size_t i;

	assert_non_null(message);
	for (i = 0; i < n; i++)
		message[i] = (uint8_t)(i % 251);
	k12_hash(message, n, "", 0, hash);
	for (i = 0; i < K12_SIZE; i++)
		(void)snprintf(text + 2 * i, 3, "%02x", hash[i]);
	free(message);
}

static void test_vectors(void **state)
{
	static const struct {
		size_t n;
		const char *hash;
	} rows[] = {
		{0, "1ac2d450fc3b4205d19da7bfca1b37513c0803577ac7167f06fe2ce1f0ef39e5"},
		{17, "6bf75fa2239198db4772e36478f8e19b0f371205f6a9a93a273f51df37122888"},
		{83521, "8701045e22205345ff4dda05555cbb5c3af1a771c2b89baef37db43d9998b9fe"},
	};
	char text[2 * K12_SIZE + 1];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		hash_pattern(rows[i].n, text);
		assert_string_equal(text, rows[i].hash);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
