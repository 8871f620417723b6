/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The preemption plugin: plugin_type "preempt/...". It decides which running job may be preempted
 * for a pending one, how, and in what order; the host, jobd(8), acts on that.
 * Names and meanings are those of Slurm's "Preemption" guide. All functions are mandatory.
 * Records are the host's, read only, and stay valid during a call; no function may wait.
 */
#ifndef STEPD_API_PREEMPT_H
#define STEPD_API_PREEMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "select.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the preemptor, which is pending, may preempt the other job, which runs or is suspended.
 * The host itself checks the exempt time of a job (PreemptExemptTime), and whether they share nodes
 * at all. */
STEPD_EXPORT bool preempt_p_preemptable(
	const job_record_t *preemptee, const job_record_t *preemptor);

/* The mode of the job's preemption: PREEMPT_MODE_OFF (never), _SUSPEND, _REQUEUE or _CANCEL. */
STEPD_EXPORT uint16_t preempt_p_get_mode(const job_record_t *job_ptr);

/* Jobs with lower numbers are preempted first, and among equal ones those with lower ids. */
STEPD_EXPORT uint32_t preempt_p_get_prio(const job_record_t *job_ptr);

/* Seconds from SIGTERM until the job is ended. */
STEPD_EXPORT uint32_t preempt_p_get_grace_time(const job_record_t *job_ptr);

#ifdef __cplusplus
}
#endif

#endif
