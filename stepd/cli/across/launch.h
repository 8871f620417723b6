/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How relays are started on their nodes: by a command for each, or one for all.
 */
#ifndef STEPD_CLI_ACROSS_LAUNCH_H
#define STEPD_CLI_ACROSS_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/proc.h"
#include "stepd/base/strv.h"

struct err;

enum launcher_kind {
	LAUNCHER_LOCAL, /* all nodes are agents on this machine */
	LAUNCHER_SSH,
	LAUNCHER_SLURM, /* one srun in an allocation */
	LAUNCHER_EXEC,  /* a command of the site's */
	LAUNCHER_MAX,
};

struct launcher {
	enum launcher_kind kind;
	const char *text;    /* with ssh: its options; with exec: the template */
	bool at_once;        /* one command starts all relays */
	const char *program; /* stepd, on the nodes */
	const char *ifname;  /* NULL: any */
};

/* "local", "ssh[:OPTIONS]", "slurm" or "exec:TEMPLATE"; text is borrowed. -EINVAL: none of them. */
int launcher_parse(const char *text, struct launcher *launcher) _must_check_;

/* The command that starts the relay of this node, or all of them (at_once). host NULL: not known;
 * hosts is the list of all, "" where not known. */
int launcher_command(const struct launcher *launcher, uint32_t index, const char *host,
	const char *hosts, uint32_t nnodes, struct strv *ret_argv) _must_check_;

/* A launcher's process, in a group of its own, and the two ends of its channel. */
struct launched {
	struct pidref process;
	int to_fd, from_fd;
};

/* argv[0] is looked up in PATH. Standard error stays as it is. */
int launch(char *const *argv, struct launched *ret_launched, struct err *err) _must_check_;

/* To all of its group. */
void launch_signal(const struct launched *launched, int signal);

#endif
