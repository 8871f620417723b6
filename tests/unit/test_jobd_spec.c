/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The document of a job's step on a node: numbers of CPUs and tasks, names of files, the CPUs of
 * the machine, memory, and texts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "contrib/jobd/run/run_impl.h"
#include "stepd/api/bitstring.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "tests/lib/scratch.h"

#define NODES_MAX 4u
#define CPUS_MAX  128u

#define AGENT_RESUMES_MS 5000 /* TAKE_BACK_MS of stepd/step/requests.c */

/* A job that has all nodes, on a machine whose CPUs have their own numbers. */
struct rig {
	struct run run;
	struct job job;
	struct run_job run_job;
	job_resources_t resources;
	node_record_t nodes[NODES_MAX];
	struct agent agents[NODES_MAX], *list[NODES_MAX];
	uint16_t cpus[NODES_MAX];
	uint64_t memory[NODES_MAX];
	uint32_t machine[CPUS_MAX];
};

static void rig_init(struct rig *g, uint32_t nodes, uint32_t cores, uint32_t threads)
{
	static const char *const names[NODES_MAX] = {"n1", "n2", "n3", "n4"};
	uint32_t i;

	memset(g, 0, sizeof(*g));
	request_init(&g->job.request);
	g->job.request.script = (char *)"#!/bin/sh\n";
	g->job.record.job_id = 12;
	g->job.record.array_task_id = NO_VAL;
	g->job.record.node_cnt = nodes;
	g->job.record.job_resrcs = &g->resources;
	g->resources.nhosts = nodes;
	g->resources.cpus = g->cpus;
	g->resources.core_bitmap = bit_alloc((bitoff_t)nodes * cores);
	g->resources.node_bitmap = bit_alloc((bitoff_t)nodes);
	bit_set_all(g->resources.node_bitmap);
	g->run_job =
		(struct run_job){.run = &g->run, .job = &g->job, .agents = g->list, .count = nodes};
	g->job.runner_data = &g->run_job;
	for (i = 0; i < nodes; i++) {
		g->nodes[i].name = (char *)names[i];
		g->nodes[i].index = i;
		g->nodes[i].tot_cores = (uint16_t)cores;
		g->nodes[i].threads = (uint16_t)threads;
		g->nodes[i].core_offset = i * cores;
		g->agents[i] =
			(struct agent){.job = &g->run_job, .node = &g->nodes[i], .batch = i == 0};
		g->list[i] = &g->agents[i];
	}
	node_record_table_ptr = g->nodes;
	node_record_count = (int)nodes;
	for (i = 0; i < CPUS_MAX; i++)
		g->machine[i] = i;
	g->run.host = (char *)"here";
	g->run.cpus = g->machine;
}

static void rig_clear(struct rig *g)
{
	bit_free(g->resources.core_bitmap);
	bit_free(g->resources.node_bitmap);
	node_record_table_ptr = NULL;
	node_record_count = 0;
	slurm_conf.select_type_param = 0;
}

static void use_core(struct rig *g, uint32_t node, uint32_t core)
{
	bit_set(g->resources.core_bitmap, (bitoff_t)g->nodes[node].core_offset + core);
}

static json_t *make(const struct rig *g, uint32_t node)
{
	struct err err = ERR_INIT;
	json_t *doc = spec_make(&g->agents[node], &err);

	if (!doc)
		fail_msg("%s", err.text);
	return doc;
}

static void assert_member(const json_t *json, const char *name, const char *wanted)
{
	const char *got = json_get_text(json, name, NULL);

	if (wanted ? !got || strcmp(got, wanted) != 0 : got != NULL)
		fail_msg("%s is %s, not %s", name, got ? got : "missing",
			wanted ? wanted : "missing");
}

/* ---- numbers -----------------------------------------------------------------------------------
 */

static void test_counts(void **state)
{
	static const struct {
		uint16_t cpus[3];
		uint32_t ntasks, cpus_per_task, ntasks_per_node;
		const char *job_cpus, *tasks_per_node, *tasks;
	} rows[] = {
		{{4, 4, 8}, NO_VAL, NO_VAL, NO_VAL, "4(x2),8", "4(x2),8", "3"},
		{{2, 3, 3}, NO_VAL, NO_VAL, NO_VAL, "2,3(x2)", "2,3(x2)", "3"},
		{{1, 1, 1}, NO_VAL, NO_VAL, NO_VAL, "1(x3)", "1(x3)", "3"},
		{{1, 2, 1}, NO_VAL, NO_VAL, NO_VAL, "1,2,1", "1,2,1", "3"},
		/* in blocks, and one at least */
		{{4, 4, 8}, 5, NO_VAL, NO_VAL, "4(x2),8", "3,1(x2)", "5"},
		{{4, 4, 8}, 8, NO_VAL, NO_VAL, "4(x2),8", "4,3,1", "8"},
		{{4, 4, 8}, 16, 1, NO_VAL, "4(x2),8", "4(x2),8", "16"},
		{{4, 4, 8}, 2, NO_VAL, NO_VAL, "4(x2),8", "1(x3)", "2"},
		{{4, 4, 8}, NO_VAL, 2, NO_VAL, "4(x2),8", "2(x2),4", "3"},
		{{4, 4, 8}, NO_VAL, 16, NO_VAL, "4(x2),8", "1(x3)", "3"},
		{{4, 4, 8}, 6, NO_VAL, 2, "4(x2),8", "2(x3)", "6"},
		{{4, 4, 8}, 5, NO_VAL, 2, "4(x2),8", "2(x2),1", "5"},
		{{4, 4, 8}, NO_VAL, NO_VAL, 2, "4(x2),8", "2(x3)", "6"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		json_auto_t *doc = NULL;
		const json_t *env;
		struct rig g;

		rig_init(&g, 3, 8, 1);
		memcpy(g.cpus, rows[i].cpus, sizeof(rows[i].cpus));
		g.job.request.ntasks = rows[i].ntasks;
		g.job.request.cpus_per_task = rows[i].cpus_per_task;
		g.job.request.ntasks_per_node = rows[i].ntasks_per_node;
		doc = make(&g, 0);
		env = json_get_object(doc, "env");
		assert_member(env, "SLURM_JOB_CPUS_PER_NODE", rows[i].job_cpus);
		assert_member(env, "SLURM_TASKS_PER_NODE", rows[i].tasks_per_node);
		assert_member(env, "SLURM_NTASKS", rows[i].tasks);
		assert_member(env, "SLURM_NPROCS", rows[i].tasks);
		rig_clear(&g);
	}
}

/* How the job's tasks are distributed over its nodes, as srun learns it. */
static void test_distribution(void **state)
{
	static const struct {
		uint16_t cpus[3];
		uint32_t ntasks, per_socket;
		uint32_t dist;
		uint16_t plane;
		const char *text, *variable, *planesize, *tasks_per_node;
	} rows[] = {
		{{4, 4, 8}, 5, NO_VAL, 0, 0, NULL, NULL, NULL, "3,1(x2)"},
		{{4, 4, 8}, 5, NO_VAL, SLURM_DIST_BLOCK, 0, "block", "block", NULL, "3,1(x2)"},
		{{4, 4, 8}, 5, NO_VAL, SLURM_DIST_CYCLIC, 0, "cyclic", "cyclic", NULL, "2(x2),1"},
		{{1, 4, 8}, 7, NO_VAL, SLURM_DIST_CYCLIC | SLURM_DIST_SOCKBLOCK, 0, "cyclic:block",
			"cyclic:block", NULL, "1,3(x2)"},
		{{8, 8, 8}, 9, NO_VAL, SLURM_DIST_PLANE, 2, "plane=2", "plane", "2", "4,3,2"},
		{{8, 8, 8}, 2, NO_VAL, SLURM_DIST_PLANE, 4, "plane=4", "plane", "4", "2,1(x2)"},
		{{8, 8, 8}, NO_VAL, NO_VAL, SLURM_DIST_CYCLIC, 0, "cyclic", "cyclic", NULL,
			"8(x3)"},
		{{8, 8, 8}, 8, 2, 0, 0, NULL, NULL, NULL, "4,3,1"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		json_auto_t *doc = NULL;
		const json_t *env;
		struct rig g;
		uint32_t n;

		rig_init(&g, 3, 8, 1);
		memcpy(g.cpus, rows[i].cpus, sizeof(rows[i].cpus));
		for (n = 0; n < 3; n++)
			g.nodes[n].tot_sockets = 2;
		g.job.request.ntasks = rows[i].ntasks;
		g.job.request.ntasks_per_socket = rows[i].per_socket;
		g.job.request.distribution = (char *)rows[i].text;
		g.job.details.task_dist = rows[i].dist;
		g.job.details.plane_size = rows[i].plane;
		doc = make(&g, 0);
		env = json_get_object(doc, "env");
		assert_member(env, "SLURM_TASKS_PER_NODE", rows[i].tasks_per_node);
		assert_member(env, "SLURM_DISTRIBUTION", rows[i].variable);
		assert_member(env, "SLURM_DIST_PLANESIZE", rows[i].planesize);
		assert_member(
			env, "SLURM_NTASKS_PER_SOCKET", rows[i].per_socket == NO_VAL ? NULL : "2");
		rig_clear(&g);
	}
}

/* ---- files -------------------------------------------------------------------------------------
 */

static void test_patterns(void **state)
{
	static const struct {
		const char *given; /* NULL: the default */
		const char *alone; /* of a job; NULL: not tested */
		const char *task;  /* of a task of an array */
	} rows[] = {
		{NULL, "slurm-%j.out", "slurm-10_3.out"},
		{"plain", "plain", "plain"},
		{"%A_%a", "12_4294967294", "10_3"},
		{"%5A.%4a", "00012.4294967294", "00010.0003"},
		{"%99a", NULL, "0000000003"},
		/* the agent's own */
		{"%j %J %s %t %n %N %u %x", "%j %J %s %t %n %N %u %x", "%j %J %s %t %n %N %u %x"},
		{"%4j%%a", "%4j%%a", "%4j%%a"},
		/* what the agent must not replace */
		{"%z%3b", "%%z%%3b", "%%z%%3b"},
		{"50%", "50%%", "50%%"},
		{"x%7", "x%%7", "x%%7"},
		/* with a backslash nothing is replaced */
		{"a\\%A%z", "a\\%A%z", "a\\%A%z"},
	};
	size_t i;
	int task;

	(void)state;
	for (i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		json_auto_t *doc = NULL;
		const char *wanted;
		struct rig g;

		task = i % 2;
		wanted = task ? rows[i / 2].task : rows[i / 2].alone;
		if (!wanted)
			continue;
		rig_init(&g, 1, 1, 1);
		g.job.request.stdout_file = (char *)rows[i / 2].given;
		if (task) {
			g.job.record.array_job_id = 10;
			g.job.record.array_task_id = 3;
		}
		doc = make(&g, 0);
		assert_member(json_get_object(doc, "stdout"), "path", wanted);
		assert_member(doc, "stderr", "stdout");
		assert_member(doc, "stdin", "none");
		rig_clear(&g);
	}
}

/* ---- CPUs --------------------------------------------------------------------------------------
 */

static void assert_cpus(struct rig *g, uint32_t node, const char *list, const char *mask)
{
	json_auto_t *bound = NULL, *limited = NULL;

	g->run.has_cpuset = true;
	limited = make(g, node);
	assert_member(json_get_object(limited, "limits"), "cpuset_cpus", list);
	assert_member(limited, "cpu_bind", NULL);
	g->run.has_cpuset = false;
	bound = make(g, node);
	assert_member(bound, "cpu_bind", mask);
	assert_null(json_get_object(bound, "limits"));
}

/* Two nodes that share a machine of 16 CPUs. */
static void test_shared_machine(void **state)
{
	struct rig g;

	(void)state;
	rig_init(&g, 2, 4, 2);
	g.run.cpus_count = 16;
	use_core(&g, 0, 1);
	use_core(&g, 1, 0);
	use_core(&g, 1, 3);
	/* the script's step is that of both nodes */
	assert_cpus(&g, 0, "2,3,8,9,14,15", "quiet,mask_cpu:0xc30c");
	/* an extern step has no task to be bound */
	assert_cpus(&g, 1, "8,9,14,15", NULL);
	/* by the machine's own numbers */
	g.machine[2] = 64;
	g.machine[3] = 0;
	assert_cpus(&g, 0, "0,8,9,14,15,64", "quiet,mask_cpu:0x1000000000000c301");
	rig_clear(&g);
}

static void test_other_machines(void **state)
{
	struct rig g;

	(void)state;
	rig_init(&g, 2, 4, 2);
	use_core(&g, 0, 0);
	use_core(&g, 1, 1);
	/* nodes as large as the machine: each is the whole of it */
	g.run.cpus_count = 8;
	assert_cpus(&g, 0, "0,1,2,3", "quiet,mask_cpu:0xf");
	assert_cpus(&g, 1, "2,3", NULL);
	/* more than it has, and not as large: their numbers mean nothing here */
	g.run.cpus_count = 15;
	assert_cpus(&g, 0, NULL, NULL);
	g.run.cpus_count = 0;
	assert_cpus(&g, 0, NULL, NULL);
	rig_clear(&g);
}

/* Nodes of other hosts take nothing of this one, and have no CPUs here. */
static void test_other_hosts(void **state)
{
	struct rig g;

	(void)state;
	rig_init(&g, 3, 2, 1);
	g.run.options.launcher = "ssh %h %q";
	g.run.host = (char *)"n2";
	g.run.cpus_count = 2;
	g.agents[0].remote = g.agents[2].remote = true;
	use_core(&g, 0, 0);
	use_core(&g, 1, 1);
	assert_cpus(&g, 0, NULL, NULL);
	assert_cpus(&g, 1, "1", NULL);
	assert_cpus(&g, 2, NULL, NULL);
	rig_clear(&g);
}

/* ---- memory ------------------------------------------------------------------------------------
 */

static int64_t memory_of(const struct rig *g, uint32_t node)
{
	json_auto_t *doc = make(g, node);

	return json_get_int(json_get_object(doc, "limits"), "memory_max_bytes", -1);
}

static void test_memory(void **state)
{
	struct rig g;

	(void)state;
	rig_init(&g, 2, 1, 1);
	g.run.has_memory = true;
	g.resources.memory_allocated = g.memory;
	g.memory[0] = 100;
	g.memory[1] = 28;
	assert_int_equal(memory_of(&g, 0), -1); /* it is not counted */
	slurm_conf.select_type_param = CR_MEMORY;
	assert_int_equal(memory_of(&g, 0), INT64_C(128) << 20);
	assert_int_equal(memory_of(&g, 1), INT64_C(28) << 20);
	g.run.has_memory = false;
	assert_int_equal(memory_of(&g, 1), -1);
	g.agents[1].remote = true; /* the agent there has the last word */
	assert_int_equal(memory_of(&g, 1), INT64_C(28) << 20);
	rig_clear(&g);
}

/* A job that exceeds its memory ends as a whole, and has no swap beside it. Where the kernel does
 * not count the memory of all its processes, each has the limit for its data. */
static void test_memory_is_exceeded(void **state)
{
	static const struct {
		bool counted, has_memory, allow_swap;
		bool ends;
		int64_t swap_bytes, data_bytes[2]; /* -1: no limit */
	} rows[] = {
		{false, true, false, false, -1, {-1, -1}},
		{true, true, false, true, 0, {-1, -1}},
		{true, true, true, true, -1, {-1, -1}},
		{true, false, false, false, -1, {INT64_C(128) << 20, -1}},
	};
	struct rig g;
	uint32_t node;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		rig_init(&g, 2, 1, 1);
		g.run.has_memory = rows[i].has_memory;
		g.run.options.allow_swap = rows[i].allow_swap;
		g.resources.memory_allocated = g.memory;
		g.memory[0] = 100;
		g.memory[1] = 28;
		slurm_conf.select_type_param = rows[i].counted ? CR_MEMORY : 0;
		for (node = 0; node < 2; node++) {
			json_auto_t *doc = make(&g, node);
			const json_t *limits = json_get_object(doc, "limits");
			const json_t *rlimits = json_get_object(doc, "rlimits");

			assert_int_equal(json_get_bool(doc, "oom_kill_step", false), rows[i].ends);
			assert_int_equal(json_get_int(limits, "memory_swap_max_bytes", -1),
				rows[i].swap_bytes);
			assert_int_equal(
				json_get_int(rlimits, "data", -1), rows[i].data_bytes[node]);
		}
		rig_clear(&g);
	}
}

/* A job that has given up its second node: its arrays have the nodes that it keeps. */
static void test_node_given_up(void **state)
{
	json_auto_t *limits = NULL;
	struct rig g;

	(void)state;
	rig_init(&g, 3, 1, 1);
	g.run.has_memory = g.run.has_cpuset = true;
	g.run.cpus_count = 3;
	slurm_conf.select_type_param = CR_MEMORY;
	g.resources.memory_allocated = g.memory;
	memcpy(g.memory, (uint64_t[]){1, 2, 4}, 3 * sizeof(*g.memory));
	use_core(&g, 0, 0);
	use_core(&g, 1, 0);
	use_core(&g, 2, 0);
	assert_int_equal(memory_of(&g, 0), INT64_C(7) << 20);
	memcpy(g.memory, (uint64_t[]){1, 4}, 2 * sizeof(*g.memory));
	bit_clear(g.resources.node_bitmap, 1);
	bit_clear(g.resources.core_bitmap, 1);
	g.agents[1].leaves = true;
	limits = spec_make_limits(&g.agents[0]);
	assert_int_equal(json_get_int(limits, "memory_max_bytes", -1), INT64_C(5) << 20);
	assert_member(limits, "cpuset_cpus", "0,2");
	assert_int_equal(memory_of(&g, 2), INT64_C(4) << 20);
	rig_clear(&g);
}

/* ---- texts -------------------------------------------------------------------------------------
 */

/* A script may have any bytes, the rest of a request not: the document is JSON. */
static void test_texts(void **state)
{
	json_auto_t *plain = NULL, *coded = NULL;
	struct err err = ERR_INIT;
	struct rig g;

	(void)state;
	rig_init(&g, 1, 1, 1);
	plain = make(&g, 0);
	assert_member(plain, "script", "#!/bin/sh\n");
	assert_member(plain, "script_base64", NULL);
	g.job.request.script = (char *)"#!\xe9\n";
	coded = make(&g, 0);
	assert_member(coded, "script", NULL);
	assert_member(coded, "script_base64", "IyHpCg==");
	g.job.request.argv = (char *[]){(char *)"\xe9", NULL};
	assert_null(spec_make(&g.agents[0], &err));
	assert_non_null(strstr(err.text, "argv: must be UTF-8"));
	rig_clear(&g);
}

/* ---- suspension --------------------------------------------------------------------------------
 */

/* Processes have as long to stop as jobd waits for the reply, but for the time in which the agent
 * resumes them. */
static void test_suspend_timeout(void **state)
{
	struct rig g;
	uint32_t i;

	(void)state;
	rig_init(&g, 2, 1, 1);
	for (i = 0; i < 2; i++) { /* the script's step, and the other node's */
		json_auto_t *doc = make(&g, i);
		int64_t ms = json_get_int(doc, "suspend_timeout_ms", 0);

		assert_true(ms >= CALL_TIMEOUT_MS * 3 / 4);
		assert_true(ms + AGENT_RESUMES_MS < CALL_TIMEOUT_MS);
	}
	rig_clear(&g);
}

/* ---- results ------------------------------------------------------------------------------------
 */

static void write_result(const struct rig *g, const char *text)
{
	_cleanup_free_ char *name = agent_file(&g->agents[0], "result");

	assert_non_null(name);
	assert_int_equal(fs_write_atomic(g->run.dir_fd, name, text, strlen(text), 0600, false), 0);
}

static void test_results(void **state)
{
	static const struct {
		const char *text;
		int status;
		bool out_of_memory, lost;
	} rows[] = {
		{"{\"exit_code\": 3, \"tasks\": [{\"wait_status\": 768}]}", 768, false, false},
		{"{\"exit_code\": 137, \"oom_killed\": true, \"tasks\": [{\"wait_status\": 9}]}", 9,
			true, false},
		{"{\"exit_code\": 0, \"oom_killed\": true, \"tasks\": [{\"wait_status\": 0}]}", 0,
			true, false},
		{"{\"exit_code\": 4, \"oom_killed\": false}", 1024, false, false},
		{"{\"exit_code\": 125, \"reason\": \"launch-failed\", \"error\": \"no\"}", 32000,
			false, true},
	};
	_cleanup_free_ char *dir = scratch_make();
	struct rig g;
	size_t i;

	(void)state;
	rig_init(&g, 1, 1, 1);
	g.run.dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(g.run.dir_fd >= 0);
	assert_int_equal(agent_read_result(&g.agents[0]), -ENOENT);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		g.agents[0].lost = false;
		write_result(&g, rows[i].text);
		assert_int_equal(agent_read_result(&g.agents[0]), 0);
		assert_int_equal(g.agents[0].status, rows[i].status);
		assert_int_equal(g.agents[0].out_of_memory, rows[i].out_of_memory);
		assert_int_equal(g.agents[0].lost, rows[i].lost);
	}
	write_result(&g, "cut sho");
	assert_int_equal(agent_read_result(&g.agents[0]), -ENOENT);
	(void)close_fd(g.run.dir_fd);
	rig_clear(&g);
	scratch_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_distribution),
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_shared_machine),
		cmocka_unit_test(test_other_machines),
		cmocka_unit_test(test_other_hosts),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_memory_is_exceeded),
		cmocka_unit_test(test_node_given_up),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_suspend_timeout),
		cmocka_unit_test(test_results),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
