/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Whether steps can be tracked at a place, found out by making a group there, and one line that
 * says what is to be had.
 */
#ifndef PROCTRACK_CGROUP_PROBE_H
#define PROCTRACK_CGROUP_PROBE_H

#include "stepd/base/err.h"

struct place;

/* 0 with the line in text, or -errno with the reason and the remedy in err. */
int probe_place(const struct place *place, char *text, size_t size, struct err *err) _must_check_;

#endif
