/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a step's tasks have used on this node, as Slurm accounts for it. CPU time, the peak of
 * memory and major page faults are the agent's numbers (stepd/account); the resident and virtual
 * memory of a task's processes, and what they have read and written, are added up from /proc,
 * because Slurm's meaning of them is another than that of a cgroup: all bytes of read(2) and
 * write(2), and no cache.
 *
 * Packed it is the record of Slurm's messages, the same in all releases: a byte 1 (0: no record);
 * u64 and u32: seconds and microseconds of the user's time, and the same of the system's; u32 the
 * processors' frequency; u64 energy; the ids of the TRES; a list of their names or none; and 14
 * arrays with a value for each TRES: what was taken in, and what was put out, by seven arrays: the
 * largest value of a task, its node and rank; the smallest one, its node and rank; the sum. All
 * ones: not known.
 */
#ifndef SLURM_STEP_USAGE_H
#define SLURM_STEP_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "contrib/slurm/init.h"
#include "contrib/slurm/pack.h"
#include "contrib/slurm/step_energy.h"

struct json_t;

enum step_usage_kind {
	STEP_USAGE_CPU,    /* milliseconds */
	STEP_USAGE_MEMORY, /* bytes */
	STEP_USAGE_VIRTUAL,
	STEP_USAGE_PAGES, /* faults with input */
	STEP_USAGE_READ,  /* bytes */
	STEP_USAGE_WRITTEN,
	STEP_USAGE_KIND_MAX,
};

struct step_usage_value {
	bool known;
	uint64_t now, most; /* of what only grows both are the same */
};

struct step_usage_task {
	uint32_t rank;
	uint64_t user_usec, system_usec;
	struct step_usage_value values[STEP_USAGE_KIND_MAX];
	uint64_t seen[STEP_USAGE_KIND_MAX]; /* by the processes that are being read */
	bool is_seen;
};

struct step_usage {
	struct slurm_tres_list tres;      /* borrowed, with their texts */
	uint32_t node;                    /* the node's index in the step */
	bool whole;                       /* its one task is all of the step: an extern step */
	bool cache_counts;                /* memory is that of a cgroup: jobacct_gather/cgroup */
	const struct step_energy *energy; /* borrowed; NULL: the node's is not counted */
	struct step_usage_task *tasks;
	uint32_t n;
};

/* 0 or -ENOMEM. */
int step_usage_open(struct step_usage *u, const struct slurm_tres_list *tres, const uint32_t *ranks,
	uint32_t n) _must_check_;
void step_usage_clear(struct step_usage *u);

/* The array "tasks" of the agent's reply to Usage, or of its result. */
void step_usage_take(struct step_usage *u, const struct json_t *tasks);

/* The member "step" of the reply, or the result itself: nothing but where the step is the task. */
void step_usage_take_whole(struct step_usage *u, const struct json_t *step);

/* The array "pids" of one of the agent's replies to ListPids, whose processes are read; then, after
 * the last of them, the end: the sums count. */
void step_usage_add_processes(struct step_usage *u, const struct json_t *pids);
void step_usage_end_processes(struct step_usage *u);

/* The record; NULL: none. with_tres: with the list of the TRES, for who may not know them. */
void step_usage_pack(const struct step_usage *u, bool with_tres, struct pack *p);

#endif
