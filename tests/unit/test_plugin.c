/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The plugin loader, with plugins that have one fault each (tests/lib/trial_plugin.c).
 */
#include "stepd/plugin/plugin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <grp.h>
#include <sys/wait.h>

#include "stepd/api/plugin.h"
#include "tests/lib/scratch.h"

#define NOBODY 65534

struct trial_functions {
	int (*required)(void);
	int (*optional)(void);
};

static const struct plugin_symbol trial_symbols[] = {
	{"trial_p_required", offsetof(struct trial_functions, required), false},
	{"trial_p_optional", offsetof(struct trial_functions, optional), true},
};

static const struct plugin_kind trial_kind = {
	.name = "trial",
	.symbols = trial_symbols,
	.symbols_count = ARRAY_SIZE(trial_symbols),
};

struct place {
	char *dir; /* the plugin directory */
	char *log; /* what the plugins note */
	int fds;
};

static int set_up(void **state)
{
	struct place *place = calloc(1, sizeof(*place));

	if (!place)
		return -1;
	place->dir = scratch_make();
	place->log = scratch_path(place->dir, "log");
	if (setenv("TRIAL_LOG", place->log, 1) < 0)
		return -1;
	place->fds = scratch_count_fds();
	*state = place;
	return 0;
}

static int tear_down(void **state)
{
	struct place *place = *state;
	int fds = scratch_count_fds();

	if (fds != place->fds)
		print_error("%d descriptors before the test, %d after it\n", place->fds, fds);
	scratch_remove(place->dir);
	fds -= place->fds;
	free(place->dir);
	free(place->log);
	free(place);
	return fds;
}

static void install(const char *dir, const char *variant)
{
	_cleanup_free_ char *name = NULL, *from = NULL;

	assert_true(asprintf(&name, "trial_%s.so", variant) > 0);
	from = scratch_path("tests/lib/plugins", name);
	scratch_copy_built(from, dir, name);
}

static void assert_contains(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' does not contain '%s'", text, part);
}

static void assert_log(const struct place *place, const char *wanted)
{
	_cleanup_free_ char *log = NULL;
	int r = fs_read(AT_FDCWD, place->log, 4096, &log, NULL);

	assert_true(r == 0 || r == -ENOENT);
	assert_string_equal(log ? log : "", wanted);
}

/* The load fails with this code and these words, and gives nothing out. */
static void assert_refused(const char *dir, const char *name, int code, const char *words)
{
	struct trial_functions f = {NULL, NULL};
	struct plugin *p = NULL;
	struct err err = ERR_INIT;
	int r = plugin_load(dir, &trial_kind, name, &f, &p, &err);

	assert_int_equal(r, code);
	assert_int_equal(err.code, code);
	assert_contains(err.text, words);
	assert_null(strchr(err.text, '\n'));
	assert_null(p);
	assert_true(f.required == NULL);
	assert_true(f.optional == NULL);
	assert_int_equal(plugin_load(dir, &trial_kind, name, &f, &p, NULL), code);
}

/* ---- a good one ----------------------------------------------------------------------------- */

static void test_life(void **state)
{
	const struct place *place = *state;
	struct trial_functions f = {NULL, NULL};
	struct plugin *p = NULL;
	struct err err = ERR_INIT;
	char text[64];

	install(place->dir, "good");
	assert_int_equal(plugin_load(place->dir, &trial_kind, "good", &f, &p, &err), 0);
	assert_log(place, "init\n");
	assert_string_equal(plugin_get_type(p), "trial/good");
	assert_string_equal(plugin_get_name(p), "a plugin on trial");
	plugin_get_version(p, text, sizeof(text));
	assert_string_equal(text, "0.1.0");
	assert_true(plugin_probe_here(p, text, sizeof(text)));
	assert_string_equal(text, "fit for a trial");
	assert_int_equal(f.required(), 41);
	assert_int_equal(f.optional(), 42);
	assert_null(plugin_unload(p));
	assert_log(place, "init\nprobe\nrequired\noptional\nfini\n");
	assert_null(plugin_unload(NULL));
}

static void test_again_after_unload(void **state)
{
	const struct place *place = *state;
	struct trial_functions f;
	struct plugin *p = NULL;
	int i;

	install(place->dir, "good");
	for (i = 0; i < 3; i++) {
		assert_int_equal(
			plugin_load(place->dir, &trial_kind, "trial/good", &f, &p, NULL), 0);
		p = plugin_unload(p);
	}
	assert_log(place, "init\nfini\ninit\nfini\ninit\nfini\n");
}

static void test_optional_absent(void **state)
{
	const struct place *place = *state;
	struct trial_functions f = {NULL, (int (*)(void))1};
	struct plugin *p = NULL;
	char text[8] = "unset";

	install(place->dir, "bare");
	assert_int_equal(plugin_load(place->dir, &trial_kind, "bare", &f, &p, NULL), 0);
	assert_non_null(f.required);
	assert_true(f.optional == NULL);
	assert_true(plugin_probe_here(p, text, sizeof(text)));
	assert_string_equal(text, "");
	(void)plugin_unload(p);
}

static void test_without_version(void **state)
{
	const struct place *place = *state;
	struct trial_functions f;
	struct plugin *p = NULL;
	char text[32];

	install(place->dir, "noversion");
	assert_int_equal(plugin_load(place->dir, &trial_kind, "noversion", &f, &p, NULL), 0);
	plugin_get_version(p, text, sizeof(text));
	assert_string_equal(text, "any");
	(void)plugin_unload(p);
}

static void test_unusable_and_careless(void **state)
{
	const struct place *place = *state;
	struct trial_functions f;
	struct plugin *p = NULL;
	char text[9];

	install(place->dir, "unusable");
	assert_int_equal(plugin_load(place->dir, &trial_kind, "unusable", &f, &p, NULL), 0);
	assert_false(plugin_probe_here(p, text, sizeof(text)));
	assert_string_equal(text, "xxxxxxxx");
	(void)plugin_unload(p);
}

static void note_finding(void *ctx, const stepd_finding_t *finding)
{
	char *text = ctx;
	size_t at = strlen(text);

	(void)snprintf(
		text + at, 256 - at, "%s %d %s\n", finding->id, finding->level, finding->text);
}

static void test_checkup(void **state)
{
	static const struct {
		const char *variant;
		int code;
		const char *told;
	} rows[] = {
		{"good", 0, "good.first 1 a first finding\ngood.second 0 a second one\n"},
		{"bare", -EOPNOTSUPP, ""},
		{"unusable", -EACCES, ""},
		{"noversion", -EIO, ""},
	};
	const struct place *place = *state;
	struct trial_functions f;
	struct plugin *p = NULL;
	char told[256];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		install(place->dir, rows[i].variant);
		assert_int_equal(
			plugin_load(place->dir, &trial_kind, rows[i].variant, &f, &p, NULL), 0);
		told[0] = '\0';
		assert_int_equal(plugin_check_up(p, note_finding, told), rows[i].code);
		assert_string_equal(told, rows[i].told);
		(void)plugin_unload(p);
	}
}

/* ---- bad ones ------------------------------------------------------------------------------- */

static void test_faults(void **state)
{
	static const struct {
		const char *variant;
		int code;
		const char *words;
	} faults[] = {
		{"wrongkind", -ENOEXEC, "is of type 'proctrack/wrongkind', not of kind 'trial'"},
		{"longerkind", -ENOEXEC, "is of type 'trials/longerkind', not of kind 'trial'"},
		{"misnamed", -ENOEXEC, "has the type 'trial/other'"},
		{"notype", -ENOEXEC, "does not export plugin_type"},
		{"noname", -ENOEXEC, "does not export plugin_name"},
		{"otherversion", -ENOEXEC, "version 1.1.0 of the plugin interface, this is 0.1.0"},
		{"noinit", -ENOEXEC, "lacks the function init()"},
		{"nofini", -ENOEXEC, "lacks the function fini()"},
		{"nosymbol", -ENOEXEC, "lacks the function trial_p_required()"},
		{"unresolved", -ENOEXEC, "trial_nobody_has_this"},
	};
	const struct place *place = *state;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		install(place->dir, faults[i].variant);
		assert_refused(place->dir, faults[i].variant, faults[i].code, faults[i].words);
	}
	assert_log(place, ""); /* none of their functions was called */
}

static void test_init_fails(void **state)
{
	const struct place *place = *state;

	install(place->dir, "initfails");
	assert_refused(place->dir, "initfails", -EACCES, "init() failed: Permission denied");
	assert_log(place, "init\ninit\n"); /* of the two loads; no fini */
	install(place->dir, "initmute");
	assert_refused(place->dir, "initmute", -EIO, "init() failed");
}

static void test_no_plugin_files(void **state)
{
	const char *dir = ((const struct place *)*state)->dir;
	_cleanup_free_ char *sub = scratch_path(dir, "trial_dir.so");
	_cleanup_free_ char *fifo = scratch_path(dir, "trial_fifo.so");
	_cleanup_free_ char *null = scratch_path(dir, "trial_null.so");

	scratch_write(dir, "trial_text.so", "#!/bin/sh\nexit 0\n", 17, 0755);
	assert_refused(dir, "text", -ENOEXEC, "can't be loaded as a plugin");
	scratch_write(dir, "trial_empty.so", "", 0, 0755);
	assert_refused(dir, "empty", -ENOEXEC, "can't be loaded as a plugin");
	scratch_write(dir, "trial_cut.so", "\177ELF\2\1\1", 7, 0755);
	assert_refused(dir, "cut", -ENOEXEC, "can't be loaded as a plugin");

	assert_int_equal(mkdir(sub, 0755), 0);
	assert_refused(dir, "dir", -ENOEXEC, "not a regular file");
	assert_int_equal(mkfifo(fifo, 0644), 0);
	assert_refused(dir, "fifo", -ENOEXEC, "not a regular file");
	assert_int_equal(symlink("/dev/null", null), 0);
	assert_refused(dir, "null", -ENOEXEC, "not a regular file");
}

static void test_bad_names(void **state)
{
	static const char *const names[] = {"", "..", ".", "trial/", "trial/..", "../trial_good",
		"/trial_good", "trial/sub/good", "trial/trial/good", "trials/good",
		"proctrack/good", "good.so", "go od", "good\n", "g\303\266\303\266d"};
	const struct place *place = *state;
	char longest[66], huge[5000];
	size_t i;

	install(place->dir, "good");
	for (i = 0; i < ARRAY_SIZE(names); i++)
		assert_refused(place->dir, names[i], -EINVAL, "is not the name of a trial plugin");
	memset(longest, 'a', 65);
	longest[64] = '\0';
	assert_refused(place->dir, longest, -ENOENT, "there is no plugin");
	memset(longest, 'a', 65);
	longest[65] = '\0';
	assert_refused(place->dir, longest, -EINVAL, "is not the name of a trial plugin");
	memset(huge, 'a', sizeof(huge));
	huge[sizeof(huge) - 1] = '\0';
	assert_refused(place->dir, huge, -EINVAL, "write NAME or trial/NAME"); /* not cut off */
}

static void test_not_there(void **state)
{
	const char *dir = ((const struct place *)*state)->dir;
	_cleanup_free_ char *dangling = scratch_path(dir, "trial_dangling.so");
	_cleanup_free_ char *nothing = scratch_path(dir, "nothing");
	_cleanup_free_ char *file = scratch_path(dir, "trial_good.so");

	assert_refused(dir, "good", -ENOENT, "holds no trial plugin at all");
	install(dir, "good");
	install(dir, "bare");
	scratch_write(dir, "mpi_other.so", "", 0, 0755);
	assert_refused(dir, "god", -ENOENT, "the plugin files there are: bare, good");
	assert_int_equal(symlink("/nowhere/trial_good.so", dangling), 0);
	assert_refused(dir, "dangling", -ENOENT, "there is no plugin trial/dangling");
	assert_refused(nothing, "good", -ENOENT, nothing);
	assert_refused(file, "good", -ENOTDIR, file);
}

/* First of all in a test: what is declared before it would never be cleaned up. */
static void skip_unless_root(void)
{
	if (geteuid() != 0)
		skip();
}

static int load_only(const char *dir)
{
	struct trial_functions f;
	struct plugin *p = NULL;
	int r = plugin_load(dir, &trial_kind, "good", &f, &p, NULL);

	(void)plugin_unload(p);
	return -r;
}

/* The exit status of PROGRAM load DIR. */
static int run_program(const char *program, const char *dir)
{
	int status = -1;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		(void)execl(program, program, "load", dir, (char *)NULL);
		_exit(255);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* ---- who could have put it there ------------------------------------------------------------ */

static void test_refused_to_root(void **state)
{
	skip_unless_root();

	const struct place *place = *state;
	_cleanup_free_ char *file = scratch_path(place->dir, "trial_good.so");

	install(place->dir, "good");
	assert_int_equal(chmod(file, 0775), 0);
	assert_refused(place->dir, "good", -EPERM, "can be written by others");
	assert_int_equal(chmod(file, 0757), 0);
	assert_refused(place->dir, "good", -EPERM, "can be written by others");
	assert_int_equal(chmod(file, 0755), 0);
	assert_int_equal(chown(file, NOBODY, 0), 0);
	assert_refused(place->dir, "good", -EPERM, "belongs to uid 65534");
	assert_int_equal(chown(file, 0, 0), 0);

	assert_int_equal(chmod(place->dir, 0775), 0);
	assert_refused(place->dir, "good", -EPERM, "can be written by others");
	assert_int_equal(chmod(place->dir, 01777), 0); /* anybody could add a plugin */
	assert_refused(place->dir, "good", -EPERM, "can be written by others");
	assert_int_equal(chmod(place->dir, 0755), 0);
	assert_int_equal(chown(place->dir, NOBODY, 0), 0);
	assert_refused(place->dir, "good", -EPERM, "belongs to uid 65534");
	assert_log(place, ""); /* all were refused before any code of theirs ran */
}

static void test_parent_refused_to_root(void **state)
{
	skip_unless_root();

	const struct place *place = *state;
	_cleanup_free_ char *below = scratch_path(place->dir, "sub");
	struct trial_functions f;
	struct plugin *p = NULL;

	assert_int_equal(mkdir(below, 0755), 0);
	install(below, "good");
	assert_int_equal(plugin_load(below, &trial_kind, "good", &f, &p, NULL), 0);
	p = plugin_unload(p);
	assert_int_equal(chmod(place->dir, 0777), 0);
	assert_refused(below, "good", -EPERM, "can be changed by others");
	assert_int_equal(chmod(place->dir, 0775), 0);
	assert_refused(below, "good", -EPERM, "can be changed by others");
	assert_int_equal(chmod(place->dir, 0755), 0);
	assert_int_equal(chown(place->dir, NOBODY, 0), 0);
	assert_refused(below, "good", -EPERM, "can be changed by others");
}

/* Sticky: what stands in the directory can't be replaced, though others can add to it. */
static void test_sticky_parent(void **state)
{
	skip_unless_root();

	const struct place *place = *state;
	_cleanup_free_ char *below = scratch_path(place->dir, "sub");
	struct trial_functions f;
	struct plugin *p = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(mkdir(below, 0755), 0);
	install(below, "good");
	assert_int_equal(chmod(place->dir, 01777), 0);
	assert_int_equal(plugin_load(below, &trial_kind, "good", &f, &p, &err), 0);
	(void)plugin_unload(p);
}

/* A link from a good directory into one that others can change. */
static void test_link_to_bad_place(void **state)
{
	skip_unless_root();

	const struct place *place = *state;
	_cleanup_free_ char *link = scratch_path(place->dir, "trial_good.so");
	_cleanup_free_ char *below = scratch_path(place->dir, "sub");
	struct trial_functions f;
	struct plugin *p = NULL;

	assert_int_equal(mkdir(below, 0755), 0);
	install(below, "good");
	assert_int_equal(symlink("sub/trial_good.so", link), 0);
	assert_int_equal(plugin_load(place->dir, &trial_kind, "good", &f, &p, NULL), 0);
	p = plugin_unload(p);
	assert_int_equal(chmod(below, 0777), 0);
	assert_refused(place->dir, "good", -EPERM, "can be changed by others");
}

/* As a program in a build tree: bin/prog and plugins/ below a directory that others can write.
 * The program is this one, which loads the plugin when it is given two arguments. */
static void test_beside_the_program(void **state)
{
	skip_unless_root();

	const struct place *place = *state;
	_cleanup_free_ char *bin = scratch_path(place->dir, "bin");
	_cleanup_free_ char *plugins = scratch_path(place->dir, "plugins");
	_cleanup_free_ char *program = scratch_path(bin, "prog");
	_cleanup_free_ char *self = NULL;
	size_t size = 0;

	assert_int_equal(mkdir(bin, 0755), 0);
	assert_int_equal(mkdir(plugins, 0755), 0);
	install(plugins, "good");
	assert_int_equal(fs_read(AT_FDCWD, "/proc/self/exe", 1u << 30, &self, &size), 0);
	scratch_write(bin, "prog", self, size, 0755);
	assert_int_equal(chmod(place->dir, 0777), 0);
	assert_refused(plugins, "good", -EPERM, "can be changed by others");
	assert_int_equal(run_program(program, plugins), 0);
	assert_int_equal(chmod(plugins, 0777), 0); /* not above the program */
	assert_int_equal(run_program(program, plugins), EPERM);
}

/* Who is not root gains nothing by a plugin of others, and is not refused. */
static void test_not_root(void **state)
{
	skip_unless_root();

	const struct place *place = *state;
	struct trial_functions f;
	struct plugin *p = NULL;
	int status = -1;
	pid_t pid;

	install(place->dir, "good");
	assert_int_equal(chmod(place->dir, 0777), 0);
	assert_refused(place->dir, "good", -EPERM, "can be written by others");
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
			_exit(2);
		_exit(plugin_load(place->dir, &trial_kind, "good", &f, &p, NULL) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- lists and places ----------------------------------------------------------------------- */

struct found {
	char names[256];
	int answer; /* of the callback */
};

static int note_found(const char *name, void *userdata)
{
	struct found *found = userdata;
	size_t len = strlen(found->names);

	(void)snprintf(found->names + len, sizeof(found->names) - len, "%s ", name);
	return found->answer;
}

static void test_each(void **state)
{
	static const char *const files[] = {"trial_b.so", "trial_a.so", "trial_.so", "trial_c.la",
		"trials_d.so", "mpi_e.so", "trial.so", "xtrial_f.so", "trial_g_h.so"};
	const struct place *place = *state;
	struct found found = {.names = "", .answer = 0};
	struct err err = ERR_INIT;
	_cleanup_free_ char *nothing = scratch_path(place->dir, "nothing");
	size_t i;

	assert_int_equal(plugin_each(place->dir, &trial_kind, note_found, &found, &err), 0);
	assert_string_equal(found.names, "");
	for (i = 0; i < ARRAY_SIZE(files); i++)
		scratch_write(place->dir, files[i], "", 0, 0644);
	assert_int_equal(plugin_each(place->dir, &trial_kind, note_found, &found, &err), 0);
	assert_string_equal(found.names, "a b g_h ");

	found = (struct found){.names = "", .answer = 1}; /* not negative: goes on */
	assert_int_equal(plugin_each(place->dir, &trial_kind, note_found, &found, &err), 0);
	assert_string_equal(found.names, "a b g_h ");
	found = (struct found){.names = "", .answer = -ELOOP};
	assert_int_equal(plugin_each(place->dir, &trial_kind, note_found, &found, &err), -ELOOP);
	assert_string_equal(found.names, "a ");

	assert_int_equal(plugin_each(nothing, &trial_kind, note_found, &found, &err), -ENOENT);
	assert_contains(err.text, nothing);
}

static void test_dir_find(void **state)
{
	const struct place *place = *state;
	_cleanup_free_ char *real = realpath(place->dir, NULL);
	_cleanup_free_ char *given = NULL, *by_env = NULL, *none = NULL;
	struct err err = ERR_INIT;

	assert_non_null(real);
	assert_int_equal(setenv("STEPD_PLUGIN_DIR", "/nowhere/at/all", 1), 0);
	assert_int_equal(plugin_dir_find(place->dir, &given, &err), 0);
	assert_string_equal(given, real);
	assert_int_equal(plugin_dir_find(NULL, &none, &err), -ENOENT);
	assert_contains(err.text, "/nowhere/at/all");
	assert_null(none);
	assert_int_equal(setenv("STEPD_PLUGIN_DIR", place->dir, 1), 0);
	assert_int_equal(plugin_dir_find(NULL, &by_env, &err), 0);
	assert_string_equal(by_env, real);
	assert_int_equal(unsetenv("STEPD_PLUGIN_DIR"), 0);
}

#define TRIAL(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TRIAL(test_life),
		TRIAL(test_again_after_unload),
		TRIAL(test_optional_absent),
		TRIAL(test_without_version),
		TRIAL(test_checkup),
		TRIAL(test_unusable_and_careless),
		TRIAL(test_faults),
		TRIAL(test_init_fails),
		TRIAL(test_no_plugin_files),
		TRIAL(test_bad_names),
		TRIAL(test_not_there),
		TRIAL(test_refused_to_root),
		TRIAL(test_parent_refused_to_root),
		TRIAL(test_sticky_parent),
		TRIAL(test_link_to_bad_place),
		TRIAL(test_beside_the_program),
		TRIAL(test_not_root),
		TRIAL(test_each),
		TRIAL(test_dir_find),
	};

	if (argc == 3)
		return load_only(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
