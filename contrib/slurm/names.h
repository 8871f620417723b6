/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The name of a step in Slurm's spool directory: <node>_<job>.<number>. Steps with names have
 * numbers at the upper end, in all of 22.05 to 26.11.
 */
#ifndef SLURM_SOCKET_NAMES_H
#define SLURM_SOCKET_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"

/* The number of "0", "batch" or "extern": 0, or -EINVAL if Slurm has no such name. */
int names_parse_step(const char *step_name, uint32_t *ret_number) _must_check_;

/* Makes the name of the socket for a step of stepd ("7.batch" on "n1" is "n1_7.4294967291"): the
 * caller frees it. -EINVAL; -ENOMEM. */
int names_make_socket(const char *node, const char *step, char **ret_name) _must_check_;

/* Whether Slurm's clients would take this file for a step's socket: <anything>_<digits>.<digits>,
 * with or without another .<digits>. */
bool names_is_socket(const char *name);

#endif
