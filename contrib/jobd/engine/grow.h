/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Growing lists for data that is rebuilt again and again: an emptied list retains its memory. The
 * program aborts if memory is short, as with bitmaps.
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

/* Appends. */
#define ADD(list, ...)                                                                             \
	((list)->items = list_grow(                                                                \
		 (list)->items, (list)->count, &(list)->capacity, sizeof(*(list)->items)),         \
		(list)->items[(list)->count++] = __VA_ARGS__)

#endif
