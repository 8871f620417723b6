/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Clients of other versions of PMIx.
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
#include "stepd/api/env.h"

/* ---- clients of another major version -------------------------------------------------------
 *
 * From 2 on libpmix serves all of them, but of groups each major has an answer of its own, and the
 * client reads nonsense in another's: these are refused, with one sentence.
 */

/* libpmix notes the first client's of a namespace on its node; empty: not known. */
static void find_version(const struct nspace *nspace, char version[VERSION_SIZE])
{
	pmix_value_t *value = NULL;
	pmix_proc_t all;
	pmix_info_t here;
	bool yes = true;

	version[0] = '\0';
	PMIX_LOAD_PROCID(&all, nspace->name, PMIX_RANK_WILDCARD);
	PMIX_INFO_LOAD(&here, PMIX_OPTIONAL, &yes, PMIX_BOOL); /* its host gets no request */
	if (PMIx_Get(&all, PMIX_BFROPS_MODULE, &here, 1, &value) == PMIX_SUCCESS && value) {
		if (value->type == PMIX_STRING && value->data.string)
			version_find(value->data.string, version);
		PMIX_VALUE_RELEASE(value);
	}
	PMIX_INFO_DESTRUCT(&here);
}

static bool is_same_major(struct px *px, struct nspace *nspace)
{
	char theirs[VERSION_SIZE], own[VERSION_SIZE];

	find_version(nspace, theirs);
	version_find(PMIx_Get_version(), own);
	if (!theirs[0] || version_major(theirs) == version_major(own))
		return true;
	if (!nspace->groups_reported)
		serve_log(px->serve, LOG_LEVEL_ERROR,
			"ranks of %s have libpmix %s, with which libpmix %s of this node can't "
			"form groups: run them with a libpmix of major version %u, or a stepd that "
			"is built with %u",
			nspace->name, theirs, own, version_major(own), version_major(theirs));
	nspace->groups_reported = true;
	return false;
}

bool compat_has_groups(struct px *px, const struct call *call)
{
	for (size_t i = 0; i < call->nprocs; i++) {
		struct nspace *nspace = names_find(&px->names, call->procs[i].nspace);

		if (i > 0 && PMIX_CHECK_NSPACE(call->procs[i].nspace, call->procs[i - 1].nspace))
			continue;
		if (nspace && !is_same_major(px, nspace))
			return false;
	}
	return true;
}

/* ---- clients of PMIx 1 ----------------------------------------------------------------------
 *
 * libpmix has no listener for them any more, and a client of that age finds nothing in its
 * environment that it knows and leaves its user with an error number. So there is a socket at which
 * its name and version are read, it is refused, and named in the step's log.
 *
 * A client sends a header of 16 bytes (an index, a tag, the length of what follows), namespace,
 * rank and version, and more that does not matter here; it waits for a status. PMIx 2.0 has the
 * same listener by another name, which is offered where libpmix does not serve it otherwise. What
 * comes in is not trusted.
 */

#define HEADER_SIZE 16u
#define HELLO_SIZE  (HEADER_SIZE + PMIX_MAX_NSLEN + 1u + sizeof(uint32_t) + VERSION_SIZE)
#define CALLERS_MAX 8u /* not identified yet; further ones are hung up on */

struct caller {
	struct caller *next;
	struct old_listener *old_listener;
	int fd;
	ev_io readable;
	char hello[HELLO_SIZE];
	size_t size;
};

struct old_listener {
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
	struct caller **at = &c->old_listener->callers;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->old_listener->count--;
	ev_io_stop(c->old_listener->px->loop, &c->readable);
	(void)close_fd(c->fd);
	free(c);
}

/* ---- identity ---- */

struct hello {
	const char *nspace;
	uint32_t rank;
	char version[VERSION_SIZE];
};

/* False: it is not all there yet. */
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

static void report_old(const struct old_listener *old_listener, const struct hello *hello)
{
	struct nspace *nspace = names_find(&old_listener->px->names, hello->nspace);
	bool is_old = !version_is_at_least(hello->version, 2, old_listener->serves_20 ? 0 : 1);
	char own[VERSION_SIZE];

	if (!nspace || hello->rank >= nspace->size || nspace->old_reported)
		return;
	nspace->old_reported = true; /* the others will be no better */
	version_find(PMIx_Get_version(), own);
	if (is_old)
		serve_log(old_listener->px->serve, LOG_LEVEL_ERROR,
			"rank %u of %s has libpmix %s, which libpmix %s of this node can't serve: "
			"build its MPI library with PMIx %s or newer (Open MPI 4 brings one)",
			hello->rank, nspace->name, hello->version, own,
			old_listener->serves_20 ? "2.0" : "2.1");
	else
		serve_log(old_listener->px->serve, LOG_LEVEL_ERROR,
			"rank %u of %s has libpmix %s and could be served, but does not reach the "
			"server's port on the loopback address: see PMIX_SERVER_URI21 of its "
			"environment",
			hello->rank, nspace->name, hello->version);
}

/* Once it has sent enough, or all that it will. */
static void refuse_caller(struct caller *c)
{
	int no = PMIX_ERROR; /* the status that has the same number in all of them */
	struct hello hello;

	if (read_hello(c, &hello)) {
		report_old(c->old_listener, &hello);
		(void)send(c->fd, &no, sizeof(no), MSG_NOSIGNAL | MSG_DONTWAIT); /* else it sees
										    the end */
	}
	hang_up(c);
}

static void old_on_readable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct caller *c = io->data;
	struct hello hello;
	ssize_t n = recv(c->fd, c->hello + c->size, sizeof(c->hello) - c->size, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		c->size += (size_t)n;
	if (n <= 0 || c->size == sizeof(c->hello) || read_hello(c, &hello))
		refuse_caller(c);
}

static void on_accepted(int fd, void *userdata)
{
	struct old_listener *old_listener = userdata;
	struct caller *c =
		fd >= 0 && old_listener->count < CALLERS_MAX ? calloc(1, sizeof(*c)) : NULL;

	if (!c) {
		(void)close_fd(fd);
		return;
	}
	c->old_listener = old_listener;
	c->fd = fd;
	c->next = old_listener->callers;
	old_listener->callers = c;
	old_listener->count++;
	ev_io_init(&c->readable, old_on_readable, fd, EV_READ);
	c->readable.data = c;
	ev_io_start(old_listener->px->loop, &c->readable);
}

/* ---- what ranks find ---- */

int old_listener_environ(struct px *px, char ***env)
{
	struct old_listener *old_listener = px->old_listener;
	char uri[400];

	if (!old_listener)
		return 0;
	(void)snprintf(uri, sizeof(uri), "%.200s.server:%u:%s", px->names.base, px->node,
		old_listener->address.sun_path);
	old_listener->serves_20 = stepd_env_get(*env, "PMIX_SERVER_URI2");
	if (stepd_env_set(env, "PMIX_SERVER_URI", uri) < 0 ||
		(!old_listener->serves_20 && stepd_env_set(env, "PMIX_SERVER_URI2USOCK", uri) < 0))
		return -ENOMEM;
	return 0;
}

/* ---- its life ---- */

/* The clients read name and path as three fields with colons between them. */
static int old_listener_address(struct old_listener *old_listener)
{
	int n = snprintf(old_listener->address.sun_path, sizeof(old_listener->address.sun_path),
		"%s/pmix-1", tmpdir_path(old_listener->px->tmpdir));

	old_listener->address.sun_family = AF_UNIX;
	if (n < 0 || (size_t)n >= sizeof(old_listener->address.sun_path))
		return -ENAMETOOLONG;
	return strchr(old_listener->address.sun_path, ':') ? -EINVAL : 0;
}

static int old_listener_listen(struct old_listener *old_listener)
{
	int r = old_listener_address(old_listener);

	if (r < 0)
		return r;
	old_listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (old_listener->fd < 0 ||
		bind(old_listener->fd, (struct sockaddr *)&old_listener->address,
			sizeof(old_listener->address)) < 0 ||
		listen(old_listener->fd, SOMAXCONN) < 0)
		return -errno;
	return 0;
}

void old_listener_open(struct px *px)
{
	struct old_listener *old_listener = calloc(1, sizeof(*old_listener));
	int r;

	if (!old_listener)
		return;
	old_listener->px = px;
	old_listener->fd = -1;
	r = old_listener_listen(old_listener);
	if (r < 0) {
		serve_log(px->serve, LOG_LEVEL_DEBUG,
			"clients of PMIx 1 won't learn that they are too old: %s", strerror(-r));
		(void)close_fd(old_listener->fd);
		free(old_listener);
		return;
	}
	wire_listener_init(&old_listener->listener, px->loop, on_accepted, old_listener);
	wire_listener_start(&old_listener->listener, old_listener->fd);
	px->old_listener = old_listener;
}

void old_listener_close(struct px *px)
{
	struct old_listener *old_listener = take_ptr(px->old_listener);

	if (!old_listener)
		return;
	while (old_listener->callers)
		hang_up(old_listener->callers);
	wire_listener_stop(&old_listener->listener);
	(void)close_fd(old_listener->fd);
	free(old_listener);
}
