/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The resource selection plugin: plugin_type "select/...". All functions are those of Slurm's
 * "Resource Selection Plugin" guide, with its names, signatures and times of calls. All are
 * mandatory; one that has nothing to do returns SLURM_SUCCESS, NULL or false. The host is jobd(8):
 *
 *	select_p_node_init, _state_restore, _job_init     at the start, in this order
 *	select_p_job_test                                 for a job that is submitted or pending
 *	select_p_job_begin, _ready, ..., _fini            for one that starts
 *	select_p_state_save                               when jobd ends, unless it is killed
 *
 * jobd has one thread, and no function may wait. Records are the host's, and each function may read
 * those that it gets. A plugin writes these members, in these functions, and nothing else:
 *
 *	node_record_t     node_rank        _node_ranking()
 *	                  select_nodeinfo  _nodeinfo_set(), _nodeinfo_set_all()
 *	job_record_t      job_resrcs       _job_test(), _job_expand(), _job_resized()
 *	                  start_time       _job_test() with WILL_RUN
 *	                  select_jobinfo   each function that has the job
 *	step_record_t     select_jobinfo   _step_pick_nodes(), _step_finish()
 *	resv_desc_msg_t   node_list        _resv_test()
 *
 * Of select_nodeinfo and select_jobinfo it writes the contents. A record is valid until the host
 * has reported its end (_job_fini, the next _node_init). Functions return SLURM_SUCCESS, or
 * SLURM_ERROR with errno set.
 *
 * Arrays by node have an element for each node, in the same order. All cores of the cluster are
 * numbered, too: node by node, and in a node socket by socket (core_offset).
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
#define MEM_PER_CPU 0x8000000000000000u /* flag of a memory size: per CPU, not per node */

/* ---- nodes -------------------------------------------------------------------------------- */

/* One of the first five, and flags. */
enum node_states {
	NODE_STATE_UNKNOWN,
	NODE_STATE_DOWN,
	NODE_STATE_IDLE,
	NODE_STATE_ALLOCATED, /* all of it, or by a job that does not share it */
	NODE_STATE_MIXED,     /* a part of it */
	NODE_STATE_END,
};
#define NODE_STATE_BASE       0x000fu
#define NODE_STATE_DRAIN      0x0200u /* gets no new jobs */
#define NODE_STATE_COMPLETING 0x0400u /* processes of a job are ending */
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
	uint64_t mem_spec_limit;            /* MB that are not for jobs */
	uint32_t weight;                    /* nodes of less weight are taken first */
	char *features;                     /* "a,b"; NULL: none */
	uint32_t node_rank;                 /* written by select_p_node_ranking() */
	uint16_t run_job_cnt;               /* running jobs on it */
	uint16_t sus_job_cnt;               /* suspended ones */
	uint16_t no_share_job_cnt;          /* those that do not share it */
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
	uint16_t max_share; /* 0: EXCLUSIVE; 1: NO; else: jobs on a resource, with
			     * SHARED_FORCE even without --oversubscribe */
	uint16_t priority_tier;
	uint16_t priority_job_factor;
	uint16_t preempt_mode;        /* PREEMPT_MODE_...; NO_VAL16: the cluster's */
	uint32_t grace_time;          /* seconds */
	uint32_t preempt_exempt_time; /* seconds; NO_VAL: the cluster's */
} part_record_t;

/* ---- quality of service -------------------------------------------------------------------- */

/* Flags of a QOS: its jobs may exceed limits of their partition, or need a reservation. */
#define QOS_FLAG_PART_MIN_NODE   0x01u
#define QOS_FLAG_PART_MAX_NODE   0x02u
#define QOS_FLAG_PART_TIME_LIMIT 0x04u
#define QOS_FLAG_REQ_RESV        0x10u

typedef struct qos_record {
	uint32_t id;    /* its number */
	uint32_t flags; /* QOS_FLAG_... */
	char *name;
	uint32_t priority;
	bitstr_t *preempt_bitstr;     /* by number: the QOS that it may preempt; NULL: none */
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
#define JOB_COMPLETING  0x8000u /* flag: its processes are ending */
#define JOB_CONFIGURING 0x4000u /* flag: its nodes are not ready yet */

/* How a job shares what it gets: job_details_t's share_res. */
#define JOB_SHARED_NONE 0u /* --exclusive */
#define JOB_SHARED_OK   1u /* --oversubscribe */

/* --distribution, job_details_t's task_dist: the distribution of tasks over nodes, or'ed with that
 * over the sockets of a node. 0 in either part: not given. */
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

/* The request. */
typedef struct job_details {
	uint32_t min_cpus, max_cpus;   /* on all nodes; max_cpus NO_VAL: no limit */
	uint32_t min_nodes, max_nodes; /* the job's own, max_nodes 0: no limit */
	uint32_t num_tasks;            /* 0: not given */
	uint16_t cpus_per_task;        /* 1 or more */
	uint16_t ntasks_per_node;      /* at most; 0: not given */
	uint16_t ntasks_per_socket;    /* likewise */
	uint16_t ntasks_per_core;      /* likewise */
	uint16_t plane_size;           /* tasks, with SLURM_DIST_PLANE; else 0 */
	uint32_t task_dist;            /* SLURM_DIST_... */
	uint16_t pn_min_cpus;          /* on each node, at least */
	uint64_t pn_min_memory;        /* MB, or'ed with MEM_PER_CPU; 0: with CR_Memory all of
					* each node, else not counted */
	uint16_t contiguous;           /* 1: consecutive nodes */
	uint16_t share_res;            /* JOB_SHARED_...; NO_VAL16: not given */
	uint16_t whole_node;           /* 1: whole nodes (--exclusive) */
	bitstr_t *req_node_bitmap;     /* nodes that it must have; NULL: none */
	bitstr_t *exc_node_bitmap;     /* nodes that it must not have; NULL: none */
	char *features;                /* "a&b"; NULL: none */
} job_details_t;

/* How a job shares its nodes. */
enum node_cr_state {
	NODE_CR_RESERVED = 64, /* not at all */
	NODE_CR_ONE_ROW = 1,   /* not its cores */
	NODE_CR_AVAILABLE = 0, /* its cores, too, by max_share jobs of its partition */
};

/* The allocation of a job: made by select_p_job_test() with SELECT_MODE_RUN_NOW, by xmalloc() and
 * the functions of bitmaps; the host owns and frees it. In other modes it is the expected
 * allocation, for backfill's plan. Arrays are by the job's nodes, in the order of their numbers. */
typedef struct job_resources {
	bitstr_t *node_bitmap;
	bitstr_t *core_bitmap; /* of all cores of the cluster; NULL: the plugin gives whole
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
	uint32_t array_job_id, array_task_id; /* 0 and NO_VAL: no array */
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
	time_t end_time;   /* 0: none yet; of a running job: by its limit */
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

/* ---- reservations, and information on nodes ----------------------------------------------- */

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

/* ---- variables and functions of the host ---------------------------------------------------- */

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
extern List job_list;  /* of job_record_t: jobs that have nodes */
extern List part_list; /* of part_record_t */

/* The time by jobd's clock, which may differ from the machine's. */
time_t slurm_now(void);

/* The mode of this job's preemption: PREEMPT_MODE_OFF (never), _SUSPEND, _REQUEUE or _CANCEL. */
uint16_t slurm_job_preempt_mode(const job_record_t *job_ptr);

#pragma GCC visibility pop

/* ---- enums of the functions ---------------------------------------------------------------- */

/* The version of packed data. */
#define SELECT_PROTOCOL_VERSION 1

#define SELECT_MODE_RUN_NOW   0x0000u
#define SELECT_MODE_TEST_ONLY 0x0001u
#define SELECT_MODE_WILL_RUN  0x0002u

enum select_nodedata_type {
	SELECT_NODEDATA_SUBCNT,    /* uint16_t: CPUs in that state */
	SELECT_NODEDATA_MEM_ALLOC, /* uint64_t: MB allocated to jobs */
	SELECT_NODEDATA_PTR,       /* select_nodeinfo_t *: the plugin's own */
};

enum select_jobdata_type {
	SELECT_JOBDATA_PTR,       /* select_jobinfo_t * */
	SELECT_JOBDATA_CLEANING,  /* uint16_t: the plugin is busy with its end */
	SELECT_JOBDATA_RELEASED,  /* uint16_t: its resources are released */
	SELECT_JOBDATA_CONFIRMED, /* uint16_t: its resources are confirmed */
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

/* Save and restore the plugin's state in a file of its own in this directory, which is jobd's. A
 * failure of _restore ends jobd; a missing file is not a failure. */
STEPD_EXPORT int select_p_state_save(char *dir_name);
STEPD_EXPORT int select_p_state_restore(char *dir_name);

/* The table of nodes is complete, or has changed: earlier data on nodes is void. */
STEPD_EXPORT int select_p_node_init(node_record_t *node_ptr, int node_cnt);

/* The restored jobs: running and suspended ones have job_resrcs. */
STEPD_EXPORT int select_p_job_init(List jobs);

/* slurm_conf, or partitions, have changed. */
STEPD_EXPORT int select_p_reconfigure(void);

/* -- nodes -- */

STEPD_EXPORT select_nodeinfo_t *select_p_select_nodeinfo_alloc(void);
/* jobd packs and stores the information at each change of a node's state, and unpacks it after
 * _node_init() in place of _nodeinfo_alloc(). Clients get the values of _nodeinfo_get(). */
STEPD_EXPORT int select_p_select_nodeinfo_pack(
	select_nodeinfo_t *nodeinfo, Buf buffer, uint16_t protocol_version);
STEPD_EXPORT int select_p_select_nodeinfo_unpack(
	select_nodeinfo_t **nodeinfo, Buf buffer, uint16_t protocol_version);
STEPD_EXPORT int select_p_select_nodeinfo_free(select_nodeinfo_t *nodeinfo);

/* A job has begun, or was restored: update select_nodeinfo of its nodes, or of all nodes. */
STEPD_EXPORT int select_p_select_nodeinfo_set(job_record_t *job_ptr);
STEPD_EXPORT int select_p_select_nodeinfo_set_all(void);
STEPD_EXPORT int select_p_select_nodeinfo_get(select_nodeinfo_t *nodeinfo,
	enum select_nodedata_type dinfo, enum node_states state, void *data);

/* The CPUs or the memory of the node with this number have changed. */
STEPD_EXPORT int select_p_update_node_config(int index);

/* At the start, before _node_init(). May write node_rank. True: it has; jobd then sorts its nodes
 * by rank, and equal ones as they are configured. */
STEPD_EXPORT bool select_p_node_ranking(node_record_t *node_ptr, int node_cnt);
STEPD_EXPORT int select_p_update_node_state(node_record_t *node_ptr);

/* -- jobs -- */

/* The plugin's information on a job, job_record_t.select_jobinfo from its submission until it is
 * forgotten; and on a step. jobd packs a job's at each change of the job, and unpacks it before
 * _job_init(); a step's is made anew. "jobctl show" prints a job's by _xstrdup() with
 * SELECT_PRINT_MIXED. */
STEPD_EXPORT select_jobinfo_t *select_p_select_jobinfo_alloc(void);
/* Copies that of an array's first task for each other task. */
STEPD_EXPORT select_jobinfo_t *select_p_select_jobinfo_copy(select_jobinfo_t *jobinfo);
STEPD_EXPORT int select_p_select_jobinfo_free(select_jobinfo_t *jobinfo);
STEPD_EXPORT int select_p_select_jobinfo_pack(
	select_jobinfo_t *jobinfo, Buf buffer, uint16_t protocol_version);
STEPD_EXPORT int select_p_select_jobinfo_unpack(
	select_jobinfo_t **jobinfo_pptr, Buf buffer, uint16_t protocol_version);

/* SELECT_JOBDATA_CLEANING: jobd calls this when the processes of a job have ended, and again each
 * second as long as it is 1: the job is completing, and retains its nodes. SLURM_ERROR with errno
 * EINVAL: not supported. Another errno: it has failed, and jobd drains the nodes. */
STEPD_EXPORT int select_p_select_jobinfo_get(
	select_jobinfo_t *jobinfo, enum select_jobdata_type data_type, void *data);
/* SELECT_JOBDATA_NETWORK, from a job's --network; other types are for the plugin's own use. EINVAL:
 * not supported. */
STEPD_EXPORT int select_p_select_jobinfo_set(
	select_jobinfo_t *jobinfo, enum select_jobdata_type data_type, void *data);
/* With SELECT_PRINT_DATA: a cell of a table. */
STEPD_EXPORT char *select_p_select_jobinfo_sprint(
	select_jobinfo_t *jobinfo, char *buf, size_t size, int mode);
STEPD_EXPORT char *select_p_select_jobinfo_xstrdup(select_jobinfo_t *jobinfo, int mode);

/* Chooses nodes. bitmap: on entry the available nodes, which include all required ones; on success
 * the chosen nodes, a subset. min_nodes <= req_nodes <= max_nodes.
 *
 *	SELECT_MODE_RUN_NOW    the job starts now: writes job_resrcs
 *	SELECT_MODE_TEST_ONLY  whether it could on an empty cluster: SLURM_ERROR is "never"
 *	SELECT_MODE_WILL_RUN   when: writes start_time; on entry that is the earliest useful start,
 *	                       0 means now
 *
 * With the last two it may write job_resrcs, too, the expected allocation. Backfill then holds
 * these cores and this memory for the job, and other jobs can have the rest of the nodes; without
 * it, or without its core_bitmap, the job's nodes are held as a whole.
 *
 * preemptee_candidates: of job_record_t, those first that are preempted first; NULL: none may be
 * preempted. *preemptee_job_list: those that must be preempted, a list that the plugin makes and
 * the host destroys; NULL: none. If one of these has to end (slurm_job_preempt_mode()) the job does
 * not start: bitmap has the nodes on which it could, and it is tested again when they have ended.
 * exc_core_bitmap: in any mode, cores that are held by reservations, or for jobs that backfill has
 * planned; NULL: none. SLURM_ERROR with EAGAIN or EBUSY: not now. */
STEPD_EXPORT int select_p_job_test(job_record_t *job_ptr, bitstr_t *bitmap, uint32_t min_nodes,
	uint32_t max_nodes, uint32_t req_nodes, uint32_t mode, List preemptee_candidates,
	List *preemptee_job_list, bitstr_t *exc_core_bitmap);

/* Called right after the _job_test() that starts the job. SLURM_ERROR: it is queued again. */
STEPD_EXPORT int select_p_job_begin(job_record_t *job_ptr);

/* 1: its processes may start; 0: not yet, jobd calls again. SLURM_ERROR with errno: they can't
 * start, and the job is queued again after _job_fini(). */
STEPD_EXPORT int select_p_job_ready(job_record_t *job_ptr);

/* Its end begins: its resources are free again. Called once more for a job whose end was under way
 * when jobd was started. */
STEPD_EXPORT int select_p_job_fini(job_record_t *job_ptr);

STEPD_EXPORT int select_p_job_signal(job_record_t *job_ptr, int signal);
STEPD_EXPORT int select_p_job_mem_confirm(job_record_t *job_ptr);

/* indf_susp: by an operator, until the job is resumed; else by gang scheduling or preemption. */
STEPD_EXPORT int select_p_job_suspend(job_record_t *job_ptr, bool indf_susp);
STEPD_EXPORT int select_p_job_resume(job_record_t *job_ptr, bool indf_susp);

/* All resources of one job become those of the other: writes job_resrcs of both. */
STEPD_EXPORT bool select_p_job_expand_allow(void);
STEPD_EXPORT int select_p_job_expand(job_record_t *from_job_ptr, job_record_t *to_job_ptr);

/* The job has given up this node: writes job_resrcs. */
STEPD_EXPORT int select_p_job_resized(job_record_t *job_ptr, node_record_t *node_ptr);

/* -- steps -- */

/* jobd starts one step of a job; it does not know the steps that a script starts. Returns all nodes
 * of the job, or NULL, which means the same. */
STEPD_EXPORT bitstr_t *select_p_step_pick_nodes(
	job_record_t *job_ptr, select_jobinfo_t *step_jobinfo, uint32_t node_count);
/* killing_step: it gets SIGKILL; else its processes have ended. */
STEPD_EXPORT int select_p_step_finish(step_record_t *step_ptr, bool killing_step);

/* -- reservations -- */

/* Returns the nodes for a reservation, of avail_bitmap; NULL: it is not possible. core_bitmap:
 * NULL, or cores that it must not have, which are replaced by those that it has. */
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
