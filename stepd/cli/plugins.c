/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepd plugins, and --mpi=list: what is installed and what it can do on this machine. Each plugin
 * is loaded as the agent loads it, probed, and unloaded; one that can't be loaded is a row with the
 * reason.
 *
 * --json gives an array with one object a plugin, in the order of the table. Keys are not renamed
 * or removed, others may join them:
 *   type     "proctrack/cgroup", by the name of the file
 *   path     the file
 *   name     plugin_name, null if it can't be loaded
 *   version  "0.1.0", "any" where the plugin names none, null if it can't be loaded
 *   usable   whether it can do its work here, by this user
 *   text     the plugin's line on what it offers here, or why it can't be used; may be empty
 *   error    why it can't be loaded, else null
 */
#include "stepd/cli/cli.h"

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "mpi/mpi.h"
#include "proctrack/proctrack.h"
#include "stepd/base/buffer.h"
#include "stepd/cli/options.h"
#include "stepd/plugin/plugin.h"
#include "stepd/record/report.h"

#define EXIT_BROKEN 1 /* some plugin can't be loaded */

struct row {
	char *type;
	char *path;
	char *name; /* NULL: it can't be loaded, and text has the reason */
	char version[32];
	bool usable;
	char text[ERR_TEXT_SIZE];
};

struct table {
	const char *dir;
	const struct plugin_kind *kind; /* being read */
	struct row *rows;
	size_t count, capacity;
	bool broken; /* any of them */
};

static void table_clear(struct table *t)
{
	size_t i;

	for (i = 0; i < t->count; i++) {
		free(t->rows[i].type);
		free(t->rows[i].path);
		free(t->rows[i].name);
	}
	free(t->rows);
}

static int probe_plugin(struct row *row, const struct table *t, const char *name)
{
	_cleanup_free_ void *functions = calloc(1, plugin_functions_size(t->kind));
	_cleanup_plugin_ struct plugin *p = NULL;
	struct err err = ERR_INIT;

	if (!functions)
		return -ENOMEM;
	if (plugin_load(t->dir, t->kind, name, functions, &p, &err) < 0) {
		(void)snprintf(row->text, sizeof(row->text), "%s", err.text);
		return 0;
	}
	row->name = strdup(plugin_get_name(p));
	if (!row->name)
		return -ENOMEM;
	text_make_printable(row->name);
	plugin_get_version(p, row->version, sizeof(row->version));
	row->usable = plugin_probe_here(p, row->text, sizeof(row->text));
	text_make_printable(row->text);
	return 0;
}

static int add_row(const char *name, void *userdata)
{
	struct table *t = userdata;
	struct row *row;
	int r;

	if (array_reserve(t->rows, t->capacity, t->count + 1) < 0)
		return -ENOMEM;
	row = &t->rows[t->count++];
	*row = (struct row){0};
	if (asprintf(&row->type, "%s/%s", t->kind->name, name) < 0 ||
		asprintf(&row->path, "%s/%s_%s.so", t->dir, t->kind->name, name) < 0)
		return -ENOMEM;
	text_make_printable(row->type);
	r = probe_plugin(row, t, name);
	if (!row->name)
		t->broken = true;
	return r;
}

static int read_kind(struct table *t, const struct plugin_kind *kind, struct err *err)
{
	int r;

	t->kind = kind;
	r = plugin_each(t->dir, kind, add_row, t, err);
	return r < 0 && !err->code ? err_set(err, r, "list the plugins of '%s'", t->dir) : r;
}

static int widest(int width, const char *text)
{
	return (int)strlen(text) > width ? (int)strlen(text) : width;
}

static void print_table(const struct table *t)
{
	int type = 4, name = 4, version = 7;
	const struct row *row;
	size_t i;

	for (i = 0; i < t->count; i++) {
		row = &t->rows[i];
		type = widest(type, row->type);
		name = widest(name, row->name ? row->name : "-");
		version = widest(version, row->version);
	}
	(void)printf("%-*s  %-*s  %-*s  %-6s  %s\n", type, "TYPE", name, "NAME", version, "VERSION",
		"HERE", "OFFERS");
	for (i = 0; i < t->count; i++) {
		row = &t->rows[i];
		(void)printf("%-*s  %-*s  %-*s  %-6s%s%s\n", type, row->type, name,
			row->name ? row->name : "-", version, row->name ? row->version : "-",
			!row->name ? "broken" : (row->usable ? "yes" : "no"),
			row->text[0] ? "  " : "", row->text);
	}
}

static json_t *json_row(const struct row *row)
{
	bool ok = row->name != NULL;

	return json_pack("{s:o, s:o, s:o, s:o, s:b, s:o, s:o}", "type", report_json_text(row->type),
		"path", report_json_text(row->path), "name",
		ok ? report_json_text(row->name) : json_null(), "version",
		ok ? report_json_text(row->version) : json_null(), "usable", (int)row->usable,
		"text", report_json_text(ok ? row->text : ""), "error",
		ok ? json_null() : report_json_text(row->text));
}

static int print_json(const struct table *t)
{
	json_auto_t *array = json_array();
	size_t i;

	for (i = 0; i < t->count; i++) {
		if (json_array_append_new(array, json_row(&t->rows[i])) < 0)
			return -ENOMEM;
	}
	return json_dumpf(array, stdout, JSON_INDENT(2)) < 0 || putchar('\n') == EOF ? -EIO : 0;
}

static int print_all(const struct table *t, bool json, struct err *err)
{
	int r = 0;

	if (json)
		r = print_json(t);
	else if (t->count > 0)
		print_table(t);
	else
		(void)fprintf(stderr, "stepd: there are no plugins in '%s'\n", t->dir);
	if (r == 0 && (fflush(stdout) == EOF || ferror(stdout)))
		r = errno > 0 ? -errno : -EIO;
	return r < 0 ? err_set(err, r, "write the list of plugins") : 0;
}

static int list_plugins(const char *plugin_dir, bool json)
{
	_cleanup_free_ char *dir = NULL;
	_cleanup_(table_clear) struct table t = {0};
	struct err err = ERR_INIT;
	int r = plugin_dir_find(plugin_dir, &dir, &err);

	t.dir = dir;
	if (r == 0)
		r = read_kind(&t, proctrack_plugin_kind(), &err);
	if (r == 0)
		r = read_kind(&t, mpi_plugin_kind(), &err);
	if (r == 0)
		r = print_all(&t, json, &err);
	if (r < 0) {
		(void)fprintf(stderr, "stepd: %s\n", err.text);
		return STATUS_FAILED;
	}
	return t.broken ? EXIT_BROKEN : EXIT_SUCCESS;
}

int plugins_print_mpi(const char *plugin_dir, struct err *err)
{
	_cleanup_free_ char *dir = NULL;
	_cleanup_(table_clear) struct table t = {0};
	const struct row *row;
	size_t i;
	int r = plugin_dir_find(plugin_dir, &dir, err);

	t.dir = dir;
	if (r == 0)
		r = read_kind(&t, mpi_plugin_kind(), err);
	if (r < 0)
		return r;
	puts("MPI plugins, for --mpi:");
	for (i = 0; i < t.count; i++) {
		row = &t.rows[i];
		(void)printf("  %-8s %s%s\n", strchr(row->type, '/') + 1,
			!row->name            ? "can't be loaded: "
				: row->usable ? ""
					      : "not usable here: ",
			row->text);
	}
	return fflush(stdout) != 0 || ferror(stdout)
		? err_set(err, errno ? -errno : -EIO, "write the list of plugins")
		: 0;
}

struct plugins_options {
	const char *plugin_dir;
	bool json, help;
};

#define AT(member_) offsetof(struct plugins_options, member_)

static const struct cli_option rows[] = {
	{.name = "json",
		.take = cli_take_flag,
		.offset = AT(json),
		.doc = "an array of objects: type, path, name, version, usable, text, error"},
	{.name = "plugin-dir",
		.arg = "DIR",
		.take = cli_take_text,
		.offset = AT(plugin_dir),
		.doc = "search this directory instead of the agent's"},
	{.name = "help",
		.letter = 'h',
		.take = cli_take_help,
		.offset = AT(help),
		.doc = "show this"},
};

static int plugins_print_help(void)
{
	puts("Usage: stepd plugins [--json] [--plugin-dir DIR]\n"
	     "Lists the proctrack and MPI plugins that are installed, and whether each can\n"
	     "be used on this machine by this user.\n");
	cli_options_print(rows, ARRAY_SIZE(rows), stdout);
	puts("\nExit status: 0, 1 if a plugin can't be loaded, 125 if there is no list.");
	return fflush(stdout) == EOF ? STATUS_FAILED : EXIT_SUCCESS;
}

int cli_plugins(int argc, char **argv)
{
	struct cli_options options = {
		.rows = rows, .n = ARRAY_SIZE(rows), .command = "stepd plugins", .anywhere = true};
	struct plugins_options o = {0};
	struct err err = ERR_INIT;
	int rest;

	if (cli_options_parse(&options, argc, argv, &o, &rest, &err) < 0) {
		(void)fprintf(stderr, "stepd plugins: %s\n", err.text);
		return STATUS_FAILED;
	}
	return o.help ? plugins_print_help() : list_plugins(o.plugin_dir, o.json);
}
