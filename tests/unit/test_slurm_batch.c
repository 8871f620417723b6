/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A batch script of Slurm: the names of its files, the distribution of its job's tasks, and what
 * becomes of the message that slurmd has written (tests/fuzz/corpus/slurm_init/batch).
 */
#include "contrib/slurm/batch_spec.h"

#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "contrib/slurm/decision.h"
#include "contrib/slurm/site_conf.h"
#include "stepd/base/fs.h"
#include "stepd/spec/spec.h"

/* ---- files --------------------------------------------------------------------------------- */

static void test_patterns(void **state)
{
	static const char *const known[] = {
		"x", "slurm-%j.out", "%A_%a", "%5j", "%12t", "%%", "a%%j"};
	static const char *const unknown[] = {"%z", "%", "%5", "%5%", "7", "a\\b", "%b"};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(known); i++)
		assert_true(batch_knows_pattern(known[i]));
	for (i = 0; i < ARRAY_SIZE(unknown); i++)
		assert_false(batch_knows_pattern(unknown[i]));
}

/* NULL: it is refused. */
static void expands(struct slurm_launch *l, const char *out, const char *wanted)
{
	static const struct slurm_node_conf node = {.hostname = "host", .node_name = "n1"};
	_cleanup_batch_files_ struct batch_files files = {0};
	struct err err = ERR_INIT;
	int r;

	l->files[1] = out;
	r = batch_expand_files(l, &node, &files, &err);
	if (!wanted) {
		assert_int_equal(r, -EINVAL);
		return;
	}
	assert_int_equal(r, 0);
	assert_string_equal(files.path[1], wanted);
	assert_null(files.path[0]);
	assert_null(files.path[2]);
}

static const uint8_t job_name[] = "\0\0\0\026SLURM_JOB_NAME=stderr";

static void test_files(void **state)
{
	struct slurm_launch l = {.kind = SLURM_KIND_BATCH,
		.id = {.job = 42, .step = SLURM_STEP_BATCH},
		.batch.array_task = SLURM_NO_VAL,
		.cwd = "/home/%j",
		.user = "alice",
		.env = {1, job_name, sizeof(job_name)}};

	(void)state;
	expands(&l, NULL, "/home/%j/slurm-42.out");
	expands(&l, "%x.%u.%N.%J.%s", "/home/%j/stderr.alice.host.42.batch");
	expands(&l, "/tmp/%A.%a", "/tmp/42.4294967294");
	expands(&l, "/%5j%%j%12t%3n", "/00042%j0000000000000");
	expands(&l, "/dev/%x", NULL);
	expands(&l, "/dev/fd/2", NULL);
	expands(&l, "/proc/self/fd/2", NULL);
	l.batch.array_job = 40;
	l.batch.array_task = 7;
	expands(&l, NULL, "/home/%j/slurm-40_7.out");
	expands(&l, "%A.%3a.%j", "/home/%j/40.007.42");
	/* One file twice is one file. */
	l.files[2] = "%x";
	expands(&l, "stderr", "/home/%j/stderr");
}

/* ---- the distribution ---------------------------------------------------------------------- */

static void lays_out(
	const uint32_t capacity[3], uint32_t total, bool packs, const uint32_t wanted[3])
{
	uint32_t tasks[3];

	batch_lay_out(capacity, tasks, 3, total, packs);
	assert_memory_equal(tasks, wanted, sizeof(tasks));
}

static void test_layout(void **state)
{
	static const uint32_t even[3] = {4, 4, 4}, uneven[3] = {1, 5, 2};

	(void)state;
	lays_out(even, 3, false, (const uint32_t[]){1, 1, 1});
	lays_out(even, 7, false, (const uint32_t[]){3, 2, 2});
	lays_out(even, 1, false, (const uint32_t[]){1, 0, 0});
	lays_out(even, 14, false, (const uint32_t[]){5, 5, 4});
	lays_out(uneven, 8, false, (const uint32_t[]){1, 5, 2});
	lays_out(uneven, 6, false, (const uint32_t[]){1, 3, 2});
	lays_out(uneven, 10, false, (const uint32_t[]){2, 6, 2});
	lays_out(even, 6, true, (const uint32_t[]){4, 1, 1});
	lays_out(even, 14, true, (const uint32_t[]){5, 5, 4});
	lays_out(uneven, 7, true, (const uint32_t[]){1, 5, 1});
}

/* ---- the document -------------------------------------------------------------------------- */

static void env_is(const json_t *doc, const char *name, const char *wanted)
{
	const char *value = json_string_value(json_object_get(json_object_get(doc, "env"), name));

	if (wanted)
		assert_string_equal(value, wanted);
	else
		assert_null(value);
}

static void test_document(void **state)
{
	struct site_conf site = {
		.cluster = (char *)"c", .controller_name = (char *)"ctl", .select_plugin = 109};
	_cleanup_batch_files_ struct batch_files files = {0};
	_cleanup_spec_ struct spec *spec = NULL;
	_cleanup_free_ char *bytes = NULL;
	char *words[] = {(char *)"/x/task", (char *)"node=n1", (char *)"--"};
	const struct strv before = {.v = words, .n = 3};
	json_auto_t *doc = NULL, *prolog_doc = NULL;
	const json_t *argv;
	struct slurm_frame frame;
	struct slurm_init init;
	struct err err = ERR_INIT;
	char path[PATH_MAX];
	size_t size;

	(void)state;
	(void)snprintf(
		path, sizeof(path), "%s/tests/fuzz/corpus/slurm_init/batch", getenv("top_srcdir"));
	assert_int_equal(fs_read(AT_FDCWD, path, SLURM_INIT_MAX, &bytes, &size), 0);
	assert_int_equal(slurm_init_missing(bytes, size, &frame), 0);
	slurm_init_decode(&init, bytes, &frame, 0);
	assert_int_equal(init.error, 0);
	init.chosen = true;
	init.site = &site;
	assert_int_equal(slurm_decide(&init), SLURM_REASON_NONE);
	site.mpi_default = (char *)"pmi2"; /* its steps' */
	assert_int_equal(slurm_decide(&init), SLURM_REASON_NONE);
	site.task_epilog = (char *)"/epilog";
	assert_int_equal(slurm_decide(&init), SLURM_REASON_NONE);
	site.task_epilog = NULL;
	assert_int_equal(batch_expand_files(&init.launch, &init.conf, &files, &err), 0);

	site.controllers.address[0].sin_port = htons(6817);
	const struct step_spec_input input = {.node = &init.conf,
		.launch = &init.launch,
		.site = &site,
		.ntasks = 1,
		.cwd = "/tmp"};
	struct step_spec_input with_prolog = input;
	assert_int_equal(
		batch_spec_make(&input, &files, "/spool/job00003/slurm_script", &doc, &err), 0);
	assert_int_equal(spec_from_json(doc, &spec, &err), 0);
	assert_int_equal(spec->kind, STEPD_STEP_BATCH);
	assert_string_equal(spec->script_file, "/spool/job00003/slurm_script");
	assert_string_equal(spec->cwd, "/tmp");
	assert_true(spec->env_complete);
	assert_int_equal(spec->out.mode, SPEC_STREAM_FILE);
	assert_true(spec->out.append);
	assert_int_equal(spec->err.mode, SPEC_STREAM_STDOUT);
	env_is(doc, "SLURM_JOB_ID", "3");
	env_is(doc, "SLURM_JOBID", "3");
	env_is(doc, "ENVIRONMENT", "BATCH");
	env_is(doc, "SLURM_CLUSTER_NAME", "c");
	env_is(doc, "SLURM_WORKING_CLUSTER", "c:ctl:6817:9728:109");
	env_is(doc, "SLURM_UMASK", NULL);
	env_is(doc, "SLURM_STEP_ID", NULL);
	env_is(doc, "SLURM_RESTART_COUNT", NULL);
	env_is(doc, "SLURM_RLIMIT_CORE", NULL);
	env_is(doc, "SLURM_LAUNCH_NODE_IPADDR", NULL);
	/* The program that runs a task prolog is executed in the script's place. */
	with_prolog.before = &before;
	assert_int_equal(
		batch_spec_make(&with_prolog, &files, "/spool/script", &prolog_doc, &err), 0);
	assert_string_equal(
		json_string_value(json_object_get(prolog_doc, "script_file")), "/x/task");
	argv = json_object_get(prolog_doc, "argv");
	assert_int_equal(json_array_size(argv), json_array_size(json_object_get(doc, "argv")) + 3);
	assert_string_equal(json_string_value(json_array_get(argv, 0)), "node=n1");
	assert_string_equal(json_string_value(json_array_get(argv, 1)), "--");
	assert_string_equal(json_string_value(json_array_get(argv, 2)), "/spool/script");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_document),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
