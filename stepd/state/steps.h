/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The node's steps as their directories show them, <runtime>/<node>_<job>.<step>/: what agents
 * write there (stepd/record/registry.h) for everybody to read, whether an agent lives or not.
 */
#ifndef STEPD_STATE_STEPS_H
#define STEPD_STATE_STEPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

struct json_t;

/* <runtime>, whether it exists or not: given if not NULL, else $STEPD_RUNTIME_DIR, else the
 * default. The caller frees it. */
int steps_find_dir(const char *given, char **ret_path, struct err *err) _must_check_;

/* Refuses a runtime directory that users other than this process's and root could change. */
int steps_check_trusted(int fd, const char *path, struct err *err) _must_check_;

/* One step by its state.json. Strings are borrowed for the call. */
struct step_entry {
	const char *step; /* "7.0" */
	const char *node;
	const char *user;
	const char *state;
	const char *proctrack; /* "proctrack/cgroup" */
	uint64_t cont_id;
	pid_t agent_pid;
	uid_t owner;              /* of state.json */
	int locked;               /* steps_is_locked() */
	bool alive;               /* the agent lives; for another user, it may live */
	int dir_fd;               /* the step's directory */
	const struct json_t *doc; /* all of state.json */
};

/* The members of state.json for every reader. Strings are borrowed from the document. */
struct step_state {
	int64_t job_id;
	const char *step_name, *node, *user;
	const char *state;          /* "running", "suspended", ... */
	const char *proctrack;      /* "proctrack/cgroup" */
	const char *container_root; /* NULL: the tracker has none */
	uint64_t cont_id;
	pid_t agent_pid;
	uint64_t agent_start_ticks; /* 0: not known */
	int64_t node_id, uid;       /* -1: missing */
};

/* -EBADMSG: it is not an agent's. */
int steps_parse_state(
	struct json_t *doc, struct step_state *ret_state, struct err *err) _must_check_;

/* Reads state.json, or result.json, below dir_fd: a new reference for the caller. The directory may
 * be hostile: a link or a FIFO instead of the file fails. */
int steps_read_state(int dir_fd, struct json_t **ret_doc) _must_check_;
int steps_read_result(int dir_fd, struct json_t **ret_doc) _must_check_;

/* The boot that a state.json belongs to. "" where it can't be read (a container without that file),
 * which equals itself. */
#define STEPS_BOOT_ID_SIZE 64
void steps_read_boot_id(char boot_id[STEPS_BOOT_ID_SIZE]);

/* The pids of state.json's tasks that live: of this boot, and started when the agent forked them,
 * so that no later process of that pid is taken for one. The caller frees *ret_pids. 0 or -ENOMEM.
 */
int steps_list_living(const struct json_t *doc, pid_t **ret_pids, int *ret_count) _must_check_;

/* Whether an agent holds the lock below dir_fd: 1, or 0. -EACCES: only its user and root can read
 * that.
 */
int steps_is_locked(int dir_fd) _must_check_;

/* Calls visit for each directory below the runtime directory that could be a step's, until it
 * returns other than 0, which is returned. path is absolute; both are borrowed for the call. */
typedef int (*steps_dir_fn)(int dir_fd, const char *path, void *userdata);
int steps_each_dir(
	const char *runtime_dir, steps_dir_fn visit, void *userdata, struct err *err) _must_check_;

/* Whether an agent holds the lock of that directory; for another user, whether a lock exists. */
bool steps_agent_lives(int dir_fd);

/* Calls found for each step of this node, until it returns other than 0, which is returned. No
 * runtime directory: no steps. Unreadable ones are skipped. */
typedef int (*steps_found_fn)(const struct step_entry *entry, void *userdata);
int steps_each(const char *runtime_dir, steps_found_fn found, void *userdata,
	struct err *err) _must_check_;

/* The same for the step of that directory; nothing, and 0, if its state can't be read. */
int steps_show(int dir_fd, steps_found_fn found, void *userdata) _must_check_;

#endif
