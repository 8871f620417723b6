/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Limits of a step's group or of one of its tasks': each is a file of the group but for devices,
 * which are a program (devices.h).
 *
 * The kernel holds a group to its own limits and to those of all above it, so that a task's never
 * gets it more than the step's. A file is written without waiting where the kernel knows how
 * (memory, Linux 6.16): before, a memory.max or memory.high below what is in use returns only after
 * what can be reclaimed was, and for memory.max after processes were killed until it fits.
 */
#ifndef PROCTRACK_CGROUP_LIMITS_H
#define PROCTRACK_CGROUP_LIMITS_H

#include "stepd/api/limits.h"
#include "stepd/base/err.h"

struct step_dir;

#define LIMITS_TEXT_SIZE 160 /* of a number or an I/O line */

/* Sets the limits of the step or, with a rank, of that task, whose group is made on demand. The
 * first that fails ends it, err has the sentence: -EOPNOTSUPP: not to be had here. -EINVAL,
 * -ERANGE: no such value. -ESRCH: the step is gone. */
int limits_apply(const struct step_dir *dir, const uint32_t *rank, const stepd_limits_t *limits,
	struct err *err) _must_check_;

/* The limit's name, which is its file's; the controller it needs, 0 for none; and, or NULL, why the
 * file can be missing where the controller is on. */
const char *limits_get_name(
	enum stepd_limit which, unsigned *ret_controller, const char **ret_absent);

/* The text that is written for a number: "max", "150000 100000". -ERANGE: the limit has no such
 * value. */
int limits_format_number(enum stepd_limit which, uint64_t n, char text[LIMITS_TEXT_SIZE],
	struct err *err) _must_check_;

/* "8:0 rbps=max wbps=1048576 riops=max wiops=max" */
void limits_format_io(const stepd_io_limit_t *io, char text[LIMITS_TEXT_SIZE]);

/* Checks that the list wanted is in the list had, which file shows. -EINVAL: wanted is no list.
 * -ERANGE: it has a number that had has not. */
int limits_check_list(
	const char *wanted, const char *had, const char *file, struct err *err) _must_check_;

#endif
