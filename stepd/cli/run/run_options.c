/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/run/run_options.h"

#include <jansson.h>
#include <string.h>

#include "stepd/cli/run/run_convert.h"
#include "stepd/spec/spec.h"

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

/* ---- errors ------------------------------------------------------------------------------- */

static bool begins_with_path(const char *text, const char *path)
{
	size_t len = path ? strlen(path) : 0;

	return len > 0 && strncmp(text, path, len) == 0 && text[len] && strchr(":.[", text[len]);
}

/* Puts what the operator wrote before the text, in place of the path if there is no more of it. */
static int name_source(const char *source, const char *path, struct err *err)
{
	char text[ERR_TEXT_SIZE];
	size_t len = strlen(path);

	if (err->text[len] != ':')
		return err_prefix(err, "%s", source);
	memcpy(text, err->text, sizeof(text));
	return err_say(err, err->code, "%s%s", source, text + len);
}

const struct cli_option *run_find_option(
	const struct cli_options *options, bool or_missing, const struct err *err)
{
	const struct cli_option *found = NULL;
	unsigned latest = 0;
	size_t i;

	for (i = 0; i < options->n; i++) {
		if (!begins_with_path(err->text, options->rows[i].path))
			continue;
		if (options->at[i] > latest || (!found && or_missing)) {
			latest = options->at[i];
			found = &options->rows[i];
		}
	}
	return found;
}

int run_name_option(const struct cli_option *option, struct err *err)
{
	char source[64];

	(void)snprintf(source, sizeof(source), "--%s", option->name);
	return name_source(source, option->path, err);
}

int run_name_source(
	const struct cli_options *options, const struct run_build *build, struct err *err)
{
	const struct cli_option *option = run_find_option(options, !build->spec_file, err);

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
	struct cli_options options = {.command = "stepd run", .most = -1};
	int rest = argc, r;

	if (!build.overlay)
		return no_memory(err);
	options.rows = run_option_table(&options.n);
	r = cli_options_parse(&options, argc, argv, &build, &rest, err);
	if (r < 0 || o->help || o->mpi_list)
		return r;
	build.program = argv[rest];
	r = run_make_doc(&build, environment, argv + rest, &o->doc, err);
	if (r < 0 || o->bootstrap)
		return r;
	r = spec_from_json(o->doc, &o->spec, err);
	return r < 0 ? run_name_source(&options, &build, err) : 0;
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

void run_options_print_help(FILE *out)
{
	const struct cli_option *table;
	size_t n;

	fputs("Usage: stepd run [OPTION...] [--] PROGRAM [ARG...]\n"
	      "Runs PROGRAM as the tasks of a step. In parentheses: what holds if an option is not "
	      "given.\n",
		out);
	table = run_option_table(&n);
	cli_options_print(table, n, out);
}
