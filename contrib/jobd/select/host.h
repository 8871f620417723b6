/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The host of a select plugin: loads it, and calls it as the guide has it. What the plugin does
 * against its contract is caught here, named in the log once for each kind, and turned into a
 * failure of the call: bits outside of what it was given, too few or too many nodes, required nodes
 * left out, resources that don't fit the nodes, cores or memory given twice, a failure without
 * errno, a list where none was wanted.
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

/* node_record_table_ptr and node_record_count, then job_list: at the start, and when nodes have
 * changed. state_dir may be NULL: nothing is restored. kept: by node, what select_nodeinfo_pack()
 * has made of it before, or NULL; all of it may be NULL. */
int select_begin(
	struct select *s, char *state_dir, const char *const *kept, struct err *err) _must_check_;
/* Before that: whether the plugin has written node_rank of the node_record_table_ptr. */
bool select_rank_nodes(struct select *s);
/* The reverse of select_begin(): what the plugin has at node_record_table_ptr is freed. */
void select_end(struct select *s);
int select_save(struct select *s, char *state_dir, struct err *err) _must_check_;
int select_reconfigure(struct select *s, struct err *err) _must_check_;

/* Whether jobs get parts of nodes, too. */
bool select_gives_parts(struct select *s);

/* The request of a job to select_p_job_test(). */
struct select_request {
	job_record_t *job;
	bitstr_t *nodes; /* in and out */
	uint32_t min_nodes, max_nodes, req_nodes;
	List candidates;             /* NULL: nobody may be preempted */
	List *preempted;             /* NULL: likewise */
	bitstr_t *exc_cores;         /* NULL: none; of another mode than RUN_NOW, too */
	time_t not_before;           /* WILL_RUN: no start before then is of use */
	job_resources_t **resources; /* another mode than RUN_NOW: what the job would have, the
				      * caller's to free; NULL: whole nodes. NULL: not wanted */
};

/* 0: it can. -EBUSY: not now; -EINVAL: never; -EINPROGRESS: as soon as those of *preempted have
 * ended that do not stand still for it. Other failures are the plugin's. *preempted is the caller's
 * to destroy. */
int select_test(struct select *s, const struct select_request *request, uint32_t mode,
	struct err *err) _must_check_;

/* Of a job that starts, and ends. */
int select_job_begin(struct select *s, job_record_t *job, struct err *err) _must_check_;

/* 1: its processes may start; 0: not yet. A failure: it has no place, and is to be queued again,
 * after select_job_fini(). */
int select_job_ready(struct select *s, job_record_t *job, struct err *err) _must_check_;
/* Its end goes on after a failure, too. */
int select_job_fini(struct select *s, job_record_t *job, struct err *err) _must_check_;
int select_job_suspend(
	struct select *s, job_record_t *job, bool by_user, struct err *err) _must_check_;
int select_job_resume(
	struct select *s, job_record_t *job, bool by_user, struct err *err) _must_check_;

/* What the plugin has of a job, or of its step. NULL: the plugin has failed. */
select_jobinfo_t *select_jobinfo_new(struct select *s);
/* Of a job that is as the one with this info. */
select_jobinfo_t *select_jobinfo_copy(struct select *s, select_jobinfo_t *info);
/* What its user has said of networks. A plugin that has nothing to do with that has its way. */
void select_jobinfo_set_network(struct select *s, select_jobinfo_t *info, const char *network);
void select_jobinfo_free(struct select *s, select_jobinfo_t *info); /* NULL is fine */
/* As a text to be kept, free(); NULL: there is nothing to be kept, or no memory. */
char *select_jobinfo_pack(struct select *s, select_jobinfo_t *info);
/* What was packed; NULL: the plugin can't read it. */
select_jobinfo_t *select_jobinfo_unpack(struct select *s, const char *text);
/* For users, free(); NULL: nothing. brief: a column of a table. */
char *select_jobinfo_describe(struct select *s, select_jobinfo_t *info, bool brief);

/* 1: the plugin is still busy with the end of a job; 0: it is not. Else it could not do what it had
 * to: -errno with a sentence. */
int select_job_is_cleaning(struct select *s, job_record_t *job, struct err *err) _must_check_;

/* A signal to a job, where the plugin has a part in that. */
void select_job_signal(struct select *s, job_record_t *job, int signal);

/* All that the one has becomes the other's; a job has this node no more. -EOPNOTSUPP: the plugin
 * can't. */
int select_job_expand(
	struct select *s, job_record_t *from, job_record_t *to, struct err *err) _must_check_;
int select_job_resized(
	struct select *s, job_record_t *job, node_record_t *node, struct err *err) _must_check_;

/* The memory of a node has changed: whether the job still has what it was given. */
bool select_job_mem_confirm(struct select *s, job_record_t *job);

/* The job's step on all of its nodes is about to start. What the plugin has of it is for
 * select_jobinfo_free(). */
select_jobinfo_t *select_step_begin(struct select *s, job_record_t *job);
/* killing: it gets SIGKILL; else its processes have ended. */
void select_step_finish(struct select *s, step_record_t *step, bool killing);

/* A node's state, or its CPUs or memory, have changed. */
void select_node_changed(struct select *s, node_record_t *node);
void select_node_configured(struct select *s, node_record_t *node);

/* Nodes of avail for a reservation, a bitmap of the caller's; NULL: it can't be had now. *cores: in
 * NULL or cores that it may not have, out those that it has, or NULL: whole nodes. */
bitstr_t *select_resv_test(struct select *s, resv_desc_msg_t *desc, uint32_t node_count,
	bitstr_t *avail, bitstr_t **cores);

/* What the plugin has of a node, as a text to be kept: free(); NULL: nothing, or no memory. */
char *select_nodeinfo_pack(struct select *s, const node_record_t *node);

/* CPUs and MB that jobs have of a node, as the plugin has it. */
void select_node_use(
	struct select *s, const node_record_t *node, uint16_t *ret_cpus, uint64_t *ret_memory);

/* What the plugins of the host see. */
extern time_t select_clock;
typedef uint16_t (*select_preempt_mode_fn)(const job_record_t *job);
extern select_preempt_mode_fn select_preempt_mode; /* NULL: no job is preempted */

#endif
