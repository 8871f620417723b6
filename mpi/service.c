/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/service.h"

#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "mpi/confine.h"
#include "stepd/base/buffer.h"
#include "stepd/base/clock.h"
#include "stepd/base/fs.h"
#include "stepd/base/proc.h"

/* ==== the process ============================================================================ */

#define SERVICE_NAME "stepd-mpi"

struct service_process {
	stepd_mpi_service_t service;
	stepd_mpi_service_fn main;
	const struct mpi_service_options *options;
	bool is_born_there; /* in the cgroup that it is to be in */
};

static int compare_fds(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

/* Before Linux 5.9 there is no close_range(2), and one descriptor at a time is closed. */
static void close_between(unsigned from, unsigned to)
{
	struct rlimit limit = {.rlim_cur = 1024};

	if (from > to || syscall(SYS_close_range, from, to, 0) == 0)
		return;
	(void)getrlimit(RLIMIT_NOFILE, &limit);
	for (; from <= to && from < limit.rlim_cur; from++)
		(void)close((int)from); /* EBADF for most */
}

/* 0, 1 and 2 are replaced; what is neither an option's nor the service's is closed. */
static int prepare_fds(const struct service_process *p)
{
	const struct mpi_service_options *o = p->options;
	uint32_t tasks = p->service.task_fd ? p->service.job->node_tasks : 0;
	size_t n = 0, i, capacity = 2 + o->retained_fds_count + tasks;
	_cleanup_free_ int *open_fds = calloc(capacity, sizeof(*open_fds));
	unsigned next = 3;
	int null;

	if (!open_fds)
		return -ENOMEM;
	open_fds[n++] = p->service.link_fd;
	for (i = 0; i < o->retained_fds_count; i++)
		open_fds[n++] = o->retained_fds[i];
	for (i = 0; i < tasks; i++) {
		open_fds[n++] = p->service.task_fd[i];
		if (fcntl(p->service.task_fd[i], F_SETFL, O_NONBLOCK) < 0)
			return -errno;
	}
	qsort(open_fds, n, sizeof(*open_fds), compare_fds);
	for (i = 0; i < n; i++) {
		if (open_fds[i] < (int)next)
			continue;
		close_between(next, (unsigned)open_fds[i] - 1);
		next = (unsigned)open_fds[i] + 1;
	}
	close_between(next, ~0u);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return -errno;
	for (i = 0; i < 3; i++) {
		if (dup3(null, (int)i, 0) < 0)
			return -errno;
	}
	(void)close(null);
	return 0;
}

/* Out of reach of a terminal, and no way to one. Not by a session of its own: where the kernel
 * shares the processors out by sessions (sched_autogroup_enabled), one process beside a hundred
 * that poll was seen to wait for its turn for 24 s (Linux 6.18). */
static int leave_terminal(_unused_ const struct service_process *p)
{
	_cleanup_close_ int fd = -1;

	if (setpgid(0, 0) < 0)
		return -errno;
	fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return 0; /* it has none */
	return ioctl(fd, TIOCNOTTY) < 0 ? -errno : 0;
}

/* A write to a process that is gone fails. */
static void set_signals(void)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL}, ignore = {.sa_handler = SIG_IGN};
	sigset_t none;
	int i;

	for (i = 1; i <= SIGRTMAX; i++)
		(void)sigaction(i, &dfl, NULL); /* not for KILL and STOP */
	(void)sigaction(SIGPIPE, &ignore, NULL);
	(void)sigemptyset(&none); /* can't fail, nor can the next with valid arguments */
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Its present memory, the agent's copied one and a sanitizer's shadow, does not count. */
static int limit_memory(const struct service_process *p)
{
	uint64_t memory_bytes = p->options->memory_bytes;
	_cleanup_free_ char *text = NULL;
	unsigned long long data;
	struct rlimit limit;
	int r;

	if (memory_bytes == 0)
		return 0;
	r = fs_read(AT_FDCWD, "/proc/self/statm", 4096, &text, NULL);
	if (r < 0)
		return r;
	if (sscanf(text, "%*u %*u %*u %*u %*u %llu", &data) != 1)
		return -EBADMSG;
	memory_bytes += data * (unsigned long long)sysconf(_SC_PAGESIZE);
	limit = (struct rlimit){.rlim_cur = memory_bytes, .rlim_max = memory_bytes};
	return setrlimit(RLIMIT_DATA, &limit) < 0 ? -errno : 0;
}

/* From here on there is nothing of the agent's rights, of root's neither. Not dumpable: what other
 * processes of the user's may trace is none of the steps' business, and the memory was the agent's.
 */
static int become(const struct service_process *p)
{
	static const struct rlimit no_core;
	char **entry;
	int r = confine_drop_bounds();

	if (r == 0)
		r = p->options->become(p->options->userdata);
	if (r == 0)
		r = confine_drop_capabilities();
	if (r < 0)
		return r;
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		setrlimit(RLIMIT_CORE, &no_core) < 0 || chdir("/") < 0)
		return -errno;
	(void)umask(077);
	/* The agent's environment is the node daemon's, and libraries look into theirs. What stood
	 * in it is not to be found in this memory either. */
	for (entry = environ; entry && *entry; entry++)
		explicit_bzero(*entry, strlen(*entry));
	return clearenv() == 0 && setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1) == 0 ? 0
											 : -ENOMEM;
}

/* Failures of what the caller can do without are reported and ignored. */
static int filter_calls(const struct service_process *p)
{
	const char *why = "this kernel has none (CONFIG_SECCOMP_FILTER)", *level = "warning";
	int r;

	set_signals();
	r = p->options->unfiltered ? -EOPNOTSUPP : confine_filter(p->service.link_fd);
	if (r != -EOPNOTSUPP)
		return r;
	if (p->options->unfiltered || !confine_has_filter()) { /* somebody has decided so */
		why = p->options->unfiltered ? "mpi_filter in stepd.conf(5) is no"
					     : "stepd was built without libseccomp";
		level = "info";
	}
	/* The first message on the link: there is space for it. */
	return link_send_take(p->service.link_fd,
		json_pack("{s:s, s:s, s:s+}", "do", "log", "level", level, "text",
			"no system call filter confines the service process: ", why),
		NULL, 0);
}

/* A process that could not be born there is moved, which takes some 8 ms. */
static int enter_cgroup(const struct service_process *p)
{
	return p->options->cgroup_fd >= 0 && !p->is_born_there
		? fs_write(p->options->cgroup_fd, "cgroup.procs", "0")
		: 0;
}

/* In this order. */
static const struct {
	const char *what;
	int (*run)(const struct service_process *p);
} preparations[] = {
	{"enter the step's cgroup", enter_cgroup},
	{"leave the terminal", leave_terminal},
	{"close descriptors that it does not need", prepare_fds},
	{"become the user", become},
	{"limit its memory", limit_memory},
	{"filter its system calls", filter_calls},
};

/* In the fork, with all signals blocked: gives up what is the agent's, takes on the identity and
 * runs main. Ends the process with main's status, or with 1 and a message on the link. */
_noreturn_ static void service_process_run(const struct service_process *p)
{
	struct err err = ERR_INIT;
	size_t i;
	int r;

	(void)prctl(PR_SET_NAME, SERVICE_NAME); /* for ps(1) only */
	for (i = 0; i < ARRAY_SIZE(preparations); i++) {
		r = preparations[i].run(p);
		if (r == 0)
			continue;
		(void)err_set(&err, r, "it can't %s", preparations[i].what);
		/* If that fails too, the agent sees the end. */
		(void)!link_send_take(p->service.link_fd,
			json_pack("{s:s, s:s}", "do", "failed", "why", err.text), NULL, 0);
		_exit(1);
	}
	_exit(p->main(&p->service));
}

/* ==== the agent's side ======================================================================= */

/* The limits of what a service may hand out for all tasks, and for each, an entry counting as some
 * bytes more than it has. */
#define ENVIRON_BYTES       (1u << 20)
#define ENVIRON_TASK_BYTES  (64u << 10)
#define ENVIRON_ENTRY_BYTES 64u

/* Messages of its beginning between two polls of the agent's other requests. */
#define MESSAGES_PER_POLL 16u

struct task_vars {
	int fd;            /* the task's end; -1: there is none, or it is closed */
	struct strv given; /* entries for this task alone */
	size_t given_bytes;
};

struct mpi_service {
	pid_t pid;
	bool failed_birth;
	int link_fd;
	const struct mpi_service_options *options; /* NULL: it was started by another program */
	bool task_fds;                             /* it gets socket pairs */
	struct strv common;                        /* entries for all tasks */
	size_t common_bytes;
	struct task_vars *tasks; /* by local id */
	uint32_t tasks_count;
	size_t tasks_capacity;
	unsigned received; /* messages of its beginning */
};

/* ---- what it holds ------------------------------------------------------------------------- */

static int add_tasks(struct mpi_service *s, uint32_t count)
{
	if (array_reserve(s->tasks, s->tasks_capacity, (size_t)s->tasks_count + count) < 0)
		return -ENOMEM;
	for (; count > 0; count--)
		s->tasks[s->tasks_count++] = (struct task_vars){.fd = -1};
	return 0;
}

static struct mpi_service *service_new(void)
{
	struct mpi_service *s = calloc(1, sizeof(*s));

	if (s)
		s->link_fd = -1;
	return s;
}

struct mpi_service *mpi_service_free(struct mpi_service *s)
{
	uint32_t i;

	if (!s)
		return NULL;
	mpi_service_close_task_fds(s);
	mpi_service_close_link(s);
	for (i = 0; i < s->tasks_count; i++)
		strv_clear(&s->tasks[i].given);
	strv_clear(&s->common);
	free(s->tasks);
	free(s);
	return NULL;
}
DEFINE_CLEANUP(struct mpi_service *, mpi_service_free);

pid_t mpi_service_get_pid(const struct mpi_service *s)
{
	return s->pid;
}

bool mpi_service_has_failed_birth(const struct mpi_service *s)
{
	return s->failed_birth;
}

int mpi_service_get_link(const struct mpi_service *s)
{
	return s->link_fd;
}

void mpi_service_close_link(struct mpi_service *s)
{
	s->link_fd = close_fd(s->link_fd);
}

int mpi_service_task_fd(const struct mpi_service *s, uint32_t local_id)
{
	return local_id < s->tasks_count ? s->tasks[local_id].fd : -1;
}

void mpi_service_close_task_fds(struct mpi_service *s)
{
	uint32_t i;

	for (i = 0; i < s->tasks_count; i++)
		s->tasks[i].fd = close_fd(s->tasks[i].fd);
}

void mpi_service_close_task_fd(struct mpi_service *s, uint32_t local_id)
{
	if (local_id < s->tasks_count)
		s->tasks[local_id].fd = close_fd(s->tasks[local_id].fd);
}

bool mpi_service_has_task_fds(const struct mpi_service *s)
{
	return s->task_fds;
}

const struct strv *mpi_service_common(const struct mpi_service *s)
{
	return &s->common;
}

/* Instead of those that have the same names. What is replaced is not freed here: env.h. */
static int replace_entries(char **env, size_t n, const struct strv *entries,
	const struct strv_names *names, bool *done)
{
	size_t i, k;
	char *copy;

	for (i = 0; i < n; i++) {
		k = strv_names_find(names, env[i]);
		if (k == STRV_NAMES_NONE || done[k])
			continue;
		copy = strdup(entries->v[k]);
		if (!copy)
			return -ENOMEM;
		env[i] = copy;
		done[k] = true;
	}
	return 0;
}

static int append_entries(char ***env, size_t n, const struct strv *entries, const bool *done)
{
	char **grown = realloc(*env, (n + entries->n + 1) * sizeof(*grown));
	size_t i;

	if (!grown)
		return -ENOMEM;
	*env = grown;
	for (i = 0; i < entries->n; i++) {
		if (done[i])
			continue;
		grown[n] = strdup(entries->v[i]);
		if (!grown[n])
			return -ENOMEM;
		grown[++n] = NULL;
	}
	return 0;
}

/* Those whose names are among later are left out: what is replaced in env would be lost, as
 * its owner is not known. Names are there once in each. */
static int put_entries(char ***env, const struct strv *entries, const struct strv *later)
{
	_cleanup_strv_names_ struct strv_names names = {0}, others = {0};
	_cleanup_free_ bool *done = calloc(entries->n + 1, sizeof(*done));
	size_t n = 0, i;
	int r;

	if (entries->n == 0)
		return 0;
	r = done ? strv_names_make(&names, entries->v, entries->n) : -ENOMEM;
	if (r == 0 && later && later->n)
		r = strv_names_make(&others, later->v, later->n);
	for (i = 0; r == 0 && i < entries->n; i++)
		done[i] = strv_names_find(&others, entries->v[i]) != STRV_NAMES_NONE;
	while ((*env)[n])
		n++;
	if (r == 0)
		r = replace_entries(*env, n, entries, &names, done);
	return r < 0 ? r : append_entries(env, n, entries, done);
}

int mpi_service_environ(const struct mpi_service *s, uint32_t local_id, char ***env)
{
	const struct strv *own = local_id < s->tasks_count ? &s->tasks[local_id].given : NULL;
	int r = put_entries(env, &s->common, own);

	return r == 0 && own ? put_entries(env, own, NULL) : r;
}

int mpi_service_add_task_take(struct mpi_service *s, uint32_t local_id, int fd, char *const *own)
{
	_cleanup_close_ int owned = fd;
	int r = 0;

	/* In a program that goes on with a step the tasks before it have none. */
	if (local_id >= s->tasks_count)
		r = add_tasks(s, local_id + 1 - s->tasks_count);
	for (; r == 0 && own && *own; own++)
		r = strv_env_put(&s->tasks[local_id].given, *own);
	if (r == 0)
		s->tasks[local_id].fd = take_fd(&owned);
	return r;
}

int mpi_service_restore(pid_t pid, int link_fd, bool task_fds, const struct strv *common,
	struct mpi_service **ret_service)
{
	_cleanup_(mpi_service_free_p) struct mpi_service *s = service_new();

	if (!s || strv_extend(&s->common, common) < 0)
		return -ENOMEM;
	s->link_fd = link_fd;
	s->pid = pid;
	s->task_fds = task_fds;
	*ret_service = take_ptr(s);
	return 0;
}

/* ---- its beginning ------------------------------------------------------------------------- */

static bool is_entry(const json_t *value)
{
	const char *text = json_string_value(value), *end = text ? strchr(text, '=') : NULL;

	return end && end > text && strlen(text) == json_string_length(value);
}

/* task NULL: for all. */
static int put_entry(
	struct mpi_service *s, struct task_vars *task, const json_t *value, struct err *err)
{
	size_t *bytes = task ? &task->given_bytes : &s->common_bytes;
	size_t most = task ? ENVIRON_TASK_BYTES : ENVIRON_BYTES;
	int r;

	if (!is_entry(value))
		return err_set_text(err, -EPROTO, "it hands out no environment entry");
	*bytes += json_string_length(value) + ENVIRON_ENTRY_BYTES;
	if (*bytes > most)
		return err_set_text(err, -E2BIG,
			"it hands out more than %zu bytes of environment for %s", most,
			task ? "a task" : "all tasks");
	r = strv_env_put(task ? &task->given : &s->common, json_string_value(value));
	return r < 0 ? err_set(err, r, "store what it hands out") : 0;
}

/* {"do": "environ", "local": 3, "set": ["NAME=VALUE"]} */
static int take_environ(struct mpi_service *s, const json_t *object, struct err *err)
{
	const json_t *local = json_object_get(object, "local"),
		     *set = json_object_get(object, "set");
	json_int_t id = json_integer_value(local);
	struct task_vars *task = NULL;
	size_t i;
	int r = 0;

	if (local && (!json_is_integer(local) || id < 0 || id >= s->tasks_count))
		return err_set_text(
			err, -EPROTO, "it hands out an environment for no task of this node");
	if (local)
		task = &s->tasks[id];
	for (i = 0; r == 0 && i < json_array_size(set); i++)
		r = put_entry(s, task, json_array_get(set, i), err);
	return r;
}

/* 1: it is ready; 0: not yet; or why it never will be. */
static int take_message(struct mpi_service *s, const json_t *object, struct err *err)
{
	const char *what = json_string_value(json_object_get(object, "do"));
	const char *why = json_string_value(json_object_get(object, "why"));

	if (what && strcmp(what, "ready") == 0)
		return 1;
	if (what && strcmp(what, "environ") == 0)
		return take_environ(s, object, err);
	if (what && strcmp(what, "failed") == 0)
		return err_set_text(err, -EIO, "%s", why ? why : "it gives no reason");
	s->options->message(object, s->options->userdata);
	return 0;
}

/* A service that sends much gets no more time, and others do not wait for it. */
static int next_message(
	struct mpi_service *s, uint64_t until_ms, struct link_message *ret_message, struct err *err)
{
	const struct mpi_service_options *options = s->options;
	bool polls = s->received++ % MESSAGES_PER_POLL == MESSAGES_PER_POLL - 1;
	uint64_t now;
	int r;

	for (;; polls = false) {
		r = polls ? -EAGAIN : link_receive_bare(s->link_fd, ret_message);
		if (r == -EPIPE)
			return err_set_text(err, r, "it has ended");
		if (r < 0 && r != -EAGAIN)
			return err_set(err, r, "receive a message of it");
		now = clock_now_ms();
		if (r == 0 && now < until_ms)
			return 0;
		if (now >= until_ms ||
			!options->meanwhile(s->link_fd, until_ms - now, options->userdata))
			return err_set_text(err, -ETIMEDOUT, "it was not ready after %llu ms",
				(unsigned long long)options->start_timeout_ms);
	}
}

static int wait_until_ready(struct mpi_service *s, struct err *err)
{
	uint64_t until_ms = clock_now_ms() + s->options->start_timeout_ms;
	int r = 0;

	while (r == 0) {
		_cleanup_link_message_ struct link_message message = LINK_MESSAGE_INIT;

		r = next_message(s, until_ms, &message, err);
		if (r == 0)
			r = take_message(s, message.object, err);
	}
	return r < 0 ? r : 0;
}

static void close_all(int *fds, uint32_t count)
{
	uint32_t i;

	for (i = 0; fds && i < count; i++)
		(void)close_fd(fds[i]);
	free(fds);
}

static int make_pairs(struct mpi_service *s, int **ret_fds, struct err *err)
{
	int *fds = calloc(s->tasks_count + 1, sizeof(*fds));
	int pair[2];
	uint32_t i;

	if (!fds)
		return err_set(err, -ENOMEM, "start it");
	for (i = 0; i < s->tasks_count; i++) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
			int error = errno;

			close_all(fds, i);
			return err_set(err, -error,
				"make the %u tasks' descriptors (raise the limit of open files, "
				"ulimit -Hn)",
				s->tasks_count);
		}
		s->tasks[i].fd = pair[0];
		fds[i] = pair[1];
	}
	*ret_fds = fds;
	return 0;
}

/* What the kernel and the C library both know of the calling thread, in its memory: fork(2) passes
 * it on to the child, clone3(2) leaves that to the caller. */
struct libc_thread {
	pid_t *tid; /* where the C library reads its thread id */
	void *robust_list;
	size_t robust_size;
};

/* False where it isn't as the GNU C library has it, or the kernel does not report it
 * (CONFIG_CHECKPOINT_RESTORE): musl has a lock where the kernel is to clear the thread id. */
static bool libc_thread_find(struct libc_thread *ret)
{
	return prctl(PR_GET_TID_ADDRESS, &ret->tid, 0, 0, 0) == 0 && ret->tid &&
		*ret->tid == (pid_t)syscall(SYS_gettid) &&
		syscall(SYS_get_robust_list, 0, &ret->robust_list, &ret->robust_size) == 0;
}

/* As fork(), into the cgroup: the caller has one thread, and no lock of the C library is held. */
static pid_t clone_in_cgroup(int cgroup_fd, const struct libc_thread *thread)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID,
		.child_tid = (uint64_t)(uintptr_t)thread->tid,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)cgroup_fd,
	};
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

	if (pid == 0 && thread->robust_list)
		(void)syscall(SYS_set_robust_list, thread->robust_list, thread->robust_size);
	return pid;
}

/* Where the C library's thread id can't be set, a child born in the cgroup calls fork(), which
 * knows no cgroup. Its end leaves the service to the caller, the next subreaper. Returns the
 * service's pid, in the service 0. */
static pid_t fork_in_cgroup(int cgroup_fd, int pid_fd)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)cgroup_fd,
	};
	pid_t between = (pid_t)syscall(SYS_clone3, &args, sizeof(args)), pid;

	if (between != 0)
		return between;
	pid = fork();
	if (pid == 0)
		return 0;
	if (pid < 0)
		pid = -errno;
	_exit(write(pid_fd, &pid, sizeof(pid)) != sizeof(pid));
}

static int reap(pid_t pid)
{
	int r, status;

	do
		r = waitpid(pid, &status, 0);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

static int fork_twice(const struct mpi_service_options *o, pid_t *ret_pid)
{
	int fds[2], r = 0;
	pid_t between;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	between = fork_in_cgroup(o->cgroup_fd, fds[1]);
	if (between == 0) {
		*ret_pid = 0; /* it closes all that it need not have */
		return 0;
	}
	if (between < 0)
		r = -errno;
	(void)close(fds[1]);
	if (r == 0 && read(fds[0], ret_pid, sizeof(*ret_pid)) != sizeof(*ret_pid))
		r = -ECHILD; /* it was killed */
	(void)close(fds[0]);
	if (between > 0)
		(void)!reap(between); /* ours, and ends by itself */
	return r < 0 ? r : *ret_pid < 0 ? *ret_pid : 0;
}

/* In the cgroup from its first instruction on. */
static int fork_born(const struct mpi_service_options *o, pid_t *ret_pid)
{
	struct libc_thread thread;

	if (!libc_thread_find(&thread))
		return fork_twice(o, ret_pid);
	*ret_pid = clone_in_cgroup(o->cgroup_fd, &thread);
	return *ret_pid < 0 ? -errno : 0;
}

static int fork_plain(pid_t *ret_pid)
{
	*ret_pid = fork();
	return *ret_pid < 0 ? -errno : 0;
}

/* Below a cgroup that was once killed SIGKILL is sent to what is born (proctrack(7), "The poison
 * rule"). It may have been taken by now, and the process not be a zombie yet. */
static bool is_being_killed(pid_t pid)
{
	struct procstat st;

	return procstat_read(pid, &st) == 0 &&
		(!procstat_is_living(&st) || st.pending & (1u << (SIGKILL - 1)) ||
			st.exit_code != 0);
}

/* Into the cgroup if that can be; the child enters it by itself if not. In the child s->pid is 0.
 */
static int fork_into_cgroup(struct mpi_service *s, struct service_process *p)
{
	const struct mpi_service_options *o = p->options;
	int r = -EOPNOTSUPP;

	p->is_born_there = o->cgroup_fd >= 0 && o->cgroup_may_clone;
	if (p->is_born_there)
		r = fork_born(o, &s->pid);
	if (r == 0 && s->pid > 0 && is_being_killed(s->pid)) {
		(void)!reap(s->pid); /* a child of ours, which ends */
		r = -EOPNOTSUPP;
	}
	if (r == 0 || r == -EAGAIN || r == -ENOMEM || r == -EMFILE || r == -ENFILE)
		return r;
	s->failed_birth = p->is_born_there;
	p->is_born_there = false;
	return fork_plain(&s->pid);
}

static int fork_process(struct mpi_service *s, struct service_process *p, struct err *err)
{
	sigset_t all, saved;
	int link[2];
	int r = link_pair(link, err);

	if (r < 0)
		return r;
	s->link_fd = link[0];
	p->service.link_fd = link[1];
	(void)sigfillset(&all); /* can't fail, nor can the two calls with valid arguments */
	(void)sigprocmask(SIG_SETMASK, &all, &saved);
	r = fork_into_cgroup(s, p);
	if (r == 0 && s->pid == 0)
		service_process_run(p);
	(void)sigprocmask(SIG_SETMASK, &saved, NULL);
	(void)close(link[1]);
	if (r < 0)
		s->pid = 0;
	return r < 0 ? err_set(err, r, "fork it") : 0;
}

/* A child of ours that nobody has reaped. */
static void end_process(struct mpi_service *s)
{
	if (s->pid <= 0)
		return;
	(void)kill(s->pid, SIGKILL);
	(void)!reap(s->pid);
	s->pid = 0;
}

static int start(struct mpi_service *s, struct service_process *p, bool task_fds, struct err *err)
{
	int *fds = NULL, r;

	s->task_fds = task_fds;
	r = add_tasks(s, p->service.job->node_tasks);
	if (r < 0)
		return err_set(err, r, "start it");
	if (task_fds)
		r = make_pairs(s, &fds, err);
	p->service.task_fd = fds;
	if (r == 0)
		r = fork_process(s, p, err);
	close_all(fds, s->tasks_count);
	return r;
}

#define CANT_SERVE "the MPI service process can't serve this step"

int mpi_service_start(const stepd_step_rec_t *job, stepd_mpi_service_fn main, void *userdata,
	bool task_fds, const struct mpi_service_options *options, struct mpi_service **ret_service,
	struct err *err)
{
	_cleanup_(mpi_service_free_p) struct mpi_service *s = service_new();
	struct service_process p = {
		.service = {.api_version = STEPD_API_VERSION, .job = job, .userdata = userdata},
		.main = main,
		.options = options,
	};
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "start the MPI service process");
	s->options = options;
	r = start(s, &p, task_fds, err);
	if (r < 0)
		return err_prefix(err, CANT_SERVE);
	*ret_service = take_ptr(s);
	return 0;
}

int mpi_service_wait(struct mpi_service *s, struct err *err)
{
	int r = wait_until_ready(s, err);

	if (r == 0)
		return 0;
	end_process(s);
	return err_prefix(err, CANT_SERVE);
}
