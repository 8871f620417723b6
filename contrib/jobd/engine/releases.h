/* SPDX-License-Identifier: BSD-3-Clause
 *
 * When running jobs release nodes, by the ends that their time limits give them: bitmaps of nodes
 * of which something is free, and of nodes without running jobs. Both only grow over time.
 */
#ifndef JOBD_ENGINE_RELEASES_H
#define JOBD_ENGINE_RELEASES_H

#include <time.h>

#include "contrib/jobd/engine/grow.h"
#include "stepd/api/bitstring.h"

/* At this time something of a node becomes free, or its last running job ends; or both, on all
 * nodes that a job has alone. */
struct release {
	time_t when;
	const bitstr_t *nodes; /* of the job; NULL: */
	uint32_t node;
	bool some, all;
};

/* Both bitmaps after so many releases: a bitmap of any time is that of the last checkpoint before
 * it, with what was released since. */
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
/* The bitmaps of now. up is borrowed. */
void releases_begin(
	struct releases *r, const bitstr_t *some, const bitstr_t *clear, const bitstr_t *up);
/* release must not be earlier than the last one. */
void releases_add(struct releases *r, const struct release *release);

/* Fills both bitmaps as of a time. */
void releases_get(struct releases *r, time_t t, bitstr_t *ret_some, bitstr_t *ret_clear);

/* Whether something of so many of these nodes is free at some time until t. ret_some: the bitmap as
 * of the first such time, which may have other nodes, too. */
bool releases_find(
	struct releases *r, time_t t, const bitstr_t *nodes, uint32_t wanted, bitstr_t *ret_some);

#endif
