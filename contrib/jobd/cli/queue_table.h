/* SPDX-License-Identifier: BSD-3-Clause
 *
 * squeue's table, made from job documents (contrib/jobd/engine/engine.h): the choice of jobs, their
 * order, and the columns. Pending tasks of an array are one line, "12_[3-9%2]".
 */
#ifndef JOBD_CLI_QUEUE_TABLE_H
#define JOBD_CLI_QUEUE_TABLE_H

#include "contrib/jobd/cli/columns.h"

#define QUEUE_FORMAT       "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
#define QUEUE_LONG_FORMAT  "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
#define QUEUE_START_FORMAT "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"

/* Lists are texts, "a,b"; NULL: all. */
struct queue_view {
	const char *format; /* NULL: QUEUE_FORMAT */
	const char *names;  /* a format of names, in its place */
	const char *sort;   /* NULL: "P,t,-p" */
	bool header;
	bool tasks;        /* a line for each task */
	bool pending;      /* only pending jobs (--start) */
	const char *users; /* names or uids */
	const char *partitions, *qos, *reservation, *job_names;
	const char *states; /* "PD,RUNNING", "all"; NULL: those that have not ended */
	const char *jobs;   /* "12,13_4" */
	const char *nodes;  /* "n[1-4]" */
};

/* jobs: an array of documents; now: jobd's clock. */
int queue_print(const struct queue_view *view, const json_t *jobs, time_t now, FILE *out,
	struct err *err) _must_check_;

/* The jobs that the view selects, as a new array; tasks are not joined. */
int queue_choose(const struct queue_view *view, const json_t *jobs, json_t **ret_chosen,
	struct err *err) _must_check_;

/* The number of a job for users: "12", "12_3", "12+1". From malloc(); NULL: out of memory. */
char *queue_job_name(const json_t *job);

/* The state in long and in short form, "COMPLETING" and "CG". */
const char *queue_state(const json_t *job);
const char *queue_state_code(const json_t *job);

/* Its run time in seconds. */
int64_t queue_run_time(const json_t *job, time_t now);

#endif
