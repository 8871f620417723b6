/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The states of a job over time, and the comparison of two histories of it: the one recorded with a
 * real Slurm, and ours. Times within HISTORY_TOLERANCE_MS are equal. A state of one side must come
 * on the other side within that time, before or after; one that lasts no longer than that need not.
 */
#ifndef JOBD_SIM_HISTORY_H
#define JOBD_SIM_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_TOLERANCE_MS 3000u

struct job_state {
	uint64_t from_ms, until_ms; /* equal: seen only once */
	const char *code;           /* squeue's, "R"; borrowed */
	char *where;                /* its nodes, or "(Reason)" */
	int64_t run_s;              /* below 0: unknown */
};

/* In the order of from_ms, by history_sort(). */
struct history {
	struct job_state *v;
	size_t n, capacity;
};

/* Takes over state.where. The program ends if memory is short, as with bitmaps. */
void history_add_take(struct history *h, struct job_state state);
void history_sort(struct history *h);
void history_clear(struct history *h);

/* The last state that began until ms, or the first one if that began within the tolerance after it.
 * NULL: none. */
const struct job_state *history_at(const struct history *h, uint64_t ms);

/* Whether the history has an equal state that begins within the tolerance. Run times are compared
 * if both are known. */
bool history_comes(const struct history *h, const struct job_state *state);

/* Whether a state that was recorded at one time agrees: one of ours within the tolerance is equal
 * to it, or ours at that time is equal to another one that was recorded within the tolerance. */
bool history_has(
	const struct history *ours, const struct history *recorded, const struct job_state *state);

/* Compares a state that was recorded from state->from_ms until state->until_ms with our samples:
 * NULL, or the first one of ours that differs. */
const struct job_state *history_find_difference(
	const struct history *ours, const struct history *recorded, const struct job_state *state);

#endif
