/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine of jobd: jobs, nodes, partitions and reservations, and which job starts when and
 * where. It has no clock, no file and no process of its own: time is an argument, the runner acts
 * on processes, and the store keeps the state. So the same engine drives real agents and runs in
 * virtual time. It has one thread, and may call the runner and the store at any time; they must not
 * call back into it from there.
 *
 * Times are seconds since 1970 where a type is time_t, else ms of the same clock. There is one
 * engine in a process, since the ABI's tables (node_record_table_ptr, job_list, ...) are global.
 */
#ifndef JOBD_ENGINE_ENGINE_H
#define JOBD_ENGINE_ENGINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "contrib/jobd/conf/conf.h"
#include "contrib/jobd/engine/request.h"
#include "stepd/api/select.h"
#include "stepd/base/err.h"

struct engine;
struct log;
struct preempt;
struct select;

/* ---- jobs --------------------------------------------------------------------------------------
 */

/* Why a job waits: squeue prints it in brackets. */
enum job_reason {
	JOB_REASON_NONE,
	JOB_REASON_PRIORITY,
	JOB_REASON_RESOURCES,
	JOB_REASON_DEPENDENCY,
	JOB_REASON_DEPENDENCY_NEVER, /* DependencyNeverSatisfied */
	JOB_REASON_BEGIN_TIME,
	JOB_REASON_HELD_USER,
	JOB_REASON_HELD_ADMIN,
	JOB_REASON_ARRAY_LIMIT, /* JobArrayTaskLimit */
	JOB_REASON_PART_DOWN,
	JOB_REASON_PART_TIME_LIMIT,
	JOB_REASON_PART_NODE_LIMIT,
	JOB_REASON_NODES_DOWN,  /* ReqNodeNotAvail: nodes that it needs are down or drained */
	JOB_REASON_RESERVATION, /* ReqNodeNotAvail, May be reserved for other job */
	JOB_REASON_BEGIN_FAILED,
	JOB_REASON_LAUNCH_FAILED, /* on two nodes: held until it is released */
	JOB_REASON_MAX,
};
const char *job_reason_name(enum job_reason reason);

/* "PENDING" and "PD"; the flags COMPLETING and CONFIGURING come before the state. */
const char *job_state_name(uint32_t state);
const char *job_state_code(uint32_t state);
const char *node_state_name(uint32_t state); /* "idle", "drained", "allocated", "mixed", ... */

/* A job of the engine and of the select plugins; record is the first member. The engine writes all
 * members but runner_data, and others only read them. */
struct job {
	job_record_t record;
	job_details_t details;
	struct job_request request; /* as submitted, and changed by jobctl update */
	struct job_array *array;    /* shared by its tasks; NULL: none */
	struct het_job *het;        /* whose component it is; NULL: none */
	enum job_reason reason;
	bool held_by_admin, may_requeue;
	bool launched; /* the runner has it */
	uint32_t restarts;
	bool preempted;             /* it has to end for another job */
	uint32_t preemptor_id;      /* that job, until this one starts again; 0: none */
	time_t preempt_time;        /* of its last preemption; 0: none since its start */
	struct job_warning warning; /* of its request */
	bool warned;                /* it has got that signal since its start */
	uint32_t end_state;         /* JOB_CANCELLED, ...: its state once its processes are gone;
				     * JOB_PENDING: it is queued again; JOB_END: as they end */
	time_t eligible_time, begin_time, last_start_time;
	time_t planned_start; /* by backfill; 0: none */
	bitstr_t *planned_nodes;
	job_resources_t *planned_resrcs; /* its part of these; NULL: all of them */
	int exit_status;                 /* as wait(2) has it; -1: none yet */
	bitstr_t *failed_nodes;          /* on which it could not be started; NULL: none */
	char *description;       /* why its last start or run failed, for people; NULL: unknown */
	int batch_node;          /* of its script, its first node when it started; -1: none yet */
	bitstr_t *leaving_nodes; /* given up, with processes on them still; NULL: none */
	void *runner_data;       /* the runner's */

	/* the engine's own */
	select_jobinfo_t *step_info; /* the plugin's, of the running step; NULL: none */
	bool step_killed;
	bool begin_failed; /* the plugin could not prepare its nodes: to be queued again */
	bool cleaning;     /* its processes are gone, the plugin is still busy with its end */
	uint64_t refused;  /* it can't start before the count of changes differs; 0: it may */
	uint64_t due_ms;   /* of its timer */
	size_t timer_index;
	bool queued, waits; /* in its partition's queue; in the list of jobs that wait for others */
	bool counted;       /* in its array's limit */
	struct namesakes *namesakes; /* jobs of the same user and name */
	struct job *namesake_before, *namesake_after;
	struct job *task_before, *task_after; /* of its array */
	bool is_namesake;                     /* listed among its namesakes: it has not ended */
	uint32_t victims;  /* preempted jobs that it waits for: they have not ended yet */
	bool gang_active;  /* the gang scheduler has given it the turn */
	bool gang_stopped; /* suspended by the gang scheduler, or about to be */
	bool gang_shaded;  /* it has no turn for jobs that may preempt it, not for equals */
	bool gang_waits;   /* starts once the jobs that have to stop for it have */
	bool gang_refused; /* it could not be suspended or resumed in this time slice */
	bool gang_ran;     /* it was stopped in this time slice */
	bool gang_new;     /* it has just been given its cores */
	/* Of a component, while the turns are decided: it keeps its cores, or is passed over */
	enum {
		GANG_OPEN,
		GANG_RESERVED,
		GANG_PASSED
	} gang_place;
	enum {
		JOB_STEADY,
		JOB_SUSPENDING,
		JOB_RESUMING
	} change;
};

/* ---- what the engine calls ----------------------------------------------------------------------
 */

/* The processes of a job that a signal is for. */
enum job_signal_target {
	JOB_SIGNAL_STEPS, /* all steps, but not the batch script */
	JOB_SIGNAL_BATCH, /* the process of the batch script alone */
	JOB_SIGNAL_BOTH,  /* the steps, the batch script and its children */
	JOB_SIGNAL_MAX,
};

/* Functions that return int: 0, or -errno with a sentence in err. */
struct engine_runner {
	/* Starts the job's processes on the nodes of record.job_resrcs. Returns at once; their end
	 * is reported by engine_job_ended(), a node that can't start them by engine_node_failed().
	 */
	int (*start)(struct job *job, void *userdata, struct err *err);
	/* To end a job the engine sends CONT, TERM and, after KillWait, KILL to both targets. */
	void (*signal)(struct job *job, int signal, enum job_signal_target target, void *userdata);
	/* Stops, or continues, all processes on all nodes, and then reports by
	 * engine_job_suspended(), or engine_job_resumed(). r < 0 there means that the state of all
	 * nodes is as it was before. */
	void (*suspend)(struct job *job, void *userdata);
	void (*resume)(struct job *job, void *userdata);
	/* The job has more nodes than before, or other CPUs and memory on them. NULL: the runner
	 * has nothing to do then. */
	void (*grow)(struct job *job, void *userdata);
	/* The job has given up this node, and its processes there must end. True: there are some,
	 * and engine_node_left() reports their end. NULL: there are never any. */
	bool (*leave)(struct job *job, uint32_t node, void *userdata);
	/* The job has ended, or goes back to the queue: releases runner_data. */
	void (*forget)(struct job *job, void *userdata);
};

/* Each call reports a change of state that must survive a restart. If job_changed() fails for a new
 * job, the job is refused; any other failure is logged. */
struct engine_store {
	/* A transaction: the changes between begin() and commit() are kept together or not at all.
	 */
	int (*begin)(void *userdata, struct err *err);
	int (*commit)(void *userdata, struct err *err);
	void (*rollback)(void *userdata);
	int (*job_changed)(const struct job *job, void *userdata, struct err *err);
	int (*job_forgotten)(uint32_t job_id, void *userdata, struct err *err);
	int (*node_changed)(const node_record_t *node, void *userdata, struct err *err);
	/* json NULL: it is gone */
	int (*reservation_changed)(
		const char *name, const json_t *json, void *userdata, struct err *err);
};

struct engine_options {
	struct conf *conf;       /* the engine's from here on */
	struct select *select;   /* likewise */
	struct preempt *preempt; /* likewise; NULL: no job is preempted */
	const struct engine_runner *runner;
	void *runner_data;
	const struct engine_store *store; /* NULL: nothing is stored */
	void *store_data;
	const struct log *log;
	uint32_t next_job_id; /* from the store; 0: FirstJobId of conf */
	bool no_plans; /* expected starts are of no interest: a backfill cycle ends when no job is
			* left that could start at once */
	uid_t uid;     /* recorded for nodes that fail, or are configured down or drained */
	bool plain;    /* for tests: nothing is skipped, even what can't change a decision */
	uint64_t now_ms;
};

/* ---- the engine ---------------------------------------------------------------------------------
 */

/* Makes nodes and partitions of conf. The caller then restores what the store has
 * (engine_restore_...()), and calls engine_begin(), which calls the plugin in the guide's order:
 * node_init, state_restore (state_dir, NULL: none), job_init. */
int engine_new(const struct engine_options *options, struct engine **ret_engine,
	struct err *err) _must_check_;
int engine_begin(struct engine *e, char *state_dir, struct err *err) _must_check_;

/* The plugin saves its state. */
int engine_end(struct engine *e, char *state_dir, struct err *err);

/* NULL is fine. Returns NULL. */
struct engine *engine_free(struct engine *e);

/* Does all that is due by now_ms: passes, backfill, time limits. Returns the time of its next call,
 * UINT64_MAX for none. Other functions make something due at once: call it after them. */
uint64_t engine_advance(struct engine *e, uint64_t now_ms);

/* Sets the time without doing what is due: call it before engine_submit(), engine_job_ended() and
 * all others, which happen at this time. */
void engine_set_time(struct engine *e, uint64_t now_ms);

/* The time of the last engine_advance() or engine_set_time(). */
time_t engine_get_time(const struct engine *e);

/* Refuses a job that can never run; err then has the sentence for the user. *ret_job_id: of an
 * array, the id of its first task. */
int engine_submit(struct engine *e, const struct job_request *request, uid_t uid, gid_t gid,
	uint32_t *ret_job_id, struct err *err) _must_check_;

/* A heterogeneous job: its components have requests of their own, start together, each on other
 * nodes, and end together. The first one has the script, arguments and environment; its begin time,
 * dependencies, hold and priority are for all of them. Their ids are consecutive. */
#define ENGINE_COMPONENTS_MAX 128u
int engine_submit_components(struct engine *e, const struct job_request *requests, size_t n,
	uid_t uid, gid_t gid, uint32_t *ret_job_id, struct err *err) _must_check_;

/* A job that is not heterogeneous has 1 component, itself. NULL: the component is forgotten. */
uint32_t engine_count_components(const struct job *job);
struct job *engine_get_component(const struct job *job, uint32_t offset);

/* The expected start of a job, or of an array's first task. */
struct engine_start {
	time_t start_time;
	uint32_t cpus;
	char *nodes;           /* "n[1-2]", free() */
	const char *partition; /* valid as long as the engine */
};

/* Finds the expected start. Nothing is submitted, stored or started, and no id is used. Running
 * jobs are assumed to use all of their time limits, and pending jobs before this one to start as
 * backfill planned them last; dependencies and holds are ignored. Refuses what engine_submit()
 * refuses, but for MaxJobCount; -EBUSY: the partition or nodes are down. */
int engine_will_run(struct engine *e, const struct job_request *request, uid_t uid, gid_t gid,
	struct engine_start *ret_start, struct err *err) _must_check_;

/* The caller checks the client: the job's owner, or root (by_admin). A signal and an update act on
 * the component that is named, all others on all components of a heterogeneous job. */
int engine_cancel(struct engine *e, struct job *job, struct err *err) _must_check_;
int engine_signal(struct engine *e, struct job *job, int signal, enum job_signal_target target,
	struct err *err) _must_check_;
int engine_hold(struct engine *e, struct job *job, bool by_admin, struct err *err) _must_check_;
int engine_release(struct engine *e, struct job *job, bool by_admin, struct err *err) _must_check_;
int engine_suspend(struct engine *e, struct job *job, struct err *err) _must_check_;
int engine_resume(struct engine *e, struct job *job, struct err *err) _must_check_;
int engine_requeue(struct engine *e, struct job *job, struct err *err) _must_check_;

/* Members of changes: "partition", "qos", "priority", "time_limit_min", "nodelist", "min_nodes",
 * ..., as in request_to_json(); only root raises a priority or a time limit. All or nothing. A
 * running job can be given another time limit, and fewer nodes ("nodelist"). */
int engine_update_job(struct engine *e, struct job *job, const json_t *changes, bool by_admin,
	struct err *err) _must_check_;

/* Gives all resources of `from` to `to`; `from` ends (select_p_job_expand()). */
int engine_expand(struct engine *e, struct job *from, struct job *to, struct err *err) _must_check_;

/* NULL: none. engine_get_job() returns jobs in ascending order of their ids. */
struct job *engine_find_job(struct engine *e, uint32_t job_id);
struct job *engine_find_array_task(struct engine *e, uint32_t array_job_id, uint32_t task_id);
size_t engine_count_jobs(const struct engine *e);
struct job *engine_get_job(const struct engine *e, size_t i);

/* Why it waits, as of the last pass. */
enum job_reason engine_get_reason(const struct engine *e, const struct job *job);

/* Documents: for clients (cli/columns.c reads them), and for the store. New references; NULL: out
 * of memory. A member without a value is left out. Names are those of squeue's JSON, as far as it
 * has the member. Members are integers unless another type is given: times are seconds since 1970,
 * those of _min minutes, of _s seconds, of _mb MB; -1 is INFINITE. Lists of nodes
 * are text, "n[1-4]".
 *
 * A job:
 *
 *	job_id
 *	array_job_id, array_task_id   a task of an array; array_max_tasks: its %N, 0 for none
 *	array_task_string             text "3-9", only in a document of several tasks
 *	het_job_id, het_job_offset    a component of a heterogeneous job
 *	name, partition, qos, resv_name, comment, features      texts
 *	job_state                     text: "PENDING", "RUNNING", "SUSPENDED", "COMPLETED",
 *	                              "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
 *	                              "OUT_OF_MEMORY"
 *	state_flags                   array of texts: "COMPLETING", "CONFIGURING"
 *	state_reason                  text: job_reason_name(), "None" for none
 *	state_description             text: why its last start or run has failed
 *	user_id, group_id, priority, restart_cnt
 *	submit_time, eligible_time, begin_time, last_start_time
 *	start_time                    of a pending job: as planned by backfill
 *	end_time                      of a running job: by its limit, left out without one
 *	suspend_time                  since when it is suspended
 *	suspended_s                   how long it was suspended before, since it started
 *	preempt_time, preemptable_time
 *	time_limit_min                its own or its partition's; -1: none
 *	nodes                         text: its nodes, or those that it had
 *	batch_host                    text: the node of its script
 *	leaving_nodes                 text: nodes that it has given up, with processes on them
 *	scheduled_nodes               text: planned by backfill
 *	node_count, cpus, tasks       what it has; of a pending job, the least that it needs
 *	cpus_per_task, ntasks_per_node, ntasks_per_socket, ntasks_per_core
 *	distribution                  text "cyclic:block": request_parse_distribution()
 *	min_nodes, max_nodes, minimum_cpus_per_node
 *	memory_per_node_mb, memory_per_cpu_mb     one of them; 0 for all of a node
 *	required_nodes, excluded_nodes            texts
 *	contiguous, requeue, exclusive, batch     bool; batch: it has a script
 *	spread_job, use_min_nodes     bool
 *	oversubscribe                 text: "NO" (--exclusive), "YES" (-s), "OK"
 *	dependency                    text "afterok:1,singleton": what it waits for still
 *	exit_code                     as wait(2) has it, once it has ended
 *	network                       text: as submitted, for the select plugin
 *	signal                        text "B:USR1@120": request_parse_signal()
 *	select_jobinfo, select_data   texts: the select plugin's information, in a line, and for a
 *	                              column of a table
 *	command                       text: the script's file and its arguments, or the command of
 *	                              an allocation; left out for --wrap and standard input
 *	current_working_directory, standard_input, standard_output, standard_error  texts
 *	allocated_nodes               array of {name: text, cpus, memory_mb, cores: text "0-3", the
 *	                              node's own numbers; left out where it has the whole node}
 *	request                       request_to_json(), with the script and the environment: for
 *	                              the owner and root only
 *
 * A node:
 *
 *	name, features, reason        texts, features "a,b"
 *	state                         text: "UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "MIXED"
 *	state_flags                   array of texts: "DRAIN", "COMPLETING", "RESERVED", "MAINT"
 *	partitions                    array of texts, in the order of the configuration
 *	cpus, sockets, cores (of a socket), threads (of a core), weight
 *	real_memory_mb, mem_spec_limit_mb
 *	alloc_cpus, alloc_memory_mb   of jobs that have not ended
 *	running_jobs, suspended_jobs
 *	reason_changed_at, reason_set_by_user     a time, a uid
 *
 * A partition:
 *
 *	name, nodes                   texts
 *	is_default, is_hidden, root_only          bool
 *	state                         text: "UP", "DOWN", "DRAIN", "INACTIVE"
 *	total_nodes, total_cpus, min_nodes, max_nodes, max_time_min, default_time_min
 *	def_mem_per_node_mb, def_mem_per_cpu_mb, max_mem_per_node_mb, max_mem_per_cpu_mb
 *	oversubscribe                 text: "NO", "EXCLUSIVE", "YES:4", "FORCE:1"
 *	preempt_mode                  text: "OFF", "CANCEL", "REQUEUE", "SUSPEND", with ",GANG"
 *	priority_tier, priority_job_factor, grace_time_s
 *	allow_groups                  array of texts
 *
 * A reservation:
 *
 *	name, nodes, partition        texts
 *	start_time, end_time, node_count, core_count
 *	cores                         array of {name: text, cores: text "0-1"}; not of whole nodes
 *	users                         array of uids
 *	flags                         array of texts: "MAINT", "IGNORE_JOBS"
 */
json_t *job_to_json(const struct engine *e, const struct job *job);
json_t *node_to_json(const struct engine *e, const node_record_t *node);
json_t *part_to_json(const struct engine *e, const part_record_t *part);

/* The store's document: job_to_json() without the request, which never changes by itself, and the
 * members that only engine_restore_job() reads. That function needs both, the request as member
 * "request". */
json_t *job_to_stored_json(const struct engine *e, const struct job *job);
json_t *node_to_stored_json(const struct engine *e, const node_record_t *node);
int engine_restore_job(struct engine *e, const json_t *json, struct err *err) _must_check_;
/* Whether the job of such a document has ended. */
bool engine_is_stored_job_over(const json_t *json);
int engine_restore_node(struct engine *e, const json_t *json, struct err *err) _must_check_;

/* ---- nodes and reservations ---------------------------------------------------------------------
 */

enum node_change {
	NODE_CHANGE_DOWN,
	NODE_CHANGE_DRAIN,
	NODE_CHANGE_RESUME,
};
/* nodes: "n[1-4]". reason is needed for DOWN and DRAIN; by: the user who requested it. A job on a
 * node that is set down ends with NODE_FAIL, or is queued again. */
int engine_update_nodes(struct engine *e, const char *nodes, enum node_change change,
	const char *reason, uid_t by, struct err *err) _must_check_;
const char *engine_get_node_reason(const struct engine *e, const node_record_t *node); /* NULL */

struct reservation_request {
	const char *name;     /* NULL: it is made, USER_N */
	const char *nodelist; /* NULL: node_count of them */
	uint32_t node_count;
	const uint32_t *core_counts; /* of each node; ends with a 0; NULL: whole nodes */
	time_t start_time;           /* 0: now */
	uint32_t duration_min;
	const uid_t *users;
	size_t users_count;
	bool ignore_jobs, maintenance;
	const char *partition; /* NULL: the default one */
};
/* ret_name is valid as long as the reservation. */
int engine_reserve(struct engine *e, const struct reservation_request *request,
	const char **ret_name, struct err *err) _must_check_;
int engine_delete_reservation(struct engine *e, const char *name, struct err *err) _must_check_;
json_t *engine_reservations_to_json(const struct engine *e);
int engine_restore_reservation(struct engine *e, const json_t *json, struct err *err) _must_check_;

/* ---- configuration and statistics ---------------------------------------------------------------
 */

/* Applies the changes that are possible at run time; *ret_needs_restart names those that need a
 * restart (free()), NULL: none. On success the engine owns conf. */
int engine_reconfigure(struct engine *e, struct conf *conf, char **ret_needs_restart,
	struct err *err) _must_check_;

struct engine_stats {
	uint64_t submitted, started, backfilled, completed, cancelled, failed, requeued, preempted;
	uint64_t passes, backfill_cycles, tests; /* tests: calls of select_p_job_test() */
	uint64_t last_backfill_jobs;             /* tested by the last cycle */
};
const struct engine_stats *engine_get_stats(const struct engine *e);
const struct conf *engine_get_conf(const struct engine *e);

/* ---- reports of the runner ----------------------------------------------------------------------
 */

/* All its processes are gone. exit_status is that of the batch script, as in wait(2);
 * out_of_memory: the kernel's OOM killer has killed a process of the script's step. */
void engine_job_ended(struct engine *e, struct job *job, int exit_status, bool out_of_memory);

/* The job has used up its memory on a node, where its processes are gone: all of it ends. why: for
 * its user. */
void engine_job_out_of_memory(struct engine *e, struct job *job, const char *why);

/* r: 0, or -errno: the job is as before. */
void engine_job_suspended(struct engine *e, struct job *job, int r);
void engine_job_resumed(struct engine *e, struct job *job, int r);

/* All processes of the job on a node that it has given up are gone. */
void engine_node_left(struct engine *e, struct job *job, uint32_t node);

/* A description of its failure for its user, kept until it is started again: "standard output:
 * ...". Call this before the report of the failure. */
void engine_job_describe(struct job *job, const char *text);

/* The runner can't start the job because it lacks something itself, such as disk space: no node is
 * to blame. The job is tried again later. */
void engine_job_refused(struct engine *e, struct job *job, const char *why);

/* The agent of a node can't be started, or is lost: the node is drained, and the job is queued
 * again, or held if it happens a second time. */
void engine_node_failed(struct engine *e, struct job *job, uint32_t node, const char *why);

#endif
