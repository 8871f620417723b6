/* SPDX-License-Identifier: BSD-3-Clause
 *
 * preempt/qos: Preempt of a job's QOS names the QOS whose jobs it may preempt; first those of the
 * lowest QOS priority. Jobs without QOS neither preempt nor are preempted.
 */
#include "stepd/api/preempt.h"

const char plugin_type[] = "preempt/qos";
const char plugin_name[] = "by the QOS of the jobs";
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
	const qos_record_t *low = preemptee->qos_ptr, *high = preemptor->qos_ptr;

	return low && high && high->preempt_bitstr && bit_test(high->preempt_bitstr, low->id) &&
		preempt_p_get_mode(preemptee) != PREEMPT_MODE_OFF;
}

uint16_t preempt_p_get_mode(const job_record_t *job_ptr)
{
	uint16_t mode = job_ptr->qos_ptr ? job_ptr->qos_ptr->preempt_mode : PREEMPT_MODE_OFF;

	if (mode == NO_VAL16)
		mode = slurm_conf.preempt_mode;
	return mode & (uint16_t)~PREEMPT_MODE_GANG;
}

uint32_t preempt_p_get_prio(const job_record_t *job_ptr)
{
	return job_ptr->qos_ptr ? job_ptr->qos_ptr->priority : 0;
}

uint32_t preempt_p_get_grace_time(const job_record_t *job_ptr)
{
	return job_ptr->qos_ptr ? job_ptr->qos_ptr->grace_time : 0;
}
