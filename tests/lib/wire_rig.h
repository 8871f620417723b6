/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Nodes of a step that reach each other over TCP: in one process and on one loop, or in several.
 */
#ifndef TESTS_LIB_WIRE_RIG_H
#define TESTS_LIB_WIRE_RIG_H

#include "mpi/wire/net.h"
#include "mpi/wire/wire_impl.h"

#define RIG_NODES_MAX 64u

struct rig;

struct rig_node {
	struct rig *rig;
	stepd_step_rec_t job;
	stepd_mpi_wire_t net;
	struct wire *wire; /* NULL: not open here */
	unsigned ends, good, lost, left, messages;
	uint64_t message_bytes;
	int end_code;
	char end_text[ERR_TEXT_SIZE];
	char lost_text[ERR_TEXT_SIZE];
};

struct rig {
	struct ev_loop *loop;
	uint32_t count;
	size_t size; /* of a contribution */
	uint64_t connect_timeout_ms;
	int listen_fd[RIG_NODES_MAX];
	char address[RIG_NODES_MAX][80];
	const char *addresses[RIG_NODES_MAX];
	char name[RIG_NODES_MAX][8];
	const char *names[RIG_NODES_MAX];
	struct rig_node node[RIG_NODES_MAX];
	bool (*until)(const struct rig *rig);
	ev_timer limit;
	ev_prepare condition;
};

/* Listens for all nodes on free ports of that host ("127.0.0.1", "::1"); false: it has none. Change
 * node[].net and job before rig_start(). */
bool rig_open(struct rig *rig, uint32_t count, uint32_t fanout, const char *host);
void rig_start(struct rig *rig, uint32_t node);
void rig_start_all(struct rig *rig);

/* Runs the loop until that holds; fails the test after limit_ms. */
bool rig_run(struct rig *rig, bool (*until)(const struct rig *rig), uint64_t limit_ms);

/* Of all nodes, with a contribution of rig->size bytes. */
void rig_fence(struct rig *rig, uint32_t node, uint64_t timeout_ms);
void rig_close(struct rig *rig);

#endif
