/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The options of steprun: those of "stepd run" but for what is one node's affair, and a few of
 * its own. What comes out is the step's document, the names of its nodes and the ranks of each.
 */
#ifndef STEPD_CLI_ACROSS_OPTIONS_H
#define STEPD_CLI_ACROSS_OPTIONS_H

#include "stepd/base/strv.h"
#include "stepd/cli/across/launch.h"
#include "stepd/cli/layout.h"
#include "stepd/cli/run/run_options.h"

struct steprun_options {
	struct run_options run; /* first: the options of "stepd run" are set in here */

	/* As they were given, texts in argv; NULL, 0: not given. */
	const char *hosts, *hostfile, *launcher_text, *program, *distribution;
	uint32_t nodes_requested, per_node;
	bool overcommit;
	uint64_t launch_timeout_ms;

	/* What follows from them. */
	char *found_program; /* where none was given */
	struct launcher launcher;
	bool here;         /* one agent, without a launcher */
	bool allocated;    /* its nodes are those of an allocation, unless others are given */
	struct strv nodes; /* names; empty where only the launcher knows them */
	struct layout layout;
};

#define STEPRUN_OPTIONS_INIT                                                                       \
	{                                                                                          \
		.run = RUN_OPTIONS_INIT                                                            \
	}

/* argv[0] is ignored. environment is what --export takes from, and where a launcher's variables
 * are. */
int steprun_options_parse(int argc, char **argv, char **environment,
	struct steprun_options *ret_options, struct err *err) _must_check_;

void steprun_options_print_help(FILE *out);
void steprun_options_clear(struct steprun_options *options);

#endif
