/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The door of PMIx 1: libpmix has none any more, and a client of that age finds nothing in its
 * environment that it knows and leaves its user with an error number. So there is a socket at which
 * it is heard as far as its name and version, told no, and named in the step's log.
 *
 * A client sends a header of 16 bytes (an index, a tag, the length of what follows), namespace,
 * rank and version, and more that does not matter here; it waits for a status. PMIx 2.0 has the
 * same door by another name, which is offered where libpmix does not serve it otherwise. What comes
 * in is not trusted.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "mpi/pmix/px.h"
#include "mpi/pmix/tmpdir.h"
#include "mpi/pmix/version.h"
#include "mpi/wire/listener.h"

#define HEADER_SIZE 16u
#define HELLO_SIZE  (HEADER_SIZE + PMIX_MAX_NSLEN + 1u + sizeof(uint32_t) + VERSION_SIZE)
#define CALLERS_MAX 8u /* that have not said enough; further ones are hung up on */

struct caller {
	struct caller *next;
	struct door *door;
	int fd;
	ev_io readable;
	char hello[HELLO_SIZE];
	size_t size;
};

struct door {
	struct px *px;
	int fd;
	struct wire_listener listener;
	struct sockaddr_un address;
	struct caller *callers;
	unsigned count;
	bool serves_20; /* libpmix does */
};

static void hang_up(struct caller *c)
{
	struct caller **at = &c->door->callers;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->door->count--;
	ev_io_stop(c->door->px->loop, &c->readable);
	(void)close_fd(c->fd);
	free(c);
}

/* ---- who it is ---- */

struct hello {
	const char *nspace;
	uint32_t rank;
	char version[VERSION_SIZE];
};

/* False: it has not been said yet. */
static bool read_hello(const struct caller *c, struct hello *hello)
{
	const char *at = c->hello + HEADER_SIZE, *end = c->hello + c->size, *nul;

	nul = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;
	if (!nul || (size_t)(end - nul - 1) < sizeof(hello->rank))
		return false;
	hello->nspace = at;
	memcpy(&hello->rank, nul + 1, sizeof(hello->rank));
	at = nul + 1 + sizeof(hello->rank);
	if (!memchr(at, '\0', (size_t)(end - at)))
		return false;
	version_find(at, hello->version);
	return true;
}

static void tell(const struct door *door, const struct hello *hello)
{
	struct nspace *nspace = names_find(&door->px->names, hello->nspace);
	bool is_old = !version_is_at_least(hello->version, 2, door->serves_20 ? 0 : 1);
	char own[VERSION_SIZE];

	if (!nspace || hello->rank >= nspace->size || nspace->old_told)
		return;
	nspace->old_told = true; /* the others will be no better */
	version_find(PMIx_Get_version(), own);
	if (is_old)
		serve_log(door->px->serve, LOG_LEVEL_ERROR,
			"rank %u of %s has libpmix %s, which libpmix %s of this node can't serve: "
			"build its MPI library with PMIx %s or newer (Open MPI 4 brings one)",
			hello->rank, nspace->name, hello->version, own,
			door->serves_20 ? "2.0" : "2.1");
	else
		serve_log(door->px->serve, LOG_LEVEL_ERROR,
			"rank %u of %s has libpmix %s and could be served, but does not reach the "
			"server's port on the loopback address: see PMIX_SERVER_URI21 of its "
			"environment",
			hello->rank, nspace->name, hello->version);
}

/* Once it has said enough, or all that it will. */
static void answer(struct caller *c)
{
	int no = PMIX_ERROR; /* the status that has the same number in all of them */
	struct hello hello;

	if (read_hello(c, &hello)) {
		tell(c->door, &hello);
		(void)send(c->fd, &no, sizeof(no), MSG_NOSIGNAL | MSG_DONTWAIT); /* else it sees
										    the end */
	}
	hang_up(c);
}

static void on_readable(struct ev_loop *loop, ev_io *io, int revents)
{
	struct caller *c = io->data;
	struct hello hello;
	ssize_t n = recv(c->fd, c->hello + c->size, sizeof(c->hello) - c->size, MSG_DONTWAIT);

	(void)loop;
	(void)revents;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		c->size += (size_t)n;
	if (n <= 0 || c->size == sizeof(c->hello) || read_hello(c, &hello))
		answer(c);
}

static void on_accepted(int fd, void *userdata)
{
	struct door *door = userdata;
	struct caller *c = fd >= 0 && door->count < CALLERS_MAX ? calloc(1, sizeof(*c)) : NULL;

	if (!c) {
		(void)close_fd(fd);
		return;
	}
	c->door = door;
	c->fd = fd;
	c->next = door->callers;
	door->callers = c;
	door->count++;
	ev_io_init(&c->readable, on_readable, fd, EV_READ);
	c->readable.data = c;
	ev_io_start(door->px->loop, &c->readable);
}

/* ---- what ranks find ---- */

static int append(char ***env, const char *name, const struct door *door)
{
	size_t n = 0;
	char **grown;

	while ((*env)[n])
		n++;
	grown = realloc(*env, (n + 2) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	*env = grown;
	grown[n + 1] = NULL;
	if (asprintf(&grown[n], "%s=%.200s.server:%u:%s", name, door->px->names.base,
		    door->px->node, door->address.sun_path) < 0) {
		grown[n] = NULL;
		return -ENOMEM;
	}
	return 0;
}

int door_environ(struct px *px, char ***env)
{
	int r;

	if (!px->door)
		return 0;
	px->door->serves_20 = false;
	for (size_t i = 0; (*env)[i]; i++) {
		if (strncmp((*env)[i], "PMIX_SERVER_URI2=", strlen("PMIX_SERVER_URI2=")) == 0)
			px->door->serves_20 = true;
	}
	r = append(env, "PMIX_SERVER_URI", px->door);
	return r < 0 || px->door->serves_20 ? r : append(env, "PMIX_SERVER_URI2USOCK", px->door);
}

/* ---- its life ---- */

/* The clients read name and place as three words with colons between them. */
static int make_address(struct door *door)
{
	int n = snprintf(door->address.sun_path, sizeof(door->address.sun_path), "%s/pmix-1",
		tmpdir_path(door->px->tmpdir));

	door->address.sun_family = AF_UNIX;
	if (n < 0 || (size_t)n >= sizeof(door->address.sun_path))
		return -ENAMETOOLONG;
	return strchr(door->address.sun_path, ':') ? -EINVAL : 0;
}

static int listen_at(struct door *door)
{
	int r = make_address(door);

	if (r < 0)
		return r;
	door->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (door->fd < 0 ||
		bind(door->fd, (struct sockaddr *)&door->address, sizeof(door->address)) < 0 ||
		listen(door->fd, SOMAXCONN) < 0)
		return -errno;
	return 0;
}

void door_open(struct px *px)
{
	struct door *door = calloc(1, sizeof(*door));
	int r;

	if (!door)
		return;
	door->px = px;
	door->fd = -1;
	r = listen_at(door);
	if (r < 0) {
		serve_log(px->serve, LOG_LEVEL_DEBUG,
			"clients of PMIx 1 won't be told that they are too old: %s", strerror(-r));
		(void)close_fd(door->fd);
		free(door);
		return;
	}
	wire_listener_init(&door->listener, px->loop, on_accepted, door);
	wire_listener_start(&door->listener, door->fd);
	px->door = door;
}

void door_close(struct px *px)
{
	struct door *door = take_ptr(px->door);

	if (!door)
		return;
	while (door->callers)
		hang_up(door->callers);
	wire_listener_stop(&door->listener);
	(void)close_fd(door->fd);
	free(door);
}
