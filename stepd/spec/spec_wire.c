/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The fields of collective operations (pmi) and of the connections between nodes (wire). The
 * document names descriptors; they are taken by spec_take_fds() alone, so that who reads the same
 * document later, when their numbers mean something else, touches none.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <fcntl.h>
#include <jansson.h>
#include <net/if.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "stepd/base/fs.h"
#include "stepd/base/parse.h"
#include "stepd/spec/spec_json.h"

#define STEP(member_) offsetof(struct spec_draft, spec.member_)
#define TIME_MS_MAX   3153600000000 /* a century */
#define FD_MAX        1048576
#define HOST_MAX      255u

/* ---- forms of texts ------------------------------------------------------------------------ */

static bool is_host(const char *host, size_t len)
{
	size_t i;

	for (i = 0; i < len && (isalnum((unsigned char)host[i]) || strchr("-_.", host[i])); i++)
		;
	return len > 0 && len <= HOST_MAX && i == len && host[0] != '-';
}

/* With or without a zone: fe80::1%eth0. */
static bool is_ipv6(const char *host, size_t len)
{
	char text[INET6_ADDRSTRLEN + IFNAMSIZ];
	struct in6_addr address;

	if (len >= sizeof(text))
		return false;
	memcpy(text, host, len);
	text[len] = '\0';
	text[strcspn(text, "%")] = '\0';
	return inet_pton(AF_INET6, text, &address) == 1;
}

const char *spec_address_problem(const char *address)
{
	const char *colon = strrchr(address, ':');
	size_t len = colon ? (size_t)(colon - address) : 0;
	uint32_t port;

	if (!colon || parse_u32(colon + 1, 1, 65535, &port) < 0)
		return "has no port from 1 to 65535 behind its last ':'";
	if (address[0] == '[')
		return len > 2 && address[len - 1] == ']' && is_ipv6(address + 1, len - 2)
			? NULL
			: "holds no IPv6 address between '[' and ']'";
	return is_host(address, len) ? NULL : "is neither HOST:PORT nor [IPV6]:PORT";
}

static const char *auth_problem(const char *text)
{
	return strcmp(text, "secret") == 0 || strcmp(text, "munge") == 0 ||
			strcmp(text, "none") == 0
		? NULL
		: "is not one of secret, munge, none";
}

static const char *ifname_problem(const char *text)
{
	size_t i;

	for (i = 0; isgraph((unsigned char)text[i]) && text[i] != '/'; i++)
		;
	return text[i] || i >= IFNAMSIZ ? "is not a network interface's name" : NULL;
}

/* ---- tables -------------------------------------------------------------------------------- */

const struct spec_field spec_pmi_fields[SPEC_PMI_FIELDS] = {
	{.name = "timeout_ms",
		.parse = spec_row_u64,
		.offset = STEP(pmi.timeout_ms),
		.most = TIME_MS_MAX,
		.doc = "The deadline of a fence, and of other waits of one rank for another, "
		       "in milliseconds. When it has passed the operation fails in all tasks "
		       "that wait, and the step's log names the ranks that are missing. 0 is "
		       "no deadline.",
		.unset = "`pmi_timeout` of stepd.conf(5), else 300000"},
	{.name = "tcp",
		.parse = spec_row_bool,
		.offset = STEP(pmi.tcp),
		.doc = "Whether tasks reach their PMI server over TCP, by `$PMI_PORT` and "
		       "`$PMI_ID`, instead of an inherited descriptor.",
		.unset = "false"},
	{.name = "memory_bytes",
		.parse = spec_row_u64,
		.offset = STEP(pmi.memory_bytes),
		.most = SPEC_PMI_MEMORY_MAX,
		.doc = "How far the node's MPI service process, which holds the data that ranks "
		       "put, may grow beyond its initial size. It is a limit of writable private "
		       "memory (`RLIMIT_DATA`). A rank whose data exceeds it gets an error. 0 is no "
		       "limit.",
		.unset = "`pmi_memory` of stepd.conf(5), else a quarter of the machine's memory"},
};

const struct spec_field spec_wire_fields[SPEC_WIRE_FIELDS] = {
	{.name = "addresses",
		.parse = spec_row_addresses,
		.form = "addresses",
		.doc = "The address at which each node listens, as `HOST:PORT` or `[IPV6]:PORT`: as "
		       "many as `node.count`, in the order of the nodes' ids.",
		.unset = "unknown; the step then has no collective operations across nodes"},
	{.name = "listen_fd",
		.parse = spec_row_u32,
		.offset = STEP(wire.listen_number),
		.least = 3,
		.most = FD_MAX,
		.doc = "A descriptor that the agent inherits: the TCP socket that listens at this "
		       "node's address. It is for the agent that starts the step; an adopter does "
		       "not need it.",
		.unset = "none"},
	{.name = "auth",
		.parse = spec_row_text,
		.offset = STEP(wire.auth),
		.problem = auth_problem,
		.form = "auth",
		.doc = "How the nodes authenticate each other: `secret`, by the secret of "
		       "`secret_fd`; `munge`, by munge(7); or `none`, for a network without other "
		       "users. With the first two everything that passes between them is encrypted "
		       "and authenticated by AES-256-GCM, under a key of each connection's own; "
		       "with `none` it is neither.",
		.unset =
			"`secret` if `secret_fd` is given, else `wire_auth` of stepd.conf(5), else "
			"`munge`"},
	{.name = "secret_fd",
		.parse = spec_row_u32,
		.offset = STEP(wire.secret_number),
		.least = 3,
		.most = FD_MAX,
		.doc = "A descriptor that the agent inherits and reads to its end when it starts: "
		       "16 to 4096 bytes that only the step's nodes know. The secret is stored "
		       "nowhere.",
		.unset = "none"},
	{.name = "fanout",
		.parse = spec_row_u32,
		.offset = STEP(wire.fanout),
		.least = 2,
		.most = 1024,
		.doc = "The number of nodes connected to each node above in the tree of nodes; the "
		       "same on all nodes.",
		.unset = "`wire_fanout` of stepd.conf(5), else 16"},
	{.name = "ifname",
		.parse = spec_row_text,
		.offset = STEP(wire.ifname),
		.problem = ifname_problem,
		.form = "ifname",
		.doc = "The network interface whose address this node uses.",
		.unset = "`wire_ifname` of stepd.conf(5), else any"},
	{.name = "connect_timeout_ms",
		.parse = spec_row_u64,
		.offset = STEP(wire.connect_timeout_ms),
		.least = 1,
		.most = TIME_MS_MAX,
		.doc = "The time in which the other nodes must be connected.",
		.unset = "60000"},
};

/* ---- rows ---------------------------------------------------------------------------------- */

int spec_row_addresses(_unused_ const struct spec_field *field, void *into,
	const struct spec_at *at, const json_t *value, struct err *err)
{
	static const struct spec_field address = {.problem = spec_address_problem};
	struct spec_wire *wire = &((struct spec_draft *)into)->spec.wire;
	size_t i, n = json_array_size(value);
	int r = spec_check_array(at, value, SPEC_NODES_MAX, err);

	if (r < 0)
		return r;
	wire->addresses = calloc(n + 1, sizeof(*wire->addresses));
	if (!wire->addresses)
		return spec_no_memory(err);
	wire->addresses_count = (uint32_t)n;
	for (i = 0; i < n && r == 0; i++)
		r = spec_row_text(&address, &wire->addresses[i], SPEC_AT_INDEX(at, i),
			json_array_get(value, i), err);
	return r;
}

int spec_check_wire(const struct spec *spec, struct err *err)
{
	const struct spec_at *at = SPEC_AT(NULL, "wire");
	const struct spec_wire *wire = &spec->wire;

	if (wire->addresses && wire->addresses_count != spec->node_count)
		return spec_bad(err, SPEC_AT(at, "addresses"),
			"has %u entries, but node.count is %u", wire->addresses_count,
			spec->node_count);
	if (wire->secret_number && wire->secret_number == wire->listen_number)
		return spec_bad(
			err, SPEC_AT(at, "secret_fd"), "%u is listen_fd too", wire->secret_number);
	if (wire->auth && strcmp(wire->auth, "secret") == 0 && !wire->secret_number)
		return spec_bad(err, SPEC_AT(at, "auth"), "'secret' needs secret_fd");
	if (wire->auth && strcmp(wire->auth, "secret") != 0 && wire->secret_number)
		return spec_bad(
			err, SPEC_AT(at, "secret_fd"), "conflicts with auth '%s'", wire->auth);
	return 0;
}

void spec_wire_clear(struct spec_wire *wire)
{
	uint32_t i;

	for (i = 0; i < wire->addresses_count; i++)
		free(wire->addresses[i]);
	free(wire->addresses);
	if (wire->listen_fd >= 0)
		(void)close(wire->listen_fd);
	free(wire->auth);
	if (wire->secret)
		explicit_bzero(wire->secret, wire->secret_size);
	free(wire->secret);
	free(wire->ifname);
	*wire = (struct spec_wire){.listen_fd = -1};
}

/* ---- descriptors --------------------------------------------------------------------------- */

static int get_option(int fd, int option)
{
	socklen_t size = sizeof(int);
	int value = -1;

	return getsockopt(fd, SOL_SOCKET, option, &value, &size) < 0 ? -errno : value;
}

static int take_listen_fd(struct spec_wire *wire, struct err *err)
{
	const struct spec_at *at = SPEC_AT(SPEC_AT(NULL, "wire"), "listen_fd");
	int fd = (int)wire->listen_number, domain;

	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return spec_bad(
			err, at, "%d is not an open descriptor; pass the listening socket", fd);
	domain = get_option(fd, SO_DOMAIN);
	if (get_option(fd, SO_TYPE) != SOCK_STREAM || (domain != AF_INET && domain != AF_INET6))
		return spec_bad(err, at, "%d is not a TCP socket", fd);
	if (get_option(fd, SO_ACCEPTCONN) != 1)
		return spec_bad(err, at, "%d does not listen; call listen(2) before", fd);
	wire->listen_fd = fd;
	return 0;
}

static int take_secret(struct spec_wire *wire, struct err *err)
{
	const struct spec_at *at = SPEC_AT(SPEC_AT(NULL, "wire"), "secret_fd");
	_cleanup_close_ int fd = (int)wire->secret_number;
	char *secret;
	size_t size;
	int r;

	if (fcntl(fd, F_GETFD) < 0) {
		r = fd;
		fd = -1;
		return spec_bad(err, at, "%d is not an open descriptor; pass the secret's", r);
	}
	r = fs_read_fd(fd, SPEC_SECRET_MAX, &secret, &size);
	if (r == -EFBIG)
		return spec_bad(err, at, "the secret has more than %u bytes", SPEC_SECRET_MAX);
	if (r < 0)
		return err_set(err, r, "wire.secret_fd: read the secret from descriptor %d", fd);
	wire->secret = secret;
	wire->secret_size = size;
	if (size < SPEC_SECRET_MIN)
		return spec_bad(
			err, at, "the secret has %zu bytes, less than %u", size, SPEC_SECRET_MIN);
	return 0;
}

int spec_take_fds(struct spec *spec, struct err *err)
{
	int r = 0;

	if (spec->wire.listen_number && spec->wire.listen_fd < 0)
		r = take_listen_fd(&spec->wire, err);
	if (r == 0 && spec->wire.secret_number && !spec->wire.secret)
		r = take_secret(&spec->wire, err);
	return r;
}
