/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Long answers, made bit by bit: an array whose elements each cost a look at a process. Between two
 * bits the agent's loop goes on, and the next piece is made when the one before it is taken.
 */
#ifndef STEPD_FRONTEND_LISTING_H
#define STEPD_FRONTEND_LISTING_H

#include "stepd/frontend/methods_impl.h"

/* JSON text that grows. */
struct text {
	char *p;
	size_t size, room;
	bool failed; /* no memory; what is added then is dropped */
};

void text_add(struct text *text, const char *piece);
void text_add_number(struct text *text, int64_t n);
void text_clear(struct text *text);
#define _cleanup_text_ _cleanup_(text_clear)

struct listing {
	struct kept kept;
	const char *field; /* of the answer, "pids" */
	size_t n, at;      /* elements to look at, and the next of them */
	size_t piece_max;  /* elements of an answer; the call wants more, or n is not above it */
	bool looks;        /* an element costs a look at a process */
	/* Adds the element at l->at, without comma, or nothing where it is no more. True: it has.
	 */
	bool (*add)(struct listing *l);
	bool one; /* the field is the element itself; NoSuchProcess if there is none */
	void (*clear)(struct listing *l); /* of what follows it; NULL: there is nothing */
	void *elements;                   /* of the method's own kind; freed with the listing */
	int proc_fd;                      /* /proc, -1: not open */
	struct text text;
	size_t in_piece;
	ev_timer turn;
};

/* size as kept_new(). NULL: the call has got its error. */
void *listing_new(struct methods *m, struct control_call *call, size_t size, const char *field,
	bool (*add)(struct listing *l));

/* All is set: answers, now as far as it goes. */
void listing_run(struct listing *l);

#endif
