/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proctrack/halfway: proctrack/cgroup (the file STEPD_TEST_CGROUP_PLUGIN), but when the container
 * of the task with local id 7 is requested, in the middle of a launch, STEPD_TEST_HALFWAY happens:
 *	kill	the requesting process is killed
 *	parent	its parent is
 *	fail	there is none: ENOSPC
 *	stop	the requesting process stops, with the tasks before this one held
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stepd/api/proctrack.h"

#define LOCAL_ID 7

const char plugin_type[] = "proctrack/halfway";
const char plugin_name[] = "something happens in the middle of a launch";
const uint32_t plugin_version = STEPD_API_VERSION;

static void *cgroup;

/* A function that the file lacks, or has with another type, fails the test at once. */
#define REAL(name) ((__typeof__(&proctrack_p_##name))dlsym(cgroup, "proctrack_p_" #name))

int init(void)
{
	cgroup = dlopen(getenv("STEPD_TEST_CGROUP_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
	return cgroup ? SLURM_SUCCESS : SLURM_ERROR;
}

void fini(void)
{
	(void)dlclose(cgroup);
}

int proctrack_p_create(stepd_step_rec_t *job)
{
	return REAL(create)(job);
}

int proctrack_p_add(stepd_step_rec_t *job, pid_t pid)
{
	return REAL(add)(job, pid);
}

int proctrack_p_signal(uint64_t id, int sig)
{
	return REAL(signal)(id, sig);
}

int proctrack_p_destroy(uint64_t id)
{
	return REAL(destroy)(id);
}

uint64_t proctrack_p_find(pid_t pid)
{
	return REAL(find)(pid);
}

uint32_t proctrack_p_get_pids(uint64_t id, pid_t **pids, int *npids)
{
	return REAL(get_pids)(id, pids, npids);
}

int proctrack_p_clone_fd(const stepd_step_rec_t *job, uint32_t local_id)
{
	const char *what = getenv("STEPD_TEST_HALFWAY");

	if (local_id != LOCAL_ID || !what)
		return REAL(clone_fd)(job, local_id);
	if (strcmp(what, "kill") == 0)
		(void)kill(getpid(), SIGKILL);
	if (strcmp(what, "parent") == 0)
		(void)kill(getppid(), SIGKILL);
	if (strcmp(what, "stop") == 0)
		(void)raise(SIGSTOP);
	if (strcmp(what, "fail") == 0) {
		errno = ENOSPC;
		return SLURM_ERROR;
	}
	return REAL(clone_fd)(job, local_id);
}
