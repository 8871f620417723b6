/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of Slurm's mpi/pmi2 between the nodes of a step and srun, 22.05, as Slurm packs them; to
 * srun a length stands before each, as before its reply. Each begins with a u16:
 *
 *	0 fence        up: u32 node, text its name, u32 nodes that it speaks for, u32 number, pairs;
 *	               also to the node above, pmi_gather.h
 *	1 fenced       down, to all: u32 number, pairs of all nodes
 *	4 publish      up: text name, text port; reply: u32 result
 *	5 unpublish    up: text name; reply: u32 result
 *	6 lookup       up: text name; reply: text port, NULL: there is none
 *
 * Pairs are texts, key and value, to the end. The fences of a step are numbered from 1. 2, 3, 7 and
 * 8, of spawns and rings, are not read here.
 */
#ifndef SLURM_PMI_MESSAGES_H
#define SLURM_PMI_MESSAGES_H

#include "contrib/slurm/pack.h"
#include "mpi/pmi/manager.h"

/* Larger ones are refused, as a user may send them; of a query the name and the port. */
#define SLURM_PMI_MAX       (64u << 20)
#define SLURM_PMI_QUERY_MAX (64u << 10)

enum slurm_pmi_type {
	SLURM_PMI_FENCE,
	SLURM_PMI_FENCED,
	SLURM_PMI_SPAWN,
	SLURM_PMI_SPAWNED,
	SLURM_PMI_PUBLISH,
	SLURM_PMI_UNPUBLISH,
	SLURM_PMI_LOOKUP,
	SLURM_PMI_RING,
	SLURM_PMI_RUNG,
	SLURM_PMI_TYPE_MAX,
};

/* pairs as the manager's link has them. -EBADMSG: they are none. */
int slurm_pmi_pack_pairs(struct pack *p, struct slice pairs) _must_check_;

/* Of a fence, of a node and those below it. */
struct slurm_pmi_part {
	uint32_t node;
	const char *name;
	uint32_t nodes;     /* that it speaks for */
	uint32_t number;    /* of the fence */
	struct slice pairs; /* as slurm_pmi_pack_pairs() packs them */
};

void slurm_pmi_fence(struct pack *p, const struct slurm_pmi_part *part);

/* Reads a whole one of another node: *ret_part is borrowed. -EBADMSG. */
int slurm_pmi_read_fence(struct slice message, struct slurm_pmi_part *ret_part) _must_check_;

/* The type of a message; SLURM_PMI_TYPE_MAX: it is unknown. */
enum slurm_pmi_type slurm_pmi_type(struct slice message);

/* Reads a whole fenced one: adds its pairs as the manager's link has them. -EBADMSG, -ENOMEM. */
int slurm_pmi_fenced(struct slice message, uint32_t *ret_number, struct bytes *pairs) _must_check_;

/* A query about a name; -EBADMSG: of an unknown kind; -EMSGSIZE: it is larger than others are. */
int slurm_pmi_query(
	struct pack *p, uint32_t query, struct slice name, struct slice value) _must_check_;

/* The reply to it. *ret_value is borrowed, of a lookup alone. */
enum manager_status slurm_pmi_reply(uint32_t query, struct slice reply, struct slice *ret_value);

#endif
