/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The service process of mpi/pmi2: the PMI server with its descriptors and its time.
 */
#ifndef MPI_PMI2_SERVICE_H
#define MPI_PMI2_SERVICE_H

#include <ev.h>
#include <sys/queue.h>

#include "mpi/pmi2/pmi.h"
#include "mpi/serve/serve.h"

struct tcp;

/* A conversation's descriptor. */
struct door {
	TAILQ_ENTRY(door) link;
	struct service *service;
	struct pmi_task *task;
	int fd;
	ev_io readable, writable;
};
TAILQ_HEAD(door_list, door);

struct service {
	struct serve *serve;
	struct pmi *pmi;
	struct ev_loop *loop;
	struct door_list doors;
	ev_prepare prepare;
	ev_timer timer;
	struct tcp *tcp; /* NULL: tasks have descriptors */
};

/* The stepd_mpi_service_fn. */
int service_main(const stepd_mpi_service_t *start);

/* ---- door.c */
/* The task speaks through fd, which is taken over, from now on. It must have no other. */
int door_open(struct service *s, struct pmi_task *task, int fd);
void door_close(struct door *door);
/* The other end is closed. Over TCP the task's next program may connect again, but with how. */
void door_hang_up(struct door *door, const char *how);
/* One read. 1: there was something; 0: there is nothing now; -1: the door is closed. */
int door_read(struct door *door);
/* As pmi_ops has it; the userdata is the service. */
void door_attend(void *userdata, struct pmi_task *task);

#endif
