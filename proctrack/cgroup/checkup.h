/* SPDX-License-Identifier: BSD-3-Clause
 *
 * plugin_checkup() of proctrack/cgroup: where steps would hang and why there, what a group can do
 * (tried out on one of our own, removed again), and which limits can be set.
 */
#ifndef PROCTRACK_CGROUP_CHECKUP_H
#define PROCTRACK_CGROUP_CHECKUP_H

#include <stdbool.h>

#include "proctrack/reporter.h"
#include "stepd/base/err.h"

struct cgroup_root;

/* root is NULL where root_open() failed, by the reason in err. */
void checkup_cgroup(
	const struct reporter *reporter, const struct cgroup_root *root, const struct err *err);

#endif
