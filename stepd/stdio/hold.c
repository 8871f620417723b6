/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/hold.h"

#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "stepd/base/buffer.h"
#include "stepd/base/proc.h"
#include "stepd/snapshot/handover.h"
#include "stepd/stdio/hold_impl.h"

struct hold {
	int fd;                /* to the holder; -1: it is gone */
	struct pidref process; /* its own; unset for an adopter */
	bool ending;           /* hold_begin_end() */
	char *label;           /* of the step */
	struct stat st;        /* of its directory */
};

/* ---- packets ------------------------------------------------------------------------------- */

union hold_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * HOLD_BATCH)];
};

void hold_set_clear(struct hold_set *set)
{
	size_t i;

	for (i = 0; i < set->n; i++)
		(void)close_fd(set->v[i].fd);
	free(set->v);
	(void)close_fd(set->document_fd);
	(void)close_fd(set->counts_fd);
	*set = (struct hold_set)HOLD_SET_INIT;
}

static int hold_send_fds(int fd, const struct hold_message *message, const int *fds, unsigned count)
{
	union hold_control control = {.bytes = {0}};
	struct iovec iov = {.iov_base = (void *)message,
		.iov_len = offsetof(struct hold_message, entry) +
			message->count * sizeof(message->entry[0])};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;
	ssize_t n;

	if (count > 0) {
		m.msg_control = control.bytes;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * count);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * count);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
	}
	do
		n = sendmsg(fd, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static void hold_fill(struct hold_message *message, const struct held *v, size_t count)
{
	size_t i;

	message->count = (uint32_t)count;
	for (i = 0; i < count; i++)
		message->entry[i] = (struct hold_entry){.id = v[i].id, .is_source = v[i].is_source};
}

int hold_send(int fd, enum hold_kind kind, const struct held *v, size_t count)
{
	struct hold_message message = {.kind = kind};

	assert(count <= HOLD_BATCH);
	hold_fill(&message, v, count);
	return hold_send_fds(fd, &message, NULL, 0);
}

/* Those that are open, from the i-th on; *i is advanced. */
static int hold_send_some(int fd, const struct hold_set *set, size_t *i)
{
	struct hold_message message = {.kind = HOLD_ADD};
	struct held batch[HOLD_BATCH];
	int fds[HOLD_BATCH];
	unsigned n = 0;

	for (; *i < set->n && n < HOLD_BATCH; (*i)++) {
		if (set->v[*i].fd < 0)
			continue;
		batch[n] = set->v[*i];
		fds[n++] = set->v[*i].fd;
	}
	hold_fill(&message, batch, n);
	return n > 0 ? hold_send_fds(fd, &message, fds, n) : 0;
}

int hold_send_set(int fd, const struct hold_set *set)
{
	const struct hold_message begin = {.kind = HOLD_BEGIN};
	const int files[] = {set->document_fd, set->counts_fd};
	size_t i = 0;
	int r = hold_send_fds(fd, &begin, files, ARRAY_SIZE(files));

	while (r == 0 && i < set->n)
		r = hold_send_some(fd, set, &i);
	return r < 0 ? r : hold_send(fd, HOLD_COMMIT, NULL, 0);
}

/* Fewer descriptors than entries: the others found no space in this process's table. */
static unsigned hold_get_fds(struct msghdr *m, int fds[HOLD_BATCH])
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	size_t size;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return 0;
	size = c->cmsg_len - CMSG_LEN(0); /* the control buffer's, at most */
	memcpy(fds, CMSG_DATA(c), size);
	return (unsigned)(size / sizeof(int));
}

static int hold_add_take(struct hold_set *set, const struct hold_entry *entry, int fd)
{
	if (set->n >= HOLD_FDS_MAX || array_reserve(set->v, set->capacity, set->n + 1) < 0) {
		(void)close_fd(fd);
		return -ENOMEM;
	}
	set->v[set->n++] = (struct held){.id = entry->id, .is_source = entry->is_source, .fd = fd};
	return 0;
}

static void hold_close_fds(const int *fds, unsigned count)
{
	unsigned i;

	for (i = 0; i < count; i++)
		(void)close_fd(fds[i]);
}

/* Takes all of fds. */
static int hold_take_fds(
	struct hold_set *set, const struct hold_message *message, int *fds, unsigned count)
{
	unsigned i = 0;
	int r = 0;

	if (message->kind == HOLD_BEGIN && count == 2 && set->document_fd < 0) {
		set->document_fd = take_fd(&fds[0]);
		set->counts_fd = take_fd(&fds[1]);
	} else if (message->kind == HOLD_ADD && count == message->count) {
		for (; r == 0 && i < count; i++)
			r = hold_add_take(set, &message->entry[i], take_fd(&fds[i]));
	} else if (message->kind <= HOLD_ADD || count > 0) {
		r = -EPROTO;
	}
	hold_close_fds(fds, count);
	return r;
}

static bool hold_is_whole(const struct hold_message *message, size_t size)
{
	const size_t head = offsetof(struct hold_message, entry);

	return size >= head && message->count <= HOLD_BATCH &&
		size == head + message->count * sizeof(message->entry[0]);
}

int hold_receive(int fd, struct hold_set *set, struct hold_message *ret_message)
{
	union hold_control control;
	struct iovec iov = {.iov_base = ret_message, .iov_len = sizeof(*ret_message)};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	int fds[HOLD_BATCH], r;
	unsigned count;
	ssize_t n;

	do
		n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : -EPIPE;
	count = hold_get_fds(&m, fds);
	if (!hold_is_whole(ret_message, (size_t)n)) {
		hold_close_fds(fds, count);
		return -EPROTO;
	}
	r = hold_take_fds(set, ret_message, fds, count);
	return r < 0 ? r : (int)ret_message->kind;
}

/* ---- the agent's side ---------------------------------------------------------------------- */

static int hold_new(int dir_fd, const char *label, struct hold **ret_hold)
{
	_cleanup_hold_ struct hold *hold = calloc(1, sizeof(*hold));

	if (!hold)
		return -ENOMEM;
	hold->fd = -1;
	hold->process = (struct pidref)PIDREF_INIT;
	hold->label = strdup(label);
	if (!hold->label)
		return -ENOMEM;
	if (fstat(dir_fd, &hold->st) < 0)
		return -errno;
	*ret_hold = take_ptr(hold);
	return 0;
}

/* By the descriptor: no path leads out of the step's directory. */
static struct sockaddr_un hold_address(int dir_fd)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};

	(void)snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/" HOLD_SOCKET, dir_fd);
	return sa;
}

/* Connections wait until the holder has no agent any more. */
static int hold_listen(int dir_fd)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const struct sockaddr_un sa = hold_address(dir_fd);

	if (fd < 0 || (unlinkat(dir_fd, HOLD_SOCKET, 0) < 0 && errno != ENOENT) ||
		bind(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0 ||
		fchmodat(dir_fd, HOLD_SOCKET, 0600, 0) < 0 || listen(fd, 1) < 0)
		return -errno;
	return take_fd(&fd);
}

static int hold_set_timeouts(int fd)
{
	const struct timeval limit = {.tv_sec = HOLD_TIMEOUT_SEC};

	return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0 ||
			setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) < 0
		? -errno
		: 0;
}

static int hold_fork(struct hold *hold, const struct hold_start *start)
{
	pid_t pid = hidden_child_start(holder_run, (void *)start, &hold->process.fd);

	if (pid < 0)
		return (int)pid;
	hold->process.pid = pid;
	return 0;
}

int hold_start(int dir_fd, const char *label, struct hold **ret_hold, struct err *err)
{
	_cleanup_hold_ struct hold *hold = NULL;
	_cleanup_close_ int theirs = -1, listen_fd = -1;
	_cleanup_pidref_ struct pidref self = PIDREF_INIT;
	int pair[2], r = hold_new(dir_fd, label, &hold);

	if (r == 0)
		r = pidref_open(getpid(), 0, &self);
	if (r == 0)
		r = listen_fd = hold_listen(dir_fd);
	if (r >= 0)
		r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ? -errno : 0;
	if (r < 0)
		return err_set(err, r, "start the process that holds the tasks' streams");
	hold->fd = pair[0];
	theirs = pair[1];
	r = hold_set_timeouts(hold->fd);
	if (r == 0)
		r = hold_fork(hold,
			&(struct hold_start){.agent_fd = theirs,
				.agent_pidfd = self.fd,
				.listen_fd = listen_fd});
	if (r < 0)
		return err_set(err, r, "start the process that holds the tasks' streams");
	*ret_hold = take_ptr(hold);
	return 0;
}

pid_t hold_get_child(const struct hold *hold)
{
	return hold->process.pid;
}

struct handover *hold_document(const struct hold *hold)
{
	struct handover *h = handover_new("");
	json_t *root;

	if (!h)
		return NULL;
	root = handover_root(h);
	handover_set_held(h);
	handover_put_text(h, root, "step", hold->label);
	handover_put_int(h, root, "dir_device", (int64_t)hold->st.st_dev);
	handover_put_int(h, root, "dir_inode", (int64_t)hold->st.st_ino);
	return h;
}

/* The pump marks a task's stream in the document. */
static int hold_collect(const json_t *object, int fd, void *userdata)
{
	struct hold_set *set = userdata;

	if (array_reserve(set->v, set->capacity, set->n + 1) < 0)
		return -ENOMEM;
	set->v[set->n++] = (struct held){
		.id = fd, .fd = fd, .is_source = json_get_bool(object, "is_source", false)};
	return fd;
}

int hold_give(struct hold *hold, struct handover *h, int counts_fd, struct err *err)
{
	struct hold_set set = {.document_fd = -1, .counts_fd = counts_fd}; /* all borrowed */
	_cleanup_close_ int document_fd = -1;
	int r = hold->fd < 0 ? -EPIPE : handover_each_fd(h, hold_collect, &set);

	if (r == 0) {
		set.document_fd = document_fd = handover_finish(h, err);
		r = document_fd < 0 ? document_fd : hold_send_set(hold->fd, &set);
	}
	free(set.v);
	return r < 0 ? err_set(err, r, "give the tasks' streams to the process that holds them")
		     : 0;
}

void hold_drop(struct hold *hold, int fd)
{
	const struct held one = {.id = fd};

	/* Without a holder nothing is held. */
	if (hold->fd >= 0 && hold_send(hold->fd, HOLD_DROP, &one, 1) < 0)
		hold->fd = close_fd(hold->fd);
}

/* Until the holder closes its end, with all that it has. */
static void hold_await_end(const struct hold *hold)
{
	struct hold_set none = HOLD_SET_INIT;
	struct hold_message message;

	while (hold_receive(hold->fd, &none, &message) >= 0)
		;
	hold_set_clear(&none);
}

/* An adopter signals nothing: the holder is not its child. */
void hold_begin_end(struct hold *hold)
{
	if (hold->ending)
		return;
	hold->ending = true;
	if (hold->process.pid)
		(void)!pidref_signal(&hold->process, SIGKILL); /* it may have ended */
	else if (hold->fd >= 0 && hold_send(hold->fd, HOLD_END, NULL, 0) < 0)
		hold->fd = close_fd(hold->fd);
}

struct hold *hold_end(struct hold *hold)
{
	if (!hold)
		return NULL;
	hold_begin_end(hold);
	if (hold->process.pid)
		hidden_child_reap(take_fd(&hold->process.fd));
	else if (hold->fd >= 0)
		hold_await_end(hold);
	pidref_close(&hold->process);
	(void)close_fd(hold->fd);
	free(hold->label);
	free(hold);
	return NULL;
}

/* ---- re-exec ------------------------------------------------------------------------------- */

void hold_save(const struct hold *hold, struct handover *h, struct json_t *object)
{
	handover_put_fd(h, object, "fd", hold->fd);
	handover_put_fd(h, object, "process_fd", hold->process.fd);
	handover_put_int(h, object, "pid", hold->process.pid);
	handover_put_text(h, object, "label", hold->label);
	handover_put_int(h, object, "dir_device", (int64_t)hold->st.st_dev);
	handover_put_int(h, object, "dir_inode", (int64_t)hold->st.st_ino);
}

struct hold *hold_restore(const struct handover *h, const struct json_t *object)
{
	struct hold *hold = calloc(1, sizeof(*hold));

	if (!hold)
		return NULL;
	hold->fd = handover_get_fd(object, "fd");
	hold->process.fd = handover_get_fd(object, "process_fd");
	if (hold->process.fd >= 0)
		hold->process.pid = (pid_t)json_get_int(object, "pid", 0);
	hold->st.st_dev = (dev_t)json_get_int(object, "dir_device", 0);
	hold->st.st_ino = (ino_t)json_get_int(object, "dir_inode", 0);
	if (handover_copy_text(h, object, "label", &hold->label) == 0 && hold->label)
		return hold;
	free(hold);
	return NULL;
}

/* ---- an adopter's side --------------------------------------------------------------------- */

/* The step's directory decides whose process may have made the socket: no other user's, root's
 * included, can have put it there. So root takes nothing from the holder of a user's step, who
 * could have it be any process. */
static int hold_check_trusted(int dir_fd, struct err *err)
{
	static const char *const names[] = {".", "state.json", HOLD_SOCKET};
	struct stat st;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (fstatat(dir_fd, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			return err_set(
				err, -errno, "find the process that holds the tasks' streams");
		if (st.st_uid != geteuid())
			return err_set_text(err, -EPERM,
				"the tasks' streams are held for uid %u: only an adopter of that user takes "
				"them",
				(unsigned)st.st_uid);
		if (st.st_mode & (S_IWGRP | S_IWOTH))
			return err_set_text(err, -EPERM,
				"others may write to '%s' of the step's directory: who holds the tasks' "
				"streams can't be trusted",
				names[i]);
	}
	return S_ISSOCK(st.st_mode)
		? 0
		: err_set_text(
			  err, -EPERM, "'" HOLD_SOCKET "' in the step's directory is no socket");
}

/* The kernel's credentials are those of the agent that made the socket. */
static int hold_check_peer(int fd, struct err *err)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return err_set(err, -errno, "find the process that holds the tasks' streams");
	if (peer.uid != geteuid())
		return err_set_text(err, -EPERM,
			"a process of uid %u (pid %d) listens at '" HOLD_SOCKET
			"' in the step's directory: it does not hold the tasks' streams",
			(unsigned)peer.uid, (int)peer.pid);
	return 0;
}

static int hold_connect(struct hold *hold, int dir_fd, struct err *err)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const struct sockaddr_un sa = hold_address(dir_fd);
	int r = hold_check_trusted(dir_fd, err);

	if (r < 0)
		return r;
	if (fd < 0 || connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0)
		return err_set(err, errno == ECONNREFUSED ? -ENOENT : -errno,
			"find the process that holds the tasks' streams");
	r = hold_check_peer(fd, err);
	if (r < 0)
		return r;
	if (fcntl(fd, F_SETFL, 0) < 0 || hold_set_timeouts(fd) < 0)
		return err_set(err, -errno, "find the process that holds the tasks' streams");
	hold->fd = take_fd(&fd);
	return 0;
}

/* Gives out each descriptor once, however often a number occurs. */
struct hold_taking {
	struct hold_set *set;
	size_t at;
};

static int hold_find(_unused_ const json_t *object, int fd, void *userdata)
{
	struct hold_taking *taking = userdata;
	struct hold_set *set = taking->set;
	struct held *held;
	size_t i;

	for (i = 0; i < set->n; i++) { /* they come as they were collected */
		held = &set->v[(taking->at + i) % set->n];
		if (held->id != fd || held->fd < 0)
			continue;
		taking->at = (taking->at + i + 1) % set->n;
		return take_fd(&held->fd);
	}
	return -1; /* dropped */
}

/* The file is sealed, so that nobody changes it from here on. */
static int hold_read_document(const struct hold *hold, struct hold_set *set,
	struct handover **ret_document, struct err *err)
{
	_cleanup_handover_ struct handover *h = NULL;
	struct hold_taking taking = {.set = set};
	const char *label;
	const json_t *root;
	int seals = fcntl(set->document_fd, F_GET_SEALS), r;

	if (seals < 0 || !(seals & F_SEAL_WRITE))
		return err_set(err, -EPROTO, "read the document of the tasks' streams");
	r = handover_open(set->document_fd, false, &h, err);
	if (r < 0)
		return r;
	root = handover_root(h);
	label = handover_get_text(h, root, "step");
	if (!handover_is_held(h) || !label || strcmp(label, hold->label) != 0 ||
		json_get_int(root, "dir_device", -1) != (int64_t)hold->st.st_dev ||
		json_get_int(root, "dir_inode", -1) != (int64_t)hold->st.st_ino)
		return err_set_text(err, -EPROTO,
			"what listens in the directory of step %s has the streams of another step",
			hold->label);
	r = handover_each_fd(h, hold_find, &taking);
	if (r < 0)
		return err_set(err, r, "take the tasks' streams");
	*ret_document = take_ptr(h);
	return 0;
}

static int hold_receive_set(const struct hold *hold, struct hold_set *set, struct err *err)
{
	struct hold_message message;
	int r;

	do
		r = hold_receive(hold->fd, set, &message);
	while (r == HOLD_BEGIN || r == HOLD_ADD);
	if (r < 0 || r != HOLD_COMMIT || set->document_fd < 0)
		return err_set(err, r < 0 ? r : -EPROTO,
			"take the tasks' streams from the process that holds them");
	return 0;
}

int hold_take(int dir_fd, const char *label, struct hold **ret_hold, struct handover **ret_document,
	int *ret_counts_fd, struct err *err)
{
	_cleanup_hold_set_ struct hold_set set = HOLD_SET_INIT;
	struct hold *hold = NULL;
	int r = hold_new(dir_fd, label, &hold);

	if (r < 0)
		return err_set(err, r, "find the process that holds the tasks' streams");
	r = hold_connect(hold, dir_fd, err);
	if (r == 0)
		r = hold_receive_set(hold, &set, err);
	if (r == 0)
		r = hold_read_document(hold, &set, ret_document, err);
	if (r < 0) { /* it is not told to end: another adopter may know better */
		hold->fd = close_fd(hold->fd);
		(void)hold_end(hold);
		return r;
	}
	*ret_counts_fd = take_fd(&set.counts_fd);
	*ret_hold = hold;
	return 0;
}
