/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/api/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An array of pointers, with the place of each iterator that is at it. */
struct stepd_list {
	void **items;
	int count, capacity;
	ListDelF free_item;
	struct stepd_list_iterator *iterators;
};

struct stepd_list_iterator {
	struct stepd_list *list;
	int next;    /* index of the item that comes next */
	int current; /* of the one that list_next() returned last; -1: none, or it is gone */
	struct stepd_list_iterator *other;
};

static void *check(void *p)
{
	if (!p) {
		(void)fputs("jobd: out of memory for a list\n", stderr);
		abort();
	}
	return p;
}

List list_create(ListDelF free_item)
{
	List list = check(calloc(1, sizeof(*list)));

	list->free_item = free_item;
	return list;
}

void list_destroy(List list)
{
	int i;

	if (!list)
		return;
	for (i = 0; list->free_item && i < list->count; i++)
		list->free_item(list->items[i]);
	while (list->iterators)
		list_iterator_destroy(list->iterators);
	free(list->items);
	free(list);
}

bool list_is_empty(List list)
{
	return list->count == 0;
}

int list_count(List list)
{
	return list->count;
}

static void insert(List list, int at, void *item)
{
	struct stepd_list_iterator *i;

	if (list->count == list->capacity) {
		list->capacity = list->capacity ? 2 * list->capacity : 8;
		list->items = check(
			reallocarray(list->items, (size_t)list->capacity, sizeof(*list->items)));
	}
	memmove(list->items + at + 1, list->items + at,
		(size_t)(list->count - at) * sizeof(*list->items));
	list->items[at] = item;
	list->count++;
	for (i = list->iterators; i; i = i->other) {
		i->next += i->next > at;
		i->current += i->current >= at;
	}
}

static void *take(List list, int at)
{
	void *item = list->items[at];
	struct stepd_list_iterator *i;

	list->count--;
	memmove(list->items + at, list->items + at + 1,
		(size_t)(list->count - at) * sizeof(*list->items));
	for (i = list->iterators; i; i = i->other) {
		i->next -= i->next > at;
		if (i->current == at)
			i->current = -1;
		i->current -= i->current > at;
	}
	return item;
}

void *list_append(List list, void *item)
{
	insert(list, list->count, item);
	return item;
}

void *list_prepend(List list, void *item)
{
	insert(list, 0, item);
	return item;
}

void *list_peek(List list)
{
	return list->count ? list->items[0] : NULL;
}

void *list_pop(List list)
{
	return list->count ? take(list, 0) : NULL;
}

void *list_find_first(List list, ListFindF find, void *key)
{
	int i;

	for (i = 0; i < list->count; i++) {
		if (find(list->items[i], key))
			return list->items[i];
	}
	return NULL;
}

int list_delete_all(List list, ListFindF find, void *key)
{
	int i = 0, n = 0;
	void *item;

	while (i < list->count) {
		if (!find(list->items[i], key)) {
			i++;
			continue;
		}
		item = take(list, i);
		if (list->free_item)
			list->free_item(item);
		n++;
	}
	return n;
}

int list_for_each(List list, ListForF fn, void *arg)
{
	int i, n = 0;

	for (i = 0; i < list->count; i++) {
		n++;
		if (fn(list->items[i], arg) < 0)
			return -n;
	}
	return n;
}

/* Merges the two sorted halves of items. */
static void merge(void **items, int half, int n, void **space, ListCmpF compare)
{
	int i = 0, k = half, at = 0;

	memcpy(space, items, (size_t)n * sizeof(*space));
	while (i < half && k < n)
		items[at++] = compare(&space[k], &space[i]) < 0 ? space[k++] : space[i++];
	while (i < half)
		items[at++] = space[i++];
	while (k < n)
		items[at++] = space[k++];
}

/* qsort() does not promise to keep the order of equal ones. */
static void sort(void **items, int n, void **space, ListCmpF compare)
{
	int half = n / 2;

	if (n < 2)
		return;
	sort(items, half, space, compare);
	sort(items + half, n - half, space, compare);
	merge(items, half, n, space, compare);
}

void list_sort(List list, ListCmpF compare)
{
	void **space = check(calloc((size_t)list->count + 1, sizeof(*space)));

	sort(list->items, list->count, space, compare);
	free(space);
}

ListIterator list_iterator_create(List list)
{
	ListIterator i = check(calloc(1, sizeof(*i)));

	i->list = list;
	i->current = -1;
	i->other = list->iterators;
	list->iterators = i;
	return i;
}

void *list_next(ListIterator i)
{
	i->current = i->next < i->list->count ? i->next++ : -1;
	return i->current >= 0 ? i->list->items[i->current] : NULL;
}

void list_iterator_reset(ListIterator i)
{
	i->next = 0;
	i->current = -1;
}

void list_iterator_destroy(ListIterator i)
{
	struct stepd_list_iterator **at = &i->list->iterators;

	while (*at != i)
		at = &(*at)->other;
	*at = i->other;
	free(i);
}

void *list_remove(ListIterator i)
{
	return i->current >= 0 ? take(i->list, i->current) : NULL;
}

int list_delete_item(ListIterator i)
{
	void *item = list_remove(i);

	if (!item)
		return 0;
	if (i->list->free_item)
		i->list->free_item(item);
	return 1;
}
