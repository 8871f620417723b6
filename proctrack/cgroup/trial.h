/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A group to try things out on, stepd-checkup-PID right below the root of the steps. It never has a
 * process for longer than a birth takes. One that was left by a process killed meanwhile is known
 * by its name and by the lock that nobody holds any more, and is removed by the next.
 */
#ifndef PROCTRACK_CGROUP_TRIAL_H
#define PROCTRACK_CGROUP_TRIAL_H

#include <signal.h>

#include "stepd/base/cleanup.h"

struct trial {
	int parent_fd; /* borrowed */
	int fd;
	char name[40];
	sigset_t signals; /* of the caller, blocked meanwhile */
};

/* Signals wait until trial_close(), so that an interrupt leaves nothing behind. */
int trial_open(int parent_fd, struct trial *ret_trial) _must_check_;
void trial_close(struct trial *trial);
#define _cleanup_trial_ _cleanup_(trial_close)
#define TRIAL_INIT                                                                                 \
	{                                                                                          \
		.parent_fd = -1, .fd = -1                                                          \
	}

#endif
