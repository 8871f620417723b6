/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From an option's text to the spec's JSON, for run_options.c: the table of options and how each
 * is taken. What a value means is decided by spec_from_json(); here it only gets its type.
 */
#ifndef STEPD_CLI_RUN_RUN_CONVERT_H
#define STEPD_CLI_RUN_RUN_CONVERT_H

#include "stepd/cli/options.h"
#include "stepd/cli/run/run_options.h"

/* The document while options are read. */
struct run_build {
	struct run_options *options;
	const char *command;    /* for messages; NULL: "stepd run" */
	struct json_t *overlay; /* what options set; a null removes a field of --spec */
	const char *program;    /* these point into argv; NULL: not given */
	const char *export;
	const char *spec_file;
	const char *batch_file;
	const char *open_mode;
	const char *task; /* of stepctl set-limits */
	bool multi_prog;
};

const struct cli_option *run_option_table(size_t *ret_count);

/* The option for the field that err's text begins with: the last one given for it, or with
 * or_missing any that sets it. NULL: none. */
const struct cli_option *run_find_option(
	const struct cli_options *options, bool or_missing, const struct err *err);

/* Prefixes the text with the option, which replaces the field's path if that is the whole path. */
int run_name_option(const struct cli_option *option, struct err *err);

/* Prefixes err's text with the source of the field that it begins with: an option, the program or
 * the file of --spec. */
int run_name_source(
	const struct cli_options *options, const struct run_build *build, struct err *err);

int run_no_memory(struct err *err);

/* Sets the member of the overlay at "a" or "a.b"; owns value, which may be NULL for no memory. */
int run_set(struct run_build *build, const char *path, struct json_t *value,
	struct err *err) _must_check_;

/* Takers, into a struct run_build. */
cli_take_fn run_take_text, run_take_number, run_take_true, run_take_false, run_take_word,
	run_take_list, run_take_mpi, run_take_rank_lists, run_take_counts, run_take_duration,
	run_take_time, run_take_wait, run_take_bad_exit, run_take_signal, run_take_no_kill,
	run_take_stream, run_take_open_mode, run_take_path, run_take_rlimit, run_take_size,
	run_take_limit, run_take_limit_mem, run_take_limit_bool, run_take_limit_io,
	run_take_limit_device, run_take_kill_sequence, run_take_nice, run_take_pty,
	run_take_own_text, run_take_own_flag, run_take_sample, run_take_config,
	run_take_keep_result, run_take_verbose, run_take_quiet;

/* The document made of the options, the files they name and args (PROGRAM and its arguments, up
 * to NULL): a new reference. */
int run_make_doc(struct run_build *build, char **environment, char **args, struct json_t **ret_doc,
	struct err *err) _must_check_;

#endif
