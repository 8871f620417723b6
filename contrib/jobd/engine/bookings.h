/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Who has what of which node from when to when: jobs that run, and jobs that are planned. Most have
 * all of their nodes; what has a part of one is a share, with the cores and the memory that it has.
 * Of jobs that run there are only those with shares here.
 */
#ifndef JOBD_ENGINE_BOOKINGS_H
#define JOBD_ENGINE_BOOKINGS_H

#include "contrib/jobd/engine/grow.h"
#include "stepd/api/select.h"

struct booking {
	time_t begin, end;
	uint32_t first_part, parts_count;
	bool has_shares;
	bool runs; /* so the select plugin knows of it */
};

/* A node that somebody has. Places in lists begin with 1: 0 is none. */
struct part {
	uint32_t node, next; /* of the same node */
	uint32_t booking;    /* its place */
	uint32_t share;      /* 0: all of the node */
};

struct share {
	uint64_t memory; /* MB */
	uint32_t cpus;
	uint32_t first_core, cores_count; /* among cores */
};

/* A quarter of an hour. */
struct block {
	LIST(uint32_t) active; /* places of bookings that have some of it */
	LIST(uint32_t) begun;  /* those of them that begin in it */
	bitstr_t *nodes;       /* that are booked as a whole at any moment of it */
};

struct bookings {
	time_t now;
	LIST(struct booking) list;
	LIST(struct part) parts;
	LIST(struct share) shares;
	LIST(bitoff_t) cores; /* by the numbers of the cluster */
	uint32_t *last_parts; /* by node: the place of its last part */
	bitstr_t *shared;     /* nodes with shares */

	/* Those that do not run, by time; but for long ones. */
	LIST(struct block) blocks;
	size_t blocks_used, whole_parts;
	LIST(uint32_t) long_ones;

	bitstr_t *exc_cores; /* those of exc_shares; NULL: none were needed yet */
	LIST(uint32_t) exc_shares;
	uint64_t *core_mask; /* of a node; all clear */
};

/* -ENOMEM */
int bookings_make(struct bookings *b);
void bookings_clear(struct bookings *b);

/* Nothing is booked. */
void bookings_begin(struct bookings *b, time_t now);

/* A new one's place; then what it has: all of a node, or what r has of its k-th one, this one.
 * holds_cores: others don't get them. */
uint32_t bookings_add(struct bookings *b, time_t begin, time_t end, bool runs);
void bookings_add_node(struct bookings *b, uint32_t booking, uint32_t node);
struct share *bookings_add_share(struct bookings *b, uint32_t booking, uint32_t node,
	const job_resources_t *r, uint32_t k, bool holds_cores);
/* r has only a part of its k-th node, this one. NULL: all of it. */
bool bookings_is_share(const job_resources_t *r, uint32_t node, uint32_t k);

/* All that it has. */
static inline const struct part *bookings_get_parts(
	const struct bookings *b, uint32_t booking, uint32_t *ret_count)
{
	*ret_count = b->list.items[booking - 1].parts_count;
	return &b->parts.items[b->list.items[booking - 1].first_part];
}

static inline const struct share *bookings_get_share(
	const struct bookings *b, const struct part *part)
{
	return part->share ? &b->shares.items[part->share - 1] : NULL;
}

static inline uint64_t node_memory_limit(const node_record_t *node)
{
	return node->real_memory > node->mem_spec_limit ? node->real_memory - node->mem_spec_limit
							: 0;
}

/* CPUs that are free of a node at a moment. */
uint32_t bookings_get_free(const struct bookings *b, uint32_t node, time_t t);

/* Of all cores that nobody has from one time to another; and the least MB. */
uint32_t bookings_get_cpus(struct bookings *b, uint32_t node, time_t from, time_t to);
uint64_t bookings_get_memory(const struct bookings *b, uint32_t node, time_t from, time_t to);

/* Somebody who does not run yet has something of it. */
bool bookings_is_booked(const struct bookings *b, uint32_t node, time_t from, time_t to);

/* Takes nodes that are booked as a whole out of nodes. Returns the cores that are booked of the
 * others, until the next call; NULL: none. */
const bitstr_t *bookings_leave(struct bookings *b, time_t from, time_t to, bitstr_t *nodes);

/* What r has of its k-th node, a part of it, is not booked: these cores, and so much memory. */
bool bookings_has_room(const struct bookings *b, const job_resources_t *r, uint32_t node,
	uint32_t k, time_t from, time_t to);

#endif
