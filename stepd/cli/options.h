/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What commands share: options by tables, texts for a terminal, and where other programs are.
 */
#ifndef STEPD_CLI_OPTIONS_H
#define STEPD_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "stepd/base/err.h"

struct cli_option;

/* ---- options ------------------------------------------------------------------------------- */

/* A command has a table of options, a row each: how they are read from a command line, and what
 * --help and the manual have of them. Long names may be shortened; of two options for one thing the
 * last one counts. */

/* Takes an option's argument (NULL: it has none) into the command's structure. Its errors don't
 * name the option yet. 0, CLI_STOP: the rest of the command line is not read, or -errno. */
typedef int cli_take_fn(
	const struct cli_option *option, const char *arg, void *into, struct err *err);

#define CLI_STOP 1

struct cli_option {
	const char *name;
	char letter;            /* 0: none */
	const char *arg;        /* the argument's name in help; NULL: it takes none */
	bool arg_optional;      /* --name[=ARG] */
	const char *arg_second; /* a second argument, behind the first; NULL: none */
	cli_take_fn *take;
	cli_take_fn *take_second; /* takes that argument */
	size_t offset;            /* of the member it sets, for take */
	const char *path;         /* of the spec's field that it sets, "node.id"; NULL: of none */
	const char *value;        /* the value to set, for take */
	const char *heading;      /* of a group that begins here, for help */
	const char *doc;  /* for help, and with more for the manual: doc/generate/; NULL: an older
			     name, which is accepted and not shown */
	const char *more; /* whole sentences; NULL: none */
};

#define CLI_OPTIONS_MAX 192

struct cli_options {
	const struct cli_option *rows;
	size_t n;
	const char *command; /* "stepd run", for messages */
	bool anywhere;       /* options may stand behind arguments, too */
	int most;            /* arguments behind the options; -1: any number */

	/* Rows that were given, in their order. */
	unsigned at[CLI_OPTIONS_MAX]; /* 0: not given */
	unsigned given;
};

/* Parses the options; *ret_rest is the index of the first argument that is not an option, in
 * argv, which is reordered where options may stand anywhere. argv[0] is not read. */
int cli_options_parse(struct cli_options *options, int argc, char **argv, void *into, int *ret_rest,
	struct err *err) _must_check_;

/* A line or more of help for each row that has it. */
void cli_options_print(const struct cli_option *rows, size_t n, FILE *out);

/* A file that is named for reading, "-" for standard input: its descriptor, or -errno. */
int cli_open_file(const char *file, struct err *err) _must_check_;

/* Takers: set the argument's text; set true; set true for --help, behind which nothing is read. */
cli_take_fn cli_take_text, cli_take_flag, cli_take_help;

/* ---- texts for a terminal ------------------------------------------------------------------ */

/* Replaces by blanks what would break the line or move the cursor: for texts of others (plugins,
 * names of files). */
void text_make_printable(char *text);

/* The text in lines of at most width columns, broken at blanks; a longer word has a line of its
 * own. The first line begins at column indent, where the cursor is; the others are indented by as
 * much. Ends with a newline. */
void text_wrap(FILE *out, const char *text, int indent, int width);

/* ---- other programs ------------------------------------------------------------------------ */

/* The path of a program, from malloc(): below this one's directory, as in a build, or where it is
 * installed, whether it is there or not. 0 or -ENOMEM. */
int program_find(
	const char *below, const char *installed, char **ret_path, struct err *err) _must_check_;

#endif
