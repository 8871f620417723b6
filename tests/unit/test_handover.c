/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <ev.h>
#include <jansson.h>

#include "stepd/account/tasks.h"
#include "stepd/account/usage.h"
#include "stepd/base/clock.h"
#include "stepd/loop/loop.h"
#include "stepd/snapshot/handover.h"
#include "stepd/spec/spec.h"
#include "stepd/step/requests.h"

/* What was written, as the next program reads it; the writer is no more. */
static struct handover *pass_on(struct handover *written)
{
	struct err err = ERR_INIT;
	struct handover *h = NULL;
	int fd = handover_finish(written, &err);

	assert_true(fd >= 0);
	assert_int_equal(handover_open(fd, false, &h, &err), 0);
	(void)close(fd);
	(void)handover_free(written);
	return h;
}

static struct handover *from_text(const char *text, size_t size, int *ret_result, struct err *err)
{
	struct handover *h = NULL;
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, size), size);
	*ret_result = handover_open(fd, false, &h, err);
	(void)close(fd);
	return h;
}

static void test_values(void **state)
{
	struct handover *h = handover_new("1.2");
	const char bytes[] = "a\0b\xff";
	char *copy = NULL;
	const char *got;
	json_t *o;
	size_t size = 0;

	(void)state;
	o = handover_put_object(h, handover_root(h), "o");
	handover_put_int(h, o, "most", INT64_MAX);
	handover_put_bool(h, o, "yes", true);
	handover_put_text(h, o, "text", "a \"text\"");
	handover_put_text(h, o, "path", "/tmp/\xff\xfe");
	handover_put_text(h, o, "none", NULL);
	handover_put_bytes(h, o, "bytes", bytes, sizeof(bytes));
	handover_put_bytes(h, o, "empty", NULL, 0);
	handover_put_fd(h, o, "fd", STDERR_FILENO);
	handover_put_fd(h, o, "no_fd", -1);
	h = pass_on(h);
	assert_string_equal(handover_get_version(h), "1.2");
	o = json_get_object(handover_root(h), "o");
	assert_true(json_get_int(o, "most", 0) == INT64_MAX);
	assert_true(json_get_bool(o, "yes", false));
	assert_string_equal(handover_get_text(h, o, "text"), "a \"text\"");
	assert_string_equal(handover_get_text(h, o, "path"), "/tmp/\xff\xfe");
	assert_null(handover_get_text(h, o, "none"));
	got = handover_get_bytes(h, o, "bytes", &size);
	assert_int_equal(size, sizeof(bytes));
	assert_memory_equal(got, bytes, size);
	assert_non_null(handover_get_bytes(h, o, "empty", &size));
	assert_int_equal(size, 0);
	assert_int_equal(handover_get_fd(o, "fd"), STDERR_FILENO);
	assert_int_equal(handover_get_fd(o, "no_fd"), -1);
	assert_int_equal(handover_copy_text(h, o, "path", &copy), 0);
	assert_string_equal(copy, "/tmp/\xff\xfe");
	free(copy);
	(void)handover_free(h);
}

/* Of an older program, which knew less; and of wrong types. */
static void test_missing(void **state)
{
	static const char text[] =
		"{\"version\":3,\"o\":{\"n\":\"seven\",\"b\":[5,900],\"fd\":9999}}";
	struct err err = ERR_INIT;
	struct handover *h;
	json_t *o;
	size_t size;
	int r;

	(void)state;
	h = from_text(text, sizeof(text), &r, &err);
	assert_int_equal(r, 0);
	o = json_get_object(handover_root(h), "o");
	assert_int_equal(json_get_int(o, "n", 7), 7);
	assert_int_equal(json_get_int(NULL, "n", 8), 8);
	assert_true(json_get_bool(o, "b", true));
	assert_null(handover_get_bytes(h, o, "b", &size)); /* beyond the end */
	assert_int_equal(handover_get_fd(o, "fd"), -1);    /* not open */
	assert_null(json_get_object(o, "n"));
	assert_null(json_get_array(NULL, "n"));
	assert_string_equal(handover_get_version(h), "?");
	(void)handover_free(h);
}

static void test_refused(void **state)
{
	static const struct {
		const char *text;
		int result;
		const char *words;
	} cases[] = {
		{"{\"version\":4}", -EPROTONOSUPPORT, "older than the agent"},
		{"{\"version\":2}", -EPROTONOSUPPORT, "too much newer than the agent"},
		{"{\"version\":0}", -EPROTONOSUPPORT, "version 0"},
		{"{}", -EPROTONOSUPPORT, "version 0"},
		{"{\"version\":3", -EPROTO, "is not JSON"},
		{"", -EPROTO, "is not JSON"},
	};
	struct err err = ERR_INIT;
	size_t i;
	int r;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_null(from_text(cases[i].text, strlen(cases[i].text) + 1, &r, &err));
		assert_int_equal(r, cases[i].result);
		assert_non_null(strstr(err.text, cases[i].words));
	}
	assert_null(from_text("{\"version\":3}", 13, &r, &err)); /* cut off before the NUL */
	assert_int_equal(r, -EPROTO);
}

static void test_sealed(void **state)
{
	struct handover *h = handover_new("1");
	struct err err = ERR_INIT;
	int fd = handover_finish(h, &err);

	(void)state;
	assert_true(fd > STDERR_FILENO);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(errno, EPERM);
	(void)close(fd);
	handover_fail(h, -EBUSY, "not now");
	handover_fail(h, -EIO, "later");
	assert_int_equal(handover_finish(h, &err), -EBUSY);
	assert_string_equal(err.text, "not now");
	(void)handover_free(h);
}

static void test_inherited(void **state)
{
	struct handover *h = handover_new("1");
	int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);

	(void)state;
	handover_add_fd(h, fd);
	assert_int_equal(handover_set_inherited(h, true), 0);
	assert_int_equal(fcntl(fd, F_GETFD), 0);
	assert_int_equal(handover_set_inherited(h, false), 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	(void)close(fd);
	assert_int_equal(handover_set_inherited(h, true), -EBADF);
	(void)handover_free(h);
}

/* ---- what is handed over ------------------------------------------------------------------- */

static int sent[4], n_sent;

static void note_sent(int signal, void *userdata)
{
	(void)userdata;
	sent[n_sent++] = signal;
}

static void no_end(void *userdata)
{
	(void)userdata;
}

static void test_killseq(void **state)
{
	static const struct spec_kill steps[] = {{18, 0}, {15, 300}, {9, 0}};
	struct ev_loop *loop = ev_loop_new(0);
	struct killseq ks = {.loop = loop,
		.steps = steps,
		.count = 3,
		.unkillable_timeout_ms = 9000,
		.send = note_sent,
		.unkillable = no_end};
	struct killseq again = ks;
	struct handover *h = handover_new("1");
	uint64_t begin_ns;

	(void)state;
	n_sent = 0;
	killseq_start(&ks);
	assert_int_equal(n_sent, 2);
	killseq_save(&ks, h, handover_put_object(h, handover_root(h), "ks"));
	killseq_stop(&ks);
	h = pass_on(h);
	killseq_restore(&again, json_get_object(handover_root(h), "ks"));
	killseq_start(&again); /* it runs: nothing is sent again */
	assert_int_equal(n_sent, 2);
	begin_ns = clock_now_ns();
	killseq_delivered(&again, 15); /* it was on its way when the old program ended */
	while (n_sent < 3)
		ev_run(loop, EVRUN_ONCE);
	assert_int_equal(sent[2], 9);
	assert_true(clock_now_ns() - begin_ns >= 250000000);
	killseq_stop(&again);
	(void)handover_free(h);
	ev_loop_destroy(loop);
}

static void on_expired(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)w;
	(void)revents;
	ev_break(loop, EVBREAK_ALL);
}

static void test_pausable(void **state)
{
	struct ev_loop *loop = ev_loop_new(0);
	struct pausable runs, stands, again;
	struct handover *h = handover_new("1");

	(void)state;
	pausable_init(&runs, loop, on_expired, NULL);
	pausable_init(&stands, loop, on_expired, NULL);
	pausable_init(&again, loop, on_expired, NULL);
	pausable_start(&runs, 50);
	pausable_pause(&stands);
	pausable_start(&stands, 60000);
	pausable_save(&runs, h, handover_put_object(h, handover_root(h), "runs"));
	pausable_save(&stands, h, handover_put_object(h, handover_root(h), "stands"));
	pausable_stop(&runs);
	h = pass_on(h);
	pausable_restore(&again, json_get_object(handover_root(h), "stands"));
	assert_true(pausable_is_set(&again));
	assert_true(again.paused);
	assert_true(again.left_sec > 59.9 && again.left_sec <= 60.);
	assert_false(ev_is_active(&again.timer));
	pausable_init(&again, loop, on_expired, NULL);
	pausable_restore(&again, json_get_object(handover_root(h), "runs"));
	assert_true(ev_is_active(&again.timer));
	ev_run(loop, 0); /* it expires */
	pausable_init(&again, loop, on_expired, NULL);
	pausable_restore(&again, json_get_object(handover_root(h), "nothing"));
	assert_false(pausable_is_set(&again));
	(void)handover_free(h);
	ev_loop_destroy(loop);
}

static void test_tasks(void **state)
{
	static const uint32_t ranks[] = {4, 5, 6};
	struct handover *h = handover_new("1");
	struct tasks ts, again;

	(void)state;
	assert_int_equal(tasks_init(&ts, ranks, 3), 0);
	tasks_started(&ts, 0, 100, 11);
	tasks_started(&ts, 1, 101, 12);
	tasks_mark_requested(&ts);
	ts.v[0].requested = false;
	ts.v[0].oom_counted = true;
	tasks_ended(&ts, &ts.v[0], 9, 20); /* by SIGKILL */
	tasks_save(&ts, h, handover_put_object(h, handover_root(h), "tasks"));
	tasks_clear(&ts);
	h = pass_on(h);
	assert_int_equal(tasks_init(&again, ranks, 3), 0);
	assert_int_equal(tasks_restore(&again, json_get_object(handover_root(h), "tasks")), 0);
	assert_int_equal(again.running, 1);
	assert_ptr_equal(tasks_find(&again, 101), &again.v[1]);
	assert_null(tasks_find(&again, 100));
	assert_true(again.v[1].requested);
	assert_int_equal(again.v[1].start_ns, 12);
	assert_int_equal(again.v[0].wait_status, 9);
	assert_int_equal(again.v[0].end_ns, 20);
	assert_true(again.v[0].oom_counted);
	assert_int_equal(again.v[2].state, TASK_NEW);
	assert_true(again.status.signalled);
	assert_int_equal(again.status.code, 137);
	tasks_clear(&again);
	assert_int_equal(tasks_init(&again, ranks, 2), 0);
	assert_int_equal(
		tasks_restore(&again, json_get_object(handover_root(h), "tasks")), -EPROTO);
	tasks_clear(&again);
	(void)handover_free(h);
}

/* By names: a program that knows other values, in another order, takes those that it knows. */
static void test_usage(void **state)
{
	static const char text[] =
		"{\"version\":3,\"names\":[\"later\",\"memory_peak_bytes\",\"cpu_user_usec\"],"
		"\"kept\":true,\"step\":[\"cr-\",5,6,7],\"tasks\":[[\"-c\",1,9]]}";
	struct err err = ERR_INIT;
	struct handover *h = handover_new("1");
	struct usage u, again;
	int r;

	(void)state;
	assert_int_equal(usage_open(&u, 1), 0);
	assert_int_equal(usage_open(&again, 1), 0);
	u.waited.value[STEPD_USAGE_PAGE_FAULTS] = 77;
	u.waited.source[STEPD_USAGE_PAGE_FAULTS] = STEPD_USAGE_RUSAGE;
	u.tasks[0].value[STEPD_USAGE_MEMORY_PEAK_BYTES] = UINT64_C(1) << 40;
	u.tasks[0].source[STEPD_USAGE_MEMORY_PEAK_BYTES] = STEPD_USAGE_CGROUP;
	usage_save(&u, 1, h, handover_root(h));
	h = pass_on(h);
	usage_restore(&again, 1, handover_root(h));
	assert_memory_equal(&again.waited, &u.waited, sizeof(u.waited));
	assert_memory_equal(&again.tasks[0], &u.tasks[0], sizeof(u.tasks[0]));
	(void)handover_free(h);
	h = from_text(text, sizeof(text), &r, &err);
	assert_int_equal(r, 0);
	usage_restore(&again, 1, handover_root(h));
	assert_int_equal(again.step.value[STEPD_USAGE_MEMORY_PEAK_BYTES], 6);
	assert_int_equal(again.step.source[STEPD_USAGE_MEMORY_PEAK_BYTES], STEPD_USAGE_RUSAGE);
	assert_int_equal(again.step.source[STEPD_USAGE_CPU_USER_USEC], STEPD_USAGE_UNKNOWN);
	assert_int_equal(again.tasks[0].value[STEPD_USAGE_MEMORY_PEAK_BYTES], 9);
	(void)handover_free(h);
	usage_clear(&u);
	usage_clear(&again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_sealed),
		cmocka_unit_test(test_inherited),
		cmocka_unit_test(test_killseq),
		cmocka_unit_test(test_pausable),
		cmocka_unit_test(test_tasks),
		cmocka_unit_test(test_usage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
