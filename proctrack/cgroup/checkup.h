/* SPDX-License-Identifier: BSD-3-Clause
 *
 * plugin_checkup() of proctrack/cgroup: where steps would hang and why there, what a group can do
 * (tried out on one of our own, removed again), and which limits can be set.
 */
#ifndef PROCTRACK_CGROUP_CHECKUP_H
#define PROCTRACK_CGROUP_CHECKUP_H

#include <stdbool.h>

#include "proctrack/tell.h"
#include "stepd/base/err.h"

struct place;

/* place is NULL where place_open() failed, by the reason in err. */
void checkup_cgroup(const struct tell *tell, const struct place *place, const struct err *err);

/* How many groups and processes the groups from the place up allow. */
void checkup_room(const struct tell *tell, const struct place *place);

/* Which limits can be set below place. trial_fd is an empty group right below it. */
void checkup_limits(const struct tell *tell, const struct place *place, int trial_fd);

/* Whether a step would hang in a scope of its own instead. */
bool checkup_is_scope(const struct place *place);

/* Whether the place has the controller, or can have it: by name. */
bool checkup_is_offered(const struct place *place, const char *controller);

#endif
