/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a step or one of its tasks has used, for proctrack_p_usage(). Each value has where it is
 * from; one that nobody counted has no source and is never made up.
 */
#ifndef STEPD_API_USAGE_H
#define STEPD_API_USAGE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum stepd_usage_value {
	STEPD_USAGE_CPU_USER_USEC,
	STEPD_USAGE_CPU_SYSTEM_USEC,
	STEPD_USAGE_CPU_THROTTLED_USEC,
	STEPD_USAGE_MEMORY_BYTES,      /* now */
	STEPD_USAGE_MEMORY_PEAK_BYTES, /* PROC, RUSAGE: the resident memory of one process */
	STEPD_USAGE_SWAP_BYTES,        /* now */
	STEPD_USAGE_PAGE_FAULTS,       /* all, major ones too */
	STEPD_USAGE_MAJOR_FAULTS,
	STEPD_USAGE_OOM_EVENTS,      /* an allocation reached memory.max and could not be served */
	STEPD_USAGE_OOM_KILLS,       /* processes that the kernel killed for it */
	STEPD_USAGE_PROCESSES,       /* now */
	STEPD_USAGE_PIDS_MAX_EVENTS, /* forks that pids.max refused */
	STEPD_USAGE_IO_READ_BYTES,
	STEPD_USAGE_IO_WRITE_BYTES,
	STEPD_USAGE_CPU_PRESSURE_USEC, /* some task waited; total of the PSI file */
	STEPD_USAGE_MEMORY_PRESSURE_USEC,
	STEPD_USAGE_IO_PRESSURE_USEC,
	STEPD_USAGE_COUNT,
};

enum stepd_usage_source {
	STEPD_USAGE_UNKNOWN, /* value[] is not set */
	STEPD_USAGE_CGROUP,  /* the container's files: all processes, past ones too */
	STEPD_USAGE_PROC, /* /proc: those that lived at the moment, and children they waited for */
	STEPD_USAGE_RUSAGE, /* wait4(2): the task's first process and the children it waited for */
	STEPD_USAGE_SOURCE_COUNT,
};

typedef struct {
	uint64_t value[STEPD_USAGE_COUNT];
	uint8_t source[STEPD_USAGE_COUNT]; /* enum stepd_usage_source */
} stepd_usage_t;

#ifdef __cplusplus
}
#endif

#endif
