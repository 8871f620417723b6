/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The PMI servers of a step's nodes in one process, without an agent: the exchange, the spawns and
 * the time are the rig's, and what tasks say is given to it as text.
 */
#ifndef TESTS_LIB_PMI_RIG_H
#define TESTS_LIB_PMI_RIG_H

#include "mpi/pmi2/pmi.h"

#define RIG_NODES_MAX 8u

struct rig;

struct rig_node {
	char name[16];
	struct rig *rig;
	struct pmi *pmi;
	uint32_t node;
};

struct rig_fence;   /* an exchange under way */
struct rig_mail;    /* a message under way */
struct rig_dialect; /* pmi_scene.h */

struct rig {
	struct rig_node nodes[RIG_NODES_MAX];
	uint32_t count;
	uint64_t now_ms;
	struct rig_fence *fences;
	struct rig_mail *mail;
	uint32_t fences_done, fence_fails;
	int abort_code; /* -1: none */
	char abort_text[1024];
	char log[4096];   /* all lines */
	int spawn_error;  /* what spawns shall fail with; 0: none does */
	bool hold_spawns; /* rig_finish_spawn() ends them */
	uint32_t last_spawn;
	char spawned[1024]; /* the commands of the last one: "a b c x 2 in /d on n1; ..." */
	spawn_done_fn spawn_done;
	void *spawn_data;
	uint32_t spawn_size;
	bool refuse_mail;
	const struct rig_dialect *dialect; /* of its tasks, for pmi_scene.c */
};

/* layout: the node of each of size ranks; NULL: all on the one node. timeout_ms as in the config.
 */
void rig_open(struct rig *rig, uint32_t nodes, uint32_t size, const uint32_t *layout,
	uint64_t timeout_ms);
void rig_close(struct rig *rig);

struct pmi_task *rig_task(struct rig *rig, uint32_t step_rank);
void rig_send(struct rig *rig, uint32_t step_rank, const char *text);
void rig_send_bytes(struct rig *rig, uint32_t step_rank, const void *data, size_t size);
/* A message of PMI-2, with its length before it. */
void rig_send2(struct rig *rig, uint32_t step_rank, const char *body);
/* The output for the task since the last call, which it then has read; until the next call. */
const char *rig_heard(struct rig *rig, uint32_t step_rank);
/* Delivers messages and ends exchanges that all nodes have begun. */
void rig_settle(struct rig *rig);
void rig_finish_spawn(struct rig *rig, int r);
void rig_pass(struct rig *rig, uint64_t ms);

#endif
