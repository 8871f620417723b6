/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proctrack/pgid: the container is a process group, its id the group's number.
 *
 * The number is reserved by a placeholder: a child that makes itself the group's leader and ends,
 * and is reaped by proctrack_p_destroy() only. While its zombie stands no other process or group
 * can get the number. Its exit signal is 0, so that a wait for any child without __WALL does not
 * see it. Its name marks it, so that other processes can distinguish a container's group from a
 * stranger's: all functions but create, add and destroy work from any process. When the agent is
 * killed the placeholder goes, and with it the container's name. An agent that takes the step over
 * has the number by its record: it is nobody else's as long as a process of the group lives, and
 * from the moment on that none is seen the container is gone.
 *
 * The kernel decides in one step which processes a signal reaches, forks in progress included; but
 * a process that changes its group (a shell with job control) or its session (a daemon) is gone.
 * The list is a pass over /proc and can miss a process that forks and ends at once: then the answer
 * may be "none" although the signal was sent.
 */
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "proctrack/procs.h"
#include "proctrack/reporter.h"
#include "stepd/api/proctrack.h"
#include "stepd/base/proc.h"

const char plugin_type[] = "proctrack/pgid";
const char plugin_name[] = "Process tracking by process group";
const uint32_t plugin_version = STEPD_API_VERSION;

#define PLACEHOLDER_NAME "stepd-pgid"

/* This process's container; the ABI has no argument for a handle. */
static struct {
	uint64_t id; /* 0: none */
	int pidfd;   /* of the placeholder; -1 if the container was adopted */
	bool gone;   /* an adopted one, in which nothing was left: the number is free since then */
} own = {.pidfd = -1};

static int to_slurm(int r)
{
	if (r >= 0)
		return SLURM_SUCCESS;
	errno = -r;
	return SLURM_ERROR;
}

/* In the child; only system calls. */
_noreturn_ static void be_placeholder(void *userdata)
{
	int failure = 0;

	(void)userdata;
	if (prctl(PR_SET_NAME, PLACEHOLDER_NAME) < 0 || setpgid(0, 0) < 0)
		failure = errno;
	_exit(failure);
}

STEPD_EXPORT int proctrack_p_create(stepd_step_rec_t *job)
{
	siginfo_t info = {0};
	int pidfd = -1, r;
	pid_t pid;

	if (own.id)
		return to_slurm(-EEXIST);
	pid = hidden_child_start(be_placeholder, NULL, &pidfd);
	if (pid < 0)
		return to_slurm(pid);
	r = hidden_child_wait(pidfd, WNOWAIT, &info);
	if (r == 0 && info.si_code != CLD_EXITED)
		r = -EAGAIN; /* killed before it was done */
	if (r == 0 && info.si_status != 0)
		r = -info.si_status;
	if (r < 0) {
		hidden_child_reap(pidfd);
		return to_slurm(r);
	}
	own.id = (uint64_t)pid;
	own.pidfd = pidfd;
	job->cont_id = own.id;
	return SLURM_SUCCESS;
}

/* 0 if id is the group of a placeholder, in this process or another, else -ESRCH. */
static int check_container(uint64_t id)
{
	struct procstat st;

	if (id == 0 || id > INT_MAX)
		return -ESRCH;
	if (id == own.id)
		return 0;
	if (procstat_read((pid_t)id, &st) < 0 || st.state != 'Z' || st.pgrp != (pid_t)id ||
		strcmp(st.comm, PLACEHOLDER_NAME) != 0)
		return -ESRCH;
	return 0;
}

STEPD_EXPORT int proctrack_p_add(stepd_step_rec_t *job, pid_t pid)
{
	pid_t group;

	if (own.id == 0 || job->cont_id != own.id || pid <= 0)
		return to_slurm(-ESRCH);
	group = getpgid(pid);
	if (group < 0)
		return SLURM_ERROR;
	if (group == (pid_t)own.id || setpgid(pid, (pid_t)own.id) == 0)
		return SLURM_SUCCESS;
	/* setpgid() fails with ESRCH for a process that is not our child */
	return to_slurm(errno == ESRCH && getpgid(pid) >= 0 ? -EPERM : -errno);
}

static int mark_group(struct procs *procs, void *userdata)
{
	pid_t group = *(const pid_t *)userdata;
	size_t i;

	for (i = 0; i < procs->n; i++)
		procs->v[i].member = procs->v[i].pgrp == group;
	return 0;
}

static int list_members(uint64_t id, pid_t **ret_pids, int *ret_count)
{
	pid_t group = (pid_t)id;
	int r = check_container(id);

	if (r == 0 && id == own.id && own.gone) {
		*ret_pids = NULL;
		*ret_count = 0;
		return 0;
	}
	if (r == 0)
		r = procs_list(mark_group, &group, ret_pids, ret_count);
	/* Between two reads of a group that nothing reserves it must not have been empty. */
	if (r == 0 && id == own.id && own.pidfd < 0 && *ret_count == 0)
		own.gone = true;
	return r;
}

STEPD_EXPORT int proctrack_p_signal(uint64_t id, int signal)
{
	_cleanup_free_ pid_t *pids = NULL;
	int n = 0, r;

	if (signal < 0 || signal > SIGRTMAX)
		return to_slurm(-EINVAL);
	/* The zombie takes every signal: whether there is a member only the list shows. The signal
	 * goes out whatever that shows, since the list can miss one that forks and ends, and what
	 * is in the group is ours. */
	r = list_members(id, &pids, &n);
	if (r == 0 && signal != 0 && !(id == own.id && own.gone) && killpg((pid_t)id, signal) < 0)
		r = -errno;
	if (r == 0 && n == 0)
		r = -ESRCH;
	return to_slurm(r);
}

STEPD_EXPORT int proctrack_p_destroy(uint64_t id)
{
	if (id == 0 || id != own.id)
		return to_slurm(-ESRCH);
	if (own.pidfd >= 0)
		hidden_child_reap(own.pidfd);
	own.id = 0;
	own.pidfd = -1;
	own.gone = false;
	return SLURM_SUCCESS;
}

/* A program that an agent has executed has the placeholder for its child, as before. */
static int find_placeholder(uint64_t id)
{
	struct procstat st;
	int fd;

	if (check_container(id) < 0 || procstat_read((pid_t)id, &st) < 0 || st.ppid != getpid())
		return -ESRCH;
	fd = (int)syscall(SYS_pidfd_open, (pid_t)id, 0);
	return fd < 0 ? -errno : fd;
}

/* The number can't be reserved again: only a process of its session can join its group. But
 * as long as one of those that are known to be the step's is in the group, it is that group. */
STEPD_EXPORT int proctrack_p_adopt(stepd_step_rec_t *job, const pid_t *pids, int n)
{
	struct procstat st;
	int i;

	if (own.id)
		return to_slurm(-EEXIST);
	if (job->cont_id == 0 || job->cont_id > INT_MAX)
		return to_slurm(-ESRCH);
	own.pidfd = find_placeholder(job->cont_id);
	if (own.pidfd >= 0) {
		own.id = job->cont_id;
		return SLURM_SUCCESS;
	}
	own.pidfd = -1;
	for (i = 0; i < n; i++) {
		if (procstat_read(pids[i], &st) < 0 || !procstat_is_living(&st) ||
			st.pgrp != (pid_t)job->cont_id)
			continue;
		own.id = job->cont_id;
		return SLURM_SUCCESS;
	}
	return to_slurm(-ESRCH);
}

STEPD_EXPORT uint64_t proctrack_p_find(pid_t pid)
{
	struct procstat st;
	int r = procstat_read(pid, &st);

	/* the leader is the placeholder */
	if (r == 0 && (pid == st.pgrp || (own.gone && (uint64_t)st.pgrp == own.id)))
		r = -ESRCH;
	if (r == 0)
		r = check_container((uint64_t)st.pgrp);
	if (r == 0)
		return (uint64_t)st.pgrp;
	errno = -r;
	return 0;
}

STEPD_EXPORT uint32_t proctrack_p_get_pids(uint64_t cont_id, pid_t **pids, int *npids)
{
	return (uint32_t)to_slurm(list_members(cont_id, pids, npids));
}

STEPD_EXPORT int init(void)
{
	return SLURM_SUCCESS;
}

STEPD_EXPORT void fini(void)
{
	if (own.id)
		(void)proctrack_p_destroy(own.id); /* there is one: it can't fail */
}

/* 0, or -errno where clone3 can't be used. A size of 0 is refused by every kernel that knows it. */
static int try_clone3(void)
{
	return syscall(SYS_clone3, NULL, 0) < 0 && errno != EINVAL ? -errno : 0;
}

#define HOLDS                                                                                      \
	"a process group; a process that changes its group (a shell with job control) or its "     \
	"session (a daemon) escapes"

STEPD_EXPORT int plugin_probe(char *text, size_t size)
{
	int r = try_clone3();

	if (r == 0)
		(void)snprintf(text, size, HOLDS);
	else
		(void)snprintf(text, size, "the clone3 system call (Linux 5.3) can't be used: %s",
			strerror(-r));
	return r == 0 ? SLURM_SUCCESS : SLURM_ERROR;
}

STEPD_EXPORT int plugin_checkup(stepd_tell_fn fn, void *ctx)
{
	const struct reporter reporter = {fn, ctx};
	int r = try_clone3();

	if (r < 0)
		reporter_add(&reporter, STEPD_FINDING_PROBLEM, "pgid.clone3", NULL,
			"update to Linux 5.3, or allow clone3 in the seccomp filter",
			"its placeholder can't be made, for clone3 can't be used: %s",
			strerror(-r));
	reporter_add(&reporter, STEPD_FINDING_NOTE, "pgid.holds", NULL, NULL, "holds " HOLDS);
	return SLURM_SUCCESS;
}
