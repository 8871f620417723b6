/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine of jobd: jobs, nodes, partitions and reservations, and which job starts when and
 * where. It has no clock, no file and no process of its own: time is an argument, what must be done
 * to processes is the runner's, what must be found again is the store's. So the same engine runs
 * beside real agents and in a virtual time. It has one thread, and calls runner and store at any
 * time; these do not call it back from there.
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

/* Why a job waits, as squeue has it in brackets. */
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
	JOB_REASON_NODES_DOWN,  /* ReqNodeNotAvail, nodes that it needs are down or drained */
	JOB_REASON_RESERVATION, /* ReqNodeNotAvail, May be reserved for other job */
	JOB_REASON_BEGIN_FAILED,
	JOB_REASON_LAUNCH_FAILED, /* on two nodes: it is held until it is released */
	JOB_REASON_MAX,
};
const char *job_reason_name(enum job_reason reason);

/* "PENDING" and "PD"; the flags COMPLETING and CONFIGURING come before the state. */
const char *job_state_name(uint32_t state);
const char *job_state_code(uint32_t state);
const char *node_state_name(uint32_t state); /* "idle", "drained", "allocated", "mixed", ... */

/* A job as engine and select plugins have it; record is the first member. All but runner_data is
 * the engine's, others read it. */
struct job {
	job_record_t record;
	job_details_t details;
	struct job_request request; /* as it was submitted; jobctl update changes it */
	struct job_array *array;    /* what its tasks share; NULL: it is of none */
	struct het_job *het;        /* whose component it is; NULL: of none */
	enum job_reason reason;
	bool held_by_admin, may_requeue;
	bool launched; /* the runner has it */
	uint32_t restarts;
	bool preempted;        /* it is to end for another */
	uint32_t preemptor_id; /* for which one, until it starts again; 0: for none */
	time_t preempt_time;   /* when it was last preempted; 0: never since its start */
	uint32_t end_state;    /* JOB_CANCELLED, ...: what it becomes when its processes are gone;
				* JOB_PENDING: it is queued again; JOB_END: as they end */
	time_t eligible_time, begin_time, last_start_time;
	time_t planned_start; /* of backfill; 0: none */
	bitstr_t *planned_nodes;
	job_resources_t *planned_resrcs; /* what it has of these; NULL: all */
	int exit_status;                 /* as wait(2) has it; -1: none yet */
	bitstr_t *failed_nodes;          /* where it could not be started; NULL: none */
	char *description; /* why its last start or run failed, for people; NULL: nothing is known
			    */
	int batch_node;    /* where its script is, its first node when it started; -1: never yet */
	bitstr_t *leaving_nodes; /* that it has given up, and has processes on; NULL: none */
	void *runner_data;       /* the runner's */

	/* the engine's own */
	select_jobinfo_t *step_info; /* the plugin's, of the step that runs; NULL: none does */
	bool step_killed;
	bool begin_failed; /* the plugin could not prepare its nodes: it is queued again */
	bool cleaning;     /* its processes are gone, the plugin is still busy with its end */
	uint64_t refused;  /* it can't start until there are other changes than these; 0: it may */
	uint64_t due_ms;   /* of its timer */
	size_t timer_index;
	bool queued, waits; /* in its partition's queue; among those that wait for others */
	bool counted;       /* for its array's limit */
	struct namesakes *namesakes; /* of its user and name */
	struct job *namesake_before, *namesake_after;
	struct job *task_before, *task_after; /* of its array */
	bool is_namesake;                     /* it is listed there: it has not ended */
	uint32_t victims;  /* preempted jobs that have not ended yet, for which it waits */
	bool gang_active;  /* its turn, as the gang scheduler has it */
	bool gang_stopped; /* suspended by that, or about to be, not by hand */
	bool gang_waits;   /* starts when those that stand still for it do */
	bool gang_refused; /* could not be suspended or resumed in this time slice */
	bool gang_ran;     /* it was stopped in this time slice */
	bool gang_new;     /* it has just been given its cores */
	enum {
		JOB_STEADY,
		JOB_SUSPENDING,
		JOB_RESUMING
	} change;
};

/* ---- what the engine calls ----------------------------------------------------------------------
 */

/* Whom of a job a signal is for. */
enum job_signal_target {
	JOB_SIGNAL_STEPS, /* all steps, but not the batch script */
	JOB_SIGNAL_BATCH, /* the process of the batch script alone */
	JOB_SIGNAL_BOTH,  /* the steps, the batch script and its children */
	JOB_SIGNAL_MAX,
};

/* Functions that return int: 0, or -errno with a sentence in err. */
struct engine_runner {
	/* The job's processes are to start on the nodes of record.job_resrcs. Returns at once;
	 * their end is reported by engine_job_ended(), a node that can't by engine_node_failed().
	 */
	int (*start)(struct job *job, void *userdata, struct err *err);
	/* The engine sends CONT, TERM and, after KillWait, KILL to both of what must end. */
	void (*signal)(struct job *job, int signal, enum job_signal_target target, void *userdata);
	/* All processes on all nodes stand still when this reports by engine_job_suspended(), or
	 * run again by engine_job_resumed(): with r < 0 as before, everywhere. */
	void (*suspend)(struct job *job, void *userdata);
	void (*resume)(struct job *job, void *userdata);
	/* It has more nodes than before, or other CPUs and memory on them. NULL: that is nothing to
	 * the runner. */
	void (*grow)(struct job *job, void *userdata);
	/* It has this node no more, and its processes there are to end. True: there are some, and
	 * engine_node_left() reports their end. NULL: there are none. */
	bool (*leave)(struct job *job, uint32_t node, void *userdata);
	/* The job has ended, or goes back to the queue: runner_data is released. */
	void (*forget)(struct job *job, void *userdata);
};

/* Each call is a state change that must be found again. A failure of job_changed() for a new job
 * refuses it; else it is logged. */
struct engine_store {
	/* What is between them is kept together, or nothing of it. */
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
	const struct engine_store *store; /* NULL: nothing is kept */
	void *store_data;
	const struct log *log;
	uint32_t next_job_id; /* as the store has it; 0: FirstJobId of conf */
	bool no_plans; /* nobody is told when a job that waits will start: a backfill cycle ends
			* when no job is left that could start at once */
	uid_t uid;     /* who sets nodes aside that fail, or are configured so */
	bool plain;    /* for tests: nothing is skipped that could not change a decision */
	uint64_t now_ms;
};

/* ---- the engine ---------------------------------------------------------------------------------
 */

/* Nodes and partitions are made of conf. Jobs that were found again come then
 * (engine_restore_...()), and engine_begin() after them calls the plugin as the guide has it:
 * node_init, state_restore (state_dir, NULL: none), job_init. */
int engine_new(const struct engine_options *options, struct engine **ret_engine,
	struct err *err) _must_check_;
int engine_begin(struct engine *e, char *state_dir, struct err *err) _must_check_;

/* The plugin saves its state. */
int engine_end(struct engine *e, char *state_dir, struct err *err);

/* NULL is fine. Returns NULL. */
struct engine *engine_free(struct engine *e);

/* Does what is due by then: passes, backfill, limits of time. Returns when it is to be called next,
 * UINT64_MAX for never. Other functions make something due at once: call it after them. */
uint64_t engine_advance(struct engine *e, uint64_t now_ms);

/* Time has gone on since the last engine_advance(), and something is to happen now: call it before
 * engine_submit(), engine_job_ended() and all others, whose times are this one. */
void engine_set_time(struct engine *e, uint64_t now_ms);

/* The time of the last engine_advance() or engine_set_time(). */
time_t engine_get_time(const struct engine *e);

/* Refuses what can never run. *ret_job_id: of an array the first one's. The sentences are those
 * that a user gets. */
int engine_submit(struct engine *e, const struct job_request *request, uid_t uid, gid_t gid,
	uint32_t *ret_job_id, struct err *err) _must_check_;

/* A heterogeneous job: its components have requests of their own, start together, each on other
 * nodes, and end together. The first one has script, arguments and environment; its begin time,
 * dependencies, hold and priority are those of all. Their numbers follow each other. */
#define ENGINE_COMPONENTS_MAX 128u
int engine_submit_components(struct engine *e, const struct job_request *requests, size_t n,
	uid_t uid, gid_t gid, uint32_t *ret_job_id, struct err *err) _must_check_;

/* Of a job that is not heterogeneous: 1, and itself. NULL: that component is forgotten. */
uint32_t engine_count_components(const struct job *job);
struct job *engine_get_component(const struct job *job, uint32_t offset);

/* When and where a job would start: an array's first task. */
struct engine_start {
	time_t start_time;
	uint32_t cpus;
	char *nodes;           /* "n[1-2]", free() */
	const char *partition; /* as long as the engine */
};

/* Nothing is submitted, stored or started, and no id is used. Running jobs are taken to use all of
 * their time limits, and pending jobs before this one to start as backfill has planned it last;
 * dependencies and hold are passed over. Refuses what engine_submit() refuses, but for
 * MaxJobCount; -EBUSY: partition or nodes are down. */
int engine_will_run(struct engine *e, const struct job_request *request, uid_t uid, gid_t gid,
	struct engine_start *ret_start, struct err *err) _must_check_;

/* Who asks is checked by the caller: the job's owner, or root (by_admin). All but a signal and an
 * update are for all components of a heterogeneous job, whichever is named. */
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

/* The one job gets all that the other has, who ends (select_p_job_expand()). */
int engine_expand(struct engine *e, struct job *from, struct job *to, struct err *err) _must_check_;

/* NULL: none. The numbers of jobs rise, engine_get_job() has them in this order. */
struct job *engine_find_job(struct engine *e, uint32_t job_id);
struct job *engine_find_array_task(struct engine *e, uint32_t array_job_id, uint32_t task_id);
size_t engine_count_jobs(const struct engine *e);
struct job *engine_get_job(const struct engine *e, size_t i);

/* Why it waits, as of the last pass. */
enum job_reason engine_get_reason(const struct engine *e, const struct job *job);

/* Documents: what is shown (cli/columns.c reads them), and what the store keeps. New references;
 * NULL: there is no memory. A member without a value is left out. Names are those of squeue's JSON
 * where it has the thing. Members are integers unless another type is given: times are seconds
 * since 1970, _min minutes, _s seconds, _mb MB; -1 is INFINITE. Lists of nodes are text, "n[1-4]".
 *
 * A job:
 *
 *	job_id
 *	array_job_id, array_task_id   a task of an array; array_max_tasks: its %N, 0 for none
 *	array_task_string             text "3-9", only where one document is of several tasks
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
 *	start_time                    of one that waits: as planned by backfill
 *	end_time                      of one that runs: by its limit, left out without one
 *	suspend_time                  since when it stands still
 *	suspended_s                   how long it has before, since it started
 *	preempt_time, preemptable_time
 *	time_limit_min                its own or its partition's; -1: none
 *	nodes                         text: what it has, or had
 *	batch_host                    text: the node of its script
 *	leaving_nodes                 text: that it has given up, and that its processes leave
 *	scheduled_nodes               text: of backfill
 *	node_count, cpus, tasks       what it has; of one that waits, what it needs at least
 *	cpus_per_task, ntasks_per_node, ntasks_per_socket, ntasks_per_core
 *	distribution                  text "cyclic:block": request_parse_distribution()
 *	min_nodes, max_nodes, minimum_cpus_per_node
 *	memory_per_node_mb, memory_per_cpu_mb     one of them; 0 for all of a node
 *	required_nodes, excluded_nodes            texts
 *	contiguous, requeue, exclusive, batch     bool; batch: it has a script
 *	spread_job, use_min_nodes     bool
 *	oversubscribe                 text: "NO" (--exclusive), "YES" (-s), "OK"
 *	dependency                    text "afterok:1,singleton": what it still waits for
 *	exit_code                     as wait(2) has it, once it has ended
 *	network                       text: as it was given, for the select plugin
 *	select_jobinfo, select_data   texts: what the select plugin has of it, in a line, and for a
 *	                              column of a table
 *	command                       text: the script's file and its arguments, or the command of
 *	                              an allocation; left out for --wrap and standard input
 *	current_working_directory, standard_input, standard_output, standard_error  texts
 *	allocated_nodes               array of {name: text, cpus, memory_mb, cores: text "0-3", the
 *	                              node's own numbers; left out where it has the whole node}
 *	request                       request_to_json(): the owner's and root's alone, it has the
 *	                              script and the environment
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

/* What the store keeps, without the request, which never changes by itself: job_to_json(), and what
 * only engine_restore_job() reads. That wants the two together, the request as member "request". */
json_t *job_to_stored_json(const struct engine *e, const struct job *job);
json_t *node_to_stored_json(const struct engine *e, const node_record_t *node);
int engine_restore_job(struct engine *e, const json_t *json, struct err *err) _must_check_;
/* Whether a job that was kept so has ended. */
bool engine_is_stored_job_over(const json_t *json);
int engine_restore_node(struct engine *e, const json_t *json, struct err *err) _must_check_;

/* ---- nodes and reservations ---------------------------------------------------------------------
 */

enum node_change {
	NODE_CHANGE_DOWN,
	NODE_CHANGE_DRAIN,
	NODE_CHANGE_RESUME,
};
/* nodes: "n[1-4]". reason is needed for DOWN and DRAIN; by: who wants it. A job on a node that is
 * down ends there: NODE_FAIL, or it is queued again. */
int engine_update_nodes(struct engine *e, const char *nodes, enum node_change change,
	const char *reason, uid_t by, struct err *err) _must_check_;
const char *engine_get_node_reason(const struct engine *e, const node_record_t *node); /* NULL */

struct reservation_request {
	const char *name;     /* NULL: one is made, USER_N */
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

/* ---- configuration, and what was measured -------------------------------------------------------
 */

/* Takes what may change while running; what needs a restart is named in *ret_needs_restart
 * (free()), NULL: nothing. conf is the engine's from here on, if it returns 0. */
int engine_reconfigure(struct engine *e, struct conf *conf, char **ret_needs_restart,
	struct err *err) _must_check_;

struct engine_stats {
	uint64_t submitted, started, backfilled, completed, cancelled, failed, requeued, preempted;
	uint64_t passes, backfill_cycles, tests; /* tests: calls of select_p_job_test() */
	uint64_t last_backfill_jobs;             /* tested by the last cycle */
};
const struct engine_stats *engine_get_stats(const struct engine *e);
const struct conf *engine_get_conf(const struct engine *e);

/* ---- what the runner reports --------------------------------------------------------------------
 */

/* All its processes are gone; exit_status as wait(2) has it, of the batch script; out_of_memory:
 * the kernel has killed a process of the script's step for want of memory. */
void engine_job_ended(struct engine *e, struct job *job, int exit_status, bool out_of_memory);

/* r: 0, or -errno: it is as before. */
void engine_job_suspended(struct engine *e, struct job *job, int r);
void engine_job_resumed(struct engine *e, struct job *job, int r);

/* All that the job had on a node that it has given up is gone. */
void engine_node_left(struct engine *e, struct job *job, uint32_t node);

/* What became of it, for its user, until it is started again: "standard output: ...". Before the
 * report that it is for. */
void engine_job_describe(struct job *job, const char *text);

/* The runner can't start it, for want of something of its own, such as space on its disk: no node
 * is to blame. The job is tried again after a while. */
void engine_job_refused(struct engine *e, struct job *job, const char *why);

/* The agent of a node can't be started, or is lost: the node is drained, the job queued again, and
 * held if that happens once more. */
void engine_node_failed(struct engine *e, struct job *job, uint32_t node, const char *why);

#endif
