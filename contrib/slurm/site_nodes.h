/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the slurmds of a step's nodes are, and their spool directories: of slurm.conf, by a pass of
 * its own, which is only needed where step daemons speak to each other. Nodes that are not there
 * (dynamic ones, those of a cloud) are not found.
 */
#ifndef SLURM_SITE_NODES_H
#define SLURM_SITE_NODES_H

#include <netinet/in.h>

#include "stepd/base/err.h"

struct site_nodes {
	struct sockaddr_in *addresses; /* in the order of the names */
	char *spool_dir;               /* SlurmdSpoolDir, with its patterns */
};

void site_nodes_clear(struct site_nodes *nodes);
#define _cleanup_site_nodes_ _cleanup_(site_nodes_clear)

/* path NULL: as site_conf_read(). -ENOENT: one of them is not there. */
int site_nodes_find(const char *path, char *const *names, size_t n, struct site_nodes *nodes,
	struct err *err) _must_check_;

#endif
