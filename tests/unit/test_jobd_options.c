/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "contrib/jobd/cli/options.h"
#include "contrib/jobd/cli/values.h"

#define NOW 1795453962 /* Monday 2026-11-23T17:12:42 in UTC */

struct fixture {
	struct strv words;
	struct options options;
	struct err err;
	int r;
};

static void fixture_clear(struct fixture *f)
{
	strv_clear(&f->words);
	if (f->r == 0)
		options_clear(&f->options);
}
#define _cleanup_fixture_ _cleanup_(fixture_clear)

/* line: the words of a command line, quoted as sbatch's own lines are. */
static struct fixture parse(
	enum options_command command, const char *line, char *const *env, const char *script)
{
	struct fixture f = {0};
	struct options_input input = {.command = command, .env = env, .script = script, .now = NOW};

	assert_int_equal(options_split(line, &f.words, &f.err), 0);
	input.argc = (int)f.words.n;
	input.argv = f.words.v;
	f.r = options_parse(&f.options, &input, &f.err);
	return f;
}

static struct fixture sbatch(const char *line)
{
	return parse(OPTIONS_SBATCH, line, NULL, NULL);
}

static void test_resources(void **state)
{
	_cleanup_fixture_ struct fixture f = sbatch(
		"sbatch -N2-4 -n 8 -c2 --ntasks-per-node=3 --mincpus=5 --mem=2G -t 1:30:00 "
		"-w n[1-2] -x n7 -C a&b --contiguous --exclusive -p hi -q top -J name s.sh -N 9");
	const struct job_request *q = &f.options.request;

	(void)state;
	assert_int_equal(f.r, 0);
	assert_int_equal(q->min_nodes, 2);
	assert_int_equal(q->max_nodes, 4);
	assert_int_equal(q->ntasks, 8);
	assert_int_equal(q->cpus_per_task, 2);
	assert_int_equal(q->ntasks_per_node, 3);
	assert_int_equal(q->min_cpus_per_node, 5);
	assert_true(q->memory_mb == 2048);
	assert_int_equal(q->time_limit_min, 90);
	assert_string_equal(q->nodelist, "n[1-2]");
	assert_string_equal(q->exclude, "n7");
	assert_string_equal(q->features, "a&b");
	assert_true(q->contiguous && q->exclusive && !q->oversubscribe);
	assert_string_equal(q->partition, "hi");
	assert_string_equal(q->qos, "top");
	assert_string_equal(q->name, "name");
	assert_int_equal(f.options.rest.n, 3);
	assert_string_equal(f.options.rest.v[2], "9"); /* the script's own arguments */
}

static void test_others(void **state)
{
	_cleanup_fixture_ struct fixture f = sbatch(
		"sbatch -s -H --no-requeue -d after:1_4+90,afterok:2,afternotok:3_*,singleton -a 0-9:3%2 -D /x "
		"-i in -o out -e err --open-mode=append --priority 7 --comment 'a b' --export=NONE "
		"--reservation r --mem-per-cpu 100 --wrap 'echo hi' -Q --parsable --test-only -W");
	const struct job_request *q = &f.options.request;

	(void)state;
	assert_int_equal(f.r, 0);
	assert_true(q->oversubscribe && !q->exclusive && q->hold && q->singleton && q->append);
	assert_int_equal(q->requeue, 0);
	assert_int_equal(q->dependencies_count, 3);
	assert_int_equal(q->dependencies[0].kind, DEPENDS_AFTER);
	assert_int_equal(q->dependencies[0].task_id, 4);
	assert_int_equal(q->dependencies[0].delay_min, 90);
	assert_int_equal(q->dependencies[1].kind, DEPENDS_AFTER_OK);
	assert_int_equal(q->dependencies[1].task_id, NO_VAL);
	assert_int_equal(q->dependencies[1].job_id, 2);
	assert_int_equal(q->dependencies[2].kind, DEPENDS_AFTER_NOT_OK);
	assert_false(q->dependencies_any);
	assert_string_equal(q->array, "0-9:3%2");
	assert_string_equal(q->work_dir, "/x");
	assert_string_equal(q->stdin_file, "in");
	assert_string_equal(q->stdout_file, "out");
	assert_string_equal(q->stderr_file, "err");
	assert_int_equal(q->priority, 7);
	assert_string_equal(q->comment, "a b");
	assert_string_equal(q->reservation, "r");
	assert_true(q->memory_mb == (100 | MEM_PER_CPU));
	assert_string_equal(f.options.wrap, "echo hi");
	assert_string_equal(f.options.export_names, "NONE");
	assert_true(f.options.quiet && f.options.parsable && f.options.test_only && f.options.wait);
}

/* Of two for one thing the last counts: a script's line, the environment, the command line. */
static void test_sources(void **state)
{
	static const char script[] = "#!/bin/sh\n"
				     "#SBATCH -N 3 -J lines # a comment\n"
				     "# another\n"
				     "\n"
				     "#SBATCHX -N 7\n"
				     " #SBATCH -N 8\n"
				     "#SBATCH\t--partition=low --mem 5 --comment=\"a 'b'\"\n"
				     "#SBATCH -d afterok:1\n"
				     "echo\n"
				     "#SBATCH -N 9\n";
	char *env[] = {(char *)"SBATCH_PARTITION=env", (char *)"SBATCH_JOB_NAME=env",
		(char *)"SBATCH_EXCLUSIVE=0", (char *)"SBATCH_REQUEUE=1",
		(char *)"SBATCH_QOS=", (char *)"SALLOC_QOS=x", (char *)"SBATCH_PARTITIONS=y", NULL};
	_cleanup_fixture_ struct fixture f = parse(OPTIONS_SBATCH,
		"sbatch -p line --mem-per-cpu=6 -d afterany:2?afterany:3 s.sh", env, script);
	const struct job_request *q = &f.options.request;

	(void)state;
	assert_int_equal(f.r, 0);
	assert_int_equal(q->min_nodes, 3);
	assert_string_equal(q->name, "env");
	assert_string_equal(q->partition, "line");
	assert_string_equal(q->comment, "a 'b'");
	assert_true(q->memory_mb == (6 | MEM_PER_CPU));
	assert_int_equal(q->requeue, 1);
	assert_false(q->exclusive);
	assert_null(q->qos);
	assert_int_equal(q->dependencies_count, 2);
	assert_int_equal(q->dependencies[0].job_id, 2);
	assert_true(q->dependencies_any);
}

static void test_salloc(void **state)
{
	char *env[] = {(char *)"SALLOC_QOS=x", (char *)"SALLOC_ARRAY_INX=1", NULL};
	_cleanup_fixture_ struct fixture f =
		parse(OPTIONS_SALLOC, "salloc -N1 --no-shell", env, NULL);
	_cleanup_fixture_ struct fixture array = parse(OPTIONS_SALLOC, "salloc -a 1-2", NULL, NULL);
	_cleanup_fixture_ struct fixture command =
		parse(OPTIONS_SALLOC, "salloc -n2 steprun -n 2 true", NULL, NULL);

	(void)state;
	assert_int_equal(f.r, 0);
	assert_true(f.options.no_shell);
	assert_string_equal(f.options.request.qos, "x");
	assert_int_equal(array.r, -EINVAL);
	assert_int_equal(command.r, 0);
	assert_int_equal(command.options.rest.n, 4);
	assert_int_equal(command.options.request.ntasks, 2);
}

/* What chooses nodes and cores, of the command line, a script and the environment. */
static void test_placement(void **state)
{
	char *env[] = {(char *)"SBATCH_DISTRIBUTION=block:cyclic", (char *)"SBATCH_SPREAD_JOB=1",
		(char *)"SBATCH_USE_MIN_NODES=no", NULL};
	_cleanup_fixture_ struct fixture f =
		sbatch("sbatch -n8 --ntasks-per-socket=2 --ntasks-per-core 1 -m Plane=2:Block "
		       "--spread-job --use-min-nodes s.sh");
	_cleanup_fixture_ struct fixture script =
		parse(OPTIONS_SBATCH, "sbatch --ntasks-per-socket=3", env,
			"#!/bin/sh\n#SBATCH -m cyclic --ntasks-per-socket=2\n"
			"#SBATCH --ntasks-per-core=4\n");
	_cleanup_fixture_ struct fixture parts =
		sbatch("sbatch -m cyclic:block:block,NoPack -m block,Pack s.sh");
	_cleanup_fixture_ struct fixture arbitrary = sbatch("sbatch -m cyclic -m Arbitrary s.sh");
	const struct job_request *q = &f.options.request;

	(void)state;
	assert_int_equal(f.r, 0);
	assert_int_equal(f.options.notes.n, 0);
	assert_int_equal(q->ntasks_per_socket, 2);
	assert_int_equal(q->ntasks_per_core, 1);
	assert_string_equal(q->distribution, "plane=2:block");
	assert_true(q->spread_job && q->use_min_nodes);
	q = &script.options.request;
	assert_int_equal(script.r, 0);
	assert_int_equal(q->ntasks_per_socket, 3);
	assert_int_equal(q->ntasks_per_core, 4);
	assert_string_equal(q->distribution, "block:cyclic");
	assert_true(q->spread_job && !q->use_min_nodes);
	assert_int_equal(parts.r, 0);
	assert_string_equal(parts.options.request.distribution, "block");
	assert_int_equal(parts.options.notes.n, 2);
	assert_non_null(strstr(parts.options.notes.v[0], "':block,NoPack'"));
	assert_non_null(strstr(parts.options.notes.v[1], "',Pack'"));
	assert_int_equal(arbitrary.r, 0);
	assert_null(arbitrary.options.request.distribution);
	assert_int_equal(arbitrary.options.notes.n, 1);
}

static void test_ignored(void **state)
{
	_cleanup_fixture_ struct fixture f =
		sbatch("sbatch --nice=10 --nice -A acc --mail-type=END -k --time-min=5 -vv s.sh");
	size_t i;

	(void)state;
	assert_int_equal(f.r, 0);
	assert_int_equal(f.options.notes.n, 8);
	for (i = 0; i < f.options.notes.n; i++)
		assert_non_null(strstr(f.options.notes.v[i], ", ignoring"));
	assert_int_equal(f.options.rest.n, 1);
}

static void test_errors(void **state)
{
	static const struct {
		const char *line, *named;
	} rows[] = {
		{"sbatch --foo", "--foo"},
		{"sbatch --partitio", ""}, /* short for one: fine but for its value */
		{"sbatch -N x", "--nodes: 'x'"},
		{"sbatch -N 4-2", "4-2"},
		{"sbatch -N 0", "--nodes"},
		{"sbatch -N 1-", "1-"},
		{"sbatch -n -1", "--ntasks"},
		{"sbatch --ntasks-per-socket=0", "--ntasks-per-socket"},
		{"sbatch --ntasks-per-core=x", "--ntasks-per-core"},
		{"sbatch -m", "--distribution"},
		{"sbatch -m ''", "--distribution"},
		{"sbatch -m plane", "--distribution: 'plane'"},
		{"sbatch -m block:x", "--distribution: 'block:x'"},
		{"sbatch -n 99999999999", "--ntasks"},
		{"sbatch --mem=x", "--mem"},
		{"sbatch --mem=-1", "--mem"},
		{"sbatch --mem-per-cpu=1X", "--mem-per-cpu"},
		{"sbatch -t 1:", "--time"},
		{"sbatch -t 1:2:3:4", "--time"},
		{"sbatch -b foo", "--begin"},
		{"sbatch -d foo:1", "--dependency"},
		{"sbatch -d afterok", "--dependency"},
		{"sbatch -d afterok:x", "--dependency"},
		{"sbatch -d afterok:1:", "--dependency"},
		{"sbatch -d afterok:1,afterok:2?afterok:3", "--dependency"},
		{"sbatch -d singleton:1", "--dependency"},
		{"sbatch -d afterok:12_x", "is not a task of an array"},
		{"sbatch -d afterok:12_3_4", "is not a task of an array"},
		{"sbatch -d afterok:12+5", "after:ID+MINUTES"},
		{"sbatch -d after:12+x", "number of minutes"},
		{"sbatch -a x", "--array"},
		{"sbatch -a 3-1", "--array"},
		{"sbatch -a 1-3:0", "--array"},
		{"sbatch -a 1%0", "--array"},
		{"sbatch -a 1,", "--array"},
		{"sbatch -w n[1-", "--nodelist"},
		{"sbatch -w ./file", "--nodelist"},
		{"sbatch --gres=gpu:1", "--gres"},
		{"sbatch -G 2", "--gpus"},
		{"sbatch --exclusive=user", "--exclusive"},
		{"sbatch --open-mode=x", "--open-mode"},
		{"sbatch --priority=TOP", "--priority"},
		{"sbatch -p ''", "--partition"},
		{"sbatch --wrap true s.sh", "s.sh"},
		{"sbatch --no-shell", "--no-shell"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_fixture_ struct fixture f = sbatch(rows[i].line);

		if (f.r == 0)
			fail_msg("%s is taken", rows[i].line);
		if (!strstr(f.err.text, rows[i].named))
			fail_msg("%s: %s", rows[i].line, f.err.text);
	}
}

static void test_script_errors(void **state)
{
	static const struct {
		const char *script, *named;
	} rows[] = {
		{"#!/bin/sh\n#SBATCH foo\n", "line 2 of the script: 'foo'"},
		{"#!/bin/sh\n\n#SBATCH -N x\n", "line 3"},
		{"#!/bin/sh\n#SBATCH -J \"a\n", "line 2"},
		{"#SBATCH --foo", "line 1"},
		{"#SBATCH --qos\n", "--qos needs a value"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_fixture_ struct fixture f =
			parse(OPTIONS_SBATCH, "sbatch s.sh", NULL, rows[i].script);

		assert_int_equal(f.r, -EINVAL);
		if (!strstr(f.err.text, rows[i].named))
			fail_msg("%s: %s", rows[i].script, f.err.text);
	}
}

/* As sbatch of Slurm 22.05 took them. */
static void test_words(void **state)
{
	static const struct {
		const char *line, *words;
	} rows[] = {
		{"a b", "a|b"},
		{"  a\t b  ", "a|b"},
		{"a#b c", "a"},
		{"a #b", "a"},
		{"\"x y\"", "x y"},
		{"\"x\\\"y\"", "x\"y"},
		{"'x\\y'", "xy"},
		{"\"a\"b", "ab"},
		{"a\"b c\"d", "ab cd"},
		{"\"a#b\"", "a#b"},
		{"x\\\"y", "x\"y"},
		{"a\\\\b", "a\\b"},
		{"a '' b", "a||b"},
		{"", ""},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_strv_ struct strv words = {0};
		struct err err = ERR_INIT;
		_cleanup_free_ char *all = NULL;

		assert_int_equal(options_split(rows[i].line, &words, &err), 0);
		all = strv_join(words.v, '|');
		assert_non_null(all);
		assert_string_equal(all, rows[i].words);
	}
}

static void test_limits(void **state)
{
	static const struct {
		const char *text;
		uint32_t minutes;
	} rows[] = {{"30", 30}, {"1:01", 2}, {"0:59", 1}, {"2:00:00", 120}, {"1-12", 2160},
		{"1-0:30", 1470}, {"1-01:02:03", 1503}, {"0", INFINITE}, {"UNLIMITED", INFINITE},
		{"infinite", INFINITE}, {"-1", INFINITE}};
	uint32_t minutes = 0;
	struct err err = ERR_INIT;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(value_parse_limit(rows[i].text, &minutes, &err), 0);
		assert_int_equal(minutes, rows[i].minutes);
	}
}

static void test_memory(void **state)
{
	static const struct {
		const char *text;
		uint64_t mb;
	} rows[] = {{"0", 0}, {"512", 512}, {"1K", 1}, {"1025k", 2}, {"3m", 3}, {"3MB", 3},
		{"2G", 2048}, {"1T", 1u << 20}, {"1.5G", 1536}};
	uint64_t mb = 0;
	struct err err = ERR_INIT;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(value_parse_memory(rows[i].text, &mb, &err), 0);
		assert_true(mb == rows[i].mb);
	}
}

static void test_begin(void **state)
{
	static const struct {
		const char *text;
		time_t time;
	} rows[] = {
		{"now", NOW},
		{"now+10", NOW + 10},
		{"now+1minute", NOW + 60},
		{"now+2hours", NOW + 7200},
		{"now+1day", NOW + 86400},
		{"now+2w", NOW + 14 * 86400},
		{"18:00", NOW + 47 * 60 + 18},
		{"17:12", NOW + 86400 - 42}, /* has passed: tomorrow */
		{"6:00PM", NOW + 47 * 60 + 18},
		{"18:00:05", NOW + 47 * 60 + 23},
		{"midnight", NOW + 24438},
		{"noon", NOW + 24438 + 12 * 3600},
		{"tomorrow", NOW + 24438},
		{"2026-11-24", NOW + 24438},
		{"2026-11-24T01:02", NOW + 24438 + 3720},
		{"2026-11-24T01:02:03", NOW + 24438 + 3723},
		{"11/24/26", NOW + 24438},
		{"11/24", NOW + 24438},
		{"112426", NOW + 24438},
		{"11/24/26-01:02", NOW + 24438 + 3720},
	};
	static const char *const wrong[] = {"", "now+", "now-1", "now+1fortnight", "nowhere",
		"25:00", "12:60", "1:2", "13:00PM", "2026-13-01", "2026-02-30", "2026-1-1",
		"20261124", "11/24/", "11/2x", "1124", "2026-11-24T", "2026-11-24T25:00", "12:00x"};
	struct err err = ERR_INIT;
	time_t time = 0;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (value_parse_begin(rows[i].text, NOW, &time, &err) < 0 || time != rows[i].time)
			fail_msg("%s: %lld in place of %lld", rows[i].text, (long long)time,
				(long long)rows[i].time);
	}
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		if (value_parse_begin(wrong[i], NOW, &time, &err) == 0)
			fail_msg("%s is taken for %lld", wrong[i], (long long)time);
	}
}

static void test_export(void **state)
{
	char *env[] = {(char *)"A=1", (char *)"B=2", (char *)"SLURM_X=3", NULL};
	static const struct {
		const char *names, *exported;
	} rows[] = {
		{NULL, "SLURM_X=3|A=1|B=2"},
		{"ALL", "SLURM_X=3|A=1|B=2"},
		{"NONE", "SLURM_X=3"},
		{"NIL", ""},
		{"A", "SLURM_X=3|A=1"},
		{"A,C=4", "SLURM_X=3|A=1|C=4"},
		{"ALL,A='x,y'", "SLURM_X=3|A=x,y|B=2"},
		{"MISSING,", "SLURM_X=3"},
	};
	size_t i, k;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_free_ char *all = NULL;
		char **made = NULL;
		struct err err = ERR_INIT;

		assert_int_equal(options_export(rows[i].names, env, &made, &err), 0);
		all = strv_join(made, '|');
		for (k = 0; made[k]; k++)
			free(made[k]);
		free(made);
		assert_non_null(all);
		assert_string_equal(all, rows[i].exported);
	}
}

/* ---- components --------------------------------------------------------------------------------
 */

static void test_components(void **state)
{
	char *const env[] = {(char *)"SBATCH_QOS=low", NULL};
	_cleanup_fixture_ struct fixture f = parse(OPTIONS_SBATCH,
		"sbatch -n 4 -p a : -N2 -Jx : s.sh : -N 9", env,
		"#!/bin/sh\n#SBATCH -c 2\n#SBATCH hetjob\n#SBATCH -c 3 -N1\n#SBATCH  packjob \n"
		"#SBATCH -t 5\n#SBATCH hetjob\nls\n#SBATCH hetjob\n");
	const struct job_request *q = f.options.components;

	(void)state;
	if (f.r < 0)
		fail_msg("%s", f.err.text);
	assert_int_equal(f.options.components_count, 3);
	assert_int_equal(f.options.request.ntasks, 4);
	assert_int_equal(f.options.request.cpus_per_task, 2);
	assert_int_equal(q[0].cpus_per_task, 3);
	assert_int_equal(q[0].min_nodes, 2); /* the command line counts */
	assert_int_equal(q[0].ntasks, NO_VAL);
	assert_string_equal(q[0].name, "x");
	assert_null(q[0].partition);
	assert_string_equal(q[0].qos, "low");
	assert_int_equal(q[1].time_limit_min, 5);
	assert_null(q[1].name);
	assert_string_equal(q[2].qos, "low");
	assert_int_equal(f.options.rest.n, 4); /* the script has a ":" of its own */
	assert_string_equal(f.options.rest.v[1], ":");
}

static void test_component_words(void **state)
{
	static const struct {
		const char *line, *why;
		size_t components;
	} rows[] = {
		{"sbatch --wrap x : -N2", NULL, 1},
		{"sbatch : -N2 --wrap=x", NULL, 1},
		{"sbatch -N1 : s.sh x", NULL, 1},
		{"sbatch -N1 : --nodes=x s.sh", "component 1: ", 0},
		{"sbatch -N1 : -N1 --wrap x s.sh", "--wrap replaces the script", 0},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_fixture_ struct fixture f = sbatch(rows[i].line);

		assert_int_equal(f.r < 0, rows[i].why != NULL);
		if (f.r < 0)
			assert_non_null(strstr(f.err.text, rows[i].why));
		else
			assert_int_equal(f.options.components_count, rows[i].components);
	}
}

/* Each row can be printed, and two rows of a command share no letter. */
static void test_table(void **state)
{
	_cleanup_free_ char *text = NULL;
	char mark[8];
	size_t size;
	FILE *f;
	int c, command;

	(void)state;
	for (command = 0; command < OPTIONS_COMMAND_MAX; command++) {
		const char *first;

		free(text);
		text = NULL;
		f = open_memstream(&text, &size);
		assert_non_null(f);
		options_print((enum options_command)command, f);
		assert_int_equal(fclose(f), 0);
		for (c = 'A'; c <= 'z'; c++) {
			(void)snprintf(mark, sizeof(mark), "\n  -%c,", c);
			first = strstr(text, mark);
			assert_true(!first || !strstr(first + 1, mark));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resources),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_sources),
		cmocka_unit_test(test_salloc),
		cmocka_unit_test(test_placement),
		cmocka_unit_test(test_ignored),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_script_errors),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_begin),
		cmocka_unit_test(test_export),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_components),
		cmocka_unit_test(test_component_words),
	};

	if (setenv("TZ", "UTC", 1) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
