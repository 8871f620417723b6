/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The Varlink service org.stepd.jobs over a Unix socket. The kernel reports the caller's user:
 * every user may list and submit, a job's owner and root act on it, and only root acts on nodes and
 * reservations. Input from the socket is hostile until it has been checked here.
 */
#ifndef JOBD_SERVER_SERVER_H
#define JOBD_SERVER_SERVER_H

#include "contrib/jobd/engine/engine.h"

struct ev_loop;
struct log;
struct server;

struct server_options {
	struct ev_loop *loop;
	const struct log *log;
	const char *socket; /* its path; its directory is made if that alone is missing */
	struct engine *engine;
	/* Reads the configuration again, as engine_reconfigure(). */
	int (*reconfigure)(char **ret_needs_restart, void *userdata, struct err *err);
	/* The engine was called: engine_advance() is due. */
	void (*on_change)(void *userdata);
	void *userdata;
};

/* Listens from now on. The strings stay the caller's. -EBUSY: another jobd listens there. */
int server_open(const struct server_options *options, struct server **ret_server,
	struct err *err) _must_check_;

/* Pending calls end with their connections. NULL is fine. Returns NULL. */
struct server *server_close(struct server *s);

/* A job has changed and is stored, or is forgotten. Called by the engine's store: server_reply()
 * sends the replies. NULL is fine. */
void server_job_changed(struct server *s, const struct job *job);
void server_job_forgotten(struct server *s, uint32_t job_id);

/* After engine_advance(): sends the replies that are due by changes. */
void server_reply(struct server *s);

/* The text of org.stepd.jobs.varlink: interface.c is made from the file. */
#define SERVER_INTERFACE "org.stepd.jobs"
extern const char server_interface_text[];

#endif
