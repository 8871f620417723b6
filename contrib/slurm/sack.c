/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/sack.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "contrib/slurm/pack.h"
#include "contrib/slurm/token.h"
#include "stepd/base/fs.h"

#define MAKE      64001u
#define CHECK     64002u
#define TIMEOUT_S 10
#define PATH_SIZE sizeof(((struct sockaddr_un *)NULL)->sun_path)

/* ---- the daemon ------------------------------------------------------------------------------ */

static bool is_daemon(const struct sack *sack, int fd)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) == 0 && size == sizeof(cred) &&
		(cred.uid == 0 || cred.uid == sack->slurm_user || cred.uid == geteuid());
}

/* -errno: nobody is there. */
static int try_connect(const struct sack *sack, const char *path)
{
	static const struct timeval timeout = {.tv_sec = TIMEOUT_S};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0 ||
		connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return is_daemon(sack, fd) ? take_fd(&fd) : -EPERM;
}

/* In the order of Slurm's own programs. */
static int connect_daemon(const struct sack *sack, struct err *err)
{
	static const char *const paths[] = {"/run/slurm/sack.socket", "/run/slurmctld/sack.socket",
		"/run/slurmdbd/sack.socket"};
	const char *given = secure_getenv("SLURM_SACK_SOCKET");
	char own[PATH_SIZE];
	int fd = -ENOENT;
	size_t i;

	if (given) {
		fd = try_connect(sack, given);
		return fd < 0 ? err_set(err, fd, "connect to '%s' (SLURM_SACK_SOCKET)", given) : fd;
	}
	if (sack->cluster &&
		(size_t)snprintf(own, sizeof(own), "/run/slurm-%s/sack.socket", sack->cluster) <
			sizeof(own))
		fd = try_connect(sack, own);
	for (i = 0; fd < 0 && i < ARRAY_SIZE(paths); i++)
		fd = try_connect(sack, paths[i]);
	return fd < 0
		? err_set(err, fd, "connect to slurmd for a token ('%s' and others)", paths[0])
		: fd;
}

/* ---- the conversation ------------------------------------------------------------------------ */

static int send_request(const struct sack *sack, int fd, uint32_t what, const struct pack *body)
{
	_cleanup_pack_ struct pack p = {0};
	size_t size = buffer_size(&body->bytes);

	pack_u16(&p, sack->release);
	pack_u32(&p, (uint32_t)(2 * sizeof(uint32_t) + size));
	pack_u32(&p, what);
	pack_raw(&p, buffer_bytes(&body->bytes), size);
	if (p.failed || body->failed)
		return -ENOMEM;
	return fs_write_all(fd, buffer_bytes(&p.bytes), buffer_size(&p.bytes));
}

static int read_all(int fd, void *bytes, size_t size)
{
	size_t n = 0;

	while (n < size) {
		ssize_t k = read(fd, (char *)bytes + n, size - n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return k < 0 ? -errno : -ECONNRESET;
		n += (size_t)k;
	}
	return 0;
}

/* A text with its NUL, and nothing behind it. */
static int read_token(int fd, char **ret_token)
{
	_cleanup_free_ char *token = NULL;
	uint32_t size;
	int r = read_all(fd, &size, sizeof(size));

	if (r < 0)
		return r;
	size = ntohl(size);
	if (size < 2 || size > SLURM_TOKEN_MAX)
		return -EBADMSG;
	token = malloc(size);
	if (!token)
		return -ENOMEM;
	r = read_all(fd, token, size);
	if (r == 0 && memchr(token, '\0', size) != token + size - 1)
		r = -EBADMSG;
	if (r == 0)
		*ret_token = take_ptr(token);
	return r;
}

int sack_make_token(const struct sack *sack, uid_t reader, const void *data, size_t size,
	char **ret_token, struct err *err)
{
	_cleanup_close_ int fd = connect_daemon(sack, err);
	_cleanup_pack_ struct pack body = {0};
	int r;

	if (fd < 0)
		return fd;
	pack_u32(&body, reader);
	pack_bytes(&body, data, (uint32_t)size);
	r = send_request(sack, fd, MAKE, &body);
	if (r == 0)
		r = read_token(fd, ret_token);
	return r < 0 ? err_set(err, r, "have slurmd make a token") : 0;
}

int sack_check_token(const struct sack *sack, const char *token, struct err *err)
{
	_cleanup_close_ int fd = connect_daemon(sack, err);
	_cleanup_pack_ struct pack body = {0};
	uint32_t result = 0;
	int r;

	if (fd < 0)
		return fd;
	pack_text(&body, token);
	r = send_request(sack, fd, CHECK, &body);
	if (r == 0)
		r = read_all(fd, &result, sizeof(result));
	if (r == 0 && result != 0)
		r = -EACCES;
	return r < 0 ? err_set(err, r, "have slurmd check a token") : 0;
}
