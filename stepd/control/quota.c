/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Quotas of connections, memory and time, so that no class of callers can starve a class with more
 * access.
 *
 * Connections: each kind of caller has a number for one user and one for all of its kind and of
 * those below it. What the numbers leave over is for the kinds above: strangers, be they a thousand
 * users, never hold more than 64 of 2048, and 256 are root's and the agent's user's alone. If those
 * have used up even these, the connection that has been silent for longest is closed.
 *
 * Memory: when buffers are full, the connection that has moved nothing for longest is closed, among
 * those whose access is no more than that of the one that needs it.
 *
 * Time: a turn of the loop serves each class of callers for some milliseconds at most, those who
 * may more first, and what is left over has the next turn. So a class that calls without end takes
 * its share of the loop and no more, and what else the agent has to do, its timers among it, waits
 * for one turn: for the sum of the shares, and for the last call of each.
 */
#include "stepd/control/control_impl.h"

#include <malloc.h>
#include <string.h>
#include <sys/socket.h>

#include "stepd/base/clock.h"

#define GIVE_BACK_BYTES (4u << 20)

struct share {
	unsigned of_user, of_kind; /* of CONTROL_CONNECTIONS_MAX */
};

static const struct share shares[CONTROL_ACCESS_MAX + 1] = {
	[CONTROL_AGENT] = {CONTROL_CONNECTIONS_MAX, CONTROL_CONNECTIONS_MAX},
	[CONTROL_OWNER] = {1024, 1792},
	[CONTROL_OPERATOR] = {128, 640},
	[CONTROL_EVERYBODY] = {8, 64},
};

static struct share share_of(const struct control *c, enum control_access access)
{
	const struct control_bounds *bounds = c->options.bounds;

	if (bounds && access == CONTROL_EVERYBODY)
		return (struct share){bounds->user_connections_max, bounds->shared_connections_max};
	return shares[access];
}

/* A share of what there is: less than CONTROL_CONNECTIONS_MAX where descriptors are few. */
static unsigned scale(const struct control *c, unsigned share)
{
	unsigned n =
		(unsigned)((unsigned long)share * c->connections_max / CONTROL_CONNECTIONS_MAX);

	return n > 0 ? n : 1;
}

/* Only where they may be too many: it walks over all. */
static unsigned count_user(const struct control *c, uid_t uid)
{
	const struct conn *conn;
	unsigned n = 0;

	TAILQ_FOREACH(conn, &c->all, all)
	n += conn->fd >= 0 && conn->peer.uid == uid;
	return n;
}

/* Connections of this kind and of those below it. */
static unsigned count_kind(const struct control *c, enum control_access access)
{
	unsigned n = 0, i;

	for (i = access; i <= CONTROL_EVERYBODY; i++)
		n += c->counts[i];
	return n;
}

unsigned quota_count_all(const struct control *c)
{
	return count_kind(c, CONTROL_AGENT);
}

/* Whether nothing has come either that is only not read yet; or the peer has gone, of which nobody
 * has had the time to hear. */
static bool is_idle(const struct conn *conn)
{
	ssize_t n;
	char byte;

	if (conn->fd < 0 || conn_is_busy(conn) || conn->held)
		return false;
	n = recv(conn->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
	return n == 0 || (n < 0 && !conn->is_unread);
}

/* Closes the connection that has been silent for longest, if one does nothing at all: rather one
 * that never had a reply, such as of a client that connects again and again, than one between two
 * calls. */
static bool close_idle(struct control *c)
{
	struct conn *conn, *idle = NULL;

	TAILQ_FOREACH(conn, &c->all, all)
	{
		if ((idle && conn->was_answered) || !is_idle(conn))
			continue;
		idle = conn;
		if (!conn->was_answered)
			break;
	}
	if (idle)
		conn_fail(idle, "silent for longest, and another needs its slot");
	return idle != NULL;
}

unsigned quota_admit(struct control *c, const struct control_peer *peer, enum control_access access)
{
	const struct share share = share_of(c, access);
	const unsigned of_user = scale(c, share.of_user), of_kind = scale(c, share.of_kind);

	if (count_kind(c, access) >= of_kind && (access != CONTROL_AGENT || !close_idle(c)))
		return of_kind;
	if (access != CONTROL_AGENT && c->counts[access] >= of_user &&
		count_user(c, peer->uid) >= of_user)
		return of_user;
	return 0;
}

/* One whose bytes wait for the service's time has not stood still; it goes where none other can. */
static struct conn *find_stalest(struct control *c, const struct conn *requester)
{
	struct conn *conn, *due = NULL;

	TAILQ_FOREACH(conn, &c->all, all)
	{
		if (conn == requester || conn->held == 0 || conn->access < requester->access)
			continue;
		if (!conn->is_due)
			return conn;
		if (!due)
			due = conn;
	}
	return due;
}

bool quota_reserve(struct conn *conn, size_t bytes)
{
	struct control *c = conn->control;
	struct conn *stalest;

	while (c->memory + bytes > CONTROL_MEMORY_MAX) {
		stalest = find_stalest(c, conn);
		if (!stalest)
			return false;
		conn_fail(stalest, "its buffers stood still for longest, and memory is full");
	}
	return true;
}

void quota_update(struct conn *conn)
{
	const size_t holds = conn->in.bytes.capacity + conn->out.capacity;

	conn->control->memory += holds;
	conn->control->memory -= conn->held;
	conn->held = holds;
	if (conn->control->memory > conn->control->memory_most)
		conn->control->memory_most = conn->control->memory;
}

/* After an onslaught: malloc would hold what it took for ever, and the node's jobs need it. */
void quota_trim(struct control *c)
{
	if (c->memory > 0 || c->memory_most < GIVE_BACK_BYTES)
		return;
	c->memory_most = 0;
#ifdef __GLIBC__
	(void)malloc_trim(0); /* whether there was anything to give */
#endif
}

/* ---- time ---------------------------------------------------------------------------------- */

/* Of each turn. doc/stepd-control.7 repeats them. */
static const uint64_t budgets_ms[CONTROL_ACCESS_MAX + 1] = {
	[CONTROL_AGENT] = 10,
	[CONTROL_OWNER] = 5,
	[CONTROL_OPERATOR] = 5,
	[CONTROL_EVERYBODY] = 1,
};

static uint64_t budget_ms(const struct control *c, enum control_access turn_class)
{
	const struct control_bounds *bounds = c->options.bounds;

	return bounds && turn_class == CONTROL_EVERYBODY ? bounds->turn_ms : budgets_ms[turn_class];
}

bool turn_has_time(struct control *c, enum control_access turn_class)
{
	const unsigned number = ev_iteration(c->options.loop);

	if (c->turn_number != number) {
		c->turn_number = number;
		memset(c->spent_ns, 0, sizeof(c->spent_ns));
	}
	return c->spent_ns[turn_class] < budget_ms(c, turn_class) * 1000000;
}

void turn_charge(struct control *c, enum control_access turn_class, uint64_t begin_ns)
{
	c->spent_ns[turn_class] += clock_now_ns() - begin_ns;
}
