/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/control_rig.h"

#include <grp.h>
#include <sys/wait.h>

#include "stepd/base/clock.h"

#define GUARD_S 600.

/* ---- methods ------------------------------------------------------------------------------- */

static void run_echo(struct control_call *call, const json_t *parameters, void *userdata)
{
	struct rig *rig = userdata;

	rig->runs++;
	control_reply_take(call, json_deep_copy(parameters), true);
}

static void run_note(struct control_call *call, const json_t *parameters, void *userdata)
{
	struct rig *rig = userdata;
	const char *text = json_string_value(json_object_get(parameters, "text"));

	rig->runs++;
	(void)strncat(rig->order, text, sizeof(rig->order) - strlen(rig->order) - 1);
	control_reply_take(call, NULL, true);
}

static void count_gone(struct control_call *call, void *userdata)
{
	struct rig *rig = userdata;
	unsigned i;

	rig->gone_count++;
	for (i = 0; i < rig->held_count; i++) {
		if (rig->held[i] == call)
			rig->held[i] = rig->held[--rig->held_count];
	}
}

static void run_hold(struct control_call *call, const json_t *parameters, void *userdata)
{
	struct rig *rig = userdata;

	(void)parameters;
	rig->runs++;
	assert_true(rig->held_count < RIG_HELD_MAX);
	rig->held[rig->held_count++] = call;
	control_call_on_gone(call, count_gone, rig);
}

static void run_big(struct control_call *call, const json_t *parameters, void *userdata)
{
	struct rig *rig = userdata;
	const size_t size = (size_t)json_integer_value(json_object_get(parameters, "size"));
	_cleanup_free_ char *text = malloc(size + 1);

	rig->runs++;
	memset(text, 'x', size);
	text[size] = '\0';
	control_reply_take(call, json_pack("{s:s}", "text", text), true);
}

static void run_more(struct control_call *call, const json_t *parameters, void *userdata)
{
	struct rig *rig = userdata;
	json_int_t i, count = json_integer_value(json_object_get(parameters, "count"));

	rig->runs++;
	for (i = 1; control_call_wants_more(call) && i < count; i++)
		control_reply_take(call, json_pack("{s:I}", "n", i), false);
	control_reply_take(call, json_pack("{s:I}", "n", count), true);
}

/* Takes its time, and the loop's. */
static void run_toil(struct control_call *call, const json_t *parameters, void *userdata)
{
	struct rig *rig = userdata;
	const uint64_t begin_ns = clock_now_ns();

	(void)parameters;
	rig->toils++;
	while (clock_now_ns() - begin_ns < RIG_TOIL_NS)
		;
	control_reply_take(call, NULL, true);
}

static void run_fail(struct control_call *call, const json_t *parameters, void *userdata)
{
	struct rig *rig = userdata;

	(void)parameters;
	rig->runs++;
	control_error_take(call, "NoSuchProcess", json_pack("{s:i}", "pid", 7));
}

static void run_upgrade(struct control_call *call, const json_t *parameters, void *userdata)
{
	struct rig *rig = userdata;

	rig->runs++;
	rig->upgraded = control_upgrade_take(call, json_deep_copy(parameters), &rig->channel);
}

static void on_finished(void *userdata)
{
	struct rig *rig = userdata;

	rig->finished = true;
}

static void run_end(struct control_call *call, const json_t *parameters, void *userdata)
{
	struct rig *rig = userdata;

	(void)parameters;
	control_finish(rig->control, 5000, on_finished, rig);
	control_reply_take(call, NULL, true);
}

static const struct control_method methods[] = {
	{.name = "Echo",
		.access = CONTROL_OPERATOR,
		.parameters = {{"b", CONTROL_BOOL, true}, {"i", CONTROL_INT, true},
			{"s", CONTROL_STRING, true}, {"o", CONTROL_OBJECT, true},
			{"a", CONTROL_INT_ARRAY, true}, {"oa", CONTROL_OBJECT_ARRAY, true}},
		.run = run_echo},
	{.name = "Note",
		.access = CONTROL_OPERATOR,
		.parameters = {{"text", CONTROL_STRING, false}},
		.run = run_note},
	{.name = "Change",
		.access = CONTROL_OWNER,
		.flags = CONTROL_WHEN_READY,
		.parameters = {{"text", CONTROL_STRING, false}},
		.run = run_note},
	{.name = "Rule", .access = CONTROL_AGENT, .run = run_echo},
	{.name = "Keep", .access = CONTROL_OPERATOR, .flags = CONTROL_MORE, .run = run_hold},
	{.name = "Big",
		.access = CONTROL_OPERATOR,
		.parameters = {{"size", CONTROL_INT, false}},
		.run = run_big},
	{.name = "Many",
		.access = CONTROL_OPERATOR,
		.flags = CONTROL_MORE,
		.parameters = {{"count", CONTROL_INT, false}},
		.run = run_more},
	{.name = "Only",
		.access = CONTROL_OPERATOR,
		.flags = CONTROL_MORE_ONLY,
		.parameters = {{"count", CONTROL_INT, false}},
		.run = run_more},
	{.name = "End", .access = CONTROL_AGENT, .run = run_end},
	{.name = "Fail", .access = CONTROL_OPERATOR, .run = run_fail},
	{.name = "Toil", .access = CONTROL_OPERATOR, .run = run_toil},
	{.name = "Raise", .access = CONTROL_OPERATOR, .flags = CONTROL_UPGRADE, .run = run_upgrade},
	{.name = "Drudge", .access = CONTROL_OWNER, .flags = CONTROL_WHEN_READY, .run = run_toil},
};

/* ---- the service --------------------------------------------------------------------------- */

static void on_guard(struct ev_loop *loop, ev_timer *timer, int revents)
{
	(void)loop;
	(void)timer;
	(void)revents;
	errx(99, "the test waits for what does not come");
}

static void open_dir(struct rig *rig)
{
	rig->dir_fd = open(rig->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (rig->dir_fd < 0)
		err(99, "open '%s'", rig->dir);
	rig->address = (struct sockaddr_un){.sun_family = AF_UNIX};
	(void)snprintf(rig->address.sun_path, sizeof(rig->address.sun_path),
		"/proc/self/fd/%d/socket", rig->dir_fd);
}

int rig_setup(void **state)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	if (!rig)
		return -1;
	rig->dir = scratch_make();
	rig->fds = scratch_count_fds();
	open_dir(rig);
	rig->loop = ev_loop_new(EVFLAG_NOENV);
	rig->log = (struct log){.fd = 2, .most = LOG_LEVEL_WARNING, .ident = "test"};
	ev_timer_init(&rig->guard, on_guard, GUARD_S, 0.);
	ev_timer_start(rig->loop, &rig->guard);
	rig->options = (struct control_options){.loop = rig->loop,
		.log = &rig->log,
		.dir_fd = rig->dir_fd,
		.path = rig->dir,
		.methods = methods,
		.methods_count = ARRAY_SIZE(methods),
		.interface = "org.example.Trial",
		.description = "interface org.example.Trial\n",
		.vendor = "v",
		.product = "p",
		.version = "1",
		.url = "u",
		.owner_uid = 4001,
		.operator_gid = 4100,
		.userdata = rig};
	rig_open(rig);
	control_set_ready(rig->control);
	*state = rig;
	return 0;
}

void rig_open(struct rig *rig)
{
	struct err err = ERR_INIT;

	rig->control = control_close(rig->control);
	if (control_open(&rig->options, &rig->control, &err) < 0)
		errx(99, "%s", err.text);
}

int rig_teardown(void **state)
{
	struct rig *rig = *state;
	int left;

	rig->control = control_close(rig->control);
	ev_loop_destroy(rig->loop);
	(void)close(rig->dir_fd);
	left = scratch_count_fds() - rig->fds;
	if (left != 0)
		warnx("%d descriptors are left", left);
	scratch_remove(rig->dir);
	free(rig->dir);
	free(rig);
	return left == 0 ? 0 : -1;
}

void rig_once(struct rig *rig)
{
	(void)ev_run(rig->loop, EVRUN_ONCE);
}

void rig_settle(struct rig *rig)
{
	int i;

	for (i = 0; i < 20; i++)
		(void)ev_run(rig->loop, EVRUN_NOWAIT);
}

/* ---- clients ------------------------------------------------------------------------------- */

int rig_connect(struct rig *rig)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	while (connect(fd, (struct sockaddr *)&rig->address, sizeof(rig->address)) < 0) {
		assert_int_equal(errno, EAGAIN); /* the queue is full */
		rig_once(rig);
	}
	return fd;
}

void rig_send_bytes(struct rig *rig, int fd, const void *data, size_t size)
{
	const char *at = data;
	ssize_t n;

	while (size > 0) {
		n = send(fd, at, size, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0) {
			assert_int_equal(errno, EAGAIN);
			rig_once(rig);
			continue;
		}
		at += n;
		size -= (size_t)n;
	}
}

void rig_send(struct rig *rig, int fd, const char *text)
{
	rig_send_bytes(rig, fd, text, strlen(text) + 1);
}

/* How much of what is there belongs to the first frame; *ret_ends: its NUL is among it. */
static ssize_t peek_frame(int fd, char *buf, size_t size, bool *ret_ends)
{
	ssize_t n = recv(fd, buf, size, MSG_DONTWAIT | MSG_PEEK);
	const char *end = n > 0 ? memchr(buf, '\0', (size_t)n) : NULL;

	*ret_ends = end != NULL;
	return end ? end - buf + 1 : n;
}

char *rig_receive(struct rig *rig, int fd)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	char buf[65536];
	bool ends = false;
	ssize_t n;

	while (!ends) {
		n = peek_frame(fd, buf, sizeof(buf), &ends);
		if (n < 0 && errno == EAGAIN) {
			rig_once(rig);
			continue;
		}
		if (n <= 0)
			return NULL;
		assert_int_equal(recv(fd, buf, (size_t)n, MSG_DONTWAIT), n);
		text = realloc(text, size + (size_t)n);
		memcpy(text + size, buf, (size_t)n);
		size += (size_t)n;
	}
	return take_ptr(text);
}

void rig_expect(struct rig *rig, int fd, const char *text)
{
	_cleanup_free_ char *got = rig_receive(rig, fd);

	assert_non_null(got);
	assert_string_equal(got, text);
}

void rig_expect_end(struct rig *rig, int fd)
{
	_cleanup_free_ char *got = rig_receive(rig, fd);

	if (got)
		fail_msg("got '%s' where the connection should end", got);
	(void)close(fd);
}

void rig_try(struct rig *rig, const char *call, const char *answer)
{
	int fd = rig_connect(rig);

	rig_send(rig, fd, call);
	rig_expect(rig, fd, answer);
	(void)close(fd);
}

/* ---- other users --------------------------------------------------------------------------- */

pid_t rig_fork(struct rig *rig, uid_t uid, gid_t gid, gid_t group, rig_child_fn fn, int argument)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	if (setgroups(group != (gid_t)-1, &group) < 0 || setresgid(gid, gid, gid) < 0 ||
		setresuid(uid, uid, uid) < 0)
		_exit(98);
	(void)alarm((unsigned)GUARD_S);
	_exit(fn(rig, argument));
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int revents)
{
	(void)loop;
	(void)timer;
	(void)revents;
}

int rig_wait(struct rig *rig, pid_t pid)
{
	ev_timer tick;
	int status;

	ev_timer_init(&tick, on_tick, 0.005, 0.005);
	ev_timer_start(rig->loop, &tick);
	while (waitpid(pid, &status, WNOHANG) == 0)
		rig_once(rig);
	ev_timer_stop(rig->loop, &tick);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int rig_child_try(const struct rig *rig, enum listener_kind kind)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/%s", rig->dir, listener_names[kind]);
	if (fd < 0)
		err(97, "socket");
	return connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ? -errno : take_fd(&fd);
}

int rig_child_connect(const struct rig *rig)
{
	int fd = rig_child_try(rig, LISTENER_ALL);

	if (fd < 0)
		errx(97, "connect: %s", strerror(-fd));
	return fd;
}

char *rig_child_call(int fd, const char *text)
{
	char *answer = calloc(1, 65536);
	size_t size = 0;
	ssize_t n;

	(void)send(fd, text, strlen(text) + 1, MSG_NOSIGNAL); /* an answer may be there already */
	while ((n = recv(fd, answer + size, 65535 - size, 0)) > 0) {
		size += (size_t)n;
		if (answer[size - 1] == '\0')
			return answer;
	}
	free(answer);
	return NULL;
}
