/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any bytes as what a client sends, in any pieces, to a whole service: each answer is one, none
 * comes without a call, and when the client has gone nothing is held.
 *
 * The input's first byte is the size of the pieces; bit 7: the client shuts its side down at the
 * end and waits for the answers, else it leaves.
 */
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "stepd/control/control_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void run_echo(struct control_call *call, const json_t *parameters, void *userdata)
{
	(void)userdata;
	if (control_call_wants_more(call))
		control_reply_take(call, json_deep_copy(parameters), false);
	control_reply_take(call, json_deep_copy(parameters), true);
}

/* Held until the caller has gone, of which it must then be notified. */
static void on_gone(struct control_call *call, void *userdata)
{
	int *held = userdata;

	require(call->under_way && *held > 0);
	(*held)--;
}

static void run_hold(struct control_call *call, const json_t *parameters, void *userdata)
{
	int *held = userdata;

	(void)parameters;
	(*held)++;
	control_call_on_gone(call, on_gone, held);
}

static const struct control_method methods[] = {
	{.name = "E",
		.access = CONTROL_OPERATOR,
		.flags = CONTROL_MORE,
		.parameters = {{"b", CONTROL_BOOL, true}, {"i", CONTROL_INT, true},
			{"s", CONTROL_STRING, true}, {"o", CONTROL_OBJECT, true},
			{"a", CONTROL_INT_ARRAY, true}},
		.run = run_echo},
	{.name = "M", .flags = CONTROL_MORE_ONLY, .run = run_echo},
	{.name = "W", .flags = CONTROL_WHEN_READY, .run = run_echo},
	{.name = "K", .run = run_hold},
	{.name = "S", .parameters = {{"s", CONTROL_STRING, false}}, .run = run_echo},
};

static struct control *make_service(int *held)
{
	static const struct log log = {.fd = 2, .most = LOG_LEVEL_ERROR, .ident = "fuzz"};
	char dir[] = "/tmp/stepd-fuzz.XXXXXX";
	struct control_options options = {.loop = ev_loop_new(EVFLAG_NOENV),
		.log = &log,
		.methods = methods,
		.methods_count = ARRAY_SIZE(methods),
		.interface = "a.b",
		.description = "interface a.b\n",
		.vendor = "v",
		.product = "p",
		.version = "1",
		.url = "u",
		.operator_gid = (gid_t)-1,
		.userdata = held};
	struct control *c = NULL;
	struct err err = ERR_INIT;
	int i;

	require(mkdtemp(dir) != NULL);
	options.dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	options.path = dir;
	require(control_open(&options, &c, &err) == 0);
	c->options.path = "";
	for (i = 0; i < LISTENER_MAX; i++)
		require(unlinkat(options.dir_fd, listener_names[i], 0) == 0 || errno == ENOENT);
	require(rmdir(dir) == 0);
	return c;
}

static bool any_is_due(const struct control *c)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(c->due); i++) {
		if (!TAILQ_EMPTY(&c->due[i]))
			return true;
	}
	return false;
}

static void run_loop(struct control *c)
{
	int i;

	for (i = 0; i < 3 || any_is_due(c); i++)
		(void)ev_run(c->options.loop, EVRUN_NOWAIT);
}

/* Reads what has come; whole answers, as many as frames were sent, or two with "more". */
static void check_answers(int fd, size_t *answers)
{
	static char buf[1 << 16];
	static size_t have;
	char *end;
	json_t *answer;
	ssize_t n = recv(fd, buf + have, sizeof(buf) - have, MSG_DONTWAIT);

	have += n > 0 ? (size_t)n : 0;
	while ((end = memchr(buf, '\0', have))) {
		answer = json_loads(buf, 0, NULL);
		require(json_is_object(json_object_get(answer, "parameters")));
		json_decref(answer);
		have -= (size_t)(end + 1 - buf);
		memmove(buf, end + 1, have);
		(*answers)++;
	}
	if (n <= 0)
		have = 0;
}

static struct conn *connect_pair(struct control *c, int *ret_fd)
{
	struct control_peer peer;
	struct conn *conn;
	int pair[2];

	require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	require(access_peer(pair[0], &peer) == 0);
	require(conn_new_take(c, pair[0], &peer, CONTROL_AGENT, &conn) == 0);
	conn_settle(conn);
	*ret_fd = pair[1];
	return conn;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct control *c;
	static int held;
	size_t at = 1, piece, frames = 0, answers = 0, i;
	int fd;

	if (!c)
		c = make_service(&held);
	if (size < 2)
		return 0;
	c->ready = data[0] & 1;
	(void)connect_pair(c, &fd);
	for (i = 1; i < size; i++)
		frames += data[i] == '\0';
	for (; at < size; at += piece) {
		piece = (size_t)(data[0] & 127) * 8 + 1;
		piece = piece < size - at ? piece : size - at;
		if (send(fd, data + at, piece, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break; /* it was closed */
		run_loop(c);
		check_answers(fd, &answers);
	}
	if (data[0] & 128) {
		(void)shutdown(fd, SHUT_WR);
		run_loop(c);
		check_answers(fd, &answers);
	}
	require(answers <= 2 * frames);
	(void)close(fd);
	run_loop(c);
	require(TAILQ_EMPTY(&c->all) && TAILQ_EMPTY(&c->waiting) && c->memory == 0 && held == 0);
	return 0;
}
