/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The findings of "stepd doctor", collected from the command's own checks and from the plugins', as
 * text or as JSON.
 */
#ifndef STEPD_CLI_DOCTOR_FINDINGS_H
#define STEPD_CLI_DOCTOR_FINDINGS_H

#include <stdbool.h>
#include <stdio.h>

#include "stepd/api/plugin.h"
#include "stepd/base/cleanup.h"

struct json_t;

struct findings {
	struct json_t *list; /* for findings.c alone */
	size_t count[STEPD_FINDING_LEVEL_COUNT];
	bool no_memory; /* some could not be added: the findings are incomplete */

	/* Of the findings that follow. */
	const char *heading; /* borrowed until the next */
	bool of_plugin;
	bool optional; /* a step runs without: a problem there is a warning */
};

/* enum stepd_finding_level by its name in JSON; a warning for any other text. */
int findings_level(const char *name);

/* A stepd_tell_fn; ctx is a struct findings. */
void findings_add(void *ctx, const stepd_finding_t *finding);
void findings_clear(struct findings *findings);
#define _cleanup_findings_ _cleanup_(findings_clear)

/* As text, with what a step started now would have: by the findings of the tracker ("proctrack/x",
 * NULL: none) about its root and limits, see <stepd/plugin.h>. With quiet warnings and problems
 * only, and nothing at all if there is none. */
void findings_print(
	const struct findings *findings, const char *tracker, bool quiet, bool colour, FILE *out);

/* The same as JSON, stepd.8 describes it: a new reference, or NULL. */
struct json_t *findings_to_json(const struct findings *findings, const char *tracker, bool quiet);

#endif
