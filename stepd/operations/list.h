/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Long replies, made bit by bit: an array for each of whose elements a process is read. Between two
 * bits the agent's loop goes on, and the next piece is made when the one before it is taken.
 */
#ifndef STEPD_FRONTEND_LIST_H
#define STEPD_FRONTEND_LIST_H

#include "stepd/operations/operations_impl.h"

struct listing {
	struct pending pending;
	const char *field; /* of the reply, "pids" */
	size_t n, at;      /* elements, and the next of them */
	size_t piece_max;  /* elements of a reply; the call wants more, or n is not above it */
	bool reads;        /* a process is read for an element */
	/* Writes listing_comma() and the element at l->at to l->out, or nothing where it is no
	 * more. True: it has. */
	bool (*add)(struct listing *l);
	bool one; /* the field is the element itself; NoSuchProcess if there is none */
	void (*clear)(struct listing *l); /* of what follows it; NULL: there is nothing */
	void *elements;                   /* of the operation's own kind; freed with the listing */
	int proc_fd;                      /* /proc, -1: not open */
	FILE *out;                        /* of the text of a piece; NULL: none is begun */
	char *text;
	size_t text_size;
	size_t in_piece;
	ev_timer turn;
};

/* size as pending_new(). NULL: the call has got its error. */
void *listing_new(struct operations *o, struct op_call *call, size_t size, const char *field,
	bool (*add)(struct listing *l));

/* "," before any element but the first. */
const char *listing_comma(const struct listing *l);

/* All is set: replies, now as far as it goes. */
void listing_run(struct listing *l);

#endif
