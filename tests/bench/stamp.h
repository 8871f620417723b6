/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_BENCH_STAMP_H
#define TESTS_BENCH_STAMP_H

#include <stdint.h>

struct stamp {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t kind;    /* 'x' the launcher's exec, 'b' a task's begin, 'e' its end */
};

#endif
