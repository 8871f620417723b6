/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tasks' streams for clients of the MPI service process, in the messages and one more
 * descriptor of the link (mpi/link.h).
 *
 * "copy" requests a copy of what the tasks of these ranks ([..], at most LINK_RANKS_MAX; absent:
 * all) write to these streams (enum link_stream; 0: of none any more) from now on, instead of what
 * was requested of them before. "done" comes once it is so. EOPNOTSUPP: nothing of it passes
 * through the agent; ESRCH: these tasks are not here. A stream that has ended is reported so.
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
#ifndef MPI_LINK_COPY_H
#define MPI_LINK_COPY_H

#include <stdint.h>

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

#endif
