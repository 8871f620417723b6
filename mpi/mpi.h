/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI plugins, the host's side: loads one and calls its hooks at the moments that the guide
 * names. The contract of the hooks stands in <stepd/mpi.h>.
 */
#ifndef MPI_MPI_H
#define MPI_MPI_H

#include <stdbool.h>

#include "stepd/api/mpi.h"
#include "stepd/base/err.h"

struct mpi;
struct plugin_kind;

/* For who lists plugins. */
const struct plugin_kind *mpi_plugin_kind(void);

/* Loads the plugin called name: "none" or "mpi/none". */
int mpi_open(const char *plugin_dir, const char *name, struct mpi **ret_mpi,
	struct err *err) _must_check_;

/* NULL is fine; returns NULL. */
struct mpi *mpi_close(struct mpi *mpi);
DEFINE_CLEANUP(struct mpi *, mpi_close);
#define _cleanup_mpi_ _cleanup_(mpi_close_p)

/* "mpi/none" */
const char *mpi_get_type(const struct mpi *mpi);

/* The name that SLURM_MPI_TYPE holds for the tasks; NULL where it is to be removed ("none"). */
const char *mpi_get_env_type(const struct mpi *mpi);

/* Before the first fork; env is what all tasks get. */
int mpi_prefork(
	struct mpi *mpi, const stepd_step_rec_t *job, char ***env, struct err *err) _must_check_;

/* Whether mpi_task() has anything to do: not for "none", whose tasks get no environment but
 * SLURM's.
 */
bool mpi_has_task_hook(const struct mpi *mpi);

/* In the child, as the user, right before exec. */
void mpi_task(struct mpi *mpi, const mpi_plugin_task_info_t *task, char ***env);

#endif
