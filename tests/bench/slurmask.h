/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What asktime asks slurmstepd on the socket of a step of Slurm: numbers in the machine's byte
 * order, without frames. What fails ends the program with a sentence.
 */
#ifndef BENCH_SLURMASK_H
#define BENCH_SLURMASK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Agrees on a version with who answers at fd. */
void slurm_greet(int fd);

/* list_pids, read in as few pieces as come; the first pid in *ret_first if that isn't NULL. */
uint32_t slurm_list_pids(int fd, pid_t *ret_first);

/* pid_in_container. */
bool slurm_has_pid(int fd, pid_t pid);

#endif
