/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A process that can't be mistaken for another: a pid with a pidfd (Linux 5.3), or, for one that
 * was only seen in a list, with its start time. In each state pid names it for people:
 *   unset   pid 0                  nothing
 *   held    pid > 0, fd >= 0       the process, or its zombie, for certain
 *   seen    pid > 0, fd < 0        a process that had this pid and start_ticks when seen
 */
#ifndef STEPD_BASE_PIDREF_H
#define STEPD_BASE_PIDREF_H

#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/cleanup.h"

struct pidref {
	pid_t pid;
	int fd;
	uint64_t start_ticks; /* 0: not known */
};

#define PIDREF_INIT                                                                                \
	{                                                                                          \
		.pid = 0, .fd = -1, .start_ticks = 0                                               \
	}

/* Opens a pidfd for pid, and, if start_ticks is not 0, makes sure that it is the process which
 * started then. -ESRCH: it is not there, or it is another. */
int pidref_open(pid_t pid, uint64_t start_ticks, struct pidref *ret_ref) _must_check_;

/* Signals a held process: 0, -ESRCH once it is gone, -EINVAL if nothing is held. */
int pidref_signal(const struct pidref *ref, int signal) _must_check_;

/* Signals the process of that pid and start time (0: any): open, check, send, close. */
int pidref_signal_pid(pid_t pid, uint64_t start_ticks, int signal) _must_check_;

void pidref_close(struct pidref *ref);

#define _cleanup_pidref_ _cleanup_(pidref_close)

#endif
