/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The descriptor of the link to a process manager, mpi/pmi/manager.h: a Unix socket at a path.
 * Nothing blocks but the connection at the beginning, to a process of this node that listens
 * already.
 */
#ifndef MPI_PMI_MANAGER_LINK_H
#define MPI_PMI_MANAGER_LINK_H

#include "mpi/pmi/manager.h"
#include "stepd/base/err.h"

struct ev_loop;
struct manager_link;

struct manager_link_options {
	struct ev_loop *loop;
	const char *path;
	/* A frame has come; its body is valid until this returns. */
	void (*frame)(void *userdata, const struct manager_frame *frame);
	/* The manager is gone, or sends what is no frame; once. */
	void (*lost)(void *userdata, const struct err *err);
	void *userdata;
};

int manager_link_open(const struct manager_link_options *options, struct manager_link **ret_link,
	struct err *err) _must_check_;

/* Sent now, or as soon as the manager reads. -EPIPE: it is gone; -ENOBUFS: it does not read;
 * -ENOMEM. */
int manager_link_send(
	struct manager_link *link, enum manager_type type, struct slice body) _must_check_;

/* NULL is fine. Returns NULL. */
struct manager_link *manager_link_close(struct manager_link *link);

#endif
