/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Replays of recordings of a real Slurm: a case is a file with a configuration, commands at certain
 * times, and the output of squeue, sinfo and scontrol. The same commands are given to an engine
 * with a virtual clock, and the results are compared.
 *
 * States, reasons, nodes, CPUs and memory must be equal, times within HISTORY_TOLERANCE_MS: the
 * recorded ones are from a loaded machine. Jobs that wait with "(None)", times of day, and the
 * nodes of a job that others are cancelled for ("hi_got") are not compared.
 *
 * Tables that squeue and sinfo print ("prints", "lines"), as documents have them, must be equal to
 * the second, but for blanks and the name of the user.
 */
#ifndef JOBD_SIM_REPLAY_H
#define JOBD_SIM_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "stepd/base/err.h"

struct log;

struct replay_difference {
	const char *case_name;
	double t;          /* seconds; below 0: the row has no time */
	const char *thing; /* "request 12 (-N2-4 --contiguous): nodes", "job 3: state" */
	const char *expected, *got;
};
typedef void (*replay_fn)(const struct replay_difference *difference, void *userdata);

/* *ret_compared: the number of comparisons. Negative: the case can't be read, or has something
 * unknown. */
int replay_case(const char *file, const char *plugin_dir, const struct log *log, replay_fn differs,
	void *userdata, size_t *ret_compared, struct err *err) _must_check_;

/* jobd --replay CASE.json...: a line for each difference, and a summary. Returns the exit status: 0
 * for none, 1 for some, 2 for a case that can't be read. */
int replay_main(int argc, char **argv, const char *plugin_dir, const struct log *log);

#endif
