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
 * O_CLOEXEC, and sets every signal to its default disposition, for the tasks. A SIGHUP that the
 * caller ignored (nohup) gets a handler that does nothing for the agent, which an exec resets.
 * Other signals that would end an agent without its step get the same, SIGPIPE and SIGXFSZ too:
 * writes fail instead. SIGTTIN and SIGTTOU are blocked, so that a terminal gives EIO. */
int process_prepare(struct err *err) _must_check_;

/* Closes the descriptors above 2 that the caller left open, except those in retained (-1: none),
 * before the agent opens its own: a task could reopen them before its exec, past the permissions
 * of their paths. */
void process_close_inherited(const int *retained, size_t retained_count);

/* Blocks signals for good and returns a non-blocking descriptor that reports them. A SIGHUP that
 * the caller ignored stays ignored. -errno: nothing is blocked. */
int process_watch_signals(const int *signals, size_t signals_count, struct err *err) _must_check_;

/* The same for SIGCHLD, SIGWINCH and the signals that end, suspend, resume or upgrade a step: from
 * here on none of them can end the agent before it has cleaned up. */
int process_catch_signals(struct err *err) _must_check_;

/* Whether the caller ignored SIGHUP. */
bool process_ignores_hup(void);

/* Instead of process_prepare() and process_catch_signals(), for a program that an agent has
 * executed: all signals were blocked before the exec, and those that came meanwhile are
 * reported by the descriptor. */
int process_continue(bool ignore_hup, struct err *err) _must_check_;

/* Gives every signal its default disposition, those that the C library hides included. */
void process_default_signals(void);

/* Starts a child that executes a program: execute() runs in it, with every signal at its default
 * and none blocked, and returns only on failure, with -errno. 0 once the program has been
 * executed; on -errno no child is left. */
int process_execute(
	int (*execute)(void *userdata), void *userdata, struct pidref *ret_process) _must_check_;

/* The agent's own settings, and those to be restored for tasks. */
struct process_saved {
	struct rlimit nofile;   /* before it was raised */
	char oom_score_adj[16]; /* for tasks; "" to leave it */
};

/* Whether a user may trace a process of root's once it has become that user, as fs.suid_dumpable 1
 * has it (it is 0, or 2), and with it all that shares its memory. Unknown: yes. */
bool process_is_exposed(void);

/* Whether this process has a controlling terminal. */
bool process_has_terminal(void);

/* Leaves the session that it was started in, unless that has a terminal: the kernel lets
 * processes of any user send SIGCONT within a session, and groups processes by session when it
 * schedules them. A process group's leader can't leave: it stays, as with a terminal. */
void process_leave_session(void);

/* Becomes a child subreaper, leaves its session (above), raises its descriptor limit, and
 * protects itself from the OOM killer if permitted. */
int process_become_agent(struct process_saved *ret_saved, struct err *err) _must_check_;

/* A terminal as standard output or error is usually open for reading, too: reopens it for writing
 * only, for the agent and the tasks that share it. Another user's tasks must not read what is
 * typed for the agent's user. Does nothing for tasks of the agent's own user. */
int process_narrow_terminals(const struct identity *id, struct err *err) _must_check_;

/* An empty session keyring for the tasks: another user's tasks must not hold the agent's keyring.
 * Does nothing on a kernel without keyrings. */
int process_new_keyring(const struct identity *id, struct err *err) _must_check_;

/* ---- descriptors beside the standard ones -------------------------------------------------- */

/* Descriptors beside the standard ones. O_NONBLOCK belongs to an open file, which the agent's 0,
 * 1 and 2 share with the process that started it: it is set only on an open file of our own. */

/* Whether fd (0, 1 or 2) is the descriptor that this process was started with. False if it was
 * closed, and if one of our own (O_CLOEXEC) descriptors has taken the number since. */
bool stdfd_inherited(int fd);

/* Takes fd and returns it, or a copy of it above 2 where it is 0, 1 or 2, so that a child's
 * dup2() to those can't overwrite it. -errno: fd is closed. */
int stdfd_move_above(int fd) _must_check_;

/* A pipe, both ends above 2 and O_CLOEXEC; ours (ends[0] if we_read) does not block. */
int stdfd_pipe(bool we_read, int ret_ends[2]) _must_check_;

int stdfd_set_nonblock(int fd, bool on) _must_check_;

/* Reopens the FIFO, pipe or terminal behind fd, non-blocking, for O_RDONLY or O_WRONLY. -errno
 * for another kind of file, another user's, or where the other end is closed. */
int stdfd_reopen(int fd, int access) _must_check_;

#endif
