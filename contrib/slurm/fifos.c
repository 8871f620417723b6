/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/fifos.h"

#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>

#include "stepd/base/fs.h"
#include "stepd/base/parse.h"

#define NAME_SIZE 16

static const char letters[FIFO_KIND_MAX] = {
	[FIFO_STDIN] = 'i', [FIFO_STDOUT] = 'o', [FIFO_STDERR] = 'e'};

static void make_name(
	const struct fifos *f, enum fifo_kind kind, uint32_t rank, char name[static NAME_SIZE])
{
	(void)snprintf(name, NAME_SIZE, "%c%u", letters[kind], f->first_rank + rank);
}

bool fifos_parse_input(const struct fifos *f, const char *name, uint32_t *ret_rank)
{
	uint32_t n;

	if (name[0] != letters[FIFO_STDIN] ||
		parse_u32(name + 1, f->first_rank, UINT32_MAX, &n) < 0)
		return false;
	*ret_rank = n - f->first_rank;
	return true;
}

char *fifos_pattern(const struct fifos *f, enum fifo_kind kind)
{
	char *pattern;

	return asprintf(&pattern, "%s/%c%%t", f->path, letters[kind]) < 0 ? NULL : pattern;
}

/* ---- the directory ------------------------------------------------------------------------- */

/* Its files are this program's alone: no directory is among them. */
static void remove_files(int dir_fd)
{
	_cleanup_closedir_ DIR *dir = fs_opendir(dir_fd, ".");
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			(void)unlinkat(dir_fd, entry->d_name, 0); /* else rmdir() fails, too */
	}
}

static int open_dir(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Users pass it, and can't list it. */
static int open_root(struct err *err)
{
	_cleanup_close_ int fd = -1;
	int r = mkdir(FIFOS_ROOT, 0711) < 0 && errno != EEXIST ? -errno : 0;

	if (r == 0)
		fd = r = open_dir(AT_FDCWD, FIFOS_ROOT);
	if (r >= 0 && fchmod(fd, 0711) < 0) /* the umask */
		r = -errno;
	if (r < 0)
		return err_set(err, r, "make the directory '%s'", FIFOS_ROOT);
	r = fs_check_trusted(fd, FIFOS_ROOT, err);
	return r < 0 ? r : take_fd(&fd);
}

int fifos_open(struct fifos *f, const char *name, struct err *err)
{
	_cleanup_close_ int root = open_root(err);
	_cleanup_close_ int old = -1;
	int r;

	if (root < 0)
		return root;
	if (asprintf(&f->path, "%s/%s", FIFOS_ROOT, name) < 0) {
		f->path = NULL;
		return err_set(err, -ENOMEM, "make the step's streams");
	}
	old = open_dir(root, name);
	if (old >= 0)
		remove_files(old);
	r = mkdirat(root, name, 0711) < 0 && errno != EEXIST ? -errno : 0;
	if (r == 0)
		f->dir_fd = r = open_dir(root, name);
	if (r >= 0 && fchmod(f->dir_fd, 0711) < 0)
		r = -errno;
	return r < 0 ? err_set(err, r, "make the directory '%s'", f->path) : 0;
}

void fifos_close(struct fifos *f)
{
	if (f->dir_fd >= 0) {
		remove_files(f->dir_fd);
		(void)rmdir(f->path); /* the next step of that name does it */
	}
	f->dir_fd = close_fd(f->dir_fd);
	free(f->path);
	f->path = NULL;
}

/* ---- FIFOs --------------------------------------------------------------------------------- */

int fifos_make(
	const struct fifos *f, enum fifo_kind kind, uint32_t rank, uid_t uid, struct err *err)
{
	_cleanup_close_ int fd = -1;
	char name[NAME_SIZE];

	make_name(f, kind, rank, name);
	if (mkfifoat(f->dir_fd, name, 0600) == 0)
		fd = openat(f->dir_fd, name,
			(kind == FIFO_STDIN ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_NOFOLLOW |
				O_CLOEXEC);
	/* After the open: the user's own name for it changes nothing here. */
	if (fd < 0 || fchown(fd, uid, (gid_t)-1) < 0)
		return err_set(err, -errno, "make the FIFO '%s/%s'", f->path, name);
	return take_fd(&fd);
}

int fifos_make_empty(const struct fifos *f, uint32_t rank, struct err *err)
{
	char name[NAME_SIZE];

	make_name(f, FIFO_STDIN, rank, name);
	return symlinkat("/dev/null", f->dir_fd, name) < 0
		? err_set(err, -errno, "make the link '%s/%s'", f->path, name)
		: 0;
}

int fifos_open_terminal(int *ret_master, int *ret_slave)
{
	_cleanup_close_ int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	int unlocked = 0, slave;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlocked) < 0)
		return -errno;
	/* By the master, not by a name (Linux 4.13). */
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return -errno;
	*ret_master = take_fd(&master);
	*ret_slave = slave;
	return 0;
}

/* As slurmstepd has it: the kernel's settings, and no carriage returns before newlines. */
static int set_up_terminal(int fd, uid_t uid)
{
	struct termios t;

	if (tcgetattr(fd, &t) < 0)
		return -errno;
	t.c_oflag &= ~(tcflag_t)OPOST;
	if (tcsetattr(fd, TCSANOW, &t) < 0 || fchown(fd, uid, (gid_t)-1) < 0 ||
		fchmod(fd, S_IRUSR | S_IWUSR) < 0)
		return -errno;
	return 0;
}

int fifos_make_terminal(
	const struct fifos *f, uint32_t rank, uid_t uid, int *ret_other, struct err *err)
{
	_cleanup_close_ int master = -1, slave = -1;
	char name[NAME_SIZE], path[64];
	int r = fifos_open_terminal(&master, &slave);

	if (r == 0)
		r = set_up_terminal(slave, uid);
	if (r == 0 && ptsname_r(master, path, sizeof(path)) != 0)
		r = -errno;
	make_name(f, FIFO_STDOUT, rank, name);
	if (r == 0 && symlinkat(path, f->dir_fd, name) < 0)
		r = -errno;
	if (r < 0)
		return err_set(
			err, r, "make a pseudo-terminal for unbuffered output of rank %u", rank);
	*ret_other = take_fd(&slave);
	return take_fd(&master);
}

int fifos_open_writer(const struct fifos *f, uint32_t rank)
{
	char name[NAME_SIZE];
	int fd;

	make_name(f, FIFO_STDIN, rank, name);
	fd = openat(f->dir_fd, name, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
