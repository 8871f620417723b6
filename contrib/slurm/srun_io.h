/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The streams of a step's tasks on this node, carried between the tasks' FIFOs or terminals and
 * srun, io_client.h, and to and from those that sattach has attached.
 *
 * Output goes out by whole lines as far as they fit, or as it comes where it is unbuffered. What
 * srun does not take stops the tasks, as a pipe would, and what a task does not read stops srun: 64
 * KiB of each stream are held here, and 256 KiB for srun. The same holds for each one attached, but
 * one that takes nothing for a while, patience_s, though others wait for it, is given up. It gets
 * the last 128 messages first, and may send input as srun does. An end of input that it sends is
 * the tasks', too.
 *
 * A rank that is not here ends the connection. Without srun input ends for all.
 */
#ifndef SLURM_SRUN_IO_H
#define SLURM_SRUN_IO_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "contrib/slurm/fifos.h"
#include "contrib/slurm/io_client.h"

struct ev_loop;
struct srun_io;

#define SRUN_IO_TASKS_MAX 65535u

struct srun_io_options {
	struct ev_loop *loop;
	struct sockaddr_in address;
	uint16_t version;                 /* srun's */
	uint32_t node_id, attach_node_id; /* to srun, and to an sattach */
	const void *key;                  /* the signature; borrowed until connected() */
	size_t key_size;
	const struct fifos *fifos; /* borrowed */
	uid_t uid;
	uint32_t ntasks;       /* on this node, at most SRUN_IO_TASKS_MAX */
	const uint32_t *ranks; /* borrowed */
	bool uses[FIFO_KIND_MAX];
	bool one_input; /* standard input is for the task of input_rank alone */
	uint32_t input_rank;
	bool unbuffered;
	/* In place of all these streams: this process's end of the terminal of rank 0, which is on
	 * this node; borrowed. -1: it has none. */
	int terminal_fd;
	double patience_s; /* with an sattach */
	bool notes_later;  /* notes come until srun_io_finish() */

	/* Once: 0, or -errno and there is no connection. */
	void (*connected)(int r, void *userdata);
	/* Once, after srun_io_finish(): srun has all, or is gone. Not to be closed in it. */
	void (*finished)(void *userdata);
	/* An sattach has gone before the tasks' streams have ended. */
	void (*detached)(unsigned id, void *userdata);
	void *userdata;
};

/* Makes the FIFOs that are used, or pseudo-terminals in place of those of unbuffered output, and
 * begins to connect. Nothing is called before it returns. */
int srun_io_open(const struct srun_io_options *options, struct srun_io **ret_io,
	struct err *err) _must_check_;

#define SRUN_IO_ATTACHED_MAX 32

struct srun_io_attach {
	unsigned id;
	struct sockaddr_in address;
	uint16_t version; /* sattach's */
	const void *key;  /* its own, by which it knows this side; copied */
	uint32_t key_size;
};

/* Begins to connect to an sattach. Whether that succeeds is its own concern. -EUSERS: too many. */
int srun_io_attach(
	struct srun_io *io, const struct srun_io_attach *attach, struct err *err) _must_check_;

/* The tasks have their ends, and the agent reads the terminal: input may come. */
void srun_io_start(struct srun_io *io);

/* Puts a line, with its newline, into the standard error of the node's first task, or its
 * terminal. False: that is not srun's, or srun has gone. */
bool srun_io_note(struct srun_io *io, const char *text);

/* No task writes any more: carries what they have written, and ends each stream that has not
 * ended. */
void srun_io_finish(struct srun_io *io);

/* NULL is fine. Returns NULL. */
struct srun_io *srun_io_close(struct srun_io *io);
DEFINE_CLEANUP(struct srun_io *, srun_io_close);

#endif
