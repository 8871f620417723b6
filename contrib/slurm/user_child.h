/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What is to be done as a step's user, in a process of that user's own: what a path of the user's
 * leads to is never touched as root, and a file system that does not answer, which users can have
 * of their own, is not waited for longer than the caller has time.
 */
#ifndef SLURM_USER_CHILD_H
#define SLURM_USER_CHILD_H

#include <limits.h>
#include <stddef.h>

#include "stepd/base/err.h"

struct identity;

#define USER_CHILD_RESULT_MAX (2 * PATH_MAX)

struct user_child {
	const struct identity *identity;
	const char *mount_namespace; /* where it is done; NULL and "": here */
	unsigned timeout_ms;
	/* Fills the result, zeroes before, which is the parent's then. 0 or -errno. */
	int (*run)(void *userdata, void *result);
	void *userdata;
	size_t result_size; /* USER_CHILD_RESULT_MAX at most */
};

/* 0, what run() has returned, or -errno: there is no result. -ETIMEDOUT: not within the time; the
 * child is ended then. */
int user_child_run(const struct user_child *child, void *ret_result, struct err *err) _must_check_;

#endif
