/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Properties of this machine: the topology of its CPUs, and the controllers of its cgroups. They
 * only serve choices and messages: an agent tries in any case.
 */
#ifndef JOBD_RUN_MACHINE_H
#define JOBD_RUN_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* A number from the kernel's topology of a CPU, such as "core_id"; other if there is none. */
uint32_t machine_read_topology(uint32_t cpu, const char *name, uint32_t other);

/* Whether cgroup v2 has this controller, "memory", at root; NULL: at its mount. One of version 1
 * does not count: agents set no limits there. */
bool machine_has_controller(const char *root, const char *name);

#endif
