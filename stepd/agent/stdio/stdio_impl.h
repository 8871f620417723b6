/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tasks' streams, for stdio.c, which gives them to the tasks, and stdio_tools.c, which lets
 * tools in. Nobody else looks inside.
 */
#ifndef STEPD_AGENT_STDIO_IMPL_H
#define STEPD_AGENT_STDIO_IMPL_H

#include "stepd/agent/stdio/note.h"
#include "stepd/agent/stdio/stdio.h"
#include "stepd/agent/stdio/stdio_files.h"

struct copy;
struct feed;
struct toolin;
struct pump;
struct pump_dest;

/* What the tasks have in common of stdout or stderr. */
struct shared {
	bool as_stdout;         /* stderr: everything as stdout */
	bool per_task;          /* a file by a pattern with %t */
	char *name;             /* expanded, of a file that all share */
	int fd;                 /* tasks write straight here: the agent's own, or owned */
	int owned_fd;           /* a file that all share, until stdio_start(); or -1 */
	struct pump_dest *dest; /* or through the pump; NULL with per_task */
};

/* What a task has in the agent: ends to close once it is forked, paths for all its life. */
struct ends {
	uint32_t rank;
	int fd[3];
	char *path[3];
};

struct stdio {
	const struct spec *spec;
	struct stdio_files files;
	const struct log *log;
	struct ev_loop *loop;
	int null_fd;
	struct pump *pump;    /* with labels, or raw where tools may have copies */
	struct copy *copy;    /* what the pump carries, for tools; NULL: without a pump */
	struct feed *feed;    /* where the agent hands out its stdin */
	struct toolin *input; /* where stdin comes from tools */
	unsigned join_copy;   /* streams of tasks that join which are copied from the first byte */
	struct shared shared[3];
	struct ends *ends; /* by local id */
	uint32_t ends_count;
	bool started; /* stdio_start() */
	struct note note;
	stdio_done_fn done;
	void *userdata;
};

/* ---- stdio_tools.c --------------------------------------------------------------------------- */

int stdio_tools_open(struct stdio *io) _must_check_;
void stdio_tools_save(const struct stdio *io, struct handover *h, struct json_t *object);
int stdio_tools_restore(
	struct stdio *io, const struct handover *h, const struct json_t *object) _must_check_;
void stdio_tools_free(struct stdio *io);

#endif
