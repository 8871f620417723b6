/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The resource selection plugin: plugin_type "select/...". All functions are those of Slurm's
 * "Resource Selection Plugin" guide, by name, signature and the moment of their call. All are
 * mandatory; one without work returns SLURM_SUCCESS, NULL or false. The host is jobd(8):
 *
 *	select_p_node_init, _state_restore, _job_init     at the start, in this order
 *	select_p_job_test                                 for a job that arrives or waits
 *	select_p_job_begin, _ready, ..., _fini            for one that runs
 *	select_p_state_save                               at the end, if there is one
 *
 * jobd has one thread, and no function may wait. Records are the host's, and may be read in each
 * function that has them; what a plugin writes, and where:
 *
 *	node_record_t   node_rank                    _node_ranking()
 *	                what is in select_nodeinfo   _nodeinfo_set(), _nodeinfo_set_all()
 *	job_record_t    job_resrcs                   _job_test(), _job_expand(), _job_resized()
 *	                start_time                   _job_test() with WILL_RUN
 *	                what is in select_jobinfo    each function that has the job
 *	step_record_t   what is in select_jobinfo    _step_pick_nodes(), _step_finish()
 *	resv_desc_msg_t node_list                    _resv_test()
 *
 * and nothing else. A record is valid until the host has told of its end (_job_fini, the next
 * _node_init). Functions return SLURM_SUCCESS, or SLURM_ERROR with errno set.
 *
 * Arrays by node are as long as there are nodes, and nodes have the same number in all of them. All
 * cores of the cluster have numbers, too: node by node, in each socket by socket (core_offset).
 */
#ifndef STEPD_API_SELECT_H
#define STEPD_API_SELECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "bitstring.h"
#include "list.h"
#include "pack.h"
#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NO_VAL      0xfffffffeu /* not given */
#define NO_VAL16    0xfffeu
#define NO_VAL64    0xfffffffffffffffeu
#define INFINITE    0xffffffffu
#define INFINITE64  0xffffffffffffffffu
#define MEM_PER_CPU 0x8000000000000000u /* flag of a memory size: for each CPU, else each node */

/* ---- nodes -------------------------------------------------------------------------------- */

/* One of the first five, and flags. */
enum node_states {
	NODE_STATE_UNKNOWN,
	NODE_STATE_DOWN,
	NODE_STATE_IDLE,
	NODE_STATE_ALLOCATED, /* all of it, or by a job that shares with nobody */
	NODE_STATE_MIXED,     /* a part of it */
	NODE_STATE_END,
};
#define NODE_STATE_BASE       0x000fu
#define NODE_STATE_DRAIN      0x0200u /* gets no new job */
#define NODE_STATE_COMPLETING 0x0400u /* a job's processes end */
#define NODE_STATE_RES        0x0010u /* reserved */
#define NODE_STATE_MAINT      0x0020u

typedef struct select_nodeinfo select_nodeinfo_t; /* the plugin's own */
typedef struct select_jobinfo select_jobinfo_t;   /* likewise */

typedef struct node_record {
	char *name;                         /* "" once it is deleted */
	uint32_t index;                     /* its number */
	uint32_t node_state;                /* enum node_states, and flags */
	uint16_t cpus;                      /* threads of all cores */
	uint16_t tot_sockets;               /* CPUs are numbered core by core */
	uint16_t cores;                     /* of a socket */
	uint16_t threads;                   /* of a core */
	uint32_t tot_cores;                 /* tot_sockets * cores */
	uint32_t core_offset;               /* the number of its first core in the cluster */
	uint64_t real_memory;               /* MB */
	uint64_t mem_spec_limit;            /* MB that jobs do not get */
	uint32_t weight;                    /* nodes of less weight are taken first */
	char *features;                     /* "a,b"; NULL: none */
	uint32_t node_rank;                 /* written by select_p_node_ranking() */
	uint16_t run_job_cnt;               /* jobs on it that run */
	uint16_t sus_job_cnt;               /* that are suspended */
	uint16_t no_share_job_cnt;          /* that share it with nobody */
	select_nodeinfo_t *select_nodeinfo; /* from _select_nodeinfo_alloc(); the plugin writes in
					     * it in _select_nodeinfo_set() and _set_all() */
} node_record_t;

/* ---- partitions ---------------------------------------------------------------------------- */

#define SHARED_FORCE         0x8000u /* flag of max_share */
#define PREEMPT_MODE_OFF     0x0000u
#define PREEMPT_MODE_SUSPEND 0x0001u
#define PREEMPT_MODE_REQUEUE 0x0002u
#define PREEMPT_MODE_CANCEL  0x0008u
#define PREEMPT_MODE_GANG    0x8000u /* a flag */

typedef struct part_record {
	char *name;
	bitstr_t *node_bitmap;
	uint32_t total_nodes, total_cpus;
	uint32_t min_nodes, max_nodes;             /* INFINITE */
	uint32_t max_time;                         /* minutes, INFINITE */
	uint32_t default_time;                     /* minutes, NO_VAL: max_time */
	uint64_t def_mem_per_cpu, max_mem_per_cpu; /* MB, MEM_PER_CPU: a CPU's, else a node's; 0: no
						    * limit */
	uint16_t max_share; /* 0: EXCLUSIVE; 1: NO; more: jobs on a resource, with
			     * SHARED_FORCE whether they want it or not */
	uint16_t priority_tier;
	uint16_t priority_job_factor;
	uint16_t preempt_mode;        /* PREEMPT_MODE_...; NO_VAL16: the cluster's */
	uint32_t grace_time;          /* seconds */
	uint32_t preempt_exempt_time; /* seconds; NO_VAL: the cluster's */
} part_record_t;

/* ---- quality of service -------------------------------------------------------------------- */

/* Of a QOS: its jobs are above what their partition allows, or need a reservation. */
#define QOS_FLAG_PART_MIN_NODE   0x01u
#define QOS_FLAG_PART_MAX_NODE   0x02u
#define QOS_FLAG_PART_TIME_LIMIT 0x04u
#define QOS_FLAG_REQ_RESV        0x10u

typedef struct qos_record {
	uint32_t id;    /* its number */
	uint32_t flags; /* QOS_FLAG_... */
	char *name;
	uint32_t priority;
	bitstr_t *preempt_bitstr;     /* by number: those whose jobs it may preempt; NULL: none */
	uint16_t preempt_mode;        /* PREEMPT_MODE_...; NO_VAL16: the cluster's */
	uint32_t grace_time;          /* seconds */
	uint32_t preempt_exempt_time; /* seconds; NO_VAL: the cluster's */
} qos_record_t;

/* ---- jobs --------------------------------------------------------------------------------- */

enum job_states {
	JOB_PENDING,
	JOB_RUNNING,
	JOB_SUSPENDED,
	JOB_COMPLETE,
	JOB_CANCELLED,
	JOB_FAILED,
	JOB_TIMEOUT,
	JOB_NODE_FAIL,
	JOB_PREEMPTED,
	JOB_OOM,
	JOB_END,
};
#define JOB_STATE_BASE  0x00ffu
#define JOB_COMPLETING  0x8000u /* flag: its processes end */
#define JOB_CONFIGURING 0x4000u /* flag: its nodes are not ready yet */

/* How a job shares what it gets: job_details_t's share_res. */
#define JOB_SHARED_NONE 0u /* --exclusive */
#define JOB_SHARED_OK   1u /* --oversubscribe */

/* --distribution, job_details_t's task_dist: how tasks are distributed over nodes, and or'ed with
 * it over the sockets of a node. 0 in either part: not given. */
#define SLURM_DIST_NODEMASK   0x000fu
#define SLURM_DIST_CYCLIC     0x0001u
#define SLURM_DIST_BLOCK      0x0002u
#define SLURM_DIST_PLANE      0x0004u /* with plane_size */
#define SLURM_DIST_SOCKMASK   0x00f0u
#define SLURM_DIST_SOCKCYCLIC 0x0010u /* a task on each in turn */
#define SLURM_DIST_SOCKBLOCK  0x0020u /* as few as possible */
#define SLURM_DIST_SOCKCFULL  0x0030u /* a core of each in turn */

/* job_record_t's bit_flags */
#define USE_MIN_NODES 0x2000u /* --use-min-nodes: req_nodes of _job_test() is min_nodes */
#define SPREAD_JOB    0x4000u /* --spread-job: req_nodes is as many as the job has tasks for */

/* What was asked for. */
typedef struct job_details {
	uint32_t min_cpus, max_cpus;   /* of all nodes; max_cpus NO_VAL: no limit */
	uint32_t min_nodes, max_nodes; /* the job's own, max_nodes 0: no limit */
	uint32_t num_tasks;            /* 0: not given */
	uint16_t cpus_per_task;        /* 1 or more */
	uint16_t ntasks_per_node;      /* at most; 0: not given */
	uint16_t ntasks_per_socket;    /* likewise */
	uint16_t ntasks_per_core;      /* likewise */
	uint16_t plane_size;           /* tasks, with SLURM_DIST_PLANE; else 0 */
	uint32_t task_dist;            /* SLURM_DIST_... */
	uint16_t pn_min_cpus;          /* of a node, at least */
	uint64_t pn_min_memory;        /* MB, or'ed with MEM_PER_CPU; 0: all of the node's with
					* CR_Memory, else not counted */
	uint16_t contiguous;           /* 1: nodes one after the other */
	uint16_t share_res;            /* JOB_SHARED_...; NO_VAL16: not given */
	uint16_t whole_node;           /* 1: all of each node (--exclusive) */
	bitstr_t *req_node_bitmap;     /* must be among the nodes; NULL: none */
	bitstr_t *exc_node_bitmap;     /* must not be; NULL: none */
	char *features;                /* "a&b"; NULL: none */
} job_details_t;

/* How a job has what it has on its nodes. */
enum node_cr_state {
	NODE_CR_RESERVED = 64, /* with nobody */
	NODE_CR_ONE_ROW = 1,   /* its cores with nobody */
	NODE_CR_AVAILABLE = 0, /* its cores, too, with max_share jobs of its partition */
};

/* What a job got: made by select_p_job_test() with SELECT_MODE_RUN_NOW, all from xmalloc() and the
 * bitmaps' functions; the host's from then on, who frees it. With another mode it is what the job
 * would have, for backfill's plan. Arrays are by the job's nodes, in the order of their numbers. */
typedef struct job_resources {
	bitstr_t *node_bitmap;
	bitstr_t *core_bitmap; /* of all of the cluster's cores; NULL: the plugin gives whole
				* nodes */
	uint32_t nhosts;       /* nodes */
	uint32_t ncpus;
	uint16_t *cpus;             /* CPUs for the job on each */
	uint64_t *memory_allocated; /* MB on each; 0: not counted */
	uint8_t node_req;           /* enum node_cr_state */
	uint8_t whole_node;
} job_resources_t;

typedef struct job_record {
	uint32_t job_id;
	uint32_t array_job_id, array_task_id; /* 0 and NO_VAL: it is of no array */
	uint32_t het_job_id, het_job_offset;  /* 0: none */
	uid_t user_id;
	gid_t group_id;
	char *name;
	char *partition;
	part_record_t *part_ptr;
	char *qos;             /* NULL: none */
	qos_record_t *qos_ptr; /* likewise */
	uint32_t job_state;    /* enum job_states, and flags */
	uint32_t priority;     /* 0: held */
	uint32_t num_procs;    /* CPUs in the allocation, at least */
	uint64_t bit_flags;    /* USE_MIN_NODES, SPREAD_JOB */
	job_details_t *details;
	uint32_t time_limit; /* minutes; INFINITE; NO_VAL: the partition's */
	time_t submit_time;
	time_t start_time; /* with SELECT_MODE_WILL_RUN read and written by _job_test() */
	time_t end_time;   /* 0: none yet; of a running one: by its limit */
	time_t suspend_time;
	time_t tot_sus_time;   /* seconds */
	char *nodes;           /* "n[1-4]"; NULL: it has none */
	bitstr_t *node_bitmap; /* likewise */
	uint32_t node_cnt;
	job_resources_t *job_resrcs;      /* written by _job_test() as above; NULL: it has none */
	select_jobinfo_t *select_jobinfo; /* from _select_jobinfo_alloc() */
} job_record_t;

#define SLURM_BATCH_SCRIPT 0xfffffffbu /* the step_id of a script */

typedef struct step_record {
	job_record_t *job_ptr;
	uint32_t step_id; /* SLURM_BATCH_SCRIPT */
	bitstr_t *step_node_bitmap;
	uint32_t cpu_count;
	select_jobinfo_t *select_jobinfo; /* as _step_pick_nodes() left it */
	time_t start_time;
} step_record_t;

/* ---- reservations, and what is sent to clients -------------------------------------------- */

typedef struct resv_desc_msg {
	char *name;
	time_t start_time, end_time;
	char *partition;
	char *node_list;    /* from xmalloc(); the plugin may replace it */
	uint32_t *node_cnt; /* ends with a 0; NULL: not given */
	uint32_t
		*core_cnt; /* of each node of node_list, or all; ends with a 0; NULL: whole nodes */
	char *features;
	uint64_t flags;
} resv_desc_msg_t;

typedef struct node_info {
	char *name;
	uint32_t node_state;
	uint16_t cpus;
	select_nodeinfo_t *select_nodeinfo;
} node_info_t;

typedef struct node_info_msg {
	time_t last_update;
	uint32_t record_count;
	node_info_t *node_array;
} node_info_msg_t;

/* ---- what the host has, for the plugin to read ---------------------------------------------- */

/* select_type_param */
#define CR_CPU                     0x0001u
#define CR_SOCKET                  0x0002u
#define CR_CORE                    0x0004u
#define CR_MEMORY                  0x0010u
#define CR_ONE_TASK_PER_CORE       0x0100u
#define CR_PACK_NODES              0x0200u
#define CR_CORE_DEFAULT_DIST_BLOCK 0x1000u
#define CR_LLN                     0x4000u
#define CR_LEAST_PREEMPT           0x10000u /* not Slurm's: preempt as little as possible */

typedef struct {
	const char *cluster_name;
	uint32_t select_type_param; /* CR_... */
	uint16_t preempt_mode;      /* PREEMPT_MODE_... of the cluster */
	uint16_t preempt_reorder_count;
	bool preempt_strict_order;
	bool preempt_by_qos;                       /* PreemptType=preempt/qos */
	uint64_t def_mem_per_cpu, max_mem_per_cpu; /* as in a partition */
	uint32_t kill_wait;                        /* seconds */
} slurm_conf_t;

#pragma GCC visibility push(default)

/* Written by the host before select_p_node_init() and before select_p_reconfigure(). */
extern slurm_conf_t slurm_conf;
extern node_record_t *node_record_table_ptr;
extern int node_record_count;
extern List job_list;  /* of job_record_t: those that have nodes */
extern List part_list; /* of part_record_t */

/* The clock: jobd's own, which need not be the machine's. */
time_t slurm_now(void);

/* How this job is preempted: PREEMPT_MODE_OFF (never), _SUSPEND, _REQUEUE or _CANCEL. */
uint16_t slurm_job_preempt_mode(const job_record_t *job_ptr);

#pragma GCC visibility pop

/* ---- enums of the functions ---------------------------------------------------------------- */

/* Of what is packed and unpacked. */
#define SELECT_PROTOCOL_VERSION 1

#define SELECT_MODE_RUN_NOW   0x0000u
#define SELECT_MODE_TEST_ONLY 0x0001u
#define SELECT_MODE_WILL_RUN  0x0002u

enum select_nodedata_type {
	SELECT_NODEDATA_SUBCNT,    /* uint16_t: CPUs in that state */
	SELECT_NODEDATA_MEM_ALLOC, /* uint64_t: MB that jobs have */
	SELECT_NODEDATA_PTR,       /* select_nodeinfo_t *: the plugin's own */
};

enum select_jobdata_type {
	SELECT_JOBDATA_PTR,       /* select_jobinfo_t * */
	SELECT_JOBDATA_CLEANING,  /* uint16_t: its end is under way in the plugin */
	SELECT_JOBDATA_RELEASED,  /* uint16_t: what it had is released */
	SELECT_JOBDATA_CONFIRMED, /* uint16_t: what it has is confirmed */
	SELECT_JOBDATA_PAGG_ID,   /* uint64_t: the id of its process container */
	SELECT_JOBDATA_NETWORK,   /* char *, to be freed by xfree() */
};

enum select_print_mode {
	SELECT_PRINT_HEAD,
	SELECT_PRINT_DATA,
	SELECT_PRINT_MIXED,
	SELECT_PRINT_MIXED_SHORT,
};

enum select_plugindata_info {
	SELECT_CR_PLUGIN,       /* uint32_t: 1 if it gives parts of nodes */
	SELECT_CONFIG_INFO,     /* List of char *, to be freed by list_destroy(): "Name=value" */
	SELECT_SINGLE_JOB_TEST, /* uint32_t: 1 if it tests jobs alone */
};

/* ---- the functions of the guide ------------------------------------------------------------- */

/* In and from a file of the plugin's own in this directory, which is jobd's. A failure of
 * _restore ends jobd; no file is none. */
STEPD_EXPORT int select_p_state_save(char *dir_name);
STEPD_EXPORT int select_p_state_restore(char *dir_name);

/* The table of nodes stands, or has changed: what the plugin has of nodes before is void. */
STEPD_EXPORT int select_p_node_init(node_record_t *node_ptr, int node_cnt);

/* The jobs that jobd found again: those that run or are suspended have job_resrcs. */
STEPD_EXPORT int select_p_job_init(List jobs);

/* slurm_conf, or partitions, have changed. */
STEPD_EXPORT int select_p_reconfigure(void);

/* -- nodes -- */

STEPD_EXPORT select_nodeinfo_t *select_p_select_nodeinfo_alloc(void);
/* jobd keeps what is packed with each change of a node's state, and unpacks it after _node_init()
 * in place of _nodeinfo_alloc(). Clients get the values of _nodeinfo_get(). */
STEPD_EXPORT int select_p_select_nodeinfo_pack(
	select_nodeinfo_t *nodeinfo, Buf buffer, uint16_t protocol_version);
STEPD_EXPORT int select_p_select_nodeinfo_unpack(
	select_nodeinfo_t **nodeinfo, Buf buffer, uint16_t protocol_version);
STEPD_EXPORT int select_p_select_nodeinfo_free(select_nodeinfo_t *nodeinfo);

/* A job has begun, or was found again: its nodes' select_nodeinfo, or all nodes', become true. */
STEPD_EXPORT int select_p_select_nodeinfo_set(job_record_t *job_ptr);
STEPD_EXPORT int select_p_select_nodeinfo_set_all(void);
STEPD_EXPORT int select_p_select_nodeinfo_get(select_nodeinfo_t *nodeinfo,
	enum select_nodedata_type dinfo, enum node_states state, void *data);

/* The node of this number has other CPUs or memory than before. */
STEPD_EXPORT int select_p_update_node_config(int index);

/* At the start, before _node_init(). May write node_rank. True: it has. jobd orders its nodes by it
 * then, equal ones as they are configured. */
STEPD_EXPORT bool select_p_node_ranking(node_record_t *node_ptr, int node_cnt);
STEPD_EXPORT int select_p_update_node_state(node_record_t *node_ptr);

/* -- jobs -- */

/* What the plugin has of a job, as job_record_t.select_jobinfo from its submission until it is
 * forgotten; and of a step. jobd packs a job's at each change of it, and unpacks it before
 * _job_init(); a step's is made anew. _xstrdup(), with SELECT_PRINT_MIXED, is what "jobctl show"
 * has of a job. */
STEPD_EXPORT select_jobinfo_t *select_p_select_jobinfo_alloc(void);
/* Of the first task of an array for each other one. */
STEPD_EXPORT select_jobinfo_t *select_p_select_jobinfo_copy(select_jobinfo_t *jobinfo);
STEPD_EXPORT int select_p_select_jobinfo_free(select_jobinfo_t *jobinfo);
STEPD_EXPORT int select_p_select_jobinfo_pack(
	select_jobinfo_t *jobinfo, Buf buffer, uint16_t protocol_version);
STEPD_EXPORT int select_p_select_jobinfo_unpack(
	select_jobinfo_t **jobinfo_pptr, Buf buffer, uint16_t protocol_version);

/* SELECT_JOBDATA_CLEANING: jobd asks when the processes of a job have ended, and again each second
 * as long as it is 1: the job is completing, and its nodes belong to it. SLURM_ERROR with errno
 * EINVAL: there is no such thing here. Another errno: it has failed; the nodes are drained. */
STEPD_EXPORT int select_p_select_jobinfo_get(
	select_jobinfo_t *jobinfo, enum select_jobdata_type data_type, void *data);
/* SELECT_JOBDATA_NETWORK, from a job's --network; other types are for the plugin's own use. EINVAL:
 * there is no such thing here. */
STEPD_EXPORT int select_p_select_jobinfo_set(
	select_jobinfo_t *jobinfo, enum select_jobdata_type data_type, void *data);
/* With SELECT_PRINT_DATA: a cell of a table. */
STEPD_EXPORT char *select_p_select_jobinfo_sprint(
	select_jobinfo_t *jobinfo, char *buf, size_t size, int mode);
STEPD_EXPORT char *select_p_select_jobinfo_xstrdup(select_jobinfo_t *jobinfo, int mode);

/* Chooses nodes. bitmap: those that may be taken, required ones always among them; on success those
 * that are, never another one. min_nodes <= req_nodes <= max_nodes.
 *
 *	SELECT_MODE_RUN_NOW    the job starts now: writes job_resrcs
 *	SELECT_MODE_TEST_ONLY  whether it could on an empty cluster: SLURM_ERROR is "never"
 *	SELECT_MODE_WILL_RUN   when: writes start_time; one before what stands there is of no use,
 *			       0 is now
 *
 * With the last two it may write job_resrcs, too: what the job would have. Backfill holds these
 * cores and this memory for it then, and others can have the rest of the nodes; without it, or
 * without its core_bitmap, the job's nodes are held as a whole.
 *
 * preemptee_candidates: of job_record_t, first those that are preempted first; NULL: none may be.
 * *preemptee_job_list: which of them must be, a list that the plugin makes and the host destroys;
 * NULL where none must. If one of these has to end (slurm_job_preempt_mode()) the job does not
 * start: bitmap is where it could, and it is tested again when they have ended. exc_core_bitmap:
 * cores that are held by reservations, or for jobs that backfill has planned, in any mode; NULL:
 * none. SLURM_ERROR with EAGAIN or EBUSY: not now. */
STEPD_EXPORT int select_p_job_test(job_record_t *job_ptr, bitstr_t *bitmap, uint32_t min_nodes,
	uint32_t max_nodes, uint32_t req_nodes, uint32_t mode, List preemptee_candidates,
	List *preemptee_job_list, bitstr_t *exc_core_bitmap);

/* Right after a _job_test() that was to start it. SLURM_ERROR: it is queued again. */
STEPD_EXPORT int select_p_job_begin(job_record_t *job_ptr);

/* 1: its processes may start; 0: not yet, jobd asks again. SLURM_ERROR with errno: they can't, it
 * is queued again, after _job_fini(). */
STEPD_EXPORT int select_p_job_ready(job_record_t *job_ptr);

/* Its end begins: what it has is free again. Called once more for a job whose end was under way
 * when jobd was started. */
STEPD_EXPORT int select_p_job_fini(job_record_t *job_ptr);

STEPD_EXPORT int select_p_job_signal(job_record_t *job_ptr, int signal);
STEPD_EXPORT int select_p_job_mem_confirm(job_record_t *job_ptr);

/* indf_susp: by a user or operator, until one resumes it; else by gang scheduling, for a while. */
STEPD_EXPORT int select_p_job_suspend(job_record_t *job_ptr, bool indf_susp);
STEPD_EXPORT int select_p_job_resume(job_record_t *job_ptr, bool indf_susp);

/* All that one has becomes the other's: writes job_resrcs of both. */
STEPD_EXPORT bool select_p_job_expand_allow(void);
STEPD_EXPORT int select_p_job_expand(job_record_t *from_job_ptr, job_record_t *to_job_ptr);

/* The job has this node no more: writes job_resrcs. */
STEPD_EXPORT int select_p_job_resized(job_record_t *job_ptr, node_record_t *node_ptr);

/* -- steps -- */

/* jobd starts one step of a job, on all of its nodes; what a script starts inside is not told. It
 * has to be on all nodes of the job, or NULL: jobd's choice, which is the same. */
STEPD_EXPORT bitstr_t *select_p_step_pick_nodes(
	job_record_t *job_ptr, select_jobinfo_t *step_jobinfo, uint32_t node_count);
/* killing_step: it gets SIGKILL; else its processes have ended. */
STEPD_EXPORT int select_p_step_finish(step_record_t *step_ptr, bool killing_step);

/* -- reservations -- */

/* The nodes for it, of avail_bitmap; NULL: it can't be had. core_bitmap: NULL, or cores that it may
 * not have, replaced by those that it has. */
STEPD_EXPORT bitstr_t *select_p_resv_test(resv_desc_msg_t *resv_desc_ptr, uint32_t node_cnt,
	bitstr_t *avail_bitmap, bitstr_t **core_bitmap);

/* -- information, and the block allocator -- */

STEPD_EXPORT int select_p_get_info_from_plugin(
	enum select_plugindata_info dinfo, job_record_t *job_ptr, void *data);
STEPD_EXPORT void select_p_ba_init(node_info_msg_t *node_info_ptr, bool sanity_check);
STEPD_EXPORT int *select_p_ba_get_dims(void);

#ifdef __cplusplus
}
#endif

#endif
