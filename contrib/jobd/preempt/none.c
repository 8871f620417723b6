/* SPDX-License-Identifier: BSD-3-Clause
 *
 * preempt/none: no job is preempted.
 */
#include "stepd/api/preempt.h"

const char plugin_type[] = "preempt/none";
const char plugin_name[] = "no preemption";
const uint32_t plugin_version = STEPD_API_VERSION;

int init(void)
{
	return SLURM_SUCCESS;
}

void fini(void)
{
}

bool preempt_p_preemptable(const job_record_t *preemptee, const job_record_t *preemptor)
{
	(void)preemptee;
	(void)preemptor;
	return false;
}

uint16_t preempt_p_get_mode(const job_record_t *job_ptr)
{
	(void)job_ptr;
	return PREEMPT_MODE_OFF;
}

uint32_t preempt_p_get_prio(const job_record_t *job_ptr)
{
	(void)job_ptr;
	return 0;
}

uint32_t preempt_p_get_grace_time(const job_record_t *job_ptr)
{
	(void)job_ptr;
	return 0;
}
