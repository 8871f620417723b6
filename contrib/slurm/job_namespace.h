/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The mount namespace of a job, with a /tmp of its own, where the site has Slurm's plugin tmpfs:
 * job_container/tmpfs, which is called namespace/tmpfs from 26.05 on. The job's extern step makes
 * it, binds it to BasePath/JOB/.ns, and takes it away; tasks of the others enter it. From 24.11 on
 * slurmd sends the plugin's settings, job_container.conf, to each step; before, they are read
 * where slurm.conf is.
 */
#ifndef SLURM_JOB_NAMESPACE_H
#define SLURM_JOB_NAMESPACE_H

#include <limits.h>
#include <stdbool.h>

#include "contrib/slurm/init.h"
#include "stepd/base/err.h"

struct site_conf;

/* Whether a plugin is this one, or another one; NULL and "" are none. */
bool job_namespace_is_tmpfs(const char *plugin);
bool job_namespace_is_other(const char *plugin);

struct job_namespace {
	bool is_made;        /* by extern steps on this node */
	char path[PATH_MAX]; /* which the tasks of others enter; "": they don't, or are in it as
			      * slurmd has started their daemon there (EntireStepInNS) */
};

/* Of the job with this init. site may say that there is one, conf_path is its slurm.conf. 0 or
 * -errno: the settings can't be read. */
int job_namespace_find(const void *data, const struct slurm_frame *frame,
	const struct slurm_node_conf *conf, const struct site_conf *site, const char *conf_path,
	uint32_t job_id, struct job_namespace *ret_namespace, struct err *err) _must_check_;

#endif
