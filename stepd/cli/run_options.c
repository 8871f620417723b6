/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/run_options.h"

#include <assert.h>
#include <getopt.h>
#include <jansson.h>
#include <string.h>

#include "stepd/agent/spec.h"
#include "stepd/agent/spec_json.h"
#include "stepd/cli/run_convert.h"

#define OPTIONS_MAX   80
#define LONG_VALUE    256 /* getopt_long()'s value of the first row */
#define HELP_COLUMN   28
#define HELP_WIDTH    80
#define PROGRAM_FIELD "argv"

/* The rows that were given, in their order: of two for one field the last counts. */
struct given {
	unsigned at[OPTIONS_MAX]; /* 0: not given */
	unsigned count;
};

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "read the options");
}

void run_options_clear(struct run_options *o)
{
	json_decref(o->doc);
	o->spec = spec_free(o->spec);
	free(o->trace);
	free(o->result);
	free(o->sample);
	free(o->plugin_dir);
	free(o->runtime_dir);
	*o = (struct run_options)RUN_OPTIONS_INIT;
}

/* ---- options ------------------------------------------------------------------------------ */

static const struct run_option *find_row(int value)
{
	const struct run_option *table;
	size_t n, i;

	table = run_option_table(&n);
	if (value >= LONG_VALUE && (size_t)(value - LONG_VALUE) < n)
		return &table[value - LONG_VALUE];
	for (i = 0; i < n; i++) {
		if (table[i].letter && table[i].letter == value)
			return &table[i];
	}
	return NULL;
}

static int say_unknown(const char *arg, int letter, struct err *err)
{
	const struct run_option *table, *nearest = NULL;
	unsigned distance, least = SPEC_NAME_NEAR + 1;
	char name[64] = "";
	size_t n, i;

	if (strncmp(arg, "--", 2) != 0)
		return err_say(
			err, -EINVAL, "there is no option -%c (see stepd run --help)", letter);
	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
	table = run_option_table(&n);
	for (i = 0; i < n; i++) {
		if (*name && strncmp(table[i].name, name, strlen(name)) == 0)
			return err_say(err, -EINVAL,
				"--%s is short for several options; write it out (see stepd run --help)",
				name);
		distance = spec_name_distance(name, table[i].name);
		if (distance < least) {
			least = distance;
			nearest = &table[i];
		}
	}
	if (nearest)
		return err_say(err, -EINVAL, "there is no option --%s; did you mean --%s?", name,
			nearest->name);
	return err_say(err, -EINVAL, "there is no option --%s (see stepd run --help)", name);
}

/* What getopt_long() could not take. */
static int say_rejected(int result, const char *arg, struct err *err)
{
	const struct run_option *row = find_row(optopt);

	if (result == ':' && row)
		return err_say(err, -EINVAL, "--%s needs a value: %s", row->name, row->arg);
	if (optopt >= LONG_VALUE && row)
		return err_say(err, -EINVAL, "--%s takes no value", row->name);
	return say_unknown(arg, optopt, err);
}

static void make_getopt(char *letters, struct option *longs)
{
	const struct run_option *table;
	size_t n, i;

	table = run_option_table(&n);
	assert(n < OPTIONS_MAX);
	letters += sprintf(letters, "+:"); /* stop at PROGRAM; say what lacks its value */
	for (i = 0; i < n; i++) {
		const char *colons = !table[i].arg ? "" : table[i].arg_optional ? "::" : ":";

		if (table[i].letter)
			letters += sprintf(letters, "%c%s", table[i].letter, colons);
		longs[i] = (struct option){
			.name = table[i].name,
			.has_arg = (int)strlen(colons), /* no, required, optional */
			.val = LONG_VALUE + (int)i,
		};
	}
}

/* Takes the options; *ret_rest is the index of PROGRAM. */
static int take_options(int argc, char **argv, struct run_build *build, struct given *given,
	int *ret_rest, struct err *err)
{
	char letters[3 * OPTIONS_MAX + 3];
	struct option longs[OPTIONS_MAX + 1] = {0};
	const struct run_option *table, *row;
	size_t n;
	int c, r;

	table = run_option_table(&n);
	make_getopt(letters, longs);
	optind = 0; /* glibc: from the start */
	opterr = 0;
	while ((c = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		row = c == ':' || c == '?' ? NULL : find_row(c);
		if (!row)
			return say_rejected(c, argv[optind - 1], err);
		if (row->arg_second) { /* getopt_long() knows no option of two words */
			if (optind >= argc)
				return err_say(err, -EINVAL, "--%s needs two values: %s %s",
					row->name, row->arg, row->arg_second);
			build->second = argv[optind++];
		}
		r = row->take(row, optarg, build, err);
		if (r < 0)
			return err_prefix(err, "--%s", row->name);
		given->at[row - table] = ++given->count;
	}
	*ret_rest = optind;
	return 0;
}

/* ---- errors ------------------------------------------------------------------------------- */

static bool begins_with_path(const char *text, const char *path)
{
	size_t len = path ? strlen(path) : 0;

	return len > 0 && strncmp(text, path, len) == 0 && text[len] && strchr(":.[", text[len]);
}

/* Puts what the operator wrote before the text, in place of the path if that says no more. */
static int name_source(const char *source, const char *path, struct err *err)
{
	char text[ERR_TEXT_SIZE];
	size_t len = strlen(path);

	if (err->text[len] != ':')
		return err_prefix(err, "%s", source);
	memcpy(text, err->text, sizeof(text));
	return err_say(err, err->code, "%s%s", source, text + len);
}

/* The option behind the field that the error's text begins with: the last one given for it, or,
 * for what is missing, the one that would give it. */
static const struct run_option *find_option(
	const struct given *given, bool or_missing, const struct err *err)
{
	const struct run_option *table, *found = NULL;
	unsigned latest = 0;
	size_t n, i;

	table = run_option_table(&n);
	for (i = 0; i < n; i++) {
		if (!begins_with_path(err->text, table[i].path))
			continue;
		if (given->at[i] > latest || (!found && or_missing)) {
			latest = given->at[i];
			found = &table[i];
		}
	}
	return found;
}

static int name_option(const struct given *given, const struct run_build *build, struct err *err)
{
	const struct run_option *option = find_option(given, !build->spec_file, err);
	char source[64];

	if (option) {
		(void)snprintf(source, sizeof(source), "--%s", option->name);
		return name_source(source, option->path, err);
	}
	if (build->program && begins_with_path(err->text, PROGRAM_FIELD))
		return name_source("PROGRAM", PROGRAM_FIELD, err);
	return build->spec_file ? err_prefix(err, "%s", build->spec_file) : err->code;
}

/* ---- doors -------------------------------------------------------------------------------- */

static void build_clear(struct run_build *build)
{
	json_decref(build->overlay);
}

static int parse_into(
	int argc, char **argv, char **environment, struct run_options *o, struct err *err)
{
	_cleanup_(build_clear) struct run_build build = {.options = o, .overlay = json_object()};
	struct given given = {0};
	int rest = argc, r;

	if (!build.overlay)
		return no_memory(err);
	r = take_options(argc, argv, &build, &given, &rest, err);
	if (r < 0 || o->help)
		return r;
	build.program = argv[rest];
	r = run_make_doc(&build, environment, argv + rest, &o->doc, err);
	if (r < 0)
		return r;
	r = spec_from_json(o->doc, &o->spec, err);
	return r < 0 ? name_option(&given, &build, err) : 0;
}

int run_options_parse(
	int argc, char **argv, char **environment, struct run_options *ret_options, struct err *err)
{
	_cleanup_run_options_ struct run_options o = RUN_OPTIONS_INIT;
	struct err own = ERR_INIT;
	int r;

	/* name_option() reads the text, so there must be one. */
	r = parse_into(argc, argv, environment, &o, err ? err : &own);
	if (r < 0)
		return r;
	*ret_options = o;
	o = (struct run_options)RUN_OPTIONS_INIT;
	return 0;
}

int run_options_print_spec(const struct run_options *o, FILE *out, struct err *err)
{
	_cleanup_free_ char *text = json_dumps(o->doc, JSON_INDENT(2));

	if (!text)
		return err_say(err, -EILSEQ,
			"--print-spec: an argument or a variable is no UTF-8 text, which JSON can't hold");
	if (fprintf(out, "%s\n", text) < 0 || fflush(out) != 0)
		return err_set(err, errno ? -errno : -EIO, "--print-spec: write");
	return 0;
}

/* ---- help --------------------------------------------------------------------------------- */

/* The words of doc from HELP_COLUMN on, broken before HELP_WIDTH. */
static void print_doc(FILE *out, const char *doc, int column)
{
	int len;

	if (column + 1 >= HELP_COLUMN) {
		fputc('\n', out);
		column = 0;
	}
	fprintf(out, "%*s", HELP_COLUMN - column, "");
	column = HELP_COLUMN;
	while (*doc) {
		len = (int)strcspn(doc, " ");
		if (column > HELP_COLUMN && column + len + 1 > HELP_WIDTH) {
			fprintf(out, "\n%*s", HELP_COLUMN, "");
			column = HELP_COLUMN;
		}
		column += fprintf(out, "%s%.*s", column > HELP_COLUMN ? " " : "", len, doc);
		doc += len + (doc[len] == ' ');
	}
	fputc('\n', out);
}

void run_options_print_help(FILE *out)
{
	const struct run_option *table;
	size_t n, i;
	int column;

	fputs("Usage: stepd run [OPTION...] [--] PROGRAM [ARG...]\n"
	      "Runs PROGRAM as the tasks of a step. In parentheses: what holds if an option is not "
	      "given.\n",
		out);
	table = run_option_table(&n);
	for (i = 0; i < n; i++) {
		const struct run_option *row = &table[i];

		if (row->heading)
			fprintf(out, "\n%s:\n", row->heading);
		column =
			row->letter ? fprintf(out, "  -%c, ", row->letter) : fprintf(out, "      ");
		column += fprintf(out, "--%s", row->name);
		if (row->arg)
			column += fprintf(out, row->arg_optional ? "[=%s]" : "=%s", row->arg);
		if (row->arg_second)
			column += fprintf(out, " %s", row->arg_second);
		print_doc(out, row->doc, column);
	}
}
