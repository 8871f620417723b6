/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where slurmd of another node listens, by the NodeName lines of slurm.conf: NodeAddr, NodeHostname
 * and Port, and SlurmdPort. From release 23.11 on a step daemon has only the name of the node above
 * it. Nodes of the states CLOUD and FUTURE have addresses that only slurmctld knows.
 */
#ifndef SLURM_NODE_ADDRESS_H
#define SLURM_NODE_ADDRESS_H

#include <netinet/in.h>

#include "stepd/base/err.h"

/* path as site_conf_read() has it. -ENOENT: it has no such node; -EADDRNOTAVAIL: no IPv4 address is
 * known for it. */
int node_address_find(const char *path, const char *name, struct sockaddr_in *ret_address,
	struct err *err) _must_check_;

#endif
