/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Generic resources, GRES: what the credential gives a job and its step on each node, which devices
 * the node has, and what a step has of it: environment variables, and the devices that it must not
 * open. As the plugins gpu, mps, nic and shard of 22.05 have it; others have no variables. What
 * single tasks have of a step: gres_bind.h.
 */
#ifndef SLURM_GRES_H
#define SLURM_GRES_H

#include "contrib/slurm/unpack.h"
#include "stepd/base/err.h"

struct json_t;
struct slurm_init;

/* Records of a credential, one behind the other as they are packed: one for each kind and type. */
struct gres_records {
	uint16_t n, release;
	bool of_step;
	const uint8_t *bytes;
	size_t size;
};

/* Those that come next, checked. */
struct gres_records gres_unpack_records(struct unpack *u, bool of_step);

/* What slurmd knows of the node's: so many kinds. */
struct gres_kinds {
	uint32_t n;
	uint16_t release;
	const uint8_t *bytes;
	size_t size;
};

/* 0 or -EBADMSG. */
int gres_read_kinds(const void *data, size_t size, uint16_t release, struct gres_kinds *ret_kinds,
	struct err *err) _must_check_;

/* The node's gres.conf, of release 22.05: so many records. */
struct gres_conf {
	uint32_t n;
	const uint8_t *bytes;
	size_t size;
};

/* 0 or -EBADMSG. */
int gres_read_conf(
	const void *data, size_t size, struct gres_conf *ret_conf, struct err *err) _must_check_;

/* Whether what the step has can be read: 0, or -errno. */
int gres_check(const struct slurm_init *init, struct err *err) _must_check_;

/* Whether served steps have the variables and devices of this kind; Slurm itself has no plugin for
 * the others, of which there may be nothing but a count. */
bool gres_has_plugin(const char *name);

/* Sets and removes variables. local: devices are counted as the step sees them, from 0 on. 0 or
 * -errno. */
int gres_set_env(struct json_t *env, const struct slurm_init *init, bool local) _must_check_;

/* A list of devices for a spec's limits: all but those of the node's that the step has not; NULL:
 * there are none of those. 0 or -errno. */
int gres_make_devices(const struct slurm_init *init, struct json_t **ret_devices) _must_check_;

#endif
