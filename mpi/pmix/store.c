/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/store.h"

#include <pmix.h>
#include <string.h>

#include "stepd/base/cleanup.h"

struct store {
	struct published *first, **last;
};

static struct published *published_free(struct published *p)
{
	PMIX_INFO_DESTRUCT(&p->info);
	free(p->custom);
	free(p);
	return NULL;
}

struct store *store_new(void)
{
	struct store *store = calloc(1, sizeof(*store));

	if (store)
		store->last = &store->first;
	return store;
}

struct store *store_free(struct store *store)
{
	struct published *next;

	for (struct published *p = store ? store->first : NULL; p; p = next) {
		next = p->next;
		(void)published_free(p);
	}
	free(store);
	return NULL;
}

/* ---- who sees what ---- */

static bool is_in(const pmix_proc_t *procs, size_t count, const pmix_proc_t *proc)
{
	for (size_t i = 0; i < count; i++) {
		if (PMIX_CHECK_NSPACE(procs[i].nspace, proc->nspace) &&
			(procs[i].rank == PMIX_RANK_WILDCARD || procs[i].rank == proc->rank))
			return true;
	}
	return false;
}

/* Whether a range that one has chosen holds the other. */
static bool reaches(
	uint8_t range, const pmix_proc_t *a, uint32_t a_node, const pmix_proc_t *b, uint32_t b_node)
{
	switch (range) {
	case PMIX_RANGE_PROC_LOCAL:
		return PMIX_CHECK_NSPACE(a->nspace, b->nspace) && a->rank == b->rank;
	case PMIX_RANGE_NAMESPACE:
		return PMIX_CHECK_NSPACE(a->nspace, b->nspace);
	case PMIX_RANGE_LOCAL:
		return a_node == b_node;
	case PMIX_RANGE_RM:
		return false;
	default:
		return true;
	}
}

static bool is_visible(const struct published *p, const struct seeker *who)
{
	if (p->range == PMIX_RANGE_CUSTOM && !is_in(p->custom, p->custom_count, &who->proc))
		return false;
	return reaches(p->range, &p->owner, p->node, &who->proc, who->node) &&
		reaches(who->range, &who->proc, who->node, &p->owner, p->node);
}

struct published *store_find(const struct store *store, const struct seeker *who, const char *key)
{
	for (struct published *p = store->first; p; p = p->next) {
		if (PMIX_CHECK_KEY(&p->info, key) && is_visible(p, who))
			return p;
	}
	return NULL;
}

/* ---- more and less ---- */

/* The same key, of which somebody could see both. */
static bool clashes(const struct published *p, const struct published *other)
{
	return PMIX_CHECK_KEY(&p->info, other->info.key) && p->range == other->range &&
		reaches(p->range, &p->owner, p->node, &other->owner, other->node);
}

pmix_status_t store_add(struct store *store, const struct published *like, pmix_info_t *info)
{
	struct published *p = calloc(1, sizeof(*p));

	if (!p)
		return PMIX_ERR_NOMEM;
	*p = *like;
	p->next = NULL;
	p->custom = calloc(like->custom_count + 1, sizeof(*p->custom));
	if (!p->custom) {
		free(p);
		return PMIX_ERR_NOMEM;
	}
	if (like->custom_count)
		memcpy(p->custom, like->custom, like->custom_count * sizeof(*p->custom));
	p->info = *info; /* moved */
	PMIX_INFO_CONSTRUCT(info);
	for (struct published *q = store->first; q; q = q->next) {
		if (clashes(q, p)) {
			(void)published_free(p);
			return PMIX_ERR_DUPLICATE_KEY;
		}
	}
	*store->last = p;
	store->last = &p->next;
	return PMIX_SUCCESS;
}

void store_remove(struct store *store, struct published *gone)
{
	struct published **at = &store->first;

	while (*at != gone)
		at = &(*at)->next;
	*at = gone->next;
	if (store->last == &gone->next)
		store->last = at;
	(void)published_free(gone);
}

static bool is_owner(const struct published *p, const pmix_proc_t *proc)
{
	return PMIX_CHECK_NSPACE(p->owner.nspace, proc->nspace) && p->owner.rank == proc->rank;
}

void store_remove_own(
	struct store *store, const pmix_proc_t *owner, char *const *keys, size_t keys_count)
{
	struct published *next;

	for (struct published *p = store->first; p; p = next) {
		bool named = keys_count == 0;

		next = p->next;
		for (size_t i = 0; !named && i < keys_count; i++)
			named = PMIX_CHECK_KEY(&p->info, keys[i]);
		if (named && is_owner(p, owner))
			store_remove(store, p);
	}
}

void store_owner_gone(struct store *store, const pmix_proc_t *owner, bool all_gone)
{
	struct published *next;

	for (struct published *p = store->first; p; p = next) {
		next = p->next;
		if ((p->persistence == PMIX_PERSIST_PROC && is_owner(p, owner)) ||
			(p->persistence == PMIX_PERSIST_APP && all_gone &&
				PMIX_CHECK_NSPACE(p->owner.nspace, owner->nspace)))
			store_remove(store, p);
	}
}
