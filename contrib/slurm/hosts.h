/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the receiver of a message may be: of several hosts the one that serves. slurmctld has
 * backups, which stand by until they take over.
 */
#ifndef SLURM_HOSTS_H
#define SLURM_HOSTS_H

#include <netinet/in.h>

#define HOSTS_MAX 8

struct hosts {
	struct sockaddr_in address[HOSTS_MAX];
	unsigned n; /* at least 1 */
};

static inline struct hosts hosts_of_one(struct sockaddr_in address)
{
	return (struct hosts){.address = {address}, .n = 1};
}

#endif
