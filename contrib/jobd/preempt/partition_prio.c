/* SPDX-License-Identifier: BSD-3-Clause
 *
 * preempt/partition_prio: jobs of a partition with a higher PriorityTier preempt those of one with
 * a lower PriorityTier; first those of the lowest tier, and of one tier the smallest.
 */
#include "stepd/api/preempt.h"

const char plugin_type[] = "preempt/partition_prio";
const char plugin_name[] = "by the partition's PriorityTier";
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
	return preemptee->part_ptr->priority_tier < preemptor->part_ptr->priority_tier &&
		preempt_p_get_mode(preemptee) != PREEMPT_MODE_OFF;
}

uint16_t preempt_p_get_mode(const job_record_t *job_ptr)
{
	uint16_t mode = job_ptr->part_ptr->preempt_mode;

	if (mode == NO_VAL16)
		mode = slurm_conf.preempt_mode;
	return mode & (uint16_t)~PREEMPT_MODE_GANG;
}

uint32_t preempt_p_get_prio(const job_record_t *job_ptr)
{
	uint32_t size = job_ptr->node_cnt < UINT16_MAX ? job_ptr->node_cnt : UINT16_MAX;

	return (uint32_t)job_ptr->part_ptr->priority_tier << 16 | size;
}

uint32_t preempt_p_get_grace_time(const job_record_t *job_ptr)
{
	return job_ptr->part_ptr->grace_time;
}
