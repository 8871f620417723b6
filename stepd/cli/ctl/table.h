/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tables for people: as wide as their cells, or as the terminal. Columns that may shrink do so
 * first, the widest before others; then columns that can be missed are left out.
 */
#ifndef STEPD_CLI_CTL_TABLE_H
#define STEPD_CLI_CTL_TABLE_H

#include <stdio.h>

#include "stepd/base/cleanup.h"
#include "stepd/cli/ctl/term.h"

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
	char **cells; /* rows * n */
	enum term_paint *paints;
	size_t rows, room;
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
