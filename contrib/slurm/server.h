/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The adapter: a listener, a socket in the spool directory, for each live step, and the connections
 * of Slurm's clients through them. Sockets never block, and each client is bounded, so that none
 * holds up another:
 *
 *	connections   64 of one user, root's not counted; 1024 in all, with 64 MiB for answers
 *	time          10 s for the rest of a request, 10 s for an answer of which nothing is read,
 *	              300 s of silence between two requests
 *	one step      4 queries to its agent at a time; the others wait in their order
 *
 * A client that exceeds them, or sends an unknown request, is disconnected. slurmstepd does the
 * same with the latter, as it is unknown where the next request begins.
 */
#ifndef SLURM_SOCKET_SERVER_H
#define SLURM_SOCKET_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "contrib/slurm/requests.h"
#include "contrib/slurm/spool.h"
#include "stepd/base/err.h"

#define SERVER_CONNECTIONS_MAX          1024
#define SERVER_CONNECTIONS_OF_A_UID_MAX 64
#define SERVER_MEMORY_MAX               (64u << 20)
#define SERVER_REQUEST_TIMEOUT_S        10.0
#define SERVER_ANSWER_TIMEOUT_S         10.0
#define SERVER_IDLE_TIMEOUT_S           300.0
#define SERVER_DRAIN_TIMEOUT_S          1.0
#define SERVER_QUERIES_OF_A_STEP_MAX    4
#define SERVER_QUERY_TIMEOUT_MS         10000
/* slurmstepd waits two minutes for a step that is just being started. */
#define SERVER_ACTION_TIMEOUT_MS 120000

struct conn;
struct listener;
struct ev_loop;
struct ev_timer;
struct log;

LIST_HEAD(conn_list, conn);
LIST_HEAD(listener_list, listener);
TAILQ_HEAD(conn_queue, conn);

/* What the process of a step does with a request. */
enum server_local {
	SERVER_PASSED, /* it goes to the agent */
	SERVER_ANSWERED,
	SERVER_LATER, /* the answer has to wait: for server_resume() */
};

/* Answers a request in place of the agent, and sees those that go to it. */
typedef enum server_local (*server_local_fn)(const struct wire_request *request, uint16_t version,
	struct wire_answer *answer, void *userdata);

struct server {
	struct ev_loop *loop;
	const struct log *log;
	const struct spool *spool;
	bool private; /* --private */
	uid_t admin;
	int reserve_fd; /* closed for a moment to turn a client away when descriptors are short */
	bool short_reported; /* of this shortage */
	struct conn_list conns;
	size_t conns_count;
	size_t memory; /* of answers */
	struct listener_list listeners;
	server_local_fn local; /* NULL: all requests are the agent's */
	void *userdata;
};

/* loop, log and spool stay the caller's. */
int server_open(struct server *s, struct ev_loop *loop, const struct log *log,
	const struct spool *spool, bool private, struct err *err) _must_check_;

/* Goes on with the requests of a kind that wait: their function is called again, with their kind
 * alone, and has not to wait any more. */
void server_resume(struct server *s, enum wire_kind kind);

/* Before a process ends that Slurm takes for a step: removes the sockets, and runs the loop until
 * those of its own user that had connected before have their answers and have gone, or for
 * SERVER_DRAIN_TIMEOUT_S. From now on local answers, also the requests that wait. Else slurmd,
 * whose connection is reset, closes it twice (stepd_connect() of stepd_api.c), and with it one of
 * another of its threads. */
void server_drain(struct server *s, server_local_fn local);

/* Closes all listeners and disconnects all clients. */
void server_close(struct server *s);

/* ---- listeners ------------------------------------------------------------------------------ */

/* The purpose of a listener. Strings are copied. */
struct listener_step {
	const char *step;      /* "7.0" */
	const char *node;      /* "n1" */
	const char *directory; /* absolute */
	uid_t owner;
};

int listener_open(struct server *s, const struct listener_step *step,
	struct listener **ret_listener, struct err *err) _must_check_;

/* Removes the socket, and disconnects its clients: those that wait for an answer get it first, as
 * the agent may have sent it just before its end. NULL is fine. Returns NULL. */
struct listener *listener_close(struct listener *listener);

/* References hold a listener's memory as long as it has connections. Both return listener. */
struct listener *listener_ref(struct listener *listener);
struct listener *listener_unref(struct listener *listener);

/* ---- connections ----------------------------------------------------------------------------- */

struct listener {
	unsigned refs; /* of its opener, and of each connection */
	struct server *server;
	LIST_ENTRY(listener) link;
	char *label;     /* "7.0" */
	char *directory; /* the step's */
	struct requests_step step;
	struct spool_socket *socket;
	struct ev_io *io;
	struct ev_timer *pause;  /* when resources are short */
	struct conn_queue queue; /* of waiting queries */
	unsigned queries;        /* sent to the agent */
};

/* Serves a client that listener has accepted; fd is taken over, also on failure. */
void conn_begin_take(struct listener *listener, int fd);

/* Ends the connections of a listener: at once, or after the answer that is under way. */
void conn_end_of_listener(const struct listener *listener);

/* Whether there is one of a process of our own user: of slurmd, where that has started us. */
bool conn_has_own_users(const struct server *s);

/* Ends all at once. */
void conn_end_all(struct server *s);

#endif
