/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The options of "stepd run". They are translated into a step spec's JSON document, which
 * spec_from_json() then checks, so that each rule is written once; an error it finds is given the
 * name of the option. Options are spelled as srun spells them where srun has them.
 */
#ifndef STEPD_CLI_RUN_RUN_OPTIONS_H
#define STEPD_CLI_RUN_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "stepd/base/err.h"
#include "stepd/cli/site_config.h"

struct json_t;
struct spec;

/* ---- options ------------------------------------------------------------------------------- */

struct run_options {
	struct json_t *doc; /* the whole document; NULL with help */
	struct spec *spec;  /* built from it; NULL with help */

	/* Options that are not part of the spec; NULL: not given. Texts are those of argv. */
	const char *trace;
	const char *result;
	const char *sample;
	uint64_t sample_interval_ms;
	bool usage;
	const char *plugin_dir;
	const char *runtime_dir;
	const char *config;
	const char *bootstrap;    /* then there is no spec yet: bootstrap.h */
	struct site_options site; /* config_file is config */
	int verbosity;            /* one more for each --verbose, one less for each --quiet */
	bool help;
	bool mpi_list; /* there is no doc then either */
	bool json;     /* of stepctl set-limits */
	bool print_spec;
};

#define RUN_OPTIONS_INIT                                                                           \
	{                                                                                          \
		.doc = NULL                                                                        \
	}

/* argv[0] is "run"; environment is what --export takes from (main's environ). Reads the files that
 * options name (--spec, --batch, --multi-prog). Nothing is printed. */
int run_options_parse(int argc, char **argv, char **environment, struct run_options *ret_options,
	struct err *err) _must_check_;

/* The table of the options, for --help. */
void run_options_print_help(FILE *out);

/* The document as --print-spec shows it: what "--spec FILE" and "stepd serve" read. Fails where
 * an argument or a variable is not UTF-8, which JSON can't hold. */
int run_options_print_spec(
	const struct run_options *options, FILE *out, struct err *err) _must_check_;

void run_options_clear(struct run_options *options);
#define _cleanup_run_options_ _cleanup_(run_options_clear)

#endif
