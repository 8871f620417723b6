/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine's state, shared by its files: engine.c (its life, and the clock), jobs.c (jobs from
 * their submission to their end), queue.c (pending jobs), groups.c (arrays, and jobs of the same
 * name), het.c (components that start together), pass.c (which job starts now), backfill.c and
 * plan.c (when the others could start), preempt.c (which jobs are preempted), gang.c (time slices),
 * reservations.c, nodes.c, update.c (changes by users) and documents.c (all of it as JSON).
 */
#ifndef JOBD_ENGINE_ENGINE_IMPL_H
#define JOBD_ENGINE_ENGINE_IMPL_H

#include "contrib/jobd/engine/engine.h"
#include "contrib/jobd/select/host.h"

#define NEVER_MS UINT64_MAX
#define MS_PER_S 1000u

/* Jobs that may start, in the order of their priority. */
struct queue {
	struct job **jobs;
	size_t count, capacity;
	const struct job *blocked; /* the job that the last pass could not start; NULL: none */
};

struct node_extra {
	char *reason; /* of DOWN and DRAIN; NULL: none */
	time_t reason_time;
	uid_t reason_uid;    /* who gave it */
	uint32_t completing; /* jobs whose processes are ending here */
	/* As stored: the plugin's information on the node, its CPUs and memory; 0: not stored */
	char *kept_state;
	uint16_t kept_cpus;
	uint64_t kept_memory;
};

/* The shared part of an array's tasks; freed with the last one. */
struct job_array {
	uint32_t job_id;              /* of the first */
	struct job *first, *last;     /* those that are not forgotten */
	uint32_t active, most_active; /* tasks that run or may start; 0: no limit */
};

/* The components of a heterogeneous job; freed with the last one. */
struct het_job {
	uint32_t job_id; /* of the first */
	uint32_t count;
	struct job *components[ENGINE_COMPONENTS_MAX]; /* NULL: forgotten */
	bool refused; /* a node has refused to suspend one of them: the others are resumed */
};

struct reservation {
	char *name;
	time_t start_time, end_time;
	bitstr_t *nodes;
	bitstr_t *cores; /* NULL: whole nodes */
	uint32_t core_count;
	uid_t *users;
	size_t users_count;
	bool by_name, ignore_jobs, maintenance;
	bool begun;
};

/* Jobs of a partition with a share in its cores, in the order of their turns. */
struct gang {
	struct job **jobs;
	size_t count, capacity;
};

struct engine {
	struct engine_options options;
	struct conf *conf;
	struct select *select;
	struct preempt *preempt; /* NULL: no job is preempted */
	const struct log *log;
	struct engine_stats stats;
	uint64_t now_ms;
	uint64_t pass_due_ms, full_pass_due_ms, backfill_due_ms;
	uint64_t backfilled_ms; /* the last cycle */
	bool backfill_wanted;   /* something has changed since then */
	uint64_t changes; /* the number of changes after which a refused job may be able to start */

	/* nodes are node_record_table_ptr's, partitions part_list's, in the order of conf */
	part_record_t *parts;
	qos_record_t *qos;    /* by their numbers in conf */
	struct queue *queues; /* one for each partition */
	struct gang *gangs;   /* likewise */
	uint64_t slice_due_ms;
	bool gang_changed; /* engine_advance() settles it */
	size_t *parts_by_tier;
	size_t parts_count;
	struct node_extra *nodes;
	uint32_t *node_order;       /* the plugin's, for conf_order_nodes(); NULL: as configured */
	uint32_t most_cpus;         /* of a node */
	bitstr_t *up_nodes;         /* neither down nor drained */
	bitstr_t *completing_nodes; /* processes of a job are ending there */
	bool memory_unconfirmed;    /* the memory of nodes has changed since jobd last ran */
	bitstr_t *used_nodes;       /* nodes of jobs that have not ended */
	struct plan *plan;          /* backfill's; NULL: none was made yet */

	/* All jobs by id. NULL where one was forgotten; holes are closed now and then. */
	struct job **jobs;
	size_t jobs_count, jobs_capacity, jobs_forgotten;
	uint32_t next_job_id;

	/* Pending jobs that wait for others: a dependency, or their array's limit. */
	struct job **waiting;
	size_t waiting_count, waiting_capacity;
	bool waiting_changed;

	void *namesakes, *arrays, *hets; /* a tree of each */

	/* A heap of jobs by due_ms. */
	struct job **timers;
	size_t timers_count, timers_capacity;

	struct reservation **reservations;
	size_t reservations_count;
	uint32_t reservations_made;
};

static inline time_t engine_now(const struct engine *e)
{
	return (time_t)(e->now_ms / 1000);
}

static inline uint32_t job_base_state(const struct job *job)
{
	return job->record.job_state & JOB_STATE_BASE;
}

static inline bool job_is_pending(const struct job *job)
{
	return job->record.job_state == JOB_PENDING;
}

static inline bool job_is_completing(const struct job *job)
{
	return job->record.job_state & JOB_COMPLETING;
}

static inline bool job_has_ended(const struct job *job)
{
	return job_base_state(job) >= JOB_COMPLETE && !job_is_completing(job);
}

/* Its time limit in seconds, or FOR_EVER_S. */
#define FOR_EVER_S ((time_t)365 * 24 * 3600)
static inline time_t job_duration(const struct job *job)
{
	uint32_t limit = job->record.time_limit;

	return limit == INFINITE || limit == NO_VAL ? FOR_EVER_S : (time_t)limit * 60;
}

static inline char *job_request_name(const struct job_request *request)
{
	return request->name ? request->name : (char *)"job";
}

static inline bool job_has_nodes(const struct job *job)
{
	return job->record.job_resrcs && !job_is_completing(job) && !job_has_ended(job);
}

/* ---- engine.c ---- */
int engine_make_qos(const struct conf *conf, qos_record_t **ret_qos);    /* free(); -ENOMEM */
qos_record_t *engine_find_qos(const struct engine *e, const char *name); /* NULL: none */
void engine_fill_parts(struct engine *e);                                /* of conf */
/* Requests a pass at the engine's next step. */
void engine_want_pass(struct engine *e);
void engine_want_pass_for(struct engine *e, struct job *job);       /* only this job has changed */
void timer_set(struct engine *e, struct job *job, uint64_t due_ms); /* NEVER_MS: none */
void job_changed(struct engine *e, struct job *job);                /* notifies the store */
/* A transaction of the store. begun: the result of changes_begin(). No process may be notified of
 * its changes before it ends. */
bool changes_begin(struct engine *e) _must_check_;
void changes_end(struct engine *e, bool begun);

/* ---- jobs.c ---- */
int job_add(struct engine *e, struct job *job);   /* to the table, by its id */
void job_free(struct engine *e, struct job *job); /* the caller clears its entry in the table */
void job_forget(struct engine *e, struct job *job);
void job_due(struct engine *e, struct job *job);
/* Of a running job: the next of its user warning signal and its end. */
void job_set_limit_timer(struct engine *e, struct job *job);
/* Whether it has a user warning signal, and processes for it. */
bool job_takes_warning(const struct job *job);
/* Sends it its user warning signal, before that SIGCONT if it is to be continued. */
void job_warn(struct engine *e, struct job *job, bool continued);
/* Starts it on the nodes of job_resrcs; if that fails, it waits for a while. In both cases it has
 * left its queue. */
void job_start(struct engine *e, struct job *job);
/* Ends its processes and those of all components; end_state is its state then, JOB_PENDING: it is
 * queued again. */
void job_terminate(struct engine *e, struct job *job, uint32_t end_state);
/* The same for this component alone. */
void job_terminate_component(struct engine *e, struct job *job, uint32_t end_state);
/* Fills the members that follow from job->request: partition, details, limits. After an error the
 * job is unchanged. */
int job_apply_request(struct engine *e, struct job *job, bool by_admin, struct err *err);
/* Its partition's limits, which a QOS may lift. */
uint32_t job_least_nodes(const job_record_t *job);
uint32_t job_most_nodes(const job_record_t *job);
/* The same for a job that was accepted before: an error only if its partition, QOS or nodes are not
 * configured any more. */
int job_restore_request(struct engine *e, struct job *job, struct err *err);
/* Starts its processes, now or as soon as the plugin is ready. */
void job_launch(struct engine *e, struct job *job);
void job_begin_suspension(struct engine *e, struct job *job);
void job_begin_resumption(struct engine *e, struct job *job);
void job_stand(struct engine *e, struct job *job); /* it is suspended now */
void job_go_on(struct engine *e, struct job *job);
void job_give(struct job *job); /* allocates the nodes of job_resrcs, in place of its former ones */
void job_release(struct job *job);                       /* releases them */
void job_fini_plugin(struct engine *e, struct job *job); /* reports its end to the plugin */
/* Its processes have ended, or were never started: ends it as soon as the plugin is done. */
void job_clean(struct engine *e, struct job *job);

/* ---- queue.c ---- */
void queue_add(struct engine *e, struct job *job);
void queue_remove(struct engine *e, struct job *job);
/* Puts a pending job into the queue of its partition, into the list of jobs that wait for others,
 * or only sets its timer. */
void queue_place(struct engine *e, struct job *job);
void queue_take_out(struct engine *e, struct job *job); /* of the queue or the list */
bool reason_stays(enum job_reason reason);              /* until it is changed by hand */
void queue_recheck(struct engine *e);                   /* the jobs that wait for others */
void array_count(struct job *job);                      /* a task may start, or runs */
void array_uncount(struct engine *e, struct job *job);  /* it has ended */
void queue_clear(struct engine *e);
static inline struct queue *queue_of(const struct engine *e, const struct job *job)
{
	return &e->queues[job->record.part_ptr - e->parts];
}

/* ---- groups.c ---- */
/* A new reference; NULL: out of memory. A job has one from job_add() on. */
struct namesakes *namesakes_get(struct engine *e, uid_t uid, const char *name);
void namesakes_put(struct engine *e, struct namesakes *group);
void namesakes_add(struct job *job); /* to its group's list */
void namesakes_remove(struct job *job);
bool namesakes_is_first(const struct job *job);
/* The name of the job has changed; takes the reference. */
void namesakes_move(struct engine *e, struct job *job, struct namesakes *group);
struct job_array *array_find(const struct engine *e, uint32_t job_id); /* NULL: none */
/* Adds the job to this array, which is made with its first task. -ENOMEM */
int array_add(struct engine *e, struct job *job, uint32_t job_id) _must_check_;
void array_remove(struct engine *e, struct job *job);

/* ---- het.c ---- */
/* Makes the job a component. -ENOMEM; -EINVAL: there is one with this offset. */
int het_add(struct engine *e, struct job *job, uint32_t job_id, uint32_t offset) _must_check_;
void het_remove(struct engine *e, struct job *job);
/* The following functions take any job: one that is not heterogeneous is its only component. */
struct job *het_leader(const struct job *job); /* its first component */
bool het_is_pending(const struct job *job);    /* all of it */
bool het_has_ended(const struct job *job);     /* likewise */
time_t het_begin_time(const struct job *job);  /* the earliest start */
/* Nodes for each component, and cores of these that it must not have. */
struct het_nodes {
	uint32_t count;
	bitstr_t *nodes[ENGINE_COMPONENTS_MAX], *exc_cores[ENGINE_COMPONENTS_MAX];
	bool reserved[ENGINE_COMPONENTS_MAX]; /* reservations hold some nodes */
};
/* Of avail, without reserved ones; avail NULL: all possible nodes. */
void het_nodes_make(
	struct het_nodes *n, const struct engine *e, const struct job *job, const bitstr_t *avail);
void het_nodes_clear(struct het_nodes *n);
/* Called for one component after the other, with the nodes that those before have left. 0: nodes
 * are those that it takes; any other value is returned by het_choose(). */
typedef int (*het_choose_fn)(struct job *one, bitstr_t *nodes, bitstr_t *exc_cores, void *userdata);
int het_choose(struct het_nodes *n, const struct job *job, het_choose_fn choose, void *userdata);
int het_check(
	struct engine *e, const struct job *job, struct err *err); /* whether it can ever run */
/* As job_try(), for all components; changes n. */
int het_try(struct engine *e, struct job *leader, struct het_nodes *n, struct err *err);
/* Of any job: if it was the first component, the others end with it, but those that are in their
 * own grace time. */
void het_leader_ended(struct engine *e, struct job *leader, uint32_t state);
/* Of any job: its suspension has succeeded or failed. */
void het_suspension_ended(struct engine *e, struct job *job);
void het_restore(struct engine *e); /* once all jobs are restored */

/* ---- pass.c ---- */
void pass_run(struct engine *e, bool full);
/* A request to the plugin, with the possible nodes of the job. */
struct select_request job_make_request(
	const struct engine *e, struct job *job, bitstr_t *nodes, bitstr_t *exc_cores);
bitstr_t *job_possible_nodes(const struct engine *e, const struct job *job);
int job_test(struct engine *e, struct select_request *q, uint32_t mode, struct err *err);
/* Chooses nodes for a start now, and sets job_resrcs: 0. -EINPROGRESS: it can start when the jobs
 * that it has preempted have ended. */
int job_choose(
	struct engine *e, struct job *job, bitstr_t *nodes, bitstr_t *exc_cores, struct err *err);
/* As job_choose(), and starts it. */
int job_try(
	struct engine *e, struct job *job, bitstr_t *nodes, bitstr_t *exc_cores, struct err *err);

/* ---- preempt.c ---- */
void preempt_set(struct engine *e); /* makes slurm_job_preempt_mode() use e->preempt */
/* Running jobs that it may preempt, those first that are preempted first; the caller destroys the
 * list. NULL: none, or it already waits for preempted jobs. */
List preempt_candidates(const struct engine *e, const struct job *job);
/* Whether the job could preempt this other one of its partition, if that ran. */
bool preempt_is_possible(const struct engine *e, const struct job *other, const struct job *job);
/* With preempt/qos: whether the other one, if they take no turns, is suspended while the job has
 * its cores. */
bool preempt_casts_shadow(const struct engine *e, const struct job *job, const struct job *other);
/* The next end of a candidate's exempt time; 0: none. */
time_t preempt_get_next_eligible(const struct engine *e, const struct job *job);
/* PreemptEligibleTime; 0: it can't be preempted. */
time_t job_preemptable_time(const struct engine *e, const struct job *job);
void preempt_begin(struct engine *e, struct job *preemptor, List preempted);
void preempt_due(struct engine *e, struct job *job); /* its grace time is over */
void preempt_ended(struct engine *e, struct job *job, bool is_queued_again); /* of any job */
/* Of a job that was queued again: whether the job that preempted it has its nodes, or waits for
 * more. */
bool preempt_has_taken(const struct engine *e, const struct job *job);
void preempt_restore(struct engine *e); /* once all jobs are restored */

/* ---- gang.c ---- */
/* Adds a job that was given nodes; false: there is no gang scheduling. When e->gang_changed is
 * settled it is started, or begins suspended. */
bool gang_add(struct engine *e, struct job *job);
bool gang_takes(const struct engine *e, const struct job *job); /* whether it was added */
void gang_remove(struct engine *e, struct job *job); /* of any job: it has no nodes any more */
void gang_stops(struct engine *e, struct job *job);  /* of any job: it is about to be suspended */
/* Suspends the jobs that have no turn, and starts or resumes those that have one. */
void gang_settle(struct engine *e);
void gang_slice(struct engine *e);                    /* e->slice_due_ms has come */
void gang_refused(struct engine *e, struct job *job); /* it could not be suspended or resumed */
void gang_restore(struct engine *e);
void gang_free(struct engine *e);

/* ---- backfill.c ---- */
void backfill_run(struct engine *e);
void backfill_forget(struct job *job); /* its planned start */
/* Finds the expected start of a job that is not in a queue, after the jobs that are planned before
 * it; fills nodes. Nothing is started. -EBUSY: it can't start on the nodes that are up. */
int backfill_find_start(struct engine *e, struct job *job, bitstr_t *nodes, time_t *ret_start);

/* ---- reservations.c ---- */
struct reservation *reservation_find(const struct engine *e, const char *name);
/* Removes from nodes, and adds to *exc_cores (made as needed), what the job must not have from
 * start on. True: there was something to remove or add. */
bool reservations_apply(const struct engine *e, const struct job *job, time_t start,
	bitstr_t *nodes, bitstr_t **exc_cores);
void reservations_clear(struct engine *e);
/* The next time after `after` at which one begins or ends; 0: none. */
time_t reservations_next_change(const struct engine *e, time_t after);
/* Removes those that are over, and sets the nodes' flags of those that have begun; jobs that wait
 * for a reservation may start. */
void reservations_expire(struct engine *e);
json_t *reservation_to_json(const struct engine *e, const struct reservation *resv);

/* ---- documents.c ---- */
/* {name, cores}: the cores of a node that are in cores, by the node's own numbers; and the reverse.
 */
json_t *node_cores_json(const node_record_t *node, const bitstr_t *cores);
int node_cores_parse(const node_record_t *node, const char *text, bitstr_t *cores);

/* ---- nodes.c ---- */
int nodes_make(struct engine *e, struct err *err);
void nodes_free(struct engine *e);
/* -EINVAL: no such list, or an unknown node. */
int nodes_parse(const char *text, bitstr_t **ret_nodes);
char *nodes_text(const bitstr_t *nodes); /* "n[1-4]", free(); NULL: out of memory */
bool node_has_features(const node_record_t *node, const char *wanted);
int features_check(const char *wanted, struct err *err);
void nodes_set_states(struct engine *e); /* from the plugin's information */
/* At the start: the plugin's stored information on each, for select_begin(); NULL: out of memory.
 */
const char **nodes_kept_states(const struct engine *e);
/* After that: notifies the plugin of nodes whose configuration has changed, and the store of those
 * that it has stored in another way. */
void nodes_compare(struct engine *e);
void nodes_confirm_memory(struct engine *e); /* of running jobs */
void nodes_add_job(struct engine *e, const struct job *job);
void nodes_remove_job(struct engine *e, const struct job *job);
void nodes_count_alone(struct engine *e); /* once the plugin may have changed how jobs share */
/* A job's processes on these nodes begin to end, and have ended. */
void nodes_begin_completing(struct engine *e, const bitstr_t *nodes);
void nodes_end_completing(struct engine *e, const bitstr_t *nodes);
void nodes_drain(struct engine *e, uint32_t node, const char *reason);

#endif
