/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The options of sbatch and salloc, from three sources that become one request: the "#SBATCH" lines
 * at the head of a script, variables of the environment (SBATCH_PARTITION), and the command line.
 * Of two values the later one counts, in this order. A ":" of a command line, and a line
 * "#SBATCH hetjob", begin another component of a heterogeneous job.
 *
 * An option of Slurm without which a job runs just as well is ignored with a note; one that needs
 * something that jobd does not have, such as a GPU, is an error, as is an unknown one.
 */
#ifndef JOBD_CLI_OPTIONS_H
#define JOBD_CLI_OPTIONS_H

#include <time.h>

#include "contrib/jobd/engine/request.h"
#include "stepd/base/strv.h"

enum options_command {
	OPTIONS_SBATCH,
	OPTIONS_SALLOC,
	OPTIONS_COMMAND_MAX,
};

#define OPTIONS_SCRIPT_MAX (4u << 20) /* bytes of a script */

struct options_input {
	enum options_command command;
	int argc; /* argv[0] is not read; argv is reordered */
	char **argv;
	char *const *env;   /* NULL: no variable counts */
	const char *script; /* its text; NULL: not read yet, or none */
	time_t now;         /* for --begin */
};

struct options {
	/* Without script, argv, env and work_dir (but for --chdir), which are the caller's to add.
	 */
	struct job_request request;
	struct job_request *components; /* of a heterogeneous job, from the second on */
	size_t components_count;
	bool quiet, parsable, test_only, no_shell, wait, help, version;
	char *wrap;         /* NULL: not given */
	char *export_names; /* of --export; NULL: not given */
	struct strv rest;   /* the script and its arguments, or salloc's command */
	struct strv notes;  /* sentences on what is ignored */
};

/* Initialises *out; after an error there is nothing to clear. */
int options_parse(
	struct options *out, const struct options_input *input, struct err *err) _must_check_;
void options_clear(struct options *options);
#define _cleanup_options_ _cleanup_(options_clear)

/* Cuts a line into arguments as sbatch does with a "#SBATCH" line: at blanks that are
 * not quoted by ", ' or \; "#" begins a comment. -EINVAL: a quotation mark is not closed. */
int options_split(const char *line, struct strv *argv, struct err *err) _must_check_;

/* The variables of env that --export passes on; NULL: all. The caller frees the list and its
 * elements. */
int options_export(
	const char *export_names, char *const *env, char ***ret_env, struct err *err) _must_check_;

/* Prints the help. */
void options_print(enum options_command command, FILE *out);

#endif
