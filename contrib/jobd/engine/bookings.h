/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Bookings: the nodes and parts of nodes that running and planned jobs have from one time to
 * another. Most have whole nodes; a part of a node is a share, with its cores and its memory.
 * Running jobs are booked only if they have shares.
 */
#ifndef JOBD_ENGINE_BOOKINGS_H
#define JOBD_ENGINE_BOOKINGS_H

#include "contrib/jobd/engine/grow.h"
#include "stepd/api/select.h"

struct booking {
	time_t begin, end;
	uint32_t first_part, parts_count;
	bool has_shares;
	bool runs; /* so the select plugin knows it */
};

/* A node of a booking. Numbers of bookings, parts and shares begin with 1; 0 is none. */
struct part {
	uint32_t node, next; /* of the same node */
	uint32_t booking;    /* its number */
	uint32_t share;      /* 0: all of the node */
};

struct share {
	uint64_t memory; /* MB */
	uint32_t cpus;
	uint32_t first_core, cores_count; /* among cores */
};

/* The bookings of a quarter of an hour. */
struct block {
	LIST(uint32_t) active; /* numbers of bookings that overlap it */
	LIST(uint32_t) begun;  /* those of them that begin in it */
	bitstr_t *nodes;       /* booked as a whole at some moment of it */
};

struct bookings {
	time_t now;
	LIST(struct booking) list;
	LIST(struct part) parts;
	LIST(struct share) shares;
	LIST(bitoff_t) cores; /* by their numbers in the cluster */
	uint32_t *last_parts; /* by node: the number of its last part */
	bitstr_t *shared;     /* nodes with shares */

	/* Planned jobs by time, without the long ones. */
	LIST(struct block) blocks;
	size_t blocks_used, whole_parts;
	LIST(uint32_t) long_ones;

	bitstr_t *exc_cores; /* those of exc_shares; NULL: not needed yet */
	LIST(uint32_t) exc_shares;
	uint64_t *core_mask; /* of a node; all clear */
};

/* -ENOMEM */
int bookings_make(struct bookings *b);
void bookings_clear(struct bookings *b);

/* Removes all bookings, and sets the time. */
void bookings_begin(struct bookings *b, time_t now);

/* Adds a booking and returns its number; then a whole node to it, or r's part of its k-th node,
 * which is this one. holds_cores: its cores are not given to others. */
uint32_t bookings_add(struct bookings *b, time_t begin, time_t end, bool runs);
void bookings_add_node(struct bookings *b, uint32_t booking, uint32_t node);
struct share *bookings_add_share(struct bookings *b, uint32_t booking, uint32_t node,
	const job_resources_t *r, uint32_t k, bool holds_cores);
/* Whether r has only a part of its k-th node, which is this one. r NULL: all of it. */
bool bookings_is_share(const job_resources_t *r, uint32_t node, uint32_t k);

/* All parts of a booking. */
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

/* Free CPUs of a node at a moment. */
uint32_t bookings_get_free(const struct bookings *b, uint32_t node, time_t t);

/* CPUs of all cores that are free from one time to another; and the least free memory, in MB. */
uint32_t bookings_get_cpus(struct bookings *b, uint32_t node, time_t from, time_t to);
uint64_t bookings_get_memory(const struct bookings *b, uint32_t node, time_t from, time_t to);

/* Whether a planned job has something of the node. */
bool bookings_is_booked(const struct bookings *b, uint32_t node, time_t from, time_t to);

/* Removes nodes that are booked as a whole from nodes. Returns the booked cores of the other nodes,
 * valid until the next call; NULL: none. */
const bitstr_t *bookings_leave(struct bookings *b, time_t from, time_t to, bitstr_t *nodes);

/* Whether the cores and the memory of r on its k-th node, which is this one, are not booked. */
bool bookings_has_capacity(const struct bookings *b, const job_resources_t *r, uint32_t node,
	uint32_t k, time_t from, time_t to);

#endif
