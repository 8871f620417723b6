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

/* Which limits can be set below place. trial_fd is an empty group right below it. */
void checkup_limits(const struct tell *tell, const struct place *place, int trial_fd);

/* A word in a list with blanks, commas or newlines between. */
bool checkup_has_word(const char *list, const char *word);

#endif
