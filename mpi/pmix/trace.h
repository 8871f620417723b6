/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks that wait in a collective, and ranks that commit data, by libpmix's own trace. libpmix
 * shows a collective to its host once all ranks of the node are in it; before, only its trace has
 * those that are. Nor does it report data that a rank commits after the first. The lines are the
 * same in its sources since 4.2 (read: 4.2.2, 5.0, 6.0 and what came after; names are
 * "[NSPACE,RANK]" in some of them):
 *
 *	... recvd pmix cmd FENCE from NSPACE:RANK ...
 *	... recvd pmix cmd COMMIT from NSPACE:RANK ...
 *	... server:modex_cbfunc reply being sent to NSPACE:RANK
 *
 * A rank that requests something else waits no more either, nor one that has been answered by this
 * host: so one that only starts what it does not wait for is seen to wait at most for what it
 * requested last. Of a libpmix that writes others nothing is known: then no rank waits.
 */
#ifndef MPI_PMIX_TRACE_H
#define MPI_PMIX_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct trace;

/* Before libpmix starts, which finds what it needs in this process's environment. A thread reads
 * what libpmix writes, so that it never waits for a caller here. */
int trace_open(struct trace **ret_trace, struct err *err) _must_check_;

/* Once libpmix has ended. NULL is fine; returns NULL. */
struct trace *trace_close(struct trace *trace);

/* For how long a rank of this node has waited, in ms and at least 1; 0: it does not wait. *ret_what
 * (may be NULL) is what for: "PMIx_Fence". trace may be NULL. */
uint64_t trace_waited_ms(
	struct trace *trace, const char *nspace, uint32_t rank, const char **ret_what);

/* Whether nobody waits. trace may be NULL. */
bool trace_is_idle(struct trace *trace);

/* This host has answered what it waits for. trace may be NULL. */
void trace_answered(struct trace *trace, const char *nspace, uint32_t rank);

/* Calls fn, on the trace's thread, for each PMIx_Commit that begins after this returns; it must not
 * call back. NULL: no longer, not even now. trace may be NULL. */
typedef void (*trace_commit_fn)(void *userdata, const char *nspace, uint32_t rank);
void trace_watch_commits(struct trace *trace, trace_commit_fn fn, void *userdata);

/* A line, parsed; for tests. false: nothing of use. */
struct trace_line {
	char nspace[256];
	uint32_t rank;
	const char *what; /* static text; NULL: it waits no more */
	bool commits;     /* it has put data, which libpmix takes next */
};
bool trace_read_line(const char *text, struct trace_line *ret_line);

#endif
