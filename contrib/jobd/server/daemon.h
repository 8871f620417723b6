/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The daemon: configuration, store, select plugin, engine, runner and service, connected by one
 * event loop, and their order at start and end.
 */
#ifndef JOBD_SERVER_DAEMON_H
#define JOBD_SERVER_DAEMON_H

#include <stdbool.h>
#include <stdio.h>

#include "stepd/base/err.h"

/* Texts stay the caller's. */
struct daemon_options {
	const char *conf_file;
	const char *qos_file;  /* NULL: none */
	const char *state_dir; /* NULL: StateSaveLocation, or /var/lib/jobd */
	const char *socket; /* NULL: /run/jobd/socket, for others than root in $XDG_RUNTIME_DIR */
	const char *plugin_dir; /* NULL: stepd's default */
	const char *stepd;      /* these are run.h's */
	const char *runtime_dir;
	const char *cgroup_root;
	const char *launcher, *step_launcher;
	bool allow_swap;
	const struct log *log;
	/* Called once it listens, just before the first call is served. May be NULL. */
	void (*on_ready)(void *userdata);
	void *userdata;
};

/* Returns 0 after SIGTERM or SIGINT. Running jobs continue, and the next jobd finds them again. */
int daemon_run(const struct daemon_options *options, struct err *err) _must_check_;

/* The default of socket, the caller's to free. */
int daemon_make_socket_path(char **ret_path, struct err *err) _must_check_;

/* Reads the configuration and prints a summary. */
int daemon_check_conf(
	const struct daemon_options *options, FILE *out, struct err *err) _must_check_;

#endif
