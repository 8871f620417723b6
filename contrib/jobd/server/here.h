/* SPDX-License-Identifier: BSD-3-Clause
 *
 * jobd --here: a configuration that is made for this machine.
 */
#ifndef JOBD_SERVER_HERE_H
#define JOBD_SERVER_HERE_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct here {
	char host[256]; /* without its domain */
	uint32_t cpus, sockets, cores_per_socket, threads_per_core;
	uint64_t memory_mb;
	bool limits_memory; /* a job's memory can be limited */
};

/* CPUs are those that this process may use. cgroup_root: the agents', NULL: their default. */
int here_find(struct here *ret_here, const char *cgroup_root, struct err *err) _must_check_;

/* The default of --state: /var/lib/jobd, or a directory in $XDG_STATE_HOME for users other than
 * root. Makes its parents. The caller frees it. */
int here_make_state_dir(char **ret_dir, struct err *err) _must_check_;

/* Writes DIR/slurm.conf, making the directory; *ret_path is the caller's to free. */
int here_write_conf(
	const struct here *here, const char *dir, char **ret_path, struct err *err) _must_check_;

#endif
