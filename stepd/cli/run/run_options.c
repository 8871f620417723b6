/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/run/run_options.h"

#include <assert.h>
#include <getopt.h>
#include <jansson.h>
#include <string.h>

#include "stepd/cli/run/run_convert.h"
#include "stepd/spec/spec.h"
#include "stepd/spec/spec_json.h"

#define LONG_VALUE    256 /* getopt_long()'s value of the first row */
#define HELP_COLUMN   28
#define HELP_WIDTH    80
#define PROGRAM_FIELD "argv"

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
	free(o->config);
	free(o->bootstrap);
	*o = (struct run_options)RUN_OPTIONS_INIT;
}

/* ---- options ------------------------------------------------------------------------------ */

static const struct run_option *find_row(const struct run_option_set *set, int value)
{
	size_t i;

	if (value >= LONG_VALUE && (size_t)(value - LONG_VALUE) < set->n)
		return &set->rows[value - LONG_VALUE];
	for (i = 0; i < set->n; i++) {
		if (set->rows[i].letter && set->rows[i].letter == value)
			return &set->rows[i];
	}
	return NULL;
}

static int say_unknown(
	const struct run_option_set *set, const char *arg, int letter, struct err *err)
{
	const struct run_option *nearest = NULL;
	unsigned distance, least = SPEC_NAME_NEAR + 1;
	char name[64] = "";
	size_t i;

	if (strncmp(arg, "--", 2) != 0)
		return err_say(err, -EINVAL, "there is no option -%c (see %s --help)", letter,
			set->command);
	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
	for (i = 0; i < set->n; i++) {
		if (*name && strncmp(set->rows[i].name, name, strlen(name)) == 0)
			return err_say(err, -EINVAL,
				"--%s is short for several options; write it out (see %s --help)",
				name, set->command);
		distance = spec_name_distance(name, set->rows[i].name);
		if (distance < least) {
			least = distance;
			nearest = &set->rows[i];
		}
	}
	if (nearest)
		return err_say(err, -EINVAL, "there is no option --%s; did you mean --%s?", name,
			nearest->name);
	return err_say(err, -EINVAL, "there is no option --%s (see %s --help)", name, set->command);
}

/* What getopt_long() could not take. */
static int say_rejected(
	const struct run_option_set *set, int result, const char *arg, struct err *err)
{
	const struct run_option *row = find_row(set, optopt);

	if (result == ':' && row)
		return err_say(err, -EINVAL, "--%s needs a value: %s", row->name, row->arg);
	if (optopt >= LONG_VALUE && row)
		return err_say(err, -EINVAL, "--%s takes no value", row->name);
	return say_unknown(set, arg, optopt, err);
}

static void make_getopt(const struct run_option_set *set, char *letters, struct option *longs)
{
	size_t i;

	assert(set->n < RUN_OPTIONS_MAX);
	if (!set->anywhere)
		*letters++ = '+'; /* stop at PROGRAM */
	*letters++ = ':';         /* say what lacks its value */
	for (i = 0; i < set->n; i++) {
		const struct run_option *row = &set->rows[i];
		const char *colons = !row->arg ? "" : row->arg_optional ? "::" : ":";

		if (row->letter) {
			*letters++ = row->letter;
			memcpy(letters, colons, strlen(colons));
			letters += strlen(colons);
		}
		longs[i] = (struct option){
			.name = row->name,
			.has_arg = (int)strlen(colons), /* no, required, optional */
			.val = LONG_VALUE + (int)i,
		};
	}
	*letters = '\0';
}

int run_take_options(const struct run_option_set *set, int argc, char **argv,
	struct run_build *build, struct run_given *given, int *ret_rest, struct err *err)
{
	char letters[3 * RUN_OPTIONS_MAX + 3];
	struct option longs[RUN_OPTIONS_MAX + 1] = {0};
	const struct run_option *row;
	int c, r;

	make_getopt(set, letters, longs);
	optind = 0; /* glibc: from the start */
	opterr = 0;
	while ((c = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		row = c == ':' || c == '?' ? NULL : find_row(set, c);
		if (!row)
			return say_rejected(set, c, argv[optind - 1], err);
		if (row->arg_second) { /* getopt_long() knows no option of two words */
			if (optind >= argc)
				return err_say(err, -EINVAL, "--%s needs two values: %s %s",
					row->name, row->arg, row->arg_second);
			build->second = argv[optind++];
		}
		r = row->take(row, optarg, build, err);
		if (r < 0)
			return err_prefix(err, "--%s", row->name);
		given->at[row - set->rows] = ++given->count;
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

const struct run_option *run_find_option(const struct run_option_set *set,
	const struct run_given *given, bool or_missing, const struct err *err)
{
	const struct run_option *found = NULL;
	unsigned latest = 0;
	size_t i;

	for (i = 0; i < set->n; i++) {
		if (!begins_with_path(err->text, set->rows[i].path))
			continue;
		if (given->at[i] > latest || (!found && or_missing)) {
			latest = given->at[i];
			found = &set->rows[i];
		}
	}
	return found;
}

int run_name_option(const struct run_option *option, struct err *err)
{
	char source[64];

	(void)snprintf(source, sizeof(source), "--%s", option->name);
	return name_source(source, option->path, err);
}

int run_name_source(const struct run_option_set *set, const struct run_given *given,
	const struct run_build *build, struct err *err)
{
	const struct run_option *option = run_find_option(set, given, !build->spec_file, err);

	if (option)
		return run_name_option(option, err);
	if (build->program && begins_with_path(err->text, PROGRAM_FIELD))
		return name_source("PROGRAM", PROGRAM_FIELD, err);
	return build->spec_file ? err_prefix(err, "%s", build->spec_file) : err->code;
}

/* ---- entry points ------------------------------------------------------------------------ */

static void build_clear(struct run_build *build)
{
	json_decref(build->overlay);
}

static int parse_into(
	int argc, char **argv, char **environment, struct run_options *o, struct err *err)
{
	_cleanup_(build_clear) struct run_build build = {.options = o, .overlay = json_object()};
	struct run_option_set set = {.command = "stepd run"};
	struct run_given given = {0};
	int rest = argc, r;

	if (!build.overlay)
		return no_memory(err);
	set.rows = run_option_table(&set.n);
	r = run_take_options(&set, argc, argv, &build, &given, &rest, err);
	if (r < 0 || o->help || o->mpi_list)
		return r;
	build.program = argv[rest];
	r = run_make_doc(&build, environment, argv + rest, &o->doc, err);
	if (r < 0 || o->bootstrap)
		return r;
	r = spec_from_json(o->doc, &o->spec, err);
	return r < 0 ? run_name_source(&set, &given, &build, err) : 0;
}

int run_options_parse(
	int argc, char **argv, char **environment, struct run_options *ret_options, struct err *err)
{
	_cleanup_run_options_ struct run_options o = RUN_OPTIONS_INIT;
	struct err own = ERR_INIT;
	int r;

	/* run_name_source() reads the text, so there must be one. */
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

void run_print_rows(const struct run_option *rows, size_t n, FILE *out)
{
	size_t i;
	int column;

	for (i = 0; i < n; i++) {
		const struct run_option *row = &rows[i];

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

void run_options_print_help(FILE *out)
{
	const struct run_option *table;
	size_t n;

	fputs("Usage: stepd run [OPTION...] [--] PROGRAM [ARG...]\n"
	      "Runs PROGRAM as the tasks of a step. In parentheses: what holds if an option is not "
	      "given.\n",
		out);
	table = run_option_table(&n);
	run_print_rows(table, n, out);
}
