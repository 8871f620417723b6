/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What is submitted: a job as its user describes it, by sbatch's options. A request owns what it
 * points to (malloc()), alone or, those that were copied, together: the tasks of an array have one
 * script in memory. It is made by cli/options.c from words of a command line and #SBATCH lines,
 * and travels as JSON (request_to_json()) to the daemon; sim/ makes them of recorded commands.
 */
#ifndef JOBD_ENGINE_REQUEST_H
#define JOBD_ENGINE_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "stepd/api/select.h"
#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"

#define REQUEST_CALL_MAX (8u << 20) /* bytes of a call of jobd that has one */

/* What a job waits for. */
enum job_dependency_kind {
	DEPENDS_AFTER,       /* the other has started */
	DEPENDS_AFTER_ANY,   /* has ended */
	DEPENDS_AFTER_OK,    /* has ended with exit status 0 */
	DEPENDS_AFTER_NOT_OK /* with another one */
};
struct job_dependency {
	enum job_dependency_kind kind;
	uint32_t job_id;    /* of an array: all its tasks, or */
	uint32_t task_id;   /* this one; NO_VAL: none is named */
	uint32_t delay_min; /* DEPENDS_AFTER: so long after it */
};

/* Numbers that are not given are NO_VAL (NO_VAL64), texts NULL: request_init() makes it so. */
struct job_request {
	char *name, *partition, *qos, *reservation, *comment;
	char *network; /* for the select plugin */
	uint32_t min_nodes, max_nodes, ntasks, cpus_per_task, min_cpus_per_node;
	uint32_t ntasks_per_node, ntasks_per_socket, ntasks_per_core;
	uint64_t memory_mb;      /* or'ed with MEM_PER_CPU */
	uint32_t time_limit_min; /* INFINITE */
	uint32_t priority;       /* of root: set by hand */
	char *nodelist, *exclude, *features;
	char *distribution; /* as request_parse_distribution() has it */
	bool spread_job, use_min_nodes;
	bool contiguous, exclusive, oversubscribe, hold;
	int requeue;       /* 1, 0; -1: not given */
	time_t begin_time; /* 0: now */
	struct job_dependency *dependencies;
	size_t dependencies_count;
	bool dependencies_any; /* '?' between them: one suffices */
	bool singleton;
	char *array; /* "0-9:2,15%3" */

	/* What the runner needs; the engine keeps it. */
	char *work_dir, *script; /* script: its text, with #!; NULL: an allocation without one */
	char *stdin_file, *stdout_file, *stderr_file; /* with Slurm's patterns */
	bool append;                                  /* --open-mode */
	char *command; /* what was given: the script's file, or an allocation's command; to be shown
			*/
	char **argv;   /* of the script, NULL: none; ends with a NULL */
	char **env;    /* likewise */

	/* The owners, with how many others, of script, argv and env, and of all other texts and
	 * lists, which nobody writes then. NULL: this request alone. */
	struct request_owner *payload_owner, *owner;
};

void request_init(struct job_request *request);
void request_clear(struct job_request *request);

/* A copy of a copy, or of a request that was shared, takes no memory. -ENOMEM: *ret_copy is as
 * after request_init(). */
int request_copy(const struct job_request *request, struct job_request *ret_copy) _must_check_;

/* From here on its copies share what it points to. -ENOMEM: it is as before. */
int request_share(struct job_request *request) _must_check_;

/* Both were shared. Script, argv and env are the other's. */
void request_take_payload(struct job_request *request, const struct job_request *other);

/* Both were shared. What they have alike is there once. */
void request_unify(struct job_request *request, const struct job_request *other);
#define _cleanup_request_ _cleanup_(request_clear)

/* A new reference. Members have the names of struct job_request; those that are not given are left
 * out. memory_mb is "memory_per_node_mb" or "memory_per_cpu_mb", a time limit of INFINITE is -1, a
 * dependency is {"type": "afterok", "job_id": 12}. A text that is no UTF-8 is {"base64": "..."}.
 * NULL: there is no memory. */
json_t *request_to_json(const struct job_request *request);

/* Of a stranger: unknown members, wrong types and numbers out of range are errors that name them.
 * *request is made by this; after an error there is nothing to clear. */
int request_from_json(
	const json_t *json, struct job_request *request, struct err *err) _must_check_;

/* --distribution: "block", "cyclic" or "plane=N" for nodes, and behind a colon "block", "cyclic" or
 * "fcyclic" for sockets; "*" for what is not given. *ret_dist is SLURM_DIST_..., *ret_plane N or 0.
 * -EINVAL: it is none of these. */
int request_parse_distribution(
	const char *text, uint32_t *ret_dist, uint16_t *ret_plane, struct err *err) _must_check_;

/* All texts but the script, which may have any bytes, are to be UTF-8: a step's document has them
 * as such. -EINVAL names the member. */
int request_check_texts(const struct job_request *request, struct err *err) _must_check_;

#endif
