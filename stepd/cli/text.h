/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Texts of others (plugins, files' names) on their way to a terminal and into JSON.
 */
#ifndef STEPD_CLI_TEXT_H
#define STEPD_CLI_TEXT_H

#include <stdio.h>

/* Puts blanks in place of what would break the line or move the cursor. */
void text_make_printable(char *text);

/* The text in lines of at most width columns, broken at blanks; a longer word has a line of its
 * own. The first line begins at column indent, where the cursor is; the others are indented by as
 * much. Ends with a newline. */
void text_wrap(FILE *out, const char *text, int indent, int width);

#endif
