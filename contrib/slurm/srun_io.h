/* SPDX-License-Identifier: BSD-3-Clause
 *
 * srun's connection for the streams of a step's tasks on this node, 22.05: made by this side, which
 * proves itself by the signature of the job's credential. Then both send messages:
 *
 *	u16 type, rank of the step, index on the node; u32 length, at most 1024; so many bytes
 *	type 0 stdin of a rank, 1 stdout, 2 stderr, 3 stdin of all, 4 a test, which is answered
 *	a message of no bytes is the end of the stream; each stream has exactly one
 *
 * Output goes out by whole lines as far as they fit. What srun does not take stops the tasks, as a
 * pipe would, and what a task does not read stops srun: 64 KiB of each stream are held here, and
 * 256 KiB for srun. What srun sends is not trusted: another type, a longer message, or a rank that
 * is not here, ends the connection, and input for all.
 */
#ifndef SLURM_SRUN_IO_H
#define SLURM_SRUN_IO_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "contrib/slurm/fifos.h"

struct ev_loop;
struct srun_io;

#define SRUN_IO_TASKS_MAX 65535u

struct srun_io_options {
	struct ev_loop *loop;
	struct sockaddr_in address;
	uint16_t version; /* srun's */
	uint32_t node_id;
	const void *key; /* the signature; borrowed until connected() */
	size_t key_size;
	const struct fifos *fifos; /* borrowed */
	uid_t uid;
	uint32_t ntasks;       /* on this node, at most SRUN_IO_TASKS_MAX */
	const uint32_t *ranks; /* borrowed */
	bool uses[FIFO_KIND_MAX];
	bool notes_later; /* notes come until srun_io_finish() */

	/* Once: 0, or -errno and there is no connection. */
	void (*connected)(int r, void *userdata);
	/* Once, after srun_io_finish(): srun has all, or is gone. Not to be closed in it. */
	void (*finished)(void *userdata);
	void *userdata;
};

/* Makes the FIFOs that are used, and begins to connect. Nothing is called before it returns. */
int srun_io_open(const struct srun_io_options *options, struct srun_io **ret_io,
	struct err *err) _must_check_;

/* Puts a line, with its newline, into the standard error of the node's first task. False: that
 * is not srun's, or srun has gone. */
bool srun_io_note(struct srun_io *io, const char *text);

/* No task writes any more: carries what they have written, and ends each stream that has not
 * ended. */
void srun_io_finish(struct srun_io *io);

/* NULL is fine. Returns NULL. */
struct srun_io *srun_io_close(struct srun_io *io);
DEFINE_CLEANUP(struct srun_io *, srun_io_close);

#endif
