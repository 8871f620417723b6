/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How often a test does what has no natural end: random workloads, rounds of a race. What "rounds"
 * of tests/lib/tap.sh is for scripts.
 */
#ifndef TESTS_LIB_ROUNDS_H
#define TESTS_LIB_ROUNDS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A number that the environment may give. */
static inline uint32_t rounds_get(const char *name, uint32_t otherwise)
{
	const char *text = getenv(name);

	return text ? (uint32_t)strtoul(text, NULL, 10) : otherwise;
}

/* As many as the environment's variable says, else brief, or all of them with STEPD_TEST_ALL=1. */
static inline uint32_t rounds_choose(const char *name, uint32_t brief, uint32_t all)
{
	const char *text = getenv("STEPD_TEST_ALL");

	return rounds_get(name, text && strcmp(text, "1") == 0 ? all : brief);
}

#endif
