/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lists that grow, for what is made anew again and again: an emptied one keeps its memory. Without
 * memory the program ends, as with the bitmaps.
 */
#ifndef JOBD_ENGINE_GROW_H
#define JOBD_ENGINE_GROW_H

#include <stdlib.h>

#define LIST(type)                                                                                 \
	struct {                                                                                   \
		type *items;                                                                       \
		size_t count, capacity;                                                            \
	}

static inline void *list_grow(void *items, size_t count, size_t *capacity, size_t size)
{
	if (count < *capacity)
		return items;
	*capacity = *capacity ? 2 * *capacity : 64;
	items = reallocarray(items, *capacity, size);
	if (!items)
		abort();
	return items;
}

/* At its end. */
#define ADD(list, ...)                                                                             \
	((list)->items = list_grow(                                                                \
		 (list)->items, (list)->count, &(list)->capacity, sizeof(*(list)->items)),         \
		(list)->items[(list)->count++] = __VA_ARGS__)

#endif
