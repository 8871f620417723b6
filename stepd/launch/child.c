/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/launch/child.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "mpi/mpi.h"
#include "stepd/api/env.h"
#include "stepd/base/cleanup.h"
#include "stepd/base/fs.h"
#include "stepd/base/proc.h"
#include "stepd/base/rawcall.h"
#include "stepd/launch/hooks.h"
#include "stepd/launch/plan.h"
#include "stepd/process/mount_namespace.h"
#include "stepd/process/process.h"
#include "stepd/stdio/stdio.h"

/* ---- which MPI library a program is linked with -------------------------------------------- */

/* More than any program has; what is beyond is not read. */
#define SEGMENTS_MAX 64u
#define ENTRIES_MAX  256u
#define NAMES_MAX    64u
#define ENTRIES_READ 32u

/* The first that fits. libmpi.so.12 is the name that MPICH, Intel MPI and MVAPICH have agreed on.
 */
static const struct {
	const char *name; /* begins so */
	const char *plugin;
} libraries[] = {
	{"libmpich.so", "pmi2"},
	{"libmpi.so.12", "pmi2"},
	{"libmpi.so", "pmix"},
	{"libpmix.so", "pmix"},
	{"libpmi2.so", "pmi2"},
	{"libpmi.so", "pmi2"},
};

#define NAME_SIZE 16u /* of which the longest above has less */

struct dynamic {
	uint64_t offset, size; /* in the file */
	uint64_t strings;      /* address of the names, 0: none */
	uint64_t names[NAMES_MAX];
	unsigned names_count;
};

static bool linked_read_at(int fd, void *into, size_t size, uint64_t offset)
{
	return rawcall(SYS_pread64, fd, into, size, offset) == (long)size;
}

/* A program header; false: there is none of that number. */
static bool linked_read_segment(int fd, const Elf64_Ehdr *head, unsigned i, Elf64_Phdr *segment)
{
	return i < head->e_phnum && i < SEGMENTS_MAX &&
		linked_read_at(fd, segment, sizeof(*segment), head->e_phoff + i * sizeof(*segment));
}

static bool linked_find_dynamic(int fd, const Elf64_Ehdr *head, struct dynamic *d)
{
	Elf64_Phdr segment;
	unsigned i;

	for (i = 0; linked_read_segment(fd, head, i, &segment); i++) {
		if (segment.p_type != PT_DYNAMIC)
			continue;
		d->offset = segment.p_offset;
		d->size = segment.p_filesz;
		return true;
	}
	return false;
}

/* Where in the file the byte of this address is; 0: nowhere. */
static uint64_t linked_find_offset(int fd, const Elf64_Ehdr *head, uint64_t address)
{
	Elf64_Phdr segment;
	unsigned i;

	for (i = 0; linked_read_segment(fd, head, i, &segment); i++) {
		if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
			address - segment.p_vaddr < segment.p_filesz)
			return segment.p_offset + (address - segment.p_vaddr);
	}
	return 0;
}

/* False: it was the last one. */
static bool linked_take_entry(struct dynamic *d, const Elf64_Dyn *entry)
{
	if (entry->d_tag == DT_NEEDED && d->names_count < NAMES_MAX)
		d->names[d->names_count++] = entry->d_un.d_val;
	else if (entry->d_tag == DT_STRTAB)
		d->strings = entry->d_un.d_ptr;
	return entry->d_tag != DT_NULL;
}

static void linked_read_dynamic(int fd, struct dynamic *d)
{
	Elf64_Dyn entries[ENTRIES_READ];
	uint64_t at;
	long n, i;

	for (at = 0; at < d->size && at < ENTRIES_MAX * sizeof(entries[0]); at += sizeof(entries)) {
		n = rawcall(SYS_pread64, fd, entries, sizeof(entries), d->offset + at);
		for (i = 0; i < n / (long)sizeof(entries[0]); i++) {
			if (!linked_take_entry(d, &entries[i]))
				return;
		}
		if (n < (long)sizeof(entries))
			return;
	}
}

/* The number of the library of this name. */
static unsigned linked_find_library(const char *name)
{
	unsigned i;

	for (i = 0; i < ARRAY_SIZE(libraries); i++) {
		if (strncmp(name, libraries[i].name, strlen(libraries[i].name)) == 0)
			return i + 1;
	}
	return 0;
}

unsigned linked_detect(int fd)
{
	char name[NAME_SIZE + 1];
	struct dynamic d = {0};
	Elf64_Ehdr head;
	unsigned i, number = 0;
	uint64_t strings;
	long n;

	if (!linked_read_at(fd, &head, sizeof(head), 0) ||
		memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
		head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr) ||
		!linked_find_dynamic(fd, &head, &d))
		return 0;
	linked_read_dynamic(fd, &d);
	strings = d.strings ? linked_find_offset(fd, &head, d.strings) : 0;
	for (i = 0; strings && number == 0 && i < d.names_count; i++) {
		n = rawcall(SYS_pread64, fd, name, NAME_SIZE, strings + d.names[i]);
		name[n > 0 ? n : 0] = '\0';
		number = linked_find_library(name);
	}
	return number;
}

const char *linked_library(unsigned number)
{
	return number > 0 && number <= ARRAY_SIZE(libraries) ? libraries[number - 1].name : NULL;
}

const char *linked_plugin(unsigned number)
{
	return number > 0 && number <= ARRAY_SIZE(libraries) ? libraries[number - 1].plugin : NULL;
}

/* All calls here are rawcall()s: the memory, and errno, may be shared with the launcher and the
 * other tasks' children (child.h). This also saves page faults of the C library in a fresh child.
 * Hooks and a verbose binding need the library, and so memory of the child's own:
 * child_can_share_memory(). */
struct child {
	const struct child_setup *setup;
	struct child_context *context;
	struct plan *plan;
	const struct plan_program *program;
	uint32_t local_id;
	uint32_t detail; /* of the operation under way, for its report */
};

/* It can't be reacquired: only a session's leader can make a terminal its controlling one, and
 * only if no other session has it. Without it TIOCSTI, which simulates input, needs
 * CAP_SYS_ADMIN. */
static int leave_terminal(void)
{
	long fd, r;

	fd = rawcall(
		SYS_openat, AT_FDCWD, "/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return fd == -ENXIO ? 0 : (int)fd; /* it was hung up meanwhile */
	r = rawcall(SYS_ioctl, fd, TIOCNOTTY, 0);
	(void)rawcall(SYS_close, fd); /* r has the reason */
	return (int)r;
}

static int do_group(struct child *c)
{
	long r = 0;

	if (c->setup->own_session) {
		r = rawcall(SYS_setsid);
		return r < 0 ? (int)r : 0;
	}
	/* The group's founder may be gone, or in another session, where tasks are not held: then
	 * this task founds its own. */
	if (c->context->group >= 0 && rawcall(SYS_setpgid, 0, c->context->group) < 0)
		r = rawcall(SYS_setpgid, 0, 0);
	if (r < 0)
		return (int)r;
	return c->setup->leave_terminal ? leave_terminal() : 0;
}

static int write_file(const char *path, const char *text)
{
	long fd = rawcall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC), r;

	if (fd < 0)
		return (int)fd;
	r = rawcall(SYS_write, fd, text, strlen(text));
	(void)rawcall(SYS_close, fd); /* r has the reason */
	return r < 0 ? (int)r : 0;
}

static int do_oom(struct child *c)
{
	const char *text = c->setup->oom_score_adj;

	return text ? write_file("/proc/self/oom_score_adj", text) : 0;
}

static int do_nice(struct child *c)
{
	const struct spec *spec = c->plan->spec;
	long r;

	if (!spec->nice_given)
		return 0;
	r = rawcall(SYS_setpriority, PRIO_PROCESS, 0, spec->nice);
	if (r < 0 || !c->setup->own_session)
		return (int)r;
	/* With autogrouping by sessions, a nice value counts within a session only, and the
	 * session has a nice value of its own. Not all kernels have this. */
	(void)write_file("/proc/self/autogroup", c->setup->nice_text);
	return 0;
}

static int do_rlimits(struct child *c)
{
	const struct spec *spec = c->plan->spec;
	long r = 0;

	if (c->setup->nofile)
		r = rawcall(SYS_prlimit64, 0, RLIMIT_NOFILE, c->setup->nofile, NULL);
	for (c->detail = 0; r >= 0 && c->detail < spec->rlimits_count; c->detail++) {
		r = rawcall(SYS_prlimit64, 0, spec->rlimits[c->detail].resource,
			&spec->rlimits[c->detail].value, NULL);
		if (r < 0)
			break; /* detail has which */
	}
	return (int)r;
}

/* Tasks of a spawn are not bound: the step's binding is for those that it began with. */
static int do_binding(struct child *c)
{
	if (c->setup->joined)
		return 0;
	return binding_apply(&c->plan->binding, c->local_id, &c->detail);
}

/* A task that a hook ends has no report: its exit status is the hook's. */
static int take_hook_result(int r)
{
	if (r > 0)
		(void)rawcall(SYS_exit_group, r);
	return r;
}

static int do_namespace(struct child *c)
{
	return c->setup->namespace_fd < 0 ? 0 : mount_namespace_enter(c->setup->namespace_fd);
}

static int do_privileged(struct child *c)
{
	return take_hook_result(hooks_task_privileged(c->setup->hooks, c->plan, c->context));
}

static int do_identity(struct child *c)
{
	int r = identity_become(&c->plan->id);

	/* It has descriptors of the agent's until its exec. */
	return r == 0 && c->setup->hide_memory ? (int)rawcall(SYS_prctl, PR_SET_DUMPABLE, 0) : r;
}

static int do_no_new_privs(struct child *c)
{
	return c->plan->spec->no_new_privs
		? (int)rawcall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		: 0;
}

static int do_cwd(struct child *c)
{
	(void)rawcall(SYS_umask, c->plan->umask); /* can't fail */
	return userpath_chdir(c->program->cwd);
}

/* A descriptor for the stream: its final number, or one above 2. */
static int open_stream(const struct child *c, const struct stdio_stream *s, int becomes)
{
	int fd, r;

	if (s->fd == becomes || s->fd > 2)
		return s->fd;
	if (s->fd >= 0)
		return (int)rawcall(SYS_fcntl, s->fd, F_DUPFD_CLOEXEC, 3);
	fd = userpath_open_in(
		c->setup->root_fd, s->path, s->flags | O_CLOEXEC | O_NOCTTY | O_LARGEFILE, 0666);
	if (fd < 0)
		return fd;
	r = (int)rawcall(SYS_fcntl, fd, F_GETFL);
	if (r >= 0 && (r & O_NONBLOCK)) /* only a FIFO would notice */
		(void)rawcall(SYS_fcntl, fd, F_SETFL, r & ~O_NONBLOCK);
	if (fd > 2)
		return fd;
	r = (int)rawcall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 3);
	(void)rawcall(SYS_close, fd); /* r has the reason */
	return r;
}

static int do_stdio(struct child *c)
{
	const struct stdio_stream *stream = c->context->io.stream;
	int fd[3], r;

	for (c->detail = 0; c->detail < 3; c->detail++) {
		if (stream[c->detail].as_stdout) {
			fd[c->detail] = fd[STDOUT_FILENO];
			continue;
		}
		fd[c->detail] = open_stream(c, &stream[c->detail], (int)c->detail);
		if (fd[c->detail] < 0)
			return fd[c->detail];
	}
	for (c->detail = 0; c->detail < 3; c->detail++) {
		if (fd[c->detail] == (int)c->detail)
			continue;
		r = (int)rawcall(SYS_dup3, fd[c->detail], c->detail, 0);
		if (r < 0)
			return r;
	}
	c->detail = STDIN_FILENO;
	/* As the user, like a login: it leads a session that has none yet. */
	return c->context->io.terminal ? (int)rawcall(SYS_ioctl, STDIN_FILENO, TIOCSCTTY, 0) : 0;
}

/* All descriptors above 2 are closed by the exec, except those that the MPI hook opens after
 * this. */
static int mark_descriptors(void)
{
	DIR *dir;
	struct dirent *d;
	int fd;

	if (rawcall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
		return 0;
	/* before Linux 5.11; never with shared memory: child_can_share_memory() */
	dir = opendir("/proc/self/fd");
	if (!dir)
		return -errno;
	while ((d = readdir(dir))) {
		fd = atoi(d->d_name);
		if (fd > 2)
			(void)fcntl(
				fd, F_SETFD, FD_CLOEXEC); /* it may be the directory that is read */
	}
	(void)closedir(dir);
	return 0;
}

static int do_hold(struct child *c)
{
	struct pollfd p = {.fd = c->context->hold_fd, .events = POLLIN};
	int r = mark_descriptors();

	if (r < 0 || p.fd < 0)
		return r;
	do
		r = (int)rawcall(SYS_ppoll, &p, 1, NULL, NULL, 0);
	while (r == -EINTR);
	if (r < 0)
		return r;
	if (!(p.revents & POLLIN)) /* the agent is gone or has given up the launch: nobody reads a
				      report */
		(void)rawcall(SYS_exit_group, STATUS_NOT_EXECUTABLE);
	return 0;
}

/* Until Linux 6.2 a move into a cgroup with a cpuset undoes the affinity that the task has set. */
static int do_bound(struct child *c)
{
	int r = c->context->adopted ? do_binding(c) : 0;

	if (r == 0 && !c->setup->joined)
		binding_report(c->plan->spec, &c->plan->job, c->local_id, STDERR_FILENO);
	return r;
}

/* rank and size are those among the tasks that share its MPI_COMM_WORLD. */
static void fill_info(
	const struct child_setup *setup, uint32_t local_id, mpi_plugin_task_info_t *info)
{
	const struct plan_joined *joined = setup->joined;
	const stepd_step_rec_t *job = &setup->plan->job;
	uint32_t gtid = job->task[local_id].gtid;

	*info = (mpi_plugin_task_info_t){
		.api_version = STEPD_API_VERSION,
		.job_id = job->job_id,
		.step_id = job->step_id,
		.nnodes = job->nnodes,
		.nodeid = job->nodeid,
		.ntasks = job->ntasks,
		.ltasks = job->node_tasks,
		.gtaskid = gtid,
		.ltaskid = local_id,
		.service_fd = -1,
		.appnum = job->task[local_id].appnum,
		.spawn = joined ? joined->spawn : 0,
		.size = joined ? joined->size : job->ntasks,
		.rank = joined ? gtid - joined->first_rank : gtid,
	};
}

static int make_environ(const struct child_setup *setup, uint32_t local_id, pid_t pid,
	struct child_context *context)
{
	const struct plan_joined *joined = setup->joined;
	mpi_plugin_task_info_t info;

	context->pass_fd = -1;
	fill_info(setup, local_id, &info);
	environ_task_fill(&context->env, &plan_task_program(setup->plan, joined, local_id)->env,
		info.rank, joined ? local_id - joined->first_local : local_id, pid);
	if (!setup->mpi)
		return 0;
	if (mpi_has_task_environ(setup->mpi))
		return mpi_task_environ(setup->mpi, &info, &context->env.v, &context->pass_fd);
	return mpi_task(setup->mpi, &info, &context->env.v);
}

int child_prepare(const struct child_setup *setup, uint32_t local_id, struct child_context *context)
{
	int r = environ_task_reserve(
		&context->env, plan_task_program(setup->plan, setup->joined, local_id)->env.n);

	if (r == 0)
		r = make_environ(setup, local_id, 0, context);
	context->prepared = r == 0;
	return r;
}

static int do_hook(struct child *c)
{
	struct child_context *context = c->context;
	pid_t pid = (pid_t)rawcall(SYS_getpid);
	int r = 0;

	if (context->prepared)
		environ_task_set_pid(&context->env, pid);
	else
		r = make_environ(c->setup, c->local_id, pid, context);
	return r < 0 || context->pass_fd < 0
		? r
		: (int)rawcall(SYS_fcntl, context->pass_fd, F_SETFD, 0);
}

/* As for a login shell: no signal is blocked or ignored. The agent ignores none, and an exec
 * resets handlers; until then, a signal must not run the agent's handlers here. */
static int do_signals(struct child *c)
{
	static const uint64_t none = 0; /* the kernel's set: a bit for each of 64 */

	if (!c->context->own_signals)
		process_default_signals();
	return (int)rawcall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
}

static int do_task(struct child *c)
{
	return take_hook_result(hooks_task(c->setup->hooks, c->plan, c->context));
}

/* As a shell reports it: 127 for a program that is nowhere, 126 for all else that prevents a task
 * from being executed. */
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

	(void)rawcall(SYS_clock_gettime, CLOCK_MONOTONIC, &now); /* can't fail */
	report.time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	/* best effort: the agent may be gone */
	(void)rawcall(SYS_write, c->context->report_fd, &report, sizeof(report));
}

/* Whether a failure concerns one directory of PATH only: it does not exist, is too long, or is on
 * a server that does not reply. */
static bool is_elsewhere(int error)
{
	return error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG || error == ESTALE ||
		error == ENODEV || error == ETIMEDOUT;
}

/* "DIR/NAME", or "./NAME" for an empty directory. False: too long. */
static bool join_path(char *path, size_t size, const char *dir, size_t len, const char *name)
{
	size_t name_len = strlen(name);

	if (len == 0) {
		dir = ".";
		len = 1;
	}
	if (len + 1 + name_len >= size)
		return false;
	memcpy(path, dir, len);
	path[len] = '/';
	memcpy(path + len + 1, name, name_len + 1);
	return true;
}

/* Tries argv[0] in every directory of the task's PATH, as execvp(3), but without a shell. -errno
 * of the most specific failure. */
static int exec_search(const struct child *c)
{
	char *const *argv = c->program->argv, *const *env = c->context->env.v;
	const char *path = stepd_env_get((char **)env, "PATH"), *end;
	char candidate[PATH_MAX];
	int r = -ENOENT, error;

	for (path = path ? path : ""; path; path = *end ? end + 1 : NULL) {
		end = path + strcspn(path, ":");
		if (!join_path(candidate, sizeof(candidate), path, (size_t)(end - path), argv[0]))
			continue;
		error = -(int)rawcall(
			SYS_execve, candidate, argv, env); /* returns on failure only */
		/* EACCES also means a directory that this user may not search. */
		if (error == EACCES && rawcall(SYS_faccessat, AT_FDCWD, candidate, F_OK) == 0)
			r = -EACCES;
		else if (error != EACCES && !is_elsewhere(error))
			return -error;
	}
	return r;
}

/* Only a regular file: to open a device may have an effect. */
static long open_regular(const char *path)
{
	struct stat st;
	long r = rawcall(SYS_newfstatat, AT_FDCWD, path, &st, 0);

	if (r < 0 || !S_ISREG(st.st_mode))
		return r < 0 ? r : -EACCES;
	return userpath_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
}

/* As execve() finds it, or -errno. A program that may be executed but not read is left alone.
 */
static long open_program(const struct child *c)
{
	const char *name = c->program->argv[0], *path, *end;
	char candidate[PATH_MAX];
	long fd = -ENOENT;

	if (strchr(name, '/'))
		return open_regular(name);
	path = stepd_env_get(c->context->env.v, "PATH");
	for (path = path ? path : ""; path && fd < 0; path = *end ? end + 1 : NULL) {
		end = path + strcspn(path, ":");
		if (join_path(candidate, sizeof(candidate), path, (size_t)(end - path), name))
			fd = open_regular(candidate);
	}
	return fd;
}

/* As the user; the first of several tasks for all. It is not an error if it is not found.
 */
static int do_linked(struct child *c)
{
	const struct spec *spec = c->plan->spec;
	struct stat st;
	long fd;

	if (c->local_id != 0 || spec->kind != STEPD_STEP_NORMAL || spec->node_id != 0 ||
		spec->ntasks < 2)
		return 0;
	fd = open_program(c);
	if (fd < 0)
		return 0;
	if (rawcall(SYS_fstat, fd, &st) == 0 && S_ISREG(st.st_mode))
		c->detail = linked_detect((int)fd);
	(void)rawcall(SYS_close, fd); /* read only */
	if (c->detail)
		send_report(c, CHILD_STAGE_LINKED, 0);
	return 0;
}

static int do_exec(struct child *c)
{
	if (c->setup->traced)
		send_report(c, CHILD_STAGE_EXEC, 0);
	if (!strchr(c->program->argv[0], '/'))
		return exec_search(c);
	return (int)rawcall(SYS_execve, c->program->argv[0], c->program->argv, c->context->env.v);
}

static const struct {
	int (*run)(struct child *c);
	const char *name;
} operations[CHILD_STAGE_MAX] = {
	[CHILD_STAGE_GROUP] = {do_group, "leave the agent's session, terminal or process group"},
	[CHILD_STAGE_OOM] = {do_oom, "set oom_score_adj"},
	[CHILD_STAGE_NICE] = {do_nice, "set the nice value"},
	[CHILD_STAGE_RLIMITS] = {do_rlimits, "set the resource limit"},
	[CHILD_STAGE_BINDING] = {do_binding, "bind"},
	[CHILD_STAGE_NAMESPACE] = {do_namespace, "enter the mount namespace"},
	[CHILD_STAGE_PRIVILEGED] = {do_privileged, "run the privileged step hook"},
	[CHILD_STAGE_IDENTITY] = {do_identity, "become the user"},
	[CHILD_STAGE_NO_NEW_PRIVS] = {do_no_new_privs, "set no_new_privs"},
	[CHILD_STAGE_CWD] = {do_cwd, "change to the directory"},
	[CHILD_STAGE_STDIO] = {do_stdio, "open"},
	[CHILD_STAGE_HOLD] = {do_hold, "wait for the release"},
	[CHILD_STAGE_BOUND] = {do_bound, "bind"},
	[CHILD_STAGE_HOOK] = {do_hook, "run the MPI task hook"},
	[CHILD_STAGE_LINKED] = {do_linked, "read the program"},
	[CHILD_STAGE_SIGNALS] = {do_signals, "reset the signals"},
	[CHILD_STAGE_TASK] = {do_task, "run the step hook"},
	[CHILD_STAGE_EXEC] = {do_exec, "execute"},
};

bool child_can_share_memory(const struct child_setup *setup)
{
	const struct spec *spec = setup->plan->spec;

	/* An empty range: whether the flag is known (Linux 5.11). */
	return RAWCALL_NATIVE && !setup->hide_memory && !setup->hooks &&
		(!setup->mpi || mpi_has_task_environ(setup->mpi)) && !spec->cpu_bind.verbose &&
		!spec->mem_bind.verbose &&
		rawcall(SYS_close_range, ~0u, ~0u, CLOSE_RANGE_CLOEXEC) == 0;
}

_noreturn_ void child_main(struct child_context *context)
{
	const struct child_setup *setup = context->setup;
	struct plan *plan = setup->plan;
	struct child c = {
		.setup = setup,
		.context = context,
		.plan = plan,
		.program = plan_task_program(plan, setup->joined, context->io.local_id),
		.local_id = context->io.local_id,
	};
	size_t i;
	int r;

	/* While any child has one of them open, the others would not notice the agent's end; nor
	 * would an adopter, if a suspension stops this child before its exec. */
	if (context->hold_write_fd >= 0)
		(void)rawcall(SYS_close, context->hold_write_fd); /* they are there */
	if (setup->lock_fd >= 0)
		(void)rawcall(SYS_close, setup->lock_fd);
	for (i = 0; i < CHILD_STAGE_MAX; i++) {
		c.detail = 0;
		r = operations[i].run(&c);
		if (r < 0) {
			send_report(&c, (enum child_stage)i, -r);
			(void)rawcall(SYS_exit_group, exit_status((enum child_stage)i, -r));
		}
	}
	for (;;) /* not reached: the last operation returns on failure only */
		(void)rawcall(SYS_exit_group, STATUS_NOT_EXECUTABLE);
}

/* Bytes of a name in a message: where all of them are written as \xNN there is still space for the
 * reason behind it. */
#define SUBJECT_MAX "200"

/* The file, directory or limit that the operation was about, or "". */
static void name_subject(
	const struct child_setup *setup, const struct child_report *report, char *text, size_t size)
{
	static const char *const streams[] = {"stdin", "stdout", "stderr"};
	const struct plan *plan = setup->plan;
	const struct plan_program *p = plan_task_program(plan, setup->joined, report->local_id);
	char file[400];

	text[0] = '\0';
	switch (report->stage) {
	case CHILD_STAGE_RLIMITS:
		(void)snprintf(text, size, " %s",
			report->detail < plan->spec->rlimits_count
				? spec_rlimit_names[plan->spec->rlimits[report->detail].resource]
				: "?");
		break;
	case CHILD_STAGE_BINDING:
	case CHILD_STAGE_BOUND:
		binding_name(&plan->binding, report->local_id, report->detail, text, size);
		break;
	case CHILD_STAGE_NAMESPACE:
		(void)snprintf(text, size, " '%." SUBJECT_MAX "s'",
			plan->spec->mount_namespace ? plan->spec->mount_namespace : "");
		break;
	case CHILD_STAGE_IDENTITY:
		(void)snprintf(text, size, " %." SUBJECT_MAX "s", plan->id.user_name);
		break;
	case CHILD_STAGE_CWD:
		(void)snprintf(text, size, " '%." SUBJECT_MAX "s'", p->cwd);
		break;
	case CHILD_STAGE_STDIO:
		if (spec_has_pty(plan->spec, plan->job.task[report->local_id].gtid)) {
			(void)snprintf(text, size, " its pseudo-terminal");
			break;
		}
		stdio_file_name(plan->spec, &plan->id, (int)report->detail % 3,
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
	const struct child_setup *setup, const struct child_report *report, struct err *err)
{
	const struct plan *plan = setup->plan;
	char subject[512];
	int error = report->error > 0 ? report->error : EIO;
	bool opens = report->stage == CHILD_STAGE_CWD || report->stage == CHILD_STAGE_STDIO;
	const char *why = opens ? userpath_explain(error) : NULL;

	name_subject(setup, report, subject, sizeof(subject));
	if (why)
		(void)err_set_text(err, -error, "task %u can't %s%s: %s",
			plan->job.task[report->local_id].gtid, operations[report->stage].name,
			subject, why);
	else
		(void)err_set(err, -error, "task %u can't %s%s",
			plan->job.task[report->local_id].gtid,
			report->stage < CHILD_STAGE_MAX ? operations[report->stage].name : "start",
			subject);
	return exit_status((enum child_stage)report->stage, error);
}
