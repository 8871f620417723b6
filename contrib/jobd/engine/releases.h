/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What jobs of now leave when, by the ends that their time limits give them: nodes of which
 * something is free, and nodes without such jobs. Both only grow.
 */
#ifndef JOBD_ENGINE_RELEASES_H
#define JOBD_ENGINE_RELEASES_H

#include <time.h>

#include "contrib/jobd/engine/grow.h"
#include "stepd/api/bitstring.h"

/* At this time something of a node is free, or no job of now is there any more; or both of all
 * nodes that a job has alone. */
struct release {
	time_t when;
	const bitstr_t *nodes; /* of the job; NULL: */
	uint32_t node;
	bool some, all;
};

/* Both after so many releases: a bitmap of any time is that of the last checkpoint before it, and
 * what was released between them. */
struct checkpoint {
	bitstr_t *some, *clear;
};

struct releases {
	LIST(struct release) list; /* by their times */
	LIST(struct checkpoint) checkpoints;
	size_t checkpoints_made;
	const bitstr_t *up; /* other nodes are not released; NULL: all are up */
	bool of_nodes;      /* some of them are, so that the bitmaps differ */
};

void releases_clear(struct releases *r);
/* Of now. up is as long as it is used. */
void releases_begin(
	struct releases *r, const bitstr_t *some, const bitstr_t *clear, const bitstr_t *up);
/* Not before the last one. */
void releases_add(struct releases *r, const struct release *release);

/* Fills both as they are at a time. */
void releases_get(struct releases *r, time_t t, bitstr_t *ret_some, bitstr_t *ret_clear);

/* The first time, until t, at which something of so many of these nodes is free: those of which it
 * is, and others. False: there is none. */
bool releases_find(
	struct releases *r, time_t t, const bitstr_t *nodes, uint32_t wanted, bitstr_t *ret_some);

#endif
