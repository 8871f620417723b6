/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a dead agent of the same step left: processes in a container that is not where the new one
 * will be, such as the dead agent's scope. The tracker finds them only where the registry says.
 */
#ifndef STEPD_RECORD_LEFTOVER_H
#define STEPD_RECORD_LEFTOVER_H

#include "stepd/base/err.h"

struct registry;

/* -EEXIST, with the words in err, if processes of an earlier agent's step live. Before the tracker
 * is opened: there is one of each in a process. */
int leftover_check(const struct registry *registry, const char *plugin_dir, const char *label,
	struct err *err) _must_check_;

/* The words alone. Returns -EEXIST. */
int leftover_say(const char *label, struct err *err);

/* Whether processes of the step in that directory live: 1, 0, or -errno where it can't be told.
 * Nothing is touched. */
int leftover_lives(int dir_fd, const char *plugin_dir) _must_check_;

#endif
