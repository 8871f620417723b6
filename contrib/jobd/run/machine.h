/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What this machine is: where its CPUs are, and which controllers its cgroups have. Only for what
 * is chosen and logged: an agent tries, whatever this is.
 */
#ifndef JOBD_RUN_MACHINE_H
#define JOBD_RUN_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* A number of the kernel's about a CPU, such as "core_id"; other where it has none. */
uint32_t machine_read_topology(uint32_t cpu, const char *name, uint32_t other);

/* Whether cgroup v2 has this controller, "memory", at root; NULL: at its mount. One that version 1
 * has is none: agents set no limits there. */
bool machine_has_controller(const char *root, const char *name);

#endif
