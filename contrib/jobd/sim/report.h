/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The results of a simulation, as a document and as tables. Tables are made from documents, so that
 * they have the same values; doc/jobd-simulation.schema.json describes the documents.
 */
#ifndef JOBD_SIM_REPORT_H
#define JOBD_SIM_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "contrib/jobd/conf/conf.h"
#include "contrib/jobd/sim/metrics.h"

struct report_input {
	const struct metrics *metrics;
	const struct trace *trace;
	const struct conf *conf;
	const char *conf_file, *node_names;
	uint32_t cpus; /* available to jobs */
	const struct strv *notes;
	json_t *refused, *waiting; /* the report's from here on */
	bool lists_jobs;
};

/* An element of "simulations". */
json_t *report_make(const struct report_input *input);

/* A text that may not be UTF-8: invalid bytes become \\xNN. */
json_t *report_text(const char *text);

/* "12", "12_3"; free(). NULL: out of memory. */
char *report_job_name(const struct metrics_job *job);

/* A document with one simulation, or with two side by side. */
int report_print(const json_t *document, FILE *out, struct err *err) _must_check_;

/* file: "-" is standard output. */
int report_write_json(const json_t *document, const char *file, struct err *err) _must_check_;

#endif
