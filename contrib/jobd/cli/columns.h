/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tables as squeue and sinfo print them: formats ("%.18i %9P", or names "JobID:.18,Partition"),
 * headers, widths, orders. queue_table.c and node_table.c define the columns.
 *
 * Texts come from other users (names of jobs, comments): control characters are shown as '?'.
 */
#ifndef JOBD_CLI_COLUMNS_H
#define JOBD_CLI_COLUMNS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "stepd/base/err.h"
#include "stepd/base/strv.h"

struct column;

/* The text of a cell, from malloc(); NULL: out of memory. */
typedef char *column_cell_fn(const struct column *column, const void *row);

/* The sort key of a row, if it is a number. */
typedef double column_number_fn(const struct column *column, const void *row);

struct column {
	char letter;      /* 0: it has only a name */
	const char *name; /* in a list of names; NULL: it has only a letter */
	const char *title;
	column_cell_fn *cell;
	column_number_fn *number; /* NULL: rows are sorted by their texts */
	const char *member;       /* for cell() and number(): of the row's document */
	const char *missing;      /* for cell(): printed if the member is missing */
	int least;                /* least width of "%#P"; 0: the title's */
	unsigned flags;           /* the table's own */
};

struct column_table {
	const struct column *columns;
	size_t n;
	const char *command; /* "squeue", for messages */
};

/* ---- formats ----------------------------------------------------------------------------------
 */

struct format_item {
	const struct column *column; /* NULL: only the text before it */
	char *before;                /* literal text, "" for none */
	int width;                   /* 0: as wide as its text */
	bool right;
	bool fitted; /* as wide as its widest cell */
};

struct format {
	struct format_item *items;
	size_t n, capacity;
};

/* "%[#][.][WIDTH]LETTER" or, unknown to Slurm, "%{NAME}" in place of the letter; other text is
 * literal. */
int format_parse(const struct column_table *table, const char *text, struct format *ret_format,
	struct err *err) _must_check_;

/* "NAME[:[.][WIDTH]],...", 20 wide. */
int format_parse_names(const struct column_table *table, const char *text,
	struct format *ret_format, struct err *err) _must_check_;
void format_clear(struct format *format);
#define _cleanup_format_ _cleanup_(format_clear)

/* rows are n pointers. 0, -ENOMEM, or -errno of out. */
int format_print(const struct format *format, FILE *out, bool header, const void *const *rows,
	size_t n) _must_check_;

/* Orders rows by "P,-t": letters of columns, with '-' from the largest on; equal rows remain in
 * their order. by_index: what "#" in front of a letter orders by; NULL: nothing. */
int rows_sort(const struct column_table *table, const char *keys, column_number_fn *by_index,
	const void **rows, size_t n, struct err *err) _must_check_;

/* ---- texts ------------------------------------------------------------------------------------
 */

/* free(); NULL: out of memory. */
char *text_printf(const char *fmt, ...) _printf_(1, 2);

/* Prints text, cut or padded to width columns, 0: as it is. Control characters are shown as '?'. */
void text_print(const char *text, int width, bool right, FILE *out);

/* The number of bytes in the first columns of text, which has size bytes. */
size_t text_cut(const char *text, size_t size, int columns);

/* A cell with the column's `missing`. */
char *column_constant(const struct column *column, const void *row);

/* Whether state_flags of a job or a node has the flag. */
bool has_state_flag(const json_t *record, const char *flag);

/* "1-02:03:04", "2:03:04", "3:04"; "INVALID" below 0. */
char *text_of_seconds(int64_t seconds);

/* The same for minutes; unlimited if below 0. */
char *text_of_limit(int64_t minutes, const char *unlimited);

/* "2026-11-23T17:12:41" in local time; missing for 0. */
char *text_of_time(int64_t time, const char *missing);

/* "2G" for 2048 and 'M': divided by 1024 as long as that is exact. unit: of n; 0: none. */
char *text_of_size(uint64_t n, char unit);

/* The user's name, or the number. */
char *text_of_user(int64_t uid);
char *text_of_group(int64_t gid);

/* Whether text is in a list, "a,b,c"; a NULL list has all texts. */
bool list_has(const char *list, const char *text);

/* Whether lists of nodes, "n[1-4]", have a name in common; a NULL second one has all. */
bool nodes_meet(const char *nodes, const char *others);

#endif
