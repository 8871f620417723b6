/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/cli/client.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "contrib/jobd/engine/request.h"
#include "stepd/base/json.h"
#include "stepd/client/client.h"

#define INTERFACE "org.stepd.jobs."

struct jobd_client {
	struct stream stream;
	char *path;
};

struct jobd_client *jobd_disconnect(struct jobd_client *client)
{
	if (!client)
		return NULL;
	stream_clear(&client->stream);
	free(client->path);
	free(client);
	return NULL;
}

static int connect_failed(int r, const char *path, struct err *err)
{
	switch (r) {
	case -ENOENT:
	case -ECONNREFUSED:
		return err_set_text(err, r,
			"jobd does not listen at '%s': start it, or name its socket in "
			"$JOBD_SOCKET",
			path);
	default:
		return err_set(err, r, "connect to jobd at '%s'", path);
	}
}

static int connect_socket(int fd, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int r;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	do
		r = connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
	while (r == -EINTR);
	return r;
}

/* Whoever may write to the directory could put a socket of his own there, and would get scripts and
 * environments. */
static int check_peer(int fd, const char *path, struct err *err)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return err_set(err, -errno, "read who listens at '%s'", path);
	if (peer.uid == 0 || peer.uid == geteuid())
		return 0;
	return err_set_text(err, -EPERM,
		"a process of user %u (pid %d) listens at '%s', and nothing was sent to it: jobd "
		"is root's or your own",
		(unsigned)peer.uid, (int)peer.pid, path);
}

/* A jobd of this user's: free() it; NULL: there can be none, or there is no memory. */
static char *own_socket(void)
{
	const char *dir = secure_getenv("XDG_RUNTIME_DIR");
	char *path;

	if (!dir || dir[0] != '/' || asprintf(&path, "%s/jobd/socket", dir) < 0)
		return NULL;
	return path;
}

static int connect_to(struct jobd_client *client, const char *path, struct err *err)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r = fd < 0 ? -errno : 0;

	stream_clear(&client->stream);
	stream_init(&client->stream, fd);
	free(client->path);
	client->path = strdup(path);
	if (r < 0 || !client->path)
		return err_set(err, r < 0 ? r : -ENOMEM, "connect to jobd");
	r = connect_socket(fd, path);
	return r < 0 ? connect_failed(r, path, err) : check_peer(fd, path, err);
}

static int connect_default(struct jobd_client *client, struct err *err)
{
	_cleanup_free_ char *own = own_socket();
	int r = connect_to(client, JOBD_SOCKET_DEFAULT, err);

	if ((r != -ENOENT && r != -ECONNREFUSED) || !own)
		return r;
	r = connect_to(client, own, err);
	return r == -ENOENT || r == -ECONNREFUSED
		? err_set_text(err, r,
			  "jobd listens neither at '%s' nor at '%s': start it, or name "
			  "its socket in $JOBD_SOCKET",
			  JOBD_SOCKET_DEFAULT, own)
		: r;
}

int jobd_connect(struct jobd_client **ret_client, struct err *err)
{
	_cleanup_jobd_client_ struct jobd_client *client = calloc(1, sizeof(*client));
	const char *path = getenv("JOBD_SOCKET");
	int r;

	if (!client)
		return err_set(err, -ENOMEM, "connect to jobd");
	stream_init(&client->stream, -1);
	r = path && *path ? connect_to(client, path, err) : connect_default(client, err);
	if (r == 0)
		*ret_client = take_ptr(client);
	return r;
}

/* ---- calls ------------------------------------------------------------------------------------
 */

static const struct {
	const char *name;
	int code;
} refusals[] = {
	{INTERFACE "PermissionDenied", -EPERM},
	{INTERFACE "NoSuchJob", -ESRCH},
	{INTERFACE "Invalid", -EINVAL},
	{INTERFACE "WrongState", -EBUSY},
	{INTERFACE "NotSupported", -EOPNOTSUPP},
	{INTERFACE "TooManyConnections", -EBUSY},
	{"org.varlink.service.MethodNotFound", -EOPNOTSUPP},
	{"org.varlink.service.MethodNotImplemented", -EOPNOTSUPP},
};

static int refused(const struct reply *reply, const char *method, struct err *err)
{
	const char *message = json_get_text(reply->parameters, "message", NULL);
	const char *parameter = json_get_text(reply->parameters, "parameter", NULL);
	int code = -EIO;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(refusals); i++) {
		if (strcmp(refusals[i].name, reply->error) == 0)
			code = refusals[i].code;
	}
	if (message)
		return err_set_text(err, code, "%s", message);
	return err_set_text(err, code, "jobd refuses %s: %s%s%s", method, reply->error,
		parameter ? ": " : "", parameter ? parameter : "");
}

int jobd_get_fd(const struct jobd_client *client)
{
	return client->stream.fd;
}

int jobd_send_take(
	struct jobd_client *client, const char *method, json_t *parameters, struct err *err)
{
	json_auto_t *call =
		json_pack("{s:s+, s:o}", "method", INTERFACE, method, "parameters", parameters);
	char *text = json_dumps(call, JSON_COMPACT);
	size_t size;
	int r;

	if (!text)
		return err_set(err, -ENOMEM, "call %s of jobd", method);
	size = strlen(text) + 1;
	if (size > REQUEST_CALL_MAX) {
		free(text);
		return err_set_text(err, -E2BIG,
			"call %s of jobd: script, arguments and environment have %zu MiB, and jobd "
			"accepts %u: pass on less, for instance with --export=NONE",
			method, size >> 20, REQUEST_CALL_MAX >> 20);
	}
	stream_put_take(&client->stream, text, size);
	r = stream_flush(&client->stream, stream_deadline(JOBD_TIMEOUT_MS));
	/* a peer that takes no more may have sent the reason, which is read */
	return r < 0 && r != -ECONNRESET
		? err_set(err, r, "call %s of jobd at '%s'", method, client->path)
		: 0;
}

static int receive_failed(const struct jobd_client *client, const char *method, int r,
	const char *why, struct err *err)
{
	switch (r) {
	case -ETIMEDOUT:
		return err_set_text(err, r, "jobd at '%s' does not reply to %s; it may be stopped",
			client->path, method);
	case -ECONNRESET:
	case -EPIPE:
		return err_set_text(err, r,
			"jobd at '%s' has ended the connection before the reply to %s",
			client->path, method);
	case -EPROTO:
		return err_set_text(err, r, "what listens at '%s' is not jobd; its reply to %s: %s",
			client->path, method, why);
	default:
		return err_set(err, r, "call %s of jobd at '%s'", method, client->path);
	}
}

int jobd_receive(struct jobd_client *client, const char *method, int timeout_ms, json_t **ret_reply,
	struct err *err)
{
	_cleanup_reply_ struct reply reply = {0};
	const char *why = "", *frame;
	size_t size;
	int r = stream_next(&client->stream, stream_deadline(timeout_ms), &frame, &size);

	if (r == 0)
		r = reply_parse(frame, size, &reply, &why);
	if (r < 0)
		return receive_failed(client, method, r, why, err);
	if (reply.error)
		return refused(&reply, method, err);
	*ret_reply = take_ptr(reply.parameters);
	return 0;
}

int jobd_call_take(struct jobd_client *client, const char *method, json_t *parameters,
	int timeout_ms, json_t **ret_reply, struct err *err)
{
	int r = jobd_send_take(client, method, parameters, err);

	return r < 0 ? r : jobd_receive(client, method, timeout_ms, ret_reply, err);
}

/* ---- lists ------------------------------------------------------------------------------------
 */

/* The next piece; *from moves on, -1: that was all. */
static int list_piece(struct jobd_client *client, const char *method, const char *member,
	const json_t *parameters, json_t *list, int64_t *from, int64_t *ret_time, struct err *err)
{
	json_auto_t *reply = NULL;
	json_t *call = parameters ? json_copy((json_t *)parameters) : json_object();
	int64_t next;
	int r;

	if (*from > 0 && json_object_set_new(call, "from", json_integer(*from)) < 0) {
		json_decref(call);
		return err_set(err, -ENOMEM, "call %s", method);
	}
	r = jobd_call_take(client, method, call, JOBD_TIMEOUT_MS, &reply, err);
	if (r < 0)
		return r;
	if (json_array_extend(list, json_get_array(reply, member)) < 0)
		return err_set_text(err, -EPROTO,
			"the reply to %s has no array '%s', or there is no "
			"memory for it",
			method, member);
	*ret_time = json_get_int(reply, "time", 0);
	next = json_get_int(reply, "next", -1);
	if (next >= 0 && next <= *from)
		return err_set_text(err, -EPROTO, "the replies to %s have no end", method);
	*from = next;
	return 0;
}

int jobd_list(struct jobd_client *client, const char *method, const char *member,
	const json_t *parameters, json_t **ret_list, int64_t *ret_time, struct err *err)
{
	json_auto_t *list = json_array();
	int64_t from = 0;
	int r = 0;

	while (r == 0 && from >= 0)
		r = list_piece(client, method, member, parameters, list, &from, ret_time, err);
	if (r == 0)
		*ret_list = json_incref(list);
	return r;
}
