/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From an option's text to the spec's JSON, for run_options.c: the table of options and how each
 * is taken. What a value means is decided by spec_from_json(); here it only gets its type.
 */
#ifndef STEPD_CLI_RUN_RUN_CONVERT_H
#define STEPD_CLI_RUN_RUN_CONVERT_H

#include "stepd/cli/run/run_options.h"

/* The document while options are read. */
struct run_build {
	struct run_options *options;
	const char *command;    /* for messages; NULL: "stepd run" */
	struct json_t *overlay; /* what options set; a null takes a field of --spec away */
	const char *program;    /* these point into argv; NULL: not given */
	const char *export;
	const char *spec_file;
	const char *batch_file;
	const char *open_mode;
	const char *second; /* of an option with two arguments */
	const char *task;   /* of stepctl set-limits */
	bool multi_prog;
};

struct run_option;

/* Takes an option's argument (NULL: it has none). Its errors don't name the option yet. */
typedef int (*run_take_fn)(
	const struct run_option *option, const char *arg, struct run_build *build, struct err *err);

struct run_option {
	const char *name;
	char letter;            /* 0: none */
	const char *arg;        /* what help calls its argument; NULL: it takes none */
	bool arg_optional;      /* --name[=ARG] */
	const char *arg_second; /* a word of its own behind the argument; NULL: none */
	run_take_fn take;
	const char *path;    /* of the spec's field that it sets, "node.id" */
	const char *word;    /* the value it stands for */
	size_t offset;       /* of the member it sets, in struct run_options or run_build */
	const char *heading; /* of a group that begins here, for help */
	const char *doc;
};

const struct run_option *run_option_table(size_t *ret_count);

#define RUN_OPTIONS_MAX 192 /* rows of a table */

/* Rows that a command takes. */
struct run_option_set {
	const struct run_option *rows;
	size_t n;
	const char *command; /* "stepd run", for messages */
	bool anywhere;       /* options may stand behind arguments, too */
};

/* The rows that were given, in their order: of two for one field the last counts. */
struct run_given {
	unsigned at[RUN_OPTIONS_MAX]; /* 0: not given */
	unsigned count;
};

/* Takes the options; *ret_rest is the index of the first argument that is none, in argv, which is
 * put in order where options may stand anywhere. */
int run_take_options(const struct run_option_set *set, int argc, char **argv,
	struct run_build *build, struct run_given *given, int *ret_rest,
	struct err *err) _must_check_;

/* The option behind the field that err's text begins with: the last one given for it, or with
 * or_missing the one that would give it. NULL: none. */
const struct run_option *run_find_option(const struct run_option_set *set,
	const struct run_given *given, bool or_missing, const struct err *err);

/* Puts the option before the text, in place of the field's path if that says no more. */
int run_name_option(const struct run_option *option, struct err *err);

/* Names what the operator wrote of the field that err's text begins with: an option, the program or
 * the file of --spec. */
int run_name_source(const struct run_option_set *set, const struct run_given *given,
	const struct run_build *build, struct err *err);

/* A line or more of help for each row. */
void run_print_rows(const struct run_option *rows, size_t n, FILE *out);

/* Sets the member of the overlay at "a" or "a.b"; owns value, which may be NULL for no memory. */
int run_set(struct run_build *build, const char *path, struct json_t *value,
	struct err *err) _must_check_;

/* Takers. */
int run_take_text(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_number(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_true(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_false(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_word(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_list(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_mpi(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_rank_lists(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_counts(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_duration(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_time(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_wait(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_bad_exit(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_signal(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_no_kill(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_stream(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_open_mode(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_path(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_rlimit(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_size(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_limit(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_limit_mem(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_limit_bool(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_limit_io(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_limit_device(
	const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_kill_sequence(
	const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_nice(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_keep(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_own_text(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_own_flag(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_sample(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_config(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_keep_result(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_multi_prog(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_verbose(const struct run_option *, const char *, struct run_build *, struct err *);
int run_take_quiet(const struct run_option *, const char *, struct run_build *, struct err *);

/* The document that the options, the files they name and args (PROGRAM and what follows, up to
 * NULL) make: a new reference. run_doc.c. */
int run_make_doc(struct run_build *build, char **environment, char **args, struct json_t **ret_doc,
	struct err *err) _must_check_;

#endif
