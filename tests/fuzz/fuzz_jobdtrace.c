/* SPDX-License-Identifier: BSD-3-Clause
 *
 * trace_parse() on any bytes: an input is a trace, in the format that its first line says. What is
 * refused has a sentence; what is taken keeps its promises.
 */
#include "contrib/jobd/sim/trace.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_dependencies(const struct trace *trace, size_t i)
{
	const struct job_request *q = &trace->jobs[i].request;
	size_t k;

	for (k = 0; k < q->dependencies_count; k++) {
		if (q->dependencies[k].job_id == 0 ||
			q->dependencies[k].job_id >= trace->jobs[i].number)
			abort();
	}
}

static void check_trace(const struct trace *trace)
{
	size_t i;

	if (trace->count == 0 || trace->format >= TRACE_FORMAT_MAX)
		abort();
	for (i = 0; i < trace->count; i++) {
		const struct trace_job *job = &trace->jobs[i];
		char *name = trace_job_name(job);

		if (!name || !*name || job->user >= trace->users.n || job->line == 0)
			abort();
		if (i > 0 && job->submit_ms < trace->jobs[i - 1].submit_ms)
			abort();
		if (job->submit_ms / 1000 > UINT64_C(1) << 34 ||
			job->run_ms / 1000 > UINT64_C(1) << 34)
			abort();
		check_dependencies(trace, i);
		free(name);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace trace = {.file = NULL};
	struct err err = ERR_INIT;
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	if (trace_parse("fuzz", text, size, &trace, &err) == 0)
		check_trace(&trace);
	else if (err.code >= 0 || !*err.text || trace.jobs)
		abort();
	trace_clear(&trace);
	free(text);
	return 0;
}
