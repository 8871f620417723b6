/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The PMI server of one node: conversations with tasks in PMI-1 and PMI-2, and their state. It
 * reads and writes no descriptor and starts no timer: its user (pmi2.c, tests) passes it bytes,
 * takes its output away, and has the time. Fences, messages and spawns go through mpi/serve, for
 * which tests have functions of their own.
 *
 * Those that share an MPI_COMM_WORLD are a space: the step's own tasks are space 0, those of a
 * spawn have its number. A space is called "JOB.STEP" or "JOB.STEP.NUMBER", which is its kvsname
 * in PMI-1 and its jobid in PMI-2.
 *
 * A conversation's protocol is seen from its first bytes, each time it begins: a task may run one
 * program after another, and each task its own.
 */
#ifndef MPI_PMI2_PMI_H
#define MPI_PMI2_PMI_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "mpi/pmi/bytes.h"
#include "mpi/pmi/manager.h"
#include "mpi/serve/spawning.h"
#include "mpi/wire/wire.h"
#include "stepd/base/err.h"

/* The limits of PMI clients. */
#define PMI_NAME_MAX  256u
#define PMI_KEY_MAX   64u
#define PMI_VALUE_MAX 1024u

/* Messages to other nodes. */
#define PMI_CHANNEL_QUERY  (SERVE_CHANNEL_PLUGIN + 0u)
#define PMI_CHANNEL_ANSWER (SERVE_CHANNEL_PLUGIN + 1u)
#define PMI_CHANNEL_DEATH  (SERVE_CHANNEL_PLUGIN + 2u)

struct pmi;
struct pmi_task;

struct pmi_ops {
	uint64_t (*now_ms)(void *userdata);
	/* There is output, or input is taken again, or the conversation is over. */
	void (*attend)(void *userdata, struct pmi_task *task);
};

/* The link to a process manager that has the way to the other nodes: mpi/pmi/manager.h. */
struct pmi_manager {
	/* 0 or -errno. userdata: that of the server's operations. */
	int (*send)(void *userdata, enum manager_type type, struct slice body);
};

struct pmi_config {
	struct serve *serve; /* the way to the other nodes and to the agent */
	/* The way to the other nodes where it is not serve; NULL: it is */
	const struct pmi_manager *manager;
	const char *label; /* "7.0" */
	const char *node_name;
	uint32_t node;
	uint32_t node_count;
	uint32_t universe_size;
	uint64_t timeout_ms; /* of whatever one rank waits for; 0: none */
};

int pmi_new(const struct pmi_config *config, const struct pmi_ops *ops, void *userdata,
	struct pmi **ret_pmi, struct err *err) _must_check_;
struct pmi *pmi_free(struct pmi *pmi);

/* Tasks that share an MPI_COMM_WORLD. */
struct pmi_layout {
	uint32_t number;
	uint32_t first_rank;     /* in the step, of its rank 0 */
	uint32_t size;           /* on all nodes */
	const uint32_t *nodes;   /* of each rank; NULL: unknown (or all here, on one node) */
	uint32_t local_count;    /* on this node */
	const uint32_t *ranks;   /* of these, ascending */
	const uint32_t *appnums; /* likewise; NULL: 0 */
	int64_t parent;          /* rank in the step that has spawned it, or -1 */
	const void *preput;      /* as kvs_list_add() writes it */
	size_t preput_size;
};

int pmi_add_space(struct pmi *pmi, const struct pmi_layout *layout, struct err *err) _must_check_;
void pmi_remove_space(struct pmi *pmi, uint32_t number);
/* By its index among those of this node, or NULL. */
struct pmi_task *pmi_get_task(struct pmi *pmi, uint32_t number, uint32_t local);
/* By its rank in the step, of those on this node, or NULL. */
struct pmi_task *pmi_find_task(struct pmi *pmi, uint32_t step_rank);

struct pmi_task *pmi_find_by_secret(struct pmi *pmi, uint32_t secret);

/* Input that the task has written. */
void pmi_input(struct pmi_task *task, const void *data, size_t size);
/* It takes no more bytes until they are used up. */
bool pmi_is_full(const struct pmi_task *task);
/* The output for it, and how much of that has been written. */
struct slice pmi_output(const struct pmi_task *task);
void pmi_written(struct pmi_task *task, size_t size);
/* The server has ended the conversation: once the output is gone, hang up. */
bool pmi_has_ended(const struct pmi_task *task);
/* Between init and finalize */
bool pmi_is_initialized(const struct pmi_task *task);
/* Its process is gone: whether other ranks may wait for it, as it has begun and not finalized. */
bool pmi_leaves_others(const struct pmi_task *task);
/* The task has hung up and can't come back. how: NULL, or what became of it ("was killed"). */
void pmi_hung_up(struct pmi_task *task, const char *how);

/* When pmi_expire() is to be called next: 0 for never. */
uint64_t pmi_next_ms(const struct pmi *pmi);
void pmi_expire(struct pmi *pmi);

/* From the other nodes: serve_events. */
void pmi_message(struct pmi *pmi, uint32_t from, uint16_t channel, const struct wire_block *block);
void pmi_missing(struct pmi *pmi, uint64_t set_id, char *text, size_t size);
void pmi_lost(struct pmi *pmi, uint32_t node, const struct err *err);

/* From the process manager; and that it is gone. */
void pmi_manager_frame(struct pmi *pmi, const struct manager_frame *frame);
void pmi_manager_lost(struct pmi *pmi, const struct err *err);

#endif
