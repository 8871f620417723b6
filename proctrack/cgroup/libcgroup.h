/* SPDX-License-Identifier: BSD-3-Clause
 *
 * libcgroup, loaded for as long as it is used and unloaded again: it holds a megabyte of tables,
 * and every mapping of the agent makes each fork of a task dearer.
 */
#ifndef PROCTRACK_CGROUP_LIBCGROUP_H
#define PROCTRACK_CGROUP_LIBCGROUP_H

#include <libcgroup.h>

#include "stepd/base/cleanup.h"

struct libcgroup {
	void *handle;
	__typeof__(&cgroup_init) init;
	__typeof__(&cgroup_set_logger) set_logger;
	__typeof__(&cgroup_get_controller_begin) get_controller_begin;
	__typeof__(&cgroup_get_controller_next) get_controller_next;
	__typeof__(&cgroup_get_controller_end) get_controller_end;
};

/* Loads the library and has it read the mounts. -ENOENT: it is not installed, or not usable. */
int libcgroup_open(struct libcgroup *ret_lib) _must_check_;
void libcgroup_close(struct libcgroup *lib);
#define _cleanup_libcgroup_ _cleanup_(libcgroup_close)

#endif
