/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What select plugins of the project have in common: what jobs have of each node, and the
 * functions of the ABI that are the same in all of them (nodes' and jobs' information, and those
 * without work). A plugin has one struct use, use_now.
 */
#ifndef JOBD_SELECT_USE_H
#define JOBD_SELECT_USE_H

#include "stepd/api/select.h"

/* A job on a node. */
struct use_job {
	const job_record_t *job;
	uint64_t memory; /* MB */
	uint16_t cpus;
	bool suspended;
	bool alone;  /* shares the node with nobody */
	bool hidden; /* not of a node that it has alone: see use_hide() */
};

struct use_node {
	struct use_job *jobs;
	uint32_t count, capacity;
	uint32_t hidden;         /* jobs that are */
	uint32_t busy_cores;     /* that any job has; those of whole_jobs are not counted */
	uint32_t whole_jobs;     /* jobs without a bitmap of cores */
	uint64_t memory;         /* MB that jobs have, without hidden ones */
	uint64_t running_memory; /* without that of suspended ones */
};

#define USE_SHAPES_MAX 64u
#define USE_NO_SHAPE   UINT16_MAX /* of a node where there are too many shapes */

struct use {
	struct use_node *nodes; /* by index */
	uint32_t nodes_count;
	uint16_t *core_jobs; /* by the number of a core: jobs that have it, hidden ones, too */
	bitstr_t *full;      /* nodes without a core that no job has, whether it is hidden or not */
	bitstr_t *shared;    /* nodes with two jobs or more */
	uint32_t shared_count;
	bitstr_t *opened; /* those of them with a hidden one */
	uint16_t *shapes; /* by node: nodes of the same shape have the same hardware and weight */
	uint32_t shape_nodes[USE_SHAPES_MAX]; /* one of each */
	uint32_t shapes_count;
	bool has_shapeless;             /* nodes of USE_NO_SHAPE */
	uint32_t most_cores, most_cpus; /* of a node */
	bool same_cpus;                 /* all nodes have as many */
	bitstr_t *idle;                 /* nodes without jobs that are not hidden */
	uint32_t *order;       /* nodes by weight, then by number; NULL: all have the same weight */
	struct use_held *held; /* each job that is on a node */
	size_t held_count, held_capacity;
};

struct use_held {
	const job_record_t *job;
	bool suspended;
};

/* Of node_record_table_ptr. */
void use_make(struct use *use, uint32_t nodes_count);
void use_clear(struct use *use);

/* The nodes' weights, CPUs or memory may have changed. */
void use_note_nodes(struct use *use);

/* All that a job's job_resrcs has on its nodes, or on one of them. A job that is there already is
 * first removed. */
void use_add_job(struct use *use, const job_record_t *job, bool suspended);
void use_remove_job(struct use *use, const job_record_t *job);
void use_remove_job_from(struct use *use, const job_record_t *job, uint32_t node);
void use_set_suspended(struct use *use, const job_record_t *job, bool suspended);

/* The job is as if it had ended, and back again: "would it fit then?" has to be answered for many
 * jobs, so that this takes as little as can be. On nodes that a job has alone only the bits of idle
 * tell; its entry, its memory and its cores still stand there. */
void use_hide(struct use *use, const job_record_t *job);
void use_show(struct use *use, const job_record_t *job);

/* MB that jobs have on a node: with suspended ones, or without. */
uint64_t use_memory(const struct use *use, bitoff_t node, bool of_suspended);

/* MB of a node that jobs may have in all. */
uint64_t use_memory_limit(const node_record_t *node);

/* MB that a job needs on this node for so many CPUs of it. */
uint64_t use_memory_wanted(const job_record_t *job, const node_record_t *node, uint32_t cpus);

/* A job's partition lets so many jobs on one resource: 1 where it shares with nobody. */
uint32_t use_max_share(const job_record_t *job);

/* An array of zeroes from xmalloc(). */
job_resources_t *use_resources_new(const bitstr_t *nodes);
job_resources_t *use_resources_copy(const job_resources_t *resources);
void use_resources_free(job_resources_t *resources);

/* Whether a job fits on some of these nodes, as use_now is: it leaves there what it takes. What
 * fits once must fit with fewer jobs, too. */
typedef bool (*use_fits_fn)(bitstr_t *nodes, void *userdata);

/* What can be counted before fits() is called. */
struct use_need {
	uint32_t nodes; /* fewer are never enough */
	uint32_t have;  /* of those that it may have, so many could be taken now at most */
	use_fits_fn fits;
	void *userdata;
};

/* Jobs that are hidden one after the other. */
struct use_row {
	const job_record_t **jobs;
	size_t count, hidden;
};

/* All are shown again. */
void use_row_clear(struct use_row *row);

/* When a job can start, but not before a certain time: jobs end one after the other, as their
 * limits have it, until it fits; nodes are what it takes then. Jobs without an end (end_time 0)
 * stay. The row, which is the caller's to clear, hides those that have ended then. The ends are
 * searched by halves, from the first one on at which enough nodes come free. */
bool use_find_start(struct use_row *row, bitstr_t *nodes, const struct use_need *need,
	time_t not_before, time_t *ret_start);

/* Which candidates a job that does not fit beside them needs to have preempted. In their order they
 * are hidden until it fits; then the last one that was needed becomes the first, the others come by
 * how many of the chosen nodes they have, and all begins again, preempt_reorder_count times (the
 * guide on preemption, "Design and Operation"); with CR_Least_Preempt a better set is looked for
 * then (use_least()). Jobs whose mode is not among modes stay. True: nodes are what it takes, and
 * *ret_preempted, the caller's to destroy (NULL: not wanted), those that have some of these nodes.
 */
bool use_preempt(bitstr_t *nodes, List candidates, uint16_t modes, const struct use_need *need,
	List *ret_preempted);

/* CR_Least_Preempt: a set of jobs to be put aside that is better than another one. gone: by job,
 * those of the usual choice; where this is true, those of a better one: it has no more jobs and no
 * more of the time that they have run on their nodes, and less of one of these. fits() says whether
 * it does on some of these nodes without those that are gone. */
typedef bool (*use_least_fn)(const bool *gone, const bitstr_t *nodes, void *userdata);
bool use_least(const job_record_t *const *jobs, size_t n, bool *gone, const bitstr_t *nodes,
	use_least_fn fits, void *userdata);

/* select_p_job_begin() and _fini(), as far as use_now goes. */
int use_begin_job(job_record_t *job);
int use_end_job(job_record_t *job);

struct select_jobinfo {
	uint32_t job_id; /* 0: its end has not begun */
};

/* SELECT_JOBDATA_CLEANING of select_p_select_jobinfo_get(); NULL: there is no such thing. */
extern int (*use_get_cleaning)(const select_jobinfo_t *info, uint16_t *ret_cleaning);

/* select_p_get_info_from_plugin() of a plugin that gives parts of nodes, or whole ones. */
int use_get_info(enum select_plugindata_info dinfo, uint32_t gives_parts, void *data);

/* The use that the functions of use_abi.c tell of. */
extern struct use use_now;

#endif
