/* SPDX-License-Identifier: BSD-3-Clause
 *
 * "stepd doctor --mpi": whether each MPI plugin serves what it is there for, tried by steps.
 */
#ifndef STEPD_CLI_DOCTOR_DOCTOR_MPI_H
#define STEPD_CLI_DOCTOR_DOCTOR_MPI_H

#include "proctrack/tell.h"
#include "stepd/cli/doctor/doctor_trial.h"

/* Tells how the plugin called name ("pmi2") does with each kind of client that it is for; of one
 * that this tree doesn't know, with those that find a server. */
void doctor_mpi(const struct tell *tell, const struct trial_options *options, const char *name);

/* There is no plugin to be tried. */
void doctor_mpi_none(const struct tell *tell, const char *plugin_dir);

#endif
