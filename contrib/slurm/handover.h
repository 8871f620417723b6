/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Hands a step over to Slurm's own slurmstepd, which is executed in this process: the pid, the
 * session, the reply pipe and all else that slurmd and slurmstepd know of each other stay as they
 * are. A pipe can't take back what was read of it. So slurmstepd reads another one, which a process
 * of its own, the relay, fills: with what was read, and then with what slurmd still writes. The
 * relay ends when slurmd closes its pipe, which it does once it has slurmstepd's answer.
 *
 * The relay also keeps inits: in a directory that only root may enter, since credentials and job
 * environments are in them, with bounds for their number and size. It does so last: no step waits
 * for a disk.
 */
#ifndef SLURM_HANDOVER_H
#define SLURM_HANDOVER_H

#include "contrib/slurm/launch.h"
#include "stepd/base/buffer.h"

#define HANDOVER_RECORDS_MAX      200u
#define HANDOVER_RECORD_SIZE_MAX  (16u << 20) /* a longer init is not kept */
#define HANDOVER_RECORDS_SIZE_MAX (64u << 20) /* of all */

struct handover {
	const char *path;          /* of slurmstepd */
	const struct buffer *init; /* what was read of standard input */
	int record_dir;            /* handover_open_records(); -1: none */
	char record_name[SLURM_LABEL_SIZE + 32];
	const struct log *log;
};

/* The directory, which is made if it is missing: its descriptor, or -EPERM where others than this
 * process's user could get into it. */
int handover_open_records(const char *path, struct err *err) _must_check_;

/* Whether there is no capacity for more records: 0 or 1, or -errno. */
int handover_records_full(int dir) _must_check_;

/* Returns only if it has failed, with the reason in err; slurmd still waits then. */
void handover_exec(const struct handover *h, struct err *err);

/* Reports to slurmd that the step can't be started, and reads what it has still to write, so that
 * it comes to read the answer. */
void handover_refuse(void);

#endif
