/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Whether steps can be tracked at a place, found out by making a group there, and one line that
 * says what is to be had.
 */
#ifndef PROCTRACK_CGROUP_PROBE_H
#define PROCTRACK_CGROUP_PROBE_H

#include <stdbool.h>

#include "stepd/base/err.h"

struct place;

/* What a group of this kernel can do. */
struct probe_abilities {
	bool kill;
	bool freeze;
	bool made; /* the group that was tried stands, for probe_forget() */
};

/* Makes a group at the place, if it isn't there. 0, or -errno with the reason in err and, apart
 * from it, what to do: a text that lives for ever. */
int probe_try(const struct place *place, struct probe_abilities *ret_abilities,
	const char **ret_remedy, struct err *err) _must_check_;

/* Removes the group again, unless it is used by now. */
void probe_forget(const struct place *place);

/* 0 with the line in text, or -errno with the reason and the remedy in err. *ret_made: a group was
 * made there, for probe_forget(). */
int probe_place(const struct place *place, char *text, size_t size, bool *ret_made,
	struct err *err) _must_check_;

#endif
