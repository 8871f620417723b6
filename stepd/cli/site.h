/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The options that the site's configuration has, too, for the commands that become an agent.
 */
#ifndef STEPD_CLI_SITE_H
#define STEPD_CLI_SITE_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct agent_options;
struct json_t;

/* A node daemon may be away when the step ends. */
#define SITE_SERVE_KEEP_RESULT_MS (60u * 60 * 1000)

struct site_options {
	const char *config_file; /* NULL: the site's */
	bool keep_result_given;
	uint64_t keep_result_ms;
};

int site_take_keep_result(struct site_options *site, const char *arg, struct err *err) _must_check_;

/* Reads the configuration, and fills what depends on it. Also puts into doc, a step's document,
 * what it does not say (site_config_fill_spec()), and returns whether that is anything; NULL: there
 * is none. keep_result_ms is the command's default; 0: results are for who started the step, and
 * the configuration has no say. */
int site_apply(const struct site_options *site, uint64_t keep_result_ms,
	struct agent_options *options, struct json_t *doc, struct err *err) _must_check_;

#endif
