/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/trial.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

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
	int fd = openat(parent_fd, ".", OPEN_DIR);
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;
	int left;

	if (!dir)
		(void)close_fd(fd);
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
