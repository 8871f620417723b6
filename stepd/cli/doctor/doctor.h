/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The command's own checks of "stepd doctor": what every step needs, whatever tracks it. Each
 * reports findings as a plugin's plugin_checkup() does, changes nothing and leaves nothing.
 */
#ifndef STEPD_CLI_DOCTOR_DOCTOR_H
#define STEPD_CLI_DOCTOR_DOCTOR_H

#include "proctrack/reporter.h"

struct trial_options;

/* checks.c */

/* The kernel's calls, tried without an effect. */
void doctor_kernel(const struct reporter *tell);

/* What this user may do, and how many of what. */
void doctor_user(const struct reporter *tell);
void doctor_limits(const struct reporter *tell);

/* Where steps are registered; runtime_dir as steps_find_dir() takes it. */
void doctor_runtime(const struct reporter *tell, const char *runtime_dir);

/* Those that are loaded when they are needed. */
void doctor_libraries(const struct reporter *tell);

/* mpi.c: "stepd doctor --mpi" */

/* Tries by steps whether the plugin called name ("pmi2") serves each kind of client that it is for;
 * of one that this tree doesn't know, those that find a server. */
void doctor_mpi(const struct reporter *tell, const struct trial_options *options, const char *name);

/* There is no plugin to be tried. */
void doctor_mpi_none(const struct reporter *tell, const char *plugin_dir);

#endif
