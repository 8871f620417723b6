/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What an agent is, for one that goes on with its step: in state.json, beside the registry's own
 * fields, for an adoption; and in the handover to a program that the agent executes
 * (snapshot/handover.h), beside what only that can have. Times are CLOCK_MONOTONIC, the machine's
 * and not the process's; they hold until it is booted again.
 */
#ifndef STEPD_RECORD_STATE_DOC_H
#define STEPD_RECORD_STATE_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"
#include "stepd/state/steps.h"

struct json_t;

/* ---- added processes ----------------------------------------------------------------------- */

/* The processes that were added to a step from outside, where its tracker has no state outside
 * the agent: once the agent is dead only their pids show that they belong to the step. So
 * state.json lists them, each with its start time, before AddPid is replied to. Ended ones are
 * dropped at the next AddPid. */

struct added_process {
	pid_t pid;
	uint64_t start_ticks;
};

struct added {
	struct added_process *v;
	size_t n, capacity;
};

/* 0 or -ENOMEM. */
int added_note(struct added *added, pid_t pid, uint64_t start_ticks);

/* An array of [pid, start time], or NULL without memory. */
struct json_t *added_pack(const struct added *added);

/* Reads another program's added_pack(): the processes that still live. Anything else in it is
 * ignored. 0 or -ENOMEM. */
int added_unpack(struct added *added, const struct json_t *array);

void added_clear(struct added *added);

/* ---- the document -------------------------------------------------------------------------- */

/* The clock ticks since boot (field 22 of /proc/PID/stat) between which the tasks were forked. No
 * task was reaped before the later one: a process that has a task's pid and started between them
 * is the task. Each task's own time would cost a read of /proc for each, before the first may
 * run. */
struct fork_ticks {
	uint64_t least, most; /* 0: none was forked */
};

/* The MPI service process, which is not a member of the container and survives its agent: a
 * process with this pid and another start time is a different one. */
struct recover_service {
	pid_t pid; /* 0: there is none */
	uint64_t start_ticks;
};

struct recover {
	uint64_t running_ns; /* when the tasks started to run; 0: they have not */
	struct fork_ticks forked;
	uint32_t adopted;                 /* how often it was taken over */
	char boot_id[STEPS_BOOT_ID_SIZE]; /* "": it can't be read, or was not needed yet */
	struct recover_service service;
};

/* Tasks that joined the step follow those that it began with. */
struct state_task {
	uint32_t rank;
	pid_t pid;                /* 0: it had ended */
	uint32_t spawn;           /* 0: it began with the step */
	struct fork_ticks forked; /* of a spawned one */
};

/* Strings are borrowed: from doc where it was read, from the agent where it is to be written. */
struct state_doc {
	struct json_t *doc;
	uint32_t job_id;
	const char *step_name, *node_name, *user_name;
	uint32_t node_id;
	uid_t uid;
	const char *state; /* "running", "suspended", ... */
	gid_t gid;
	const char *reason; /* NULL: none yet */
	int end_signal;
	bool limit_signal_sent;
	const char *proctrack, *container_root; /* root: NULL for none */
	uint64_t cont_id;
	pid_t agent_pid;
	bool same_boot; /* else pids and times are meaningless */
	uint64_t begin_ns, suspended_since_ns, suspended_ns;
	bool suspending; /* requested and not done yet */
	struct recover recover;
	const char *result_file, *sample_file, *plugin_dir; /* NULL: none */
	uint64_t sample_interval_ms, keep_result_ms;
	bool usage_table;
	struct state_task *tasks;
	size_t tasks_count;
};

/* Packs all members from gid on but same_boot: a new reference, or NULL without memory. Takes
 * ownership of added (added_pack()). */
struct json_t *state_doc_pack(struct state_doc *s, struct json_t *added);

/* Reads state_doc_pack()'s document: 0, -EBADMSG or -ENOMEM. The strings are borrowed from doc,
 * which stays the caller's; state_doc_clear() frees the rest, also after a failure. */
int state_doc_unpack(struct json_t *doc, struct state_doc *ret_doc, struct err *err) _must_check_;

/* Reads state.json below dir_fd: 0, -ENOENT, or -EBADMSG for one that is not an agent's, or of an
 * agent of an unknown version. Fields that another version may lack have defaults, and additional
 * ones are ignored. */
int state_doc_read(int dir_fd, struct state_doc *ret_doc, struct err *err) _must_check_;
void state_doc_clear(struct state_doc *doc);
#define _cleanup_state_doc_ _cleanup_(state_doc_clear)

#endif
