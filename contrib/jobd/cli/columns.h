/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tables as squeue and sinfo print them: formats ("%.18i %9P", or names "JobID:.18,Partition"),
 * headers, widths, orders. What a column shows is its table's: queue_table.c, node_table.c.
 *
 * Texts come from others (names of jobs, comments): what could move a cursor is shown as '?'.
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

/* The text of a cell, from malloc(); NULL: no memory. */
typedef char *column_cell_fn(const struct column *column, const void *row);

/* What a row is ordered by, where that is a number. */
typedef double column_number_fn(const struct column *column, const void *row);

struct column {
	char letter;      /* 0: it has a name alone */
	const char *name; /* in a list of names; NULL: it has a letter alone */
	const char *title;
	column_cell_fn *cell;
	column_number_fn *number; /* NULL: rows are ordered by their texts */
	const char *member;       /* for cell() and number(): of the row's document */
	const char *missing;      /* for cell(): what stands for a member that is not there */
	int least;                /* width of "%#P" at least; 0: the title's */
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
	bool fitted; /* as wide as the widest of its cells */
};

struct format {
	struct format_item *items;
	size_t n, capacity;
};

/* "%[#][.][WIDTH]LETTER" or, not known to Slurm, "%{NAME}" in place of the letter; other text as it
 * is. */
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

/* free(); NULL: no memory. */
char *text_printf(const char *fmt, ...) _printf_(1, 2);

/* Cut or filled to width columns, 0: as it is. What could move a cursor is shown as '?'. */
void text_print(const char *text, int width, bool right, FILE *out);

/* Bytes of the first columns of text, which has size of them. */
size_t text_cut(const char *text, size_t size, int columns);

/* A cell with the column's `missing`. */
char *column_constant(const struct column *column, const void *row);

/* Whether a job or a node has it among its state_flags. */
bool has_state_flag(const json_t *record, const char *flag);

/* "1-02:03:04", "2:03:04", "3:04"; "INVALID" below 0. */
char *text_of_seconds(int64_t seconds);

/* The same of minutes; unlimited for those below 0. */
char *text_of_limit(int64_t minutes, const char *unlimited);

/* "2026-11-23T17:12:41" in local time; missing for 0. */
char *text_of_time(int64_t time, const char *missing);

/* "2G" for 2048 and 'M': by 1024 as long as nothing is lost. unit: of n; 0: none. */
char *text_of_size(uint64_t n, char unit);

/* The user's name, or the number. */
char *text_of_user(int64_t uid);
char *text_of_group(int64_t gid);

/* Whether text is one of a list, "a,b,c"; a NULL list has all. */
bool list_has(const char *list, const char *text);

/* Whether lists of nodes, "n[1-4]", have a name in common; a NULL second one has all. */
bool nodes_meet(const char *nodes, const char *others);

#endif
