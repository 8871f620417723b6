/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the other programs of stepd are.
 */
#ifndef STEPD_CLI_PROGRAM_H
#define STEPD_CLI_PROGRAM_H

#include "stepd/base/err.h"

/* The path of stepd, from malloc(): the one beside this program, as in a build, or the installed
 * one.
 */
int program_find_stepd(char **ret_path, struct err *err) _must_check_;

#endif
