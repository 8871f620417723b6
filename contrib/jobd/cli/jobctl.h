/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The commands of jobctl, and their common functions. Each is a row of a table in jobctl.c.
 */
#ifndef JOBD_CLI_JOBCTL_H
#define JOBD_CLI_JOBCTL_H

#include <stdbool.h>

#include "contrib/jobd/cli/client.h"
#include "stepd/cli/options.h"

/* name: as it was called, "jobctl queue" or "squeue", for messages. argv[0] is not read. The
 * program's exit status, or -errno with err. */
typedef int jobctl_fn(const char *name, int argc, char **argv, struct err *err);

/* submit.c: sbatch and salloc */
jobctl_fn jobctl_submit, jobctl_alloc;

/* lists.c: squeue, sinfo, and the daemon's statistics */
jobctl_fn jobctl_queue, jobctl_nodes, jobctl_stats;

/* show.c: scontrol show job|node|partition|reservation */
jobctl_fn jobctl_show;

/* act.c */
jobctl_fn jobctl_cancel, jobctl_hold, jobctl_release, jobctl_suspend, jobctl_resume, jobctl_requeue,
	jobctl_update, jobctl_expand, jobctl_reserve, jobctl_reconfigure;

/* top.c */
jobctl_fn jobctl_top;

/* Parses options. 1: it has printed the help, and the command is done; 0: *ret_rest is the first
 * argument; or -errno. usage: the text after the name. */
int jobctl_parse(const char *name, const char *usage, const struct cli_option *rows, size_t n,
	int argc, char **argv, void *into, int *ret_rest, struct err *err) _must_check_;

/* A line on standard error, "NAME: TEXT". */
void jobctl_warn(const char *name, const char *text);

/* Prints and releases a document; NULL means out of memory. */
int jobctl_print_json_take(json_t *json, struct err *err) _must_check_;

#endif
