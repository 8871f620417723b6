/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The host of a preempt plugin: loads it, and makes from its replies the list of jobs that a
 * pending job may preempt, in the order in which they are considered.
 */
#ifndef JOBD_PREEMPT_HOST_H
#define JOBD_PREEMPT_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/api/preempt.h"
#include "stepd/base/err.h"

struct plugin_kind;
struct preempt;

const struct plugin_kind *preempt_plugin_kind(void);

/* name: "partition_prio". */
int preempt_open(const char *plugin_dir, const char *name, struct preempt **ret_preempt,
	struct err *err) _must_check_;

/* NULL is fine. Returns NULL. */
struct preempt *preempt_close(struct preempt *p);

const char *preempt_get_type(const struct preempt *p); /* "preempt/partition_prio" */

/* Whether the job may preempt the other one, wherever and whenever they run. */
bool preempt_is_allowed(
	const struct preempt *p, const job_record_t *other, const job_record_t *job);

/* The mode of a job's preemption, and its grace time in seconds. */
uint16_t preempt_get_mode(const struct preempt *p, const job_record_t *job);
uint32_t preempt_get_grace_time(const struct preempt *p, const job_record_t *job);

/* The time from which a job can be preempted (PreemptEligibleTime): its start plus the exempt time
 * of its QOS, its partition or the cluster. */
time_t preempt_get_eligible_time(const job_record_t *job, uint32_t cluster_exempt_time_s);

struct preempt_order {
	uint32_t exempt_time_s; /* the cluster's */
	bool youngest_first;    /* the job that started last first, instead of the plugin's order */
};

/* The next end of an exempt time of a job that would be a candidate without it; 0: none. */
time_t preempt_find_next_eligible(const struct preempt *p, const job_record_t *job,
	const struct preempt_order *order, time_t now);

/* Jobs of job_list that the pending job may preempt on nodes of its partition, those first that are
 * preempted first. The caller destroys the list; NULL: there are none. */
List preempt_find_candidates(const struct preempt *p, const job_record_t *job,
	const struct preempt_order *order, time_t now);

#endif
