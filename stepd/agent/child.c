/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/agent/child.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "mpi/mpi.h"
#include "stepd/agent/plan.h"
#include "stepd/agent/process.h"
#include "stepd/agent/rlimits.h"
#include "stepd/agent/status.h"
#include "stepd/agent/stdio.h"
#include "stepd/agent/stdio_files.h"
#include "stepd/api/env.h"

/* Nearly all calls here go through the one function syscall(2): a fresh child has none of the C
 * library's pages mapped, and each wrapper in another part of it costs a page fault. */
struct child {
	const struct child_setup *setup;
	struct plan *plan;
	const struct plan_program *program;
	const struct stdio_task *io;
	uint32_t local_id;
	uint32_t detail; /* of the operation under way, for its report */
};

static int do_group(struct child *c)
{
	if (c->setup->group < 0)
		return 0;
	/* The group's founder may be gone, or in another session, where tasks are not held: then
	 * this task founds its own. */
	if (syscall(SYS_setpgid, 0, c->setup->group) < 0 && syscall(SYS_setpgid, 0, 0) < 0)
		return -errno;
	return 0;
}

static int do_oom(struct child *c)
{
	_cleanup_close_ int fd = -1;
	size_t len;

	if (!c->setup->oom_score_adj)
		return 0;
	len = strlen(c->setup->oom_score_adj);
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, c->setup->oom_score_adj, len) != (ssize_t)len)
		return -errno;
	return 0;
}

static int do_nice(struct child *c)
{
	const struct spec *spec = c->plan->spec;

	if (spec->nice_given && setpriority(PRIO_PROCESS, 0, spec->nice) < 0)
		return -errno;
	return 0;
}

static int do_rlimits(struct child *c)
{
	const struct spec *spec = c->plan->spec;

	if (c->setup->nofile &&
		syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, c->setup->nofile, NULL) < 0)
		return -errno;
	for (c->detail = 0; c->detail < spec->rlimits_count; c->detail++) {
		if (setrlimit((__rlimit_resource_t)spec->rlimits[c->detail].resource,
			    &spec->rlimits[c->detail].value) < 0)
			return -errno;
	}
	return 0;
}

static int do_binding(struct child *c)
{
	return binding_apply(&c->plan->binding, c->local_id, &c->detail);
}

static int do_identity(struct child *c)
{
	return identity_become(&c->plan->id);
}

static int do_no_new_privs(struct child *c)
{
	if (c->plan->spec->no_new_privs && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return 0;
}

static int do_cwd(struct child *c)
{
	(void)syscall(SYS_umask, c->plan->umask); /* can't fail */
	return syscall(SYS_chdir, c->program->cwd) < 0 ? -errno : 0;
}

/* A descriptor for the stream: the one it becomes, or one above the three. */
static int open_stream(const struct stdio_stream *s, int becomes)
{
	int fd, r;

	if (s->fd == becomes || s->fd > 2)
		return s->fd;
	if (s->fd >= 0) {
		fd = (int)syscall(SYS_fcntl, s->fd, F_DUPFD_CLOEXEC, 3);
		return fd < 0 ? -errno : fd;
	}
	fd = open(s->path, s->flags | O_CLOEXEC | O_NOCTTY, 0666);
	if (fd < 0)
		return -errno;
	r = fcntl(fd, F_GETFL);
	if (r >= 0 && (r & O_NONBLOCK))
		(void)fcntl(fd, F_SETFL, r & ~O_NONBLOCK); /* only a FIFO would notice */
	if (fd > 2)
		return fd;
	r = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	r = r < 0 ? -errno : r;
	(void)close(fd); /* r tells */
	return r;
}

static int do_stdio(struct child *c)
{
	int fd[3];

	for (c->detail = 0; c->detail < 3; c->detail++) {
		if (c->io->stream[c->detail].as_stdout) {
			fd[c->detail] = fd[STDOUT_FILENO];
			continue;
		}
		fd[c->detail] = open_stream(&c->io->stream[c->detail], (int)c->detail);
		if (fd[c->detail] < 0)
			return fd[c->detail];
	}
	for (c->detail = 0; c->detail < 3; c->detail++) {
		if (fd[c->detail] != (int)c->detail &&
			syscall(SYS_dup3, fd[c->detail], c->detail, 0) < 0)
			return -errno;
	}
	return 0;
}

/* All descriptors above 2 end with the exec, but for those that the MPI hook opens after this. */
static int mark_descriptors(void)
{
	DIR *dir;
	struct dirent *d;
	int fd;

	if (syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
		return 0;
	/* before Linux 5.11 */
	dir = opendir("/proc/self/fd");
	if (!dir)
		return -errno;
	while ((d = readdir(dir))) {
		fd = atoi(d->d_name);
		if (fd > 2)
			(void)fcntl(fd, F_SETFD, FD_CLOEXEC); /* it may be the directory's own */
	}
	(void)closedir(dir);
	return 0;
}

static int do_hold(struct child *c)
{
	struct pollfd p = {.fd = c->setup->hold_fd, .events = POLLIN};
	int r = mark_descriptors();

	if (r < 0 || p.fd < 0)
		return r;
	do
		r = (int)syscall(SYS_ppoll, &p, 1, NULL, NULL, 0);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	if (!(p.revents & POLLIN))
		_exit(126); /* the agent is gone or gave the launch up: nobody reads a report */
	return 0;
}

/* Until Linux 6.2 a move into a cgroup with a cpuset undoes what the task asked for. */
static int do_bound(struct child *c)
{
	int r = c->setup->group < 0 ? do_binding(c) : 0;

	if (r == 0)
		binding_tell(c->plan->spec, &c->plan->job, c->local_id, STDERR_FILENO);
	return r;
}

static int do_hook(struct child *c)
{
	const stepd_step_rec_t *job = &c->plan->job;
	mpi_plugin_task_info_t info = {
		.api_version = STEPD_API_VERSION,
		.job_id = job->job_id,
		.step_id = job->step_id,
		.nnodes = job->nnodes,
		.nodeid = job->nodeid,
		.ntasks = job->ntasks,
		.ltasks = job->node_tasks,
		.gtaskid = job->task[c->local_id].gtid,
		.ltaskid = c->local_id,
	};

	environ_task_fill(&c->plan->task_env, &c->program->env, info.gtaskid, c->local_id,
		(pid_t)syscall(SYS_getpid));
	if (c->setup->mpi)
		mpi_task(c->setup->mpi, &info, &c->plan->task_env.v);
	return 0;
}

/* As a login shell would have them: nothing blocked, nothing ignored. The agent ignores none and
 * an exec resets what is handled; until it, a signal must not run the agent's handlers here. */
static int do_signals(struct child *c)
{
	static const uint64_t none = 0; /* the kernel's set: a bit for each of 64 */

	if (!c->setup->own_signals)
		process_default_signals();
	return syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none)) < 0 ? -errno : 0;
}

/* As a shell says it: 127 for a program that is nowhere, 126 for all else that keeps a task from
 * being executed. */
static int exit_status(enum child_stage stage, int error)
{
	bool absent = error == ENOENT || error == ENOTDIR;

	return stage == CHILD_STAGE_EXEC && absent ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}

static void send_report(const struct child *c, enum child_stage stage, int error)
{
	struct child_report report = {
		.local_id = c->local_id, .stage = stage, .error = error, .detail = c->detail};
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* can't fail */
	report.time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	/* If the agent is gone nobody misses it. */
	(void)!write(c->setup->report_fd, &report, sizeof(report));
}

/* Whether a failure tells of one directory of PATH only: it is not there, too long, or on a server
 * that does not answer. */
static bool is_elsewhere(int error)
{
	return error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG || error == ESTALE ||
		error == ENODEV || error == ETIMEDOUT;
}

/* Tries argv[0] in every directory of the task's PATH, as execvp(3), but never a shell. -errno of
 * the most telling failure. */
static int exec_search(const struct child *c)
{
	char *const *argv = c->program->argv, *const *env = c->plan->task_env.v;
	const char *path = stepd_env_get((char **)env, "PATH"), *end;
	char candidate[PATH_MAX];
	int r = -ENOENT;
	size_t len;

	for (path = path ? path : ""; path; path = end ? end + 1 : NULL) {
		end = strchr(path, ':');
		len = end ? (size_t)(end - path) : strlen(path);
		if ((size_t)snprintf(candidate, sizeof(candidate), "%.*s%s%s", (int)len, path,
			    len ? "/" : "./", argv[0]) >= sizeof(candidate))
			continue;
		(void)execve(candidate, argv, env); /* returns on failure only */
		/* EACCES is also said of a directory that this user may not search. */
		if (errno == EACCES && syscall(SYS_access, candidate, F_OK) == 0)
			r = -EACCES;
		else if (errno != EACCES && !is_elsewhere(errno))
			return -errno;
	}
	return r;
}

static int do_exec(struct child *c)
{
	if (c->setup->traced)
		send_report(c, CHILD_STAGE_EXEC, 0);
	if (!strchr(c->program->argv[0], '/'))
		return exec_search(c);
	(void)execve(c->program->argv[0], c->program->argv, c->plan->task_env.v);
	return -errno;
}

static const struct {
	int (*run)(struct child *c);
	const char *words;
} operations[CHILD_STAGE_MAX] = {
	[CHILD_STAGE_GROUP] = {do_group, "join the step's process group"},
	[CHILD_STAGE_OOM] = {do_oom, "set oom_score_adj"},
	[CHILD_STAGE_NICE] = {do_nice, "set the nice value"},
	[CHILD_STAGE_RLIMITS] = {do_rlimits, "set the resource limit"},
	[CHILD_STAGE_BINDING] = {do_binding, "bind"},
	[CHILD_STAGE_IDENTITY] = {do_identity, "become the user"},
	[CHILD_STAGE_NO_NEW_PRIVS] = {do_no_new_privs, "set no_new_privs"},
	[CHILD_STAGE_CWD] = {do_cwd, "change to the directory"},
	[CHILD_STAGE_STDIO] = {do_stdio, "open"},
	[CHILD_STAGE_HOLD] = {do_hold, "wait for the release"},
	[CHILD_STAGE_BOUND] = {do_bound, "bind"},
	[CHILD_STAGE_HOOK] = {do_hook, "run the MPI task hook"},
	[CHILD_STAGE_SIGNALS] = {do_signals, "reset the signals"},
	[CHILD_STAGE_EXEC] = {do_exec, "execute"},
};

_noreturn_ void child_main(
	const struct child_setup *setup, uint32_t local_id, const struct stdio_task *io)
{
	struct plan *plan = setup->plan;
	struct child c = {
		.setup = setup,
		.plan = plan,
		.program = &plan->programs[plan->task_program[local_id]],
		.io = io,
		.local_id = local_id,
	};
	size_t i;
	int r;

	/* While any child holds it open, the others would not see the agent's end. */
	(void)close_fd(setup->hold_write_fd);
	for (i = 0; i < CHILD_STAGE_MAX; i++) {
		c.detail = 0;
		r = operations[i].run(&c);
		if (r < 0) {
			send_report(&c, (enum child_stage)i, -r);
			_exit(exit_status((enum child_stage)i, -r));
		}
	}
	_exit(126); /* not reached: the last operation returns on failure only */
}

/* Bytes of a name in a message: where all of them are written as \xNN there is still room for the
 * reason behind it. */
#define SUBJECT_MAX "200"

/* The file, directory or limit that the operation was about, or "". */
static void name_subject(
	const struct plan *plan, const struct child_report *report, char *text, size_t size)
{
	static const char *const streams[] = {"stdin", "stdout", "stderr"};
	const struct plan_program *p = &plan->programs[plan->task_program[report->local_id]];
	char file[400];

	text[0] = '\0';
	switch (report->stage) {
	case CHILD_STAGE_RLIMITS:
		(void)snprintf(text, size, " %s",
			report->detail < plan->spec->rlimits_count
				? rlimits_name(plan->spec->rlimits[report->detail].resource)
				: "?");
		break;
	case CHILD_STAGE_BINDING:
	case CHILD_STAGE_BOUND:
		binding_name(&plan->binding, report->local_id, report->detail, text, size);
		break;
	case CHILD_STAGE_IDENTITY:
		(void)snprintf(text, size, " %." SUBJECT_MAX "s", plan->id.user_name);
		break;
	case CHILD_STAGE_CWD:
		(void)snprintf(text, size, " '%." SUBJECT_MAX "s'", p->cwd);
		break;
	case CHILD_STAGE_STDIO:
		stdio_files_name(plan->spec, &plan->id, (int)report->detail % 3,
			plan->job.task[report->local_id].gtid, file, sizeof(file));
		(void)snprintf(text, size, " '%." SUBJECT_MAX "s' for %s", file,
			streams[report->detail % 3]);
		break;
	case CHILD_STAGE_EXEC:
		(void)snprintf(text, size, " '%." SUBJECT_MAX "s'%s", p->argv[0],
			strchr(p->argv[0], '/') || report->error != ENOENT
				? ""
				: " (looked for in PATH)");
		break;
	default:
		break;
	}
}

int child_report_explain(
	const struct plan *plan, const struct child_report *report, struct err *err)
{
	char subject[512];
	int error = report->error > 0 ? report->error : EIO;

	name_subject(plan, report, subject, sizeof(subject));
	(void)err_set(err, -error, "task %u can't %s%s", plan->job.task[report->local_id].gtid,
		report->stage < CHILD_STAGE_MAX ? operations[report->stage].words : "start",
		subject);
	return exit_status((enum child_stage)report->stage, error);
}
