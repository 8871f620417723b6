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
};

/* Makes a group at the place and removes it. 0, or -errno with the reason in err and, apart from
 * it, what to do: a text that lives for ever. */
int probe_try(const struct place *place, struct probe_abilities *ret_abilities,
	const char **ret_remedy, struct err *err) _must_check_;

/* 0 with the line in text, or -errno with the reason and the remedy in err. */
int probe_place(const struct place *place, char *text, size_t size, struct err *err) _must_check_;

#endif
