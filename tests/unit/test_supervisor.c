/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ev.h>
#include <jansson.h>

#include "stepd/api/client.h"
#include "stepd/base/cleanup.h"
#include "stepd/base/json.h"
#include "stepd/base/strv.h"
#include "stepd/cli/relay/supervisor.h"
#include "tests/lib/fake_agent.h"
#include "tests/lib/scratch.h"

/* An agent in the place of "stepd serve" that has cleared its step away when its ready line is
 * read, and ends once that has been: DIR/runtime/go is there. */
static const char program[] = "#!/bin/bash\n"
			      "for a; do\n"
			      "	case $a in\n"
			      "	--ready-fd=*) fd=${a#*=} ;;\n"
			      "	--runtime-dir=*) dir=${a#*=} ;;\n"
			      "	esac\n"
			      "done\n"
			      "echo '{}' >&$fd; eval \"exec $fd>&-\"\n"
			      "for ((i = 0; i < 3000; i++)); do\n"
			      "	[ ! -e \"$dir/go\" ] || exit 5\n"
			      "	sleep 0.02\n"
			      "done\n";

static const char other_state[] =
	"{\"version\":1,\"job\":7,\"step\":\"10\",\"node\":\"n1\",\"uid\":0,"
	"\"user\":\"root\",\"state\":\"running\","
	"\"proctrack\":\"proctrack/pgid\",\"container_id\":77,\"agent_pid\":4711}";

struct rig {
	char *dir, *runtime;
	struct fake_agent other;
	struct ev_loop *loop;
	struct supervisor *supervisor;
	int exit_code;
	unsigned readies, ends, reports;
};

/* The other step's: a task of rank 1 ends with status 7 for everybody who follows. Whoever calls
 * another method hears how many clients there have been. */
static void be_other_step(int fd)
{
	static unsigned clients;
	_cleanup_free_ char *call = fake_hear(fd);
	char text[80];

	clients++;
	if (!call)
		return;
	if (strstr(call, "Events")) {
		fake_answer(fd,
			"{\"parameters\":{\"event\":{\"sequence\":1,\"time_usec\":1,"
			"\"kind\":\"task_exit\",\"rank\":1,\"exit_code\":7,"
			"\"wait_status\":1792}},\"continues\":true}");
		fake_rest(fd);
		return;
	}
	(void)snprintf(text, sizeof(text), "{\"parameters\":{\"clients\":%u}}", clients);
	fake_answer(fd, text);
}

static int set_up(void **state)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	_cleanup_free_ char *from = NULL, *to = NULL;

	if (!rig)
		return -1;
	rig->dir = scratch_make();
	rig->runtime = scratch_path(rig->dir, "runtime");
	if (mkdir(rig->runtime, 0755) < 0)
		return -1;
	scratch_write(rig->dir, "stepd", program, sizeof(program) - 1, 0755);
	rig->other = fake_agent_start(rig->runtime, be_other_step, 0);
	from = scratch_path(rig->runtime, "n1_7.0");
	to = scratch_path(rig->runtime, "n1_7.10");
	if (rename(from, to) < 0)
		return -1;
	scratch_write(to, "state.json", other_state, sizeof(other_state) - 1, 0644);
	rig->loop = ev_loop_new(EVFLAG_NOENV);
	*state = rig;
	return 0;
}

static int tear_down(void **state)
{
	struct rig *rig = *state;

	(void)supervisor_free(rig->supervisor);
	ev_loop_destroy(rig->loop);
	fake_agent_stop(&rig->other);
	scratch_remove(rig->dir);
	free(rig->runtime);
	free(rig->dir);
	free(rig);
	return 0;
}

static void on_ready(const json_t *line, void *userdata)
{
	struct rig *rig = userdata;

	(void)line;
	rig->readies++;
	scratch_write(rig->runtime, "go", "", 0, 0644);
}

static void on_task_ended(uint32_t rank, int wait_status, void *userdata)
{
	(void)rank;
	(void)wait_status;
	((struct rig *)userdata)->ends++;
}

static void on_report(const char *text, void *userdata)
{
	(void)text;
	((struct rig *)userdata)->reports++;
}

static void on_ended(int exit_code, const char *result, void *userdata)
{
	struct rig *rig = userdata;

	assert_null(result);
	rig->exit_code = exit_code;
	ev_break(rig->loop, EVBREAK_ALL);
}

/* Its clients are served one after the other, so those of before are counted. */
static int64_t count_clients_of_other(struct rig *rig)
{
	_cleanup_free_ char *reply = NULL;
	struct stepd_client *client = NULL;
	json_auto_t *doc = NULL;
	struct stepd_error error;

	assert_int_equal(
		stepd_connect(rig->runtime, "n1/7.10", STEPD_TIMEOUT_MS, &client, &error), 0);
	assert_int_equal(stepd_call(client, "Count", NULL, &reply, &error), 0);
	(void)stepd_disconnect(client);
	doc = json_loads(reply, 0, NULL);
	assert_non_null(doc);
	return json_get_int(doc, "clients", -1);
}

/* A short step's agent has cleared its directory away before anybody connects: step 7.1 is not the
 * beginning of 7.10's name then, whose ends and signals would be mixed up with its. */
static void test_ended_before_the_connection(void **state)
{
	static const struct supervisor_events events = {.ready = on_ready,
		.task_ended = on_task_ended,
		.report = on_report,
		.ended = on_ended};
	struct rig *rig = *state;
	json_auto_t *doc =
		json_pack("{s:i, s:i, s:{s:s}}", "job", 7, "step", 1, "node", "name", "n1");
	_cleanup_free_ char *path = scratch_path(rig->dir, "stepd");
	struct strv args = {0};
	const struct supervisor_start start = {.program = path,
		.args = &args,
		.runtime_dir = rig->runtime,
		.doc = doc,
		.stdio = {0, 1, 2}};
	struct err err = ERR_INIT;

	assert_int_equal(strv_addf(&args, "--runtime-dir=%s", rig->runtime), 0);
	assert_int_equal(
		supervisor_new(rig->loop, &start, &events, rig, &rig->supervisor, &err), 0);
	ev_run(rig->loop, 0);
	assert_int_equal(rig->exit_code, 5);
	assert_int_equal(rig->readies, 1);
	assert_int_equal(rig->ends, 0);
	assert_int_equal(rig->reports, 0);
	rig->supervisor = supervisor_free(rig->supervisor);
	assert_int_equal(count_clients_of_other(rig), 1);
	strv_clear(&args);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_ended_before_the_connection, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
