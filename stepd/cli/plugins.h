/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEPD_CLI_PLUGINS_H
#define STEPD_CLI_PLUGINS_H

#include "stepd/base/err.h"

/* --mpi=list: the mpi plugins that are installed, a line each with what it offers on this machine,
 * those too that can't be loaded. plugin_dir: NULL for where the agent searches by itself. */
int plugins_print_mpi(const char *plugin_dir, struct err *err) _must_check_;

#endif
