/* SPDX-License-Identifier: BSD-3-Clause
 *
 * jobctl: submits jobs to jobd(8), shows and controls them. Called as sbatch, salloc, squeue, sinfo
 * or scancel it acts as this command of Slurm.
 */
#include "contrib/jobd/cli/jobctl.h"

#include <locale.h>
#include <signal.h>
#include <string.h>

static const struct {
	const char *name;
	const char *link; /* another name of the program; NULL: none */
	jobctl_fn *run;
	const char *doc;
} commands[] = {
	{"submit", "sbatch", jobctl_submit, "queue a batch script"},
	{"alloc", "salloc", jobctl_alloc, "wait for nodes, and run a command with them"},
	{"queue", "squeue", jobctl_queue, "list jobs"},
	{"nodes", "sinfo", jobctl_nodes, "list partitions and nodes"},
	{"show", NULL, jobctl_show, "show a job, node, partition or reservation in full"},
	{"cancel", "scancel", jobctl_cancel, "end jobs, or signal them"},
	{"hold", NULL, jobctl_hold, "hold jobs until they are released"},
	{"release", NULL, jobctl_release, "release held jobs"},
	{"suspend", NULL, jobctl_suspend, "suspend the processes of jobs"},
	{"resume", NULL, jobctl_resume, "resume suspended jobs"},
	{"requeue", NULL, jobctl_requeue, "end jobs, and queue them again"},
	{"update", NULL, jobctl_update, "change a job, or the state of nodes"},
	{"expand", NULL, jobctl_expand, "give a job's resources to another job"},
	{"reserve", NULL, jobctl_reserve, "reserve nodes, or delete a reservation"},
	{"reconfigure", NULL, jobctl_reconfigure, "make jobd read its configuration again"},
	{"stats", NULL, jobctl_stats, "show what jobd has done since its start"},
	{"top", NULL, jobctl_top, "show nodes over time on a live screen"},
};

/* ---- what commands share ----------------------------------------------------------------------
 */

void jobctl_warn(const char *name, const char *text)
{
	(void)fprintf(stderr, "%s: %s\n", name, text);
}

static bool wants_help(const struct cli_options *options)
{
	size_t i;

	for (i = 0; i < options->n; i++) {
		if (options->at[i] && options->rows[i].take == cli_take_help)
			return true;
	}
	return false;
}

int jobctl_parse(const char *name, const char *usage, const struct cli_option *rows, size_t n,
	int argc, char **argv, void *into, int *ret_rest, struct err *err)
{
	struct cli_options options = {
		.rows = rows, .n = n, .command = name, .anywhere = true, .most = -1};
	int r = cli_options_parse(&options, argc, argv, into, ret_rest, err);

	if (r < 0 || !wants_help(&options))
		return r;
	(void)printf(
		"Usage: %s%s%s\n%s", name, *usage ? " " : "", usage, rows[0].heading ? "" : "\n");
	cli_options_print(rows, n, stdout);
	return 1;
}

int jobctl_print_json_take(json_t *json, struct err *err)
{
	json_auto_t *own = json;
	_cleanup_free_ char *text = NULL;

	if (!own)
		return err_set(err, -ENOMEM, "print the reply");
	text = json_dumps(own, JSON_INDENT(2));
	if (!text)
		return err_set(err, -ENOMEM, "print the reply");
	(void)puts(text); /* finish() reports a failure */
	return 0;
}

/* ---- the program ------------------------------------------------------------------------------
 */

static void print_usage(FILE *out)
{
	size_t i;

	(void)fputs("Usage: jobctl COMMAND [OPTION...] [ARGUMENT...]\n\n"
		    "Submits jobs to jobd(8), shows and controls them.\n\nCommands:\n",
		out);
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		(void)fprintf(out, "  %-13s %s%s%s%s\n", commands[i].name, commands[i].doc,
			commands[i].link ? " (" : "", commands[i].link ? commands[i].link : "",
			commands[i].link ? ")" : "");
	(void)fputs("\n'jobctl COMMAND --help' lists a command's options. jobd is found by its "
		    "socket, $JOBD_SOCKET or\n" JOBD_SOCKET_DEFAULT ", or your own jobd by "
		    "$XDG_RUNTIME_DIR/jobd/socket.\n",
		out);
}

static int find_command(const char *name, bool link)
{
	const char *other;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		other = link ? commands[i].link : commands[i].name;
		if (other && strcmp(other, name) == 0)
			return (int)i;
	}
	return -1;
}

/* All output must have been written: a full disk of standard output is a failure. */
static int finish(const char *name, int status)
{
	if (fflush(stdout) != EOF && !ferror(stdout))
		return status;
	if (errno != EPIPE)
		jobctl_warn(name, "standard output can't be written");
	return 1;
}

static int run(int command, const char *name, int argc, char **argv)
{
	struct err err = ERR_INIT;
	int r = commands[command].run(name, argc, argv, &err);

	if (r >= 0)
		return finish(name, r);
	(void)fprintf(stderr, "%s: error: %s\n", name, err.text);
	return 1;
}

int main(int argc, char **argv)
{
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
	const char *own = slash ? slash + 1 : argc > 0 ? argv[0] : "jobctl";
	char name[64];
	int command;

	(void)setlocale(LC_CTYPE, "");
	(void)signal(SIGPIPE, SIG_IGN); /* write(2) fails */
	command = find_command(own, true);
	if (command >= 0)
		return run(command, own, argc, argv);
	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		print_usage(stdout);
		return finish(own, 0);
	}
	command = argc > 1 ? find_command(argv[1], false) : -1;
	if (command < 0) {
		print_usage(stderr);
		return 2;
	}
	(void)snprintf(name, sizeof(name), "jobctl %s", argv[1]);
	return run(command, name, argc - 1, argv + 1);
}
