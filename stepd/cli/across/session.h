/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A step over several nodes: starts the relays, sends them the step, carries its streams and the
 * user's signals, and makes one status of all nodes' results. The step's nodes begin only when all
 * relays have sent hello; what ends one of them badly ends the step on all.
 */
#ifndef STEPD_CLI_ACROSS_SESSION_H
#define STEPD_CLI_ACROSS_SESSION_H

#include "stepd/base/buffer.h"
#include "stepd/cli/across/conns.h"
#include "stepd/cli/across/options.h"
#include "stepd/cli/across/user.h"
#include "stepd/stdio/pty.h"

struct json_t;
struct session;

enum node_state {
	NODE_AWAITED,   /* its relay has not sent its hello */
	NODE_CONNECTED, /* it has */
	NODE_ENDED,
	NODE_LOST,
};

/* A relay, and its node in the step. */
struct node {
	enum node_state state;
	struct conn *conn;
	uint32_t relay, id;
	char *name; /* as the relay sent it, then as the step names it */
	struct address_node addresses;
	uint16_t port;
	struct output_source out, err;
	unsigned waits;            /* streams of it that wait for another's line */
	uint64_t got, taken;       /* bytes of standard input: stored there, and of those taken */
	bool reports_got;          /* else what is taken counts */
	bool reports_doc;          /* else it takes the document at any pace */
	size_t doc_got;            /* bytes of it */
	bool reads_stdin;          /* and takes more */
	uint64_t dropped;          /* bytes that its tasks lack, besides those of the result */
	bool has_pty;              /* a rank of it */
	bool reads_terminal;       /* its agent reads the terminal that it has for them */
	struct buffer result_text; /* as it comes */
	struct json_t *result;     /* once it has ended; NULL: none, or unreadable */
	int code;
	bool failed;     /* a task did, before any node was sent the end */
	bool on_request; /* ended because of others: its status does not count */
};

/* The step's status, by those of its nodes. */
struct outcome {
	int own; /* one of stepd's own statuses, 0: none */
	bool signalled;
	int code;
};

/* The user types for ranks with a pseudo-terminal (typing.c). */
struct typing {
	bool active;
	struct terminal terminal; /* the user's */
	ev_timer release;         /* of that */
};

/* The step's document on its way to all relays (assign.c). */
struct doc_sender {
	char *text; /* NULL: it has been sent, or is not made yet */
	size_t size, sent;
};

struct session {
	const struct steprun_options *options;
	struct ev_loop *loop;
	struct user user;
	struct conns conns;
	struct node *nodes; /* by relay number */
	uint32_t *by_id;    /* the relay of each node of the step */
	uint32_t count, connected, ended;
	struct output_events out_events, err_events;
	struct output out, err;
	struct doc_sender doc;
	struct input input;
	struct typing typing;
	bool stopped; /* by the user, with the step */
	ev_timer launch, wait, grace;
	struct running running;
	struct outcome outcome;
	bool assigned; /* the relays have been sent "go" */
	bool ending, killing, launch_failed;
	int early_signal;    /* the user's, before there were tasks; 0: none */
	struct strv signals; /* for tasks, that came before there were any */
	int full_streams;    /* whose readers are too slow */
};

/* 0: the step ran, and *ret_code is what to exit with. Else it never did. */
int session_run(const struct steprun_options *options, int *ret_code, struct err *err) _must_check_;

/* attach.c: shows the streams of a step that runs, to whose agents relays connect. 0, and *ret_code
 * likewise. */
int attach_run(struct steprun_options *options, int *ret_code, struct err *err) _must_check_;

/* Adds those of the agent's options that hold on every node. 0 or -ENOMEM. */
int session_agent_args(const struct run_options *options, struct strv *args) _must_check_;

/* session.c */

/* Ends the step on all nodes that have not ended. now: by SIGKILL. */
void session_end(struct session *s, bool now);

/* Once the step is to end: ends launchers whose relays have not connected, and starts no more. */
void session_give_up_awaited(struct session *s);

/* To all relays. */
void session_send_all(struct session *s, const char *verb, const char *text);

void session_start_timer(struct session *s, ev_timer *timer, uint64_t ms);

/* The next launchers, as long as not too many are under way. */
void session_start_more(struct session *s);

/* assign.c */

/* All relays are connected. */
void session_assign(struct session *s);

/* Sends what may be under way of the document, and "go" behind the last of it: a relay has more of
 * it. */
void session_send_doc(struct session *s);
void session_forget_doc(struct session *s);

/* typing.c */

/* Whether a user types for ranks with a pseudo-terminal. */
bool typing_wanted(const struct steprun_options *o);
void typing_begin(struct session *s);

/* What comes from a node's terminal goes to the user's at once. */
void typing_add_node(struct session *s, struct node *n);

/* For the step's document: a new reference, NULL: no memory. */
struct json_t *typing_pack(const struct session *s);

/* The terminal is raw if a task reads it, and as it was if none does any more. */
void typing_update(struct session *s);

/* It has another size. */
void typing_resize(struct session *s);

/* reports.c */
void session_on_line(struct conn *c, const struct channel_line *line);
size_t session_on_take(struct conn *c, const struct channel_line *line, int in_fd, size_t size);
void node_lose(struct node *n, const char *why);
void node_skip(struct node *n); /* its relay was never started */
int session_exit_code(const struct session *s);
int session_write_result(const struct session *s, int code, struct err *err) _must_check_;

#endif
