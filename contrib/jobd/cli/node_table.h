/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sinfo's table, made from documents of nodes and partitions (contrib/jobd/engine/engine.h): nodes
 * with the same values in the columns shown, such as partition and state, are one line.
 */
#ifndef JOBD_CLI_NODE_TABLE_H
#define JOBD_CLI_NODE_TABLE_H

#include "contrib/jobd/cli/columns.h"

#define NODES_FORMAT              "%#P %.5a %.10l %.6D %.6t %N"
#define NODES_LONG_FORMAT         "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
#define NODES_SINGLE_FORMAT       "%#N %.5D %#.P %6t"
#define NODES_SINGLE_LONG_FORMAT  "%#N %.5D %#.P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"
#define NODES_REASONS_FORMAT      "%20E %9u %19H %N"
#define NODES_REASONS_LONG_FORMAT "%20E %12U %19H %6t %N"
#define NODES_SUMMARY_FORMAT      "%#P %.5a %.10l %.16F %N"

/* Lists are texts, "a,b"; NULL: all. */
struct node_view {
	const char *format; /* NULL: NODES_FORMAT */
	const char *names;  /* a format of names, in its place */
	const char *sort;   /* NULL: "#P,-t", or with single "N" */
	bool header;
	bool single;  /* a line for each node and partition (-N) */
	bool exact;   /* nodes of a line have the same CPUs, memory, ... (-e) */
	bool reasons; /* only nodes with a reason (-R) */
	bool hidden;  /* hidden partitions, too (-a) */
	bool dead;    /* only nodes that are down (-d) */
	bool alive;   /* only nodes that are not (-r) */
	const char *partitions, *states;
	const char *nodes; /* "n[1-4]" */
};

int node_table_print(const struct node_view *view, const json_t *nodes, const json_t *partitions,
	FILE *out, struct err *err) _must_check_;

/* "alloc", "drng", and in long "allocated", "draining". */
const char *node_state(const json_t *node, bool in_long);

#endif
