/* SPDX-License-Identifier: BSD-3-Clause
 *
 * select/cray_aries: select/linear, which is compiled in, chooses the nodes; a job begins and ends
 * with the site's programs (programs.h). If a begin program fails, or takes too long, the job is
 * queued again; if an end program does, the nodes are drained. Both are reported on stderr, jobd's
 * log.
 */
#include <errno.h>
#include <stdio.h>

#include "contrib/jobd/select/cray_aries/programs.h"
#include "contrib/jobd/select/use.h"

const char plugin_type[] = "select/cray_aries";
const char plugin_name[] = "whole nodes on a line, with programs for begin and end";
const uint32_t plugin_version = STEPD_API_VERSION;

static int report(const struct err *err)
{
	(void)fprintf(stderr, "%s: %s\n", plugin_type, err->text);
	errno = -err->code;
	return SLURM_ERROR;
}

static int get_cleaning(const select_jobinfo_t *info, uint16_t *ret_cleaning)
{
	struct err err = ERR_INIT;
	int r = programs_poll_end(info->job_id, &err);

	*ret_cleaning = r == 0;
	return r < 0 ? report(&err) : SLURM_SUCCESS;
}

int init(void)
{
	struct err err = ERR_INIT;

	use_get_cleaning = get_cleaning;
	return programs_open(&err) < 0 ? report(&err) : SLURM_SUCCESS;
}

void fini(void)
{
	programs_close();
	use_clear(&use_now);
}

int select_p_job_begin(job_record_t *job)
{
	struct err err = ERR_INIT;

	if (use_begin_job(job) != SLURM_SUCCESS)
		return SLURM_ERROR;
	if (programs_begin(job, &err) == 0)
		return SLURM_SUCCESS;
	(void)use_end_job(job);
	return report(&err);
}

int select_p_job_ready(job_record_t *job)
{
	struct err err = ERR_INIT;
	int r = programs_poll_begin(job, &err);

	return r < 0 ? report(&err) : r;
}

int select_p_job_fini(job_record_t *job)
{
	struct err err = ERR_INIT;

	(void)use_end_job(job); /* never fails */
	return programs_end(job, &err) < 0 ? report(&err) : SLURM_SUCCESS;
}
