/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The accounting of a served step, where JobAcctGatherType has one: its usage is read when its
 * tasks run, every so often, for each request of it, and at its end, when the agent's result has
 * the rest. Nothing here waits: a reading is two calls of the agent.
 */
#ifndef SLURM_ACCOUNTING_H
#define SLURM_ACCOUNTING_H

#include "contrib/slurm/step_usage.h"
#include "stepd/base/err.h"

struct accounting;
struct ev_loop;
struct json_t;

struct accounting_options {
	struct ev_loop *loop;
	const struct log *log;
	const char *directory; /* the step's, of the agent; borrowed */
	const struct slurm_tres_list *tres;
	uint32_t node; /* its index in the step */
	const uint32_t *ranks;
	uint32_t ntasks;
	bool whole, cache_counts; /* as step_usage has them */
	enum site_energy energy;  /* what counts the node's */
	unsigned release;         /* slurmd's */
	uint32_t interval_s;      /* between two readings; 0: only when it is requested */
	/* A reading that accounting_poll() has begun, or has met, is over. */
	void (*polled)(void *userdata);
	void *userdata;
};

int accounting_open(const struct accounting_options *options, struct accounting **ret_accounting,
	struct err *err) _must_check_;

/* The tasks run. */
void accounting_start(struct accounting *accounting);

/* Begins a reading, unless one is under way. False: there is nothing to be read, neither now. */
bool accounting_poll(struct accounting *accounting);

/* The agent has ended; result is its document, or NULL. */
void accounting_finish(struct accounting *accounting, const struct json_t *result);

/* Slurm's record of what is known; none for NULL. with_tres: as step_usage has it. */
void accounting_pack(const struct accounting *accounting, bool with_tres, struct pack *p);

/* NULL is fine, here as above. Returns NULL. */
struct accounting *accounting_close(struct accounting *accounting);

#endif
