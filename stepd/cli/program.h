/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the other programs of stepd are.
 */
#ifndef STEPD_CLI_PROGRAM_H
#define STEPD_CLI_PROGRAM_H

#include "stepd/base/err.h"

/* The path of a program, from malloc(): below this one's directory, as in a build, or where it is
 * installed, whether it is there or not. 0 or -ENOMEM. */
int program_find(
	const char *below, const char *installed, char **ret_path, struct err *err) _must_check_;

#endif
