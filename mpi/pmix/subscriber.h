/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The servers that have asked for the output of this node's ranks: what each of them wants, and
 * what waits for it. One that has gone is not to be used again: who does something that may end
 * them keeps its number.
 */
#ifndef MPI_PMIX_SUBSCRIBER_H
#define MPI_PMIX_SUBSCRIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct iof;

struct want {
	uint32_t rank;    /* in the step */
	unsigned streams; /* enum link_stream: those that have not ended */
	uint64_t lost[2]; /* bytes left out of each, not told yet */
};

struct chunk {
	struct chunk *next;
	uint32_t rank;
	unsigned stream;
	bool end;
	uint64_t lost;
	size_t size;
	char data[];
};

struct subscriber {
	struct subscriber *next;
	uint32_t node;
	uint64_t number;    /* which one of all that there were */
	struct want *wants; /* by rank, ascending */
	size_t count;
	struct chunk *first, **last;
	size_t queued, flying; /* bytes */
	unsigned under_way;    /* messages that are not answered yet */
	bool told;             /* that bytes were left out */
};

/* NULL: there is none. */
struct subscriber *subscriber_find(const struct iof *iof, uint32_t node);
struct subscriber *subscriber_numbered(const struct iof *iof, uint64_t number);
/* The first one that came after number. */
struct subscriber *subscriber_next(const struct iof *iof, uint64_t number);

/* The one of that node, which is made if there is none; NULL: no memory. */
struct subscriber *subscriber_get(struct iof *iof, uint32_t node);
/* Takes it from the others, and frees it. */
void subscriber_end(struct iof *iof, struct subscriber *sub);

/* What it wants of that rank; NULL: nothing. */
struct want *subscriber_want(const struct subscriber *sub, uint32_t rank);
/* 0, or -ENOMEM. */
int subscriber_add_want(struct subscriber *sub, uint32_t rank, unsigned streams);

/* What any of them wants of that rank: enum link_stream. */
unsigned subscribers_want(const struct iof *iof, uint32_t rank);

#endif
