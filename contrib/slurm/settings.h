/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the site has set in stepd.conf for a slurmd that starts stepd-slurmstepd, and where Slurm's
 * own step daemon is.
 */
#ifndef SLURM_SETTINGS_H
#define SLURM_SETTINGS_H

#include "contrib/slurm/rules.h"

struct slurm_settings {
	char *stepd_path; /* NULL: one of the usual places */
	char *record_dir; /* NULL: no init is kept */
	bool serves[SLURM_KIND_MAX];
	struct rules handover;
};

void slurm_settings_clear(struct slurm_settings *settings);
#define _cleanup_slurm_settings_ _cleanup_(slurm_settings_clear)

/* From the file that STEPD_CONFIG of the environment names, else the site's. After a
 * fault nothing is to be served: what a site has kept from it may stand behind the fault. */
int slurm_settings_read(struct slurm_settings *settings, struct err *err) _must_check_;

/* The real slurmstepd: borrowed. -ENOENT: there is none; -ELOOP: it is this program. */
int slurm_settings_find(
	const struct slurm_settings *settings, const char **ret_path, struct err *err) _must_check_;

#endif
