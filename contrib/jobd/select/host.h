/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The host of a select plugin: loads it, and calls it as the guide describes. A breach of the
 * plugin's contract is caught here, logged once for each kind, and turned into a failure of the
 * call: bits outside the bitmap that it was given, too few or too many nodes, required nodes left
 * out, resources that don't fit the nodes, cores or memory given twice, a failure without errno, a
 * list that was not requested.
 */
#ifndef JOBD_SELECT_HOST_H
#define JOBD_SELECT_HOST_H

#include "stepd/api/select.h"
#include "stepd/base/err.h"

struct log;
struct plugin_kind;
struct select;

const struct plugin_kind *select_plugin_kind(void);

/* name: "linear". */
int select_open(const char *plugin_dir, const char *name, const struct log *log,
	struct select **ret_select, struct err *err) _must_check_;

/* NULL is fine. Returns NULL. */
struct select *select_close(struct select *s);

const char *select_get_type(const struct select *s); /* "select/linear" */

/* Passes node_record_table_ptr and node_record_count, then job_list: at the start, and when nodes
 * have changed. state_dir may be NULL: nothing is restored. kept: by node, an earlier result of
 * select_nodeinfo_pack(), or NULL; kept itself may be NULL. */
int select_begin(
	struct select *s, char *state_dir, const char *const *kept, struct err *err) _must_check_;
/* To be called before that: whether the plugin has written node_rank of node_record_table_ptr. */
bool select_rank_nodes(struct select *s);
/* The reverse of select_begin(): frees the plugin's data at node_record_table_ptr. */
void select_end(struct select *s);
int select_save(struct select *s, char *state_dir, struct err *err) _must_check_;
int select_reconfigure(struct select *s, struct err *err) _must_check_;

/* Whether the plugin gives parts of nodes. */
bool select_gives_parts(struct select *s);

/* The request of a job to select_p_job_test(). */
struct select_request {
	job_record_t *job;
	bitstr_t *nodes; /* in and out */
	uint32_t min_nodes, max_nodes, req_nodes;
	List candidates;             /* NULL: no job may be preempted */
	List *preempted;             /* NULL: likewise */
	bitstr_t *exc_cores;         /* NULL: none; used in all modes */
	time_t not_before;           /* WILL_RUN: an earlier start is of no use */
	job_resources_t **resources; /* modes other than RUN_NOW: what the job would have, the
				      * caller's to free, or NULL: whole nodes. NULL: not wanted */
};

/* 0: the job can start. -EBUSY: not now; -EINVAL: never; -EINPROGRESS: as soon as those jobs of
 * *preempted have ended that are not suspended for it. Other errors are the plugin's failures. The
 * caller destroys *preempted. */
int select_test(struct select *s, const struct select_request *request, uint32_t mode,
	struct err *err) _must_check_;

/* A job starts. */
int select_job_begin(struct select *s, job_record_t *job, struct err *err) _must_check_;

/* 1: its processes may start; 0: not yet. A failure: it has lost its nodes, and must be queued
 * again after select_job_fini(). */
int select_job_ready(struct select *s, job_record_t *job, struct err *err) _must_check_;
/* A job ends, and goes on to do so after a failure. */
int select_job_fini(struct select *s, job_record_t *job, struct err *err) _must_check_;
int select_job_suspend(
	struct select *s, job_record_t *job, bool by_user, struct err *err) _must_check_;
int select_job_resume(
	struct select *s, job_record_t *job, bool by_user, struct err *err) _must_check_;

/* The plugin's information on a job, or on its step. NULL: the plugin has failed. */
select_jobinfo_t *select_jobinfo_new(struct select *s);
/* The same for a job that is like the one with this info. */
select_jobinfo_t *select_jobinfo_copy(struct select *s, select_jobinfo_t *info);
/* Passes --network of the user. A plugin may ignore it. */
void select_jobinfo_set_network(struct select *s, select_jobinfo_t *info, const char *network);
void select_jobinfo_free(struct select *s, select_jobinfo_t *info); /* NULL is fine */
/* As a text to be stored, free(); NULL: there is nothing to store, or memory is short. */
char *select_jobinfo_pack(struct select *s, select_jobinfo_t *info);
/* The reverse; NULL: the plugin can't read it. */
select_jobinfo_t *select_jobinfo_unpack(struct select *s, const char *text);
/* For users, free(); NULL: nothing. brief: a column of a table. */
char *select_jobinfo_describe(struct select *s, select_jobinfo_t *info, bool brief);

/* 1: the plugin is still busy with the end of a job; 0: it is done; -errno: it has failed. */
int select_job_is_cleaning(struct select *s, job_record_t *job, struct err *err) _must_check_;

/* Notifies the plugin of a signal to a job. */
void select_job_signal(struct select *s, job_record_t *job, int signal);

/* All resources of `from` become those of `to`; a job has given up this node. -EOPNOTSUPP: the
 * plugin does not support that. */
int select_job_expand(
	struct select *s, job_record_t *from, job_record_t *to, struct err *err) _must_check_;
int select_job_resized(
	struct select *s, job_record_t *job, node_record_t *node, struct err *err) _must_check_;

/* The memory of a node has changed: whether the job can retain what it was given. */
bool select_job_mem_confirm(struct select *s, job_record_t *job);

/* The job's step is about to start on all of its nodes. Free the information on it by
 * select_jobinfo_free(). */
select_jobinfo_t *select_step_begin(struct select *s, job_record_t *job);
/* killing: it gets SIGKILL; else its processes have ended. */
void select_step_finish(struct select *s, step_record_t *step, bool killing);

/* A node's state, or its CPUs or memory, have changed. */
void select_node_changed(struct select *s, node_record_t *node);
void select_node_configured(struct select *s, node_record_t *node);

/* Nodes of avail for a reservation, a bitmap of the caller's; NULL: it is not possible now. *cores:
 * on entry NULL, or cores that it must not have; on return its cores, or NULL: whole nodes. */
bitstr_t *select_resv_test(struct select *s, resv_desc_msg_t *desc, uint32_t node_count,
	bitstr_t *avail, bitstr_t **cores);

/* The plugin's information on a node, as a text to be stored: free(); NULL: none, or memory is
 * short. */
char *select_nodeinfo_pack(struct select *s, const node_record_t *node);

/* CPUs and MB of a node that jobs have, as the plugin counts them. */
void select_node_use(
	struct select *s, const node_record_t *node, uint16_t *ret_cpus, uint64_t *ret_memory);

/* Variables that the host exports to plugins. */
extern time_t select_clock;
typedef uint16_t (*select_preempt_mode_fn)(const job_record_t *job);
extern select_preempt_mode_fn select_preempt_mode; /* NULL: no job is preempted */

#endif
