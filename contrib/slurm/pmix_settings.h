/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What mpi.conf has of Slurm's mpi/pmix, and a step's environment, which counts more, as far as it
 * means something here. The file stands beside slurm.conf, and is refused if others than root could
 * change it.
 */
#ifndef SLURM_PMIX_SETTINGS_H
#define SLURM_PMIX_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "contrib/slurm/launch.h"
#include "contrib/slurm/pmix_messages.h"

struct pmix_settings {
	bool direct; /* PMIxDirectConn: step daemons connect to each other */
	bool native; /* PMIxDirectSameArch: heads of messages have the machine's byte order */
	bool by_ucx; /* PMIxDirectConnUCX: they do by UCX, which is not known here */
	/* PMIxCollFence; SLURM_PMIX_KIND_MAX: those with data by ring, the others by tree. */
	enum slurm_pmix_kind kind;
	uint32_t timeout_s; /* PMIxTimeout, of fences and of the data of a rank */
	char *tmpdir;       /* PMIxCliTmpDirBase; NULL: none */
	char *env;          /* PMIxEnv, "NAME=VALUE;..."; NULL: none */
};

void pmix_settings_clear(struct pmix_settings *settings);
#define _cleanup_pmix_settings_ _cleanup_(pmix_settings_clear)

/* slurm_conf: the path of that file. Without an mpi.conf the defaults hold. */
int pmix_settings_read(const char *slurm_conf, const struct slurm_launch *launch,
	struct pmix_settings *settings, struct err *err) _must_check_;

/* The next of PMIxEnv: its name, and the value; both end where the next begins. False: that was the
 * last. */
bool pmix_settings_next(
	const char **rest, struct slice *ret_name, struct slice *ret_value) _must_check_;

#endif
