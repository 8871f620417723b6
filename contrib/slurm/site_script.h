/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A script of the site's that Slurm runs as root in a step daemon, such as InitScript of
 * job_container.conf: with variables of Slurm alone, nothing to read, in a process group of its
 * own, and within a time. What it writes is shown where it fails.
 */
#ifndef SLURM_SITE_SCRIPT_H
#define SLURM_SITE_SCRIPT_H

#include "stepd/base/err.h"

struct site_script {
	const char *setting; /* "InitScript", for messages */
	const char *path;    /* absolute */
	char *const *env;    /* NULL-terminated */
	unsigned timeout_ms;
};

/* Waits for its end; what else is in its group is ended then. -EPERM: others than root can change
 * it; -EREMOTEIO: it has failed; -ETIMEDOUT. */
int site_script_run(const struct site_script *script, struct err *err) _must_check_;

#endif
