/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The configuration that jobd reads from slurm.conf(5), and from a file of QOS lines. A key of
 * Slurm that jobd does not use is named in left_out; any other key, and a bad value, is an error
 * with its file and line.
 *
 * Memory is in MB, times are in the units of their names. UINT32_MAX stands for INFINITE and
 * UNLIMITED.
 */
#ifndef JOBD_CONF_CONF_H
#define JOBD_CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepd/api/select.h"
#include "stepd/base/err.h"
#include "stepd/base/strv.h"

#define CONF_INFINITE  UINT32_MAX
#define CONF_NONE      NO_VAL /* not given */
#define CONF_NODES_MAX 1000000u

/* The begin of a line; file: an index of conf.files. */
struct conf_place {
	uint32_t file, line;
};

/* Each node of a line has a record of its own. */
struct conf_node {
	char *name;
	struct conf_place place;
	uint16_t cpus, sockets, cores_per_socket, threads_per_core;
	uint64_t real_memory, mem_spec_limit;
	uint32_t weight;
	char *features; /* NULL: none */
	uint32_t state; /* enum node_states and flags: IDLE, DOWN, DRAIN */
	char *reason;   /* NULL: none */
};

struct conf_part {
	char *name;
	struct conf_place place;
	char *nodes_text; /* as written; NULL: none */
	bitstr_t *nodes;
	bool is_default, is_up, is_drained, is_hidden, is_root_only;
	uint32_t min_nodes, max_nodes;
	uint32_t max_time_min, default_time_min; /* CONF_NONE: max_time_min */
	uint64_t def_mem, max_mem;               /* or'ed with MEM_PER_CPU; 0: none */
	uint16_t max_share;                      /* as part_record_t's */
	uint16_t priority_tier, priority_job_factor;
	uint16_t preempt_mode; /* without GANG; NO_VAL16: the cluster's */
	bool names_gang;       /* its PreemptMode has GANG */
	uint32_t grace_time_s;
	uint32_t exempt_time_s;   /* CONF_NONE: the cluster's */
	struct strv allow_groups; /* empty: all */
};

struct conf_qos {
	char *name;
	uint32_t priority;
	char *preempts_text;   /* as written; NULL: none */
	bitstr_t *preempts;    /* by the number of a QOS */
	uint16_t preempt_mode; /* as a partition's */
	bool names_gang;
	uint32_t grace_time_s;
	uint32_t exempt_time_s; /* CONF_NONE: the cluster's */
	uint32_t flags;         /* QOS_FLAG_... */
	struct conf_place place;
};

/* SchedulerParameters. */
struct conf_scheduler {
	uint32_t default_queue_depth;   /* jobs of a quick pass; 100 */
	bool defer;                     /* no pass at a submission */
	uint16_t preempt_reorder_count; /* 1 */
	bool preempt_strict_order, preempt_youngest_first, preempt_send_user_signal;
	uint32_t bf_interval_s;   /* 30 */
	uint32_t bf_window_min;   /* 1440 */
	uint32_t bf_resolution_s; /* 60 */
	uint32_t bf_max_job_test; /* 500 */
	uint32_t bf_max_job_user; /* 0: no limit */
	bool bf_continue;
	uint32_t sched_interval_s; /* 60 */
};

struct conf {
	char *cluster_name;
	char *select_type; /* "linear" */
	uint32_t select_type_param;
	char *preempt_type; /* "none" */
	uint16_t preempt_mode;
	struct conf_place preempt_place; /* the later one of these two */
	uint32_t preempt_exempt_time_s;
	bool job_requeue;
	uint32_t sched_time_slice_s, kill_wait_s;
	bool backfill; /* SchedulerType */
	struct conf_scheduler scheduler;
	uint32_t first_job_id, max_job_id, max_job_count, max_array_size;
	struct conf_place ids_place; /* the later one of the first two */
	uint32_t min_job_age_s;
	uint64_t def_mem, max_mem; /* as a partition's */
	bool enforce_part_limits;  /* a job beyond its partition's limits is refused at once */
	char *state_save_location; /* NULL: none given */
	struct conf_node *nodes;
	size_t nodes_count;
	struct conf_part *parts;
	size_t parts_count;
	struct conf_qos *qos;
	size_t qos_count;
	struct strv left_out; /* keys, each once, as first written */
	struct strv files;    /* all files that were read, each once */
};

/* qos_file may be NULL: there is no QOS. *ret_conf is released by conf_free(). */
int conf_read(const char *file, const char *qos_file, struct conf **ret_conf,
	struct err *err) _must_check_;

/* The same, but -EPERM if a file can be changed by users other than root and this process's. */
int conf_read_trusted(const char *file, const char *qos_file, struct conf **ret_conf,
	struct err *err) _must_check_;

/* Adds what is allowed but does not do what it seems to: a sentence each. */
int conf_list_warnings(const struct conf *conf, struct strv *warnings) _must_check_;

/* Swaps the values of `now` that can't change while jobd runs with those of `old`, and names them
 * in *ret_needs_restart (free(); NULL: none). An error means that nodes or partitions differ, or
 * that the rest of `now` is not allowed with these values, and nothing of `now` may be used; `old`
 * is unchanged. */
int conf_keep(
	struct conf *old, struct conf *now, char **ret_needs_restart, struct err *err) _must_check_;

/* Reorders the nodes, also in the partitions' bitmaps: order[i] is the former number of the i-th
 * node. */
int conf_order_nodes(struct conf *conf, const uint32_t *order) _must_check_;

/* NULL is fine. Returns NULL. */
struct conf *conf_free(struct conf *conf);
DEFINE_CLEANUP(struct conf *, conf_free);
#define _cleanup_conf_ _cleanup_(conf_free_p)

/* Indexes, -1 for none. */
int conf_find_part(const struct conf *conf, const char *name);
int conf_find_qos(const struct conf *conf, const char *name);

#endif
