/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine's state, shared by its files: engine.c (its life, and the clock), jobs.c (jobs from
 * their submission to their end), queue.c (those that wait), groups.c (jobs that have something in
 * common), het.c (components that start together), pass.c (which of them starts now), backfill.c
 * and plan.c (when the others could), preempt.c (who makes room for it), gang.c (whose turn it is),
 * reservations.c, nodes.c, update.c (what is changed by hand) and documents.c (all of it as JSON).
 */
#ifndef JOBD_ENGINE_ENGINE_IMPL_H
#define JOBD_ENGINE_ENGINE_IMPL_H

#include "contrib/jobd/engine/engine.h"
#include "contrib/jobd/select/host.h"

#define NEVER_MS UINT64_MAX
#define MS_PER_S 1000u

/* Jobs that may start, first those that come first. */
struct queue {
	struct job **jobs;
	size_t count, capacity;
	const struct job *blocked; /* the one that the last pass could not start; NULL: none */
};

struct node_extra {
	char *reason; /* of DOWN and DRAIN; NULL: none */
	time_t reason_time;
	uid_t reason_uid;    /* who has given it */
	uint32_t completing; /* jobs whose processes end here */
	/* As the store has it: what the plugin has of the node, its CPUs and memory; 0: it has not
	 */
	char *kept_state;
	uint16_t kept_cpus;
	uint64_t kept_memory;
};

/* What the tasks of an array share; it goes with the last one. */
struct job_array {
	uint32_t job_id;              /* of the first */
	struct job *first, *last;     /* those that are not forgotten */
	uint32_t active, most_active; /* tasks that run or may; 0: no limit */
};

/* The components of a heterogeneous job; it goes with the last one. */
struct het_job {
	uint32_t job_id; /* of the first */
	uint32_t count;
	struct job *components[ENGINE_COMPONENTS_MAX]; /* NULL: forgotten */
	bool refused; /* a node has refused to suspend one of them: the others go on, too */
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
	uint64_t changes;       /* so often a job that could not start may have become able to */

	/* nodes are node_record_table_ptr's, partitions part_list's, in the order of conf */
	part_record_t *parts;
	qos_record_t *qos;    /* by their numbers in conf */
	struct queue *queues; /* a partition's each */
	struct gang *gangs;   /* likewise */
	uint64_t slice_due_ms;
	bool gang_changed; /* engine_advance() settles it */
	size_t *parts_by_tier;
	size_t parts_count;
	struct node_extra *nodes;
	uint32_t *node_order; /* the plugin's, as conf_order_nodes() has it; NULL: as configured */
	uint32_t most_cpus;   /* of a node */
	bitstr_t *up_nodes;   /* neither down nor drained */
	bitstr_t *completing_nodes; /* a job's processes end there */
	bool memory_unconfirmed;    /* nodes have other memory than before jobd was started */
	bitstr_t *used_nodes;       /* those of jobs that have not ended */
	struct plan *plan;          /* of backfill; NULL: none was made yet */

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

/* As long as it may run. Without a limit: for ever, as far as others can tell. */
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
/* A pass as soon as the engine is called again. */
void engine_want_pass(struct engine *e);
void engine_want_pass_for(struct engine *e, struct job *job);       /* nothing else has changed */
void timer_set(struct engine *e, struct job *job, uint64_t due_ms); /* NEVER_MS: none */
void job_changed(struct engine *e, struct job *job);                /* the store hears of it */
/* What is stored in between is stored together, or nothing of it. begun: what changes_begin() said.
 * No process may know of it before its end. */
bool changes_begin(struct engine *e) _must_check_;
void changes_end(struct engine *e, bool begun);

/* ---- jobs.c ---- */
int job_add(struct engine *e, struct job *job);   /* to the table, by its id */
void job_free(struct engine *e, struct job *job); /* its place in the table is the caller's */
void job_forget(struct engine *e, struct job *job);
void job_due(struct engine *e, struct job *job);
void job_set_limit_timer(struct engine *e, struct job *job); /* of one that runs */
/* It starts on the nodes of job_resrcs. Where that fails it is put aside for a while. Either way
 * it has left its queue. */
void job_start(struct engine *e, struct job *job);
/* Its processes are to end, and those of all components; end_state is what it becomes,
 * JOB_PENDING: it is queued again. */
void job_terminate(struct engine *e, struct job *job, uint32_t end_state);
/* Those of this component alone. */
void job_terminate_component(struct engine *e, struct job *job, uint32_t end_state);
/* Fills what follows from job->request: partition, details, limits. After an error the job is as
 * it was. */
int job_apply_request(struct engine *e, struct job *job, bool by_admin, struct err *err);
/* Its partition's limits, which a QOS may lift. */
uint32_t job_least_nodes(const job_record_t *job);
uint32_t job_most_nodes(const job_record_t *job);
/* Of a job that was accepted once: nothing is refused but what is not configured any more. */
int job_restore_request(struct engine *e, struct job *job, struct err *err);
/* Its processes may start, now or as soon as the plugin says. */
void job_launch(struct engine *e, struct job *job);
void job_begin_suspension(struct engine *e, struct job *job);
void job_begin_resumption(struct engine *e, struct job *job);
void job_stand(struct engine *e, struct job *job); /* it does */
void job_go_on(struct engine *e, struct job *job);
void job_give(struct job *job);    /* the nodes of job_resrcs, in place of those that it had */
void job_release(struct job *job); /* and away again */
void job_fini_plugin(struct engine *e, struct job *job); /* tells the plugin of its end */
/* Processes that have ended, or never were: its end, as soon as the plugin is done with it. */
void job_clean(struct engine *e, struct job *job);

/* ---- queue.c ---- */
void queue_add(struct engine *e, struct job *job);
void queue_remove(struct engine *e, struct job *job);
/* Puts a pending job where it belongs: the queue of its partition, among those that wait for
 * others, or nowhere but for a timer. */
void queue_place(struct engine *e, struct job *job);
void queue_take_out(struct engine *e, struct job *job); /* wherever it is */
bool reason_stays(enum job_reason reason);              /* until it is changed by hand */
void queue_look_again(struct engine *e);                /* at those that wait for others */
void array_count(struct job *job);                      /* it may start, or runs */
void array_uncount(struct engine *e, struct job *job);  /* it has ended */
void queue_clear(struct engine *e);
static inline struct queue *queue_of(const struct engine *e, const struct job *job)
{
	return &e->queues[job->record.part_ptr - e->parts];
}

/* ---- groups.c ---- */
/* A new reference; NULL: no memory. A job has one from job_add() on. */
struct namesakes *namesakes_get(struct engine *e, uid_t uid, const char *name);
void namesakes_put(struct engine *e, struct namesakes *group);
void namesakes_add(struct job *job); /* to its group's list */
void namesakes_remove(struct job *job);
bool namesakes_is_first(const struct job *job);
/* The job has another name; takes the reference. */
void namesakes_move(struct engine *e, struct job *job, struct namesakes *group);
struct job_array *array_find(const struct engine *e, uint32_t job_id); /* NULL: none */
/* The job becomes a task of this array, which is made for the first one. -ENOMEM */
int array_add(struct engine *e, struct job *job, uint32_t job_id) _must_check_;
void array_remove(struct engine *e, struct job *job);

/* ---- het.c ---- */
/* The job becomes a component. -ENOMEM; -EINVAL: there is one with this offset. */
int het_add(struct engine *e, struct job *job, uint32_t job_id, uint32_t offset) _must_check_;
void het_remove(struct engine *e, struct job *job);
/* All that follow are for any job: one that is not heterogeneous is its only component. */
struct job *het_leader(const struct job *job); /* its first component */
bool het_is_pending(const struct job *job);    /* all of it */
bool het_has_ended(const struct job *job);     /* likewise */
time_t het_begin_time(const struct job *job);  /* before which it doesn't start */
/* Nodes for each component, and cores of these that it does not get. */
struct het_nodes {
	uint32_t count;
	bitstr_t *nodes[ENGINE_COMPONENTS_MAX], *exc_cores[ENGINE_COMPONENTS_MAX];
	bool reserved[ENGINE_COMPONENTS_MAX]; /* some are kept by reservations */
};
/* Of avail, without what is reserved now; NULL: all that are possible. */
void het_nodes_make(
	struct het_nodes *n, const struct engine *e, const struct job *job, const bitstr_t *avail);
void het_nodes_clear(struct het_nodes *n);
/* Called for one component after the other, with nodes that those before have left: 0, and nodes
 * are what it takes; else what het_choose() returns. */
typedef int (*het_choose_fn)(struct job *one, bitstr_t *nodes, bitstr_t *exc_cores, void *userdata);
int het_choose(struct het_nodes *n, const struct job *job, het_choose_fn choose, void *userdata);
int het_check(
	struct engine *e, const struct job *job, struct err *err); /* it could run some time */
/* As job_try() of all components; n is changed. */
int het_try(struct engine *e, struct job *leader, struct het_nodes *n, struct err *err);
/* Of any job: if it was the first component, the others end with it. */
void het_leader_ended(struct engine *e, struct job *leader, uint32_t state);
/* Of any job: its suspension has come to its end, one way or the other. */
void het_suspension_ended(struct engine *e, struct job *job);
void het_restore(struct engine *e); /* once all jobs are there */

/* ---- pass.c ---- */
void pass_run(struct engine *e, bool full);
/* A question for the plugin, with nodes that the job may have at all. */
struct select_request job_make_request(
	const struct engine *e, struct job *job, bitstr_t *nodes, bitstr_t *exc_cores);
bitstr_t *job_possible_nodes(const struct engine *e, const struct job *job);
int job_test(struct engine *e, struct select_request *q, uint32_t mode, struct err *err);
/* What it has of these nodes if it starts now becomes its job_resrcs: 0. -EINPROGRESS: when those
 * have ended that it has preempted. */
int job_choose(
	struct engine *e, struct job *job, bitstr_t *nodes, bitstr_t *exc_cores, struct err *err);
/* As job_choose(), and it starts. */
int job_try(
	struct engine *e, struct job *job, bitstr_t *nodes, bitstr_t *exc_cores, struct err *err);

/* ---- preempt.c ---- */
void preempt_set(struct engine *e); /* slurm_job_preempt_mode() is as e->preempt has it */
/* Running jobs that it may have put aside, first those that go first; the caller destroys the list.
 * NULL: none, or it waits for such already. */
List preempt_candidates(const struct engine *e, const struct job *job);
/* Whether the job could preempt this other one, of the same partition, if that ran. */
bool preempt_is_possible(const struct engine *e, const struct job *other, const struct job *job);
/* With preempt/qos: the other one stands still while the job has its cores, in another partition.
 */
bool preempt_casts_shadow(const struct engine *e, const struct job *job, const struct job *other);
/* When the next one becomes a candidate whose exempt time is not over; 0: none does. */
time_t preempt_get_next_eligible(const struct engine *e, const struct job *job);
/* PreemptEligibleTime; 0: it is never preempted. */
time_t job_preemptable_time(const struct engine *e, const struct job *job);
void preempt_begin(struct engine *e, struct job *preemptor, List preempted);
void preempt_due(struct engine *e, struct job *job); /* its grace time is over */
void preempt_ended(struct engine *e, struct job *job, bool is_queued_again); /* of any job */
/* Of one that was queued again: the job that it made room for has its nodes, or waits for more. */
bool preempt_has_taken(const struct engine *e, const struct job *job);
void preempt_restore(struct engine *e); /* once all jobs are there */

/* ---- gang.c ---- */
/* A job that was given nodes; false: there is no gang scheduling. It waits to be let go, or begins
 * suspended, when e->gang_changed is settled. */
bool gang_add(struct engine *e, struct job *job);
bool gang_takes(const struct engine *e, const struct job *job); /* it was added */
void gang_remove(struct engine *e, struct job *job); /* of any job: it has none any more */
void gang_stops(struct engine *e, struct job *job);  /* of any job: it is about to be suspended */
/* Jobs that should stand still are suspended, and those that can go are let go. */
void gang_settle(struct engine *e);
void gang_slice(struct engine *e);                    /* e->slice_due_ms has come */
void gang_refused(struct engine *e, struct job *job); /* it is as before */
void gang_restore(struct engine *e);
void gang_free(struct engine *e);

/* ---- backfill.c ---- */
void backfill_run(struct engine *e);
void backfill_forget(struct job *job); /* when it was planned to start */
/* When and where a job that is in no queue would start, after those that are planned before it.
 * Nothing is started. nodes is filled. -EBUSY: it can't start on the nodes that are up. */
int backfill_find_start(struct engine *e, struct job *job, bitstr_t *nodes, time_t *ret_start);

/* ---- reservations.c ---- */
struct reservation *reservation_find(const struct engine *e, const char *name);
/* Takes out of nodes, and adds to *exc_cores (made as needed), what the job may not have from
 * start on. True: there was something of it. */
bool reservations_apply(const struct engine *e, const struct job *job, time_t start,
	bitstr_t *nodes, bitstr_t **exc_cores);
void reservations_clear(struct engine *e);
/* The next time after `after` at which one begins or ends; 0: none. */
time_t reservations_next_change(const struct engine *e, time_t after);
/* Those that are over are gone, nodes have the flags of those that have begun; jobs that wait for
 * one may go on. */
void reservations_expire(struct engine *e);
json_t *reservation_to_json(const struct engine *e, const struct reservation *resv);

/* ---- documents.c ---- */
/* {name, cores}: those of a node that are among these, by its own numbers; and the reverse. */
json_t *node_cores_json(const node_record_t *node, const bitstr_t *cores);
int node_cores_parse(const node_record_t *node, const char *text, bitstr_t *cores);

/* ---- nodes.c ---- */
int nodes_make(struct engine *e, struct err *err);
void nodes_free(struct engine *e);
/* -EINVAL: no such list, or an unknown node. */
int nodes_parse(const char *text, bitstr_t **ret_nodes);
char *nodes_text(const bitstr_t *nodes); /* "n[1-4]", free(); NULL: no memory */
bool node_has_features(const node_record_t *node, const char *wanted);
int features_check(const char *wanted, struct err *err);
void nodes_set_states(struct engine *e); /* as the plugin has them */
/* At the start: what the plugin has kept of each, for select_begin(); NULL: no memory. */
const char **nodes_kept_states(const struct engine *e);
/* After that: the plugin hears of those that are configured in another way than before, and the
 * store of those that it does not have so. */
void nodes_compare(struct engine *e);
void nodes_confirm_memory(struct engine *e); /* of jobs that run */
void nodes_add_job(struct engine *e, const struct job *job);
void nodes_remove_job(struct engine *e, const struct job *job);
/* A job's processes on these nodes are to end, or have; from one of them to the other. */
void nodes_begin_completing(struct engine *e, const bitstr_t *nodes);
void nodes_end_completing(struct engine *e, const bitstr_t *nodes);
void nodes_drain(struct engine *e, uint32_t node, const char *reason);

#endif
