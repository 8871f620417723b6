/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lists, for select and preempt plugins, by the names that Slurm's plugins use. The host exports
 * the functions. A list owns its items if it was given a function that frees them.
 */
#ifndef STEPD_API_LIST_H
#define STEPD_API_LIST_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default) /* the host has them, for its plugins */

typedef struct stepd_list *List;
typedef struct stepd_list_iterator *ListIterator;

typedef void (*ListDelF)(void *item);
typedef int (*ListCmpF)(void *item1, void *item2); /* pointers to items: void ** */
typedef int (*ListFindF)(void *item, void *key);   /* 0: not this one */
typedef int (*ListForF)(void *item, void *arg);    /* negative: stop */

/* free_item may be NULL. The program ends if memory is short. */
List list_create(ListDelF free_item);
void list_destroy(List list); /* NULL is fine */
#define FREE_NULL_LIST(list)                                                                       \
	do {                                                                                       \
		list_destroy(list);                                                                \
		(list) = NULL;                                                                     \
	} while (0)

bool list_is_empty(List list);
int list_count(List list);

/* Both return item. */
void *list_append(List list, void *item);
void *list_prepend(List list, void *item);

/* The first item, or NULL; list_pop() removes it, and the caller owns it. */
void *list_peek(List list);
void *list_pop(List list);

void *list_find_first(List list, ListFindF find, void *key); /* NULL: none */
int list_delete_all(List list, ListFindF find, void *key);   /* the number deleted */
int list_for_each(List list, ListForF fn, void *arg); /* the number of calls, negative if stopped */
void list_sort(List list, ListCmpF compare);          /* stable */

/* Iterates over the list. Items may be added and removed meanwhile: list_next() skips removed items
 * and returns appended ones. */
ListIterator list_iterator_create(List list);
void *list_next(ListIterator i); /* NULL: at the end */
void list_iterator_reset(ListIterator i);
void list_iterator_destroy(ListIterator i);

/* Removes the item that list_next() returned last. list_remove() returns it to the caller, NULL if
 * it is not in the list any more; list_delete_item() frees it, and returns 1 or 0. */
void *list_remove(ListIterator i);
int list_delete_item(ListIterator i);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
