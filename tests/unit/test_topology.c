/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads the machines of $top_srcdir/tests/data/topology, this one, and files that are none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <sched.h>

#include "stepd/binding/topology.h"
#include "tests/lib/scratch.h"

/* False: this build has no hwloc. */
static bool has_hwloc(void)
{
	_cleanup_topology_ struct topology t = {0};
	struct err err = ERR_INIT;
	int r = topology_load(NULL, NULL, &t, &err);

	if (r < 0 && r != -EOPNOTSUPP)
		fail_msg("%s", err.text);
	if (r < 0)
		assert_non_null(strstr(err.text, "hwloc"));
	return r == 0;
}

static char *machine_path(const char *name)
{
	const char *top = getenv("top_srcdir");
	char *path = NULL;

	if (!top)
		fail_msg("top_srcdir is not set");
	assert_true(asprintf(&path, "%s/tests/data/topology/%s.xml", top, name) > 0);
	return path;
}

static void load(const char *name, struct topology *t)
{
	_cleanup_free_ char *path = machine_path(name);
	struct err err = ERR_INIT;

	if (topology_load(path, NULL, t, &err) < 0)
		fail_msg("%s: %s", name, err.text);
}

static void test_machines(void **state)
{
	static const struct {
		const char *name;
		size_t count, at; /* and one CPU of it: */
		struct topology_cpu cpu;
	} cases[] = {
		{"cores1", 1, 0, {0, 0, 0, 0}},
		{"cores4smt", 8, 5, {5, 2, 0, 0}},
		{"cores12llc", 12, 4, {4, 4, 0, 1}},
		{"cores16", 16, 9, {3, 9, 1, 1}},
		{"cores64smt", 128, 127, {127, 63, 1, 3}},
		{"cores64smt", 128, 34, {17, 17, 0, 1}},
		{"cores256smt", 512, 511, {511, 255, 3, 7}},
	};
	size_t i;

	(void)state;
	if (!has_hwloc())
		skip();
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_topology_ struct topology t = {0};

		load(cases[i].name, &t);
		assert_int_equal(t.count, cases[i].count);
		assert_memory_equal(&t.cpus[cases[i].at], &cases[i].cpu, sizeof(cases[i].cpu));
	}
}

static void test_this_machine(void **state)
{
	_cleanup_topology_ struct topology t = {0};
	struct err err = ERR_INIT;
	cpu_set_t mine;
	size_t i;

	(void)state;
	if (!has_hwloc())
		skip();
	assert_int_equal(topology_load(NULL, NULL, &t, &err), 0);
	assert_int_equal(sched_getaffinity(0, sizeof(mine), &mine), 0);
	assert_true(t.count >= (size_t)CPU_COUNT(&mine));
	for (i = 0; i < t.count; i++)
		CPU_CLR(t.cpus[i].cpu, &mine);
	assert_int_equal(CPU_COUNT(&mine), 0);
}

/* Nothing of the library is left, nor a child, nor a descriptor. */
static void test_nothing_stays(void **state)
{
	_cleanup_topology_ struct topology t = {0};
	_cleanup_free_ char *maps = NULL;
	struct err err = ERR_INIT;
	int fds = scratch_count_fds();

	(void)state;
	if (!has_hwloc())
		skip();
	assert_int_equal(topology_load(NULL, NULL, &t, &err), 0);
	assert_int_equal(fs_read(AT_FDCWD, "/proc/self/maps", 1u << 20, &maps, NULL), 0);
	assert_null(strstr(maps, "hwloc"));
	assert_int_equal(scratch_count_fds(), fds);
	assert_null(getenv("HWLOC_PLUGINS_PATH"));
}

static void bad(const char *path, const char *wanted)
{
	struct topology t = {.count = 77};
	struct err err = ERR_INIT;
	int fds = scratch_count_fds(), r = topology_load(path, NULL, &t, &err);

	if (r >= 0)
		fail_msg("%s was taken", path);
	if (!strstr(err.text, wanted) || !strstr(err.text, path))
		fail_msg("%s: got '%s', which lacks '%s'", path, err.text, wanted);
	assert_int_equal(t.count, 77);
	assert_int_equal(scratch_count_fds(), fds);
}

static void test_files_that_are_none(void **state)
{
	_cleanup_free_ char *dir = NULL, *path = NULL, *good = NULL, *text = NULL, *fifo = NULL;
	static const char *const texts[] = {"", "x", "<?xml version=\"1.0\"?>", "<topology/>",
		"<topology version=\"2.0\"></topology>",
		"<topology version=\"9.0\"><object/></topology>",
		"<topology version=\"2.0\"><object type=\"Machine\" cpuset=\"0x1\"/></topology>"};
	size_t size, i;

	(void)state;
	if (!has_hwloc())
		skip();
	dir = scratch_make();
	path = scratch_path(dir, "machine.xml");
	fifo = scratch_path(dir, "fifo");
	bad(path, "No such file");
	bad(dir, "regular file");
	assert_int_equal(mkfifo(fifo, 0600), 0);
	bad(fifo, "regular file");
	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		scratch_write(dir, "machine.xml", texts[i], strlen(texts[i]), 0644);
		bad(path, "lstopo");
	}
	/* Cut anywhere. */
	good = machine_path("cores4smt");
	assert_int_equal(fs_read(AT_FDCWD, good, 1u << 20, &text, &size), 0);
	for (i = 1; i < size - 20; i += 61) {
		scratch_write(dir, "machine.xml", text, i, 0644);
		bad(path, "lstopo");
	}
	scratch_remove(dir);
}

/* hwloc 2.9 dies of it; whatever a version does, this process gets an answer. */
static void test_what_the_library_dies_of(void **state)
{
	_cleanup_free_ char *dir = NULL, *path = NULL, *good = NULL, *text = NULL;
	_cleanup_topology_ struct topology t = {0};
	struct err err = ERR_INIT;
	size_t size;
	char *p;
	int r;

	(void)state;
	if (!has_hwloc())
		skip();
	good = machine_path("cores4smt");
	assert_int_equal(fs_read(AT_FDCWD, good, 1u << 20, &text, &size), 0);
	for (p = text; (p = strstr(p, "complete_cpuset"));)
		memcpy(p, "nomplete_cpuset", 15);
	dir = scratch_make();
	path = scratch_path(dir, "machine.xml");
	scratch_write(dir, "machine.xml", text, size, 0644);
	r = topology_load(path, NULL, &t, &err);
	if (r < 0)
		assert_non_null(strstr(err.text, path));
	else
		assert_int_equal(t.count, 8);
	scratch_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_machines),
		cmocka_unit_test(test_this_machine),
		cmocka_unit_test(test_nothing_stays),
		cmocka_unit_test(test_files_that_are_none),
		cmocka_unit_test(test_what_the_library_dies_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
