/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a real Slurm 22.05 did, as recorded in tests/data/jobd, and what the engine does with the
 * same commands at the same times.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "contrib/jobd/sim/replay.h"
#include "stepd/base/err.h"
#include "tests/lib/scratch.h"

#define G1_R3                                                                                      \
	"nodecnt=2 corecnt=2,3 gave Slurm's reservation 15 cores of 6 nodes, a plain bug; here "   \
	"it has 2 and 3 cores of 2 nodes, and what follows of that"

#define ENDS_LATE                                                                                  \
	"the processes of a real job take a second or two to end, and its nodes to be free"
#define GRACE                                                                                      \
	"the guide: SIGKILL upon reaching its new end time; the real one waits for its next pass"
#define REASON                                                                                      \
	"the guide prints (Resources) for a job that was queued again: so as long as the job that " \
	"preempted it has its nodes"
#define FIRST_TURN                                                                                  \
	"the guide: only one job per resource at a time; the sleep of a job begins with its first " \
	"turn, and in the real one before that"

/* Where jobd's choice is right by the guide, or the option is none that it serves. count: so many
 * differences in all whose thing has this text. */
static const struct {
	const char *case_name, *text;
	size_t count;
	const char *why;
} deviations[] = {
	{"E2-line-constres-cpu", "-N2-4 --contiguous", 12,
		"the guide: a contiguous job gets nodes one after the other, and no others"},
	{"E10-cores-constres-CR_Core", "-n4 -c5", 3,
		"a task of five CPUs is not spread over two nodes: 20 CPUs, not 18"},
	{"E14-cores-constres-LLN", "-n4 -c5", 3, "as in E10"},
	{"E18-cores-constres-Socket", "-n4 -c5", 3, "as in E10"},
	{"G1-reservations", "reservation r3", 3, G1_R3},
	{"G1-reservations", "row 12, request -n4", 2, G1_R3},
	{"G1-reservations", "row 13, request -N2 -n8", 1, G1_R3},
	{"G1-reservations", "row 16, request -n6 --reservation=r3", 1, G1_R3},
	{"G1-reservations", "job 10", 2, G1_R3},
	{"A2-guide-lowmedhi-linear", "job 94", 7, REASON},
	{"A3-guide-qos-force1", "job 1", 1, FIRST_TURN},
	{"A3-guide-qos-force1", "job 3", 1, FIRST_TURN},
	{"A3-guide-qos-force1", "job 4", 1, FIRST_TURN},
	{"B1-cancel-grace10-exits-on-term", "job", 4, GRACE},
	{"B1-cancel-grace10-ignores-term", "job", 4, GRACE},
	{"B1-cancel-grace10-ignores-term", "sinfo", 1, GRACE},
	{"B2-requeue-flags", "job 1", 4, REASON},
	{"B2-requeue-flags", "job 2", 1, ENDS_LATE},
	{"B2-requeue-flags", "job 3", 4, REASON},
	{"B2-requeue-flags", "job 4", 1, ENDS_LATE},
	{"F4-het-mixed-requeue-cancel", "job 2+", 4, REASON},
};

static const struct log to_stderr = {
	.fd = STDERR_FILENO, .most = LOG_LEVEL_ERROR, .ident = "replay"};

struct seen {
	size_t counts[sizeof(deviations) / sizeof(deviations[0])];
	size_t others;
};

static void on_difference(const struct replay_difference *d, void *userdata)
{
	struct seen *seen = userdata;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(deviations); i++) {
		if (strcmp(deviations[i].case_name, d->case_name) == 0 &&
			strstr(d->thing, deviations[i].text)) {
			seen->counts[i]++;
			return;
		}
	}
	seen->others++;
	print_message("%s: %.1f s: %s: expected '%s', got '%s'\n", d->case_name, d->t, d->thing,
		d->expected, d->got);
}

static char *plugin_dir(void)
{
	return scratch_path(getenv("top_builddir"), "stepd/cli/plugins");
}

/* All differences are of the table, and each of the table is one. */
static void check_case(const char *name, size_t compared_at_least)
{
	_cleanup_free_ char *dir = plugin_dir(), *file = NULL;
	struct err err = ERR_INIT;
	struct seen seen = {.others = 0};
	size_t compared = 0, i;

	if (asprintf(&file, "%s/tests/data/jobd/%s.json", getenv("top_srcdir"), name) < 0)
		fail();
	if (replay_case(file, dir, &to_stderr, on_difference, &seen, &compared, &err) < 0)
		fail_msg("%s", err.text);
	if (seen.others)
		fail_msg("%s: %zu differences without a reason", name, seen.others);
	for (i = 0; i < ARRAY_SIZE(deviations); i++) {
		if (strcmp(deviations[i].case_name, name) == 0 &&
			seen.counts[i] != deviations[i].count)
			fail_msg("%s: %s: %zu differences, not %zu", name, deviations[i].text,
				seen.counts[i], deviations[i].count);
	}
	assert_true(compared >= compared_at_least);
}

static void test_line(void **state)
{
	(void)state;
	check_case("E1-line-linear", 400);
	check_case("E2-line-constres-cpu", 480);
}

static void test_cores(void **state)
{
	(void)state;
	check_case("E10-cores-constres-CR_Core", 280);
	check_case("E14-cores-constres-LLN", 280);
	check_case("E18-cores-constres-Socket", 260);
}

static void test_reservations(void **state)
{
	(void)state;
	check_case("G1-reservations", 120);
}

static void test_backfill(void **state)
{
	(void)state;
	check_case("G2-backfill", 36);
}

static void test_examples(void **state)
{
	(void)state;
	check_case("A1-guide-simple-constres-core", 30);
	check_case("A1-guide-simple-linear", 42);
	check_case("A2-guide-lowmedhi-linear", 28);
	check_case("A3-guide-qos-force1", 36);
	check_case("A4-future-constres-core", 28);
	check_case("A4-future-linear", 24);
}

/* The tables that the guide prints, to the second. */
static void test_guide(void **state)
{
	(void)state;
	check_case("guide-simple", 32);
	check_case("guide-three-modes", 12);
	check_case("guide-qos", 18);
	check_case("guide-future-ideas", 25);
	check_case("guide-future-least", 15);
}

static void test_modes(void **state)
{
	(void)state;
	check_case("B1-cancel-grace10-exits-on-term", 15);
	check_case("B1-cancel-grace10-ignores-term", 15);
	check_case("B2-requeue-flags", 48);
	check_case("B4-exempt20", 12);
	check_case("B6-three-tiers", 42);
}

static void test_candidates(void **state)
{
	(void)state;
	check_case("C-constres-default", 72);
	check_case("C-constres-strict", 72);
	check_case("C-linear-default", 72);
	check_case("C-linear-suspend", 72);
}

static void test_gang(void **state)
{
	(void)state;
	check_case("D1-core-force2-three-full", 22);
	check_case("D2-core-force4-four-full", 28);
	check_case("D4-core-force2-mixed", 26);
	check_case("D6-corememory-fit", 19);
	check_case("D7-suspend-memory", 20);
}

static void test_components(void **state)
{
	(void)state;
	check_case("F1-het-cancel", 23);
	check_case("F4-het-mixed-requeue-cancel", 27);
}

/* ---- cases that say what is not so -------------------------------------------------------------
 */

static void count_difference(const struct replay_difference *d, void *userdata)
{
	(void)d;
	(*(size_t *)userdata)++;
}

#define CONF                                                                                       \
	"\"conf\":{\"SelectType\":\"select/linear\",\"nodes\":[\"n[1-2] CPUs=1\"],"                \
	"\"partitions\":[\"p Nodes=ALL Default=YES\"]}"

/* Returns what replay_case() does. */
static int replay_text(const char *text, size_t *ret_differences, struct err *err)
{
	_cleanup_free_ char *dir = plugin_dir(), *scratch = scratch_make(), *file = NULL;
	size_t compared;
	int r;

	file = scratch_path(scratch, "case.json");
	scratch_write(scratch, "case.json", text, strlen(text), 0600);
	*ret_differences = 0;
	r = replay_case(file, dir, &to_stderr, count_difference, ret_differences, &compared, err);
	scratch_remove(scratch);
	return r;
}

/* A comparison that nothing can fail is none. */
static void test_differences(void **state)
{
	static const struct {
		const char *rows;
		size_t differences;
	} rows[] = {
		{"{\"request\":\"-N2\",\"nodes\":\"n[1-2]\",\"num_cpus\":2}", 0},
		{"{\"request\":\"-N2\",\"nodes\":\"n1\",\"num_cpus\":2}", 1},
		{"{\"request\":\"-N2\",\"nodes\":\"n[1-2]\",\"num_cpus\":3}", 1},
		{"{\"request\":\"-N2\",\"rejected\":\"x\"}", 1},
		{"{\"request\":\"-N3\",\"rejected\":\"x\"}", 0},
		{"{\"request\":\"-N2\",\"pending\":\"(Resources)\"}", 1},
		{"{\"request\":\"-N1\",\"alloc\":[{\"nodes\":\"n1\",\"cpus\":\"0\",\"mem\":0}],"
		 "\"nodes\":\"n1\"}",
			0},
		{"{\"request\":\"-N1\",\"alloc\":[{\"nodes\":\"n1\",\"cpus\":\"1\",\"mem\":0}],"
		 "\"nodes\":\"n1\"}",
			1},
		{"{\"request\":\"-N1\",\"alloc\":[{\"nodes\":\"n1\",\"cpus\":\"0\",\"mem\":5}],"
		 "\"nodes\":\"n1\"}",
			1},
		{"{\"t\":5,\"jobs\":{\"1\":[\"R\",\"n1\",\"0:05\"]},"
		 "\"sinfo\":[\"p*|allocated|1|n1\",\"p*|idle|1|n2\"]}",
			0},
		{"{\"t\":5,\"jobs\":{\"1\":[\"R\",\"n1\",\"0:08\"]}}", 0}, /* in 3 s */
		{"{\"t\":5,\"jobs\":{\"1\":[\"R\",\"n1\",\"0:12\"]}}", 1},
		{"{\"t\":5,\"jobs\":{\"1\":[\"R\",\"n2\",\"0:05\"]}}", 1},
		{"{\"t\":5,\"jobs\":{\"1\":[\"PD\",\"(Resources)\",\"0:05\"]}}", 1},
		{"{\"t\":5,\"jobs\":{}}", 1},
		{"{\"t\":15,\"jobs\":{}}", 0}, /* it has ended */
		{"{\"t\":5,\"sinfo\":[\"p*|idle|2|n[1-2]\"]}", 1},
		{"{\"t\":5,\"show\":\"1\",\"JobState\":\"RUNNING\",\"Restarts\":\"0\"}", 0},
		{"{\"t\":5,\"show\":\"1\",\"JobState\":\"PENDING\",\"Restarts\":\"1\"}", 2},
		{"{\"t\":5,\"states\":[[\"1\",\"RUNNING\",\"None\",\"0\"]]}", 0},
		{"{\"t\":5,\"states\":[[\"1\",\"FAILED\",\"None\",\"0\"]]}", 1},
		{"{\"t\":5,\"reservations\":[{\"ReservationName\":\"r\"}]}", 1},
		{"{\"t\":5,\"squeue_start\":[{\"job\":\"1\",\"st\":\"R\",\"start_min\":0.0}]}", 0},
		{"{\"t\":5,\"squeue_start\":[{\"job\":\"1\",\"st\":\"R\",\"start_min\":1.0}]}", 1},
		{"{\"t\":5,\"prints\":\"squeue -Si\",\"lines\":[\"JOBID PARTITION NAME USER ST TIME "
		 "NODES NODELIST\",\" 1 p job x R 0:05 1 n1\"]}",
			0},
		{"{\"t\":5,\"prints\":\"squeue -Si\",\"lines\":[\"JOBID PARTITION NAME USER ST TIME "
		 "NODES NODELIST\",\" 1 p job x R 0:06 1 n1\"]}",
			1},
		{"{\"t\":5,\"prints\":\"squeue\",\"lines\":[\"JOBID PARTITION NAME USER ST TIME NODES "
		 "NODELIST(REASON)\"]}",
			2},
		{"{\"t\":5,\"prints\":\"sinfo\",\"lines\":[\"PARTITION AVAIL TIMELIMIT NODES STATE "
		 "NODELIST\",\"p* up infinite 1 alloc n1\",\"p* up infinite 1 down n2\"]}",
			1},
	};
	size_t i, differences;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		bool with_job = strncmp(rows[i].rows, "{\"t\"", 4) == 0;
		struct err err = ERR_INIT;
		_cleanup_free_ char *text = NULL;

		if (asprintf(&text, "{\"name\":\"x\"," CONF ",\"events\":[%s],\"expect\":[%s]}",
			    with_job ? "{\"t\":0,\"do\":\"sbatch -N1 --wrap \\\"sleep 10\\\"\","
				       "\"out\":\"Submitted batch job 1\"}"
				     : "",
			    rows[i].rows) < 0)
			fail();
		if (replay_text(text, &differences, &err) < 0)
			fail_msg("row %zu: %s", i, err.text);
		if (differences != rows[i].differences)
			fail_msg("row %zu has %zu differences, not %zu: %s", i, differences,
				rows[i].differences, rows[i].rows);
	}
}

static void test_timeline(void **state)
{
	static const char text[] =
		"{\"name\":\"x\"," CONF ",\"events\":["
		"{\"t\":1,\"do\":\"sbatch --wrap \\\"sleep 10\\\"\",\"out\":"
		"\"Submitted batch job 7\"},"
		"{\"t\":2,\"do\":\"salloc -N3\",\"out\":\"Granted job allocation 8\"}],"
		"\"expect\":[],\"timeline\":[[1.5,\"7\",\"PD\",\"(None)\"],[3.5,\"7\",\"R\",\"n1\"],"
		"[12,\"7\",\"gone\",\"\"],[20,\"7\",\"R\",\"n1\"],[3,\"9\",\"R\",\"n1\"]]}";
	struct err err = ERR_INIT;
	size_t differences;

	(void)state;
	assert_int_equal(replay_text(text, &differences, &err), 0);
	/* the allocation that is refused here, job 7 at 20 s, and job 9 */
	assert_int_equal(differences, 3);
}

/* Job 1 runs on n1 from 0 to 10 s, and is gone then. Each state of one side within 3 s on the other
 * is equal, and no other. */
static void test_tolerance(void **state)
{
	static const struct {
		const char *jobs, *timeline;
		size_t differences;
	} rows[] = {
		/* one of ours, before and after it */
		{"{\"t\":12.5,\"jobs\":{\"1\":[\"R\",\"n1\",\"0:10\"]}}", "", 0},
		{"{\"t\":13.25,\"jobs\":{\"1\":[\"R\",\"n1\",\"0:10\"]}}", "", 1},
		{"{\"t\":7.25,\"jobs\":{}}", "", 0},
		{"{\"t\":6.5,\"jobs\":{}}", "", 1},
		/* a state that ours has not: ours is recorded soon, or was until lately */
		{"{\"t\":2,\"jobs\":{\"1\":[\"PD\",\"(Priority)\",\"0:00\"]}}",
			"[4.75,\"1\",\"R\",\"n1\"]", 0},
		{"{\"t\":2,\"jobs\":{\"1\":[\"PD\",\"(Priority)\",\"0:00\"]}}",
			"[5.25,\"1\",\"R\",\"n1\"]", 1},
		{"{\"t\":9,\"jobs\":{\"1\":[\"CG\",\"n1\",\"0:09\"]}}",
			"[1,\"1\",\"R\",\"n1\"],[6.5,\"1\",\"CG\",\"n1\"],[8.5,\"1\",\"gone\",\"\"]",
			0},
		{"{\"t\":5,\"jobs\":{\"1\":[\"S\",\"n1\",\"0:05\"]}},"
		 "{\"t\":7,\"jobs\":{\"1\":[\"R\",\"n1\",\"0:05\"]}}",
			"", 0},
		/* how long it has run is no other state */
		{"{\"t\":5,\"jobs\":{\"1\":[\"R\",\"n1\",\"0:12\"]}}",
			"[1,\"1\",\"R\",\"n1\"],[12,\"1\",\"gone\",\"\"]", 1},
		/* it ends later, and sooner */
		{"", "[1,\"1\",\"R\",\"n1\"],[12.75,\"1\",\"gone\",\"\"]", 0},
		{"", "[1,\"1\",\"R\",\"n1\"],[13.25,\"1\",\"gone\",\"\"]", 1},
		{"",
			"[1,\"1\",\"R\",\"n1\"],[7.25,\"1\",\"gone\",\"\"],"
			"[20,\"1\",\"gone\",\"\"]",
			0},
		{"",
			"[1,\"1\",\"R\",\"n1\"],[6.5,\"1\",\"gone\",\"\"],"
			"[20,\"1\",\"gone\",\"\"]",
			1},
		/* it starts later; one that passes in 3 s need not come, a longer one must */
		{"",
			"[0.5,\"1\",\"PD\",\"(Priority)\"],[3.25,\"1\",\"R\",\"n1\"],"
			"[12,\"1\",\"gone\",\"\"]",
			0},
		{"",
			"[0.5,\"1\",\"PD\",\"(Priority)\"],[4,\"1\",\"R\",\"n1\"],"
			"[12,\"1\",\"gone\",\"\"]",
			1},
		{"",
			"[1,\"1\",\"R\",\"n1\"],[5,\"1\",\"S\",\"n1\"],"
			"[7.5,\"1\",\"R\",\"n1\"],[12,\"1\",\"gone\",\"\"]",
			0},
		{"",
			"[1,\"1\",\"R\",\"n1\"],[5,\"1\",\"S\",\"n1\"],"
			"[8.5,\"1\",\"R\",\"n1\"],[12,\"1\",\"gone\",\"\"]",
			1},
		/* a last state that never comes, other nodes, another order */
		{"", "[1,\"1\",\"R\",\"n1\"],[9,\"1\",\"S\",\"n1\"]", 1},
		{"", "[1,\"1\",\"R\",\"n2\"],[12,\"1\",\"gone\",\"\"]", 1},
		{"", "[1,\"1\",\"R\",\"n1\"],[1e300,\"1\",\"gone\",\"\"]", 1},
		{"",
			"[1,\"1\",\"gone\",\"\"],[5,\"1\",\"R\",\"n1\"],"
			"[12,\"1\",\"gone\",\"\"]",
			1},
	};
	size_t i, differences;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = ERR_INIT;
		_cleanup_free_ char *text = NULL;

		if (asprintf(&text,
			    "{\"name\":\"x\"," CONF
			    ",\"events\":[{\"t\":0,\"do\":\"sbatch -N1 --wrap \\\"sleep 10\\\"\","
			    "\"out\":\"Submitted batch job 1\"}],\"expect\":[%s],"
			    "\"timeline\":[%s]}",
			    rows[i].jobs, rows[i].timeline) < 0)
			fail();
		if (replay_text(text, &differences, &err) < 0)
			fail_msg("row %zu: %s", i, err.text);
		if (differences != rows[i].differences)
			fail_msg("row %zu has %zu differences, not %zu: %s %s", i, differences,
				rows[i].differences, rows[i].jobs, rows[i].timeline);
	}
}

static void test_unreadable(void **state)
{
	static const char *const texts[] = {
		"",
		"[]",
		"{\"name\":\"x\"}",
		"{\"conf\":{\"SelectType\":\"select/none\"},\"events\":[],\"expect\":[]}",
		"{\"conf\":{\"nodes\":[1]},\"events\":[],\"expect\":[]}",
		"{\"conf\":{\"nodes\":[\"n1 CPUs=x\"]},\"events\":[],\"expect\":[]}",
		"{" CONF ",\"events\":[{\"t\":0}],\"expect\":[]}",
		"{" CONF ",\"events\":[{\"t\":0,\"do\":\"rm -rf /\"}],\"expect\":[]}",
		"{" CONF ",\"events\":[{\"t\":0,\"do\":\"scontrol create reservation x\"}],"
		"\"expect\":[]}",
		"{" CONF ",\"events\":[{\"t\":0,\"do\":\"scontrol hold 5\"}],\"expect\":[]}",
		"{" CONF ",\"events\":[{\"t\":0,\"do\":\"sbatch \\\"\"}],\"expect\":[]}",
		"{" CONF ",\"events\":[],\"expect\":[{\"t\":1,\"weather\":\"fine\"}]}",
		"{" CONF ",\"events\":[],\"expect\":[{\"t\":1e300,\"jobs\":{}}]}",
		"{" CONF ",\"events\":[],\"expect\":[7]}",
		"{" CONF ",\"events\":[],\"expect\":[{\"t\":1,\"prints\":\"squeue -l\"}]}",
		"{" CONF ",\"events\":[],\"expect\":[{\"t\":1,\"prints\":\"ls\"}]}",
		"{" CONF ",\"events\":[],\"expect\":[{\"busy\":\"1\"}]}",
		"{" CONF ",\"events\":[],\"expect\":[{\"pattern\":\"P\",\"low\":[[1,\"n1\"]]}]}",
	};
	size_t i, differences;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		struct err err = ERR_INIT;

		if (replay_text(texts[i], &differences, &err) >= 0)
			fail_msg("text %zu is taken: %s", i, texts[i]);
		assert_true(strstr(err.text, "case.json: ") != NULL);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_line),
		cmocka_unit_test(test_cores),
		cmocka_unit_test(test_reservations),
		cmocka_unit_test(test_backfill),
		cmocka_unit_test(test_examples),
		cmocka_unit_test(test_guide),
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_candidates),
		cmocka_unit_test(test_gang),
		cmocka_unit_test(test_components),
		cmocka_unit_test(test_differences),
		cmocka_unit_test(test_timeline),
		cmocka_unit_test(test_tolerance),
		cmocka_unit_test(test_unreadable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
