/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The runtime directory of a trial step: below the one of all steps, or beside it where that is not
 * there yet. Its name is no step's, so nobody who lists steps meets the trial.
 */
#ifndef STEPD_CLI_DOCTOR_DOCTOR_DIR_H
#define STEPD_CLI_DOCTOR_DOCTOR_DIR_H

#include "stepd/base/err.h"

/* runtime_dir as steps_find_dir() takes it. What earlier trials left that were killed whole is
 * removed. The caller frees *ret_path. */
int doctor_dir_make(const char *runtime_dir, const char *plugin_dir, char **ret_path,
	struct err *err) _must_check_;

/* With what an agent has left there that could not end by itself: its cgroups. What can't be
 * removed stays for the next doctor_dir_make(). */
void doctor_dir_remove(const char *path, const char *plugin_dir);

#endif
