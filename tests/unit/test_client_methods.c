/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What libstepd's functions send, and what they make of the answers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stepd/client/client.h"
#include "tests/lib/client_rig.h"

/* What the fake agent waits for and answers, in order; calls NULL ends it. Set before it starts. */
static struct exchange {
	const char *call;
	const char *answers[4];
} script[8];

static int begin(void **state)
{
	memset(script, 0, sizeof(script));
	return rig_begin(state);
}

/* A call that is another than the script's is answered with what it was. */
static void play(int fd)
{
	const struct exchange *now;
	char unexpected[4096];
	size_t i;
	char *text;

	for (now = script; now->call && (text = fake_hear(fd)); now++) {
		if (strcmp(text, now->call) != 0) {
			(void)snprintf(unexpected, sizeof(unexpected),
				"{\"error\":\"test.Unexpected\",\"parameters\":%s}", text);
			fake_answer(fd, unexpected);
		}
		free(text);
		for (i = 0; i < ARRAY_SIZE(now->answers) && now->answers[i]; i++)
			fake_answer(fd, now->answers[i]);
	}
	fake_rest(fd);
}

static void join(struct rig *rig)
{
	rig->agent = fake_agent_start(rig->runtime, play, 0);
	if (stepd_connect_directory(rig->directory, LONG_MS, &rig->client, &rig->error) < 0)
		fail_msg("%s", rig->error.text);
}

#define CALL(method, parameters)                                                                   \
	"{\"method\":\"io.stepd.Step." method "\",\"parameters\":" parameters "}"
#define CALL_MORE(method, parameters)                                                              \
	"{\"method\":\"io.stepd.Step." method "\",\"parameters\":" parameters ",\"more\":true}"

#define assert_fine(rig, r)                                                                        \
	do {                                                                                       \
		if ((r) != 0)                                                                      \
			fail_msg("%s", (rig)->error.text);                                         \
	} while (0)

/* ---- asking -------------------------------------------------------------------------------- */

static void test_list_pids_in_pieces(void **state)
{
	struct rig *rig = *state;
	struct stepd_process *processes = NULL;
	size_t n = 0;

	script[0] =
		(struct exchange){CALL_MORE("ListPids", "{\"ranks\":\"0-1\",\"start_ticks\":true}"),
			{"{\"parameters\":{\"pids\":[{\"pid\":10,\"rank\":0,\"start_ticks\":99},"
			 "{\"pid\":11,\"rank\":null}]},\"continues\":true}",
				"{\"parameters\":{\"pids\":[]},\"continues\":true}",
				"{\"parameters\":{\"pids\":[{\"pid\":12,\"rank\":4294967295}]}}"}};
	script[1] = (struct exchange){CALL_MORE("ListPids", "{\"start_ticks\":false}"),
		{"{\"parameters\":{\"pids\":[]}}"}};
	join(rig);
	assert_fine(rig, stepd_list_pids(rig->client, "0-1", true, &processes, &n, &rig->error));
	assert_int_equal(n, 3);
	assert_int_equal(processes[0].pid, 10);
	assert_int_equal(processes[0].rank, 0);
	assert_int_equal(processes[0].start_ticks, 99);
	assert_int_equal(processes[1].rank, STEPD_NO_RANK);
	assert_int_equal(processes[1].start_ticks, 0);
	assert_int_equal(processes[2].rank, 4294967295);
	free(processes);
	assert_fine(rig, stepd_list_pids(rig->client, NULL, false, &processes, &n, &rig->error));
	assert_int_equal(n, 0);
	assert_null(processes);
}

static void test_rows_that_are_none(void **state)
{
	static const char *const table[] = {"{}", "{\"pids\":{}}", "{\"pids\":[7]}",
		"{\"pids\":[{}]}", "{\"pids\":[{\"pid\":0}]}", "{\"pids\":[{\"pid\":-1}]}",
		"{\"pids\":[{\"pid\":2147483648}]}", "{\"pids\":[{\"pid\":\"7\"}]}",
		"{\"pids\":[{\"pid\":7,\"rank\":-1}]}",
		"{\"pids\":[{\"pid\":7,\"start_ticks\":-1}]}", "{\"pids\":[{\"pid\":1.5}]}"};
	struct stepd_process *processes = NULL;
	struct rig *rig = *state;
	char answer[256];
	size_t i, n = 0;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		(void)snprintf(answer, sizeof(answer), "{\"parameters\":%s}", table[i]);
		script[0] = (struct exchange){
			CALL_MORE("ListPids", "{\"start_ticks\":true}"), {answer}};
		join(rig);
		assert_int_equal(
			stepd_list_pids(rig->client, NULL, true, &processes, &n, &rig->error),
			-EPROTO);
		assert_null(processes);
		assert_int_equal(stepd_suspend(rig->client, NULL), -ECONNRESET);
		rig->client = stepd_disconnect(rig->client);
		fake_agent_stop(&rig->agent);
	}
}

/* Answers FindPids with how many pids it was asked for. */
static void play_find(int fd)
{
	char *text, *p, answer[128];
	unsigned n;

	while ((text = fake_hear(fd))) {
		for (n = 1, p = strchr(text, '['); p && *p && *p != ']'; p++)
			n += *p == ',';
		(void)snprintf(answer, sizeof(answer),
			"{\"parameters\":{\"found\":[{\"pid\":%u,\"rank\":1,\"start_ticks\":5}]}}",
			n);
		fake_answer(fd, answer);
		free(text);
	}
}

static void test_find_any_number_of_pids(void **state)
{
	struct rig *rig = *state;
	struct stepd_process *found = NULL;
	enum {
		COUNT = 40000
	};
	pid_t *pids = calloc(COUNT, sizeof(*pids));
	size_t n = 99;

	assert_non_null(pids);
	rig->agent = fake_agent_start(rig->runtime, play_find, 0);
	assert_int_equal(stepd_connect_directory(rig->directory, LONG_MS, &rig->client, NULL), 0);
	assert_fine(rig, stepd_find_pids(rig->client, pids, COUNT, 0, &found, &n, &rig->error));
	assert_int_equal(n, 3);
	assert_int_equal(found[0].pid, 16384);
	assert_int_equal(found[1].pid, 16384);
	assert_int_equal(found[2].pid, COUNT - 2 * 16384);
	free(found);
	found = NULL;
	assert_fine(rig, stepd_find_pids(rig->client, NULL, 0, 0, &found, &n, &rig->error));
	assert_int_equal(n, 0);
	assert_null(found);
	free(pids);
}

static void test_find_in_another_namespace(void **state)
{
	struct rig *rig = *state;
	struct stepd_process *found = NULL;
	const pid_t pids[] = {1, 2};
	size_t n = 0;

	script[0] =
		(struct exchange){CALL("FindPids", "{\"pids\":[1,2],\"pid_namespace\":4026531836}"),
			{"{\"parameters\":{\"found\":[]}}"}};
	join(rig);
	assert_fine(
		rig, stepd_find_pids(rig->client, pids, 2, 4026531836u, &found, &n, &rig->error));
	assert_int_equal(n, 0);
}

/* ---- acting -------------------------------------------------------------------------------- */

static void test_signal(void **state)
{
	static const struct stepd_signal_target ranks = {.ranks = "0,2", .leader = true},
						pid = {.pid = 9, .start_ticks = 77};
	struct rig *rig = *state;

	script[0] = (struct exchange){CALL("Signal", "{\"signal\":\"TERM\"}"), {"{}"}};
	script[1] = (struct exchange){
		CALL("Signal", "{\"signal\":\"15\",\"ranks\":\"0,2\",\"leader\":true}"), {"{}"}};
	script[2] = (struct exchange){
		CALL("Signal", "{\"signal\":\"RTMIN+3\",\"pid\":9,\"start_ticks\":77}"), {"{}"}};
	script[3] = (struct exchange){CALL("Signal", "{\"signal\":\"HUP\"}"),
		{"{\"error\":\"io.stepd.Step.NoSuchProcess\",\"parameters\":{\"pid\":9}}"}};
	join(rig);
	assert_fine(rig, stepd_signal(rig->client, "TERM", NULL, &rig->error));
	assert_fine(rig, stepd_signal(rig->client, "15", &ranks, &rig->error));
	assert_fine(rig, stepd_signal(rig->client, "RTMIN+3", &pid, &rig->error));
	assert_int_equal(stepd_signal(rig->client, "HUP", NULL, &rig->error), -ESRCH);
}

/* What kill(2) takes for a group, or for all, goes nowhere. */
static void test_signal_to_no_pid(void **state)
{
	static const struct stepd_signal_target table[] = {
		{.pid = -1}, {.pid = -7}, {.start_ticks = 5}};
	struct rig *rig = *state;
	size_t i;

	join(rig);
	for (i = 0; i < ARRAY_SIZE(table); i++)
		assert_int_equal(
			stepd_signal(rig->client, "KILL", &table[i], &rig->error), -EINVAL);
}

static void test_acts(void **state)
{
	struct rig *rig = *state;
	char *version = NULL;

	script[0] = (struct exchange){CALL("Suspend", "{}"), {"{}"}};
	script[1] = (struct exchange){CALL("Resume", "{}"), {"{}"}};
	script[2] = (struct exchange){CALL("Terminate", "{}"), {"{}"}};
	script[3] = (struct exchange){
		CALL("Terminate", "{\"kill_sequence\":\"TERM,KILL\",\"grace_ms\":0}"), {"{}"}};
	script[4] = (struct exchange){CALL("AddPid", "{\"pid\":5,\"start_ticks\":6}"), {"{}"}};
	script[5] = (struct exchange){CALL("Notify", "{\"message\":\"h\\u001Bi\"}"), {"{}"}};
	script[6] =
		(struct exchange){CALL("Reexec", "{}"), {"{\"parameters\":{\"version\":\"9.1\"}}"}};
	join(rig);
	assert_fine(rig, stepd_suspend(rig->client, &rig->error));
	assert_fine(rig, stepd_resume(rig->client, &rig->error));
	assert_fine(rig, stepd_terminate(rig->client, NULL, -1, &rig->error));
	assert_fine(rig, stepd_terminate(rig->client, "TERM,KILL", 0, &rig->error));
	assert_fine(rig, stepd_add_pid(rig->client, 5, 6, &rig->error));
	assert_int_equal(stepd_notify(rig->client, "\xff", &rig->error), -EINVAL);
	assert_fine(rig, stepd_notify(rig->client, "h\x1bi", &rig->error));
	assert_fine(rig, stepd_reexec(rig->client, &version, &rig->error));
	assert_string_equal(version, "9.1");
	free(version);
}

/* ---- calls in two halves ------------------------------------------------------------------- */

static void test_split_calls(void **state)
{
	struct rig *rig = *state;
	struct stepd_process *found = NULL;
	const pid_t pids[] = {1, 2};
	char *json = NULL;
	size_t n = 0;

	script[0] = (struct exchange){CALL("Suspend", "{}"), {"{}"}};
	script[1] = (struct exchange){CALL("Signal", "{\"signal\":\"HUP\"}"),
		{"{\"error\":\"io.stepd.Step.NoSuchProcess\",\"parameters\":{\"pid\":9}}"}};
	script[2] = (struct exchange){CALL("FindPids", "{\"pids\":[1,2]}"),
		{"{\"parameters\":{\"found\":[{\"pid\":2,\"rank\":1}]}}"}};
	script[3] = (struct exchange){"{\"method\":\"io.stepd.Step.Describe\"}", {NULL}};
	join(rig);
	client_split_calls(rig->client);
	assert_int_equal(stepd_suspend(rig->client, &rig->error), -EAGAIN);
	assert_int_equal(stepd_resume(rig->client, &rig->error), -EINVAL);
	assert_fine(rig, stepd_suspend(rig->client, &rig->error));
	assert_int_equal(stepd_signal(rig->client, "HUP", NULL, &rig->error), -EAGAIN);
	assert_int_equal(stepd_signal(rig->client, "HUP", NULL, &rig->error), -ESRCH);
	assert_int_equal(
		stepd_find_pids(rig->client, pids, 2, 0, &found, &n, &rig->error), -EAGAIN);
	assert_null(found);
	assert_fine(rig, stepd_find_pids(rig->client, pids, 2, 0, &found, &n, &rig->error));
	assert_int_equal(n, 1);
	assert_int_equal(found[0].pid, 2);
	free(found);
	stepd_set_timeout(rig->client, 20);
	assert_int_equal(stepd_call(rig->client, "Describe", NULL, &json, &rig->error), -EAGAIN);
	assert_int_equal(stepd_call(rig->client, "Describe", NULL, &json, &rig->error), -ETIMEDOUT);
	assert_int_equal(
		stepd_call(rig->client, "Describe", NULL, &json, &rig->error), -ECONNRESET);
}

/* ---- following ----------------------------------------------------------------------------- */

static void test_wait(void **state)
{
	struct rig *rig = *state;
	char *result = NULL;

	script[0] = (struct exchange){"{\"method\":\"io.stepd.Step.Wait\"}", {NULL}};
	join(rig);
	assert_int_equal(stepd_wait(rig->client, 0, &result, &rig->error), -EAGAIN);
	assert_int_equal(stepd_wait(rig->client, 50, &result, &rig->error), -ETIMEDOUT);
	assert_int_equal(stepd_suspend(rig->client, &rig->error), -EINVAL);
	fake_agent_stop(&rig->agent);
	assert_int_equal(stepd_wait(rig->client, LONG_MS, &result, &rig->error), -ECONNRESET);
}

static void test_wait_has_the_result(void **state)
{
	struct rig *rig = *state;
	char *result = NULL;

	script[0] = (struct exchange){"{\"method\":\"io.stepd.Step.Wait\"}",
		{"{\"parameters\":{\"state\":\"ended\",\"result\":{\"exit_code\":3}}}"}};
	join(rig);
	assert_fine(rig, stepd_wait(rig->client, LONG_MS, &result, &rig->error));
	assert_string_equal(result, "{\"exit_code\":3}");
	free(result);
}

/* An agent that is gone has left the result on the disk. */
static void test_wait_reads_the_result(void **state)
{
	struct rig *rig = *state;
	char *result = NULL;

	script[0] = (struct exchange){"{\"method\":\"io.stepd.Step.Wait\"}", {NULL}};
	join(rig);
	assert_int_equal(stepd_wait(rig->client, 20, &result, &rig->error), -ETIMEDOUT);
	scratch_write(rig->directory, "result.json", "{\"exit_code\":4}", 15, 0644);
	fake_agent_stop(&rig->agent);
	assert_fine(rig, stepd_wait(rig->client, LONG_MS, &result, &rig->error));
	assert_string_equal(result, "{\"exit_code\":4}");
	free(result);
}

#define EVENT(fields) "{\"parameters\":{\"event\":{" fields "}},\"continues\":true}"

static void test_follow(void **state)
{
	struct rig *rig = *state;
	struct stepd_event event;

	script[0] = (struct exchange){CALL_MORE("Events", "{\"from\":3}"),
		{EVENT("\"sequence\":3,\"time_usec\":5,\"kind\":\"task_exit\",\"rank\":1,\"pid\":9,"
		       "\"wait_status\":256,\"exit_code\":1,\"text\":\"rank 1 ended\""),
			EVENT("\"sequence\":4,\"time_usec\":6,\"kind\":\"a-kind-of-a-later-version\","
			      "\"rank\":null"),
			"{\"parameters\":{\"event\":{\"sequence\":5,\"time_usec\":7,\"kind\":\"state\","
			"\"state\":\"ended\"}}}"}};
	join(rig);
	assert_fine(rig, stepd_follow(rig->client, 3, &rig->error));
	assert_int_equal(stepd_next_event(rig->client, LONG_MS, &event, &rig->error), 1);
	assert_int_equal(event.sequence, 3);
	assert_int_equal(event.time_usec, 5);
	assert_string_equal(event.kind, "task_exit");
	assert_string_equal(event.state, "");
	assert_int_equal(event.rank, 1);
	assert_int_equal(event.pid, 9);
	assert_int_equal(event.wait_status, 256);
	assert_int_equal(event.exit_code, 1);
	assert_int_equal(event.count, -1);
	assert_string_equal(event.text, "rank 1 ended");
	assert_int_equal(stepd_next_event(rig->client, LONG_MS, &event, &rig->error), 1);
	assert_string_equal(event.kind, "a-kind-of-a-lat");
	assert_int_equal(event.rank, -1);
	assert_int_equal(stepd_next_event(rig->client, LONG_MS, &event, &rig->error), 1);
	assert_string_equal(event.state, "ended");
	assert_int_equal(stepd_next_event(rig->client, LONG_MS, &event, &rig->error), 0);
	assert_int_equal(stepd_next_event(rig->client, 0, &event, &rig->error), 0);
}

static void test_follow_to_an_empty_end(void **state)
{
	struct rig *rig = *state;
	struct stepd_event event;

	script[0] = (struct exchange){CALL_MORE("Events", "{}"), {"{}"}};
	join(rig);
	assert_fine(rig, stepd_follow(rig->client, 0, &rig->error));
	assert_int_equal(stepd_next_event(rig->client, LONG_MS, &event, &rig->error), 0);
}

static void test_follow_until_the_agent_dies(void **state)
{
	struct rig *rig = *state;
	struct stepd_event event;

	script[0] = (struct exchange){CALL_MORE("Events", "{}"),
		{EVENT("\"sequence\":1,\"time_usec\":5,\"kind\":\"oom\"")}};
	join(rig);
	assert_fine(rig, stepd_follow(rig->client, 0, &rig->error));
	assert_int_equal(stepd_next_event(rig->client, LONG_MS, &event, &rig->error), 1);
	assert_int_equal(stepd_next_event(rig->client, 0, &event, &rig->error), -EAGAIN);
	assert_int_equal(stepd_next_event(rig->client, 20, &event, &rig->error), -ETIMEDOUT);
	fake_agent_stop(&rig->agent);
	assert_int_equal(stepd_next_event(rig->client, LONG_MS, &event, &rig->error), -ECONNRESET);
	assert_int_equal(stepd_next_event(rig->client, LONG_MS, &event, &rig->error), -ECONNRESET);
}

static void test_events_that_are_none(void **state)
{
	static const char *const table[] = {EVENT(""),
		EVENT("\"sequence\":0,\"time_usec\":5,\"kind\":\"oom\""),
		EVENT("\"sequence\":1,\"kind\":\"oom\""), EVENT("\"sequence\":1,\"time_usec\":5"),
		"{\"parameters\":{},\"continues\":true}", "{\"parameters\":{\"event\":[]}}"};
	struct rig *rig = *state;
	struct stepd_event event;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		script[0] = (struct exchange){CALL_MORE("Events", "{}"), {table[i]}};
		join(rig);
		assert_fine(rig, stepd_follow(rig->client, 0, &rig->error));
		assert_int_equal(
			stepd_next_event(rig->client, LONG_MS, &event, &rig->error), -EPROTO);
		rig->client = stepd_disconnect(rig->client);
		fake_agent_stop(&rig->agent);
	}
}

/* A text is cut between characters. */
static void test_a_long_text(void **state)
{
	struct rig *rig = *state;
	struct stepd_event event;
	char answer[1024], text[600] = "x";
	size_t i;

	for (i = 1; i + 2 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xa9", 2); /* e with an accent */
	(void)snprintf(answer, sizeof(answer),
		EVENT("\"sequence\":1,\"time_usec\":5,\"kind\":\"notify\",\"text\":\"%s\""), text);
	script[0] = (struct exchange){CALL_MORE("Events", "{}"), {answer}};
	join(rig);
	assert_fine(rig, stepd_follow(rig->client, 0, &rig->error));
	assert_int_equal(stepd_next_event(rig->client, LONG_MS, &event, &rig->error), 1);
	assert_int_equal(strlen(event.text), sizeof(event.text) - 1);
	assert_int_equal(event.text[strlen(event.text) - 1] & 0xff, 0xa9);
	assert_int_equal(stepd_next_event(rig->client, 0, &event, &rig->error), -EAGAIN);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, rig_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_list_pids_in_pieces),
		TEST(test_rows_that_are_none),
		TEST(test_find_any_number_of_pids),
		TEST(test_find_in_another_namespace),
		TEST(test_signal),
		TEST(test_signal_to_no_pid),
		TEST(test_acts),
		TEST(test_split_calls),
		TEST(test_wait),
		TEST(test_wait_has_the_result),
		TEST(test_wait_reads_the_result),
		TEST(test_follow),
		TEST(test_follow_to_an_empty_end),
		TEST(test_follow_until_the_agent_dies),
		TEST(test_events_that_are_none),
		TEST(test_a_long_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
