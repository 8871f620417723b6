/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI plugins, the host's side: loads one and calls its hooks at the moments that the guide
 * names. The contract of the hooks stands in <stepd/mpi.h>.
 */
#ifndef MPI_MPI_H
#define MPI_MPI_H

#include <stdbool.h>

#include "mpi/service.h"
#include "stepd/api/mpi.h"
#include "stepd/base/err.h"

struct mpi;
struct plugin_kind;

/* For lists of plugins. */
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

/* The host's offer to the prefork hook: see <stepd/mpi.h>. */
struct mpi_host {
	uint64_t timeout_ms;
	bool tcp;
	stepd_mpi_wire_t wire;
	struct mpi_service_options service;
};

/* env is what all tasks get. host, and what it points to, lives as long as mpi. A service process
 * that the hook starts is forked when this returns. */
int mpi_prefork(struct mpi *mpi, const stepd_step_rec_t *job, const struct mpi_host *host,
	char ***env, struct err *err) _must_check_;

/* Before the first task's fork: waits until what prefork has started is ready. Where that fails
 * there is no service any more. */
int mpi_wait_for_service(struct mpi *mpi, struct err *err) _must_check_;

/* The service that prefork has started, owned by mpi; NULL: none. */
struct mpi_service *mpi_get_service(const struct mpi *mpi);

/* For a program that goes on with a step: the service runs already. */
int mpi_restore_service(struct mpi *mpi, pid_t pid, int link_fd, bool task_fds,
	const struct strv *common) _must_check_;

/* ---- in the launching client ---------------------------------------------------------------- */

/* The state that mpi_client_fini() gets, once all tasks have ended. env as above. */
int mpi_client_prelaunch(struct mpi *mpi, const mpi_plugin_client_info_t *job, char ***env,
	mpi_plugin_client_state_t **ret_state, struct err *err) _must_check_;
int mpi_client_fini(
	struct mpi *mpi, mpi_plugin_client_state_t *state, struct err *err) _must_check_;

/* ---- in a task's process ------------------------------------------------------------------- */

/* Whether mpi_task() has anything to do: not for "none", whose tasks get no environment but
 * SLURM's.
 */
bool mpi_has_task_hook(const struct mpi *mpi);

/* In the child, as the user, right before exec: what the service has handed out, then the hook.
 * task's service_fd is filled in here. -ENOMEM: the task can't have what it needs. Not for a plugin
 * with p_mpi_task_environ(). */
int mpi_task(struct mpi *mpi, const mpi_plugin_task_info_t *task, char ***env) _must_check_;

/* ---- instead of that ----------------------------------------------------------------------- */

/* Whether the plugin has p_mpi_task_environ(). */
bool mpi_has_task_environ(const struct mpi *mpi);

/* As mpi_task(), before the task's fork or in the child. *ret_pass_fd is the descriptor whose
 * O_CLOEXEC the child takes off right before exec; -1: there is none. */
int mpi_task_environ(struct mpi *mpi, const mpi_plugin_task_info_t *task, char ***env,
	int *ret_pass_fd) _must_check_;

/* The task's end of its socket pair is the task's alone from here on: the next ones don't copy
 * it. */
void mpi_task_forked(struct mpi *mpi, uint32_t local_id);

#endif
