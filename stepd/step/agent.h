/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The step agent: one step from its spec to its result, in one thread and one event loop.
 *
 *   plan -> claim the step's directory -> container -> binding -> MPI prefork -> socket
 *        -> MPI service ready -> streams -> fork all -> release -> supervise
 *        -> end -> drain streams -> remove the container -> result
 */
#ifndef STEPD_STEP_AGENT_H
#define STEPD_STEP_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

struct clean_options;
struct frontend;
struct log;
struct spec;

/* keep_result_ms of an adopter: the dead agent's value. */
#define AGENT_RESULT_TIME_INHERITED UINT64_MAX

struct agent_options {
	const char *plugin_dir;  /* NULL: plugin_dir_find()'s choice */
	const char *runtime_dir; /* NULL: registry.h's choice */
	const char *trace_file;  /* NULL: none */
	const char *step_hooks;  /* a library; NULL: none. For agent_run() alone */
	int step_hooks_fd;       /* for the library; -1: none */
	const char *result_file; /* NULL: none; "-": standard output */
	const char *sample_file; /* NULL: none; see account.c */
	uint64_t sample_interval_ms;
	bool usage_table;        /* to the log's descriptor, at the end */
	bool remains_only;       /* agent_adopt(): -EBUSY where a process of the step lives */
	bool mpi_unfiltered;     /* the MPI service process has no filter of system calls */
	gid_t operator_gid;      /* whose members may read; (gid_t)-1: there is none */
	uint64_t keep_result_ms; /* how long result.json stays in the step's directory; 0: it is
				  * not written there */
	int ready_fd;            /* -1: none; closed once the line is written */
	int *listen_fd;          /* the spec's wire.listen_fd, closed and -1 once the MPI service
				  * process has it; NULL: there is none */
	int supervisor_fd;       /* -1: none; see result.h */
	uint64_t start_ns;       /* the agent's start, for the trace */
	const struct log *log;
	const char *version;             /* of this program */
	const struct frontend *frontend; /* NULL: the step serves no requests */
};

/* Runs the step. 0: it ran, and *ret_code is the exit status. Else no task has run, nothing of
 * the step is left, and err has the reason; the caller exits with STATUS_FAILED. */
int agent_run(const struct spec *spec, const struct agent_options *options, int *ret_code,
	struct err *err) _must_check_;

/* In the new program of a re-exec: continues the step from the state handed over on fd
 * (reexec.h), and ends as agent_run() does. */
int agent_continue(int fd, const char *version, const struct frontend *frontend, int *ret_code,
	struct err *err) _must_check_;

/* Does all of that up to the loop, without any effect outside the process: 0 on success. The
 * process must then end by _exit(2), without a report. */
int agent_try_to_continue(int fd, const char *version, struct err *err) _must_check_;

/* Adopts a step whose agent has died: its processes, limits, times, socket, end and result. The
 * tasks are not our children; their exit statuses are known as far as the dead agent recorded
 * them or the kernel reports them (reaping.h). Streams that passed through the dead agent
 * (labels, a copied stdin) are lost.
 *
 * step is "7.0" or "n1/7.0". As agent_run(): 0 with the exit status, also for a step that has
 * ended meanwhile; or -errno with the reason. -EEXIST: its agent lives. */
int agent_adopt(const char *step, const struct agent_options *options, int *ret_code,
	struct err *err) _must_check_;

/* As agent_adopt(), for a step without living processes: clean_settle_fn (record/clean.h).
 * Changes this process for good, and notifies nobody. */
int adopt_settle(const char *step, const struct clean_options *options);

#endif
