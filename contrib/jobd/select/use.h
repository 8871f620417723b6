/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The common part of the project's select plugins: the use of each node by jobs, and the functions
 * of the ABI that are the same in all of them (information on nodes and jobs, and those that do
 * nothing). A plugin has one struct use, use_now.
 */
#ifndef JOBD_SELECT_USE_H
#define JOBD_SELECT_USE_H

#include "stepd/api/select.h"

/* A job on a node. */
struct use_job {
	const job_record_t *job;
	uint64_t memory; /* MB */
	uint16_t cpus;
	bool alone;  /* it does not share the node */
	bool hidden; /* by use_hide(); not set on a node that it has alone */
};

struct use_node {
	struct use_job *jobs;
	uint32_t count, capacity;
	uint32_t hidden;     /* hidden jobs */
	uint32_t busy_cores; /* cores of any job; those of whole_jobs are not counted */
	uint32_t whole_jobs; /* jobs without a bitmap of cores */
	uint64_t memory;     /* MB of jobs that are not hidden, suspended ones included */
};

#define USE_SHAPES_MAX 64u
#define USE_NO_SHAPE   UINT16_MAX /* of a node beyond USE_SHAPES_MAX shapes */

struct use {
	struct use_node *nodes; /* by index */
	uint32_t nodes_count;
	uint16_t *core_jobs; /* by the number of a core: its jobs, including hidden ones */
	bitstr_t *full;      /* nodes whose cores all have a job, hidden or not */
	bitstr_t *shared;    /* nodes with two jobs or more */
	uint32_t shared_count;
	bitstr_t *opened; /* shared nodes with a hidden job */
	uint16_t *shapes; /* by node: nodes of the same shape have the same hardware and weight */
	uint32_t shape_nodes[USE_SHAPES_MAX]; /* a node of each shape */
	uint32_t shapes_count;
	bool has_shapeless;             /* nodes of USE_NO_SHAPE */
	uint32_t most_cores, most_cpus; /* of a node */
	bool same_cpus;                 /* all nodes have the same number */
	bitstr_t *idle;                 /* nodes whose jobs, if any, are all hidden */
	uint32_t *order; /* nodes by weight, then by number; NULL: all have the same weight */
	const job_record_t **held; /* each job that is on a node */
	size_t held_count, held_capacity;
};

/* Of node_record_table_ptr. */
void use_make(struct use *use, uint32_t nodes_count);
void use_clear(struct use *use);

/* The nodes' weights, CPUs or memory may have changed. */
void use_note_nodes(struct use *use);

/* OverSubscribe of partitions may have changed: sets node_req of all jobs. */
void use_note_sharing(struct use *use);

/* Adds or removes all of a job's job_resrcs, or its part on one node. A job that was added before
 * is removed first. */
void use_add_job(struct use *use, const job_record_t *job);
void use_remove_job(struct use *use, const job_record_t *job);
void use_remove_job_from(struct use *use, const job_record_t *job, uint32_t node);

/* Treats a job as if it had ended, and undoes that. It is called for many jobs, to see whether
 * another one would fit then, so that it does as little as possible: on nodes that a job has alone
 * only the bits of idle change, and its entry, its memory and its cores remain. */
void use_hide(struct use *use, const job_record_t *job);
void use_show(struct use *use, const job_record_t *job);

/* MB of jobs on a node. */
uint64_t use_memory(const struct use *use, bitoff_t node);

/* MB of a node that are for jobs. */
uint64_t use_memory_limit(const node_record_t *node);

/* MB that a job needs on this node for so many CPUs. */
uint64_t use_memory_wanted(const job_record_t *job, const node_record_t *node, uint32_t cpus);

/* The number of jobs that the job's partition lets share a resource; 1: it does not share. */
uint32_t use_max_share(const job_record_t *job);

/* Candidates that are preempted by suspension, by their addresses. */
struct use_suspendable {
	const job_record_t **jobs;
	size_t count;
};

/* candidates NULL: there are none. The caller frees s->jobs. */
void use_list_suspendable(struct use_suspendable *s, List candidates);
bool use_is_suspendable(const struct use_suspendable *s, const job_record_t *job);

/* An array of zeroes from xmalloc(). */
job_resources_t *use_resources_new(const bitstr_t *nodes);
job_resources_t *use_resources_copy(const job_resources_t *resources);
void use_resources_free(job_resources_t *resources);

/* Whether a job fits on some of these nodes with the jobs of use_now: leaves in nodes those that it
 * takes. What fits must also fit with fewer jobs. */
typedef bool (*use_fits_fn)(bitstr_t *nodes, void *userdata);

/* What jobs lose that are preempted. */
struct use_loss {
	size_t jobs;
	uint64_t node_s; /* the time that they have run, on all of their nodes */
};

/* gone: by job. Components of a heterogeneous job go with each other. */
struct use_loss use_loss_of(const job_record_t *const *jobs, size_t n, const bool *gone);

/* What other jobs lose than those that are hidden. */
typedef struct use_loss (*use_more_fn)(const bitstr_t *nodes, void *userdata);

/* Counts that are checked before fits() is called. */
struct use_need {
	uint32_t nodes; /* fewer are never enough */
	uint32_t have;  /* nodes that it could take now, at most */
	use_fits_fn fits;
	use_more_fn more; /* NULL: nothing */
	void *userdata;
};

/* Jobs that are hidden one after the other. */
struct use_row {
	const job_record_t **jobs;
	size_t count, hidden;
};

/* Shows all of them again. */
void use_row_clear(struct use_row *row);

/* Finds the time at which a job can start, not before a given time: jobs end one after the other by
 * their limits until it fits; nodes are those that it takes then. Jobs without an end (end_time 0)
 * remain. The row, which the caller clears, hides those that have ended by then. The ends are
 * searched by bisection, from the first one at which enough nodes are free. */
bool use_find_start(struct use_row *row, bitstr_t *nodes, const struct use_need *need,
	time_t not_before, time_t *ret_start);

/* Chooses the candidates that a job needs preempted, as it does not fit beside them. They are
 * hidden in their order until it fits; then the last one that was needed becomes the first, the
 * others are sorted by the number of chosen nodes that they have, and this is repeated
 * preempt_reorder_count times (the guide on preemption, "Design and Operation"); with
 * CR_Least_Preempt a better set is searched for then (use_least()). Jobs whose mode is not among
 * modes remain. True: nodes are those that it takes, and *ret_preempted, which the caller destroys
 * (NULL: not wanted), has the jobs on these nodes. */
bool use_preempt(bitstr_t *nodes, List candidates, uint16_t modes, const struct use_need *need,
	List *ret_preempted);

/* CR_Least_Preempt: searches for a better set of jobs to preempt. gone: by job, on entry the usual
 * choice, and if this returns true, a better one: neither its number of jobs nor the time that they
 * have run on their nodes is higher, and one of them is lower. */
struct use_least {
	const job_record_t *const *jobs;
	size_t count;
	const bitstr_t *nodes; /* to choose from */
	/* Whether the job fits on some of these nodes without the jobs in gone. */
	bool (*fits)(const bool *gone, const bitstr_t *nodes, void *userdata);
	/* What others lose then; NULL: nothing. */
	struct use_loss (*more)(const bool *gone, const bitstr_t *nodes, void *userdata);
	void *userdata;
};
bool use_least(const struct use_least *l, bool *gone);

/* The parts of select_p_job_begin() and _fini() that concern use_now. */
int use_begin_job(job_record_t *job);
int use_end_job(job_record_t *job);

struct select_jobinfo {
	uint32_t job_id; /* 0: its end has not begun */
};

/* SELECT_JOBDATA_CLEANING of select_p_select_jobinfo_get(); NULL: not supported. */
extern int (*use_get_cleaning)(const select_jobinfo_t *info, uint16_t *ret_cleaning);

/* select_p_get_info_from_plugin() of a plugin that gives parts of nodes, or whole ones. */
int use_get_info(enum select_plugindata_info dinfo, uint32_t gives_parts, void *data);

/* The use that the functions of use_abi.c report. */
extern struct use use_now;

#endif
