/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A picture of a simulation, or of two, one above the other with the same time scale: nodes from
 * top to bottom, time from left to right. With up to GANTT_NODES_MAX nodes and GANTT_BARS_MAX bars
 * it has a bar for each job on each of its nodes, with the job's number; jobs that share a node are
 * one below the other. With more it has the share of CPUs in use, by groups of nodes and intervals.
 * It is made from the document alone, whose simulations must list their jobs.
 */
#ifndef JOBD_SIM_GANTT_H
#define JOBD_SIM_GANTT_H

#include <jansson.h>

#include "stepd/base/err.h"

#define GANTT_NODES_MAX 64u
#define GANTT_BARS_MAX  4000u

/* Writes SVG. file: "-" is standard output. */
int gantt_write(const json_t *document, const char *file, struct err *err) _must_check_;

#endif
