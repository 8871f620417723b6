/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/hold.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "stepd/base/clock.h"
#include "stepd/base/proc.h"
#include "stepd/process/process.h"
#include "stepd/stdio/hold_impl.h"
#include "stepd/stdio/tally.h"

struct holder {
	int agent_fd; /* -1: there is no agent */
	int agent_pidfd;
	int listen_fd;
	struct hold_set set;
	struct hold_set next;   /* of which pieces are missing */
	struct pollfd *writers; /* of each task's stream, while there is no agent */
	nfds_t writers_count;   /* the listening socket among them */
	uint64_t patience_ns;   /* when it ends, once there are no writers; 0: there are */
};

/* ---- with an agent ------------------------------------------------------------------------- */

static void holder_drop(struct hold_set *set, const struct hold_message *message)
{
	size_t i, k;

	for (i = 0; i < message->count; i++) {
		for (k = 0; k < set->n; k++) {
			if (set->v[k].id == message->entry[i].id)
				set->v[k].fd = close_fd(set->v[k].fd);
		}
	}
}

static void holder_commit(struct holder *h)
{
	if (h->next.document_fd < 0)
		return;
	hold_set_clear(&h->set);
	h->set = h->next;
	h->next = (struct hold_set)HOLD_SET_INIT;
}

/* The agent is gone, or has closed its socket, or does not follow the protocol: all the same. */
static void holder_leave_agent(struct holder *h)
{
	hold_set_clear(&h->next);
	h->agent_fd = close_fd(h->agent_fd);
	h->agent_pidfd = close_fd(h->agent_pidfd);
}

static void holder_on_message(struct holder *h)
{
	struct hold_message message;

	switch (hold_receive(h->agent_fd, &h->next, &message)) {
	case HOLD_BEGIN:
	case HOLD_ADD:
		break;
	case HOLD_COMMIT:
		holder_commit(h);
		break;
	case HOLD_DROP:
		holder_drop(&h->set, &message);
		break;
	case HOLD_END:
		_exit(0);
	default:
		holder_leave_agent(h);
	}
}

/* What a dead agent had sent comes first. Its socket may outlive it in its children. */
static void holder_serve_agent(struct holder *h)
{
	struct pollfd fds[] = {
		{.fd = h->agent_fd, .events = POLLIN}, {.fd = h->agent_pidfd, .events = POLLIN}};

	if (poll(fds, ARRAY_SIZE(fds), -1) < 0)
		return; /* EINTR */
	if (fds[0].revents)
		holder_on_message(h);
	else if (fds[1].revents)
		holder_leave_agent(h);
}

/* ---- without one --------------------------------------------------------------------------- */

/* Of its own user, who has the agent's rights to the step. */
static void holder_accept(struct holder *h)
{
	const struct timeval limit = {.tv_sec = HOLD_TIMEOUT_SEC};
	_cleanup_close_ int fd = accept4(h->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	struct pidref ref = PIDREF_INIT;
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
		peer.uid != geteuid() ||
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0 ||
		hold_send_set(fd, &h->set) < 0)
		return;
	if (pidref_open(peer.pid, 0, &ref) == 0) /* else its socket shows its end */
		h->agent_pidfd = ref.fd;
	h->agent_fd = take_fd(&fd);
}

/* In order: the listening socket, and a stream at a time. */
static int holder_watch_writers(struct holder *h)
{
	size_t i;

	free(h->writers);
	h->writers = calloc(h->set.n + 1, sizeof(*h->writers));
	if (!h->writers)
		return -ENOMEM;
	h->patience_ns = 0;
	h->writers_count = 0;
	h->writers[h->writers_count++] = (struct pollfd){.fd = h->listen_fd, .events = POLLIN};
	for (i = 0; i < h->set.n; i++) {
		if (h->set.v[i].is_source && h->set.v[i].fd >= 0)
			h->writers[h->writers_count++] = (struct pollfd){.fd = h->set.v[i].fd};
	}
	return 0;
}

/* Streams that nobody writes to any more are left out from then on: they would report that at each
 * poll. True: none is left. */
static bool holder_forget_ended(struct holder *h)
{
	nfds_t i, n = 1;

	for (i = 1; i < h->writers_count; i++) {
		if (!(h->writers[i].revents & (POLLHUP | POLLERR | POLLNVAL)))
			h->writers[n++] = h->writers[i];
	}
	h->writers_count = n;
	return n == 1;
}

static bool holder_has_unread(const struct holder *h)
{
	struct pollfd one = {.events = POLLIN};
	size_t i;

	for (i = 0; i < h->set.n; i++) {
		one.fd = h->set.v[i].fd;
		if (h->set.v[i].is_source && one.fd >= 0 && poll(&one, 1, 0) > 0 &&
			one.revents & POLLIN)
			return true;
	}
	return false;
}

/* What the dead agent had read is to be reported by an adopter. */
static bool holder_has_lost(const struct holder *h)
{
	_cleanup_tally_ struct tally *tally = NULL;
	int fd = fcntl(h->set.counts_fd, F_DUPFD_CLOEXEC, 0);
	size_t i;

	if (fd < 0 || tally_open_take(fd, &tally) < 0)
		return false;
	for (i = 0; i < tally->sources_count; i++) {
		if (tally->sources[i].read != tally->sources[i].written ||
			tally->sources[i].reading)
			return true;
	}
	return false;
}

/* How long to wait without a writer, in ms. */
static int holder_patience_ms(struct holder *h)
{
	uint64_t now_ns = clock_now_ns();

	if (h->writers_count > 1)
		return -1;
	if (!h->patience_ns && !holder_has_unread(h) && !holder_has_lost(h))
		_exit(0);
	if (!h->patience_ns)
		h->patience_ns = now_ns + HOLD_PATIENCE_S * UINT64_C(1000000000);
	if (now_ns >= h->patience_ns)
		_exit(0);
	return (int)((h->patience_ns - now_ns) / 1000000) + 1;
}

static void holder_await_adopter(struct holder *h)
{
	if (h->set.document_fd < 0 || holder_watch_writers(h) < 0)
		_exit(0); /* there is nothing to hold */
	while (h->agent_fd < 0) {
		if (poll(h->writers, h->writers_count, holder_patience_ms(h)) < 0)
			continue; /* EINTR */
		if (h->writers[0].revents)
			holder_accept(h);
		(void)holder_forget_ended(h);
	}
}

/* ---- the process --------------------------------------------------------------------------- */

/* The agent's memory it has as a copy, and nothing else of it. */
static int holder_leave_all(const struct hold_start *start)
{
	const int retained[] = {start->agent_fd, start->agent_pidfd, start->listen_fd};
	sigset_t blocked;
	int null_fd, i;

	process_close_inherited(retained, ARRAY_SIZE(retained));
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd < 0)
		return -errno;
	for (i = 0; i < 3; i++) {
		if (dup2(null_fd, i) < 0)
			return -errno;
	}
	(void)close_fd(null_fd);
	(void)setsid();                         /* it leads none: it has just been made */
	(void)prctl(PR_SET_NAME, "stepd-hold"); /* for people; can't fail */
	(void)sigfillset(&blocked);             /* can't fail, nor can the next two */
	(void)sigdelset(&blocked, SIGTERM);
	(void)sigprocmask(SIG_SETMASK, &blocked, NULL);
	return chdir("/") < 0 ? -errno : 0;
}

_noreturn_ void holder_run(void *userdata)
{
	const struct hold_start *start = userdata;
	struct holder h = {.agent_fd = start->agent_fd,
		.agent_pidfd = start->agent_pidfd,
		.listen_fd = start->listen_fd,
		.set = HOLD_SET_INIT,
		.next = HOLD_SET_INIT};

	if (holder_leave_all(start) < 0)
		_exit(1);
	for (;;) {
		if (h.agent_fd >= 0)
			holder_serve_agent(&h);
		else
			holder_await_adopter(&h);
	}
}
