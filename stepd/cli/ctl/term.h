/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Output for people: the width and the abilities of the terminal; texts of others (names of
 * commands, users, nodes), which must never move a cursor; and tables.
 */
#ifndef STEPD_CLI_CTL_TERM_H
#define STEPD_CLI_CTL_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "stepd/base/cleanup.h"

struct term {
	int width, height; /* 0: unlimited */
	bool is_terminal;
	bool colour;
	bool utf8; /* by the locale that setlocale(3) has set */
};

/* The terminal at fd, or $COLUMNS where there is none. */
struct term term_detect(int fd);
void term_measure(struct term *term, int fd);

/* Colours, "" where there is none. */
enum term_paint {
	TERM_PLAIN,
	TERM_BOLD,
	TERM_DIM,
	TERM_GOOD,
	TERM_NOTICE,
	TERM_BAD,
	TERM_PAINT_MAX,
};
const char *term_paint(const struct term *term, enum term_paint paint);
const char *term_unpaint(const struct term *term, enum term_paint paint);

/* The colour of a step's state, or of its dead agent. */
enum term_paint term_paint_of(const char *state);

/* text with a '?' in place of each byte or character that is not printable in the locale, cut to
 * most columns with a mark at the end. The caller frees it; NULL: no memory. */
#define TERM_WHOLE 0
char *term_printable(const struct term *term, const char *text, int most);

/* ---- tables: as wide as their cells, or as the terminal ------------------------------------ */

/* Columns that may shrink do so first, the widest before others; then columns are left out. */
struct column {
	const char *title;
	bool right; /* aligned so */
	int least;  /* may shrink to this width; 0: never */
	int drop;   /* the larger, the sooner it is left out; 0: never */
};

#define TABLE_COLUMNS_MAX 16

struct table {
	const struct column *columns;
	size_t n;
	const struct term *term;
	struct cell *cells; /* rows * n */
	size_t rows, capacity;
	int most[TABLE_COLUMNS_MAX]; /* columns of the widest cell */
	bool no_memory;
};

#define TABLE_INIT(c, t)                                                                           \
	{                                                                                          \
		.columns = (c), .n = ARRAY_SIZE(c), .term = (t)                                    \
	}

/* Adds a row of table->n cells, whose texts are copied and made printable. */
void table_add(struct table *table, const char *const *cells);

/* Paints a cell of the last row. */
void table_paint(struct table *table, size_t column, enum term_paint paint);

/* 0 or -ENOMEM, also of what was added before. lines: print no more than so many, 0: all. */
int table_print(const struct table *table, FILE *out, size_t lines) _must_check_;

void table_clear(struct table *table);
#define _cleanup_table_ _cleanup_(table_clear)

#endif
