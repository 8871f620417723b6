/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A growing NULL-terminated vector of strings it owns: argv, environment, lists of names.
 */
#ifndef STEPD_BASE_STRV_H
#define STEPD_BASE_STRV_H

#include <stdio.h>

#include "stepd/base/cleanup.h"

struct strv {
	char **v; /* NULL-terminated; NULL while nothing was ever added */
	size_t n;
	size_t capacity; /* of v, the NULL included */
};

/* 0 or -ENOMEM. The _take form owns s from the call on, on failure too. */
int strv_add(struct strv *sv, const char *s) _must_check_;
int strv_add_take(struct strv *sv, char *s) _must_check_;
int strv_addf(struct strv *sv, const char *fmt, ...) _printf_(2, 3) _must_check_;

/* Sets NAME=VALUE in an environment vector. */
int strv_env_set(struct strv *sv, const char *name, const char *value) _must_check_;
int strv_env_put(struct strv *sv, const char *entry) _must_check_; /* of "NAME=VALUE" */
/* Many at once, in one pass over sv; of two of a name the later one counts. */
int strv_env_put_all(struct strv *sv, char *const *entries, size_t n) _must_check_;
const char *strv_env_get(const struct strv *sv, const char *name);
void strv_env_unset(struct strv *sv, const char *name);

/* Appends copies of src's strings to dst. */
int strv_extend(struct strv *dst, const struct strv *src) _must_check_;

/* The strings of a NULL-terminated vector (NULL: an empty one) with separator between them, from
 * malloc(); NULL: no memory. */
char *strv_join(char *const *v, char separator) _must_check_;

/* A string as one argument for a shell, quoted if necessary; and all strings, with blanks between
 * them, from malloc(); NULL: no memory. */
void strv_put_quoted(FILE *out, const char *arg);
char *strv_quote(const struct strv *args) _must_check_;

void strv_clear(struct strv *sv);

/* The index of text among the names, of which some may be NULL; -1: it is not among them. */
int strv_index(const char *const *names, size_t count, const char *text);

/* The entries of an environment in the order of their names, to find many of them. They are
 * borrowed. Sorted rather than hashed: no choice of names makes it slow. */
struct strv_names {
	char *const *entries;
	size_t *order; /* into entries */
	size_t n;
};
#define STRV_NAMES_NONE ((size_t)-1)

int strv_names_make(struct strv_names *names, char *const *entries, size_t n) _must_check_;

/* The last entry with the name of this "NAME=VALUE", or STRV_NAMES_NONE. */
size_t strv_names_find(const struct strv_names *names, const char *entry);
void strv_names_clear(struct strv_names *names);
#define _cleanup_strv_names_ _cleanup_(strv_names_clear)

#define _cleanup_strv_ _cleanup_(strv_clear)

#endif
