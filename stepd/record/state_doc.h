/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What an agent is, for one that goes on with its step: in state.json, beside the registry's own
 * fields, for whoever adopts it; and in the handover to a program that is executed in its place
 * (snapshot/handover.h), beside what only that can have.
 */
#ifndef STEPD_RECORD_STATE_DOC_H
#define STEPD_RECORD_STATE_DOC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"
#include "stepd/record/recover.h"

struct json_t;

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
	bool same_boot; /* else pids and times say nothing any more */
	uint64_t begin_ns, suspended_since_ns, suspended_ns;
	bool suspending; /* it was asked to, and not answered */
	struct recover recover;
	const char *result_file, *sample_file, *plugin_dir; /* NULL: none */
	uint64_t sample_interval_ms, keep_result_ms;
	bool usage_table;
	struct state_task *tasks;
	size_t tasks_count;
};

/* All from gid on but same_boot and tasks, of which it has when the spawned ones were forked: a new
 * reference, or NULL for want of memory. Takes added (added.h) over. */
struct json_t *state_doc_pack(struct state_doc *s, struct json_t *added);

/* That: 0 or -EBADMSG. Its strings are doc's. */
int state_doc_unpack(struct json_t *doc, struct state_doc *ret_doc, struct err *err) _must_check_;

/* Reads state.json below dir_fd: 0, -ENOENT, or -EBADMSG for one that is not an agent's, or of an
 * agent whose version means more than this one knows. Fields that another version may lack have
 * defaults, and those that it has beside them are passed over. */
int state_doc_read(int dir_fd, struct state_doc *ret_doc, struct err *err) _must_check_;
void state_doc_clear(struct state_doc *doc);
#define _cleanup_state_doc_ _cleanup_(state_doc_clear)

#endif
