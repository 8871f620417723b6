/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/service_process.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "mpi/confine.h"
#include "stepd/base/fs.h"

#define SERVICE_NAME "stepd-mpi"

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

/* 0, 1 and 2 are replaced; what is neither kept nor the service's is closed. */
static int keep_only(const struct service_process *p)
{
	const struct mpi_service_options *o = p->options;
	uint32_t tasks = p->service.task_fd ? p->service.job->node_tasks : 0;
	size_t n = 0, i, room = 2 + o->keep_fds_count + tasks;
	_cleanup_free_ int *keep = calloc(room, sizeof(*keep));
	unsigned next = 3;
	int null;

	if (!keep)
		return -ENOMEM;
	keep[n++] = p->service.link_fd;
	for (i = 0; i < o->keep_fds_count; i++)
		keep[n++] = o->keep_fds[i];
	for (i = 0; i < tasks; i++)
		keep[n++] = p->service.task_fd[i];
	qsort(keep, n, sizeof(*keep), compare_fds);
	for (i = 0; i < n; i++) {
		if (keep[i] < (int)next)
			continue;
		close_between(next, (unsigned)keep[i] - 1);
		next = (unsigned)keep[i] + 1;
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

static int set_nonblocking(const struct service_process *p)
{
	uint32_t i;

	for (i = 0; p->service.task_fd && i < p->service.job->node_tasks; i++) {
		if (fcntl(p->service.task_fd[i], F_SETFL, O_NONBLOCK) < 0)
			return -errno;
	}
	return 0;
}

/* Out of reach of a terminal, and no way to one. Not by a session of its own: where the kernel
 * shares the processors out by sessions (sched_autogroup_enabled), one process beside a hundred
 * that poll was seen to wait for its turn for 24 s (Linux 6.18). */
static int leave_terminal(void)
{
	_cleanup_close_ int fd = -1;

	if (setpgid(0, 0) < 0)
		return -errno;
	fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return 0; /* it has none */
	return ioctl(fd, TIOCNOTTY) < 0 ? -errno : 0;
}

/* A write to who is gone fails. */
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

/* What it has by now, the agent's copied memory and a sanitizer's shadow, does not count. */
static int limit_memory(uint64_t memory_bytes)
{
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

/* What the caller can do without it is done without it, and reported. */
static int filter_calls(const struct service_process *p)
{
	const char *why = "this kernel has none (CONFIG_SECCOMP_FILTER)", *level = "warning";
	int r = p->options->unfiltered ? -EOPNOTSUPP : confine_filter(p->service.link_fd);

	if (r != -EOPNOTSUPP)
		return r;
	if (p->options->unfiltered || !confine_has_filter()) { /* somebody has decided so */
		why = p->options->unfiltered ? "mpi_filter of stepd.conf(5) says no"
					     : "stepd was built without libseccomp";
		level = "info";
	}
	/* The first message on the link: there is space for it. */
	return link_send_take(p->service.link_fd,
		json_pack("{s:s, s:s, s:s+}", "do", "log", "level", level, "text",
			"no system call filter confines the service process: ", why),
		NULL, 0);
}

/* What could not be born there moves, which takes some 8 ms. */
static int enter_cgroup(const struct mpi_service_options *o)
{
	return o->cgroup_fd >= 0 && !o->cgroup_may_clone
		? fs_write(o->cgroup_fd, "cgroup.procs", "0")
		: 0;
}

static int prepare(const struct service_process *p, const char **ret_what)
{
	int r;

	*ret_what = "enter the step's cgroup";
	r = enter_cgroup(p->options);
	if (r < 0)
		return r;
	*ret_what = "leave the terminal";
	r = leave_terminal();
	if (r == 0) {
		*ret_what = "close what it need not have";
		r = keep_only(p);
	}
	if (r == 0)
		r = set_nonblocking(p);
	if (r == 0) {
		*ret_what = "become the user";
		r = become(p);
	}
	if (r == 0) {
		*ret_what = "limit its memory";
		r = limit_memory(p->options->memory_bytes);
	}
	if (r == 0) {
		*ret_what = "filter its system calls";
		set_signals();
		r = filter_calls(p);
	}
	return r;
}

_noreturn_ void service_process_run(const struct service_process *p)
{
	struct err err = ERR_INIT;
	const char *what;
	int r;

	(void)prctl(PR_SET_NAME, SERVICE_NAME); /* for ps(1) only */
	r = prepare(p, &what);
	if (r < 0) {
		(void)err_set(&err, r, "it can't %s", what);
		/* If that fails too, the agent sees the end. */
		(void)!link_send_take(p->service.link_fd,
			json_pack("{s:s, s:s}", "do", "failed", "why", err.text), NULL, 0);
		_exit(1);
	}
	_exit(p->main(&p->service));
}
