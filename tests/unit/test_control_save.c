/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The service over an exec: it is saved, its descriptors survive (here as copies by other numbers),
 * and a new one goes on where it stood, for clients that notice nothing.
 */
#include "stepd/control/control.h"

#include "stepd/snapshot/handover.h"
#include "tests/lib/control_rig.h"

#define CALL(method) "{\"method\":\"org.example.Trial." method "\"}"
#define ECHO(i)      "{\"method\":\"org.example.Trial.Echo\",\"parameters\":{\"i\":" #i "}}"
#define CHANGE(text)                                                                               \
	"{\"method\":\"org.example.Trial.Change\",\"parameters\":{\"text\":\"" text "\"}}"
#define BIG_SIZE        (3u << 20)
#define BIG             "{\"method\":\"org.example.Trial.Big\",\"parameters\":{\"size\":3145728}}"
#define ANSWER(content) "{\"parameters\":{" content "}}"

static json_t *keep_state(struct control_call *call, void *userdata)
{
	struct rig *rig = userdata;

	return rig->held[0] == call ? json_pack("{s:i}", "n", 42) : NULL;
}

static void resume(struct control_call *call, const json_t *state, void *userdata)
{
	struct rig *rig = userdata;

	assert_string_equal(control_call_get_method(call)->name, "Keep");
	assert_int_equal(json_integer_value(json_object_get(state, "n")), 42);
	rig->held[rig->held_count++] = call;
}

/* The number in the document by that of a copy, which an exec would have left as it is. */
static void copy_fd(json_t *object, const char *name)
{
	const int fd = handover_get_fd(object, name);
	const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		(void)json_object_set_new(object, name, json_integer(dup(fd)));
		/* What is closed with the old service shall not be the peer's end: it is shut down,
		 * too. */
		assert_int_equal(dup2(nothing, fd), fd);
	}
	(void)close(nothing);
}

/* As the new program gets it. */
static struct handover *pass_on(struct handover *h)
{
	struct err err = ERR_INIT;
	struct handover *read = NULL;
	int fd = handover_finish(h, &err);

	assert_true(fd >= 0);
	(void)handover_free(h);
	assert_int_equal(handover_open(fd, false, &read, &err), 0);
	(void)close(fd);
	return read;
}

/* Like an exec: through the handover, and nothing else is left. */
static void exec_service(struct rig *rig)
{
	struct handover *h = handover_new("1");
	json_t *doc = handover_put_object(h, handover_root(h), "control"), *connection;
	struct err err = ERR_INIT;
	size_t i;

	control_save(rig->control, h, doc, keep_state, rig);
	for (i = 0; i < LISTENER_MAX; i++)
		copy_fd(json_get_object(doc, "listeners"), listener_names[i]);
	json_array_foreach (json_get_array(doc, "connections"), i, connection)
		copy_fd(connection, "fd");
	h = pass_on(h);
	assert_int_equal(linkat(rig->dir_fd, "socket", rig->dir_fd, "kept", 0), 0);
	rig->control = control_close(rig->control);
	assert_int_equal(renameat(rig->dir_fd, "kept", rig->dir_fd, "socket"), 0);
	rig->held_count = 0;
	rig->gone_count = 0;
	assert_int_equal(
		control_restore(&rig->options, h, json_get_object(handover_root(h), "control"),
			resume, rig, &rig->control, &err),
		0);
	(void)handover_free(h);
}

static void expect_big(struct rig *rig, int fd)
{
	_cleanup_free_ char *got = rig_receive(rig, fd);

	assert_non_null(got);
	assert_int_equal(strlen(got), BIG_SIZE + strlen(ANSWER("\"text\":\"\"")));
	assert_int_equal(strspn(strstr(got, ":\"x") + 2, "x"), BIG_SIZE);
}

static void test_nothing_is_lost(void **state)
{
	struct rig *rig = *state;
	int idle = rig_connect(rig), partial = rig_connect(rig), big = rig_connect(rig);
	int holder = rig_connect(rig), halved = rig_connect(rig), queued;

	rig_send_bytes(rig, partial, ECHO(1), 20);
	rig_send(rig, big, BIG);
	rig_send(rig, big, ECHO(2));
	rig_send(rig, holder, CALL("Keep"));
	rig_send(rig, holder, ECHO(3));
	rig_send(rig, halved, BIG);
	rig_send(rig, halved, ECHO(4));
	assert_int_equal(shutdown(halved, SHUT_WR), 0);
	rig_settle(rig);
	queued = rig_connect(rig); /* not accepted yet */
	rig_send(rig, queued, ECHO(5));
	exec_service(rig);
	rig_send(rig, idle, ECHO(6));
	rig_expect(rig, idle, ANSWER("\"i\":6"));
	rig_expect(rig, queued, ANSWER("\"i\":5"));
	rig_send_bytes(rig, partial, &ECHO(1)[20], sizeof(ECHO(1)) - 20);
	rig_expect(rig, partial, ANSWER("\"i\":1"));
	expect_big(rig, big);
	rig_expect(rig, big, ANSWER("\"i\":2"));
	expect_big(rig, halved);
	rig_expect(rig, halved, ANSWER("\"i\":4"));
	rig_expect_end(rig, halved);
	assert_int_equal(rig->held_count, 1);
	control_reply_take(rig->held[0], json_pack("{s:i}", "n", 42), true);
	rig_expect(rig, holder, ANSWER("\"n\":42"));
	rig_expect(rig, holder, ANSWER("\"i\":3"));
	rig_try(rig, ECHO(7), ANSWER("\"i\":7"));
	assert_int_equal(rig->gone_count, 0);
	(void)close(idle);
	(void)close(partial);
	(void)close(big);
	(void)close(holder);
	(void)close(queued);
}

/* A call that nobody can take over ends with an error; the connection goes on. */
static void test_what_nobody_keeps(void **state)
{
	struct rig *rig = *state;
	int first = rig_connect(rig), second = rig_connect(rig);
	_cleanup_free_ char *answer = NULL;

	rig_send(rig, first, CALL("Keep"));
	rig_settle(rig);
	rig_send(rig, second, CALL("Keep"));
	rig_settle(rig);
	exec_service(rig);
	assert_int_equal(rig->held_count, 1);
	answer = rig_receive(rig, second);
	assert_non_null(answer);
	assert_non_null(strstr(answer, "{\"error\":\"org.example.Trial.Failed\",\"parameters\":{"));
	rig_send(rig, second, ECHO(1));
	rig_expect(rig, second, ANSWER("\"i\":1"));
	(void)close(second);
	(void)close(first); /* and who hangs up now is noticed */
	rig->held[0]->on_gone = NULL;
	rig_settle(rig);
	assert_int_equal(quota_count_all(rig->control), 0);
}

static void test_calls_that_wait(void **state)
{
	struct rig *rig = *state;
	int fds[3], i;
	static const char *const calls[] = {CHANGE("1"), CHANGE("2"), CHANGE("3")};

	rig_open(rig);
	for (i = 0; i < 3; i++) {
		fds[i] = rig_connect(rig);
		rig_settle(rig);
	}
	for (i = 2; i >= 0; i--) {
		rig_send(rig, fds[i], calls[i]);
		rig_settle(rig);
	}
	exec_service(rig);
	rig_settle(rig);
	assert_string_equal(rig->order, "");
	control_set_ready(rig->control);
	for (i = 0; i < 3; i++) {
		rig_expect(rig, fds[i], ANSWER(""));
		(void)close(fds[i]);
	}
	assert_string_equal(rig->order, "321");
	exec_service(rig); /* being ready lasts */
	rig_try(rig, CHANGE("4"), ANSWER(""));
}

/* Whatever the document says, no descriptor of others is taken and none leaks. */
static void test_damaged(void **state)
{
	static const char *const documents[] = {"{}", "{\"listeners\":{\"socket\":-1}}",
		"{\"listeners\":{\"socket\":2}}", "{\"listeners\":{\"socket\":999999}}",
		"{\"listeners\":{\"socket\":\"7\"}}", "[]"};
	static const char connections[] = "[{}, {\"fd\":-1}, 7, {\"fd\":999999}, {\"fd\":0}]";
	struct handover *h = handover_new("1");
	struct rig *rig = *state;
	struct control *c = NULL;
	struct err err = ERR_INIT;
	json_t *doc;
	int orphan;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(documents); i++) {
		doc = json_loads(documents[i], 0, NULL);
		assert_int_equal(
			control_restore(&rig->options, h, doc, resume, rig, &c, &err), -EINVAL);
		assert_null(c);
		json_decref(doc);
	}
	orphan = dup(rig->control->listeners[LISTENER_ALL]
			     .fd); /* any descriptor: nobody would answer at it */
	doc = json_pack("{s:[{s:i}]}", "connections", "fd", orphan);
	assert_int_equal(control_restore(&rig->options, h, doc, resume, rig, &c, &err), -EINVAL);
	assert_int_equal(fcntl(orphan, F_GETFD), -1);
	json_decref(doc);
	doc = json_pack("{s:{s:i}, s:o}", "listeners", "socket",
		dup(rig->control->listeners[LISTENER_ALL].fd), "connections",
		json_loads(connections, 0, NULL));
	assert_int_equal(control_restore(&rig->options, h, doc, resume, rig, &c, &err), 0);
	assert_int_equal(quota_count_all(c), 0);
	assert_null(control_close(c));
	json_decref(doc);
	(void)handover_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_is_lost, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_what_nobody_keeps, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_calls_that_wait, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_damaged, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
