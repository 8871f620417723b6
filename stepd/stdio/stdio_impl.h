/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tasks' streams, for the files named stdio*.c: stdio.c has their life, stdio_share.c what
 * tasks share, stdio_task.c what each has, stdio_tools.c lets tools in, stdio_save.c hands them
 * over. Nobody else looks inside.
 */
#ifndef STEPD_STDIO_STDIO_IMPL_H
#define STEPD_STDIO_STDIO_IMPL_H

#include "stepd/stdio/note.h"
#include "stepd/stdio/stdio.h"
#include "stepd/stdio/stdio_files.h"

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

/* ---- stdio.c --------------------------------------------------------------------------------- */

int stdio_open_null(struct stdio *io, struct err *err) _must_check_;
/* For the pump: all is carried. */
void stdio_on_pumped(void *userdata);

/* ---- stdio_share.c --------------------------------------------------------------------------- */

bool stdio_is_dev_null(int fd);
int stdio_add_dest(struct stdio *io, int i, int fd, bool own, const char *name,
	struct pump_dest **ret_dest, struct err *err) _must_check_;

int stdio_share(struct stdio *io, struct err *err) _must_check_;
/* What had been closed meanwhile. */
int stdio_share_again(struct stdio *io, struct err *err) _must_check_;
/* Behind the pump, which has the destinations. */
int stdio_share_restore(
	struct stdio *io, const struct json_t *object, struct err *err) _must_check_;

/* ---- stdio_task.c ---------------------------------------------------------------------------- */

void stdio_ends_free(struct ends *ends);

/* ---- stdio_tools.c --------------------------------------------------------------------------- */

int stdio_tools_open(struct stdio *io) _must_check_;
void stdio_tools_save(const struct stdio *io, struct handover *h, struct json_t *object);
int stdio_tools_restore(
	struct stdio *io, const struct handover *h, const struct json_t *object) _must_check_;
void stdio_tools_free(struct stdio *io);

#endif
