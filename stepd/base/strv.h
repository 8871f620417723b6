/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A growing NULL-terminated vector of strings it owns: argv, environment, lists of names.
 */
#ifndef STEPD_BASE_STRV_H
#define STEPD_BASE_STRV_H

#include "stepd/base/cleanup.h"

struct strv {
	char **v; /* NULL-terminated; NULL while nothing was ever added */
	size_t n;
	size_t room; /* of v, the NULL included */
};

/* 0 or -ENOMEM. The _take form owns s from the call on, on failure too. */
int strv_add(struct strv *sv, const char *s) _must_check_;
int strv_add_take(struct strv *sv, char *s) _must_check_;
int strv_addf(struct strv *sv, const char *fmt, ...) _printf_(2, 3) _must_check_;

/* Sets NAME=VALUE in an environment vector. */
int strv_env_set(struct strv *sv, const char *name, const char *value) _must_check_;
int strv_env_put(struct strv *sv, const char *entry) _must_check_; /* of "NAME=VALUE" */
const char *strv_env_get(const struct strv *sv, const char *name);
void strv_env_unset(struct strv *sv, const char *name);

/* Copies what src holds behind what dst holds. */
int strv_extend(struct strv *dst, const struct strv *src) _must_check_;

void strv_clear(struct strv *sv);

#define _cleanup_strv_ _cleanup_(strv_clear)

#endif
