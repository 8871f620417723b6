/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the slurmds of other nodes listen, by the NodeName lines of slurm.conf: NodeAddr,
 * NodeHostname and Port, and SlurmdPort. By a pass of its own, which is only needed where step
 * daemons speak to each other: PMIx over several nodes, and from release 23.11 on the end of a step
 * of several nodes, of whose node above a step daemon has only the name. Nodes of the states CLOUD
 * and FUTURE have addresses that only slurmctld knows.
 *
 * A step may have as many nodes as the site: the time grows with the lines, not with their product.
 */
#ifndef SLURM_SITE_NODES_H
#define SLURM_SITE_NODES_H

#include <netinet/in.h>

#include "stepd/base/err.h"

/* Of the n names, which may have one twice; addresses are n as well, and on failure some of them
 * may be set. path as site_conf_read() has it. -ENOENT: it has no such node; -EADDRNOTAVAIL: no
 * IPv4 address is known for it. */
int site_nodes_find(const char *path, char *const *names, size_t n, struct sockaddr_in *addresses,
	struct err *err) _must_check_;

#endif
