/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For unit tests of the tasks' standard streams: what an agent does around struct stdio, with real
 * children, which take their streams as <stepd/stdio/stdio.h> defines. 30 s without an end is a
 * failure.
 */
#ifndef TESTS_LIB_STDIO_RIG_H
#define TESTS_LIB_STDIO_RIG_H

#include <ev.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stepd/base/err.h"
#include "stepd/process/identity.h"
#include "stepd/spec/spec.h"
#include "stepd/stdio/stdio.h"
#include "tests/lib/scratch.h"

struct rig {
	struct spec spec; /* set_up: 1 task, no label, stdin none, stdout and stderr inherited */
	struct identity id;
	struct log log;
	struct ev_loop *loop;
	struct stdio *io;
	struct err err;
	char *dir; /* the step's directory */
	mode_t mask;
	bool in_turn; /* a task begins when the one before it has ended and its output was read */

	uint32_t forked;
	uint32_t running;
	struct rig_task *tasks;
	int done;         /* how often done() was called */
	int std_saved[3]; /* -2: not replaced */
	pid_t readers[8];
	size_t readers_count;
	int fds; /* before stdio_open() */
	ev_timer guard;
	ev_idle idle; /* nothing is to be read: the next one's turn */
	uint32_t turn;
};

/* The program of a task: its streams are set up, its directory is the step's. Returns its exit
 * status. */
typedef int (*rig_body_fn)(uint32_t local_id, void *userdata);

int rig_set_up(void **state);
int rig_tear_down(void **state);

/* ntasks of the step, all here; ranks from 0. */
void rig_layout(struct rig *rig, uint32_t ntasks);

/* Makes fd the agent's 0, 1 or 2 until the test ends, and closes it; -1: closed. */
void rig_std(struct rig *rig, int n, int fd);

/* The agent's n becomes a pipe (or socket) whose reader keeps all in DIR/name. */
void rig_capture(struct rig *rig, int n, const char *name);
void rig_capture_socket(struct rig *rig, int n, const char *name);

/* stdio_open(), which is expected to succeed. */
void rig_open(struct rig *rig);

/* Forks the next task, or all of the step. */
void rig_fork(struct rig *rig, rig_body_fn body, void *userdata);
void rig_fork_all(struct rig *rig, rig_body_fn body, void *userdata);

/* stdio_start(), until all tasks have ended, stdio_finish(), until done. Statuses must be 0. */
void rig_run(struct rig *rig);
void rig_run_tasks(struct rig *rig); /* the first half */
void rig_finish(struct rig *rig);    /* the second half */

/* stdio_free(), and the count of descriptors is that before stdio_open(). */
void rig_free(struct rig *rig);

/* All of a step: rig_open() to rig_free(). */
void rig_step(struct rig *rig, rig_body_fn body, void *userdata);

/* Waits for the captures' readers; 0, 1 and 2 are the program's again. */
void rig_end_captures(struct rig *rig);

/* The file DIR/name, the caller's to free. */
char *rig_file(struct rig *rig, const char *name, size_t *ret_size);
void rig_expect_file(struct rig *rig, const char *name, const char *wanted);

/* How often text stands in the agent's log. */
size_t rig_log_count(struct rig *rig, const char *text);

/* Lines of several kinds, always the same for the same seed: short, empty, with NUL bytes, long.
 * The last one may lack its end. The caller frees. */
char *rig_lines(unsigned seed, size_t least_size, bool partial, size_t *ret_size);

/* A task that writes rig_lines() of its local id to stdout in pieces of any size. */
struct rig_lines_arg {
	size_t least_size;
	bool partial;
};
int rig_write_lines(uint32_t local_id, void *userdata);

#endif
