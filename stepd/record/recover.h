/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What an agent knows of itself for one that may have to go on in its place: beside what is asked
 * of all agents, in state.json (state_doc.h). Times are CLOCK_MONOTONIC, the machine's and not the
 * process's; they hold until it is booted again.
 */
#ifndef STEPD_RECORD_RECOVER_H
#define STEPD_RECORD_RECOVER_H

#include <stdint.h>
#include <sys/types.h>

/* Between which clock ticks since boot (field 22 of /proc/PID/stat) the tasks were forked. They
 * were not reaped before the later one: a process that has a task's pid and began then is the task.
 * Each task's own would cost a look at /proc for each, before the first may run. */
struct fork_ticks {
	uint64_t least, most; /* 0: none was forked */
};

/* The MPI service process, which is no member of the container and goes on without its agent: a
 * process that has this pid and began at another time is another. */
struct recover_service {
	pid_t pid; /* 0: there is none */
	uint64_t start_ticks;
};

struct recover {
	uint64_t running_ns; /* since when the tasks have run; 0: they have not */
	struct fork_ticks forked;
	uint32_t adopted; /* how often it was taken over */
	char boot_id[64]; /* once it was needed; "": it can't be had, or was not needed yet */
	struct recover_service service;
};

#endif
