/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepd doctor: what works here, what doesn't, and the remedy. The command checks what every step
 * needs (doctor.h), each plugin what it needs itself (plugin_checkup() in <stepd/plugin.h>).
 *
 * A problem of a plugin that steps can do without is a warning here. So there is a problem if and
 * only if a step can't be started, and that is the exit status.
 */
#include "stepd/cli/doctor/doctor.h"

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "mpi/mpi.h"
#include "proctrack/proctrack.h"
#include "stepd/cli/cli.h"
#include "stepd/cli/doctor/findings.h"
#include "stepd/plugin/plugin.h"
#include "stepd/cli/options.h"

#define EXIT_CANNOT_RUN 1

#define DEFAULT_MPI "none"

struct doctor {
	const char *plugin_dir_given;
	const char *runtime_dir;
	const char *proctrack;
	const char *cgroup_root;
	bool json, quiet, mpi, slurm, help;

	char *plugin_dir;
	struct findings findings;
	struct reporter reporter;       /* adds to them */
	const struct plugin_kind *kind; /* whose plugins are checked */
	char *tracker;                  /* what a step would use; NULL: none */
	unsigned mpi_count;             /* plugins that were tried */
};

static void doctor_clear(struct doctor *d)
{
	free(d->plugin_dir);
	free(d->tracker);
	findings_clear(&d->findings);
}

static void begin(struct doctor *d, const char *heading)
{
	d->findings.heading = heading;
	d->findings.of_plugin = false;
	d->findings.optional = false;
}

/* ---- plugins ------------------------------------------------------------------------------- */

static void try_mpi(struct doctor *d, const char *name)
{
	const struct trial_options options = {.plugin_dir = d->plugin_dir,
		.runtime_dir = d->runtime_dir,
		.proctrack = d->proctrack,
		.cgroup_root = d->cgroup_root};

	d->findings.optional = strcmp(name, DEFAULT_MPI) != 0;
	doctor_mpi(&d->reporter, &options, name);
}

static void check_loaded_plugin(struct doctor *d, const struct plugin *p)
{
	char line[ERR_TEXT_SIZE];
	bool usable;
	int r;

	d->findings.heading = plugin_get_type(p);
	d->findings.of_plugin = true;
	r = plugin_check_up(p, d->reporter.fn, d->reporter.ctx);
	if (r < 0 && r != -EOPNOTSUPP)
		reporter_add(&d->reporter, STEPD_FINDING_WARNING, "plugins.checkup",
			plugin_get_type(p), NULL, "its check-up failed: %s", strerror(-r));
	if (r != -EOPNOTSUPP)
		return;
	usable = plugin_probe_here(p, line, sizeof(line));
	reporter_add(&d->reporter, usable ? STEPD_FINDING_OK : STEPD_FINDING_PROBLEM,
		"plugins.probe", plugin_get_type(p), NULL, "%s be used%s%s",
		usable ? "can" : "can't", line[0] ? ": " : "", line);
}

static int check_plugin(const char *name, void *userdata)
{
	struct doctor *d = userdata;
	_cleanup_free_ void *functions = calloc(1, plugin_functions_size(d->kind));
	_cleanup_plugin_ struct plugin *p = NULL;
	struct err err = ERR_INIT;
	char type[128], version[32];

	if (!functions)
		return -ENOMEM;
	(void)snprintf(type, sizeof(type), "%s/%s", d->kind->name, name);
	begin(d, type);
	d->findings.optional = !(d->tracker && strcmp(type, d->tracker) == 0);
	if (plugin_load(d->plugin_dir, d->kind, name, functions, &p, &err) < 0) {
		reporter_add(&d->reporter, STEPD_FINDING_PROBLEM, "plugins.load", type,
			"repair it, or remove it from the directory", "%s", err.text);
		return 0;
	}
	plugin_get_version(p, version, sizeof(version));
	reporter_add(&d->reporter, STEPD_FINDING_OK, "plugins.load", type, NULL,
		"loaded, of version %s: %s", version, plugin_get_name(p));
	check_loaded_plugin(d, p);
	if (d->mpi && d->kind == mpi_plugin_kind()) {
		d->mpi_count++;
		try_mpi(d, name);
	}
	return 0;
}

/* The tracker of a step, as the agent chooses it. */
static void find_tracker(struct doctor *d)
{
	_cleanup_proctrack_ struct proctrack *pt = NULL;
	struct err err = ERR_INIT;
	const char *type;

	begin(d, "step");
	if (proctrack_open(d->plugin_dir, d->proctrack, &pt, &err) < 0) {
		reporter_add(&d->reporter, STEPD_FINDING_PROBLEM, "step.tracker", NULL,
			"see the findings of the plugins, and --proctrack", "%s", err.text);
		return;
	}
	type = proctrack_get_type(pt);
	d->tracker = strdup(type);
	if (!d->tracker)
		d->findings.no_memory = true;
	if (proctrack_get_note(pt))
		reporter_add(&d->reporter, STEPD_FINDING_WARNING, "step.tracker", type,
			"see the findings of proctrack/cgroup", "%s", proctrack_get_note(pt));
	else
		reporter_add(&d->reporter, STEPD_FINDING_OK, "step.tracker", type, NULL,
			"a step's processes are tracked by %s", type);
}

static void find_mpi(struct doctor *d)
{
	_cleanup_mpi_ struct mpi *mpi = NULL;
	struct err err = ERR_INIT;

	if (mpi_open(d->plugin_dir, DEFAULT_MPI, &mpi, &err) < 0)
		reporter_add(&d->reporter, STEPD_FINDING_PROBLEM, "step.mpi", NULL,
			"install all of stepd's plugins", "%s", err.text);
	else
		reporter_add(&d->reporter, STEPD_FINDING_OK, "step.mpi", "mpi/" DEFAULT_MPI, NULL,
			"mpi/" DEFAULT_MPI " serves steps that request no other");
}

static void check_plugins(struct doctor *d)
{
	const struct plugin_kind *const kinds[] = {proctrack_plugin_kind(), mpi_plugin_kind()};
	struct err err = ERR_INIT;
	size_t i;
	int r;

	begin(d, "plugins");
	if (plugin_dir_find(d->plugin_dir_given, &d->plugin_dir, &err) < 0) {
		reporter_add(&d->reporter, STEPD_FINDING_PROBLEM, "plugins.directory", NULL,
			"install the plugins, or name where they are by --plugin-dir or "
			"STEPD_PLUGIN_DIR",
			"%s", err.text);
		return;
	}
	reporter_add(&d->reporter, STEPD_FINDING_OK, "plugins.directory", d->plugin_dir, NULL,
		"plugins are loaded from '%s'", d->plugin_dir);
	find_tracker(d);
	find_mpi(d);
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		d->kind = kinds[i];
		r = plugin_each(d->plugin_dir, kinds[i], check_plugin, d, &err);
		begin(d, "plugins");
		if (r < 0)
			reporter_add(&d->reporter, STEPD_FINDING_PROBLEM, "plugins.directory",
				d->plugin_dir, "make it readable",
				"the plugins can't be listed: %s",
				err.code ? err.text : strerror(-r));
	}
	if (d->mpi && d->mpi_count == 0)
		reporter_add(&d->reporter, STEPD_FINDING_WARNING, "mpi.selftest", d->plugin_dir,
			"install all of stepd's plugins",
			"there is no MPI plugin in '%s' to be tried", d->plugin_dir);
}

/* ---- all ----------------------------------------------------------------------------------- */

static void examine(struct doctor *d)
{
	d->reporter = (struct reporter){findings_add, &d->findings};
	begin(d, "kernel");
	doctor_kernel(&d->reporter);
	begin(d, "user");
	doctor_user(&d->reporter);
	begin(d, "limits");
	doctor_limits(&d->reporter);
	begin(d, "runtime directory");
	doctor_runtime(&d->reporter, d->runtime_dir);
	begin(d, "libraries");
	doctor_libraries(&d->reporter);
	check_plugins(d);
	if (d->slurm) {
		begin(d, "slurm");
		d->findings.optional = true;
		doctor_program(&d->reporter, "../../contrib/slurm/stepd-slurm-doctor",
			STEPD_LIBEXEC_DIR "/stepd-slurm-doctor");
	}
}

static bool wants_colour(void)
{
	const char *no_color = secure_getenv("NO_COLOR");
	const char *term = secure_getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no_color && *no_color) &&
		!(term && strcmp(term, "dumb") == 0);
}

static int show(const struct doctor *d)
{
	json_t *doc;
	int r = d->findings.no_memory ? -ENOMEM : 0;

	if (r == 0 && d->json) {
		doc = findings_to_json(&d->findings, d->tracker, d->quiet);
		if (!doc)
			r = -ENOMEM;
		else if (json_dumpf(doc, stdout, JSON_INDENT(2)) < 0 || putchar('\n') == EOF)
			r = -EIO;
		json_decref(doc);
	} else if (r == 0) {
		findings_print(&d->findings, d->tracker, d->quiet, wants_colour(), stdout);
	}
	if (r < 0) {
		(void)fprintf(stderr, "stepd doctor: %s\n", strerror(-r));
		return STATUS_FAILED;
	}
	return d->findings.count[STEPD_FINDING_PROBLEM] == 0 ? EXIT_SUCCESS : EXIT_CANNOT_RUN;
}

static int take_cgroup_root(
	const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	if (proctrack_set_root(arg) < 0)
		return err_set(err, -ENOMEM, "'%.200s'", arg);
	return cli_take_text(o, arg, into, err);
}

#define AT(member_) offsetof(struct doctor, member_)

/* clang-format off */
static const struct cli_option rows[] = {
	{.name = "mpi", .take = cli_take_flag, .offset = AT(mpi),
	 .doc = "also test each MPI plugin with a step of two tasks"},
	{.name = "slurm", .take = cli_take_flag, .offset = AT(slurm),
	 .doc = "also check the node's Slurm; stepd-slurm(8)"},
	{.name = "json", .take = cli_take_flag, .offset = AT(json),
	 .doc = "for programs; stepd(8) describes it"},
	{.name = "quiet", .letter = 'q', .take = cli_take_flag, .offset = AT(quiet),
	 .doc = "warnings and problems only"},
	{.name = "proctrack", .arg = "NAME", .take = cli_take_text, .offset = AT(proctrack),
	 .doc = "the tracker that steps use; default: auto"},
	{.name = "cgroup-root", .arg = "DIR", .take = take_cgroup_root, .offset = AT(cgroup_root),
	 .doc = "below which proctrack/cgroup works"},
	{.name = "plugin-dir", .arg = "DIR", .take = cli_take_text, .offset = AT(plugin_dir_given),
	 .doc = "load plugins from here"},
	{.name = "runtime-dir", .arg = "DIR", .take = cli_take_text, .offset = AT(runtime_dir),
	 .doc = "where steps are registered"},
	{.name = "help", .letter = 'h', .take = cli_take_help, .offset = AT(help), .doc = "show this"},
};
/* clang-format on */

static void doctor_print_help(void)
{
	puts("Usage: stepd doctor [OPTION...]\n"
	     "Reports what works on this machine for this user, what doesn't, and the remedy.\n"
	     "It changes nothing.\n");
	cli_options_print(rows, ARRAY_SIZE(rows), stdout);
	puts("\nExit status: 0, 1 if no step can be started, 125 if it can't be found out.");
}

int cli_doctor(int argc, char **argv)
{
	_cleanup_(doctor_clear) struct doctor d = {.proctrack = PROCTRACK_AUTO};
	struct cli_options options = {
		.rows = rows, .n = ARRAY_SIZE(rows), .command = "stepd doctor", .anywhere = true};
	struct err err = ERR_INIT;
	int rest;

	if (cli_options_parse(&options, argc, argv, &d, &rest, &err) < 0) {
		(void)fprintf(stderr, "stepd doctor: %s\n", err.text);
		return STATUS_FAILED;
	}
	if (d.help) {
		doctor_print_help();
		return EXIT_SUCCESS;
	}
	examine(&d);
	return show(&d);
}
