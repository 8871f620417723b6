/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Traces: files of jobs that were submitted once, to be submitted again in a simulation. Three
 * formats are read, distinguished by their first lines:
 *
 *	SWF	the Standard Workload Format, 18 numbers a line and a header of "; Key: value"
 *	sacct	what sacct -P or -p prints: a header with names of columns, in any order
 *	jobd	SUBMIT RUN[:STATUS] USER [OPTION...], with sbatch's options, and "#" comments
 *
 * A row that breaks its format is an error with file and line. One without the run time of
 * its job is left out, and what a job lacks is defaulted: a sentence in `notes` counts each such
 * case.
 *
 * Times of day are read as UTC, so that a result does not depend on the machine's time zone.
 */
#ifndef JOBD_SIM_TRACE_H
#define JOBD_SIM_TRACE_H

#include "contrib/jobd/engine/request.h"
#include "stepd/base/strv.h"

#define TRACE_JOBS_MAX     10000000u
#define TRACE_BEGIN_S      946684800u /* if the trace has no date: 2000-01-01 */
#define TRACE_UNKNOWN_USER "unknown"

enum trace_format {
	TRACE_SWF,
	TRACE_SACCT,
	TRACE_JOBD,
	TRACE_FORMAT_MAX,
};
const char *trace_format_name(enum trace_format format);

struct trace_job {
	uint64_t submit_ms; /* since 1970 */
	uint64_t run_ms;
	uint32_t number;  /* the trace's; in jobd's format 1, 2, ... */
	uint32_t task_id; /* "12_3": 3; NO_VAL: none */
	uint32_t line, user;
	int exit_status;     /* as in wait(2) */
	bool part_is_number; /* its partition is a number without a name */
	/* Dependencies are numbers of jobs before this one. */
	struct job_request request;
};

struct trace {
	char *file;
	enum trace_format format;
	struct trace_job *jobs; /* by submit_ms, then as in the file */
	size_t count, capacity;
	struct strv users, notes;
	uint32_t max_nodes, max_cpus; /* of the machine, from the header; 0: unknown */
};

/* file: "-" is standard input. After an error there is nothing to clear. */
int trace_read(const char *file, struct trace *ret_trace, struct err *err) _must_check_;

/* The same for size bytes and a NUL, which are overwritten. */
int trace_parse(const char *file, char *text, size_t size, struct trace *ret_trace,
	struct err *err) _must_check_;
void trace_clear(struct trace *trace);
#define _cleanup_trace_ _cleanup_(trace_clear)

/* "12", "12_3"; free(). NULL: out of memory. */
char *trace_job_name(const struct trace_job *job);

#endif
