/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the site has decided for all agents of this machine: <sysconfdir>/stepd/stepd.conf, lines of
 * "key = value"; stepd.conf(5) describes them. Options of the command line come before it. A
 * machine without the file costs an agent one open(2) that fails; libinih is loaded only where
 * there is one.
 */
#ifndef STEPD_CLI_SITE_CONFIG_H
#define STEPD_CLI_SITE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct agent_options;
struct json_t;

/* A node daemon may be away when the step ends. */
#define SITE_SERVE_KEEP_RESULT_MS (60u * 60 * 1000)

/* Command line options that are also keys of the configuration. */
struct site_options {
	const char *config_file; /* NULL: the site's */
	bool keep_result_given;
	uint64_t keep_result_ms;
};

int site_take_keep_result(struct site_options *site, const char *arg, struct err *err) _must_check_;

/* Reads the configuration, and fills options from it. A file that others than root or this
 * process's user could change is refused. Also sets in doc, a step's document, the site's
 * defaults that it lacks, and returns whether there were any. options and doc may be NULL.
 * keep_result_ms is the command's default; 0: only the caller reads the result, and the
 * configuration does not count. */
int site_apply(const struct site_options *site, uint64_t keep_result_ms,
	struct agent_options *options, struct json_t *doc, struct err *err) _must_check_;

/* The keys of a program in contrib/, whose values only it can check: calls fn for each. file: NULL
 * is the site's. The agent's own keys are checked, too. */
typedef int (*site_foreign_fn)(const char *key, const char *value, void *userdata, struct err *err);
int site_read_foreign(
	const char *file, site_foreign_fn fn, void *userdata, struct err *err) _must_check_;

#endif
