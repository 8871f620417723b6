/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The MPI service process as the step sees it: the prefork hook that starts it, the link to it
 * (mpi/link.h), and its end. What it reports (log lines, an abort) is taken here; what it requests
 * goes to the frontend. Its death is logged and ends nothing.
 *
 * All functions but the first two do nothing where there is no service process.
 */
#ifndef STEPD_STEP_MPI_LINK_H
#define STEPD_STEP_MPI_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

struct agent;
struct handover;
struct json_t;
struct mpi_link;
struct task;

/* Calls the plugin's prefork hook, which may fork the service process. */
int mpi_link_prefork(struct agent *a, struct err *err) _must_check_;

/* Before the first task's fork: waits until the service, if any, is ready. */
int mpi_link_wait(struct agent *a, struct err *err) _must_check_;

/* Reads no requests of the service process, or reads them again. */
void mpi_link_pause(struct agent *a, bool pause);

/* All tasks are forked, or no more will be: the agent closes their descriptors. */
void mpi_link_forked(struct agent *a);

/* A child other than a task has ended: whether it was the service process. */
bool mpi_link_reaped(struct agent *a, pid_t pid, int wait_status);

/* These tasks, by local id, are forked. */
void mpi_link_tasks_started(struct agent *a, uint32_t first, uint32_t count);

/* end_step: the step ends on all nodes, unless the task has finalized its MPI or never
 * initialized it. */
void mpi_link_task_exit(struct agent *a, const struct task *task, bool end_step);

/* Takes the reference. A message that the service does not read yet is sent later, in the order
 * of the calls. -EPIPE: the service is gone; -EAGAIN: it does not read, and too many are queued,
 * or the message has descriptors, which are not queued. */
int mpi_link_send_take(
	struct agent *a, struct json_t *message, const int *fds, size_t count) _must_check_;

/* Sends "done": the reply to the service's request of this id. r: 0 or -errno. */
void mpi_link_answer(struct agent *a, int64_t id, int r, const char *why);

/* Begins and ends a request with a later reply. -EAGAIN: too many are under way. */
int mpi_link_begin_request(struct agent *a) _must_check_;
void mpi_link_end_request(struct agent *a);

/* The ranks that a message names, of this node's tasks, ascending, each once; to be freed. NULL:
 * they are invalid, or no memory. */
uint32_t *mpi_link_read_ranks(
	const struct agent *a, const struct json_t *array, size_t *ret_count) _must_check_;

/* Whether the service may cause one more line in the log: the user controls it, and the log is
 * the site's. */
bool mpi_link_may_log(struct agent *a);

/* No process is left in the step. The service may stay as long as other nodes need it, or it is
 * ended now. mpi_link_is_open() until it has ended: then ending_settle(). */
void mpi_link_over(struct agent *a, bool now);
bool mpi_link_is_open(const struct agent *a);

/* At a re-exec (handover.h). */
void mpi_link_save(const struct agent *a, struct handover *h, struct json_t *object);
int mpi_link_restore(struct agent *a, const struct handover *h, const struct json_t *object,
	struct err *err) _must_check_;

/* Kills a service that still runs. */
void mpi_link_close(struct agent *a);

/* ---- a program whose library the plugin does not serve ------------------------------------- */

/* An MPI program whose library uses another protocol than the step's plugin: each task runs as a
 * job of one rank, without an error. The step's first task finds its library before its exec
 * (linked_detect()). Without a plugin the step warns at once; with one its service warns at the
 * end, if no task has used it by then. */

/* The first task is linked with the library of this number. */
void singletons_linked(struct agent *a, unsigned number);

/* ---- the tasks' streams, for tools ---------------------------------------------------------- */

/* The service process gets the tasks' streams for tools (mpi/link.h), by stdio's copies and
 * inputs. It is the user's process: its requests are checked here. */

/* The messages "copy" and "input". */
void mpi_streams_take_copy(struct agent *a, const struct json_t *object);
void mpi_streams_take_input(struct agent *a, const struct json_t *object);

/* These streams (enum link_stream) of the tasks that are about to join are copied from their
 * first byte, if they pass through the agent. */
int mpi_streams_join(struct agent *a, unsigned copy, struct err *err) _must_check_;

/* In a new program: pending inputs continue. */
void mpi_streams_restored(struct agent *a);

#endif
