/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The launchers' commands that start relays (launch.h), and the channels through them: one command
 * for each node, or one for all. What relays send is for the owner: a step that steprun runs
 * (session.h), or one that it is attached to (attach.c).
 */
#ifndef STEPD_CLI_ACROSS_CONNS_H
#define STEPD_CLI_ACROSS_CONNS_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "stepd/cli/across/launch.h"
#include "stepd/cli/relay/address.h"
#include "stepd/cli/relay/channel.h"

struct conns;

/* A command and the channel through it: of one relay, or of all. */
struct conn {
	struct conns *conns;
	struct launched process;
	ev_io exit;
	ev_timer timeout; /* one of channel and process has ended, the other has not */
	struct channel *channel;
	uint32_t first, count; /* relays behind it, by number */
	char fault[160];       /* of a channel that has ended; "": none */
	int wait_status;
	bool started, exited;
};

struct conns_events {
	void (*line)(struct conn *c, const struct channel_line *line);
	/* As channel_events has it. May be NULL. */
	size_t (*take)(struct conn *c, const struct channel_line *line, int in_fd, size_t size);
	/* A line of another program's. */
	void (*foreign)(struct conn *c, const char *text);
	/* How many of its relays have not ended. */
	uint32_t (*open)(const struct conn *c);
	/* Whether what it sends is not read at the moment. NULL: it always is */
	bool (*paused)(const struct conn *c);
	/* Command and channel have ended; why is the rest of a sentence. */
	void (*ended)(struct conn *c, const char *why);
};

struct conns {
	struct ev_loop *loop;
	const struct launcher *launcher;
	const struct strv *names; /* of the nodes; empty where only the launcher knows them */
	uint32_t relays;
	struct conn *list;
	uint32_t count, next; /* the next to be started */
	const struct conns_events *events;
	void *userdata;
};

/* The first four members are set by the caller, as are events and userdata, all of which outlive
 * the object. 0 or -ENOMEM. */
int conns_init(struct conns *conns) _must_check_;
void conns_clear(struct conns *conns); /* kills the commands that run; all zero is fine */

/* For two descriptors and more of each node. */
void conns_raise_limit(void);

/* Starts the next commands, as long as not too many are under way: so many relays have connected.
 */
int conns_start_more(struct conns *conns, uint32_t connected, struct err *err) _must_check_;

/* Whether a command or a channel has not ended. */
bool conns_are_open(const struct conns *conns);

/* To all relays. */
void conns_send_all(struct conns *conns, const char *verb, const char *text);
void conns_send_bytes_all(struct conns *conns, const char *verb, const void *bytes, size_t size);

/* What is sent by paused() may have changed. */
void conns_update_pause(struct conns *conns);
void conn_update_pause(struct conn *c);

/* Ends the command, by SIGKILL if necessary. */
void conn_end(struct conn *c);

/* No line will follow for its relays, which end then. */
void conns_finish(struct conns *conns);

/* The same for those of one command, once the last line of each has come. */
void conn_finish_ended(struct conn *c);

/* ---- what a relay says first --------------------------------------------------------------- */

/* The text of "hello" (relay.c). */
struct hello {
	uint32_t version; /* 0: unreadable */
	const char *node; /* in the text; NULL: none */
	uint16_t port;
	struct address_node addresses;
	bool frames;
	bool got; /* it reports what it has stored, too */
	bool doc; /* and how much of the document it has */
};

/* Changes the text. */
void hello_read(char *text, struct hello *ret_hello);

/* Frames are agreed on, where the relay has the channel alone (relay.c has the sequence): after its
 * hello, and after its line "frames". */
void conn_offer_frames(struct conn *c, const struct hello *hello);
void conn_send_frames(struct conn *c);

#endif
