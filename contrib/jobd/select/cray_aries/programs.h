/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The site's programs for the begin and the end of a job. The file that JOBD_CRAY_CONF names has
 * lines of the syntax of slurm.conf:
 *
 *	begin_program=/usr/sbin/job-begin    run before a job starts; exit status 0: it may start
 *	end_program=/usr/sbin/job-end        run as its end begins; 0: its nodes are free again
 *	time_limit=60                        seconds for each of them, 1 to 3600
 *
 * The file and the programs must belong to root (or to jobd's user) and be writable by nobody else,
 * and so must the directories above. A program gets no argument, the environment SLURM_JOB_ID,
 * SLURM_JOB_UID, SLURM_JOB_GID, SLURM_JOB_PARTITION, SLURM_JOB_NODELIST and PATH, nothing to read,
 * and jobd's stderr for both of its streams. It has a session of its own, which is killed at the
 * time limit. Without JOBD_CRAY_CONF there are no programs. If jobd is
 * killed while an end program runs, the next jobd runs it once more.
 *
 * Nothing here waits: each call polls whether the program has ended. No other part of the
 * process may collect all of its children by waitpid(-1).
 */
#ifndef JOBD_SELECT_CRAY_ARIES_PROGRAMS_H
#define JOBD_SELECT_CRAY_ARIES_PROGRAMS_H

#include "stepd/api/select.h"
#include "stepd/base/err.h"

/* 0, or -errno with a sentence in err. */
int programs_open(struct err *err) _must_check_;

/* Kills programs that still run. */
void programs_close(void);

/* Starts the begin program of a job, if there is one. */
int programs_begin(const job_record_t *job, struct err *err) _must_check_;

/* 1: its begin program has ended well; 0: it runs. -ECANCELED: it has failed; -ETIMEDOUT: it was
 * killed at the time limit. */
int programs_poll_begin(const job_record_t *job, struct err *err) _must_check_;

/* Kills its begin program, if that still runs, and starts the end program. */
int programs_end(const job_record_t *job, struct err *err) _must_check_;

/* The same as programs_poll_begin(), of the end program. */
int programs_poll_end(uint32_t job_id, struct err *err) _must_check_;

#endif
