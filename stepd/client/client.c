/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connections, and calls of any method.
 *
 * A connection is to the agent of a step and to nobody else: the socket is looked up in the
 * directory whose owner was checked, and the peer must run as that owner or as root.
 */
#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include "stepd/base/clock.h"
#include "stepd/base/json.h"
#include "stepd/client/client_impl.h"
#include "stepd/state/steps.h"

/* ---- frames over a socket ------------------------------------------------------------------ */

#define PIECE_SIZE 65536
#define NSEC_MSEC  1000000

int64_t stream_deadline(int timeout_ms)
{
	return timeout_ms < 0 ? STREAM_NEVER
			      : (int64_t)clock_now_ns() + (int64_t)timeout_ms * NSEC_MSEC;
}

/* How many milliseconds are left until then, rounded up, for poll(2): 0 at the deadline. */
static int stream_left_ms(int64_t deadline)
{
	int64_t left;

	if (deadline == STREAM_NEVER)
		return -1;
	left = (deadline - (int64_t)clock_now_ns() + NSEC_MSEC - 1) / NSEC_MSEC;
	return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

void stream_init(struct stream *s, int fd)
{
	*s = (struct stream){.fd = fd};
}

void stream_clear(struct stream *s)
{
	s->fd = close_fd(s->fd);
	buffer_clear(&s->in);
	free(s->out);
	stream_init(s, -1);
}

int stream_release(struct stream *s, struct buffer *ret_rest)
{
	int fd = take_fd(&s->fd);

	buffer_drop(&s->in, s->returned);
	*ret_rest = take_struct(s->in);
	stream_clear(s);
	return fd;
}

/* ---- out ----------------------------------------------------------------------------------- */

static void drop_out(struct stream *s)
{
	free(s->out);
	s->out = NULL;
	s->out_at = s->out_end = 0;
}

/* Sends without blocking. A peer that reads no more may have sent the reason, which is read. */
static void push(struct stream *s)
{
	ssize_t n;

	while (s->out_at < s->out_end) {
		n = send(s->fd, s->out + s->out_at, s->out_end - s->out_at,
			MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == ENOBUFS))
			return;
		if (n < 0) {
			s->out_broken = true;
			break;
		}
		s->out_at += (size_t)n;
	}
	drop_out(s);
}

/* Whether something is still to be sent. */
static bool stream_wants_write(const struct stream *s)
{
	return s->out_at < s->out_end;
}

void stream_put_take(struct stream *s, char *data, size_t size)
{
	assert(!stream_wants_write(s));
	s->out = data;
	s->out_at = 0;
	s->out_end = size;
	push(s);
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* Waits for events, and for writing if something is to be sent: 0, or -ETIMEDOUT. */
static int await(const struct stream *s, short events, int64_t deadline)
{
	struct pollfd p = {.fd = s->fd, .events = events};
	int left_ms, n;

	if (stream_wants_write(s))
		p.events |= POLLOUT;
	/* Nothing is read after the deadline: a peer that sends a byte at a time would extend it.
	 */
	while ((left_ms = stream_left_ms(deadline)) != 0) {
		n = poll(&p, 1, left_ms);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
	return -ETIMEDOUT;
}

int stream_flush(struct stream *s, int64_t deadline)
{
	int r;

	push(s);
	while (stream_wants_write(s)) {
		r = await(s, 0, deadline);
		if (r < 0)
			return r;
		push(s);
	}
	return s->out_broken ? -ECONNRESET : 0;
}

/* ---- in ------------------------------------------------------------------------------------ */

/* Whether something has come, the end of the stream included. */
static bool stream_has_input(const struct stream *s)
{
	char byte;
	ssize_t n;

	if (buffer_size(&s->in) > s->returned)
		return true;
	do
		n = recv(s->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

/* The NUL behind the first frame, or NULL. */
static const char *find_end(struct stream *s)
{
	size_t size = buffer_size(&s->in);
	const char *end = NULL;

	if (size > s->seen)
		end = memchr(buffer_bytes(&s->in) + s->seen, '\0', size - s->seen);
	s->seen = end ? 0 : size;
	return end;
}

/* Reads what has come: how much, 0 for nothing. */
static ssize_t fill(struct stream *s)
{
	ssize_t n;

	if (buffer_size(&s->in) > STREAM_FRAME_MAX)
		return -EMSGSIZE;
	do
		n = buffer_receive(&s->in, s->fd, PIECE_SIZE);
	while (n == -EINTR);
	if (n == 0)
		return -ECONNRESET;
	return n == -EAGAIN ? 0 : n;
}

int stream_next(struct stream *s, int64_t deadline, const char **ret_frame, size_t *ret_size)
{
	const char *end;
	ssize_t r;

	push(s);
	buffer_drop(&s->in, s->returned);
	s->returned = 0;
	while (!(end = find_end(s))) {
		r = fill(s);
		if (r == 0) {
			r = await(s, POLLIN, deadline);
			push(s);
		}
		if (r < 0)
			return (int)r;
	}
	*ret_frame = buffer_bytes(&s->in);
	*ret_size = (size_t)(end - *ret_frame);
	s->returned = *ret_size + 1;
	return 0;
}

/* ---- the socket of a step ------------------------------------------------------------------ */

char *client_step_name(const char *directory)
{
	size_t length = strlen(directory);
	const char *begin, *step;
	char *name = NULL;

	while (length > 1 && directory[length - 1] == '/')
		length--;
	begin = memrchr(directory, '/', length);
	begin = begin && length > 1 ? begin + 1 : directory;
	length -= (size_t)(begin - directory);
	step = memrchr(begin, '_', length); /* there is none in a step's own name */
	if (asprintf(&name, "%.*s", (int)length, begin) < 0)
		return NULL;
	if (step)
		name[step - begin] = '/';
	return name;
}

/* No listener: the step has ended, its agent has died, or it is only starting. */
static int socket_gone(
	int dir_fd, const char *directory, const char *step, struct stepd_error *error)
{
	if (faccessat(dir_fd, "result.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return client_error(error, -ECONNREFUSED,
			"step %s has ended; its result is in %s/result.json", step, directory);
	if (steps_is_locked(dir_fd) == 1)
		return client_error(error, -ECONNREFUSED,
			"step %s: its agent does not listen; it is just starting or ending", step);
	if (faccessat(dir_fd, "state.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return client_error(error, -ECONNREFUSED,
			"step %s: its agent is gone; 'stepd adopt %s' takes the step over", step,
			step);
	return client_error(error, -ENOENT, "there is no step in '%s'", directory);
}

static int socket_failed(int r, int dir_fd, const char *directory, const char *step, int timeout_ms,
	struct stepd_error *error)
{
	switch (r) {
	case -ECONNREFUSED:
	case -ENOENT:
		return socket_gone(dir_fd, directory, step, error);
	case -EAGAIN: /* of connect(2): its queue was full until the deadline */
		return client_error(error, -ETIMEDOUT,
			"step %s: its agent accepted no connection within %d ms; it may be stopped, or busy",
			step, timeout_ms);
	case -EACCES:
		return client_error(error, -EPERM, "step %s: this user may not open '%s/socket'",
			step, directory);
	case -ENOTSOCK:
		return client_error(error, r,
			"step %s: '%s/socket' is not a socket: no agent has made it", step,
			directory);
	default:
		return client_error_errno(
			error, r, "step %s: connect to '%s/socket'", step, directory);
	}
}

/* connect(2) of a Unix socket blocks in the kernel while the listener's queue is full, and poll(2)
 * does not report when it no longer is. */
static int set_send_timeout(int fd, int64_t deadline)
{
	int left_ms = stream_left_ms(deadline);
	struct timeval timeout = {0};

	if (left_ms == 0)
		return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
	if (left_ms > 0) {
		timeout.tv_sec = left_ms / 1000;
		timeout.tv_usec = left_ms % 1000 * 1000;
	}
	return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0 ? -errno : 0;
}

/* The socket itself, not a link: that could lead to another step's agent, whose credentials are
 * right, too.
 */
static int open_socket(int dir_fd, const char *name)
{
	_cleanup_close_ int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return S_ISSOCK(st.st_mode) ? take_fd(&fd) : -ENOTSOCK;
}

/* Below the open directory: a path of any length fits, and it is the directory that was checked. */
static int connect_below(int fd, int dir_fd, const char *name, int64_t deadline)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int socket_fd = open_socket(dir_fd, name);
	int r;

	if (socket_fd < 0)
		return socket_fd;
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", socket_fd);
	do {
		r = set_send_timeout(fd, deadline);
		if (r < 0)
			return r;
		r = connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
	} while (r == -EINTR);
	if (r == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		r = -errno;
	return r;
}

/* The queues of the first two can't be filled by other users (stepd/control/control_impl.h). A
 * client that may not use them, or whose agent is an older one, uses the socket for all, whose
 * error also has the reason why there is no connection. */
static int connect_any(int fd, int dir_fd, int64_t deadline)
{
	static const char *const names[] = {"socket.agent", "socket.owner", "socket"};
	int r = -ENOENT;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names) && r < 0 && r != -EAGAIN; i++)
		r = connect_below(fd, dir_fd, names[i], deadline);
	return r;
}

static int check_peer(int fd, uid_t owner, const char *step, struct stepd_error *error)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return client_error_errno(error, -errno,
			"step %s: read the credentials of the peer of its socket", step);
	if (peer.uid == 0 || peer.uid == owner)
		return 0;
	return client_error(error, -EPERM,
		"step %s: a process of uid %u (pid %d) listens at its socket, which is not the "
		"step's agent: that runs as uid %u or as root",
		step, (unsigned)peer.uid, (int)peer.pid, (unsigned)owner);
}

/* A user who may write to the directory could put a socket of their own there. */
static int open_directory(
	const char *directory, const char *step, uid_t *ret_owner, struct stepd_error *error)
{
	_cleanup_close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return client_error(error, -ENOENT, "there is no step in '%s'", directory);
	if (fd < 0 || fstat(fd, &st) < 0)
		return client_error_errno(error, -errno, "step %s: open '%s'", step, directory);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return client_error(error, -EPERM,
			"step %s: '%s' can be written by others than its owner (mode %04o): any "
			"process may listen there",
			step, directory, (unsigned)(st.st_mode & 07777));
	*ret_owner = st.st_uid;
	return take_fd(&fd);
}

int client_connect_socket(
	const char *directory, const char *step, int timeout_ms, struct stepd_error *error)
{
	_cleanup_close_ int dir_fd = -1, fd = -1;
	uid_t owner = 0;
	int r;

	dir_fd = open_directory(directory, step, &owner, error);
	if (dir_fd < 0)
		return dir_fd;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return client_error_errno(error, -errno, "step %s: make a socket", step);
	r = connect_any(fd, dir_fd, stream_deadline(timeout_ms));
	if (r < 0)
		return socket_failed(r, dir_fd, directory, step, timeout_ms, error);
	r = check_peer(fd, owner, step, error);
	return r < 0 ? r : take_fd(&fd);
}

/* ---- a connection -------------------------------------------------------------------------- */

struct stepd_client *stepd_disconnect(struct stepd_client *client)
{
	if (!client)
		return NULL;
	stream_clear(&client->stream);
	free(client->name);
	free(client->directory);
	free(client->method);
	free(client);
	return NULL;
}
DEFINE_CLEANUP(struct stepd_client *, stepd_disconnect);

int stepd_connect_directory(const char *directory, int timeout_ms, struct stepd_client **ret_client,
	struct stepd_error *error)
{
	_cleanup_(stepd_disconnect_p) struct stepd_client *client = calloc(1, sizeof(*client));
	int fd;

	if (!client)
		return client_no_memory(error);
	stream_init(&client->stream, -1);
	client->timeout_ms = timeout_ms;
	client->name = client_step_name(directory);
	client->directory = strdup(directory);
	if (!client->name || !client->directory)
		return client_no_memory(error);
	fd = client_connect_socket(directory, client->name, timeout_ms, error);
	if (fd < 0)
		return fd;
	stream_init(&client->stream, fd);
	*ret_client = take_ptr(client);
	return 0;
}

int stepd_connect(const char *runtime_dir, const char *name, int timeout_ms,
	struct stepd_client **ret_client, struct stepd_error *error)
{
	_cleanup_free_ char *directory = NULL;
	int r = stepd_find_step(runtime_dir, name, &directory, error);

	return r < 0 ? r : stepd_connect_directory(directory, timeout_ms, ret_client, error);
}

void stepd_set_timeout(struct stepd_client *client, int timeout_ms)
{
	client->timeout_ms = timeout_ms;
}

int stepd_get_fd(const struct stepd_client *client)
{
	return client->stream.fd;
}

void client_split_calls(struct stepd_client *client)
{
	client->split = true;
}

bool stepd_wants_write(const struct stepd_client *client)
{
	return stream_wants_write(&client->stream);
}

/* ---- replies ------------------------------------------------------------------------------- */

/* What is wrong with a reply, or NULL. */
static const char *find_fault(const json_t *doc)
{
	const json_t *parameters = json_object_get(doc, "parameters");
	const json_t *continues = json_object_get(doc, "continues");
	const json_t *error = json_object_get(doc, "error");

	if (!json_is_object(doc))
		return "it is not a JSON object";
	if (parameters && !json_is_object(parameters) && !json_is_null(parameters))
		return "its parameters are no object";
	if (continues && !json_is_boolean(continues))
		return "\"continues\" is neither true nor false";
	if (error && (!json_is_string(error) || json_string_length(error) == 0))
		return "its error has no name";
	if (error && json_is_true(continues))
		return "it is an error that continues";
	return NULL;
}

int reply_parse(const char *text, size_t size, struct reply *ret_reply, const char **ret_why)
{
	json_auto_t *doc = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	const char *error = json_get_text(doc, "error", NULL);
	json_t *parameters = json_get_object(doc, "parameters");
	struct reply reply = {.continues = json_get_bool(doc, "continues", false)};

	*ret_why = doc ? find_fault(doc) : "it is not JSON";
	if (*ret_why)
		return -EPROTO;
	reply.parameters = parameters ? json_incref(parameters) : json_object();
	reply.error = error ? strdup(error) : NULL;
	if (!reply.parameters || (error && !reply.error)) {
		reply_clear(&reply);
		return -ENOMEM;
	}
	*ret_reply = reply;
	return 0;
}

void reply_clear(struct reply *reply)
{
	json_decref(reply->parameters);
	free(reply->error);
	*reply = (struct reply){0};
}

/* ---- failures of a connection -------------------------------------------------------------- */

int client_refuse(
	struct stepd_client *client, const char *method, const char *why, struct stepd_error *error)
{
	client->broken = true;
	return client_error(error, -EPROTO,
		"step %s: %s: the reply is invalid: %s; is this the socket of a step's agent?",
		client->name, method, why);
}

/* Reports a failure of stream_next() or stream_flush(). */
static int stream_failed(struct stepd_client *client, const char *method, int r, int timeout_ms,
	struct stepd_error *error)
{
	if (r == -ETIMEDOUT && timeout_ms == 0)
		return client_error(
			error, -EAGAIN, "step %s: %s: there is no reply yet", client->name, method);
	if (r == -ETIMEDOUT)
		return client_error(error, r,
			"step %s: %s: no reply within %d ms; its agent may be stopped, or busy",
			client->name, method, timeout_ms);
	if (r == -EMSGSIZE)
		return client_refuse(client, method, "it has no end", error);
	client->broken = true;
	if (r == -ECONNRESET || r == -EPIPE)
		return client_error(error, -ECONNRESET,
			"step %s: %s: its agent ended the connection before the reply; connect again "
			"to see whether it lives",
			client->name, method);
	return client_error_errno(error, r, "step %s: %s", client->name, method);
}

static const char *bare_method(const char *method)
{
	size_t prefix = strlen(STEP_INTERFACE);

	return strncmp(method, STEP_INTERFACE, prefix) == 0 ? method + prefix : method;
}

/* ---- calls --------------------------------------------------------------------------------- */

#define CALL_UPGRADE (1u << 16) /* beside enum stepd_call_flags */

static char *make_frame(const char *method, json_t *parameters, unsigned flags)
{
	const char *prefix = strchr(method, '.') ? "" : STEP_INTERFACE;
	json_auto_t *doc = json_pack("{s:s+, s:O*, s:o*, s:o*, s:o*}", "method", prefix, method,
		"parameters", parameters, "more", flags & STEPD_CALL_MORE ? json_true() : NULL,
		"oneway", flags & STEPD_CALL_ONEWAY ? json_true() : NULL, "upgrade",
		flags & CALL_UPGRADE ? json_true() : NULL);

	return json_dumps(doc, JSON_COMPACT);
}

/* Input without a request: at best the agent's reason to end the connection. */
static int refuse_unrequested(
	struct stepd_client *client, const char *method, struct stepd_error *error)
{
	_cleanup_reply_ struct reply reply = {0};
	const char *frame, *why = NULL;
	size_t size;
	int r;

	r = stream_next(&client->stream, stream_deadline(client->timeout_ms), &frame, &size);
	if (r < 0) {
		client->broken = true;
		return stream_failed(client, method, r, client->timeout_ms, error);
	}
	if (reply_parse(frame, size, &reply, &why) < 0 || !reply.error)
		return client_refuse(client, method, why ? why : "it came before a request", error);
	client->broken = true;
	return client_error_remote(error, client->name, method, reply.error, reply.parameters);
}

static int check_idle(struct stepd_client *client, const char *method, struct stepd_error *error)
{
	if (client->broken)
		return client_error(error, -ECONNRESET,
			"step %s: %s: this connection is unusable after an earlier failure; "
			"connect again",
			client->name, method);
	if (client->method)
		return client_error(error, -EINVAL,
			"step %s: %s: %s is pending on this connection; use another one",
			client->name, method, client->method);
	if (stream_has_input(&client->stream))
		return refuse_unrequested(client, method, error);
	return 0;
}

static int send_call(struct stepd_client *client, const char *method, json_t *parameters,
	unsigned flags, struct stepd_error *error)
{
	int r = check_idle(client, method, error);
	char *frame;

	if (r < 0)
		return r;
	r = stream_flush(&client->stream, stream_deadline(client->timeout_ms));
	if (r < 0)
		return stream_failed(client, method, r, client->timeout_ms, error);
	frame = make_frame(method, parameters, flags);
	if (!frame)
		return client_no_memory(error);
	stream_put_take(&client->stream, frame, strlen(frame) + 1);
	if (flags & STEPD_CALL_ONEWAY)
		return 0;
	client->method = strdup(method);
	client->more = flags & STEPD_CALL_MORE;
	if (!client->method) {
		client->broken = true;
		return client_no_memory(error);
	}
	return 0;
}

int client_start_take(struct stepd_client *client, const char *method, json_t *parameters,
	unsigned flags, struct stepd_error *error)
{
	int r = send_call(client, bare_method(method), parameters, flags, error);

	json_decref(parameters);
	return r;
}

bool client_is_pending(const struct stepd_client *client, const char *method)
{
	return client->method && strcmp(client->method, method) == 0;
}

int client_begin_take(struct stepd_client *client, const char *method, json_t *parameters,
	unsigned flags, struct stepd_error *error)
{
	int r;

	if (client->split && !client->broken && client_is_pending(client, method)) {
		json_decref(parameters);
		return 0;
	}
	r = client_start_take(client, method, parameters, flags, error);
	if (r == 0 && client->split)
		return client_error(error, -EAGAIN, "step %s: %s: the request has been sent",
			client->name, method);
	return r;
}

static int take_reply(struct stepd_client *client, const char *frame, size_t size,
	struct reply *ret_reply, struct stepd_error *error)
{
	_cleanup_reply_ struct reply reply = {0};
	_cleanup_free_ char *method = NULL;
	const char *why = NULL;
	int r = reply_parse(frame, size, &reply, &why);

	if (r == -ENOMEM) {
		client->broken = true;
		return client_no_memory(error);
	}
	if (r == 0 && reply.continues && !client->more)
		why = "it announces more replies, which were not requested";
	if (why)
		return client_refuse(client, client->method, why, error);
	if (reply.error) {
		method = take_ptr(client->method);
		return client_error_remote(
			error, client->name, method, reply.error, reply.parameters);
	}
	if (!reply.continues)
		free(take_ptr(client->method));
	*ret_reply = reply;
	reply = (struct reply){0};
	return 0;
}

int client_next(struct stepd_client *client, int timeout_ms, struct reply *ret_reply,
	struct stepd_error *error)
{
	const char *frame;
	size_t size;
	int r;

	if (client->broken || !client->method)
		return client_error(error, client->broken ? -ECONNRESET : -EINVAL,
			"step %s: no reply is pending on this connection", client->name);
	r = stream_next(&client->stream, stream_deadline(timeout_ms), &frame, &size);
	if (r < 0)
		return stream_failed(client, client->method, r, timeout_ms, error);
	return take_reply(client, frame, size, ret_reply, error);
}

int client_next_in_time(struct stepd_client *client, int timeout_ms, struct reply *ret_reply,
	struct stepd_error *error)
{
	int r = client_next(client, timeout_ms, ret_reply, error);

	if (client->method && r < 0)
		client->broken = true;
	return r;
}

int client_call_within_take(struct stepd_client *client, const char *method, json_t *parameters,
	int timeout_ms, json_t **ret_reply, struct stepd_error *error)
{
	_cleanup_reply_ struct reply reply = {0};
	int r = client_begin_take(client, method, parameters, 0, error);

	if (r == 0)
		r = client_next_in_time(client, timeout_ms, &reply, error);
	if (r == 0 && ret_reply)
		*ret_reply = json_incref(reply.parameters);
	return r;
}

int client_call_take(struct stepd_client *client, const char *method, json_t *parameters,
	json_t **ret_reply, struct stepd_error *error)
{
	return client_call_within_take(
		client, method, parameters, client->timeout_ms, ret_reply, error);
}

int client_upgrade_take(struct stepd_client *client, const char *method, json_t *parameters,
	json_t **ret_reply, int *ret_fd, struct buffer *ret_rest, struct stepd_error *error)
{
	_cleanup_reply_ struct reply reply = {0};
	int r = client_start_take(client, method, parameters, CALL_UPGRADE, error);

	if (r == 0)
		r = client_next_in_time(client, client->timeout_ms, &reply, error);
	if (r < 0)
		return r;
	*ret_reply = json_incref(reply.parameters);
	*ret_fd = stream_release(&client->stream, ret_rest);
	client->broken = true;
	return 0;
}

int client_dump_take(json_t *object, char **ret_json, struct stepd_error *error)
{
	char *text = json_dumps(object, JSON_COMPACT);

	json_decref(object);
	if (!text)
		return client_no_memory(error);
	*ret_json = text;
	return 0;
}

/* ---- any method ---------------------------------------------------------------------------- */

/* Checks the caller's arguments. */
static int load_call(const struct stepd_client *client, const char *method, const char *text,
	json_t **ret_parameters, struct stepd_error *error)
{
	size_t length = strspn(method,
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		"0123456789.-");
	json_auto_t *doc = NULL;
	json_error_t why;

	if (length == 0 || method[length] || length > 255)
		return client_error(error, -EINVAL, "step %s: '%s' is not the name of a method",
			client->name, method);
	if (!text)
		return 0;
	doc = json_loads(text, JSON_REJECT_DUPLICATES, &why);
	if (!doc)
		return client_error(error, -EINVAL,
			"step %s: %s: the parameters are no JSON (line %d: %s)", client->name,
			method, why.line, why.text);
	if (!json_is_object(doc))
		return client_error(error, -EINVAL,
			"step %s: %s: the parameters are no JSON object", client->name, method);
	*ret_parameters = take_ptr(doc);
	return 0;
}

int stepd_start_call(struct stepd_client *client, const char *method, const char *parameters,
	unsigned flags, struct stepd_error *error)
{
	json_t *doc = NULL;
	int r = load_call(client, method, parameters, &doc, error);

	if (r == 0)
		r = client_start_take(client, method, doc, flags & ~CALL_UPGRADE, error);
	if (r == 0 && flags & STEPD_CALL_ONEWAY) {
		/* No client_next() follows, which would send the rest. */
		r = stream_flush(&client->stream, stream_deadline(client->timeout_ms));
		if (r < 0)
			return stream_failed(client, method, r, client->timeout_ms, error);
	}
	return r;
}

int stepd_next(struct stepd_client *client, int timeout_ms, char **ret_reply, bool *ret_continues,
	struct stepd_error *error)
{
	struct reply reply = {0};
	int r = client_next(client, timeout_ms, &reply, error);

	if (r < 0)
		return r;
	r = client_dump_take(reply.parameters, ret_reply, error);
	if (r == 0)
		*ret_continues = reply.continues;
	return r;
}

int stepd_call(struct stepd_client *client, const char *method, const char *parameters,
	char **ret_reply, struct stepd_error *error)
{
	json_t *doc = NULL, *reply = NULL;
	int r = load_call(client, method, parameters, &doc, error);

	if (r == 0)
		r = client_call_take(client, method, doc, &reply, error);
	return r < 0 ? r : client_dump_take(reply, ret_reply, error);
}
