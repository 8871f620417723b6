/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The states of a job over time, and whether two histories of it agree: the one that was recorded
 * of a real Slurm, and ours. Times within HISTORY_TOLERANCE_MS are equal. For that both must be
 * within it: a state of one side has to come on the other side that soon, before or after; one that
 * passes in that time need not come there.
 */
#ifndef JOBD_SIM_HISTORY_H
#define JOBD_SIM_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_TOLERANCE_MS 3000u

struct job_state {
	uint64_t from_ms, until_ms; /* equal: seen at one time alone */
	const char *code;           /* squeue's, "R"; borrowed */
	char *where;                /* its nodes, or "(Reason)" */
	int64_t run_s;              /* below 0: not known */
};

/* In the order of from_ms, which is what history_sort() makes. */
struct history {
	struct job_state *v;
	size_t n, capacity;
};

/* Takes state.where. No memory ends the program, as it does in the bitmaps. */
void history_add_take(struct history *h, struct job_state state);
void history_sort(struct history *h);
void history_clear(struct history *h);

/* The last one that began until then, or the first one if that began within the tolerance after it.
 * NULL: none. */
const struct job_state *history_at(const struct history *h, uint64_t ms);

/* A state equal to that, within the tolerance of its begin. A run time is compared where both have
 * one. */
bool history_comes(const struct history *h, const struct job_state *state);

/* What was recorded at one time: one of ours within the tolerance is as that, or ours at that time
 * is another state that was recorded within it. */
bool history_has(
	const struct history *ours, const struct history *recorded, const struct job_state *state);

/* What was recorded from state->from_ms until state->until_ms, where ours are samples: NULL, or the
 * first one of ours that differs. */
const struct job_state *history_find_difference(
	const struct history *ours, const struct history *recorded, const struct job_state *state);

#endif
