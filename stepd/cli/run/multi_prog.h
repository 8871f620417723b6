/* SPDX-License-Identifier: BSD-3-Clause
 *
 * srun's configuration file for --multi-prog: which ranks run which program. A line is
 *
 *   RANKS PROGRAM [ARG...]
 *
 * RANKS is "0-3,8", or "*" in the last line for all ranks that no line before names. In the
 * arguments behind it, %t is the rank and %o its position in RANKS, from 0 (with "*", the rank
 * again). Quotes, single or double, hold an argument together, between single quotes nothing is
 * replaced, and a backslash takes the next byte, a line's end too, as part of the argument or
 * line. Lines that begin with '#' are comments.
 */
#ifndef STEPD_CLI_RUN_MULTI_PROG_H
#define STEPD_CLI_RUN_MULTI_PROG_H

#include <stddef.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct json_t;

/* The spec's "tasks" for a step of ntasks ranks, a new reference. extra (NULL-terminated) follows
 * each program's own arguments. Each rank must have one program; errors name the line. */
int multi_prog_parse(const char *text, uint32_t ntasks, char *const *extra,
	struct json_t **ret_tasks, struct err *err) _must_check_;

#endif
