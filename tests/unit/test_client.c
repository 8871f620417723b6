/* SPDX-License-Identifier: BSD-3-Clause
 *
 * libstepd's connections against agents that do what no agent should.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>
#include <poll.h>

#include "stepd/base/clock.h"
#include "tests/lib/client_rig.h"

#define MEBI (1u << 20)

static void start(struct rig *rig, fake_script_fn script)
{
	rig->agent = fake_agent_start(rig->runtime, script, 0);
}

static int try_connect(struct rig *rig, int timeout_ms)
{
	return stepd_connect_directory(rig->directory, timeout_ms, &rig->client, &rig->error);
}

static void join(struct rig *rig, fake_script_fn script)
{
	start(rig, script);
	if (try_connect(rig, LONG_MS) < 0)
		fail_msg("%s", rig->error.text);
}

static int call(struct rig *rig)
{
	free(rig->reply);
	rig->reply = NULL;
	return stepd_call(rig->client, "Describe", NULL, &rig->reply, &rig->error);
}

/* The call fails with code and a sentence that has these words; so does every later one. */
static void assert_broken(struct rig *rig, int code, const char *words)
{
	assert_int_equal(call(rig), code);
	assert_int_equal(rig->error.code, code);
	if (!strstr(rig->error.text, words) || !strstr(rig->error.text, "n1/7.0: Describe: "))
		fail_msg("no '%s' in: %s", words, rig->error.text);
	assert_string_equal(rig->error.name, "");
	assert_int_equal(call(rig), -ECONNRESET);
	assert_non_null(strstr(rig->error.text, "connect again"));
	assert_int_equal(stepd_start_call(rig->client, "Wait", NULL, 0, &rig->error), -ECONNRESET);
	assert_int_equal(
		stepd_next(rig->client, 0, &rig->reply, &(bool){false}, &rig->error), -ECONNRESET);
}

/* ---- what goes well ------------------------------------------------------------------------ */

static void script_echo(int fd)
{
	_cleanup_free_ char *answer = NULL;
	char *text;

	while ((text = fake_hear(fd))) {
		if (asprintf(&answer, "{\"parameters\":{\"heard\":%s}}", text) < 0)
			abort();
		fake_answer(fd, answer);
		free(answer);
		free(text);
		answer = NULL;
	}
}

static void test_calls(void **state)
{
	struct rig *rig = *state;

	join(rig, script_echo);
	assert_int_equal(call(rig), 0);
	assert_string_equal(rig->reply, "{\"heard\":{\"method\":\"io.stepd.Step.Describe\"}}");
	free(rig->reply);
	assert_int_equal(
		stepd_call(rig->client, "FindPid", " { \"pid\" : 7 } ", &rig->reply, NULL), 0);
	assert_string_equal(rig->reply,
		"{\"heard\":{\"method\":\"io.stepd.Step.FindPid\",\"parameters\":{\"pid\":7}}}");
	free(rig->reply);
	assert_int_equal(
		stepd_call(rig->client, "org.varlink.service.GetInfo", NULL, &rig->reply, NULL), 0);
	assert_string_equal(rig->reply, "{\"heard\":{\"method\":\"org.varlink.service.GetInfo\"}}");
}

static void test_refuses_what_is_wrong_before_it_is_sent(void **state)
{
	static const struct {
		const char *method, *parameters;
	} table[] = {{"", NULL}, {"Des cribe", NULL}, {"Des\ncribe", NULL}, {"Describe", "{"},
		{"Describe", "[]"}, {"Describe", "\"x\""}, {"Describe", ""},
		{"Describe", "{\"a\":1,\"a\":2}"}};
	struct rig *rig = *state;
	size_t i;

	join(rig, script_echo);
	for (i = 0; i < ARRAY_SIZE(table); i++) {
		assert_int_equal(stepd_call(rig->client, table[i].method, table[i].parameters,
					 &rig->reply, &rig->error),
			-EINVAL);
		assert_null(strchr(rig->error.text, '\n'));
	}
	assert_int_equal(stepd_next(rig->client, 100, &rig->reply, &(bool){false}, &rig->error),
		-EINVAL); /* no call is pending */
	assert_int_equal(
		stepd_next_event(rig->client, 0, &(struct stepd_event){0}, &rig->error), -EINVAL);
	assert_int_equal(call(rig), 0); /* it is as good as before */
}

static void script_slow(int fd)
{
	static const char answer[] = "{\"parameters\":{\"slow\":true}}";
	char *text = fake_hear(fd);
	size_t i;

	free(text);
	for (i = 0; i < sizeof(answer); i++) {
		fake_send(fd, answer + i, 1);
		(void)poll(NULL, 0, 2);
	}
	fake_rest(fd);
}

static void test_an_answer_byte_by_byte(void **state)
{
	struct rig *rig = *state;

	join(rig, script_slow);
	assert_int_equal(call(rig), 0);
	assert_string_equal(rig->reply, "{\"slow\":true}");
}

static void on_alarm(int signal)
{
	(void)signal;
}

/* Signals every millisecond, none of which restarts a call. */
static void disturb(bool on)
{
	struct itimerval every = {.it_interval.tv_usec = 1000, .it_value.tv_usec = 1000}, off = {0};
	struct sigaction act = {.sa_handler = on_alarm};

	assert_int_equal(sigaction(SIGALRM, &act, NULL), 0); /* for one that is late, too */
	assert_int_equal(setitimer(ITIMER_REAL, on ? &every : &off, NULL), 0);
}

static void test_interrupted_calls(void **state)
{
	struct rig *rig = *state;
	int r;

	start(rig, script_slow);
	disturb(true);
	r = try_connect(rig, LONG_MS);
	r = r < 0 ? r : call(rig);
	disturb(false);
	if (r < 0)
		fail_msg("%s", rig->error.text);
	assert_string_equal(rig->reply, "{\"slow\":true}");
}

static void send_large(int fd, size_t size, bool ends)
{
	static char piece[MEBI];
	size_t n;

	free(fake_hear(fd));
	memset(piece, 'x', sizeof(piece));
	fake_send(fd, "{\"parameters\":{\"x\":\"", strlen("{\"parameters\":{\"x\":\""));
	for (; size > 0; size -= n) {
		n = size < sizeof(piece) ? size : sizeof(piece);
		fake_send(fd, piece, n);
	}
	if (ends)
		fake_answer(fd, "\"}}");
	fake_rest(fd);
}

static void script_large(int fd)
{
	send_large(fd, 16 * MEBI, true);
}

static void test_a_large_answer(void **state)
{
	struct rig *rig = *state;

	join(rig, script_large);
	assert_int_equal(call(rig), 0);
	assert_int_equal(strlen(rig->reply), 16 * MEBI + strlen("{\"x\":\"\"}"));
}

/* ---- what should not come ------------------------------------------------------------------ */

static void script_endless(int fd)
{
	send_large(fd, 65 * MEBI, false);
}

static void test_an_answer_without_end(void **state)
{
	struct rig *rig = *state;

	join(rig, script_endless);
	assert_broken(rig, -EPROTO, "it has no end");
}

static const char *garbage; /* for script_garbage, set before it is started */

static void script_garbage(int fd)
{
	free(fake_hear(fd));
	fake_answer(fd, garbage);
	fake_rest(fd);
}

static void test_garbage(void **state)
{
	static const char *const table[] = {"", "garbage", "[]", "\"{}\"", "{", "{}}", "null",
		"{\"parameters\":[]}", "{\"parameters\":\"x\"}", "{\"continues\":1}",
		"{\"error\":7}", "{\"error\":\"\"}", "{\"error\":\"x.Y\",\"continues\":true}",
		"{\"parameters\":{},\"parameters\":{}}", "{\"parameters\":{\"x\":\"\xff\"}}",
		"{\"parameters\":{\"x\":\"\\u0000\"}}", "{\"parameters\":{},\"continues\":true}",
		"\x1b[31m{}"};
	struct rig *rig = *state;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		garbage = table[i];
		join(rig, script_garbage);
		assert_broken(rig, -EPROTO, "the reply is invalid");
		rig->client = stepd_disconnect(rig->client);
		fake_agent_stop(&rig->agent);
	}
}

static void test_answers_with_little_in_them(void **state)
{
	static const char *const table[] = {"{}", "{\"parameters\":null}", "{\"continues\":false}",
		"{\"parameters\":{},\"later\":[1]}"};
	struct rig *rig = *state;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		garbage = table[i];
		join(rig, script_garbage);
		assert_int_equal(call(rig), 0);
		assert_string_equal(rig->reply, "{}");
		rig->client = stepd_disconnect(rig->client);
		fake_agent_stop(&rig->agent);
	}
}

static void script_half(int fd)
{
	free(fake_hear(fd));
	fake_send(fd, "{\"parameters\":", strlen("{\"parameters\":"));
}

static void test_half_an_answer(void **state)
{
	struct rig *rig = *state;

	join(rig, script_half);
	assert_broken(rig, -ECONNRESET, "ended the connection");
}

static void script_hang_up(int fd)
{
	free(fake_hear(fd));
}

static void test_no_answer_but_the_end(void **state)
{
	struct rig *rig = *state;

	join(rig, script_hang_up);
	assert_broken(rig, -ECONNRESET, "ended the connection");
}

static void script_hang_up_first(int fd)
{
	(void)fd;
}

/* No SIGPIPE comes of it. */
static void test_the_end_before_the_call(void **state)
{
	struct rig *rig = *state;

	join(rig, script_hang_up_first);
	assert_broken(rig, -ECONNRESET, "ended the connection");
}

static void script_silent(int fd)
{
	fake_rest(fd);
}

static void test_no_answer_in_time(void **state)
{
	struct rig *rig = *state;
	int64_t before;

	join(rig, script_silent);
	stepd_set_timeout(rig->client, 150);
	before = clock_now_ms();
	assert_broken(rig, -ETIMEDOUT, "no reply within 150 ms");
	assert_true(clock_now_ms() - before >= 149);
}

static void script_trickle(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	free(fake_hear(fd));
	while (poll(&p, 1, 1) == 0)
		fake_send(fd, " ", 1);
}

/* A byte now and then does not stretch the deadline. */
static void test_an_answer_that_never_gets_whole(void **state)
{
	struct rig *rig = *state;
	int64_t before;

	join(rig, script_trickle);
	stepd_set_timeout(rig->client, 150);
	before = clock_now_ms();
	assert_broken(rig, -ETIMEDOUT, "no reply within 150 ms");
	assert_true(clock_now_ms() - before >= 149);
}

static void script_two(int fd)
{
	free(fake_hear(fd));
	fake_send(fd, "{}\0{\"parameters\":{\"late\":1}}",
		sizeof("{}\0{\"parameters\":{\"late\":1}}"));
	fake_rest(fd);
}

/* An answer to nothing is never taken for the next call's. */
static void test_answers_to_nothing(void **state)
{
	struct rig *rig = *state;

	join(rig, script_two);
	assert_int_equal(call(rig), 0);
	assert_broken(rig, -EPROTO, "it came before a request");
}

static void script_full_up(int fd)
{
	fake_answer(fd,
		"{\"error\":\"io.stepd.Step.TooManyConnections\",\"parameters\":{\"limit\":64}}");
}

/* An agent that takes no more says so and hangs up. */
static void test_too_many_connections(void **state)
{
	struct rig *rig = *state;

	join(rig, script_full_up);
	assert_int_equal(call(rig), -EBUSY);
	assert_string_equal(rig->error.name, "io.stepd.Step.TooManyConnections");
	assert_non_null(strstr(rig->error.text, "no more than 64 connections"));
	assert_int_equal(call(rig), -ECONNRESET);
}

/* ---- errors of the interface --------------------------------------------------------------- */

static void script_errors(int fd)
{
	char *text, *end;

	/* parameters: {"a": ANSWER}, which is sent back as it is */
	while ((text = fake_hear(fd))) {
		char *begin = strstr(text, "{\"a\":");

		end = text + strlen(text) - 2;
		*end = '\0';
		fake_answer(fd, begin + strlen("{\"a\":"));
		free(text);
	}
}

static void test_errors(void **state)
{
#define STEP "io.stepd.Step."
#define ORG  "org.varlink.service."
	static const struct {
		const char *name, *parameters;
		int code;
		const char *words;
	} table[] = {
		{STEP "PermissionDenied",
			"{\"method\":\"X\",\"needs\":\"agent\",\"message\":\"you may not\"}",
			-EPERM, "you may not"},
		{STEP "PermissionDenied", "{\"needs\":\"owner\"}", -EPERM, "the step's owner"},
		{STEP "NoSuchProcess", "{\"pid\":4711}", -ESRCH, "4711"},
		{STEP "NoSuchTask", "{\"rank\":9}", -ESRCH, "rank 9"},
		{STEP "WrongState", "{\"state\":\"ended\",\"message\":\"it has ended\"}", -EBUSY,
			"it has ended"},
		{STEP "SuspendFailed", "{\"message\":\"pid 5 did not stop\"}", -ETIMEDOUT,
			"pid 5 did not stop"},
		{STEP "NotSupported", "{\"message\":\"no cgroup here\"}", -EOPNOTSUPP,
			"no cgroup here"},
		{STEP "Failed", "{\"message\":\"write x\",\"errno\":\"ENOSPC\"}", -EIO,
			"write x (ENOSPC)"},
		{ORG "MethodNotFound", "{\"method\":\"X\"}", -EOPNOTSUPP, "Reexec"},
		{ORG "InvalidParameter", "{\"parameter\":\"ranks\"}", -EINVAL, "'ranks'"},
		{ORG "ExpectedMore", "{}", -EINVAL, "STEPD_CALL_MORE"},
		{"com.example.Odd", "{\"x\":[1]}", -EIO, "{\"x\":[1]}"},
		{STEP "WrongState", "{\"message\":\"\\u001b[2J\\nX\"}", -EBUSY, "\\x1b[2J\\x0aX"},
		{"nodot", "{}", -EIO, "nodot"},
	};
	struct rig *rig = *state;
	char *parameters = NULL;
	size_t i;

	join(rig, script_errors);
	for (i = 0; i < ARRAY_SIZE(table); i++) {
		assert_true(asprintf(&parameters, "{\"a\":{\"error\":\"%s\",\"parameters\":%s}}",
				    table[i].name, table[i].parameters) > 0);
		assert_int_equal(
			stepd_call(rig->client, "Signal", parameters, &rig->reply, &rig->error),
			table[i].code);
		assert_string_equal(rig->error.name, table[i].name);
		assert_int_equal(rig->error.code, table[i].code);
		if (!strstr(rig->error.text, table[i].words) ||
			strncmp(rig->error.text, "step n1/7.0: Signal: ", 21) != 0)
			fail_msg("no '%s' in: %s", table[i].words, rig->error.text);
		free(parameters);
	}
	assert_int_equal(stepd_call(rig->client, "Signal", "{\"a\":{\"parameters\":{\"fine\":1}}}",
				 &rig->reply, &rig->error),
		0); /* an error is an answer like others */
}

/* ---- more, oneway, and loops of the caller's own ------------------------------------------- */

static void script_three(int fd)
{
	free(fake_hear(fd));
	fake_answer(fd, "{\"parameters\":{\"n\":1},\"continues\":true}");
	fake_answer(fd, "{\"parameters\":{\"n\":2},\"continues\":true}");
	fake_answer(fd, "{\"parameters\":{\"n\":3}}");
	script_echo(fd);
}

static void test_more(void **state)
{
	struct rig *rig = *state;
	char expected[32];
	bool continues = true;
	int n = 0;

	join(rig, script_three);
	assert_int_equal(
		stepd_start_call(rig->client, "ListPids", NULL, STEPD_CALL_MORE, &rig->error), 0);
	assert_int_equal(call(rig), -EINVAL);
	assert_non_null(strstr(rig->error.text, "ListPids is pending"));
	while (continues) {
		assert_int_equal(
			stepd_next(rig->client, LONG_MS, &rig->reply, &continues, &rig->error), 0);
		(void)snprintf(expected, sizeof(expected), "{\"n\":%d}", ++n);
		assert_string_equal(rig->reply, expected);
		free(rig->reply);
		rig->reply = NULL;
	}
	assert_int_equal(n, 3);
	assert_int_equal(call(rig), 0);
}

static void script_after_oneway(int fd)
{
	free(fake_hear(fd));
	script_echo(fd);
}

static void test_oneway(void **state)
{
	struct rig *rig = *state;

	join(rig, script_after_oneway);
	assert_int_equal(stepd_start_call(rig->client, "Notify", "{\"message\":\"x\"}",
				 STEPD_CALL_ONEWAY, &rig->error),
		0);
	assert_int_equal(
		stepd_next(rig->client, 0, &rig->reply, &(bool){false}, &rig->error), -EINVAL);
	assert_int_equal(call(rig), 0);
}

static void script_when_asked_twice(int fd)
{
	char byte;

	if (recv(fd, &byte, 1, MSG_PEEK) == 1)
		(void)poll(NULL, 0, 50);
	script_echo(fd);
}

/* A call that is larger than the socket's buffer, in a loop of the caller's own. */
static void test_in_a_loop(void **state)
{
	struct rig *rig = *state;
	char *parameters = malloc(MEBI);
	bool continues = true, wrote = false;
	int r, rounds = 0;

	assert_non_null(parameters);
	memset(parameters, 'x', MEBI);
	memcpy(parameters, "{\"x\":\"", 6);
	memcpy(parameters + MEBI - 300, "\"}", 3);
	join(rig, script_when_asked_twice);
	assert_int_equal(stepd_start_call(rig->client, "Notify", parameters, 0, &rig->error), 0);
	assert_true(stepd_wants_write(rig->client));
	while ((r = stepd_next(rig->client, 0, &rig->reply, &continues, &rig->error)) == -EAGAIN) {
		struct pollfd p = {.fd = stepd_get_fd(rig->client), .events = POLLIN};

		if (stepd_wants_write(rig->client)) {
			p.events |= POLLOUT;
			wrote = true;
		}
		assert_int_equal(poll(&p, 1, LONG_MS), 1);
		rounds++;
	}
	assert_int_equal(r, 0);
	assert_true(wrote && rounds > 1 && !continues && !stepd_wants_write(rig->client));
	assert_true(strlen(rig->reply) > MEBI - 300);
	free(parameters);
}

/* ---- connecting ---------------------------------------------------------------------------- */

static void test_a_full_queue(void **state)
{
	struct rig *rig = *state;
	struct stepd_client *queued[4] = {NULL};
	_cleanup_free_ char *directory = scratch_path(rig->runtime, "n1_7.0");
	int64_t before;
	size_t n = 0;
	int r;

	start(rig, NULL);
	while (n < ARRAY_SIZE(queued) &&
		stepd_connect_directory(directory, 0, &queued[n], &rig->error) == 0)
		n++;
	assert_in_range(n, 1, ARRAY_SIZE(queued) - 1);
	assert_int_equal(rig->error.code, -ETIMEDOUT);
	before = clock_now_ms();
	assert_int_equal(try_connect(rig, 200), -ETIMEDOUT);
	assert_true(clock_now_ms() - before >= 190);
	assert_non_null(strstr(rig->error.text, "accepted no connection within 200 ms"));
	before = clock_now_ms();
	disturb(true);
	r = try_connect(rig, 200);
	disturb(false);
	assert_int_equal(r, -ETIMEDOUT);
	assert_true(clock_now_ms() - before >= 190);
	while (n > 0)
		stepd_disconnect(queued[--n]);
}

static void test_a_dead_agent(void **state)
{
	_cleanup_free_ char *directory = NULL;
	struct rig *rig = *state;
	int64_t before;

	start(rig, script_echo);
	fake_agent_stop(&rig->agent);
	directory = scratch_path(rig->runtime, "n1_7.0");
	before = clock_now_ms();
	assert_int_equal(try_connect(rig, 30000), -ENOENT); /* nothing tells of a step */
	scratch_write(directory, "state.json", "{}", 2, 0644);
	assert_int_equal(try_connect(rig, 30000), -ECONNREFUSED);
	assert_non_null(strstr(rig->error.text, "stepd adopt n1/7.0"));
	scratch_write(directory, "result.json", "{}", 2, 0644);
	assert_int_equal(try_connect(rig, 30000), -ECONNREFUSED);
	assert_non_null(strstr(rig->error.text, "n1/7.0 has ended"));
	assert_non_null(strstr(rig->error.text, "n1_7.0/result.json"));
	assert_true(clock_now_ms() - before < 30000); /* no deadline has passed */
}

static void test_a_stranger(void **state)
{
	_cleanup_free_ char *directory = NULL;
	struct rig *rig = *state;

	if (geteuid() != 0)
		skip();
	rig->agent = fake_agent_start(rig->runtime, script_echo, 65533);
	assert_int_equal(try_connect(rig, LONG_MS), 0); /* the directory's owner */
	assert_int_equal(call(rig), 0);
	rig->client = stepd_disconnect(rig->client);
	directory = scratch_path(rig->runtime, "n1_7.0");
	assert_int_equal(chown(directory, 65532, 65532), 0);
	assert_int_equal(try_connect(rig, LONG_MS), -EPERM);
	assert_non_null(strstr(rig->error.text, "uid 65533"));
	assert_non_null(strstr(rig->error.text, "uid 65532 or as root"));
}

static void test_a_directory_open_to_all(void **state)
{
	_cleanup_free_ char *directory = NULL;
	struct rig *rig = *state;

	start(rig, script_echo);
	directory = scratch_path(rig->runtime, "n1_7.0");
	assert_int_equal(chmod(directory, 0777), 0);
	assert_int_equal(try_connect(rig, LONG_MS), -EPERM);
	assert_non_null(strstr(rig->error.text, "mode 0777"));
}

static void test_a_long_path(void **state)
{
	struct rig *rig = *state;
	char *deep = strdup(rig->runtime), *deeper;
	_cleanup_free_ char *directory = NULL;
	int i;

	for (i = 0; i < 12; i++) {
		deeper = scratch_path(deep, "a-name-of-some-length");
		assert_int_equal(mkdir(deeper, 0755), 0);
		free(deep);
		deep = deeper;
	}
	assert_true(strlen(deep) > 200);
	rig->agent = fake_agent_start(deep, script_echo, 0);
	directory = scratch_path(deep, "n1_7.0/");
	assert_int_equal(stepd_connect_directory(directory, LONG_MS, &rig->client, &rig->error), 0);
	assert_int_equal(call(rig), 0);
	free(deep);
}

static void test_nothing_there(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(try_connect(rig, LONG_MS), -ENOENT);
	assert_int_equal(stepd_connect_directory("", LONG_MS, &rig->client, NULL), -ENOENT);
	assert_int_equal(
		stepd_connect_directory("/dev/null", LONG_MS, &rig->client, NULL), -ENOENT);
	assert_null(stepd_disconnect(NULL));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_begin, rig_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_calls),
		TEST(test_refuses_what_is_wrong_before_it_is_sent),
		TEST(test_an_answer_byte_by_byte),
		TEST(test_interrupted_calls),
		TEST(test_a_large_answer),
		TEST(test_an_answer_without_end),
		TEST(test_garbage),
		TEST(test_answers_with_little_in_them),
		TEST(test_half_an_answer),
		TEST(test_no_answer_but_the_end),
		TEST(test_the_end_before_the_call),
		TEST(test_no_answer_in_time),
		TEST(test_an_answer_that_never_gets_whole),
		TEST(test_answers_to_nothing),
		TEST(test_too_many_connections),
		TEST(test_errors),
		TEST(test_more),
		TEST(test_oneway),
		TEST(test_in_a_loop),
		TEST(test_a_full_queue),
		TEST(test_a_dead_agent),
		TEST(test_a_stranger),
		TEST(test_a_directory_open_to_all),
		TEST(test_a_long_path),
		TEST(test_nothing_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
