/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/probe.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "proctrack/cgroup/root.h"
#include "stepd/base/fs.h"
#include "stepd/base/rawcall.h"
#include "systemd/systemd.h"

/* ---- births ---------------------------------------------------------------------------------- */

#define TRIAL_MS 1000 /* for a birth and an end, which take some 0.1 ms */

static void exit_child(void *unused)
{
	(void)unused;
	for (;;)
		(void)rawcall(SYS_exit_group, 0); /* no atexit, no flush */
}

/* A child that is born in the cgroup and ends at once. It shares the memory where it can have a
 * stack in it, which is a sixth of the cost of a copy. */
static int clone_child(int fd, void *stack, size_t stack_size, int *ret_pidfd)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP | CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)ret_pidfd,
		.exit_signal = 0, /* a child that wait() without __WALL passes over */
		.cgroup = (uint64_t)fd,
	};
	long r;

	if (RAWCALL_NATIVE) {
		args.flags |= CLONE_VM;
		args.stack = (uint64_t)(uintptr_t)stack;
		args.stack_size = stack_size;
		r = rawcall_clone_onto(&args, sizeof(args), exit_child, NULL);
	} else {
		r = rawcall(SYS_clone3, &args, sizeof(args));
		if (r == 0)
			exit_child(NULL);
	}
	return r < 0 ? (int)r : 0;
}

/* Or is killed: in a group that is frozen, or below one, it does not run, but SIGKILL ends it. What
 * kills at birth would have done so by then, so a birth is possible there. */
static bool ends_in_time(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	int r;

	do
		r = poll(&p, 1, TRIAL_MS);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		(void)syscall(
			SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0); /* not reaped: there */
	return r != 0;
}

int clone_try(int fd)
{
	_Alignas(16) char stack[1024]; /* the child's, which has ended when this returns */
	_cleanup_close_ int pidfd = -1;
	bool stood;
	siginfo_t info = {.si_pid = 0};
	sigset_t all, before;
	int r;

	/* A handler of the caller must not run in the child. */
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, &before);
	r = clone_child(fd, stack, sizeof(stack), &pidfd);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	if (r < 0)
		return r == -EAGAIN || r == -ENOMEM || r == -EMFILE || r == -ENFILE ? r
										    : -EOPNOTSUPP;
	stood = !ends_in_time(pidfd);
	do
		r = waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | __WALL);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return stood || (info.si_code == CLD_EXITED && info.si_status == 0) ? 0 : -EOPNOTSUPP;
}

/* ---- a group to try things in ---------------------------------------------------------------- */

#define PREFIX   "stepd-checkup-"
#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static int open_locked(int parent_fd, const char *name)
{
	_cleanup_close_ int fd = openat(parent_fd, name, OPEN_DIR);

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	return take_fd(&fd);
}

static void remove_left(int parent_fd)
{
	_cleanup_closedir_ DIR *dir = fs_opendir(parent_fd, ".");
	struct dirent *d;
	int left;

	while (dir && (d = readdir(dir))) {
		if (strncmp(d->d_name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		left = open_locked(parent_fd, d->d_name);
		if (left >= 0)
			(void)unlinkat(parent_fd, d->d_name, AT_REMOVEDIR); /* the next tries */
		(void)close_fd(left);
	}
}

/* Another that cleans up may get at it between the two calls: then it is made again. */
static int make_locked(int parent_fd, const char *name)
{
	int tries, fd = -ENOENT;

	for (tries = 0; tries < 3 && fd < 0; tries++) {
		if (mkdirat(parent_fd, name, 0755) < 0 && errno != EEXIST)
			return -errno;
		fd = open_locked(parent_fd, name);
		if (fd >= 0 && faccessat(fd, "cgroup.procs", F_OK, 0) < 0) {
			(void)close_fd(fd);
			fd = -ENOENT;
		}
	}
	return fd;
}

int trial_open(int parent_fd, struct trial *ret_trial)
{
	struct trial trial = {.parent_fd = parent_fd};
	sigset_t all;
	mode_t mask;

	(void)snprintf(trial.name, sizeof(trial.name), PREFIX "%d", (int)getpid());
	(void)sigfillset(&all); /* can't fail, nor can the next */
	(void)sigprocmask(SIG_BLOCK, &all, &trial.signals);
	remove_left(parent_fd);
	mask = umask(022);
	trial.fd = make_locked(parent_fd, trial.name);
	(void)umask(mask);
	if (trial.fd < 0) {
		(void)sigprocmask(SIG_SETMASK, &trial.signals, NULL); /* as above */
		return trial.fd;
	}
	*ret_trial = trial;
	return 0;
}

void trial_close(struct trial *trial)
{
	if (trial->fd < 0)
		return;
	(void)unlinkat(trial->parent_fd, trial->name, AT_REMOVEDIR); /* the next one tries again */
	trial->fd = close_fd(trial->fd);
	(void)sigprocmask(SIG_SETMASK, &trial->signals, NULL); /* as in trial_open() */
}

/* ---- the root -------------------------------------------------------------------------------- */

#define REMEDY                                                                                     \
	"run it as root, in a unit with Delegate=yes ('systemd-run --user --scope -p "             \
	"Delegate=yes ...'), or set " ROOT_ENV " to a cgroup2 directory that it may use"

#define REMEDY_READ_ONLY                                                                           \
	"mount it read-write in this container, or set " ROOT_ENV                                  \
	" to a directory of a cgroup2 mount that is"

static int err_unusable(
	const struct cgroup_root *p, int code, const char **ret_remedy, struct err *err)
{
	if (code == -EROFS) {
		*ret_remedy = REMEDY_READ_ONLY;
		return err_set_text(
			err, code, "cgroup2 is mounted read-only at '%s'", p->mount.point);
	}
	*ret_remedy = REMEDY;
	return err_set(err, code, "can't make a cgroup in '%s' (%s)", p->path, root_get_reason(p));
}

void probe_forget(const struct cgroup_root *p)
{
	(void)unlinkat(p->fd, "stepd", AT_REMOVEDIR); /* another agent may use it by now */
}

static int probe_abilities_of(int fd, bool made, struct probe_abilities *ret)
{
	_cleanup_free_ char *type = NULL;

	if (!made && faccessat(fd, ".", W_OK, AT_EACCESS) < 0)
		return -errno;
	/* "domain invalid": the root is threaded, and no process may come in. */
	if (fs_read(fd, "cgroup.type", 4096, &type, NULL) == 0 && strcmp(type, "domain\n") != 0)
		return -EOPNOTSUPP;
	ret->kill = faccessat(fd, "cgroup.kill", F_OK, 0) == 0;
	ret->freeze = faccessat(fd, "cgroup.freeze", F_OK, 0) == 0;
	return 0;
}

/* Makes stepd/ as the first step would. Permission bits alone don't show it: the mount may be
 * read-only, the number of groups limited. */
static int try_group(const struct cgroup_root *p, struct probe_abilities *ret)
{
	mode_t mask = umask(022);
	bool made = mkdirat(p->fd, "stepd", 0755) == 0;
	int r = made || errno == EEXIST ? 0 : -errno;
	_cleanup_close_ int fd = -1;

	(void)umask(mask);
	if (r < 0)
		return r;
	fd = openat(p->fd, "stepd", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = fd < 0 ? -errno : probe_abilities_of(fd, made, ret);
	ret->made = made && r == 0;
	if (made && r < 0)
		probe_forget(p);
	return r;
}

/* To put a process into a group, a user must be allowed to write the cgroup.procs of the lowest
 * group above both where it is and where it goes. */
static int check_way_in(const struct cgroup_root *p, struct err *err)
{
	_cleanup_free_ char *own = NULL, *below = NULL;
	int r;

	if (geteuid() == 0)
		return 0;
	r = cgpath_of(0, &own);
	if (r == 0)
		r = root_map(p, own, &below);
	if (r == -ENOENT)
		return err_set_text(err, -EACCES,
			"this process is in cgroup '%s', outside of '%s', and may not put processes "
			"there",
			own, p->path);
	if (r == 0 && faccessat(p->fd, "cgroup.procs", W_OK, AT_EACCESS) < 0)
		r = -errno;
	return r < 0 ? err_set(err, r, "can't put processes into '%s'", p->path) : 0;
}

int probe_try(const struct cgroup_root *p, struct probe_abilities *ret, const char **ret_remedy,
	struct err *err)
{
	int r = try_group(p, ret);

	if (r < 0)
		return err_unusable(p, r, ret_remedy, err);
	*ret_remedy = REMEDY;
	r = check_way_in(p, err);
	if (r < 0 && ret->made)
		probe_forget(p);
	return r;
}

/* The scope that systemd would give is not tried out: a step that starts here requests it, and goes
 * on with the next best root if it is refused. */
static void describe_offered(const struct cgroup_root *p, char *text, size_t size)
{
	(void)snprintf(text, size,
		"cgroup v2 at %s, each step in a scope that %s systemd makes (" SCOPE_SLICE
		"): tracks every process from birth to end, daemons too; kill by cgroup.kill",
		p->mount.point, geteuid() == 0 ? "the system's" : "the user's own");
}

static int probe_group(
	const struct cgroup_root *p, char *text, size_t size, bool *ret_made, struct err *err)
{
	_cleanup_free_ char *controllers = NULL;
	struct probe_abilities can = {.kill = false};
	struct err reason = ERR_INIT;
	const char *remedy;
	int r = probe_try(p, &can, &remedy, &reason);

	if (r < 0)
		return err_set_text(err, r, "%s; %s", reason.text, remedy);
	*ret_made = can.made;
	if (fs_read(p->fd, "cgroup.controllers", 4096, &controllers, NULL) == 0)
		controllers[strcspn(controllers, "\n")] = '\0';
	(void)snprintf(text, size,
		"cgroup v2 at %s, steps below %s/stepd (%s): tracks every process from birth to end, "
		"daemons too; kill by %s, other signals %s; controllers here: %s",
		p->mount.point, p->path, root_get_reason(p),
		can.kill ? "cgroup.kill" : "repeated SIGKILL (no cgroup.kill before Linux 5.14)",
		can.freeze ? "with all stopped" : "repeated (no freezer before Linux 5.2)",
		controllers && *controllers ? controllers : "none");
	return 0;
}

int probe_root(
	const struct cgroup_root *p, char *text, size_t size, bool *ret_made, struct err *err)
{
	enum root_outcome outcome;
	const char *why = root_explain(p, ROOT_SCOPE, &outcome);
	int r;

	*ret_made = false;
	if (outcome == ROOT_OFFERED) {
		describe_offered(p, text, size);
		return 0;
	}
	r = probe_group(p, text, size, ret_made, err);
	if (r < 0 && outcome == ROOT_FAILED)
		return err_prefix(
			err, "no scope of systemd can be had for the step: %s; else", why);
	return r;
}
