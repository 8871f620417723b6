/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of a step over several nodes share.
 */
#ifndef STEPD_CLI_ACROSS_ACROSS_IMPL_H
#define STEPD_CLI_ACROSS_ACROSS_IMPL_H

#include <ev.h>

#include "stepd/cli/across/across.h"
#include "stepd/cli/across/input.h"
#include "stepd/cli/across/output.h"
#include "stepd/cli/across/running.h"
#include "stepd/cli/across/user.h"
#include "stepd/cli/relay/address.h"
#include "stepd/cli/relay/channel.h"
#include "stepd/control/buffer.h"

struct across;

enum node_state {
	NODE_AWAITED, /* its relay has not said hello */
	NODE_HERE,    /* it has */
	NODE_GOING,   /* it was told to go */
	NODE_STARTED, /* its tasks run */
	NODE_ENDED,
	NODE_LOST,
};

/* A launcher's command and the channel through it: of one relay, or of all. */
struct conn {
	struct across *across;
	struct launched process;
	ev_io exit;
	ev_timer patience; /* its channel has ended, it has not */
	struct channel *channel;
	uint32_t first, count; /* relays behind it, by number */
	int wait_status;
	bool started, exited;
};

/* A relay, and the node that it turned out to be. */
struct node {
	enum node_state state;
	struct conn *conn;
	uint32_t relay, id;
	char *name; /* what the relay said, then the one that the step has for it */
	struct address_node addresses;
	uint16_t port;
	struct output_source *out, *err;
	uint64_t taken; /* bytes of standard input */
	bool reads_stdin, closed_stdin;
	struct buffer result;
	int code;
	bool failed;     /* a task did, before anybody was told to end */
	bool on_request; /* it was told to end for what others did: its status does not count */
};

/* What the nodes' ends make of the step. */
struct outcome {
	int own; /* one of stepd's own statuses, 0: none */
	bool signalled;
	int code;
};

struct across {
	const struct steprun_options *options;
	struct ev_loop *loop;
	struct user *user;
	struct conn *conns;
	uint32_t conns_count, conns_next; /* the next to be started */
	struct node *nodes;               /* by relay number */
	uint32_t *by_id;                  /* the relay of each node of the step */
	uint32_t count, here, ended;
	struct output *out, *err;
	struct input *input;
	ev_timer launch, wait, grace;
	struct running running;
	struct outcome outcome;
	bool going, ending, killing, launch_failed;
	int early_signal;    /* the user's, before there were tasks; 0: none */
	struct strv signals; /* for tasks, that came before there were any */
	int full_streams;    /* whose readers take too little */
};

/* across.c */

/* A line on standard error. */
void across_say(const char *fmt, ...) _printf_(1, 2);

/* The step is over for all nodes: those that have not ended are told to. now: at once. */
void across_end(struct across *a, bool now);

/* Once the step is to end: launchers whose relays never came are ended, and those not started yet
 * never are. */
void across_give_up_awaited(struct across *a);

/* To all relays. */
void across_send_all(struct across *a, const char *verb, const char *text);

/* conn.c */
int conn_start(struct conn *c, struct err *err) _must_check_;
void conn_end(struct conn *c);  /* its launcher, by force if it does not go */
void conn_kill(struct conn *c); /* at once */
void conn_clear(struct conn *c);
void across_start_more(struct across *a);
void across_pause(struct across *a);     /* reads from relays, or not, as full_streams says */
void across_check_end(struct across *a); /* leaves the loop once all is over */

/* messages.c */
void across_take_line(struct conn *c, const struct channel_line *line);
void node_lose(struct node *n, const char *why);
void node_skip(struct node *n); /* its relay was never started */

/* go.c: all relays are here. */
void across_go(struct across *a);

/* outcome.c */
void outcome_count(struct across *a, const struct node *n);
int outcome_code(const struct across *a);
int outcome_write_result(const struct across *a, int code, struct err *err) _must_check_;

#endif
