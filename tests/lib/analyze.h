/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Macros of libraries, as cppcheck needs them, which reads no headers but the tree's.
 */
#define TAILQ_HEAD(name, type)                                                                     \
	struct name {                                                                              \
		struct type *tqh_first, **tqh_last;                                                \
	}
#define TAILQ_ENTRY(type)                                                                          \
	struct {                                                                                   \
		struct type *tqe_next, **tqe_prev;                                                 \
	}
#define TAILQ_FIRST(head)      ((head)->tqh_first)
#define TAILQ_NEXT(item, link) ((item)->link.tqe_next)
#define TAILQ_FOREACH(item, head, link)                                                            \
	for ((item) = (head)->tqh_first; (item); (item) = (item)->link.tqe_next)
#define json_array_foreach(array, i, value)                                                        \
	for ((i) = 0; (i) < json_array_size(array) && ((value) = json_array_get(array, i)); (i)++)
#define json_object_foreach(object, key, value)                                                    \
	for ((key) = first_key(object); (key) && ((value) = json_object_get(object, key));         \
		(key) = next_key(object, key))
#define STEPD_EXPORT
#define SHRT_MAX 32767
#define LIST_HEAD(name, type)                                                                      \
	struct name {                                                                              \
		struct type *lh_first;                                                             \
	}
