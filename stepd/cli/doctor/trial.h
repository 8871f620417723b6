/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A step of two tasks by which "stepd doctor --mpi" tries an MPI plugin: a real one, by "stepd run"
 * in a process of its own. It has a runtime directory of its own, below the one that steps have,
 * and a deadline. However it ends, nothing of it is left: no process, cgroup or directory.
 */
#ifndef STEPD_CLI_DOCTOR_TRIAL_H
#define STEPD_CLI_DOCTOR_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

#define TRIAL_TIMEOUT_MS 10000u

/* As those of "stepd run"; NULL: not given. */
struct trial_options {
	const char *plugin_dir, *runtime_dir, *proctrack, *cgroup_root;
};

struct trial {
	char *out;         /* what the tasks wrote */
	char *agent_error; /* the agent's own first error; "": none */
	bool late;         /* it was ended after the time above */
	bool failed;       /* the step's status is other than 0 */
	uint64_t took_us;
};

/* Runs it and waits for its end. kind is mpi-selftest's argument; NULL: none. -errno: it can't be
 * run at all. The caller clears ret_trial. */
int trial_run(const struct trial_options *options, const char *mpi, const char *program,
	const char *kind, struct trial *ret_trial, struct err *err) _must_check_;
void trial_clear(struct trial *trial);

#endif
