/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The launch message of an init (init.h): a step's tasks, or a batch script, with the credential
 * that slurmd has verified.
 */
#ifndef SLURM_LAUNCH_H
#define SLURM_LAUNCH_H

#include "contrib/slurm/init.h"

enum slurm_step_kind {
	SLURM_KIND_SRUN,
	SLURM_KIND_BATCH,
	SLURM_KIND_EXTERN,
	SLURM_KIND_INTERACTIVE,
	SLURM_KIND_HET, /* an srun step of a heterogeneous job */
	SLURM_KIND_MAX,
};

/* "srun", for messages. */
const char *slurm_kind_name(enum slurm_step_kind kind);

#define SLURM_STEP_EXTERN      0xfffffffcu
#define SLURM_STEP_BATCH       0xfffffffbu
#define SLURM_STEP_INTERACTIVE 0xfffffffau

/* "4.0", "4.batch", "4.0+1" of a het job. */
#define SLURM_LABEL_SIZE 40
void slurm_step_label(const struct slurm_step_id *id, char label[static SLURM_LABEL_SIZE]);

struct slurm_launch {
	enum slurm_step_kind kind;
	struct slurm_step_id id;
	uint32_t uid, gid;
	const char *user;
	uint32_t ntasks, nnodes;
	struct slurm_strs argv, env;
	const char *cwd;
	const char *script; /* of a batch job */
	const char *nodes;
	/* What not every agent can do. */
	const char *container; /* an OCI bundle */
	const char *step_manager;
	const char *tls_cert;
	uint32_t profile; /* bits, of which the first is "none" */
	uint16_t x11;
	uint32_t het_job; /* 0 and SLURM_NO_VAL: none */
	bool has_job;     /* the job's own records follow, which are not read */
	/* Of the plugin for switches, in releases whose messages depend on it; 0: none. */
	uint32_t switch_plugin;
};

/* 0 or -EBADMSG; what was read before the failure is valid. conf is that of the init. */
int slurm_launch_decode(const void *data, const struct slurm_frame *frame,
	const struct slurm_node_conf *conf, struct slurm_launch *launch,
	struct err *err) _must_check_;

#endif
