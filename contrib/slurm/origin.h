/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the lines begin with that slurmstepd writes to users, and so those of served steps and of
 * their tasks.
 */
#ifndef SLURM_ORIGIN_H
#define SLURM_ORIGIN_H

#include <stdbool.h>

/* Of a node's name, or a time. */
#define ORIGIN_SIZE 320

/* "slurmstepd-NODE:", or, from 25.05 on, the time, as lines of slurmd's log begin by
 * LogTimeFormat's default. */
void origin_print(char origin[static ORIGIN_SIZE], const char *node, bool timed);

#endif
