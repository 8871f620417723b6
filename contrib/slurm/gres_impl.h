/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Between gres.c, which knows what a step has, and gres_bind.c, which shares it out to its tasks.
 */
#ifndef SLURM_GRES_IMPL_H
#define SLURM_GRES_IMPL_H

#include "contrib/slurm/decision.h"
#include "contrib/slurm/gres.h"
#include "stepd/base/bitset.h"

#define GRES_INDEX_MAX 65536u

/* Slurm's own. */
enum gres_plugin {
	GRES_NONE, /* there is none, or an unknown one */
	GRES_GPU,
	GRES_MPS,
	GRES_NIC,
	GRES_SHARD,
	GRES_PLUGIN_MAX,
};

/* A kind of the node's. */
struct gres_kind {
	uint32_t flags, id;
	const char *name;
	enum gres_plugin plugin;
	uint16_t release;
	uint32_t devices; /* so many follow */
	const uint8_t *bytes;
	size_t size;
	uint32_t env_flags; /* which variables the node's devices have */
	uint32_t shares;    /* of the devices, so many: two u64, how many it has, and its number */
	const uint8_t *share_bytes;
};

struct gres_device {
	uint32_t index;  /* of several files with the same one they are one device */
	uint32_t number; /* at the end of its name */
	uint32_t type, major, minor;
	uint32_t flags; /* from 25.11 on */
	const char *unique_id;
};

/* What a step, or a script's job, has of a kind on this node, of all types together. */
struct gres_share {
	bool given;            /* the credential has the kind */
	bool has_devices;      /* and which devices of this node */
	uint32_t size;         /* so many the node has */
	struct bitset devices; /* by their indexes */
	uint64_t count;
};

void gres_share_clear(struct gres_share *share);
#define _cleanup_gres_share_ _cleanup_(gres_share_clear)

/* Takes the next one from the rest; false: there is none. */
bool gres_next_kind(struct gres_kinds *rest, struct gres_kind *ret_kind);
/* Its devices are another kind's, of which it has parts. */
bool gres_is_shared(const struct gres_kind *kind);
/* Variables have devices' UUIDs, or their numbers in the node where a step's own are meant. */
bool gres_has_uuids(const struct gres_kind *kind);
/* False: there is nothing but a count. */
bool gres_has_devices(const struct gres_kind *kind);
bool gres_next_device(struct gres_kind *rest, struct gres_device *ret_device);

/* 0 or -errno; the share is to be cleared. */
int gres_find_share(const struct slurm_init *init, const struct gres_kind *kind,
	struct gres_share *share) _must_check_;

/* ---- variables ----------------------------------------------------------------------------- */

/* The numbers that variables have: as the step counts its devices, and as the node does. */
struct gres_lists {
	char *local, *global;
	uint32_t considered; /* so many of the step's */
	int32_t first;       /* the number of the first one's file; -1: there is none */
};

void gres_lists_clear(struct gres_lists *lists);
#define _cleanup_gres_lists_ _cleanup_(gres_lists_clear)

/* usable: those of them that a task has, by the number that variables give them; NULL: all. */
int gres_make_lists(const struct gres_kind *kind, const struct gres_share *share,
	const struct bitset *usable, bool local, struct gres_lists *lists) _must_check_;

/* Whose variables they are. */
struct gres_variables {
	struct json_t *env;
	bool of_job;  /* a script's */
	bool protect; /* those that are not set have been set by another kind */
};

/* Of the plugins gpu and nic; without lists they are removed. */
int gres_set_gpus(const struct gres_variables *v, const struct gres_kind *kind,
	const struct gres_share *share, const struct gres_lists *lists) _must_check_;
int gres_set_nics(const struct gres_variables *v, const struct gres_lists *lists) _must_check_;

/* ---- devices ------------------------------------------------------------------------------- */

/* The devices of a kind, by their names: true for those that are in the set, of those of the share.
 * One that several kinds have is the step's if any of them gives it. usable: NULL: all. */
int gres_add_devices(struct json_t *names, const struct gres_kind *kind,
	const struct gres_share *share, const struct bitset *usable) _must_check_;

/* As a spec's limits have it; NULL: nothing is refused. */
int gres_list_devices(const struct json_t *names, struct json_t **ret_devices) _must_check_;

#endif
