/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls and their answers, as the Varlink protocol has them: the envelope, names, parameters, more
 * and oneway, their order, and calls that wait for the step to run.
 */
#include "stepd/control/control.h"

#include "tests/lib/control_rig.h"

#define ECHO   "\"method\":\"org.example.Trial.Echo\""
#define NOTE   "\"method\":\"org.example.Trial.Note\""
#define RAISE  "\"method\":\"org.example.Trial.Raise\""
#define CHANGE "\"method\":\"org.example.Trial.Change\""
#define MANY   "\"method\":\"org.example.Trial.Many\""
#define ONLY   "\"method\":\"org.example.Trial.Only\""

#define WRONG(name)                                                                                \
	"{\"error\":\"org.varlink.service.InvalidParameter\",\"parameters\":{\"parameter\":"       \
	"\"" name "\"}}"

static const struct {
	const char *call, *answer;
} cases[] = {
	/* what is asked of every service */
	{"{\"method\":\"org.varlink.service.GetInfo\"}",
		"{\"parameters\":{\"vendor\":\"v\",\"product\":\"p\",\"version\":\"1\",\"url\":\"u\","
		"\"interfaces\":[\"org.varlink.service\",\"org.example.Trial\"]}}"},
	{"{\"method\":\"org.varlink.service.GetInterfaceDescription\",\"parameters\":{"
	 "\"interface\":\"org.example.Trial\"}}",
		"{\"parameters\":{\"description\":\"interface org.example.Trial\\n\"}}"},
	{"{\"method\":\"org.varlink.service.GetInterfaceDescription\",\"parameters\":{"
	 "\"interface\":\"org.example.Other\"}}",
		"{\"error\":\"org.varlink.service.InterfaceNotFound\",\"parameters\":{\"interface\":"
		"\"org.example.Other\"}}"},
	{"{\"method\":\"org.varlink.service.GetInterfaceDescription\"}", WRONG("interface")},

	/* names */
	{"{\"method\":\"org.example.Other.Echo\"}",
		"{\"error\":\"org.varlink.service.InterfaceNotFound\",\"parameters\":{\"interface\":"
		"\"org.example.Other\"}}"},
	{"{\"method\":\"org.example.Trial.Ech\"}",
		"{\"error\":\"org.varlink.service.MethodNotFound\",\"parameters\":{\"method\":\"org."
		"example.Trial.Ech\"}}"},
	{"{\"method\":\"org.example.Trial.\"}",
		"{\"error\":\"org.varlink.service.MethodNotFound\",\"parameters\":{\"method\":\"org."
		"example.Trial.\"}}"},
	{"{\"method\":\"Echo\"}", WRONG("method")},
	{"{\"method\":\".Echo\"}",
		"{\"error\":\"org.varlink.service.InterfaceNotFound\",\"parameters\":{\"interface\":"
		"\"\"}}"},
	{"{\"method\":\"org.example.trial.Echo\"}",
		"{\"error\":\"org.varlink.service.InterfaceNotFound\",\"parameters\":{\"interface\":"
		"\"org.example.trial\"}}"},

	/* the envelope */
	{"{}", WRONG("method")},
	{"{\"method\":7}", WRONG("method")},
	{"{\"method\":null}", WRONG("method")},
	{"{" ECHO ",\"upgrade\":true}", WRONG("upgrade")},
	{"{" ECHO ",\"upgrade\":false}", "{\"parameters\":{}}"},
	{"{" RAISE "}", WRONG("upgrade")},
	{"{" ECHO ",\"more\":1}", WRONG("more")},
	{"{" ECHO ",\"oneway\":\"no\"}", WRONG("oneway")},
	{"{" ECHO ",\"uid\":0}", WRONG("uid")},
	{"{" ECHO ",\"parameters\":[]}", WRONG("parameters")},
	{"{" ECHO ",\"parameters\":null}", "{\"parameters\":{}}"},
	{" {" ECHO ", \"parameters\" : { } } \n", "{\"parameters\":{}}"},

	/* parameters */
	{"{" ECHO ",\"parameters\":{\"b\":true,\"i\":-9223372036854775808,\"s\":\"\\u00fc\","
	 "\"o\":{\"x\":[[]]},\"a\":[1,2]}}",
		"{\"parameters\":{\"b\":true,\"i\":-9223372036854775808,\"s\":\"\xc3\xbc\",\"o\":"
		"{\"x\":[[]]},\"a\":[1,2]}}"},
	{"{" ECHO ",\"parameters\":{\"i\":null,\"b\":false}}", "{\"parameters\":{\"b\":false}}"},
	{"{" ECHO ",\"parameters\":{\"b\":0}}", WRONG("b")},
	{"{" ECHO ",\"parameters\":{\"i\":1.0}}", WRONG("i")},
	{"{" ECHO ",\"parameters\":{\"i\":\"1\"}}", WRONG("i")},
	{"{" ECHO ",\"parameters\":{\"s\":[]}}", WRONG("s")},
	{"{" ECHO ",\"parameters\":{\"o\":[]}}", WRONG("o")},
	{"{" ECHO ",\"parameters\":{\"a\":{}}}", WRONG("a")},
	{"{" ECHO ",\"parameters\":{\"a\":[1,\"2\"]}}", WRONG("a")},
	{"{" ECHO ",\"parameters\":{\"oa\":{}}}", WRONG("oa")},
	{"{" ECHO ",\"parameters\":{\"oa\":[{},1]}}", WRONG("oa")},
	{"{" ECHO ",\"parameters\":{\"uid\":0}}", WRONG("uid")},
	{"{" ECHO ",\"parameters\":{\"\":0}}", WRONG("")},
	{"{" NOTE "}", WRONG("text")},
	{"{" NOTE ",\"parameters\":{\"text\":null}}", WRONG("text")},
	{"{" NOTE ",\"parameters\":{\"text\":\"a\",\"more\":null}}", WRONG("more")},

	/* answers */
	{"{\"method\":\"org.example.Trial.Fail\"}",
		"{\"error\":\"org.example.Trial.NoSuchProcess\",\"parameters\":{\"pid\":7}}"},
	{"{" ONLY ",\"parameters\":{\"count\":2}}",
		"{\"error\":\"org.varlink.service.ExpectedMore\",\"parameters\":{}}"},
	{"{" MANY ",\"parameters\":{\"count\":2}}", "{\"parameters\":{\"n\":2}}"},
	{"{" ECHO ",\"more\":true}", "{\"parameters\":{}}"},
};

/* The connection becomes the method's: bytes go both ways, and the service is over with it. */
static void test_upgrade(void **state)
{
	struct rig *rig = *state;
	int fd = rig_connect(rig);
	char got[8];

	rig_send(rig, fd, "{" RAISE ",\"upgrade\":true}");
	rig_expect(rig, fd, "{\"parameters\":{}}");
	rig_settle(rig);
	assert_int_equal(rig->upgraded, 0);
	assert_true(rig->channel >= 0);
	assert_true(TAILQ_EMPTY(&rig->control->all));
	assert_int_equal(send(fd, "{raw", 5, MSG_NOSIGNAL), 5);
	rig_settle(rig);
	assert_int_equal(recv(rig->channel, got, sizeof(got), MSG_DONTWAIT), 5);
	assert_int_equal(send(rig->channel, "back", 4, MSG_NOSIGNAL), 4);
	assert_int_equal(recv(fd, got, sizeof(got), MSG_DONTWAIT), 4);
	(void)close(rig->channel);
	(void)close(fd);
	/* What comes behind the call before its reply is nobody's. */
	fd = rig_connect(rig);
	rig_send_bytes(rig, fd, "{" RAISE ",\"upgrade\":true}\0early",
		sizeof("{" RAISE ",\"upgrade\":true}\0early"));
	rig_expect(rig, fd, "{\"parameters\":{}}");
	rig_expect_end(rig, fd);
	assert_int_equal(rig->upgraded, -EPIPE);
	(void)close(fd);
}

static void test_answers(void **state)
{
	struct rig *rig = *state;
	size_t i;
	int fd = rig_connect(rig);

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		rig_try(rig, cases[i].call, cases[i].answer);
		rig_send(rig, fd, cases[i].call); /* and on a connection that has seen others */
		rig_expect(rig, fd, cases[i].answer);
	}
	(void)close(fd);
}

/* What is not a JSON object is not a call: the connection ends without a word. */
static void test_no_calls(void **state)
{
	static const char *const frames[] = {"", " ", "null", "7", "\"\"", "[]", "[{}]", "{", "}",
		"{}{}", "{\"method\":}", "nonsense", "GET / HTTP/1.1\r\n\r\n", "{" ECHO "} x",
		"{" ECHO "," ECHO "}", "{" ECHO ",\"parameters\":{\"i\":1,\"i\":1}}",
		"{" ECHO ",\"parameters\":{\"s\":\"\\u0000\"}}",
		"{" ECHO ",\"parameters\":{\"s\":\"\xff\xfe\"}}",
		"{" ECHO ",\"parameters\":{\"s\":\"\xed\xa0\x80\"}}",
		"{" ECHO ",\"parameters\":{\"s\":\"\\ud800\"}}",
		"{" ECHO ",\"parameters\":{\"i\":99999999999999999999}}",
		"{" ECHO ",\"parameters\":{\"i\":NaN}}", "\xef\xbb\xbf{" ECHO "}"};
	struct rig *rig = *state;
	size_t i;
	int fd;

	for (i = 0; i < ARRAY_SIZE(frames); i++) {
		fd = rig_connect(rig);
		rig_send(rig, fd, frames[i]);
		rig_expect_end(rig, fd);
	}
	assert_int_equal(rig->runs, 0);
	assert_int_equal(rig->control->memory, 0);
}

static void test_more(void **state)
{
	struct rig *rig = *state;
	int fd = rig_connect(rig);

	rig_send(rig, fd, "{" ONLY ",\"more\":true,\"parameters\":{\"count\":3}}");
	rig_expect(rig, fd, "{\"continues\":true,\"parameters\":{\"n\":1}}");
	rig_expect(rig, fd, "{\"continues\":true,\"parameters\":{\"n\":2}}");
	rig_expect(rig, fd, "{\"parameters\":{\"n\":3}}");
	rig_send(rig, fd, "{" MANY ",\"more\":true,\"parameters\":{\"count\":2}}");
	rig_expect(rig, fd, "{\"continues\":true,\"parameters\":{\"n\":1}}");
	rig_expect(rig, fd, "{\"parameters\":{\"n\":2}}");
	(void)close(fd);
}

/* Nobody answers them, not even with an error; they run all the same. */
static void test_oneway(void **state)
{
	struct rig *rig = *state;
	int fd = rig_connect(rig);

	rig_send(rig, fd, "{" ECHO ",\"oneway\":true}");
	rig_send(rig, fd, "{" MANY ",\"oneway\":true,\"more\":true,\"parameters\":{\"count\":9}}");
	rig_send(rig, fd, "{" ONLY ",\"oneway\":true,\"parameters\":{\"count\":9}}");
	rig_send(rig, fd, "{\"method\":\"org.example.Trial.Fail\",\"oneway\":true}");
	rig_send(rig, fd, "{\"method\":\"org.example.Trial.Not\",\"oneway\":true}");
	rig_send(rig, fd, "{" ECHO ",\"oneway\":true,\"parameters\":{\"b\":7}}");
	rig_send(rig, fd, "{\"oneway\":true}");
	rig_send(rig, fd, "{\"uid\":0,\"oneway\":true}");
	rig_send(rig, fd, "{" ECHO ",\"parameters\":{\"i\":1}}");
	rig_expect(rig, fd, "{\"parameters\":{\"i\":1}}");
	assert_int_equal(rig->runs, 4);
	(void)close(fd);
}

/* Thousands in one go are answered in order, and nobody else has to wait for the last of them. */
static void test_pipelined(void **state)
{
	struct rig *rig = *state;
	int fd = rig_connect(rig), other = rig_connect(rig), i;
	unsigned before;
	char text[128];

	rig_settle(rig);
	for (i = 0; i < 700; i++) {
		(void)snprintf(text, sizeof(text), "{" ECHO ",\"parameters\":{\"i\":%d}}", i);
		rig_send(rig, fd, text);
	}
	before = rig->runs; /* while they were sent */
	rig_send(rig, other, "{" ECHO "}");
	rig_expect(rig, other, "{\"parameters\":{}}");
	assert_in_range(rig->runs - before, 1, 64);
	assert_in_range(before, 0, 600);
	for (i = 0; i < 700; i++) {
		(void)snprintf(text, sizeof(text), "{\"parameters\":{\"i\":%d}}", i);
		rig_expect(rig, fd, text);
	}
	(void)close(fd);
	(void)close(other);
}

static void test_byte_by_byte(void **state)
{
	static const char call[] = "{" ECHO ",\"parameters\":{\"s\":\"slowly\"}}";
	struct rig *rig = *state;
	int fd = rig_connect(rig);
	size_t i;

	for (i = 0; i < sizeof(call); i++) {
		rig_send_bytes(rig, fd, call + i, 1);
		rig_settle(rig);
	}
	rig_expect(rig, fd, "{\"parameters\":{\"s\":\"slowly\"}}");
	(void)close(fd);
}

/* Who says all and shuts its side down gets all answers, also those that come late. */
static void test_half_close(void **state)
{
	struct rig *rig = *state;
	int fd = rig_connect(rig);

	rig_send(rig, fd, "{" ECHO ",\"parameters\":{\"i\":1}}");
	rig_send(rig, fd, "{\"method\":\"org.example.Trial.Keep\"}");
	rig_send(rig, fd, "{" ECHO ",\"parameters\":{\"i\":3}}");
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	rig_expect(rig, fd, "{\"parameters\":{\"i\":1}}");
	rig_settle(rig);
	assert_int_equal(rig->held_count, 1);
	control_reply_take(rig->held[0], json_pack("{s:i}", "i", 2), true);
	rig->held_count = 0;
	rig_expect(rig, fd, "{\"parameters\":{\"i\":2}}");
	rig_expect(rig, fd, "{\"parameters\":{\"i\":3}}");
	rig_expect_end(rig, fd);
	assert_int_equal(rig->gone_count, 0);
}

static void test_waiting_calls(void **state)
{
	struct rig *rig = *state;
	int fd[3], i;
	char text[128];

	rig_open(rig);
	for (i = 0; i < 3; i++) {
		fd[i] = rig_connect(rig);
		(void)snprintf(
			text, sizeof(text), "{" CHANGE ",\"parameters\":{\"text\":\"%d\"}}", i);
		rig_send(rig, fd[i], text);
		(void)snprintf(
			text, sizeof(text), "{" CHANGE ",\"parameters\":{\"text\":\"%d\"}}", i + 5);
		rig_send(rig, fd[i], text);
		rig_settle(rig);
	}
	rig_try(rig, "{" NOTE ",\"parameters\":{\"text\":\"a\"}}", "{\"parameters\":{}}");
	rig_try(rig, "{" CHANGE "}", WRONG("text")); /* that need not wait */
	(void)close(fd[1]);                          /* who has gone wants nothing any more */
	rig_settle(rig);
	assert_string_equal(rig->order, "a");
	control_set_ready(rig->control);
	assert_string_equal(rig->order, "a"); /* from the loop */
	for (i = 0; i < 3; i += 2) {
		rig_expect(rig, fd[i], "{\"parameters\":{}}");
		rig_expect(rig, fd[i], "{\"parameters\":{}}");
		(void)close(fd[i]);
	}
	assert_string_equal(rig->order, "a0257");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_upgrade, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_answers, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_no_calls, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_more, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_oneway, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_pipelined, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_byte_by_byte, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_half_close, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_waiting_calls, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
