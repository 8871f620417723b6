/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a select plugin does against its contract is named by the host, and has no effect; and the
 * example of a site's plugin, which is broken for that (tests/lib/broken_select.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "stepd/base/err.h"
#include "tests/lib/jobd_cluster.h"

#define CONF "NodeName=n[1-6] CPUs=2 RealMemory=1000\nPartitionName=p Nodes=ALL\n"

static char logged[1024], ended_with[1024];
static int lines;

static int take_line(const struct log *log, enum log_level level, const char *text)
{
	(void)log;
	(void)level;
	lines++;
	(void)snprintf(logged, sizeof(logged), "%s", text);
	return 0;
}

static const struct log to_us = {.send = take_line, .fd = -1, .most = LOG_LEVEL_WARNING};
static const struct log all_to_us = {.send = take_line, .fd = -1, .most = LOG_LEVEL_INFO};

static void make_cluster_with(
	struct cluster *c, const char *plugin, const char *how, const struct log *log)
{
	char text[512], dir[512];

	(void)snprintf(text, sizeof(text), "SelectType=select/%s\n%s", plugin, CONF);
	(void)snprintf(dir, sizeof(dir), "%s/tests/lib/plugins", getenv("top_builddir"));
	assert_int_equal(how ? setenv("BROKEN_SELECT", how, 1) : unsetenv("BROKEN_SELECT"), 0);
	logged[0] = '\0';
	cluster_make(c, text, dir, log);
}

static void make_cluster(struct cluster *c, const char *plugin, const char *how)
{
	make_cluster_with(c, plugin, how, &to_us);
	logged[0] = '\0';
	lines = 0;
}

/* A job of two nodes: not of the last one, and with the second one. */
static job_record_t *add_job(struct cluster *c)
{
	job_record_t *job = cluster_add_job(c, &c->parts[0]);

	job->details->min_nodes = job->details->max_nodes = 2;
	job->details->min_cpus = 2;
	job->details->req_node_bitmap = bit_alloc(node_record_count);
	bit_set(job->details->req_node_bitmap, 1);
	job->details->exc_node_bitmap = bit_alloc(node_record_count);
	bit_set(job->details->exc_node_bitmap, 5);
	return job;
}

static int test_job(struct cluster *c, job_record_t *job, uint32_t mode, bitstr_t **ret_nodes)
{
	struct err err = ERR_INIT;
	struct select_request q;
	List preempted = NULL, candidates = list_create(NULL);
	bitstr_t *held = NULL;
	int r;

	cluster_request(c, job, &q);
	q.candidates = candidates;
	q.preempted = &preempted;
	if (mode == SELECT_MODE_WILL_RUN) { /* all cores are held for others */
		const node_record_t *last = &node_record_table_ptr[node_record_count - 1];

		held = bit_alloc((bitoff_t)last->core_offset + last->tot_cores);
		bit_not(held);
		q.exc_cores = held;
	}
	r = select_test(c->select, &q, mode, &err);
	FREE_NULL_BITMAP(held);
	assert_null(preempted);
	list_destroy(candidates);
	*ret_nodes = q.nodes;
	return r;
}

struct breach {
	const char *how;
	uint32_t mode;
	const char *named;
};

static const struct breach breaches[] = {
	{"errno", SELECT_MODE_RUN_NOW, "without errno"},
	{"value", SELECT_MODE_RUN_NOW, "a value other than SLURM_ERROR"},
	{"bits", SELECT_MODE_TEST_ONLY, "nodes that it was not given"},
	{"bits", SELECT_MODE_RUN_NOW, "nodes that it was not given"},
	{"many", SELECT_MODE_RUN_NOW, "fewer nodes than the job needs, or more"},
	{"few", SELECT_MODE_WILL_RUN, "fewer nodes than the job needs, or more"},
	{"required", SELECT_MODE_RUN_NOW, "leaves out nodes that the job requires"},
	{"none", SELECT_MODE_RUN_NOW, "job_resrcs is missing"},
	{"others", SELECT_MODE_RUN_NOW, "not of the nodes that it takes"},
	{"count", SELECT_MODE_RUN_NOW, "not of the nodes that it takes"},
	{"cores", SELECT_MODE_RUN_NOW, "not of the nodes that it takes"},
	{"memory", SELECT_MODE_RUN_NOW, "more memory of a node than that has left"},
	{"preempted", SELECT_MODE_RUN_NOW, "preempts a job that is not a candidate"},
	{"early", SELECT_MODE_WILL_RUN, "a start in the past"},
	{"plan", SELECT_MODE_TEST_ONLY, "not of the nodes that it takes"},
	{"plan", SELECT_MODE_WILL_RUN, "not of the nodes that it takes"},
	{"held", SELECT_MODE_WILL_RUN, "plans with other jobs' cores"},
};

/* Each is reported once, the call fails each time, and the job and its nodes are as before. */
static void test_job_test(void **state)
{
	size_t i;
	int again;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(breaches); i++) {
		const struct breach *b = &breaches[i];
		struct cluster c;
		job_record_t *job;

		make_cluster(&c, "broken", b->how);
		job = add_job(&c);
		for (again = 0; again < 2; again++) {
			bitstr_t *nodes;

			if (strcmp(b->how, "many") == 0 || strcmp(b->how, "few") == 0)
				FREE_NULL_BITMAP(job->details->req_node_bitmap);
			assert_int_equal(test_job(&c, job, b->mode, &nodes), -EPROTO);
			assert_int_equal(bit_set_count(nodes), 5);
			assert_null(job->job_resrcs);
			bit_free(nodes);
		}
		if (lines != 1 || !strstr(logged, "select/broken breaks its contract") ||
			!strstr(logged, b->named))
			fail_msg("%s: %d lines, '%s'", b->how, lines, logged);
		cluster_clear(&c);
	}
}

static job_record_t *start_job(struct cluster *c)
{
	job_record_t *job = add_job(c);
	struct err err = ERR_INIT;
	bitstr_t *nodes;

	assert_int_equal(test_job(c, job, SELECT_MODE_RUN_NOW, &nodes), 0);
	job->node_bitmap = nodes;
	job->job_state = JOB_RUNNING;
	job->end_time = slurm_now() + 60;
	assert_int_equal(select_job_begin(c->select, job, &err), 0);
	return job;
}

static void end_job(struct cluster *c, job_record_t *job)
{
	struct err err = ERR_INIT;

	if (select_job_fini(c->select, job, &err) < 0)
		(void)snprintf(ended_with, sizeof(ended_with), "%s", err.text);
	bit_free(job->node_bitmap);
	cluster_free_job(job);
}

/* It forgets the jobs that run, and gives their nodes again. */
static void test_given_twice(void **state)
{
	struct cluster c;
	job_record_t *first, *second;
	bitstr_t *nodes;

	(void)state;
	make_cluster(&c, "broken", "twice");
	first = start_job(&c);
	second = add_job(&c);
	assert_int_equal(test_job(&c, second, SELECT_MODE_RUN_NOW, &nodes), -EPROTO);
	assert_non_null(strstr(logged, "a core to two jobs"));
	bit_free(nodes);
	end_job(&c, first);
	assert_int_equal(test_job(&c, second, SELECT_MODE_RUN_NOW, &nodes), 0);
	bit_free(nodes);
	cluster_clear(&c);
}

static void test_job_begin(void **state)
{
	struct cluster c;
	struct err err = ERR_INIT;
	job_record_t *job;
	bitstr_t *nodes;

	(void)state;
	make_cluster(&c, "broken", "begin");
	job = add_job(&c);
	assert_int_equal(test_job(&c, job, SELECT_MODE_RUN_NOW, &nodes), 0);
	assert_int_equal(select_job_begin(c.select, job, &err), -EPROTO);
	assert_non_null(strstr(logged, "select_p_job_begin(): it fails with a value other"));
	assert_non_null(strstr(err.text, "select_p_job_begin() failed"));
	bit_free(nodes);
	cluster_clear(&c);
}

static void test_later_functions(void **state)
{
	struct cluster c;
	struct err err = ERR_INIT;
	job_record_t *job;
	select_jobinfo_t *info;

	(void)state;
	make_cluster(&c, "broken", "ready");
	job = start_job(&c);
	assert_int_equal(select_job_ready(c.select, job, &err), 1);
	assert_non_null(strstr(logged, "select_p_job_ready(): it returns neither 1 nor 0"));
	end_job(&c, job);
	cluster_clear(&c);
	make_cluster(&c, "broken", "fini");
	end_job(&c, start_job(&c));
	assert_non_null(strstr(ended_with, "select_p_job_fini()"));
	cluster_clear(&c);
	make_cluster(&c, "broken", "step");
	job = start_job(&c);
	info = select_step_begin(c.select, job);
	assert_non_null(info); /* the step starts all the same */
	assert_non_null(strstr(logged, "step_pick_nodes(): it takes other nodes than those"));
	select_jobinfo_free(c.select, info);
	end_job(&c, job);
	cluster_clear(&c);
	make_cluster(&c, "broken", "jobinfo");
	assert_null(select_jobinfo_new(c.select));
	assert_non_null(strstr(logged, "select_jobinfo_alloc(): it returns NULL"));
	cluster_clear(&c);
	make_cluster(&c, "broken", "copy");
	info = select_jobinfo_new(c.select);
	assert_null(select_jobinfo_copy(c.select, info));
	assert_non_null(strstr(logged, "select_jobinfo_copy(): it returns NULL"));
	select_jobinfo_free(c.select, info);
	cluster_clear(&c);
}

struct change {
	const char *how, *named; /* NULL: a failure, and no breach */
	int r;
};

static const struct change expansions[] = {
	{"expand-lost", "job_resrcs is missing, or is not of the job's nodes", -EPROTO},
	{"expand-kept", "the job that gives all that it has still has some of it", -EPROTO},
	{"expand-fails", NULL, -EBUSY},
};

/* Two jobs have what they had before. */
static void test_expansion(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(expansions); i++) {
		const struct change *change = &expansions[i];
		struct err err = ERR_INIT;
		struct cluster c;
		job_record_t *from, *to;

		make_cluster(&c, "broken", change->how);
		from = start_job(&c);
		to = add_job(&c);
		bit_clear_all(to->details->req_node_bitmap);
		bit_set(to->details->req_node_bitmap, 3);
		assert_int_equal(test_job(&c, to, SELECT_MODE_RUN_NOW, &to->node_bitmap), 0);
		assert_int_equal(select_job_begin(c.select, to, &err), 0);
		assert_int_equal(select_job_expand(c.select, from, to, &err), change->r);
		assert_true(change->named ? strstr(logged, change->named) != NULL : lines == 0);
		assert_true(bit_equal(from->job_resrcs->node_bitmap, from->node_bitmap));
		assert_true(bit_equal(to->job_resrcs->node_bitmap, to->node_bitmap));
		end_job(&c, from);
		end_job(&c, to);
		cluster_clear(&c);
	}
}

static void test_resized(void **state)
{
	struct cluster c;
	struct err err = ERR_INIT;
	job_record_t *job;

	(void)state;
	make_cluster(&c, "broken", "resized");
	job = start_job(&c);
	assert_int_equal(
		select_job_resized(c.select, job, &node_record_table_ptr[1], &err), -EPROTO);
	assert_non_null(strstr(logged, "select_p_job_resized(): job_resrcs is missing, or is not"));
	assert_true(bit_equal(job->job_resrcs->node_bitmap, job->node_bitmap));
	end_job(&c, job);
	cluster_clear(&c);
}

static void test_settings(void **state)
{
	struct cluster c;

	(void)state;
	make_cluster_with(&c, "rotate", NULL, &all_to_us);
	assert_string_equal(logged, "plugin select/rotate: Order=LongestIdle");
	cluster_clear(&c);
}

static const struct change reservations[] = {
	{"resv", "it takes nodes that it was not given", 0},
	{"resv-few", "it takes fewer nodes than are needed", 0},
	{"resv-cores", "its cores are not of the nodes that it takes", 0},
};

static void test_reservation(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(reservations); i++) {
		resv_desc_msg_t desc = {.name = NULL};
		struct cluster c;
		bitstr_t *avail, *cores = NULL;

		make_cluster(&c, "broken", reservations[i].how);
		avail = cluster_nodes(&c, "n[1-3]");
		assert_null(select_resv_test(c.select, &desc, 2, avail, &cores));
		assert_non_null(strstr(logged, "select_p_resv_test()"));
		assert_non_null(strstr(logged, reservations[i].named));
		bit_free(cores);
		bit_free(avail);
		cluster_clear(&c);
	}
}

/* Without information on nodes the plugin is not used. */
static void test_nodeinfo(void **state)
{
	struct cluster c;
	struct err err = ERR_INIT;
	int i;

	(void)state;
	make_cluster(&c, "broken", NULL);
	for (i = 0; i < node_record_count; i++) {
		free(c.nodes[i].select_nodeinfo);
		c.nodes[i].select_nodeinfo = NULL;
	}
	assert_int_equal(setenv("BROKEN_SELECT", "nodeinfo", 1), 0);
	assert_int_equal(select_begin(c.select, NULL, NULL, &err), -EPROTO);
	assert_non_null(strstr(logged, "select_p_select_nodeinfo_alloc(): it returns NULL"));
	cluster_clear(&c);
}

/* ---- the example as it is ----------------------------------------------------------------------
 */

static void got(struct cluster *c, job_record_t *job, const char *wanted)
{
	char text[64];
	bitstr_t *nodes;

	assert_int_equal(test_job(c, job, SELECT_MODE_RUN_NOW, &nodes), 0);
	assert_string_equal(bit_fmt(text, sizeof(text), nodes), wanted);
	bit_free(nodes);
}

static void test_example(void **state)
{
	struct cluster c;
	job_record_t *first, *second, *third;
	bitstr_t *nodes;

	(void)state;
	make_cluster(&c, "rotate", NULL);
	first = start_job(&c); /* node 1 is required, node 0 the first of those that are rested */
	assert_true(bit_test(first->node_bitmap, 0) && bit_test(first->node_bitmap, 1));
	end_job(&c, first);
	second = add_job(&c);
	FREE_NULL_BITMAP(second->details->req_node_bitmap);
	got(&c, second, "2-3");
	second->details->min_nodes = second->details->max_nodes = 4;
	got(&c, second, "0,2-4");
	second->details->min_nodes = second->details->max_nodes = 6;
	assert_int_equal(test_job(&c, second, SELECT_MODE_TEST_ONLY, &nodes), -EINVAL);
	bit_free(nodes);
	first = start_job(&c);
	third = add_job(&c);
	assert_int_equal(test_job(&c, third, SELECT_MODE_RUN_NOW, &nodes), -EBUSY);
	bit_free(nodes);
	assert_int_equal(test_job(&c, third, SELECT_MODE_WILL_RUN, &nodes), 0);
	assert_true(third->start_time == first->end_time);
	bit_free(nodes);
	end_job(&c, first);
	assert_int_equal(lines, 0);
	cluster_clear(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_job_test),
		cmocka_unit_test(test_given_twice),
		cmocka_unit_test(test_job_begin),
		cmocka_unit_test(test_later_functions),
		cmocka_unit_test(test_expansion),
		cmocka_unit_test(test_resized),
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_reservation),
		cmocka_unit_test(test_nodeinfo),
		cmocka_unit_test(test_example),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
