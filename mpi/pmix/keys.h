/* SPDX-License-Identifier: BSD-3-Clause
 * A growing list of PMIx keys and values. The first failure (there is but want of memory) sticks,
 * so that it is checked once, at the end.
 */
#ifndef MPI_PMIX_KEYS_H
#define MPI_PMIX_KEYS_H

#include <pmix_common.h>
#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"

struct keys {
	pmix_info_t *v;
	size_t n;
	size_t capacity;
	bool failed;
};

void keys_clear(struct keys *keys);
#define _cleanup_keys_ _cleanup_(keys_clear)

/* Copies what value points to, as PMIX_INFO_LOAD does. */
void keys_add(struct keys *keys, const char *key, const void *value, pmix_data_type_t type);
void keys_add_text(struct keys *keys, const char *key, const char *value);
void keys_add_text_take(struct keys *keys, const char *key, char *value); /* NULL: no memory */
void keys_add_textf(struct keys *keys, const char *key, const char *fmt, ...) _printf_(3, 4);
void keys_add_u16(struct keys *keys, const char *key, uint16_t value);
void keys_add_u32(struct keys *keys, const char *key, uint32_t value);
void keys_add_rank(struct keys *keys, const char *key, pmix_rank_t value);
void keys_add_bool(struct keys *keys, const char *key, bool value);

/* Moves a list into another as one array, and leaves it empty. */
void keys_add_array(struct keys *keys, const char *key, struct keys *array);

/* Takes an array of count elements that came from malloc(). */
void keys_add_data_take(
	struct keys *keys, const char *key, void *data, size_t count, pmix_data_type_t type);

#endif
