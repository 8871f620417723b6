/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the agent and the holder send each other: packets, with descriptors. A set goes in pieces:
 * its two files, its descriptors, and its end, which has it replace the former set.
 */
#ifndef STEPD_STDIO_HOLD_IMPL_H
#define STEPD_STDIO_HOLD_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"

#define HOLD_BATCH       64u
#define HOLD_FDS_MAX     (1u << 20)
#define HOLD_TIMEOUT_SEC 5 /* for a peer that does not read, or write */

enum hold_kind {
	HOLD_BEGIN,  /* with the document and the counts */
	HOLD_ADD,    /* with a descriptor for each entry */
	HOLD_COMMIT, /* the set is complete */
	HOLD_DROP,   /* without descriptors: to be closed */
	HOLD_END,    /* the holder is to end */
};

struct hold_entry {
	int32_t id;         /* the number that the document has */
	uint32_t is_source; /* a task's stream */
};

struct hold_message {
	uint32_t kind, count;
	struct hold_entry entry[HOLD_BATCH];
};

struct held {
	int id;
	bool is_source;
	int fd; /* -1: dropped, or taken */
};

struct hold_set {
	int document_fd, counts_fd;
	struct held *v;
	size_t n, capacity;
};

#define HOLD_SET_INIT                                                                              \
	{                                                                                          \
		.document_fd = -1, .counts_fd = -1                                                 \
	}

/* Closes its descriptors. */
void hold_set_clear(struct hold_set *set);
#define _cleanup_hold_set_ _cleanup_(hold_set_clear)

/* A message without descriptors. 0 or -errno. */
int hold_send(int fd, enum hold_kind kind, const struct held *v, size_t count) _must_check_;

int hold_send_set(int fd, const struct hold_set *set) _must_check_;

/* One message; what it has of a set is added to set. Its kind; -EPIPE: the peer is gone; -EPROTO:
 * it is no message, or descriptors of it are missing; -errno. */
int hold_receive(int fd, struct hold_set *set, struct hold_message *ret_message) _must_check_;

/* ---- the holder's process ------------------------------------------------------------------ */

struct hold_start {
	int agent_fd;    /* its end of the socket pair */
	int agent_pidfd; /* -1: not known */
	int listen_fd;
};

_noreturn_ void holder_run(void *userdata);

#endif
