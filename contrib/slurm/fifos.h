/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The ends of the tasks' streams that are srun's: a FIFO each, or a link to a pseudo-terminal, in a
 * directory of the step's own that only root can change. A task opens its own by name, as its user;
 * this process has the other end. So the bytes do not pass through the agent, and outlive it.
 */
#ifndef SLURM_FIFOS_H
#define SLURM_FIFOS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

#define FIFOS_ROOT "/run/stepd-slurmstepd"

enum fifo_kind {
	FIFO_STDIN,
	FIFO_STDOUT,
	FIFO_STDERR,
	FIFO_KIND_MAX,
};

struct fifos {
	char *path; /* of the directory */
	int dir_fd;
	uint32_t first_rank; /* what the agent has for rank 0, which is in the names */
};

#define FIFOS_INIT                                                                                 \
	{                                                                                          \
		.dir_fd = -1                                                                       \
	}

/* name: of the step, unique on this machine. What a dead process has left of that name is removed.
 */
int fifos_open(struct fifos *f, const char *name, struct err *err) _must_check_;

/* Makes the user's FIFO of a rank, and returns this process's end, which does not block: for
 * standard input one that reads, too, so that the task never finds an end before there was a
 * writer. */
int fifos_make(const struct fifos *f, enum fifo_kind kind, uint32_t rank, uid_t uid,
	struct err *err) _must_check_;

/* In place of a rank's FIFO for standard input: there is none. */
int fifos_make_empty(const struct fifos *f, uint32_t rank, struct err *err) _must_check_;

/* A pseudo-terminal's two ends; the master does not block. 0 or -errno. */
int fifos_open_terminal(int *ret_master, int *ret_slave) _must_check_;

/* Makes a pseudo-terminal for a rank's standard output in place of a FIFO: what is written to it
 * passes unchanged. *ret_other is the end that the user opens; held open until the task has it, as
 * reading would fail else. */
int fifos_make_terminal(const struct fifos *f, uint32_t rank, uid_t uid, int *ret_other,
	struct err *err) _must_check_;

/* Another end that only writes, once the task has opened it: -ENXIO where it reads no more. */
int fifos_open_writer(const struct fifos *f, uint32_t rank) _must_check_;

/* The name of all ranks' FIFOs of a kind, as a pattern of stepd-stdio(7): for free(), NULL: no
 * memory. */
char *fifos_pattern(const struct fifos *f, enum fifo_kind kind);

/* The rank of "i7"; false: it is another name. */
bool fifos_parse_input(const struct fifos *f, const char *name, uint32_t *ret_rank);

/* Removes all, whatever has been made. */
void fifos_close(struct fifos *f);

#endif
