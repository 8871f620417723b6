/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The link between an agent and its MPI service process: a SOCK_SEQPACKET socket pair, a JSON
 * object in a message of at most LINK_SIZE_MAX bytes, descriptors beside it where noted.
 * Neither end waits for the other but in the service's beginning. The agent trusts nothing that
 * comes in: a message that is not one of these is logged and dropped, and what a service
 * can request the step's owner may request anyway.
 *
 * From the service (member "do"):
 *	environ  local (a local id; absent: all tasks), set: ["NAME=VALUE", ...]   before ready only
 *	ready
 *	failed   why                             the step does not start
 *	log      level ("error", "warning", "info", "debug"), text
 *	abort    code, text                      ends the step with this exit status, on this node;
 *	                                         elsewhere (true): another node's service has
 *	                                         requested it, and its agent has logged it
 *	signal   id, signal ("TERM"), ranks      ([..]; absent: all) answered by "done"
 *	spawn    id, number, first_rank, size,   answered by "spawned", see below
 *	         groups
 *	drop     id, number                      ends the tasks of this spawn, or the spawn itself
 *	                                         if it is under way: it has failed elsewhere, and
 *	                                         they do not count for the step's status; "done"
 *	copy     id, streams, ranks              see "streams" below; "done"
 *	input    id, rank, data, end             likewise; "done"
 *
 * From the agent (member "tell"):
 *	task-start ranks ([..]), pids ([..])     tasks of this node have been forked, at most
 *	           LINK_STARTS_MAX a message; of spawned ones it comes before "spawned"
 *	task-exit  rank, wait_status, end_step   a task of this node, spawned ones too, has ended;
 *	           end_step (true): if it had initialized the service's protocol and not finalized
 *	           it, the step is to be aborted
 *	over       if_silent                     no process is left in the step on this node;
 *	           if_silent (optional): a warning for the log, if no task has ever connected to
 *	           the service
 *	done       id, error (errno, 0), why
 *	spawned    id, error (errno, 0), why, locals ([..]), errors ([..]: on failure the errno of
 *	           each that could not be executed, else 0); before it, for each task in their
 *	           order, the service's end of its socket pair:
 *	fds        id, at; with up to LINK_FDS_MAX descriptors, of the tasks from locals[at] on
 *	copies     with one descriptor: see "streams"
 *
 * A spawn requests tasks on this node: number is the spawn's in the step, from 1; size counts its
 * tasks on all nodes; copy (optional): the streams of all its tasks, as by "copy". Each group has
 * argv, count, env (["NAME=VALUE", ...], added to the step's), cwd (absent: the step's), appnum,
 * rank (the first one's among those of the spawn, the others follow) and environ (optional,
 * an array of count arrays ["NAME=VALUE", ...]: of each task alone). The agent numbers their ranks
 * in the step from first_rank + rank on. Ranks ascend from group to group. "spawned" comes when all
 * have been executed; where one could not be, once nothing of it runs any more.
 *
 * Streams: "copy" requests a copy of what the tasks of these ranks ([..], at most LINK_RANKS_MAX;
 * absent: all) write to these streams (enum link_stream; 0: of none any more) from now on, instead
 * of what was requested of them before. "done" comes once it is so. EOPNOTSUPP: nothing of it
 * passes through the agent; ESRCH: these tasks are not here. A stream that has ended is reported
 * so.
 *
 * The copies come by the descriptor of "copies", which the agent sends when there is none and one
 * is needed: a SOCK_SEQPACKET socket, the service's to read, never to write. A packet is a struct
 * link_copy, as memory has it, and up to LINK_COPY_MAX bytes. What is not read in time is left out,
 * and that is reported with what comes next of the stream. The end of the socket is that of all
 * streams that were not reported to have ended.
 *
 * "input" is for a task's stdin: data (base64 of at most LINK_INPUT_MAX bytes), and its end (a
 * boolean, optional). "done" comes when the task's pipe has taken it, and only then may the next
 * one of that task. EBUSY: not yet, or its stdin is the step's own; EOPNOTSUPP: it is /dev/null or
 * a file; EPIPE: it is closed; ESRCH: there is no such task here.
 */
#ifndef MPI_LINK_H
#define MPI_LINK_H

#include <stddef.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct json_t;

#define LINK_SIZE_MAX (128u << 10)
#define LINK_FDS_MAX  128u

#define LINK_STARTS_MAX 1024u

/* ---- streams ------------------------------------------------------------------------------- */

#define LINK_COPY_MAX  32768u
#define LINK_INPUT_MAX 65536u
#define LINK_RANKS_MAX 4096u

enum link_stream {
	LINK_STDOUT = 1u << 0,
	LINK_STDERR = 1u << 1,
	LINK_STREAMS = LINK_STDOUT | LINK_STDERR,
	LINK_REQUIRED = 1u << 2, /* of a spawn: it fails if that can't be */
};

struct link_copy {
	uint32_t rank;   /* in the step */
	uint16_t stream; /* enum link_stream */
	uint16_t end;    /* 1: nothing more comes of this stream; there are no bytes then */
	uint64_t lost;   /* bytes of this stream that were left out before these */
};

/* ---- messages ------------------------------------------------------------------------------ */

/* A connected pair, non-blocking and O_CLOEXEC. The first end is the agent's, which takes no
 * descriptors. */
int link_pair(int ret_fds[2], struct err *err) _must_check_;

/* Sends an object, whose reference it takes, and duplicates of count descriptors. -EAGAIN: the
 * other end does not read; -EMSGSIZE; -EPIPE: it is gone; -ENOMEM also for NULL. */
int link_send_take(int fd, struct json_t *message, const int *fds, size_t count) _must_check_;

struct link_message {
	struct json_t *object; /* an object */
	int fds[LINK_FDS_MAX];
	size_t fds_count;
};

#define LINK_MESSAGE_INIT                                                                          \
	{                                                                                          \
		.object = NULL, .fds_count = 0                                                     \
	}

/* The next message. -EAGAIN: there is none now; -EPIPE: the other end is gone; -EBADMSG: it was no
 * message of a link, and is dropped. */
int link_receive(int fd, struct link_message *ret_message) _must_check_;

/* The same for the agent's end, which takes no descriptors: one that brings some is -EBADMSG. They
 * get no number here, as closing one could wait for the process that has made it. */
int link_receive_bare(int fd, struct link_message *ret_message) _must_check_;

/* Closes the descriptors that nobody has taken (set to -1). */
void link_message_clear(struct link_message *message);
#define _cleanup_link_message_ _cleanup_(link_message_clear)

#endif
