/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The options of "stepd relay".
 */
#ifndef STEPD_CLI_RELAY_OPTIONS_H
#define STEPD_CLI_RELAY_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct relay_options {
	uint32_t index;
	char node[256];
	const char *index_from; /* names of variables; NULL: index was given */
	const char *ifname;     /* of argv; NULL: any */
	bool help;
};

void relay_options_print_help(void);

/* The relay's number comes from its option, else from the launcher's variable. node is the
 * option's, SLURMD_NODENAME, or the host's name without its domain. */
int relay_options_parse(
	int argc, char **argv, struct relay_options *ret_options, struct err *err) _must_check_;

#endif
