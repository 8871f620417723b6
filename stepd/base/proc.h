/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Processes: signals by name, how one has ended, what /proc has of it, a hold on it by a pidfd, and
 * children that fork(2) does not make.
 */
#ifndef STEPD_BASE_PROC_H
#define STEPD_BASE_PROC_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/cleanup.h"

/* ---- signals by name ----------------------------------------------------------------------- */

/* As signal(7) has them: "TERM", "SIGTERM", "15", "RTMIN+3", "RTMAX-1". */

/* The number, or -EINVAL. Any case. */
int signals_parse(const char *text);

/* The name without "SIG" into buf, which it returns; a number where there is no name. */
const char *signals_name(int signal, char *buf, size_t size);

#define SIGNALS_NAME_SIZE 16

/* ---- how a task has ended ------------------------------------------------------------------ */

/* How a task ended, and the step's status that results. A wait status is the raw one of wait(2).
 *
 * The step's status is that of the first task, in time, that ended by a signal; with none, the
 * largest exit status. Tasks that ended after its end was requested do not count: they were
 * killed on request. */

/* What stepd itself exits with where the tasks' statuses don't count; stepd(8) has the table. */
enum status_code {
	STATUS_NOT_EXECUTABLE = 126,
	STATUS_NOT_FOUND = 127,
	STATUS_SIGNAL_BASE = 128,
	STATUS_OUTPUT_LOST = 120, /* output of the tasks was lost, and none has failed */
	STATUS_LOST = 121, /* how a task ended was lost with an agent that died, and none is known
			    * to have failed */
	STATUS_OUT_OF_MEMORY = 122, /* oom_kill_step */
	STATUS_UNKILLABLE = 123,
	STATUS_TIME_LIMIT = 124,
	STATUS_FAILED = 125, /* the step could not be started, or the agent failed */
};

struct status {
	bool signalled;
	int code; /* 0 to 255 */
};

/* "exited with status 3", "killed by signal 9 (KILL)", with ", core dumped" where so. */
const char *status_text(int wait_status, char *buf, size_t size);
#define STATUS_TEXT_SIZE 64

/* 128 + signal, or the exit status. */
int status_exit_code(int wait_status);

/* Counts one more ended task, in the order of their ends. */
void status_count(struct status *status, int wait_status);

/* ---- what /proc has of a process ----------------------------------------------------------- */

/* The one parser of /proc/PID/stat, proc_pid_stat(5). The command name stands between the first
 * '(' and the last ')' and may hold anything a process gives itself: spaces, parentheses,
 * newlines. Fields are counted from behind the last ')'. */

struct procstat {
	pid_t pid;
	char comm[64]; /* kernel threads have longer names than tasks' 15 bytes */
	char state;    /* R S D T t Z X I; of the first thread: see procstat_is_living() */
	pid_t ppid;
	pid_t pgrp; /* -1, as the session: it is just being reaped */
	pid_t session;
	int tty; /* device number of the controlling terminal, 0: none */
	int threads;
	uint64_t minflt, majflt;   /* page faults without and with input */
	uint64_t cminflt, cmajflt; /* of the children it waited for, as the next with a c */
	uint64_t utime_ticks;      /* sysconf(_SC_CLK_TCK) a second */
	uint64_t stime_ticks;
	uint64_t cutime_ticks, cstime_ticks;
	uint64_t start_ticks; /* after boot: with the pid, the identity of a process */
	uint64_t rss_pages;
	uint64_t pending;   /* signals of its first thread alone, bit 0 for signal 1; in all threads
			     * SIGKILL, from when it is sent until it is taken */
	uint64_t exit_code; /* as of wait(2), from the beginning of its end on (seen with 6.18;
			       before that once it is a zombie); 0 without permission to trace it */
};

/* 0, or -EBADMSG where text is not such a line; it needs no NUL. *ret_stat is set on success
 * only. */
int procstat_parse(const char *text, size_t size, struct procstat *ret_stat) _must_check_;

/* Whether any of its threads runs on. A process whose first thread alone has ended shows as a
 * zombie, with its threads still counted. */
bool procstat_is_living(const struct procstat *st);

/* Whether a thread of the process runs or waits for a processor: it will come on by itself, however
 * late. One in state D may not for days. */
bool procstat_is_runnable(pid_t pid);

/* Reads /proc/PID/stat: 0, -ESRCH if there is no such process, else -errno. */
int procstat_read(pid_t pid, struct procstat *ret_stat) _must_check_;

/* The same below a descriptor of /proc, for scans. */
int procstat_read_at(int proc_fd, pid_t pid, struct procstat *ret_stat) _must_check_;

/* One line for an operator: "pid 71 (sleep) state D in nfs_wait" into text. */
void procstat_describe(pid_t pid, char *text, size_t size);

/* ---- a process that can't be mistaken for another ------------------------------------------ */

/* A process that can't be mistaken for another: a pid with a pidfd (Linux 5.3), or, for one that
 * was only seen in a list, with its start time. In each state pid names it for people:
 *   unset   pid 0                  nothing
 *   held    pid > 0, fd >= 0       the process, or its zombie, for certain
 *   seen    pid > 0, fd < 0        a process that had this pid and start_ticks when seen */

struct pidref {
	pid_t pid;
	int fd;
	uint64_t start_ticks; /* 0: not known */
};

#define PIDREF_INIT                                                                                \
	{                                                                                          \
		.pid = 0, .fd = -1, .start_ticks = 0                                               \
	}

/* Opens a pidfd for pid, and, if start_ticks is not 0, makes sure that it is the process which
 * started then. -ESRCH: it does not exist, or it is another. */
int pidref_open(pid_t pid, uint64_t start_ticks, struct pidref *ret_ref) _must_check_;

/* Signals a held process: 0, -ESRCH once it is gone, -EINVAL if nothing is held. */
int pidref_signal(const struct pidref *ref, int signal) _must_check_;

/* Signals the process of that pid and start time (0: any): open, check, send, close. */
int pidref_signal_pid(pid_t pid, uint64_t start_ticks, int signal) _must_check_;

void pidref_close(struct pidref *ref);

#define _cleanup_pidref_ _cleanup_(pidref_close)

/* ---- made by clone3 -------------------------------------------------------------------------- */

/* Makes one process for a task: clone3(2), of Linux 5.3, or fork(2) where a kernel or a filter has
 * none. No pidfd comes with it: each child would get a copy of all earlier ones, and close it.
 * Until the agent reaps a child its pid is nobody else's. */

struct clone {
	int cgroup_fd; /* the cgroup to be born in, -1: that of the caller; needs clone3() */
	void *stack;   /* NULL: the child gets a copy of the memory. Else it shares the memory and
			* runs on this stack, of stack_size bytes, both multiples of 16 */
	size_t stack_size;
	bool siblings;      /* the child is the caller's parent's (CLONE_PARENT) */
	bool clone3_absent; /* found out; the caller passes it from one call to the next */
};

/* Calls run(arg) in the child, where it must not return; before that, *cleared is set to whether
 * its signals are reset already. In the parent: 0 and the child's pid, which clone3() writes
 * before the child's first instruction; or -errno, -EOPNOTSUPP where clone3() is needed and
 * missing. */
int clone_child(struct clone *how, void (*run)(void *arg), void *arg, bool *cleared,
	pid_t *ret_pid) _must_check_;

/* A child that stands for a container: a fork of the agent that no wait for any child sees without
 * __WALL, for its exit signal is 0. */

/* Runs in the child, with all signals blocked, so that no handler of the agent's does. */
typedef _noreturn_ void (*hidden_child_fn)(void *userdata);

/* The child's pid, or -errno. The caller closes *ret_pidfd. Needs clone3, of Linux 5.3. */
pid_t hidden_child_start(hidden_child_fn run, void *userdata, int *ret_pidfd) _must_check_;

/* As waitid(2): 0 or -errno. */
int hidden_child_wait(int pidfd, int options, siginfo_t *ret_info) _must_check_;

/* Waits for its end and closes pidfd. */
void hidden_child_reap(int pidfd);

#endif
