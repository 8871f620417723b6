/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_BENCH_STAMP_H
#define TESTS_BENCH_STAMP_H

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

struct stamp {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t kind;    /* 'x' the launcher's exec, 'b' a task's begin, 'e' its end */
};

static inline struct stamp stamp_take(char kind)
{
	struct stamp s = {.kind = (uint64_t)kind};
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	s.time_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	return s;
}

/* The file of BENCH_MARK_FILE, to which several processes add their records; other: there is none.
 */
static inline int stamp_open(int other)
{
	const char *path = getenv("BENCH_MARK_FILE");

	return path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : other;
}

#endif
