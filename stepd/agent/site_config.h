/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the site has decided for all agents of this machine: <sysconfdir>/stepd/stepd.conf, lines of
 * "key = value"; stepd.conf(5) describes them. Options of the command line come before it. A
 * machine without the file costs an agent one open(2) that fails; libinih is loaded only where
 * there is one.
 */
#ifndef STEPD_AGENT_SITE_CONFIG_H
#define STEPD_AGENT_SITE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

struct site_config {
	gid_t operator_gid; /* whose members may ask steps; (gid_t)-1: there is none */
	bool keep_result_given;
	uint64_t keep_result_ms;
};

#define SITE_CONFIG_INIT                                                                           \
	{                                                                                          \
		.operator_gid = (gid_t)-1                                                          \
	}

#define SITE_CONFIG_SIZE_MAX (1u << 20)

/* Reads file, which must be there; NULL: the site's, which may be missing. One that others than
 * root or this process's user could change is refused. An error names the file and the line. */
int site_config_read(
	const char *file, struct site_config *ret_config, struct err *err) _must_check_;

/* The keys in the order of the manual, NULL after the last. */
const char *site_config_key(size_t index);

#endif
