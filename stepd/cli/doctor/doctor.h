/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The command's own checks of "stepd doctor": what every step needs, whatever tracks it. Each
 * reports findings as a plugin's plugin_checkup() does, changes nothing and leaves nothing.
 */
#ifndef STEPD_CLI_DOCTOR_DOCTOR_H
#define STEPD_CLI_DOCTOR_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "proctrack/reporter.h"
#include "stepd/base/err.h"

/* checks.c */

/* The kernel's system calls, tried without an effect. */
void doctor_kernel(const struct reporter *reporter);

/* What this user may do, and its resource limits. */
void doctor_user(const struct reporter *reporter);
void doctor_limits(const struct reporter *reporter);

/* Where steps are registered; runtime_dir as steps_find_dir() takes it. */
void doctor_runtime(const struct reporter *reporter, const char *runtime_dir);

/* Libraries that are loaded on demand. */
void doctor_libraries(const struct reporter *reporter);

/* trial.c */

/* A step of two tasks by which "stepd doctor --mpi" tries an MPI plugin: a real one, by "stepd
 * run" in a process of its own. It has a runtime directory of its own, below the one that steps
 * have, and a deadline. However it ends, nothing is left: no process, cgroup or directory. */
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

/* mpi.c: "stepd doctor --mpi" */

/* Tests with steps whether the plugin called name ("pmi2") serves each kind of client that it is
 * for; a plugin from elsewhere is tested with each kind that finds a server. */
void doctor_mpi(
	const struct reporter *reporter, const struct trial_options *options, const char *name);

/* program.c */

/* The findings of a program outside the core, which is below the directory of this one, or
 * installed. */
void doctor_program(const struct reporter *reporter, const char *below, const char *installed);

#endif
