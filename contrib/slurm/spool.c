/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "contrib/slurm/names.h"
#include "stepd/base/fs.h"

#define LOCK_NAME ".lock"
/* A socket gets its name when it listens. The lock's holder alone makes one of the first name. */
#define NEW_NAME      ".new"
#define NEW_NAME_SIZE 24
#define BACKLOG       128

struct spool {
	char *path;
	int dir_fd;
	int lock_fd;
	char new_name[NEW_NAME_SIZE];
};

struct spool_socket {
	const struct spool *spool;
	int fd;
	char *name;
	struct stat st; /* of the name */
};

struct spool *spool_close(struct spool *spool)
{
	if (!spool)
		return NULL;
	(void)close_fd(spool->lock_fd);
	(void)close_fd(spool->dir_fd);
	free(spool->path);
	free(spool);
	return NULL;
}

DEFINE_CLEANUP(struct spool *, spool_close);

const char *spool_get_path(const struct spool *spool)
{
	return spool->path;
}

/* ---- whose directory it is ------------------------------------------------------------------- */

static int set_address(const struct spool *spool, const char *name, struct sockaddr_un *ret_address)
{
	int n;

	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(
		ret_address->sun_path, sizeof(ret_address->sun_path), "%s/%s", spool->path, name);
	return (size_t)n >= sizeof(ret_address->sun_path) ? -ENAMETOOLONG : 0;
}

/* Whether somebody listens at name: -ECONNREFUSED if nobody does any more, -ENOENT if there is
 * nothing. */
static int probe(const struct spool *spool, const char *name)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address;
	int r = set_address(spool, name, &address);

	if (fd < 0)
		return -errno;
	if (r < 0)
		return r;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 && errno != EAGAIN)
		return -errno;
	return 0;
}

struct search {
	const struct spool *spool;
	const char *prefix, *except;
};

static int probe_other(const char *name, _unused_ uint8_t type, void *userdata)
{
	const struct search *search = userdata;

	return strncmp(name, search->prefix, strlen(search->prefix)) == 0 &&
		strcmp(name, search->except) != 0 && probe(search->spool, name) == 0;
}

bool spool_has_listener(const struct spool *spool, const char *prefix, const char *except)
{
	struct search search = {.spool = spool, .prefix = prefix, .except = except};
	_cleanup_close_ int fd = openat(spool->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 && dirnames_each(fd, DIRNAMES_PIECE_MAX, probe_other, &search) > 0;
}

/* The files that slurmd, 22.05 to 26.11, has there. */
static int refuse_slurmds(const struct spool *spool, struct err *err)
{
	static const char *const marks[] = {
		"cred_state", "conf-cache", "hwloc_topo_whole.xml", "slurmd.socket"};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(marks); i++) {
		if (faccessat(spool->dir_fd, marks[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return err_set_text(err, -EEXIST,
				"'%s' is the spool directory of a slurmd (%s is there), which "
				"would take every socket there for a step of its own: choose "
				"another --spool, or use --force",
				spool->path, marks[i]);
	}
	return 0;
}

/* One entry with the name of a step's socket. With the lock held, one without a listener is of
 * an adapter that was killed; one that answers is of somebody else. */
static int check_socket(const struct spool *spool, const char *name, bool force, struct err *err)
{
	struct stat st;
	int r;

	if (!names_is_socket(name) || fstatat(spool->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		!S_ISSOCK(st.st_mode))
		return 0;
	r = probe(spool, name);
	if (r == 0 && !force)
		return err_set_text(err, -EEXIST,
			"a process answers at '%s/%s': this is the spool directory of a running "
			"slurmd; choose another --spool, or use --force",
			spool->path, name);
	if (r == -ECONNREFUSED && !force && unlinkat(spool->dir_fd, name, 0) < 0 && errno != ENOENT)
		return err_set(err, -errno, "remove what is left of '%s/%s'", spool->path, name);
	return 0;
}

static int check_sockets(const struct spool *spool, bool force, struct err *err)
{
	_cleanup_closedir_ DIR *dir = NULL;
	int fd = openat(spool->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	struct dirent *d;

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		r = -errno;
		(void)close_fd(fd);
		return err_set(err, r, "read '%s'", spool->path);
	}
	while ((d = readdir(dir))) {
		r = check_socket(spool, d->d_name, force, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int claim(struct spool *spool, struct err *err)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	spool->lock_fd =
		openat(spool->dir_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (spool->lock_fd < 0)
		return err_set(err, -errno, "open '%s/%s'", spool->path, LOCK_NAME);
	if (fcntl(spool->lock_fd, F_OFD_SETLK, &whole) == 0)
		return 0;
	if (errno == EACCES || errno == EAGAIN)
		return err_set_text(err, -EBUSY,
			"another stepd-slurm-socket has '%s': stop it, or choose another --spool",
			spool->path);
	return err_set(err, -errno, "lock '%s/%s'", spool->path, LOCK_NAME);
}

static int open_dir(const char *path, struct spool *spool, struct err *err)
{
	mode_t mask = umask(022); /* clients of all users read it */
	int r = mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;

	(void)umask(mask);
	if (r < 0)
		return err_set(err, r, "make the spool directory '%s' (--spool)", path);
	spool->path = realpath(path, NULL);
	if (!spool->path)
		return err_set(err, -errno, "find the spool directory '%s' (--spool)", path);
	spool->dir_fd = open(spool->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (spool->dir_fd < 0)
		return err_set(err, -errno, "open the spool directory '%s' (--spool)", path);
	/* In one that others can write to, they could replace our sockets by their own. */
	return fs_check_trusted(spool->dir_fd, spool->path, err);
}

static struct spool *spool_new(const char *new_name)
{
	struct spool *spool = calloc(1, sizeof(*spool));

	if (!spool)
		return NULL;
	spool->dir_fd = spool->lock_fd = -1;
	(void)snprintf(spool->new_name, sizeof(spool->new_name), "%s", new_name);
	return spool;
}

int spool_open_slurmds(const char *path, struct spool **ret_spool, struct err *err)
{
	_cleanup_(spool_close_p) struct spool *spool = NULL;
	char new_name[NEW_NAME_SIZE];
	int r;

	(void)snprintf(new_name, sizeof(new_name), NEW_NAME ".%d", (int)getpid());
	spool = spool_new(new_name);
	if (!spool)
		return err_set(err, -ENOMEM, "open the spool directory '%s'", path);
	r = open_dir(path, spool, err);
	if (r == 0)
		*ret_spool = take_ptr(spool);
	return r;
}

int spool_open(const char *path, bool force, struct spool **ret_spool, struct err *err)
{
	_cleanup_(spool_close_p) struct spool *spool = spool_new(NEW_NAME);
	int r;

	if (!spool)
		return err_set(err, -ENOMEM, "open the spool directory '%s'", path);
	r = open_dir(path, spool, err);
	if (r == 0 && !force)
		r = refuse_slurmds(spool, err);
	if (r == 0)
		r = claim(spool, err);
	if (r == 0)
		r = check_sockets(spool, force, err);
	if (r == 0)
		*ret_spool = take_ptr(spool);
	return r;
}

/* ---- sockets --------------------------------------------------------------------------------- */

void spool_socket_unlink(const struct spool_socket *socket)
{
	struct stat st;

	if (socket->st.st_ino != 0 &&
		fstatat(socket->spool->dir_fd, socket->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		st.st_dev == socket->st.st_dev && st.st_ino == socket->st.st_ino)
		(void)unlinkat(
			socket->spool->dir_fd, socket->name, 0); /* the next adapter tries again */
}

struct spool_socket *spool_socket_close(struct spool_socket *socket)
{
	if (!socket)
		return NULL;
	spool_socket_unlink(socket);
	(void)close_fd(socket->fd);
	free(socket->name);
	free(socket);
	return NULL;
}

DEFINE_CLEANUP(struct spool_socket *, spool_socket_close);

int spool_socket_get_fd(const struct spool_socket *socket)
{
	return socket->fd;
}

/* Makes a listening socket under NEW_NAME. */
static int listen_new(const struct spool *spool)
{
	const char *new_name = spool->new_name;
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address;
	mode_t mask;
	int r = set_address(spool, new_name, &address);

	if (fd < 0)
		return -errno;
	if (r < 0)
		return r;
	if (unlinkat(spool->dir_fd, new_name, 0) < 0 && errno != ENOENT)
		return -errno;
	mask = umask(0111); /* access is decided by SO_PEERCRED */
	r = bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
	(void)umask(mask);
	if (r < 0)
		return r;
	return listen(fd, BACKLOG) < 0 ? -errno : take_fd(&fd);
}

/* Finds an obstacle to a new socket: 0 if there is none, or only one left by a dead adapter. */
static int check_free(const struct spool *spool, const char *name, struct err *err)
{
	struct sockaddr_un address;
	struct stat st;

	if (set_address(spool, name, &address) < 0)
		return err_set_text(err, -ENAMETOOLONG,
			"'%s/%s' is longer than the %zu bytes that a socket's path can have: "
			"choose a shorter --spool",
			spool->path, name, sizeof(address.sun_path) - 1);
	if (fstatat(spool->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : err_set(err, -errno, "open '%s/%s'", spool->path, name);
	if (!S_ISSOCK(st.st_mode))
		return err_set_text(err, -EADDRINUSE,
			"'%s/%s' is not a socket: remove it, or choose another --spool",
			spool->path, name);
	if (probe(spool, name) == 0)
		return err_set_text(
			err, -EADDRINUSE, "another process answers at '%s/%s'", spool->path, name);
	return 0;
}

int spool_listen(const struct spool *spool, const char *name, struct spool_socket **ret_socket,
	struct err *err)
{
	_cleanup_(spool_socket_close_p) struct spool_socket *socket = calloc(1, sizeof(*socket));
	int r;

	if (!socket)
		return err_set(err, -ENOMEM, "listen at '%s/%s'", spool->path, name);
	socket->fd = -1;
	socket->spool = spool;
	socket->name = strdup(name);
	if (!socket->name)
		return err_set(err, -ENOMEM, "listen at '%s/%s'", spool->path, name);
	r = check_free(spool, name, err);
	if (r < 0)
		return r;
	socket->fd = r = listen_new(spool);
	if (r >= 0 && fstatat(spool->dir_fd, spool->new_name, &socket->st, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r >= 0 && renameat(spool->dir_fd, spool->new_name, spool->dir_fd, name) < 0)
		r = -errno;
	if (r < 0)
		return err_set(err, r, "listen at '%s/%s'", spool->path, name);
	*ret_socket = take_ptr(socket);
	return 0;
}
