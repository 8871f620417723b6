/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The launch trace: phases with their times, written as Chrome's trace JSON (open it in
 * about:tracing or ui.perfetto.dev). Times are CLOCK_MONOTONIC; the file's begin at the agent's
 * start. Without a file nothing is recorded: every function takes NULL.
 */
#ifndef STEPD_RECORD_TRACE_H
#define STEPD_RECORD_TRACE_H

#include <stdint.h>

#include "stepd/base/err.h"

struct handover;
struct json_t;
struct trace;

/* start_ns is the agent's start. NULL: no memory. */
struct trace *trace_new(uint64_t start_ns);

/* A phase from begin_ns to now, in the agent's row. name is a literal. */
void trace_phase(struct trace *t, const char *name, uint64_t begin_ns);

/* A phase of one task, in its own row. */
void trace_task(
	struct trace *t, const char *name, uint32_t rank, uint64_t begin_ns, uint64_t end_ns);

int trace_write(
	const struct trace *t, const char *path, const char *label, struct err *err) _must_check_;

/* For the program that goes on with it (handover.h). NULL from the latter: no memory. */
void trace_save(const struct trace *t, struct handover *h, struct json_t *object);
struct trace *trace_restore(const struct json_t *object);

struct trace *trace_free(struct trace *t);

#endif
