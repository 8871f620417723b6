/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "contrib/jobd/engine/request.h"

static json_t *load(const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	json_t *json;
	char *p;

	assert_non_null(copy);
	for (p = copy; *p; p++) {
		if (*p == '\'')
			*p = '"';
	}
	json = json_loads(copy, JSON_DECODE_ANY, NULL);
	assert_non_null(json);
	return json;
}

static const char all_members[] =
	"{'name':'a','partition':'p','qos':'q','reservation':'r','comment':'c','min_nodes':2,"
	"'max_nodes':4,'ntasks':8,'cpus_per_task':2,'ntasks_per_node':3,'min_cpus_per_node':1,"
	"'ntasks_per_socket':2,'ntasks_per_core':1,'distribution':'plane=2:block','spread_job':true,"
	"'use_min_nodes':true,"
	"'memory_per_cpu_mb':100,'time_limit_min':-1,'priority':0,'nodelist':'n[1-2]',"
	"'exclude':'n3','features':'x&y','contiguous':true,'exclusive':true,'oversubscribe':true,"
	"'hold':true,'requeue':false,'begin_time':1795453962,'signal':'B:USR1@5','dependencies':["
	"{'type':'afterok','job_id':12},{'type':'after','job_id':13,'array_task_id':0,'delay_min':5}],'dependencies_any':true,"
	"'singleton':true,'array':'0-9%2','work_dir':'/tmp','command':'/tmp/a b','script':'#!/bin/sh\\n',"
	"'stdin_file':'i','stdout_file':'o','stderr_file':'e','append':true,'argv':['a','b c'],"
	"'env':['A=1','B=']}";

static void test_round_trip(void **state)
{
	json_auto_t *json = load(all_members), *again = NULL, *copied = NULL;
	struct job_request request, copy;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(request_from_json(json, &request, &err), 0);
	assert_string_equal(request.name, "a");
	assert_int_equal(request.max_nodes, 4);
	assert_int_equal(request.time_limit_min, INFINITE);
	assert_true(request.memory_mb == (100 | MEM_PER_CPU));
	assert_int_equal(request.requeue, 0);
	assert_int_equal(request.dependencies_count, 2);
	assert_int_equal(request.dependencies[0].kind, DEPENDS_AFTER_OK);
	assert_int_equal(request.dependencies[0].task_id, NO_VAL);
	assert_int_equal(request.dependencies[1].job_id, 13);
	assert_int_equal(request.dependencies[1].task_id, 0);
	assert_int_equal(request.dependencies[1].delay_min, 5);
	assert_string_equal(request.argv[1], "b c");
	assert_null(request.argv[2]);
	assert_string_equal(request.env[1], "B=");
	again = request_to_json(&request);
	assert_true(json_equal(json, again));
	assert_int_equal(request_copy(&request, &copy), 0);
	request_clear(&request);
	copied = request_to_json(&copy);
	assert_true(json_equal(json, copied));
	request_clear(&copy);
	assert_null(request.name);
	assert_int_equal(request.priority, NO_VAL);
}

static void test_distribution(void **state)
{
	static const struct {
		const char *text;
		uint32_t dist;
		uint16_t plane;
	} good[] = {
		{"block", SLURM_DIST_BLOCK, 0},
		{"*", 0, 0},
		{"cyclic", SLURM_DIST_CYCLIC, 0},
		{"plane=1", SLURM_DIST_PLANE, 1},
		{"plane=65535:*", SLURM_DIST_PLANE, UINT16_MAX},
		{"*:block", SLURM_DIST_SOCKBLOCK, 0},
		{"block:cyclic", SLURM_DIST_BLOCK | SLURM_DIST_SOCKCYCLIC, 0},
		{"cyclic:fcyclic", SLURM_DIST_CYCLIC | SLURM_DIST_SOCKCFULL, 0},
	};
	static const char *const bad[] = {"", ":", "block:", ":block", "blocks", "bloc", "plane",
		"plane=", "plane=0", "plane=65536", "plane=x", "plane=1x", "plane=-1",
		"plane=11111111111111111111", "block:plane=2", "block:block:block", "arbitrary",
		"fcyclic", "block,pack"};
	struct err err = ERR_INIT;
	uint32_t dist;
	uint16_t plane;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(good); i++) {
		assert_int_equal(request_parse_distribution(good[i].text, &dist, &plane, &err), 0);
		assert_int_equal(dist, good[i].dist);
		assert_int_equal(plane, good[i].plane);
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		if (request_parse_distribution(bad[i], &dist, &plane, &err) != -EINVAL)
			fail_msg("'%s' is a distribution", bad[i]);
		assert_non_null(strstr(err.text, bad[i]));
	}
}

static void test_signal(void **state)
{
	static const struct {
		const char *text;
		struct job_warning warning;
	} good[] = {
		{"USR1", {SIGUSR1, false, 60}},
		{"10@0", {10, false, 0}},
		{"SIGTERM@65535", {SIGTERM, false, 65535}},
		{"B:usr2@5", {SIGUSR2, true, 5}},
		{"b:INT", {SIGINT, true, 60}},
		{"R:HUP@120", {SIGHUP, false, 120}},
	};
	static const char *const bad[] = {"", "B:", "@5", "B:@5", "USR1@", "USR1@x", "USR1@-1",
		"USR1@65536", "NONE", "0", "X:USR1", "B:R:USR1", "USR1@5@6", "B USR1"};
	struct job_warning warning;
	struct err err = ERR_INIT;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(good); i++) {
		assert_int_equal(request_parse_signal(good[i].text, &warning, &err), 0);
		assert_int_equal(warning.signal, good[i].warning.signal);
		assert_int_equal(warning.to_script, good[i].warning.to_script);
		assert_int_equal(warning.before_s, good[i].warning.before_s);
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		if (request_parse_signal(bad[i], &warning, &err) != -EINVAL)
			fail_msg("'%s' is a signal", bad[i]);
		assert_non_null(strstr(err.text, "is not [B:]SIGNAL[@SECONDS]"));
	}
}

/* A copy of a copy is no second script in memory, and lives as long as anybody has it. */
static void test_shared(void **state)
{
	json_auto_t *json = load(all_members), *other_json = load("{'name':'b','script':'#!/x'}");
	json_auto_t *left = NULL, *mixed = NULL;
	struct job_request request, first, second, third, other;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(request_from_json(json, &request, &err), 0);
	assert_int_equal(request_copy(&request, &first), 0);
	assert_ptr_not_equal(first.script, request.script);
	request_clear(&request);
	assert_int_equal(request_copy(&first, &second), 0);
	assert_int_equal(request_copy(&second, &third), 0);
	assert_ptr_equal(third.script, first.script);
	assert_ptr_equal(third.env, first.env);
	assert_ptr_equal(third.nodelist, first.nodelist);
	assert_ptr_equal(third.dependencies, first.dependencies);
	request_clear(&first);
	request_clear(&second);
	left = request_to_json(&third);
	assert_true(json_equal(json, left));
	/* the script of one, all else of the other */
	assert_int_equal(request_from_json(other_json, &other, &err), 0);
	assert_int_equal(request_share(&other), 0);
	request_take_payload(&other, &third);
	assert_ptr_equal(other.script, third.script);
	assert_string_equal(other.name, "b");
	request_clear(&third);
	assert_string_equal(other.argv[1], "b c");
	request_clear(&other);
	/* what is alike is found to be */
	assert_int_equal(request_from_json(json, &first, &err), 0);
	assert_int_equal(request_from_json(json, &second, &err), 0);
	assert_int_equal(request_from_json(other_json, &other, &err), 0);
	assert_int_equal(request_share(&first) | request_share(&second) | request_share(&other), 0);
	request_unify(&second, &first);
	assert_ptr_equal(second.script, first.script);
	assert_ptr_equal(second.comment, first.comment);
	request_unify(&other, &first);
	assert_string_equal(other.script, "#!/x");
	mixed = request_to_json(&other);
	assert_true(json_equal(mixed, other_json));
	request_clear(&first);
	request_clear(&other);
	assert_string_equal(second.stdout_file, "o");
	request_clear(&second);
}

static void test_nothing_given(void **state)
{
	json_auto_t *empty = json_object(), *made = NULL;
	struct job_request request;
	struct err err = ERR_INIT;

	(void)state;
	request_init(&request);
	made = request_to_json(&request);
	assert_true(json_equal(made, empty));
	assert_int_equal(request_from_json(empty, &request, &err), 0);
	assert_int_equal(request.min_nodes, NO_VAL);
	assert_int_equal(request.requeue, -1);
	assert_true(request.memory_mb == NO_VAL64);
	request_clear(&request);
}

/* Variables and scripts need not be UTF-8. */
static void test_any_bytes(void **state)
{
	char bytes[] = "A=\xff\xfe", *env[] = {bytes, NULL}, *none[] = {NULL};
	struct job_request request, copy;
	json_auto_t *json = NULL;
	struct err err = ERR_INIT;

	(void)state;
	request_init(&request);
	request.env = env;
	request.argv = none;
	json = request_to_json(&request);
	assert_non_null(json);
	assert_int_equal(request_from_json(json, &copy, &err), 0);
	assert_string_equal(copy.env[0], bytes);
	assert_non_null(copy.argv);
	assert_null(copy.argv[0]);
	request_clear(&copy);
}

static void test_errors(void **state)
{
	static const struct {
		const char *json, *named;
	} rows[] = {
		{"[]", "object"},
		{"{'nice':1}", "nice"},
		{"{'name':1}", "name"},
		{"{'name':null}", "name"},
		{"{'name':{'base64':'AAAA'}}", "name"}, /* NUL */
		{"{'name':{'base64':'%'}}", "name"},
		{"{'min_nodes':0}", "min_nodes"},
		{"{'min_nodes':-1}", "min_nodes"},
		{"{'max_nodes':4294967294}", "max_nodes"},
		{"{'ntasks':'4'}", "ntasks"},
		{"{'time_limit_min':-2}", "time_limit_min"},
		{"{'time_limit_min':0}", "time_limit_min"},
		{"{'memory_per_node_mb':-1}", "memory_per_node_mb"},
		{"{'memory_per_node_mb':1,'memory_per_cpu_mb':1}", "memory_per"},
		{"{'memory_per_node_mb':9223372036854775807}", "memory_per_node_mb"},
		{"{'contiguous':1}", "contiguous"},
		{"{'requeue':-1}", "requeue"},
		{"{'begin_time':-1}", "begin_time"},
		{"{'begin_time':9223372036854775807}", "begin_time"},
		{"{'dependencies':{}}", "dependencies"},
		{"{'dependencies':[1]}", "dependencies"},
		{"{'dependencies':[{'type':'foo','job_id':1}]}", "dependencies"},
		{"{'dependencies':[{'type':'after','job_id':0}]}", "job_id"},
		{"{'dependencies':[{'type':'after','job_id':1,'x':1}]}", "dependencies"},
		{"{'argv':'a'}", "argv"},
		{"{'argv':[1]}", "argv"},
		{"{'env':['A']}", "env"},
		{"{'env':['=A']}", "env"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		json_auto_t *json = load(rows[i].json);
		struct job_request request = {0};
		struct err err = ERR_INIT;

		assert_true(request_from_json(json, &request, &err) < 0);
		assert_non_null(strstr(err.text, rows[i].named));
		assert_null(request.name); /* untouched */
	}
}

/* What the documents of a job have must be UTF-8; its script is passed on in base64. */
static void test_texts(void **state)
{
	static const char foreign[] = "caf\xe9";
	static char *const list[] = {(char *)"A=\xc3\xa9", (char *)"B=\xff", NULL};
	struct job_request request;
	struct err err = ERR_INIT;

	(void)state;
	request_init(&request);
	request.name = (char *)"caf\xc3\xa9";
	request.script = (char *)foreign;
	assert_int_equal(request_check_texts(&request, &err), 0);
	request.comment = (char *)foreign;
	assert_int_equal(request_check_texts(&request, &err), -EINVAL);
	assert_string_equal(
		err.text, "comment: must be UTF-8, like all that a job gets but its script");
	request.comment = NULL;
	request.env = (char **)list;
	assert_int_equal(request_check_texts(&request, &err), -EINVAL);
	assert_non_null(strstr(err.text, "env: "));
	request.env = NULL;
	request.argv = (char **)list;
	assert_int_equal(request_check_texts(&request, &err), -EINVAL);
	assert_non_null(strstr(err.text, "argv: "));
}

static void test_sizes(void **state)
{
	json_auto_t *json = json_object();
	_cleanup_free_ char *text = malloc(4097);
	struct job_request request;
	struct err err = ERR_INIT;

	(void)state;
	assert_non_null(text);
	memset(text, 'a', 4096);
	text[4096] = '\0';
	assert_int_equal(json_object_set_new(json, "work_dir", json_string(text)), 0);
	assert_int_equal(request_from_json(json, &request, &err), -E2BIG);
	assert_int_equal(json_object_set_new(json, "work_dir", json_string(text + 1)), 0);
	assert_int_equal(request_from_json(json, &request, &err), 0);
	request_clear(&request);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_distribution),
		cmocka_unit_test(test_signal),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_nothing_given),
		cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
