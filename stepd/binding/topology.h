/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which CPUs share a core, a socket and a NUMA node. Found out with hwloc, in a process of its
 * own that loads it and sends a table: the agent, whose size each fork of a task pays for, never
 * has it, and an XML file that hwloc can't bear (2.9 dies of some) ends that process only. It has
 * the step's user, no descriptor of the agent's, and limited time; its table is checked.
 * topology.c is the only file that includes its header.
 */
#ifndef STEPD_BINDING_TOPOLOGY_H
#define STEPD_BINDING_TOPOLOGY_H

#include <stdint.h>

#include "stepd/base/err.h"

struct identity;

#define TOPOLOGY_NONE     0xffffffffu
#define TOPOLOGY_FILE_MAX (64u << 20) /* bytes */
#define TOPOLOGY_CPU_MAX  65535u      /* the largest number */

struct topology_cpu {
	uint32_t cpu;    /* the kernel's number */
	uint32_t core;   /* counted through the machine; as socket */
	uint32_t socket; /* all 0 where the machine shows none */
	uint32_t node;   /* the kernel's number of the nearest NUMA node, or TOPOLOGY_NONE */
};

struct topology {
	struct topology_cpu *cpus; /* neighbours in the machine are neighbours here */
	size_t count;
};

/* This machine, or the one that file describes, XML as hwloc's lstopo(1) writes it. It is opened
 * with id's identity (NULL: this process's own), without this process's environment, which could
 * name plugins for hwloc. -EOPNOTSUPP: this program was built without hwloc, or it can't be
 * loaded.
 */
int topology_load(const char *file, const struct identity *id, struct topology *ret_topology,
	struct err *err) _must_check_;

void topology_clear(struct topology *topology);
#define _cleanup_topology_ _cleanup_(topology_clear)

#endif
