/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The limits of a step on this node where TaskPlugin has task/cgroup: the cores, the memory and the
 * devices that the credential gives it, as far as cgroup.conf has them constrained, for the limits
 * of a step's spec. Those of cores and memory need the controllers of cgroup v2, and so a container
 * in the scope that slurmd has made for the node's steps.
 */
#ifndef SLURM_STEP_LIMITS_H
#define SLURM_STEP_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct json_t;
struct slurm_cgroup_conf;
struct slurm_init;
struct slurm_launch;

/* Above high_bytes the kernel slows down; swap_bytes: in addition to the memory. */
struct memory_limits {
	uint64_t max_bytes, high_bytes, swap_bytes;
};

struct step_limits {
	bool any;
	char *cgroup_root;         /* NULL: anywhere */
	char *scope;               /* where the job's cgroup, the root, is made; NULL: nowhere */
	char *cpus;                /* "0-3,8"; NULL: all */
	struct json_t *devices;    /* as in a spec; NULL: all */
	bool has_memory, has_swap; /* which of them are limited */
	struct memory_limits step; /* with has_memory */
	bool kills_all;            /* where a process of the step is killed for lack of it */
	struct memory_limits job;  /* of all steps of the job together: job_cgroup.h */
};

void step_limits_clear(struct step_limits *limits);
#define _cleanup_step_limits_ _cleanup_(step_limits_clear)

/* What is found before a failure is to be cleared, too. -EOPNOTSUPP: one of them can't be had here;
 * -EBADMSG: the credential does not say which they are. */
int step_limits_find(
	const struct slurm_init *init, struct step_limits *limits, struct err *err) _must_check_;

/* Whether a group of slurmd's scope is a job's by its name. */
bool step_limits_is_job_name(const char *name);

/* What all steps of the job may have together on this node, as its launch has it; 0: no limit. */
uint64_t step_limits_job_mb(const struct slurm_launch *launch);

/* The limits of memory alone, with that one of the job in the place of its launch's. */
int step_limits_find_memory(const struct slurm_init *init, uint64_t job_mb,
	struct step_limits *limits, struct err *err) _must_check_;

/* Whether steps on this node can have the limits of cgroup.conf. *ret_root, for free(): where their
 * containers are then; NULL: anywhere. -EOPNOTSUPP: they can't. */
int step_limits_check(const struct slurm_cgroup_conf *conf, const char *node, char **ret_root,
	struct err *err) _must_check_;

/* Into a step's document. 0 or -errno. */
int step_limits_set(struct json_t *doc, const struct step_limits *limits) _must_check_;

/* Those of memory, into the limits of a document or of a call of SetLimits. 0 or -errno. */
int step_limits_set_memory(
	struct json_t *limits_object, const struct step_limits *limits) _must_check_;

#endif
