/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the agent does to its own process before it starts a step, and what of that its tasks must
 * not inherit.
 */
#ifndef STEPD_PROCESS_PROCESS_H
#define STEPD_PROCESS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"

struct identity;
struct pidref;

/* At the start of main: opens /dev/null where 0, 1 or 2 is closed, marks all other descriptors
 * O_CLOEXEC, and gives every signal the disposition that a task shall have: default. A caller's
 * wish to ignore SIGHUP (nohup) holds for the agent by a handler that does nothing, which an exec
 * resets. What else would end an agent and leave its step alone gets the same, SIGPIPE and SIGXFSZ
 * too: writes fail instead. SIGTTIN and SIGTTOU are blocked,
 * so that a terminal gives EIO. */
int process_prepare(struct err *err) _must_check_;

/* Closes what the caller left open above 2, but for those in retained (-1: none), once those
 * are known and before the agent opens its own: a task could open them anew before its exec, past
 * the permissions of their paths. */
void process_close_inherited(const int *retained, size_t retained_count);

/* Blocks signals for good and returns a non-blocking descriptor that reports them. A SIGHUP that
 * the caller ignores stays so. -errno: nothing is blocked. */
int process_watch_signals(const int *signals, size_t signals_count, struct err *err) _must_check_;

/* The same for SIGCHLD and the signals that end, suspend, resume or upgrade a step: from here on
 * none of them can end the agent with something left behind. */
int process_catch_signals(struct err *err) _must_check_;

/* Whether the caller wanted SIGHUP to be ignored. */
bool process_ignores_hup(void);

/* Instead of process_prepare() and process_catch_signals(), for a program that an agent has
 * executed: all signals were blocked before the exec, and those that came meanwhile are
 * reported by the descriptor. */
int process_continue(bool ignore_hup, struct err *err) _must_check_;

/* Gives every signal its default disposition, those that the C library hides included. */
void process_default_signals(void);

/* Starts a child that executes a program: execute() runs in it, with every signal at its default
 * and none blocked, and returns only on failure, with -errno. 0 once the program has been executed;
 * else -errno, and there is no child. */
int process_execute(
	int (*execute)(void *userdata), void *userdata, struct pidref *ret_process) _must_check_;

/* The agent's own standing, and what to give tasks back. */
struct process_saved {
	struct rlimit nofile;   /* before it was raised */
	char oom_score_adj[16]; /* what tasks shall have; "" to leave it */
};

/* Whether a user may trace a process of root's once it has become that user, as fs.suid_dumpable 1
 * has it (it is 0, or 2), and with it all that shares its memory. Unknown: yes. */
bool process_is_exposed(void);

/* Whether this process has a controlling terminal. */
bool process_has_terminal(void);

/* Leaves the session that it was started in, unless that has a terminal: the kernel lets processes
 * of any user send SIGCONT within a session, and shares the processors out by sessions. A leader of
 * a process group has to stay: nothing is done then, nor where there is a terminal. */
void process_leave_session(void);

/* Becomes a child subreaper, leaves its session (above), raises its descriptor limit, protects
 * itself from the OOM killer where it may. */
int process_become_agent(struct process_saved *ret_saved, struct err *err) _must_check_;

/* Where the standard output or error is a terminal, which is open for reading, too, most times:
 * opens it anew for writing alone, for the agent and for tasks that have it. Another user's
 * must not read what is typed for the agent's. Does nothing for the agent's own user. */
int process_narrow_terminals(const struct identity *id, struct err *err) _must_check_;

/* A session keyring for the tasks, theirs and empty: those of another user must not hold the
 * agent's. A kernel without keyrings needs none. */
int process_new_keyring(const struct identity *id, struct err *err) _must_check_;

/* ---- descriptors beside the standard ones -------------------------------------------------- */

/* Descriptors beside the standard ones. O_NONBLOCK belongs to an open file, which the agent's 0, 1
 * and 2 share with the process that started it: it is never set there, but on an open file of our
 * own. */

/* What this process was started with as 0, 1 or 2. False where it was closed, and where one of our
 * own (O_CLOEXEC) descriptors has taken the number since. */
bool stdfd_inherited(int fd);

/* Takes fd and gives it, or its copy where it is one of 0, 1 and 2, so that a child's dup2() to
 * those can't overwrite it. -errno: fd is closed. */
int stdfd_move_above(int fd) _must_check_;

/* A pipe, both ends above 2 and O_CLOEXEC; ours (ends[0] if we_read) does not block. */
int stdfd_pipe(bool we_read, int ret_ends[2]) _must_check_;

int stdfd_set_nonblock(int fd, bool on) _must_check_;

/* Opens the FIFO, pipe or terminal behind fd once more, not blocking, for O_RDONLY or O_WRONLY.
 * -errno where that can't be: another kind, another user's, or the other end is closed. */
int stdfd_reopen(int fd, int access) _must_check_;

#endif
