/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The MPI service process, the agent's side: how it is started, what it has handed out for the
 * tasks, and the link to it (mpi/link.h). What goes over the link is the caller's.
 */
#ifndef MPI_SERVICE_H
#define MPI_SERVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mpi/link.h"
#include "stepd/api/mpi.h"
#include "stepd/base/strv.h"

struct mpi_service;

struct mpi_service_options {
	/* In the new process: takes on the job user's identity for good. 0 or -errno. */
	int (*become)(void *userdata);
	/* Lets the agent go on with other things until fd can be read or limit_ms are over: true if
	 * it can be read. */
	bool (*meanwhile)(int fd, uint64_t limit_ms, void *userdata);
	/* A message of the service before it is ready that is none of its beginning: a line for the
	 * log. */
	void (*message)(const struct json_t *object, void *userdata);
	void *userdata;
	const int *retained_fds; /* further descriptors that stay open in the process */
	size_t retained_fds_count;
	uint64_t start_timeout_ms; /* until it must be ready */
	uint64_t memory_bytes;     /* how far it may grow (RLIMIT_DATA); 0: no limit */
	int cgroup_fd;             /* the cgroup that it is to be in; -1: the caller's */
	bool cgroup_may_clone; /* it is to be born there, and else moves; the caller is a subreaper
				* then */
	bool unfiltered;       /* it is to have no filter of system calls (confine.h) */
};

/* Forks it, with main(service) in it. job and options live as long as the service; service_pid in
 * job is set by the caller. */
int mpi_service_start(const stepd_step_rec_t *job, stepd_mpi_service_fn main, void *userdata,
	bool task_fds, const struct mpi_service_options *options, struct mpi_service **ret_service,
	struct err *err) _must_check_;

/* Waits until it is ready, and has handed out what tasks need. One that fails is killed and reaped.
 */
int mpi_service_wait(struct mpi_service *s, struct err *err) _must_check_;

pid_t mpi_service_get_pid(const struct mpi_service *s);

/* Whether it moved into its cgroup as it could not be born there. */
bool mpi_service_has_failed_birth(const struct mpi_service *s);

int mpi_service_get_link(const struct mpi_service *s); /* -1 once it is closed */

/* The entries that the service has handed out for the task of this local id: those of all tasks
 * first, then its own. */
int mpi_service_environ(const struct mpi_service *s, uint32_t local_id, char ***env) _must_check_;

/* The task's end of its socket pair, or -1. */
int mpi_service_task_fd(const struct mpi_service *s, uint32_t local_id);

/* Adds a task that joins the step, whose local id is the next one. fd is taken over; -1: none.
 * Its own entries, which may be NULL, are copied. */
int mpi_service_add_task_take(
	struct mpi_service *s, uint32_t local_id, int fd, char *const *own) _must_check_;

/* All tasks are forked, or this one is: their ends of the socket pairs are theirs alone. */
void mpi_service_close_task_fds(struct mpi_service *s);
void mpi_service_close_task_fd(struct mpi_service *s, uint32_t local_id);

/* Whether the service has a socket pair for each task. */
bool mpi_service_has_task_fds(const struct mpi_service *s);

/* The entries that it has handed out for all tasks. */
const struct strv *mpi_service_common(const struct mpi_service *s);

/* The service sees its link hang up and is to end. */
void mpi_service_close_link(struct mpi_service *s);

/* In a program that goes on with the step: what is left of a service is its process, the link, -1
 * for none, and what tasks need that join the step. common is copied. */
int mpi_service_restore(pid_t pid, int link_fd, bool task_fds, const struct strv *common,
	struct mpi_service **ret_service) _must_check_;

/* Does not end the process. NULL is fine; returns NULL. */
struct mpi_service *mpi_service_free(struct mpi_service *s);

#endif
