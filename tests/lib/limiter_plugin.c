/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proctrack/limiter: tracks nothing, and writes the limits that it gets to the file
 * $LIMITER_LOG, a line a call. Limits whose bits are in $LIMITER_REFUSES it refuses: a kernel that
 * refuses just these is not to be had.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "stepd/api/proctrack.h"

const char plugin_type[] = "proctrack/limiter";
const char plugin_name[] = "writes down limits";
const uint32_t plugin_version = STEPD_API_VERSION;

int init(void)
{
	return SLURM_SUCCESS;
}

void fini(void)
{
}

int proctrack_p_create(stepd_step_rec_t *job)
{
	job->cont_id = 1;
	return SLURM_SUCCESS;
}

int proctrack_p_add(stepd_step_rec_t *job, pid_t pid)
{
	(void)job;
	(void)pid;
	return SLURM_SUCCESS;
}

int proctrack_p_signal(uint64_t id, int sig)
{
	(void)id;
	(void)sig;
	errno = ESRCH;
	return SLURM_ERROR;
}

int proctrack_p_destroy(uint64_t id)
{
	(void)id;
	return SLURM_SUCCESS;
}

uint64_t proctrack_p_find(pid_t pid)
{
	(void)pid;
	return 0;
}

uint32_t proctrack_p_get_pids(uint64_t id, pid_t **pids, int *npids)
{
	(void)id;
	*pids = NULL;
	*npids = 0;
	return SLURM_SUCCESS;
}

static void write_lists(FILE *f, const stepd_limits_t *limits)
{
	size_t i;

	if (limits->set & 1u << STEPD_LIMIT_CPUSET_CPUS)
		fprintf(f, " '%s'", limits->cpuset_cpus);
	if (limits->set & 1u << STEPD_LIMIT_CPUSET_MEMS)
		fprintf(f, " '%s'", limits->cpuset_mems);
	for (i = 0; limits->set & 1u << STEPD_LIMIT_IO_MAX && i < limits->io_count; i++)
		fprintf(f, " %u:%u %lld", limits->io[i].major, limits->io[i].minor,
			(long long)limits->io[i].read_bytes_per_sec);
	for (i = 0; limits->set & 1u << STEPD_LIMIT_DEVICES && i < limits->devices_count; i++)
		fprintf(f, " %c%d:%d/%u", limits->devices[i].type, (int)limits->devices[i].major,
			(int)limits->devices[i].minor, limits->devices[i].access);
}

int proctrack_p_set_limits(
	uint64_t id, const uint32_t *rank, const stepd_limits_t *limits, char *text, size_t size)
{
	const char *log = getenv("LIMITER_LOG"), *refuses = getenv("LIMITER_REFUSES");
	FILE *f = fopen(log ? log : "/dev/null", "a");
	int i;

	if (!f)
		return SLURM_ERROR;
	fprintf(f, "%d:", rank ? (int)*rank : -1);
	for (i = 0; i < STEPD_LIMIT_COUNT; i++) {
		if (limits->set & 1u << i)
			fprintf(f, " %d=%lld", i, (long long)limits->number[i]);
	}
	write_lists(f, limits);
	fprintf(f, " of %d\n", (int)id);
	if (fclose(f) != 0)
		return SLURM_ERROR;
	if (!refuses || !(limits->set & (unsigned)strtoul(refuses, NULL, 0)))
		return SLURM_SUCCESS;
	(void)snprintf(text, size, "this kernel has no such file");
	errno = EOPNOTSUPP;
	return SLURM_ERROR;
}
