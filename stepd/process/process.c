/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/process/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stepd/base/fs.h"
#include "stepd/base/proc.h"
#include "stepd/process/identity.h"

#define AGENT_OOM_SCORE_ADJ "-999" /* killed last but for one */

static void do_nothing(int signal)
{
	(void)signal;
}

static int fill_standard_fds(struct err *err)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return err_set(err, -errno, "open '/dev/null'");
	} while (fd <= 2);
	(void)close(fd);
	return 0;
}

static void mark_inherited_fds(void)
{
	int fd;

	if (syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
		return;
	/* before Linux 5.11; children mark them again */
	for (fd = 3; fd < 1024; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC); /* EBADF for most */
}

static bool is_retained(int fd, const int *retained, size_t retained_count)
{
	size_t i;

	for (i = 0; i < retained_count && retained[i] != fd; i++)
		;
	return i < retained_count;
}

/* Before Linux 5.9. */
static void close_listed(const int *retained, size_t retained_count)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc/self/fd");
	struct dirent *d;
	int fd;

	while (dir && (d = readdir(dir))) {
		fd = atoi(d->d_name);
		if (fd > STDERR_FILENO && fd != dirfd(dir) &&
			!is_retained(fd, retained, retained_count))
			(void)close(fd); /* whatever it was */
	}
}

void process_close_inherited(const int *retained, size_t retained_count)
{
	unsigned first = STDERR_FILENO + 1, next;
	size_t i;

	do {
		for (next = ~0u, i = 0; i < retained_count; i++) {
			if (retained[i] >= (int)first && (unsigned)retained[i] < next)
				next = (unsigned)retained[i];
		}
		if (next > first &&
			syscall(SYS_close_range, first, next == ~0u ? next : next - 1, 0) < 0) {
			close_listed(retained, retained_count);
			return;
		}
		first = next + 1;
	} while (next != ~0u);
}

/* By the system call: the C library refuses the two signals that it reserves for its threads,
 * although a caller may have left them ignored. */
void process_default_signals(void)
{
	static const struct {
		uint64_t handler, flags, restorer, mask;
	} dfl; /* the kernel's struct on all 64-bit machines; zero is SIG_DFL */
	int i;

	for (i = 1; i <= SIGRTMAX; i++) {
		if (i != SIGKILL && i != SIGSTOP)
			(void)syscall(
				SYS_rt_sigaction, i, &dfl, NULL, sizeof(dfl.mask)); /* valid */
	}
}

/* Signals that would end the agent without its step and mean nothing here. Handled, not ignored:
 * an exec resets a handler. The signals of faults stay as they are. */
static void survive_strays(bool ignore_hup)
{
	const struct sigaction nothing = {.sa_handler = do_nothing, .sa_flags = SA_RESTART};
	static const int strays[] = {SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR,
		SIGSTKFLT, SIGPIPE, SIGXFSZ};
	size_t i;
	int sig;

	for (i = 0; i < ARRAY_SIZE(strays); i++)
		(void)sigaction(strays[i], &nothing, NULL); /* valid arguments can't fail */
	for (sig = SIGRTMIN; sig <= SIGRTMAX; sig++)
		(void)sigaction(sig, &nothing, NULL); /* likewise */
	if (ignore_hup)
		(void)sigaction(SIGHUP, &nothing, NULL); /* likewise */
}

static int reset_signals(struct err *err)
{
	struct sigaction old;
	sigset_t set;

	if (sigaction(SIGHUP, NULL, &old) < 0)
		return err_set(err, -errno, "read the action of SIGHUP");
	process_default_signals();
	/* SIGPIPE and SIGXFSZ among them: writes fail instead */
	survive_strays(old.sa_handler == SIG_IGN);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTTIN);
	(void)sigaddset(&set, SIGTTOU);
	return sigprocmask(SIG_SETMASK, &set, NULL) < 0
		? err_set(err, -errno, "set the signal mask")
		: 0;
}

int process_prepare(struct err *err)
{
	int r = fill_standard_fds(err);

	if (r < 0)
		return r;
	mark_inherited_fds();
	return reset_signals(err);
}

bool process_ignores_hup(void)
{
	struct sigaction hup = {.sa_handler = SIG_DFL};

	(void)sigaction(SIGHUP, NULL, &hup); /* valid arguments can't fail */
	return hup.sa_handler != SIG_DFL;
}

static const int caught[] = {SIGCHLD, SIGTERM, SIGINT, SIGQUIT, SIGTSTP, SIGUSR2, SIGHUP, SIGWINCH,
	SIGCONT /* continues a stopped agent even when blocked */};

static sigset_t make_set(const int *signals, size_t count)
{
	sigset_t set;
	size_t i;

	(void)sigemptyset(&set); /* can't fail, nor can the others with valid arguments */
	for (i = 0; i < count; i++) {
		if (signals[i] != SIGHUP || !process_ignores_hup())
			(void)sigaddset(&set, signals[i]);
	}
	return set;
}

int process_watch_signals(const int *signals, size_t count, struct err *err)
{
	sigset_t set = make_set(signals, count);
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);

	if (fd < 0)
		return err_set(err, -errno, "make a descriptor for signals");
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0) {
		(void)close(fd);
		return err_set(err, -EINVAL, "block the signals");
	}
	return fd;
}

int process_catch_signals(struct err *err)
{
	return process_watch_signals(caught, ARRAY_SIZE(caught), err);
}

/* Not process_default_signals(): an exec has left no handler, and to set the default of SIGCHLD and
 * SIGCONT would forget those that came meanwhile. */
int process_continue(bool ignore_hup, struct err *err)
{
	sigset_t set;
	int r = fill_standard_fds(err), fd;

	if (r < 0)
		return r;
	mark_inherited_fds();
	survive_strays(ignore_hup);
	fd = process_catch_signals(err);
	if (fd < 0)
		return fd;
	set = make_set(caught, ARRAY_SIZE(caught));
	(void)sigaddset(&set, SIGTTIN); /* as in reset_signals() */
	(void)sigaddset(&set, SIGTTOU);
	(void)sigprocmask(SIG_SETMASK, &set, NULL); /* until here the old program had blocked all */
	return fd;
}

/* Lowering the score takes CAP_SYS_RESOURCE: without it the score stays. */
static void protect_from_oom(struct process_saved *saved)
{
	_cleanup_free_ char *text = NULL;

	saved->oom_score_adj[0] = '\0';
	if (geteuid() != 0 || fs_read(AT_FDCWD, "/proc/self/oom_score_adj", 64, &text, NULL) < 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	if (strlen(text) >= sizeof(saved->oom_score_adj))
		return;
	if (fs_write(AT_FDCWD, "/proc/self/oom_score_adj", AGENT_OOM_SCORE_ADJ) == 0)
		(void)snprintf(saved->oom_score_adj, sizeof(saved->oom_score_adj), "%s", text);
}

bool process_is_exposed(void)
{
	_cleanup_free_ char *text = NULL;

	return fs_read(AT_FDCWD, "/proc/sys/fs/suid_dumpable", 16, &text, NULL) < 0 ||
		text[0] == '1';
}

bool process_has_terminal(void)
{
	_cleanup_close_ int fd = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct procstat st;

	if (fd >= 0 || errno == ENXIO)
		return fd >= 0;
	/* no such device here, or it may not be opened */
	return procstat_read(getpid(), &st) < 0 || st.tty != 0;
}

void process_leave_session(void)
{
	if (!process_has_terminal())
		(void)setsid(); /* EPERM: it leads a group, or the session already */
}

int process_become_agent(struct process_saved *ret_saved, struct err *err)
{
	struct process_saved saved = {0};
	struct rlimit more;

	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return err_set(err, -errno, "become a child subreaper");
	process_leave_session();
	if (getrlimit(RLIMIT_NOFILE, &saved.nofile) < 0)
		return err_set(err, -errno, "read the limit of open files");
	more = saved.nofile;
	more.rlim_cur = more.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &more) < 0)
		return err_set(err, -errno, "raise the limit of open files");
	protect_from_oom(&saved);
	*ret_saved = saved;
	return 0;
}

static int narrow_terminal(int fd)
{
	_cleanup_close_ int own = -1;
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY || !isatty(fd))
		return 0;
	own = stdfd_reopen(fd, O_WRONLY);
	if (own < 0)
		return own;
	if (fcntl(own, F_SETFL, flags & O_APPEND) < 0 || dup2(own, fd) < 0)
		return -errno;
	return 0;
}

int process_narrow_terminals(const struct identity *id, struct err *err)
{
	int fd, r;

	for (fd = STDOUT_FILENO; id->switches && fd <= STDERR_FILENO; fd++) {
		r = narrow_terminal(fd);
		if (r < 0)
			return err_set(err, r,
				"open the terminal of standard %s for writing alone, as tasks of %s may "
				"have it (lead it through a pipe: '| cat', '2>&1')",
				fd == STDOUT_FILENO ? "output" : "error", id->user_name);
	}
	return 0;
}

int process_new_keyring(const struct identity *id, struct err *err)
{
	long key;

	if (!id->switches)
		return 0;
	/* Without a name: a named one could be another user's keyring that lets others search it,
	 * and its owner would read the tasks' keys. */
	key = syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
	if (key < 0 && errno == ENOSYS)
		return 0;
	if (key < 0)
		return err_set(err, -errno, "make a session keyring for the tasks");
	/* EDQUOT: the user has reached its quota of keys. The keyring stays root's then; tasks
	 * can use it, since they possess it. */
	if (syscall(SYS_keyctl, KEYCTL_CHOWN, key, id->uid, id->gid) < 0 && errno != EDQUOT)
		return err_set(err, -errno, "give the tasks' session keyring to %s", id->user_name);
	return 0;
}

/* ---- other programs ------------------------------------------------------------------------ */

static _noreturn_ void execute_child(int (*execute)(void *userdata), void *userdata, int error_fd)
{
	sigset_t none;
	int r;

	(void)sigemptyset(&none); /* can't fail with valid arguments, nor can the next two */
	process_default_signals();
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	r = execute(userdata);
	(void)!write(error_fd, &r, sizeof(r)); /* without it the exit status has less detail */
	_exit(STATUS_FAILED);
}

int process_execute(int (*execute)(void *userdata), void *userdata, struct pidref *ret_process)
{
	_cleanup_close_ int read_fd = -1, error_fd = -1;
	struct pidref process = PIDREF_INIT;
	int error = 0, fds[2], r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	read_fd = fds[0];
	error_fd = fds[1];
	pid = fork();
	if (pid == 0)
		execute_child(execute, userdata, error_fd);
	if (pid < 0)
		return -errno;
	error_fd = close_fd(error_fd);
	r = pidref_open(pid, 0, &process);
	if (r < 0)
		(void)kill(pid,
			SIGKILL); /* our child, not yet reaped: the pid can't have been reused */
	else if (read(read_fd, &error, sizeof(error)) == (ssize_t)sizeof(error))
		r = error;
	if (r < 0) {
		(void)waitpid(pid, NULL, 0);
		pidref_close(&process);
		return r;
	}
	*ret_process = process;
	return 0;
}

/* ---- descriptors beside the standard ones -------------------------------------------------- */

bool stdfd_inherited(int fd)
{
	int flags = fcntl(fd, F_GETFD);

	return flags >= 0 && !(flags & FD_CLOEXEC);
}

int stdfd_move_above(int fd)
{
	_cleanup_close_ int low = fd;
	int high;

	if (fd > STDERR_FILENO)
		return take_fd(&low);
	high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	return high < 0 ? -errno : high;
}

int stdfd_set_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

int stdfd_pipe(bool we_read, int ret_ends[2])
{
	_cleanup_close_ int read_end = -1, write_end = -1;
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	write_end = ends[1];
	r = stdfd_move_above(ends[0]);
	if (r < 0)
		return r;
	read_end = r;
	r = stdfd_move_above(take_fd(&write_end));
	if (r < 0)
		return r;
	write_end = r;
	r = stdfd_set_nonblock(we_read ? read_end : write_end, true);
	if (r < 0)
		return r;
	ret_ends[0] = take_fd(&read_end);
	ret_ends[1] = take_fd(&write_end);
	return 0;
}

int stdfd_reopen(int fd, int access)
{
	char path[64];
	struct stat st;
	int own;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISFIFO(st.st_mode) && !isatty(fd))
		return -EINVAL; /* opening another device again can have effects: a tape rewinds */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, access | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	return own < 0 ? -errno : stdfd_move_above(own);
}
