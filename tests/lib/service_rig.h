/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The start of an MPI service process without a step: for struct
 * mpi_service_options.
 */
#ifndef TESTS_LIB_SERVICE_RIG_H
#define TESTS_LIB_SERVICE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

static inline bool service_wait_for(int fd, uint64_t limit_ms, void *userdata)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	(void)userdata;
	return poll(&p, 1, (int)limit_ms) > 0;
}

static inline void service_no_message(const json_t *object, void *userdata)
{
	(void)object;
	(void)userdata;
	fail();
}

#endif
