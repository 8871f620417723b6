/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The exchange of mpi/wire with all nodes of a step in one process: frames go from node to node in
 * an order of the test's choice, time passes when nothing else is to be done, and all is counted.
 */
#ifndef TESTS_LIB_WIRE_SIM_H
#define TESTS_LIB_WIRE_SIM_H

#include "mpi/wire/wire_impl.h"

struct sim;

struct sim_timer {
	TAILQ_ENTRY(sim_timer) link;
	struct wire *wire;
	struct wire_timer *timer;
	uint64_t at_ms;
};
TAILQ_HEAD(sim_timers, sim_timer);

/* Ends of a fence, as a node got them. */
struct sim_end {
	unsigned count;
	int r;
	char text[ERR_TEXT_SIZE];
	size_t blocks;
	bool is_right; /* the contributions are those of sim_fence() */
};

struct sim_pending {
	struct sim_node *node;
	unsigned group;
};

struct sim_node {
	struct sim *sim;
	uint32_t node;
	struct wire *wire;   /* NULL: killed, or closed */
	struct sim_end *end; /* by group, sim.groups of them */
	struct sim_pending *pending;
	unsigned lost, left, messages;
	uint64_t message_bytes;
	uint32_t last_message[8]; /* by source, of the first ones: to see the order */
	bool message_wrong;
};

struct sim {
	uint32_t count;
	uint32_t fanout;
	unsigned groups;
	size_t size; /* of a contribution: of node n in group g, size + n % 3 bytes, or none */
	uint64_t seed;
	uint64_t now_ms;
	struct sim_node *nodes;
	struct sim_timers timers;
	/* (node, edge) with something to send */
	struct {
		uint32_t node;
		size_t edge;
	} * active;
	size_t active_count, active_capacity;

	uint64_t frames[WIRE_TYPE_MAX];
	uint64_t payload_bytes;
	uint32_t rounds;
	size_t queued_most; /* bytes for one edge */
	bool failed;        /* an edge was lost for what was sent on it */
	char failure[ERR_TEXT_SIZE];
	void (*on_message)(struct sim_node *n, uint32_t from, uint16_t channel,
		const struct wire_block *block);
};

void sim_open(struct sim *s, uint32_t count, uint32_t fanout, unsigned groups);
void sim_close(struct sim *s);

uint64_t sim_random(struct sim *s, uint64_t below);

/* Begins a fence at one node, of the nodes of that list, or of all (NULL). */
int sim_fence(struct sim *s, uint32_t node, unsigned group, const char *nodes, uint64_t timeout_ms);
/* wire_fence_abandon() of all nodes. */
int sim_abandon(struct sim *s, uint32_t node, unsigned group, uint64_t timeout_ms, const char *why);

/* Delivers frames until there are none: all of a round before those that they bring about; or one
 * after the other by chance, at most that many. Returns how many. */
size_t sim_run_rounds(struct sim *s);
size_t sim_run_random(struct sim *s, size_t most);

/* Lets time pass up to the next timer, at most until then; false: there is none. */
bool sim_tick(struct sim *s, uint64_t until_ms);

/* Rounds and time until nothing is left to be done before that time. */
void sim_run_until(struct sim *s, uint64_t until_ms);

/* The node is no more; its neighbours see that. */
void sim_kill(struct sim *s, uint32_t node);

#endif
