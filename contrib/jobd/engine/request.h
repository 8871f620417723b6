/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A request: a job as its user describes it by sbatch's options. It owns what it points to
 * (malloc()), alone or shared with its copies: the tasks of an array have one script in memory.
 * cli/options.c makes it from a command line and #SBATCH lines, and it travels as JSON
 * (request_to_json()) to the daemon; sim/ makes requests from recorded commands.
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

#define REQUEST_CALL_MAX (8u << 20) /* bytes of a call of jobd with a request */

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

/* The user warning signal: so long before the end of the job its processes get this signal. */
struct job_warning {
	int signal;        /* 0: none */
	bool to_script;    /* to the process of the batch script alone, else to the steps */
	uint32_t before_s; /* the end */
};

/* Numbers that are not given are NO_VAL (NO_VAL64), texts NULL, as request_init() sets them. */
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
	char *signal;      /* as request_parse_signal() has it */
	struct job_dependency *dependencies;
	size_t dependencies_count;
	bool dependencies_any; /* '?' between them: one suffices */
	bool singleton;
	char *array; /* "0-9:2,15%3" */

	/* For the runner; the engine only stores it. */
	char *work_dir, *script; /* script: its text, with #!; NULL: an allocation without one */
	char *stdin_file, *stdout_file, *stderr_file; /* with Slurm's patterns */
	bool append;                                  /* --open-mode */
	char *command; /* for display: the script's file, or an allocation's command */
	char **argv;   /* of the script, NULL: none; ends with a NULL */
	char **env;    /* likewise */

	/* Reference counts of script, argv and env, and of all other texts and lists, which must
	 * not be written while they are shared. NULL: only this request has them. */
	struct request_owner *payload_owner, *owner;
};

void request_init(struct job_request *request);
void request_clear(struct job_request *request);

/* Copies a request; a copy of a copy, or of a shared request, shares its memory. -ENOMEM: *ret_copy
 * is as after request_init(). */
int request_copy(const struct job_request *request, struct job_request *ret_copy) _must_check_;

/* Copies made from here on share its memory. -ENOMEM: the request is unchanged. */
int request_share(struct job_request *request) _must_check_;

/* Takes script, argv and env from the other request. Both must be shared. */
void request_take_payload(struct job_request *request, const struct job_request *other);

/* Frees the duplicates of what both requests have in common. Both must be shared. */
void request_unify(struct job_request *request, const struct job_request *other);
#define _cleanup_request_ _cleanup_(request_clear)

/* A new reference. Members have the names of struct job_request; those that are not given are left
 * out. memory_mb is "memory_per_node_mb" or "memory_per_cpu_mb", a time limit of INFINITE is -1, a
 * dependency is {"type": "afterok", "job_id": 12}. A text that is not UTF-8 is {"base64": "..."}.
 * NULL: out of memory. */
json_t *request_to_json(const struct job_request *request);

/* Parses an untrusted document: unknown members, wrong types and numbers out of range are errors
 * that name them. Initialises *request; after an error there is nothing to clear. */
int request_from_json(
	const json_t *json, struct job_request *request, struct err *err) _must_check_;

/* Parses --distribution: "block", "cyclic" or "plane=N" for nodes, and after a colon "block",
 * "cyclic" or "fcyclic" for sockets; "*" is the default. *ret_dist is SLURM_DIST_..., *ret_plane N
 * or 0. -EINVAL: it is malformed. */
int request_parse_distribution(
	const char *text, uint32_t *ret_dist, uint16_t *ret_plane, struct err *err) _must_check_;

/* Parses --signal: "USR1", "B:10@120"; without a time it is 60 seconds. "R:" is accepted, and has
 * no effect. -EINVAL: it is malformed. */
int request_parse_signal(
	const char *text, struct job_warning *ret_warning, struct err *err) _must_check_;

/* All texts must be UTF-8, as a step's document requires it; only the script may have any bytes.
 * -EINVAL: err names the member. */
int request_check_texts(const struct job_request *request, struct err *err) _must_check_;

#endif
