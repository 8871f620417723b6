/* SPDX-License-Identifier: BSD-3-Clause
 *
 * --mpi=list: the mpi plugins that are installed, a line each with what it offers on this machine.
 */
#ifndef STEPD_CLI_MPI_LIST_H
#define STEPD_CLI_MPI_LIST_H

#include <stdio.h>

#include "stepd/base/err.h"

/* plugin_dir: NULL for where the agent searches by itself. One that can't be loaded has its line,
 * too. */
int mpi_list_print(const char *plugin_dir, FILE *out, struct err *err) _must_check_;

#endif
