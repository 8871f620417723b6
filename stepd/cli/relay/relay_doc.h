/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What steprun sends to every relay alike, a JSON object, and what one node makes of it:
 *	spec         the step's spec, without node, ranks and wire
 *	nodes        names, by the node's number
 *	list         the same as a hostlist
 *	ranks        texts, those of each node
 *	addresses    where each node's MPI service listens; with ifname. Not given: it doesn't
 *	secret       by which they know each other, in base64: it reaches the agent by a descriptor
 *	args         further arguments of "stepd serve"
 *	node_files   arrays of arguments, the last of which is a file: each node has its own, with
 *	             the node's name behind it
 *	runtime_dir  that of the agents, which is among args, too
 *	terminal     steprun's, where ranks with a pseudo-terminal read it (relay_terminal)
 */
#ifndef STEPD_CLI_RELAY_RELAY_DOC_H
#define STEPD_CLI_RELAY_RELAY_DOC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "stepd/base/err.h"
#include "stepd/base/strv.h"
#include "stepd/process/identity.h"

/* A launcher may have to take what steprun sends without waiting (decisions.md, 75): of a document
 * that is larger no more than DOC_WINDOW bytes are sent that a relay has not reported. */
#define DOC_REPORT_SIZE (64u << 10)
#define DOC_WINDOW      (256u << 10)

struct backlog;
struct json_t;
struct spec;

/* The terminal of steprun's user: an agent gets one like it in its place. */
struct relay_terminal {
	struct winsize size;
	struct termios modes;
	bool has_modes;
	bool is_out, is_err; /* the streams that go there, beside standard input */
};

struct relay_doc {
	struct json_t *all;  /* owned; spec and runtime_dir are parts of it */
	struct json_t *spec; /* this node's */
	struct strv args;
	const char *runtime_dir; /* NULL: the default */
	bool wired;              /* the agent gets the listening socket */
	bool reads_stdin;        /* some task of this node reads the step's standard input */
	bool has_terminal;       /* the agent's standard input is one */
	struct relay_terminal terminal;
	int secret_fd; /* -1: none */

	/* Of relay_doc_open_backlog(). */
	struct spec *parsed;
	struct identity id;
	uint32_t readers; /* tasks here that read the step's standard input */
};

#define RELAY_DOC_INIT                                                                             \
	{                                                                                          \
		.secret_fd = -1                                                                    \
	}

/* ret_doc is RELAY_DOC_INIT before. listen_fd -1: there is none. */
int relay_doc_read(const char *text, size_t size, uint32_t node, const char *name, int listen_fd,
	struct relay_doc *ret_doc, struct err *err) _must_check_;

/* For the standard input that the tasks here have not read while other nodes' have: as
 * --input-overflow has it, with the tasks' user. *ret_backlog NULL: only this node reads. It
 * borrows parts of doc. */
int relay_doc_open_backlog(struct relay_doc *doc, struct backlog **ret_backlog, bool *ret_drops,
	struct err *err) _must_check_;

void relay_doc_clear(struct relay_doc *doc);

/* A new reference; NULL: no memory. */
struct json_t *relay_terminal_pack(const struct relay_terminal *terminal);

/* Whether one of these ranks has a pseudo-terminal. */
bool relay_doc_has_pty(const struct json_t *spec, const char *ranks);

/* Whether the step's standard input is for one of these ranks. */
bool relay_doc_reads_stdin(const struct json_t *spec, const char *ranks);

#endif
