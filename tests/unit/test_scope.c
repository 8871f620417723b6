/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The question for a scope: the unit's name, and how it takes each answer of systemd. A real
 * systemd answers in tests/testbed/guest-scopes.sh; here a child plays it, that can be newer, slow
 * or hostile.
 */
#include "systemd/systemd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "config.h"
#include "tests/lib/scratch.h"

/* ---- the name ----------------------------------------------------------------------------- */

static void test_name(_unused_ void **state)
{
	char name[SCOPE_NAME_SIZE], node[300];

	assert_int_equal(scope_make_name("n1", 7, "0", 42, name), 0);
	assert_string_equal(name, "stepd-n1_7.0-42.scope");
	assert_int_equal(scope_make_name("n-1.site", 4294967293u, "batch", 4194304, name), 0);
	assert_string_equal(name, "stepd-n-1.site_4294967293.batch-4194304.scope");
	/* None of these gets here by a spec; a unit's name must be one all the same. */
	assert_int_equal(scope_make_name("a/b c@\\\xc3\xa4%", 1, "x", 2, name), 0);
	assert_string_equal(name, "stepd-a\\x2fb\\x20c\\x40\\x5c\\xc3\\xa4\\x25_1.x-2.scope");
	memset(node, 'n', sizeof(node));
	node[255 - strlen("stepd-_1.0-2.scope")] = '\0';
	assert_int_equal(scope_make_name(node, 1, "0", 2, name), 0);
	assert_int_equal(strlen(name), 255);
	assert_int_equal(scope_make_name(node, 1, "0", 22, name), -ENAMETOOLONG);
	memset(node, '/', 70);
	assert_int_equal(scope_make_name(node, 1, "0", 2, name), -ENAMETOOLONG);
}

#ifdef HAVE_LIBSYSTEMD

#include <systemd/sd-bus.h>

#define NAME     "stepd-n1_7.0-42.scope"
#define NOT_TOLD UINT64_MAX

/* ---- one that plays systemd --------------------------------------------------------------- */

enum play {
	PLAY_NEW,      /* knows PIDFDs */
	PLAY_OLD,      /* systemd 252 */
	PLAY_LATE,     /* its job takes LATE_MS */
	PLAY_FAILED,   /* the job's result */
	PLAY_DENIED,   /* an error as reply */
	PLAY_NAMELESS, /* an error without a text */
	PLAY_NO_JOB,   /* a reply, and then nothing */
	PLAY_CLOSED,   /* closes the connection in place of a reply */
	PLAY_NO_MATCH, /* the bus does not let anybody listen */
	PLAY_NO_HELLO, /* greets nobody */
	PLAY_SILENT,   /* never even accepts */
};

#define LATE_MS 300

struct fake {
	enum play play;
	char path[128];
	pid_t pid;
};

/* What the question holds: the properties that are there, in a text. */
static void read_properties(sd_bus_message *m, char *text, size_t size)
{
	const char *name, *mode, *property, *value;
	char *at = text, *end = text + size;
	uint64_t number;
	uint32_t pid;
	int flag, fd;

	*at = '\0';
	if (sd_bus_message_read(m, "ss", &name, &mode) < 0 ||
		sd_bus_message_enter_container(m, 'a', "(sv)") < 0)
		_exit(9);
	at += snprintf(at, (size_t)(end - at), "%s %s", name, mode);
	while (sd_bus_message_enter_container(m, 'r', "sv") > 0) {
		if (sd_bus_message_read(m, "s", &property) < 0)
			_exit(9);
		at += snprintf(at, (size_t)(end - at), " %s", property);
		if (sd_bus_message_read(m, "v", "s", &value) > 0)
			at += snprintf(at, (size_t)(end - at), "=%s", value);
		else if (sd_bus_message_read(m, "v", "b", &flag) > 0)
			at += snprintf(at, (size_t)(end - at), "=%d", flag);
		else if (sd_bus_message_read(m, "v", "t", &number) > 0)
			at += snprintf(at, (size_t)(end - at), "=%llx", (unsigned long long)number);
		else if (sd_bus_message_read(m, "v", "au", 1, &pid) > 0)
			at += snprintf(at, (size_t)(end - at), "=%u", pid);
		else if (sd_bus_message_read(m, "v", "ah", 1, &fd) > 0)
			at += snprintf(at, (size_t)(end - at), "=fd");
		if (sd_bus_message_exit_container(m) < 0)
			_exit(9);
	}
}

static void remove_job(sd_bus *bus, const char *unit, const char *result)
{
	sd_bus_message *m = NULL;

	if (sd_bus_message_new_signal(bus, &m, "/org/freedesktop/systemd1",
		    "org.freedesktop.systemd1.Manager", "JobRemoved") < 0 ||
		sd_bus_message_set_sender(m, ":1.0") < 0 ||
		sd_bus_message_append(
			m, "uoss", 5u, "/org/freedesktop/systemd1/job/5", unit, result) < 0 ||
		sd_bus_send(bus, m, NULL) < 0)
		_exit(0); /* who asked has what it wanted, and has gone */
	sd_bus_message_unref(m);
}

#define COMMON                                                                                     \
	NAME " fail Description=d Slice=stepd.slice Delegate=1 CollectMode=inactive-or-failed "    \
	     "TasksMax=ffffffffffffffff "

static int start_unit(sd_bus_message *m, enum play play)
{
	sd_bus *bus = sd_bus_message_get_bus(m);
	char text[512];

	read_properties(m, text, sizeof(text));
	if (play == PLAY_CLOSED)
		_exit(0);
	if (play == PLAY_DENIED)
		return sd_bus_reply_method_errorf(
			m, SD_BUS_ERROR_ACCESS_DENIED, "Permission denied");
	if (play == PLAY_NAMELESS)
		return sd_bus_reply_method_errorf(m, "org.example.Odd", NULL);
	if (play == PLAY_OLD && strcmp(text, COMMON "PIDFDs=fd") == 0)
		return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_PROPERTY_READ_ONLY,
			"Cannot set property PIDFDs, or unknown property.");
	if (strcmp(text, play == PLAY_OLD ? COMMON "PIDs=0" : COMMON "PIDFDs=fd") != 0)
		return sd_bus_reply_method_errorf(m, "org.example.Wrong", "%s", text);
	if (sd_bus_reply_method_return(m, "o", "/org/freedesktop/systemd1/job/5") < 0)
		_exit(0);
	remove_job(bus, "other.scope", "failed");
	if (play == PLAY_LATE)
		(void)poll(NULL, 0, LATE_MS);
	if (play != PLAY_NO_JOB)
		remove_job(bus, NAME, play == PLAY_FAILED ? "failed" : "done");
	return 1;
}

static int on_message(sd_bus_message *m, void *userdata, _unused_ sd_bus_error *ret_error)
{
	const struct fake *fake = userdata;

	if (sd_bus_message_is_method_call(m, NULL, "Hello")) {
		while (fake->play == PLAY_NO_HELLO)
			(void)pause();
		return sd_bus_reply_method_return(m, "s", ":1.7");
	}
	if (sd_bus_message_is_method_call(m, NULL, "AddMatch"))
		return fake->play == PLAY_NO_MATCH
			? sd_bus_reply_method_errorf(m, SD_BUS_ERROR_LIMITS_EXCEEDED, "too many")
			: sd_bus_reply_method_return(m, NULL);
	if (sd_bus_message_is_method_call(m, NULL, "StartTransientUnit"))
		return start_unit(m, fake->play);
	return 0;
}

static void play(int listen_fd, struct fake *fake)
{
	sd_bus *bus = NULL;
	sd_id128_t id;
	int fd;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fake->play == PLAY_SILENT)
		for (;;)
			(void)pause();
	fd = accept(listen_fd, NULL, NULL);
	if (fd < 0 || sd_bus_new(&bus) < 0 || sd_bus_set_fd(bus, fd, fd) < 0 ||
		sd_id128_randomize(&id) < 0 || sd_bus_set_server(bus, 1, id) < 0 ||
		sd_bus_negotiate_fds(bus, 1) < 0 ||
		sd_bus_add_filter(bus, NULL, on_message, fake) < 0 || sd_bus_start(bus) < 0)
		_exit(9);
	while (sd_bus_process(bus, NULL) >= 0)
		(void)sd_bus_wait(bus, 100000);
	_exit(0);
}

static void fake_start(struct fake *fake)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	_cleanup_free_ char *address = NULL;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(fake->path, sizeof(fake->path), "/tmp/stepd-test-bus-%d", (int)getpid());
	(void)unlink(fake->path);
	memcpy(sa.sun_path, fake->path, strlen(fake->path) + 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 4), 0);
	assert_true(asprintf(&address, "unix:path=%s", fake->path) > 0);
	(void)setenv("DBUS_SYSTEM_BUS_ADDRESS", address, 1);
	(void)setenv("DBUS_SESSION_BUS_ADDRESS", address, 1);
	fake->pid = fork();
	if (fake->pid == 0)
		play(fd, fake);
	(void)close(fd);
}

static void fake_stop(struct fake *fake)
{
	int status;

	(void)kill(fake->pid, SIGKILL);
	assert_int_equal(waitpid(fake->pid, &status, 0), fake->pid);
	assert_false(WIFEXITED(status) && WEXITSTATUS(status) != 0);
	(void)unlink(fake->path);
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000u + (uint64_t)ts.tv_nsec / 1000000u;
}

/* ---- the question ------------------------------------------------------------------------- */

static void test_answers(_unused_ void **state)
{
	static const struct {
		enum play play;
		int r;
		const char *text;
	} cases[] = {
		{PLAY_NEW, 0, ""},
		{PLAY_OLD, 0, ""},
		{PLAY_FAILED, -ECANCELED, "its job's result is 'failed'"},
		{PLAY_DENIED, -EACCES, "systemd refuses it: Permission denied"},
		{PLAY_NAMELESS, -EIO, "systemd refuses it: no reason given (org.example.Odd)"},
		{PLAY_NO_MATCH, -EACCES, "D-Bus refuses the signals of systemd's jobs: too many"},
	};
	static const struct scope_request request = {
		.name = NAME, .description = "d", .timeout_ms = 20000};
	int fds = scratch_count_fds();
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fake fake = {.play = cases[i].play};
		struct err err = ERR_INIT;
		uint64_t took_ms = NOT_TOLD;
		int r;

		fake_start(&fake);
		r = scope_start(&request, &took_ms, &err);
		if (r != cases[i].r || !strstr(err.text, cases[i].text))
			fail_msg("play %d: %d '%s'", (int)cases[i].play, r, err.text);
		assert_true((took_ms == NOT_TOLD) == (r < 0));
		assert_int_equal(err.code, r);
		fake_stop(&fake);
		assert_int_equal(scratch_count_fds(), fds);
	}
}

/* Who waits for longer than is usual can be told so. */
static void test_the_time_it_took(_unused_ void **state)
{
	static const struct scope_request request = {
		.name = NAME, .description = "d", .timeout_ms = 20000};
	struct fake fake = {.play = PLAY_LATE};
	uint64_t begin = now_ms(), took_ms = 0;
	struct err err = ERR_INIT;

	fake_start(&fake);
	assert_int_equal(scope_start(&request, &took_ms, &err), 0);
	assert_true(took_ms >= LATE_MS);
	assert_true(took_ms <= now_ms() - begin);
	fake_stop(&fake);
}

/* A connection that breaks is told at once, not at the deadline. */
static void test_a_closed_connection(_unused_ void **state)
{
	static const struct scope_request request = {
		.name = NAME, .description = "d", .timeout_ms = 20000};
	struct fake fake = {.play = PLAY_CLOSED};
	struct err err = ERR_INIT;
	uint64_t begin = now_ms(), took_ms;

	fake_start(&fake);
	assert_true(scope_start(&request, &took_ms, &err) < 0);
	assert_true(err.text[0]);
	assert_true(now_ms() - begin < 20000);
	fake_stop(&fake);
}

static void test_the_deadline(_unused_ void **state)
{
	static const enum play plays[] = {PLAY_NO_JOB, PLAY_NO_HELLO, PLAY_SILENT};
	static const struct scope_request request = {
		.name = NAME, .description = "d", .timeout_ms = 200};
	int fds = scratch_count_fds();
	size_t i;

	for (i = 0; i < ARRAY_SIZE(plays); i++) {
		struct fake fake = {.play = plays[i]};
		struct err err = ERR_INIT;
		uint64_t begin = now_ms(), took, took_ms = NOT_TOLD;
		int r;

		fake_start(&fake);
		r = scope_start(&request, &took_ms, &err);
		took = now_ms() - begin;
		if (r != -ETIMEDOUT || took < 200)
			fail_msg("play %d: '%s' after %llu ms", (int)plays[i], err.text,
				(unsigned long long)took);
		assert_non_null(strstr(err.text, "200 ms"));
		assert_true(took_ms == NOT_TOLD);
		fake_stop(&fake);
		assert_int_equal(scratch_count_fds(), fds);
	}
}

static void test_nobody_there(_unused_ void **state)
{
	static const struct scope_request request = {
		.name = NAME, .description = "d", .timeout_ms = 20000};
	struct err err = ERR_INIT;
	uint64_t took_ms;

	(void)setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere/at/all", 1);
	(void)setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere/at/all", 1);
	assert_int_equal(scope_start(&request, &took_ms, &err), -ENOENT);
	assert_non_null(strstr(err.text, "connect to D-Bus"));
}

#else

static void test_built_without(_unused_ void **state)
{
	static const struct scope_request request = {.name = "x.scope", .description = "d"};
	struct err err = ERR_INIT;
	uint64_t took_ms;

	assert_int_equal(scope_check(&err), -EOPNOTSUPP);
	assert_non_null(strstr(err.text, "built without libsystemd"));
	assert_int_equal(scope_start(&request, &took_ms, &err), -EOPNOTSUPP);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_name),
#ifdef HAVE_LIBSYSTEMD
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_the_time_it_took),
		cmocka_unit_test(test_a_closed_connection),
		cmocka_unit_test(test_the_deadline),
		cmocka_unit_test(test_nobody_there),
#else
		cmocka_unit_test(test_built_without),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
