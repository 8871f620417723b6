/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Who calls, and what that one may. The kernel tells who: as it was when the connection was made,
 * so a program that drops its identity afterwards keeps what its connection may.
 */
#include "stepd/control/control_impl.h"

#include <sys/socket.h>

/* Who is in more of them is no operator: to read 65,536 takes 2 ms, which are others' time, and
 * with subordinate ids every user may have so many. */
#define GROUPS_MOST 1024u

const char *const control_access_words[CONTROL_ACCESS_MAX] = {
	[CONTROL_AGENT] = "agent",
	[CONTROL_OWNER] = "owner",
	[CONTROL_ASK] = "ask",
};

static const char *const who_may[CONTROL_ACCESS_MAX] = {
	[CONTROL_AGENT] = "root and the agent's user",
	[CONTROL_OWNER] = "root, the agent's user and the step's owner",
	[CONTROL_ASK] = "root, the agent's user, the step's owner and the operator group",
};

int access_peer(int fd, struct control_peer *ret_peer)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return -errno;
	*ret_peer = (struct control_peer){.pid = cred.pid, .uid = cred.uid, .gid = cred.gid};
	return 0;
}

/* Whether the peer's supplementary groups have that one. Who can't be asked is in none. */
static bool is_in_group(int fd, gid_t gid)
{
	_cleanup_free_ gid_t *groups = NULL;
	socklen_t size = 0;
	size_t i;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &size) == 0 || errno != ERANGE ||
		size > GROUPS_MOST * sizeof(*groups))
		return false;
	groups = malloc(size);
	if (!groups || getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0)
		return false;
	for (i = 0; i < size / sizeof(*groups); i++) {
		if (groups[i] == gid)
			return true;
	}
	return false;
}

enum control_access access_of(const struct control *c, int fd, const struct control_peer *peer)
{
	const gid_t operators = c->options.operator_gid;

	if (peer->uid == 0 || peer->uid == geteuid())
		return CONTROL_AGENT;
	if (peer->uid == c->options.owner_uid)
		return CONTROL_OWNER;
	if (operators != (gid_t)-1 && (peer->gid == operators || is_in_group(fd, operators)))
		return CONTROL_ASK;
	return CONTROL_EVERYBODY;
}

void access_deny(struct control_call *call, const char *name)
{
	const enum control_access needs = call->method->access;
	char message[256];

	(void)snprintf(message, sizeof(message), "user %lld may not call %s of this step: %s may",
		(long long)call->conn->peer.uid, call->method->name, who_may[needs]);
	control_error_take(call, "PermissionDenied",
		json_pack("{s:s, s:s, s:s}", "method", name, "needs", control_access_words[needs],
			"message", message));
}
