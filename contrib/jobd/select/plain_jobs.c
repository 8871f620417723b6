/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The begin and the end of jobs, for plugins that only count their resources.
 */
#include "contrib/jobd/select/use.h"

int select_p_job_begin(job_record_t *job)
{
	return use_begin_job(job);
}

int select_p_job_ready(job_record_t *job)
{
	(void)job;
	return 1;
}

int select_p_job_fini(job_record_t *job)
{
	return use_end_job(job);
}
