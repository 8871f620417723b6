/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a step uses, over time: at its start, at an interval, and at its end, a line for the step
 * and one for each of its tasks go to a file, as CSV or, by a name that ends in .json, .jsonl or
 * .ndjson, as lines of JSON. stepd(8) describes them.
 *
 * A regular file is replaced. A pipe is written as its reader takes it:
 * a sample whose predecessor still waits is left out. What can't be written is named once and ends
 * the sampling, never the step. An agent of a step with very many tasks takes its time: between
 * two samples lies at least nine times the CPU time that the first one took.
 */
#ifndef STEPD_ACCOUNT_SAMPLE_H
#define STEPD_ACCOUNT_SAMPLE_H

#include <stdint.h>

#include "stepd/base/err.h"

struct account;
struct handover;
struct json_t;
struct sample;

/* By options->sample_file and sample_interval_ms. */
int sample_open(struct account *acc, struct sample **ret_sample, struct err *err) _must_check_;

/* All of these take NULL. */
void sample_start(struct sample *s);

/* No process is left: no more samples but the last one. */
void sample_pause(struct sample *s);

/* The last sample, from the usage as it was read last; its reader has two seconds to take it. */
void sample_end(struct sample *s, uint64_t end_ns);

/* For the program that goes on with it (handover.h). */
void sample_save(const struct sample *s, struct handover *h, struct json_t *object);
int sample_restore(struct account *acc, const struct handover *h, const struct json_t *object,
	struct sample **ret_sample) _must_check_;

struct sample *sample_free(struct sample *s);

#endif
