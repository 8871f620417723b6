/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lists, for select and preempt plugins: by the names that Slurm's plugins know. The host exports
 * the functions. A list owns its items where it was given a function that frees them.
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
typedef int (*ListCmpF)(void *item1, void *item2); /* they are pointers to items: void ** */
typedef int (*ListFindF)(void *item, void *key);   /* 0: not this one */
typedef int (*ListForF)(void *item, void *arg);    /* negative: stop */

/* free_item may be NULL. The program ends where there is no memory. */
List list_create(ListDelF free_item);
void list_destroy(List list); /* NULL is fine */
#define FREE_NULL_LIST(list)                                                                       \
	do {                                                                                       \
		list_destroy(list);                                                                \
		(list) = NULL;                                                                     \
	} while (0)

bool list_is_empty(List list);
int list_count(List list);

/* They return item. */
void *list_append(List list, void *item);
void *list_prepend(List list, void *item);

/* The first item, or NULL: left there, or taken out, and then the caller's. */
void *list_peek(List list);
void *list_pop(List list);

void *list_find_first(List list, ListFindF find, void *key); /* NULL: none */
int list_delete_all(List list, ListFindF find, void *key);   /* how many */
int list_for_each(List list, ListForF fn, void *arg); /* how many calls, negative if stopped */
void list_sort(List list, ListCmpF compare);          /* equal ones keep their order */

/* Goes through the list. Items may be added and removed meanwhile: one that was removed does not
 * come, one that was appended does. */
ListIterator list_iterator_create(List list);
void *list_next(ListIterator i); /* NULL: that was all */
void list_iterator_reset(ListIterator i);
void list_iterator_destroy(ListIterator i);

/* The item that list_next() returned last, if it is still there: taken out, and then the caller's;
 * or freed, 1. NULL and 0 where there is none. */
void *list_remove(ListIterator i);
int list_delete_item(ListIterator i);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
