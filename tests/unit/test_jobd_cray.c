/* SPDX-License-Identifier: BSD-3-Clause
 *
 * select/cray_aries: the site's programs of a job's begin and end, and who may have written them.
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
#include <poll.h>
#include <signal.h>

#include "stepd/base/err.h"
#include "tests/lib/jobd_cluster.h"
#include "tests/lib/scratch.h"

#define CONF "SelectType=select/cray_aries\nNodeName=n[1-4] CPUs=2\nPartitionName=p Nodes=ALL\n"

static char *dir;

static int set_up(void **state)
{
	(void)state;
	dir = scratch_make();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	scratch_remove(dir);
	free(dir);
	return 0;
}

static void write_script(const char *name, const char *text, mode_t mode)
{
	char script[1024];
	int n = snprintf(script, sizeof(script), "#!/bin/sh\ncd %s || exit 9\n%s\n", dir, text);

	scratch_write(dir, name, script, (size_t)n, mode);
}

static void write_conf(const char *fmt, mode_t mode)
{
	_cleanup_free_ char *file = scratch_path(dir, "cray_aries.conf");
	char text[1024];
	int n = snprintf(text, sizeof(text), fmt, dir, dir);

	scratch_write(dir, "cray_aries.conf", text, (size_t)n, mode);
	assert_int_equal(setenv("JOBD_CRAY_CONF", file, 1), 0);
}

static job_record_t *start_job(struct cluster *c)
{
	job_record_t *job = cluster_add_job(c, &c->parts[0]);
	struct select_request q;
	struct err err = ERR_INIT;

	job->details->min_nodes = 2;
	job->user_id = 7;
	cluster_request(c, job, &q);
	assert_int_equal(select_test(c->select, &q, SELECT_MODE_RUN_NOW, &err), 0);
	bit_free(q.nodes);
	job->nodes = (char *)"n[1-2]";
	job->job_state = JOB_RUNNING;
	assert_int_equal(select_job_begin(c->select, job, &err), 0);
	return job;
}

static int count_used(struct cluster *c)
{
	uint16_t cpus;
	uint64_t memory;
	int i, n = 0;

	for (i = 0; i < node_record_count; i++) {
		select_node_use(c->select, &c->nodes[i], &cpus, &memory);
		n += cpus;
	}
	return n;
}

/* Until the job is ready, or is not to be. */
static int wait_ready(struct cluster *c, job_record_t *job, struct err *err)
{
	int r;

	while ((r = select_job_ready(c->select, job, err)) == 0)
		(void)poll(NULL, 0, 10);
	return r;
}

static void wait_file(const char *name, const char *wanted)
{
	_cleanup_free_ char *path = scratch_path(dir, name);
	char *text = NULL;

	while (fs_read(AT_FDCWD, path, 4096, &text, NULL) < 0 || strcmp(text, wanted) != 0) {
		free(text);
		text = NULL;
		(void)poll(NULL, 0, 10);
	}
	free(text);
}

static void test_no_programs(void **state)
{
	struct cluster c;
	struct err err = ERR_INIT;
	job_record_t *job;

	(void)state;
	assert_int_equal(unsetenv("JOBD_CRAY_CONF"), 0);
	cluster_make(&c, CONF, NULL, NULL);
	assert_string_equal(select_get_type(c.select), "select/cray_aries");
	job = start_job(&c);
	assert_int_equal(select_job_ready(c.select, job, &err), 1);
	assert_int_equal(count_used(&c), 4);
	assert_int_equal(select_job_fini(c.select, job, &err), 0);
	assert_int_equal(count_used(&c), 0);
	cluster_clear(&c);
}

static void test_programs(void **state)
{
	struct cluster c;
	struct err err = ERR_INIT;
	job_record_t *job;

	(void)state;
	write_script("begin",
		"while [ ! -e go ]; do sleep 0.02; done\n"
		"echo $SLURM_JOB_ID $SLURM_JOB_UID $SLURM_JOB_PARTITION $SLURM_JOB_NODELIST >begun",
		0755);
	write_script("end", "echo $SLURM_JOB_ID >ended", 0755);
	write_conf("begin_program=%s/begin\nend_program=%s/end\n", 0644);
	cluster_make(&c, CONF, NULL, NULL);
	job = start_job(&c);
	assert_int_equal(select_job_ready(c.select, job, &err), 0);
	assert_int_equal(select_job_ready(c.select, job, &err), 0);
	scratch_write(dir, "go", "", 0, 0644);
	assert_int_equal(wait_ready(&c, job, &err), 1);
	assert_int_equal(select_job_ready(c.select, job, &err), 1);
	wait_file("begun", "1 7 p n[1-2]\n");
	assert_int_equal(select_job_fini(c.select, job, &err), 0);
	assert_int_equal(count_used(&c), 0);
	wait_file("ended", "1\n");
	cluster_clear(&c);
}

static void test_failures(void **state)
{
	static const struct {
		const char *script, *conf;
		int error;
	} rows[] = {
		{"exit 3", "begin_program=%s/begin", -ECANCELED},
		{"kill -9 $$", "begin_program=%s/begin", -ECANCELED},
		{"sleep 1000 & wait", "begin_program=%s/begin time_limit=1", -ETIMEDOUT},
	};
	struct cluster c;
	job_record_t *job;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = ERR_INIT;

		write_script("begin", rows[i].script, 0755);
		write_conf(rows[i].conf, 0644);
		cluster_make(&c, CONF, NULL, NULL);
		job = start_job(&c);
		assert_int_equal(wait_ready(&c, job, &err), rows[i].error);
		assert_non_null(strstr(err.text, "select/cray_aries"));
		assert_int_equal(select_job_fini(c.select, job, &err), 0);
		assert_int_equal(count_used(&c), 0);
		cluster_clear(&c);
	}
}

/* A job that ends before it began, and an unload: nothing of it runs on. */
static void test_killed(void **state)
{
	struct cluster c;
	struct err err = ERR_INIT;
	job_record_t *job;
	_cleanup_free_ char *path = scratch_path(dir, "pid"), *text = NULL;
	int end;

	(void)state;
	write_script("begin", "echo $$ >pid.new; mv pid.new pid; exec sleep 1000", 0755);
	write_conf("begin_program=%s/begin", 0644);
	for (end = 0; end < 2; end++) {
		(void)unlink(path);
		cluster_make(&c, CONF, NULL, NULL);
		job = start_job(&c);
		while (access(path, F_OK) < 0)
			(void)poll(NULL, 0, 10);
		assert_int_equal(select_job_ready(c.select, job, &err), 0);
		assert_int_equal(fs_read(AT_FDCWD, path, 64, &text, NULL), 0);
		if (end)
			assert_int_equal(select_job_fini(c.select, job, &err), 0);
		cluster_clear(&c);
		assert_int_equal(kill((pid_t)atoi(text), 0), -1);
		assert_int_equal(errno, ESRCH);
		free(text);
		text = NULL;
	}
}

/* What the plugin says of its end until it is over. */
static int wait_clean(struct cluster *c, job_record_t *job, struct err *err)
{
	int r;

	while ((r = select_job_is_cleaning(c->select, job, err)) > 0)
		(void)poll(NULL, 0, 10);
	return r;
}

static void test_end(void **state)
{
	static const struct {
		const char *script, *conf;
		int error;
	} rows[] = {
		{"exit 0", "end_program=%s/end", 0},
		{"exit 3", "end_program=%s/end", -ECANCELED},
		{"kill -9 $$", "end_program=%s/end", -ECANCELED},
		{"sleep 1000 & wait", "end_program=%s/end time_limit=1", -ETIMEDOUT},
	};
	_cleanup_free_ char *path = scratch_path(dir, "end");
	struct cluster c;
	job_record_t *job;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = ERR_INIT;

		write_script("end", rows[i].script, 0755);
		write_conf(rows[i].conf, 0644);
		cluster_make(&c, CONF, NULL, NULL);
		job = start_job(&c);
		assert_int_equal(select_job_is_cleaning(c.select, job, &err), 0);
		assert_int_equal(select_job_fini(c.select, job, &err), 0);
		assert_int_equal(wait_clean(&c, job, &err), rows[i].error);
		assert_int_equal(select_job_is_cleaning(c.select, job, &err), 0);
		cluster_clear(&c);
	}
	cluster_make(&c, CONF, NULL, NULL);
	job = start_job(&c);
	assert_int_equal(unlink(path), 0);
	{
		struct err err = ERR_INIT;

		assert_int_equal(select_job_fini(c.select, job, &err), -ENOENT);
		assert_int_equal(count_used(&c), 0);
	}
	cluster_clear(&c);
}

static void refuses(const char *what)
{
	_cleanup_free_ char *plugins = scratch_path(getenv("top_builddir"), "stepd/cli/plugins");
	const struct log log = {.fd = 2, .most = LOG_LEVEL_ERROR, .ident = "test"};
	struct select *s = NULL;
	struct err err = ERR_INIT;

	if (select_open(plugins, "cray_aries", &log, &s, &err) == 0)
		fail_msg("%s was taken", what);
}

static void test_refused(void **state)
{
	(void)state;
	write_script("begin", "exit 0", 0755);
	write_conf("begin_program=%s/begin", 0666);
	refuses("a file that others can write");
	write_conf("begin_program=%s/begin", 0644);
	write_script("begin", "exit 0", 0777);
	refuses("a program that others can write");
	write_script("begin", "exit 0", 0644);
	refuses("a program that can't be run");
	write_script("begin", "exit 0", 0755);
	write_conf("begin_program=begin", 0644);
	refuses("a relative path");
	write_conf("begin_program=%s/none", 0644);
	refuses("a program that is not there");
	write_conf("start_program=%s/begin", 0644);
	refuses("an unknown key");
	write_conf("time_limit=0", 0644);
	refuses("no time");
	assert_int_equal(setenv("JOBD_CRAY_CONF", "cray.conf", 1), 0);
	refuses("a file by a relative path");
	assert_int_equal(setenv("JOBD_CRAY_CONF", "/nonexistent/cray.conf", 1), 0);
	refuses("a file that is not there");
	scratch_write(dir, "more", "time_limit=5\n", 13, 0666);
	write_conf("Include more\n", 0644);
	refuses("a file that includes one that others can write");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_programs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_programs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_failures, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_killed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
