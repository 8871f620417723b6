/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/options.h"

#include <assert.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "stepd/base/cleanup.h"
#include "stepd/spec/spec_json.h"

/* ---- texts for a terminal ------------------------------------------------------------------ */

void text_make_printable(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = ' ';
	}
}

/* Columns of UTF-8 text without wide characters. */
static int columns_of(const char *text, size_t len)
{
	int n = 0;
	size_t i;

	for (i = 0; i < len; i++)
		n += ((unsigned char)text[i] & 0xc0) != 0x80;
	return n;
}

void text_wrap(FILE *out, const char *text, int indent, int width)
{
	int at = indent, columns;
	size_t len;

	for (text += strspn(text, " "); *text; text += len, text += strspn(text, " ")) {
		len = strcspn(text, " ");
		columns = columns_of(text, len);
		if (at > indent && at + 1 + columns > width) {
			(void)fprintf(out, "\n%*s", indent, "");
			at = indent;
		} else if (at > indent) {
			(void)fputc(' ', out);
			at++;
		}
		(void)fwrite(text, 1, len, out);
		at += columns;
	}
	(void)fputc('\n', out);
}

/* ---- other programs ------------------------------------------------------------------------ */

int program_find(const char *below, const char *installed, char **ret_path, struct err *err)
{
	char own[PATH_MAX], *slash, *path = NULL;
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

	own[n > 0 ? n : 0] = '\0';
	slash = strrchr(own, '/');
	if (slash && asprintf(&path, "%.*s/%s", (int)(slash - own), own, below) < 0)
		path = NULL;
	if (!path || access(path, X_OK) < 0) {
		free(path);
		path = strdup(installed);
	}
	if (!path)
		return err_set(err, -ENOMEM, "find '%s'", installed);
	*ret_path = path;
	return 0;
}

/* ---- options ------------------------------------------------------------------------------- */

#define LONG_VALUE  256 /* getopt_long()'s value of the first row */
#define HELP_COLUMN 28
#define HELP_WIDTH  80

/* ---- rows ---------------------------------------------------------------------------------- */

int cli_take_text(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	(void)err;
	*(const char **)((char *)into + o->offset) = arg;
	return 0;
}

int cli_take_flag(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	(void)arg;
	(void)err;
	*(bool *)((char *)into + o->offset) = true;
	return 0;
}

int cli_take_help(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	(void)cli_take_flag(o, arg, into, err); /* it can't fail */
	return CLI_STOP;
}

static const struct cli_option *find_row(const struct cli_options *options, int value)
{
	size_t i;

	if (value >= LONG_VALUE && (size_t)(value - LONG_VALUE) < options->n)
		return &options->rows[value - LONG_VALUE];
	for (i = 0; i < options->n; i++) {
		if (options->rows[i].letter && options->rows[i].letter == value)
			return &options->rows[i];
	}
	return NULL;
}

static int report_unknown(
	const struct cli_options *options, const char *arg, int letter, struct err *err)
{
	const struct cli_option *nearest = NULL;
	unsigned distance, least = SPEC_NAME_NEAR + 1;
	char name[64] = "";
	size_t i;

	if (strncmp(arg, "--", 2) != 0)
		return err_set_text(err, -EINVAL, "there is no option -%c (see %s --help)", letter,
			options->command);
	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
	for (i = 0; i < options->n; i++) {
		if (!options->rows[i].doc)
			continue;
		if (*name && strncmp(options->rows[i].name, name, strlen(name)) == 0)
			return err_set_text(err, -EINVAL,
				"--%s is ambiguous; write the option out (see %s --help)", name,
				options->command);
		distance = spec_name_distance(name, options->rows[i].name);
		if (distance < least) {
			least = distance;
			nearest = &options->rows[i];
		}
	}
	if (nearest)
		return err_set_text(err, -EINVAL, "there is no option --%s; did you mean --%s?",
			name, nearest->name);
	return err_set_text(
		err, -EINVAL, "there is no option --%s (see %s --help)", name, options->command);
}

/* Reports an option that getopt_long() has rejected. */
static int report_rejected(
	const struct cli_options *options, int result, const char *arg, struct err *err)
{
	const struct cli_option *row = find_row(options, optopt);

	if (result == ':' && row)
		return err_set_text(err, -EINVAL, "--%s needs a value: %s", row->name, row->arg);
	if (optopt >= LONG_VALUE && row)
		return err_set_text(err, -EINVAL, "--%s takes no value", row->name);
	return report_unknown(options, arg, optopt, err);
}

static void make_getopt(const struct cli_options *options, char *letters, struct option *longs)
{
	size_t i;

	assert(options->n < CLI_OPTIONS_MAX);
	if (!options->anywhere)
		*letters++ = '+'; /* stop at PROGRAM */
	*letters++ = ':';         /* report options without their value */
	for (i = 0; i < options->n; i++) {
		const struct cli_option *row = &options->rows[i];
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

static int take_option(struct cli_options *options, const struct cli_option *row, int argc,
	char **argv, void *into, struct err *err)
{
	const char *arg = optarg, *second = NULL;
	int r;

	if (row->arg_second && optind >= argc)
		return err_set_text(err, -EINVAL, "--%s needs two values: %s %s", row->name,
			row->arg, row->arg_second);
	if (row->arg_second) /* getopt_long() knows no option with two arguments */
		second = argv[optind++];
	r = row->take(row, arg, into, err);
	if (r == 0 && second)
		r = row->take_second(row, second, into, err);
	if (r < 0)
		return err_prefix(err, "--%s", row->name);
	options->at[row - options->rows] = ++options->given;
	return r;
}

int cli_options_parse(struct cli_options *options, int argc, char **argv, void *into, int *ret_rest,
	struct err *err)
{
	char letters[3 * CLI_OPTIONS_MAX + 3];
	struct option longs[CLI_OPTIONS_MAX + 1] = {0};
	const struct cli_option *row;
	int c, r = 0;

	make_getopt(options, letters, longs);
	optind = 0; /* glibc: from the start */
	opterr = 0;
	while (r == 0 && (c = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		row = c == ':' || c == '?' ? NULL : find_row(options, c);
		if (!row)
			return report_rejected(options, c, argv[optind - 1], err);
		r = take_option(options, row, argc, argv, into, err);
	}
	if (r < 0)
		return r;
	*ret_rest = optind;
	if (r == 0 && options->most >= 0 && argc - optind > options->most)
		return err_set_text(err, -EINVAL,
			"'%.200s' is one argument too many (see %s --help)",
			argv[optind + options->most], options->command);
	return 0;
}

int cli_open_file(const char *file, struct err *err)
{
	int fd = strcmp(file, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
					: open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	return fd < 0 ? err_set(err, -errno, "open") : fd;
}

/* ---- help ---------------------------------------------------------------------------------- */

void cli_options_print(const struct cli_option *rows, size_t n, FILE *out)
{
	size_t i;
	int column;

	for (i = 0; i < n; i++) {
		const struct cli_option *row = &rows[i];

		if (!row->doc)
			continue;
		if (row->heading)
			fprintf(out, "\n%s:\n", row->heading);
		column =
			row->letter ? fprintf(out, "  -%c, ", row->letter) : fprintf(out, "      ");
		column += fprintf(out, "--%s", row->name);
		if (row->arg)
			column += fprintf(out, row->arg_optional ? "[=%s]" : "=%s", row->arg);
		if (row->arg_second)
			column += fprintf(out, " %s", row->arg_second);
		if (column + 1 >= HELP_COLUMN) {
			fputc('\n', out);
			column = 0;
		}
		fprintf(out, "%*s", HELP_COLUMN - column, "");
		text_wrap(out, row->doc, HELP_COLUMN, HELP_WIDTH);
	}
}
