/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Limits of a step or of one of its tasks, for proctrack_p_set_limits(). The values are those of
 * cgroup v2 (Documentation/admin-guide/cgroup-v2.rst of Linux), whose files give them their names.
 */
#ifndef STEPD_API_LIMITS_H
#define STEPD_API_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In the order in which they are applied. */
enum stepd_limit {
	STEPD_LIMIT_MEMORY_MAX,       /* bytes */
	STEPD_LIMIT_MEMORY_HIGH,      /* bytes */
	STEPD_LIMIT_MEMORY_SWAP_MAX,  /* bytes */
	STEPD_LIMIT_MEMORY_OOM_GROUP, /* 0 or 1: an OOM kill takes all of the group */
	STEPD_LIMIT_PIDS_MAX,         /* processes and threads */
	STEPD_LIMIT_CPU_MAX,          /* thousandths of a CPU: 1500 is one and a half */
	STEPD_LIMIT_CPU_WEIGHT,       /* 1 to 10000 */
	STEPD_LIMIT_CPUSET_CPUS,      /* a list, "0-3,8" */
	STEPD_LIMIT_CPUSET_MEMS,      /* a list of NUMA nodes */
	STEPD_LIMIT_IO_MAX,
	STEPD_LIMIT_DEVICES,
	STEPD_LIMIT_COUNT,
};

#define STEPD_LIMIT_NONE UINT64_MAX /* of a number: take the limit away */
#define STEPD_DEVICE_ANY UINT32_MAX /* of a device rule: every major, every minor */

enum stepd_device_access {
	STEPD_DEVICE_READ = 1u << 0,
	STEPD_DEVICE_WRITE = 1u << 1,
	STEPD_DEVICE_MKNOD = 1u << 2,
};

/* What is allowed; all else is refused. A rule with no access refuses, whatever the others allow.
 */
typedef struct {
	char type; /* 'b', 'c', or 'a' for both */
	uint32_t major, minor;
	uint32_t access; /* enum stepd_device_access; 0: none */
} stepd_device_rule_t;

/* Of one block device; STEPD_LIMIT_NONE: unlimited. */
typedef struct {
	uint32_t major, minor;
	uint64_t read_bytes_per_sec, write_bytes_per_sec;
	uint64_t reads_per_sec, writes_per_sec;
} stepd_io_limit_t;

/* A limit counts only if its bit, 1u << enum stepd_limit, is in set. A list replaces an earlier
 * one. */
typedef struct {
	uint32_t set;
	uint64_t number[STEPD_LIMIT_COUNT];    /* of those that are numbers */
	const char *cpuset_cpus, *cpuset_mems; /* NULL or "": take the limit away */
	const stepd_io_limit_t *io;
	size_t io_count;
	const stepd_device_rule_t *devices;
	size_t devices_count;
} stepd_limits_t;

#ifdef __cplusplus
}
#endif

#endif
