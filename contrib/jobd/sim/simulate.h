/* SPDX-License-Identifier: BSD-3-Clause
 *
 * jobd --simulate: the jobs of a trace with a configuration. They are submitted at their times to
 * an engine with a virtual clock, and run as long as they did, or to their limits. The result is a
 * document (doc/jobd-simulation.schema.json); report.h makes tables from it, gantt.h a picture. The
 * same trace and configuration give the same document, to the byte.
 *
 * Two configurations are simulated by two processes at once: there is one engine in a process.
 */
#ifndef JOBD_SIM_SIMULATE_H
#define JOBD_SIM_SIMULATE_H

#include <jansson.h>
#include <stdbool.h>

#include "contrib/jobd/sim/trace.h"

struct log;

struct simulate_conf {
	const char *conf_file, *qos_file; /* qos_file NULL: there is no QOS */
	const char *map;                  /* "old=new,*=other,*"; NULL: none */
	const char *plugin_dir;
	bool lists_jobs; /* in the document */
	const struct log *log;
};

/* One simulation: an element of "simulations". The trace's requests are used up. -EINVAL: the
 * configuration can't be read, or lacks a partition of the trace. */
int simulate(const struct simulate_conf *conf, struct trace *trace, json_t **ret_json,
	struct err *err) _must_check_;

struct simulate_options {
	const char *trace_file;
	struct simulate_conf conf;
	const char *other_conf, *other_qos; /* to compare with; NULL: none, and the same */
	const char *json_file, *svg_file;   /* NULL: none */
};

/* Prints or writes the results. Returns the exit status: 0, or 1 if something can't be read,
 * simulated or written. */
int simulate_main(const struct simulate_options *options);

#endif
