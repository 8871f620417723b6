/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The subcommands of stepd, and what they share with steprun. Each parses its own arguments,
 * argv[0] being its name, and returns the program's exit status; a failure of stepd's own, wrong
 * usage included, is STATUS_FAILED (125), so that it can't be taken for a task's.
 */
#ifndef STEPD_CLI_CLI_H
#define STEPD_CLI_CLI_H

#include "stepd/base/err.h"
#include "stepd/base/proc.h"

int cli_adopt(int argc, char **argv);
int cli_check_spec(int argc, char **argv);
int cli_continue(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_plugins(int argc, char **argv);
int cli_run(int argc, char **argv);
int cli_relay(int argc, char **argv);
int cli_serve(int argc, char **argv);

/* The version of this program, "0.1.0": in a file of its own, so that tests can build another one.
 */
extern const char stepd_version[];

/* --mpi=list: the MPI plugins that are installed, a line each with what it offers on this machine,
 * also those that can't be loaded. plugin_dir NULL: where the agent searches. */
int plugins_print_mpi(const char *plugin_dir, struct err *err) _must_check_;

#endif
