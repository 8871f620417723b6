/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The common part of the service processes of all MPI plugins: the event loop, the link to the
 * agent, the way to the other nodes, tasks that are spawned. A plugin's service main makes a struct
 * serve, adds its watchers to the loop and runs it.
 */
#ifndef MPI_SERVE_SERVE_H
#define MPI_SERVE_SERVE_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "mpi/wire/wire.h"
#include "stepd/api/mpi.h"
#include "stepd/base/err.h"

struct json_t;
struct serve;

/* Output of a task of this node, or its end. */
struct serve_output {
	uint32_t rank;    /* in the step */
	unsigned stream;  /* enum link_stream */
	const void *data; /* until the callback returns */
	size_t size;
	uint64_t lost; /* bytes before these that the agent has left out */
	bool end;
};

struct serve_events {
	/* A task of this node has been forked; before any other event of it. */
	void (*task_start)(void *userdata, uint32_t rank, pid_t pid);
	/* A task of this node has ended. rank: in the step, spawned ones too. Once the agent is
	 * gone nobody knows how: wait_status is 0. end_step: if it had initialized the
	 * service's protocol and not finalized it, serve_abort_died() is called for. */
	void (*task_exit)(void *userdata, uint32_t rank, int wait_status, bool end_step);
	/* A fence waits for this node and it has not begun it: wire_events.missing. */
	void (*missing)(void *userdata, uint64_t set_id, char *text, size_t size);
	/* A message of another node's plugin: channels from SERVE_CHANNEL_PLUGIN on. */
	void (*message)(
		void *userdata, uint32_t from, uint16_t channel, const struct wire_block *block);
	/* The way to a node is gone. */
	void (*lost)(void *userdata, uint32_t node, const struct err *err);
	/* The last that other nodes get of this one can be sent now: wire_events.leaving. */
	void (*leaving)(void *userdata);
	/* A copy that serve_copy() has requested. */
	void (*output)(void *userdata, const struct serve_output *output);
	/* Whether any task of this node has ever connected to the service. */
	bool (*had_client)(void *userdata);
	/* All streams that were copied have ended. */
	void (*output_over)(void *userdata);
	/* The step is over on this node, or its agent is gone; once. True: this node stays until
	 * serve_leave(), which must come soon. */
	bool (*over)(void *userdata);
	/* The step is over on this node, or the agent is gone and all tasks are, too: the last
	 * chance to clean up before serve_run() returns. */
	void (*end)(void *userdata);
};

#define SERVE_CHANNEL_PLUGIN 256u

/* Opens the loop, the link and the wire. A failure is reported by serve_fail(). */
int serve_open(const stepd_mpi_service_t *service, const struct serve_events *events,
	void *userdata, struct serve **ret_serve, struct err *err) _must_check_;

/* Before serve_ready(): an environment entry for the task of this local id, or for all (-1). */
int serve_environ(struct serve *s, int64_t local, const char *name, const char *value,
	struct err *err) _must_check_;

/* Reports to the agent that tasks may start, runs until the end, and returns the process's exit
 * status.
 */
int serve_run(struct serve *s);

/* Instead: reports to the agent why they can't, and returns the exit status. */
int serve_fail(const stepd_mpi_service_t *service, const struct err *err);

/* How many conversations with tasks are open: the plugin counts them, +1 and -1. Once the agent is
 * gone, serve_run() ends when there is none and no task is left that could begin one. */
void serve_count(struct serve *s, int change);

/* A line in the step's log. */
void serve_log(struct serve *s, enum log_level level, const char *fmt, ...) _printf_(3, 4);

/* Ends the step on all nodes with this exit status (0 to 255). text: one sentence, for the log. */
void serve_abort(struct serve *s, int code, const char *text);

/* The same because this task of this node has ended while others may wait for it. */
void serve_abort_died(struct serve *s, uint32_t rank, int wait_status);

/* Signals tasks of this node (ranks of the step, NULL for all). done may be NULL. */
typedef void (*serve_done_fn)(void *userdata, int r, const struct err *err);
int serve_signal(struct serve *s, int signal, const uint32_t *ranks, size_t count,
	serve_done_fn done, void *userdata, struct err *err) _must_check_;

/* What the tasks of this node of these ranks of the step (NULL: all) write to these streams (enum
 * link_stream, 0: none) comes as events->output() from now on; done, which may be NULL, when that
 * has begun. 0 if some of it passes through the agent, else -EOPNOTSUPP, -ESRCH. */
int serve_copy(struct serve *s, const uint32_t *ranks, size_t count, unsigned streams,
	serve_done_fn done, void *userdata, struct err *err) _must_check_;

/* Whether something may still come: events->output_over() is yet to be called. */
bool serve_has_output(const struct serve *s);

/* At most LINK_INPUT_MAX bytes for the stdin of this task of this node, and its end; done when the
 * task's pipe has them. The next ones of that task must wait for it. */
int serve_input(struct serve *s, uint32_t rank, const void *data, size_t size, bool end,
	serve_done_fn done, void *userdata, struct err *err) _must_check_;

/* After events->over() has returned true. */
void serve_leave(struct serve *s);

struct ev_loop *serve_get_loop(const struct serve *s);
struct wire *serve_get_wire(const struct serve *s);
const stepd_step_rec_t *serve_get_job(const struct serve *s);
const struct stepd_mpi_host *serve_get_host(const struct serve *s);

struct serve *serve_close(struct serve *s);

#endif
