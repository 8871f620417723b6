/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A service process's state, shared by serve.c, spawning.c and streams.c.
 */
#ifndef MPI_SERVE_SERVE_IMPL_H
#define MPI_SERVE_SERVE_IMPL_H

#include <jansson.h>
#include <sys/queue.h>

#include "mpi/link.h"
#include "mpi/serve/serve.h"
#include "mpi/serve/spawning.h"

/* Channels of the wire below SERVE_CHANNEL_PLUGIN. */
enum serve_channel {
	SERVE_CHANNEL_ABORT,
	SERVE_CHANNEL_SPAWN, /* this one and those behind it are spawning.c's */
};

/* Messages that the agent has not read yet: it may be at something else for a while. */
#define SERVE_QUEUE_MAX 4096u

struct outgoing {
	STAILQ_ENTRY(outgoing) link;
	json_t *message;
};
STAILQ_HEAD(outgoings, outgoing);

/* A request to the agent that is not answered yet. */
struct agent_request {
	LIST_ENTRY(agent_request) link;
	json_int_t id;
	serve_done_fn done; /* NULL: nobody waits */
	void *userdata;
};
LIST_HEAD(agent_requests, agent_request);

struct spawning;
struct streams;
struct watched;

/* The tasks of this node once their agent has died and nobody reports their ends. Until then only
 * their pids are noted; then each one that lives is held by a pidfd (Linux 5.3). One that can't be
 * held, as there are no descriptors left, is forgotten: only its connection shows its end. */
struct task_watch {
	struct watched *tasks; /* does not move from task_watch_begin() on */
	size_t count, capacity;
	size_t held;
	bool has_begun;
	ev_idle gone; /* some had ended before they could be held */
};

struct serve {
	const stepd_mpi_service_t *service;
	const struct serve_events *events;
	void *userdata;
	struct ev_loop *loop;
	struct wire *wire;
	struct spawning *spawning;
	struct streams *streams;
	struct task_watch tasks;

	int link_fd; /* -1: the agent is gone, or wants it to end */
	ev_io readable, writable;
	ev_signal terminated;
	struct outgoings outgoing;
	unsigned queued;
	json_int_t last_id;
	struct agent_requests pending;

	int conversations;
	bool aborted;       /* once */
	bool over;          /* no task is left on this node */
	bool reported_over; /* events->over() was called */
	bool left;          /* all nodes below this one, and this one, need each other no more */
};

/* ---- serve.c: the link to the agent -------------------------------------------------------- */

/* Sends it now or as soon as the agent reads. Takes the reference. -EPIPE: the agent is gone;
 * -EMSGSIZE; -ENOBUFS: it does not read; -ENOMEM also for NULL. */
int serve_link_send_take(struct serve *s, json_t *message) _must_check_;

/* A number for what is answered later. */
json_int_t serve_next_id(struct serve *s);

/* A message, which has the id that it gets here, and the "done" that answers it. Takes the
 * reference.
 */
int serve_request_take(struct serve *s, json_t *message, serve_done_fn done, void *userdata,
	const char *what, struct err *err) _must_check_;

/* The message with its "ranks", none where they are NULL. NULL: no memory. Takes the reference. */
json_t *serve_add_ranks_take(json_t *message, const uint32_t *ranks, size_t count);

/* ---- streams.c ----------------------------------------------------------------------------- */

struct streams *streams_new(struct serve *s);
struct streams *streams_free(struct streams *streams);

/* "copies" of the link. It takes the descriptor out of the message. */
void streams_take_copies(struct serve *s, struct link_message *message);

/* ---- spawning.c, spawning_part.c ----------------------------------------------------------- */

struct spawning *spawning_new(struct serve *s);
struct spawning *spawning_free(struct spawning *spawning);

/* "spawned" and "fds" of the link. It takes descriptors out of the message by setting them to -1.
 */
void spawning_take_answer(struct serve *s, struct link_message *message);

/* A message of another node on one of its channels. */
void spawning_take_message(
	struct spawning *spawning, uint32_t from, uint16_t channel, const struct wire_block *block);

/* A task of this node has ended; the agent is gone. */
void spawning_task_exit(struct spawning *spawning, uint32_t rank);
void spawning_agent_gone(struct spawning *spawning);

void spawning_node_lost(struct spawning *spawning, uint32_t node, const struct err *err);

#endif
