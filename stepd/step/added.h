/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The processes that were added to a step from outside, where its tracker has no place of its own
 * on the machine: once the agent is dead nothing but their numbers shows that they are the step's.
 * So they stand in state.json, each with its start time, before AddPid is answered. Those that have
 * ended are forgotten at the next one.
 */
#ifndef STEPD_STEP_ADDED_H
#define STEPD_STEP_ADDED_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct json_t;

struct added_process {
	pid_t pid;
	uint64_t start_ticks;
};

struct added {
	struct added_process *v;
	size_t n, capacity;
};

/* 0 or -ENOMEM. */
int added_note(struct added *added, pid_t pid, uint64_t start_ticks);

/* An array of [pid, start time], or NULL without memory. */
struct json_t *added_pack(const struct added *added);

/* What added_pack() made in another program, of which that counts which lives. Anything else in it
 * is passed over. 0 or -ENOMEM. */
int added_unpack(struct added *added, const struct json_t *array);

void added_clear(struct added *added);

#endif
