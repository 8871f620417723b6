/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where tables go: how wide it is and what it can show; and texts of others (names of commands,
 * users, nodes) on their way there, which must never move a cursor.
 */
#ifndef STEPD_CLI_CTL_TERM_H
#define STEPD_CLI_CTL_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct term {
	int width, height; /* 0: as wide as it takes */
	bool is_terminal;
	bool colour;
	bool utf8; /* by the locale that setlocale(3) has set */
};

/* What the terminal at fd says, or $COLUMNS where there is none. */
struct term term_look(int fd);
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

/* How a step's state, or what has become of its agent, is painted. */
enum term_paint term_paint_of(const char *state);

/* text with a '?' in place of each byte or character that is no printable one of the locale, cut to
 * most columns with a mark at the end. The caller frees it; NULL: no memory. */
#define TERM_WHOLE 0
char *term_printable(const struct term *term, const char *text, int most);

/* Columns of a text that term_printable() made. */
int term_columns_of(const char *text);

#endif
