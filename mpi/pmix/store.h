/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Published data, as node 0 keeps it for the step: in the order of publication. Who may see a key
 * is up to the range that it was published with, and how long it stays up to its persistence.
 * Nothing is asked or answered here (publish.c).
 */
#ifndef MPI_PMIX_STORE_H
#define MPI_PMIX_STORE_H

#include <pmix_common.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

struct published {
	struct published *next; /* the store's */
	pmix_proc_t owner;
	uint32_t node; /* of the owner */
	uint8_t range;
	uint8_t persistence;
	pmix_proc_t *custom; /* who may see it, with PMIX_RANGE_CUSTOM */
	size_t custom_count;
	pmix_info_t info; /* key and value */
};

/* Who looks, and how far. */
struct seeker {
	pmix_proc_t proc;
	uint32_t node;
	uint8_t range;
};

struct store *store_new(void); /* NULL: no memory */
struct store *store_free(struct store *store);

/* One more, like the first in all but the key and value: these are moved out of info. custom is
 * copied. PMIX_ERR_DUPLICATE_KEY: somebody could see two of that key. */
pmix_status_t store_add(struct store *store, const struct published *like, pmix_info_t *info);

/* The first of that key that the seeker may see, or NULL; the store's. */
struct published *store_find(const struct store *store, const struct seeker *who, const char *key);

void store_remove(struct store *store, struct published *gone);
/* Those of one owner with one of these keys; all of that owner's where keys_count is 0. */
void store_remove_own(
	struct store *store, const pmix_proc_t *owner, char *const *keys, size_t keys_count);
/* What was to stay as long as the owner, which has ended, or its namespace, if that has too. */
void store_owner_gone(struct store *store, const pmix_proc_t *owner, bool all_gone);

#endif
