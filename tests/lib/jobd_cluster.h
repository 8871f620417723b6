/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For tests and benchmarks of select plugins: a cluster as a slurm.conf has it, with a plugin of
 * the build, and jobs for it. What fails here ends the program with a line on why.
 */
#ifndef TESTS_LIB_JOBD_CLUSTER_H
#define TESTS_LIB_JOBD_CLUSTER_H

#include "contrib/jobd/conf/conf.h"
#include "contrib/jobd/select/host.h"

struct cluster {
	struct conf *conf;
	node_record_t *nodes;
	part_record_t *parts;
	struct select *select;
	char *dir; /* of its own */
	uint32_t last_job_id;
};

/* The host's tables are the cluster's from now on: there is one at a time. plugin_dir NULL: that of
 * the build, ${top_builddir}. log may be NULL: errors go to stderr. */
void cluster_make(
	struct cluster *c, const char *conf_text, const char *plugin_dir, const struct log *log);
void cluster_clear(struct cluster *c);

/* A job of a partition that asks for nothing, in job_list; it is freed with what it got. */
job_record_t *cluster_add_job(struct cluster *c, part_record_t *part);
void cluster_free_job(job_record_t *job);

/* Nodes as a list names them, "n[1-3]". */
bitstr_t *cluster_nodes(const struct cluster *c, const char *names);

/* The nodes of the job's partition without those that it excludes, and how many it may have, as the
 * daemon computes them. */
void cluster_request(
	const struct cluster *c, job_record_t *job, struct select_request *ret_request);

#endif
