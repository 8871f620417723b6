/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One suite for every process tracking plugin: each that is found in the build tree's plugin
 * directory must pass all of it. One that can't work on this machine is skipped, with its reason.
 *
 *   test_proctrack_contract [PATTERN]     only the tests whose name, "cgroup: wait: ...", fits
 *   CONTRACT_ROUNDS=1000                  of the chains; 20 if not set, with STEPD_TEST_ALL=1 50
 *   STEPD_PLUGIN_DIR=...                  another plugin directory
 */
#include "tests/lib/contract.h"

#include <dlfcn.h>
#include <limits.h>
#include <string.h>

#include "stepd/plugin/plugin.h"

#define TESTS_MAX 256

struct suite {
	struct CMUnitTest tests[TESTS_MAX];
	struct contract_case cases[TESTS_MAX];
	size_t n;
	const char *plugin_dir;
};

/* Whether the backend can do its work here, and its line on that. One that can't be loaded is
 * tested, and fails. */
static bool is_usable(const char *dir, const char *name, char *text, size_t size)
{
	_cleanup_plugin_ struct plugin *plugin = NULL;
	const struct plugin_kind *kind = proctrack_plugin_kind();
	void *functions[64];
	struct err err = ERR_INIT;

	assert_true(kind->symbols_count <= ARRAY_SIZE(functions));
	if (plugin_load(dir, kind, name, functions, &plugin, &err) == 0)
		return plugin_probe_here(plugin, text, size);
	(void)printf("# %s\n", err.text);
	return true;
}

static void test_skipped(void **state)
{
	(void)state; /* its name says so */
}

static struct CMUnitTest *add_test(struct suite *suite, const char *backend, const char *name)
{
	struct contract_case *its_case = &suite->cases[suite->n];
	struct CMUnitTest *test = &suite->tests[suite->n++];

	assert_true(suite->n < TESTS_MAX);
	its_case->backend = backend;
	its_case->plugin_dir = suite->plugin_dir;
	(void)snprintf(its_case->name, sizeof(its_case->name), "%s: %s", backend, name);
	*test = (struct CMUnitTest){
		.name = its_case->name, .test_func = test_skipped, .initial_state = its_case};
	return test;
}

static void add_tests(struct suite *suite, const char *backend, const struct contract_test *tests)
{
	struct CMUnitTest *test;

	for (; tests->name; tests++) {
		test = add_test(suite, backend, tests->name);
		test->test_func = tests->run;
		test->setup_func = contract_setup;
		test->teardown_func = contract_teardown;
	}
}

/* The stand-in for the vendor's library of proctrack/cray_aries: one that is loaded is found by its
 * soname. Without it that plugin is skipped. */
static void load_job_library(const char *top)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/tests/lib/libjob/libjob.so.0", top);
	if (!dlopen(path, RTLD_NOW | RTLD_LOCAL))
		(void)printf("# %s\n", dlerror());
}

static int add_backend(const char *name, void *userdata)
{
	struct suite *suite = userdata;
	char *backend = strdup(name); /* as long as the program */
	char text[200] = "", reason[220];

	assert_non_null(backend);
	if (is_usable(suite->plugin_dir, backend, text, sizeof(text))) {
		(void)printf("# %s: %s\n", name, text);
		add_tests(suite, backend, contract_basic_tests);
		add_tests(suite, backend, contract_member_tests);
		add_tests(suite, backend, contract_agent_tests);
		add_tests(suite, backend, contract_hostile_tests);
		return 0;
	}
	(void)snprintf(reason, sizeof(reason), "# SKIP %s", text);
	(void)add_test(suite, backend, reason);
	return 0;
}

int main(int argc, char **argv)
{
	static struct suite suite;
	const char *top = getenv("top_builddir");
	struct err err = ERR_INIT;
	char dir[PATH_MAX];

	if (!top)
		top = ".";
	(void)setenv("top_builddir", top, 0);
	(void)snprintf(dir, sizeof(dir), "%s/stepd/cli/plugins", top);
	suite.plugin_dir = getenv("STEPD_PLUGIN_DIR");
	if (!suite.plugin_dir)
		suite.plugin_dir = dir;
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	load_job_library(top);
	if (plugin_each(suite.plugin_dir, proctrack_plugin_kind(), add_backend, &suite, &err) < 0 ||
		suite.n == 0) {
		(void)printf("Bail out! no plugins to test: %s\n", err.text);
		return 99;
	}
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return _cmocka_run_group_tests("proctrack contract", suite.tests, suite.n, NULL, NULL);
}
