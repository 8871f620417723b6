/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library that is loaded when it is needed, and its functions as members of a struct: for those
 * that most steps can do without, and whose start-up or memory an agent should not pay for.
 */
#ifndef STEPD_BASE_DYNLIB_H
#define STEPD_BASE_DYNLIB_H

#include <stddef.h>

struct dynlib_symbol {
	const char *name;
	size_t offset; /* of the pointer to it, in the struct */
};

/* Loads the library of that soname, privately, and fills the count pointers of *into. Returns the
 * handle, for dynlib_close(), or NULL where the library, or one of the functions, is not there. */
void *dynlib_open(
	const char *soname, const struct dynlib_symbol *symbols, size_t count, void *into);

/* Returns NULL, for the caller's variable. What can't be unloaded stays mapped, unused. */
void *dynlib_close(void *handle);

#endif
