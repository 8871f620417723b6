/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tasks' streams, for stdio.c, which has their life, and streams.c, which opens them.
 */
#ifndef STEPD_STDIO_STDIO_IMPL_H
#define STEPD_STDIO_STDIO_IMPL_H

#include "stepd/stdio/pty.h"
#include "stepd/stdio/stdio.h"

struct attach;
struct copy;
struct hold;
struct stdin_writer;
struct toolin;
struct pump;
struct pump_dest;
struct sink;
struct tally;
struct transfer;

/* The files' owner and directory. */
struct stdio_files {
	const struct spec *spec;
	const struct identity *id;
	char *cwd; /* of the step; NULL: the agent's */
	mode_t mask;
};

/* The tasks' common part of stdout or stderr. */
struct shared {
	bool as_stdout;         /* stderr: the same as stdout */
	bool per_task;          /* a file by a pattern with %t */
	char *name;             /* expanded, of a shared file */
	int fd;                 /* tasks write directly to it: the agent's own, or owned */
	int owned_fd;           /* a shared file, until stdio_start(); or -1 */
	struct pump_dest *dest; /* or through the pump; NULL with per_task */
	bool on_terminal;       /* fd is the agent's terminal, which tasks may read */
};

/* The agent's part of a task's streams: ends to close once it is forked, paths for its lifetime. */
struct ends {
	uint32_t rank;
	int fd[3];
	char *path[3];
};

enum note_kind {
	NOTE_NONE,     /* not known yet */
	NOTE_NULL,     /* /dev/null */
	NOTE_PER_TASK, /* a file for each task */
	NOTE_FIFO,     /* or the like, which the agent must not hold open */
	NOTE_FD,
	NOTE_DEST, /* with the tasks' lines */
	NOTE_KIND_MAX,
};

/* The destination of the agent's own lines. */
struct note {
	enum note_kind kind;
	int fd;   /* of NOTE_FD */
	bool own; /* owned */
	struct pump_dest *dest;
	struct sink *sink; /* to fd, once it is needed */
};

struct stdio {
	const struct spec *spec;
	struct stdio_files files;
	const struct log *log;
	struct ev_loop *loop;
	int null_fd;
	struct pump *pump;           /* with labels, or raw where tools may have copies */
	struct copy *copy;           /* the pump's bytes, for tools; NULL: without a pump */
	struct stdin_writer *writer; /* if the agent copies its stdin to tasks, or types */
	uint64_t input_dropped;      /* by a writer that has ended */
	struct toolin *input;        /* if stdin comes from tools */
	struct attach *attach;       /* clients; NULL: there can be none */
	unsigned join_copy;          /* streams of joining tasks to copy from the first byte */
	struct shared shared[3];
	struct ends *ends; /* by local id */
	uint32_t ends_count;
	struct transfer *transfer; /* while the launcher makes the tasks' pipes */
	bool started;              /* stdio_start() */
	struct note note;
	uint32_t ptys;            /* tasks here with a pseudo-terminal for a person */
	struct terminal terminal; /* the agent's, in a step with such tasks */
	bool types;               /* what is typed there is for them */
	struct hold *hold;        /* for an adopter; NULL: none */
	struct tally *tally;      /* likewise */
	bool lost;                /* bytes that a dead agent had read */
	stdio_done_fn done;
	void *userdata;
};

/* ---- streams.c ----------------------------------------------------------------------------- */

bool stdio_is_dev_null(int fd);

/* Whether output passes through the agent also where it goes nowhere. */
bool stdio_carries_all(const struct stdio *io);

/* Whether the tasks' standard input comes from tools or attached clients, a pipe each. */
bool stdio_is_fed(const struct spec *spec);

int stdio_share(struct stdio *io, struct err *err) _must_check_;
/* The streams that had been closed meanwhile. */
int stdio_share_again(struct stdio *io, struct err *err) _must_check_;
/* What is done for tasks that read their input slowly. */
struct stdin_overflow;
void stdio_input_overflow(const struct stdio *io, struct stdin_overflow *ret_overflow);
/* After the pump, which has the destinations. */
int stdio_share_restore(
	struct stdio *io, const struct json_t *object, struct err *err) _must_check_;

/* Clients may type to the rank's pseudo-terminal. 0 or -ENOMEM. */
int stdio_attach_terminal(struct stdio *io, uint32_t rank) _must_check_;

void stdio_ends_free(struct ends *ends);

/* Begins to carry the bytes of stream i of a task, which fd is the agent's end of; the streams own
 * fd from the call on, on failure too. */
int stdio_end_take(
	struct stdio *io, uint32_t local_id, int i, int fd, struct err *err) _must_check_;

/* Reports that the agent could not get that end. Returns r. */
int stdio_end_error(const struct stdio *io, uint32_t local_id, int i, int r, struct err *err);

/* ---- transfer.c ---------------------------------------------------------------------------- */

/* Whether this process is the launcher, whose ends are for the agent. */
bool stdio_transfer_sends(const struct stdio *io);

/* fd as for stdio_end_take(), which the agent calls then. May wait for the agent. */
int stdio_transfer_put_take(
	struct stdio *io, uint32_t local_id, int i, int fd, struct err *err) _must_check_;

void stdio_transfer_free(struct stdio *io);

#endif
