/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the namespace of a job is: by the settings that slurmd sends, and by job_container.conf.
 */
#include "contrib/slurm/job_namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "contrib/slurm/release.h"
#include "contrib/slurm/site_conf.h"
#include "stepd/base/fs.h"
#include "tests/lib/scratch.h"

static void test_plugins(void **state)
{
	(void)state;
	assert_true(job_namespace_is_tmpfs("job_container/tmpfs"));
	assert_true(job_namespace_is_tmpfs("namespace/tmpfs"));
	assert_true(job_namespace_is_tmpfs("tmpfs"));
	assert_false(job_namespace_is_tmpfs(NULL));
	assert_false(job_namespace_is_tmpfs("namespace/linux"));
	assert_false(job_namespace_is_tmpfs("namespace/tmpfs,linux"));
	assert_false(job_namespace_is_other(NULL));
	assert_false(job_namespace_is_other(""));
	assert_false(job_namespace_is_other("job_container/none"));
	assert_false(job_namespace_is_other("namespace/tmpfs"));
	assert_true(job_namespace_is_other("namespace/linux"));
	assert_true(job_namespace_is_other("namespace/tmpfs,linux"));
}

/* ---- as slurmd sends them ------------------------------------------------------------------- */

struct recorded {
	char *bytes;
	size_t size;
	struct slurm_frame frame;
	struct slurm_node_conf conf;
};

static void load(struct recorded *r, const char *name)
{
	struct err err = ERR_INIT;
	char path[PATH_MAX];

	assert_non_null(getenv("top_srcdir"));
	(void)snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/slurm_init/%s",
		getenv("top_srcdir"), name);
	assert_int_equal(fs_read(AT_FDCWD, path, SLURM_INIT_MAX, &r->bytes, &r->size), 0);
	assert_int_equal(slurm_init_missing(r->bytes, r->size, &r->frame), 0);
	assert_int_equal(slurm_init_decode_conf(r->bytes, &r->frame, &r->conf, &err), 0);
}

static int find_sent(struct recorded *r, struct job_namespace *n, struct err *err)
{
	const struct site_conf site = {0};

	return job_namespace_find(
		r->bytes, &r->frame, &r->conf, &site, "/nowhere/slurm.conf", 42, n, err);
}

static void assert_path(const struct job_namespace *n, const char *directory)
{
	_cleanup_free_ char *path = NULL;

	assert_non_null(n->path);
	assert_non_null(strstr(n->base, directory));
	assert_true(asprintf(&path, "%s/42/.ns", n->base) > 0);
	assert_string_equal(n->path, path);
}

static void assert_none(const struct job_namespace *n)
{
	assert_null(n->path);
	assert_null(n->base);
	assert_string_equal(job_namespace_entered(n), "");
}

static void test_sent(void **state)
{
	static const char *const files[] = {"namespace-24.11", "namespace-26.05"};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_job_namespace_ struct job_namespace n = {0};
		struct err err = ERR_INIT;
		struct recorded r;

		load(&r, files[i]);
		assert_true(job_namespace_is_tmpfs(r.conf.namespace_plugin));
		assert_true(r.frame.gres.size > 0);
		assert_int_equal(find_sent(&r, &n, &err), 0);
		assert_path(&n, "/mine/bench");
		assert_string_equal(job_namespace_entered(&n), n.path);
		assert_string_equal(n.dirs, "/tmp,/dev/shm");
		assert_null(n.init_script);
		assert_null(n.clone_script);
		assert_null(n.clone_epilog);
		assert_false(n.is_shared);
		assert_int_equal(n.clone_script_timeout_s, 10);
		assert_int_equal(n.clone_epilog_timeout_s, 10);
		job_namespace_clear(&n);
		r.frame.name_space.size--;
		assert_int_equal(find_sent(&r, &n, &err), -EBADMSG);
		assert_non_null(strstr(err.text, "namespace clonensepilog_wait"));
		assert_none(&n);
		r.frame.name_space.size += 2;
		assert_int_equal(find_sent(&r, &n, &err), -EBADMSG);
		assert_non_null(strstr(err.text, "more data than fields"));
		free(r.bytes);
	}
}

/* slurmd has them entered by the step daemon itself. */
static void test_whole_step(void **state)
{
	struct err err = ERR_INIT;
	struct job_namespace n;
	struct recorded r;

	(void)state;
	load(&r, "namespace_whole-24.11");
	assert_int_equal(find_sent(&r, &n, &err), 0);
	assert_path(&n, "/");
	assert_string_equal(job_namespace_entered(&n), "");
	job_namespace_clear(&n);
	free(r.bytes);
}

static void test_none_here(void **state)
{
	struct err err = ERR_INIT;
	struct job_namespace n;
	struct recorded r;

	(void)state;
	load(&r, "namespace_none-24.11");
	assert_true(job_namespace_is_tmpfs(r.conf.namespace_plugin));
	assert_int_equal(find_sent(&r, &n, &err), 0);
	assert_none(&n);
	free(r.bytes);
	load(&r, "srun-24.11");
	assert_int_equal(find_sent(&r, &n, &err), 0);
	assert_none(&n);
	free(r.bytes);
}

/* ---- by the file ---------------------------------------------------------------------------- */

static int find_in(const char *text, bool has_namespaces, struct job_namespace *n, struct err *err)
{
	const struct slurm_frame frame = {.release = SLURM_22_05};
	const struct slurm_node_conf conf = {.node_name = "n2"};
	const struct site_conf site = {.has_namespaces = has_namespaces};
	_cleanup_free_ char *dir = scratch_make(), *path = scratch_path(dir, "slurm.conf");
	int r;

	if (text)
		scratch_write(dir, "job_container.conf", text, strlen(text), 0644);
	r = job_namespace_find(NULL, &frame, &conf, &site, path, 42, n, err);
	scratch_remove(dir);
	return r;
}

static void test_file(void **state)
{
	static const struct {
		const char *text, *path, *script;
	} files[] = {
		{"BasePath=/base\n", "/base/42/.ns", NULL},
		{"# x\nbasepath=/base AutoBasePath=true InitScript=/x\n", "/base/42/.ns", "/x"},
		{"BasePath=/base InitScript=/x\nNodeName=n1 BasePath=/o InitScript=/y\n",
			"/base/42/.ns", "/x"},
		{"BasePath=/base InitScript=/x\nNodeName=n2 BasePath=/o InitScript=/y\n",
			"/o/42/.ns", "/y"},
		{"BasePath=/base InitScript=/x\nNodeName=n2 BasePath=/o\n", "/o/42/.ns", "/x"},
		{"BasePath=/base\nNodeName=n1 BasePath=/other\n", "/base/42/.ns", NULL},
		{"BasePath=/base\nNodeName=n[1-3] BasePath=/other\n", "/other/42/.ns", NULL},
		{"NodeName=n[1-3] BasePath=/other\nBasePath=/base\n", "/base/42/.ns", NULL},
		{"NodeName=n[1-3] BasePath=/other\nNodeName=n2,x BasePath=/last\n", "/last/42/.ns",
			NULL},
		{"NodeName=n[3-9] BasePath=/other\n", NULL, NULL},
		{"AutoBasePath=true\n", NULL, NULL},
		{"BasePath=none\n", NULL, NULL},
	};
	struct err err = ERR_INIT;
	struct job_namespace n;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(files); i++) {
		assert_int_equal(find_in(files[i].text, true, &n, &err), 0);
		if (files[i].path) {
			assert_string_equal(n.path, files[i].path);
			assert_string_equal(job_namespace_entered(&n), n.path);
			assert_null(n.dirs);
		} else {
			assert_none(&n);
		}
		if (files[i].script)
			assert_string_equal(n.init_script, files[i].script);
		else
			assert_null(n.init_script);
		job_namespace_clear(&n);
	}
	assert_int_equal(find_in(files[0].text, false, &n, &err), 0);
	assert_none(&n);
}

static void test_file_fails(void **state)
{
	char text[PATH_MAX + 64];
	struct err err = ERR_INIT;
	struct job_namespace n;

	(void)state;
	assert_int_equal(find_in(NULL, true, &n, &err), -ENOENT);
	assert_non_null(strstr(err.text, "job_container.conf"));
	assert_true(find_in("NodeName=n[1- BasePath=/base\n", true, &n, &err) < 0);
	assert_non_null(strstr(err.text, "n[1-"));
	(void)snprintf(text, sizeof(text), "BasePath=/%0*d\n", PATH_MAX - 4, 0);
	assert_int_equal(find_in(text, true, &n, &err), -ENAMETOOLONG);
	assert_none(&n);
}

/* A Slurm that was built for several slurmds on a machine has one for each. */
static void test_directory_of_node(void **state)
{
	_cleanup_free_ char *base = scratch_make(), *node = scratch_path(base, "n2");
	_cleanup_free_ char *job = scratch_path(node, "42"), *file = scratch_path(job, ".ns");
	_cleanup_job_namespace_ struct job_namespace n = {0};
	char text[PATH_MAX];
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(mkdir(node, 0700), 0);
	(void)snprintf(text, sizeof(text), "BasePath=%s\n", base);
	assert_int_equal(find_in(text, true, &n, &err), 0);
	assert_string_equal(n.path, file);
	assert_string_equal(n.base, node);
	scratch_remove(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plugins),
		cmocka_unit_test(test_sent),
		cmocka_unit_test(test_whole_step),
		cmocka_unit_test(test_none_here),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_file_fails),
		cmocka_unit_test(test_directory_of_node),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
