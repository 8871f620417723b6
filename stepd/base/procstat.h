/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The one parser of /proc/PID/stat, proc_pid_stat(5). The command name stands between the first
 * '(' and the last ')' and may hold anything a process gives itself: spaces, parentheses,
 * newlines. Fields are counted from behind the last ')'.
 */
#ifndef STEPD_BASE_PROCSTAT_H
#define STEPD_BASE_PROCSTAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/cleanup.h"

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
	uint64_t exit_code; /* as wait(2) has it, from when it is to end on (seen with 6.18; before
			     * that once it is a zombie); 0 without the right to trace it */
};

/* 0, or -EBADMSG where text is no such line; it needs no NUL. *ret_stat is set on success only. */
int procstat_parse(const char *text, size_t size, struct procstat *ret_stat) _must_check_;

/* Whether any of its threads runs on. A process whose first thread alone has ended shows as a
 * zombie, with its threads still counted. */
bool procstat_is_living(const struct procstat *st);

/* Reads /proc/PID/stat: 0, -ESRCH if there is no such process, else -errno. */
int procstat_read(pid_t pid, struct procstat *ret_stat) _must_check_;

/* The same below a descriptor of /proc, for scans. */
int procstat_read_at(int proc_fd, pid_t pid, struct procstat *ret_stat) _must_check_;

/* One line for an operator: "pid 71 (sleep) state D in nfs_wait" into text. */
void procstat_describe(pid_t pid, char *text, size_t size);

#endif
