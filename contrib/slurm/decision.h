/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What is against serving a step here: one table of reasons, of which the first that holds counts.
 * A step without any is served, if the site has chosen its kind.
 */
#ifndef SLURM_DECISION_H
#define SLURM_DECISION_H

#include "contrib/slurm/job_namespace.h"
#include "contrib/slurm/launch.h"
#include "contrib/slurm/step_limits.h"

struct site_conf;

enum slurm_reason {
	SLURM_REASON_RELEASE, /* unknown */
	SLURM_REASON_SWITCH,  /* its data have no length */
	SLURM_REASON_UNREADABLE,
	SLURM_REASON_STEP_MANAGER,
	SLURM_REASON_CONTAINER,
	SLURM_REASON_NAMESPACE,
	SLURM_REASON_TLS,
	SLURM_REASON_NOT_SERVED, /* its kind is not among those of slurm_serve */
	SLURM_REASON_RULE,       /* one of slurm_handover */
	SLURM_REASON_OTHER_RELEASE,
	SLURM_REASON_SITE, /* what slurm.conf has */
	SLURM_REASON_PROFILE,
	SLURM_REASON_USAGE, /* of networks and file systems */
	SLURM_REASON_FREQUENCY,
	SLURM_REASON_PROLOG, /* of the job, in its extern step */
	SLURM_REASON_GRES,
	SLURM_REASON_LIMITS, /* of task/cgroup */
	SLURM_REASON_DEBUGGER,
	SLURM_REASON_CHILDREN, /* whose end the tasks wait for */
	SLURM_REASON_BINDING,
	SLURM_REASON_MPI,
	SLURM_REASON_MPI_NODES,
	SLURM_REASON_SPANK,
	SLURM_REASON_FILES,
	SLURM_REASON_ADDRESS,
	SLURM_REASON_ARBITRARY,
	SLURM_REASON_NONE, /* it is served */
	SLURM_REASON_MAX,
};

/* An init as far as it was understood. */
struct slurm_init {
	int error; /* of slurm_init_missing(), or of its reading; else of decoding */
	struct slurm_frame frame;
	struct slurm_node_conf conf;
	struct slurm_launch launch;
	struct slurm_cgroup_conf cgroup;
	struct gres_kinds kinds;
	struct gres_conf gres_conf;
	bool has_launch; /* launch says at least which step it is */
	struct err err;  /* where decoding failed */
	/* Of steps whose kind the site has chosen; set by the caller. */
	bool chosen;
	const char *rule;             /* of slurm_handover, which holds for the step; NULL: none */
	struct err rule_err;          /* why it could not be applied */
	const struct site_conf *site; /* NULL: site_err has why */
	struct err site_err;
	struct step_limits limits;
	struct job_namespace name_space;
	/* Their codes are 0: nothing is against them. */
	struct err limits_err, gres_err, namespace_err;
};

/* Decodes what slurm_init_missing() has accepted, or refused with this error. */
void slurm_init_decode(
	struct slurm_init *init, const void *data, const struct slurm_frame *frame, int error);

/* Whether the node's gres.conf follows, as slurmd sends it to a step that is bound to devices:
 * slurm_init_missing_gres_conf(). Then the init is decoded once more. */
bool slurm_init_has_gres_conf(const struct slurm_init *init);

/* Whether frame.self has to be found, of which slurmd says nothing from 23.11 on: where PMI-2 goes
 * by levels, the part of a node above is sent on by this node's slurmd. */
bool slurm_needs_own_address(const struct slurm_init *init);

enum slurm_reason slurm_decide(const struct slurm_init *init);

/* The reason in words, as a sentence for the log. */
#define SLURM_REASON_SIZE (ERR_TEXT_SIZE + 64)
void slurm_reason_print(const struct slurm_init *init, enum slurm_reason reason,
	char text[static SLURM_REASON_SIZE]);

/* The sentence of its row. */
const char *slurm_reason_text(enum slurm_reason reason);

/* Its row's word, for documents: "container". */
const char *slurm_reason_name(enum slurm_reason reason);

#endif
