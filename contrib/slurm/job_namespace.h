/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The mount namespace of a job, with a /tmp of its own, where the site has Slurm's plugin tmpfs:
 * job_container/tmpfs, which is called namespace/tmpfs from 26.05 on. The job's extern step makes
 * it, binds it to BasePath/JOB/.ns, and takes it away: job_tmpfs.h; tasks of the others enter it.
 * From 24.11 on slurmd sends the plugin's settings, job_container.conf, to each step; before, they
 * are read where slurm.conf is.
 */
#ifndef SLURM_JOB_NAMESPACE_H
#define SLURM_JOB_NAMESPACE_H

#include <stdbool.h>

#include "contrib/slurm/init.h"
#include "stepd/base/err.h"

struct site_conf;

/* Whether a plugin is this one, or another one; NULL and "" are none. */
bool job_namespace_is_tmpfs(const char *plugin);
bool job_namespace_is_other(const char *plugin);

struct job_namespace {
	char *path;      /* NULL: jobs have none on this node */
	bool is_entered; /* by the tasks of others than extern steps; else they are in it, as slurmd
			  * has started their daemon there (EntireStepInNS) */
	/* For the extern step. NULL: the setting is not there. */
	char *base;     /* BasePath, with the node's name where Slurm puts it in */
	char *dirs;     /* "/tmp,/dev/shm"; NULL: as 22.05 has it */
	bool is_shared; /* what is mounted on the node later is seen in it */
	char *init_script, *clone_script, *clone_epilog;
	uint32_t clone_script_timeout_s, clone_epilog_timeout_s;
};

void job_namespace_clear(struct job_namespace *name_space);
#define _cleanup_job_namespace_ _cleanup_(job_namespace_clear)

/* What tasks enter; "": nothing. */
const char *job_namespace_entered(const struct job_namespace *name_space);

/* Of the job with this init. site may say that there is one, conf_path is its slurm.conf. 0 or
 * -errno: the settings can't be read. */
int job_namespace_find(const void *data, const struct slurm_frame *frame,
	const struct slurm_node_conf *conf, const struct site_conf *site, const char *conf_path,
	uint32_t job_id, struct job_namespace *ret_namespace, struct err *err) _must_check_;

#endif
