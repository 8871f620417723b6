/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The service process of mpi/pmi2: the PMI server with its descriptors and its time.
 */
#ifndef MPI_PMI2_SERVICE_H
#define MPI_PMI2_SERVICE_H

#include <ev.h>
#include <sys/queue.h>

#include "mpi/pmi2/pmi_impl.h"
#include "mpi/serve/serve.h"

struct tcp;

/* A conversation's descriptor. */
struct endpoint {
	TAILQ_ENTRY(endpoint) link;
	struct service *service;
	struct pmi_task *task;
	int fd;
	ev_io readable, writable;
};
TAILQ_HEAD(endpoint_list, endpoint);

struct service {
	struct serve *serve;
	struct pmi *pmi;
	struct ev_loop *loop;
	struct endpoint_list endpoints;
	ev_prepare prepare;
	ev_timer timer;
	struct tcp *tcp; /* NULL: tasks have descriptors */
};

/* The stepd_mpi_service_fn. */
int service_main(const stepd_mpi_service_t *start);

/* The task's conversation is on fd, which is taken over, from now on. It must have no other. */
int endpoint_open(struct service *s, struct pmi_task *task, int fd);

#endif
