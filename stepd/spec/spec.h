/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The step spec: all that one agent is to run, immutable once built. Several callers produce it
 * (a JSON document, the options of "stepd run"), all through spec_from_json(), so each rule is
 * written once. stepd-spec(5) and doc/stepd-spec.schema.json describe the document.
 *
 * The spec is what was requested, checked by itself; plan.h is what this machine makes of it.
 */
#ifndef STEPD_SPEC_SPEC_H
#define STEPD_SPEC_SPEC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "stepd/spec/limits.h"
#include "stepd/api/step.h"
#include "stepd/base/err.h"
#include "stepd/base/strv.h"
#include "stepd/spec/bind_text.h"

struct json_t;

#define SPEC_TASKS_MAX      65536u      /* on one node */
#define SPEC_NTASKS_MAX     16777216u   /* of a step */
#define SPEC_NODES_MAX      65536u      /* of a step */
#define SPEC_SIZE_MAX       (64u << 20) /* bytes of a document */
#define SPEC_SCRIPT_MAX     (16u << 20) /* bytes of a batch script */
#define SPEC_CPUS_MAX       65536u      /* of a task */
#define SPEC_NUMA_NODES_MAX 1024u       /* MAX_NUMNODES of any kernel */
#define SPEC_NONE           0xffffffffu /* "no rank" */

enum spec_stream_mode {
	SPEC_STREAM_INHERIT, /* the agent's own descriptor */
	SPEC_STREAM_NONE,    /* /dev/null */
	SPEC_STREAM_ALL,     /* stdin only: every task reads all of the agent's stdin */
	SPEC_STREAM_RANK,    /* this rank has the agent's stream, the others /dev/null */
	SPEC_STREAM_FILE,    /* a file, by a pattern */
	SPEC_STREAM_STDOUT,  /* stderr only: to stdout's destination */
	SPEC_STREAM_TOOL,    /* stdin only: a pipe, filled by a tool (PMIx_IOF_push()) */
	SPEC_STREAM_ATTACH,  /* stdin only: a pipe or terminal, for attached clients alone */
	SPEC_STREAM_MODE_MAX,
};

/* What is done with standard input for a task that does not read while others do. */
enum spec_overflow {
	SPEC_OVERFLOW_SPILL, /* it is kept in a file */
	SPEC_OVERFLOW_DROP,  /* it is left out */
	SPEC_OVERFLOW_WAIT,  /* the others wait */
	SPEC_OVERFLOW_MAX,
};

struct spec_stream {
	enum spec_stream_mode mode;
	uint32_t rank; /* with SPEC_STREAM_RANK */
	char *pattern; /* with SPEC_STREAM_FILE; see fname.h; relative to the task's cwd */
	bool append;   /* with SPEC_STREAM_FILE; else it is truncated */
};

enum spec_background {
	SPEC_BACKGROUND_KILL, /* remaining processes are killed when the last task has ended */
	SPEC_BACKGROUND_WAIT, /* ... are awaited */
	SPEC_BACKGROUND_MAX,
};

/* Whether the step gets a scope of systemd: proctrack_p_place(). */
enum spec_scope {
	SPEC_SCOPE_AUTO,
	SPEC_SCOPE_YES,
	SPEC_SCOPE_NO,
	SPEC_SCOPE_MAX,
};

/* The processes that get the signal before the time limit. */
enum spec_lock {
	SPEC_LOCK_NONE,
	SPEC_LOCK_CURRENT, /* what the agent has once the tasks run */
	SPEC_LOCK_ALL,     /* and what it gets later */
	SPEC_LOCK_MAX,
};

enum spec_signal_to {
	SPEC_SIGNAL_STEP,  /* all processes */
	SPEC_SIGNAL_TASKS, /* the tasks' first ones */
	SPEC_SIGNAL_TO_MAX,
};

/* The session that the tasks run in. */
enum spec_session {
	SPEC_SESSION_AUTO,
	SPEC_SESSION_TASK,  /* each task leads one of its own */
	SPEC_SESSION_AGENT, /* the agent's, in one process group for the step */
	SPEC_SESSION_MAX,
};

/* One step of the escalation: send, then give the step wait_ms to end. */
struct spec_kill {
	int signal;
	uint64_t wait_ms;
};

struct spec_rlimit {
	int resource; /* RLIMIT_... */
	struct rlimit value;
};

/* Differences for some ranks (MPMD). NULL or empty: as in the step. One for each entry of the
 * document, in its order. */
struct spec_override {
	uint32_t *
		ranks; /* global, ascending, of this node only; env is empty, too, if it has none */
	size_t ranks_count;
	struct strv argv;
	char *cwd;
	struct strv env;      /* added to the step's */
	struct limits limits; /* of each task, in place of those of task_limits */
};

/* Of attach_ring_bytes. */
#define SPEC_ATTACH_RING_MIN     4096u
#define SPEC_ATTACH_RING_MAX     (16u << 20)
#define SPEC_ATTACH_RING_DEFAULT 65536u

#define SPEC_SECRET_MIN 16u   /* bytes of a secret */
#define SPEC_SECRET_MAX 4096u /* likewise */

/* Collective operations of all MPI plugins. */
struct spec_pmi {
	uint64_t timeout_ms; /* deadline of one; 0: none */
	bool tcp;            /* tasks get PMI_PORT and PMI_ID in place of PMI_FD */

	/* Memory limit of the service process; 0: none, SPEC_PMI_MEMORY_DEFAULT: not given. */
	uint64_t memory_bytes;
};

#define SPEC_PMI_MEMORY_MAX     ((uint64_t)INT64_MAX)
#define SPEC_PMI_MEMORY_DEFAULT UINT64_MAX

/* How the step's nodes reach each other. Only the agent that starts the step has the descriptors
 * and the secret, after spec_take_fds(). */
struct spec_wire {
	char **addresses; /* node_count of "HOST:PORT" or "[IPV6]:PORT"; NULL: not given */
	uint32_t addresses_count;
	int listen_fd; /* a listening stream socket, owned; -1: none */
	char *auth;    /* "secret", "munge" or "none" */
	void *secret;  /* NULL: none */
	size_t secret_size;
	uint32_t fanout;
	char *ifname; /* NULL: any */
	uint64_t connect_timeout_ms;

	uint32_t listen_number, secret_number; /* of the descriptors in the document; 0: none */
};

struct spec {
	char *text; /* the document that it was built from, for an adopter */
	enum stepd_step_kind kind;
	uint32_t job_id;
	uint32_t step_id;
	char *step_name; /* "0", "batch", "extern", "interactive" */
	char *job_name;  /* for SLURM_JOB_NAME and %x */

	char *node_name;
	uint32_t node_id;
	uint32_t node_count;
	uint32_t node_cpus;       /* of this node, for SLURM_CPUS_ON_NODE; 0: not given */
	char *node_list;          /* Slurm hostlist, for SLURM_STEP_NODELIST; NULL: not given */
	struct strv node_names;   /* node_list's: node_count of them, or none */
	uint32_t *tasks_per_node; /* node_count of them; NULL: not given */
	uint32_t *rank_nodes;     /* ntasks of them: where each rank is; NULL: not given */

	uint32_t ntasks;       /* of the whole step; 0 for extern */
	uint32_t *ranks;       /* of this node's tasks, by local id */
	uint32_t local_ntasks; /* their number */

	struct strv argv;
	struct strv env;   /* the complete environment: the agent's is not added */
	char *cwd;         /* absolute; NULL: the agent's own */
	bool env_complete; /* and nothing but the task's own number, rank and pid is */
	char *script;      /* of a batch step */
	size_t script_size;
	char *script_file; /* instead: one that exists, and is executed as it is; absolute */
	struct spec_override *overrides;
	size_t overrides_count;
	/* by rank of the step, if the document has tasks: 1 + index of its entry, 0: none */
	uint32_t *rank_entries;

	char *user;  /* name or number; NULL: the agent's */
	char *group; /* name or number; NULL: the user's, by the user database */
	bool groups_given;
	struct strv groups; /* names or numbers; if not given: the user's, by the database */

	bool umask_given;
	mode_t umask;
	struct spec_rlimit *rlimits;
	size_t rlimits_count;
	bool nice_given;
	int nice;
	bool oom_score_adj_given;
	int oom_score_adj;
	bool no_new_privs;
	char *mount_namespace; /* the tasks enter; absolute; NULL: the agent's */

	struct limits limits;      /* of the step */
	struct limits task_limits; /* of each task */
	enum limits_mode limits_mode;

	struct bind_text cpu_bind, mem_bind;
	char *distribution; /* as given; NULL: block */
	uint32_t plane;     /* of distribution: consecutive tasks on a socket, 0: as many as fit */
	uint32_t cpus_per_task; /* 0: not given, 1 */
	char *topology;         /* hwloc's XML, absolute; NULL: this machine's */

	struct spec_stream in, out, err;
	enum spec_overflow input_overflow;
	uint64_t input_spill_max; /* bytes of the file; 0: no limit */
	bool label;
	bool forward;        /* output passes through the agent, so that tools can have a copy */
	uint32_t *pty_ranks; /* of the step, ascending: each has a pseudo-terminal */
	size_t pty_count;
	bool unbuffered; /* output is written to pseudo-terminals */
	bool attachable; /* streams pass through the agent, and clients may be attached to them */
	uint64_t attach_ring_bytes; /* of a stream's last output, for clients */

	char *proctrack; /* "auto" or a plugin's name */
	char *mpi;       /* a plugin's name */
	struct spec_pmi pmi;
	struct spec_wire wire;
	char *cgroup_root; /* absolute directory of a cgroup2 file system; NULL: found automatically
			    */
	enum spec_scope scope;
	enum spec_session session;

	bool hold;              /* tasks run only when all are in the container */
	uint64_t time_limit_ms; /* 0: none */
	int time_limit_signal;  /* sent before it; 0: none */
	uint64_t time_limit_signal_ms;
	enum spec_signal_to time_limit_signal_to;
	bool kill_on_bad_exit_given; /* if not: a rank that dies before it has finalized ends it */
	bool kill_on_bad_exit;
	uint64_t kill_on_bad_exit_grace_ms;
	bool oom_kill_step;
	bool wait_given;
	uint64_t wait_ms; /* time of the others after the first task's end */
	struct spec_kill *kill_sequence;
	size_t kill_sequence_count; /* at least 1; the last one is SIGKILL */
	enum spec_background background;
	uint64_t unkillable_timeout_ms; /* after SIGKILL */
	uint64_t suspend_timeout_ms;
	enum spec_lock lock_memory;
};

/* Checks a document and builds the spec. A message names its field by path ("tasks[3].cwd: ...").
 * With err->list all errors are collected, and err itself has no text. Unknown fields are errors.
 * doc stays the caller's. */
int spec_from_json(const struct json_t *doc, struct spec **ret_spec, struct err *err) _must_check_;

/* The same from text of size bytes; a syntax error names line and column. */
int spec_from_text(
	const char *text, size_t size, struct spec **ret_spec, struct err *err) _must_check_;

/* Whether the rank has a pseudo-terminal as its streams. */
bool spec_has_pty(const struct spec *spec, uint32_t rank);

/* Takes the descriptors that wire.listen_fd and wire.secret_fd name, which the process has
 * inherited: the socket is checked and becomes the spec's, the secret is read and its descriptor
 * closed. For the agent that starts the step; an adopter needs neither. */
int spec_take_fds(struct spec *spec, struct err *err) _must_check_;

/* "CONT,TERM:30s,KILL" into the array form of kill_sequence: a new reference. */
int spec_kill_sequence_json(
	const char *text, struct json_t **ret_array, struct err *err) _must_check_;

/* The same into an array of *ret_count, for the caller to free, checked like a spec's. */
int spec_kill_sequence_parse(const char *text, struct spec_kill **ret_steps, size_t *ret_count,
	struct err *err) _must_check_;

/* NULL-terminated names in the order of their enums: "normal", "step", "auto". */
extern const char *const spec_kind_names[STEPD_STEP_KIND_MAX + 1];
extern const char *const spec_signal_to_names[SPEC_SIGNAL_TO_MAX + 1];
extern const char *const spec_scope_names[SPEC_SCOPE_MAX + 1];
extern const char *const spec_rlimit_names[RLIM_NLIMITS + 1]; /* "nofile" for RLIMIT_NOFILE */

struct spec *spec_free(struct spec *spec);
DEFINE_CLEANUP(struct spec *, spec_free);
#define _cleanup_spec_ _cleanup_(spec_free_p)

#endif
