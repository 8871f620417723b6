/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Published data: node 0 stores it for the step, and the requests of all nodes, of which its own is
 * one, go there.
 */
#include <pmix.h>
#include <string.h>

#include "mpi/pmix/rpc.h"
#include "stepd/base/cleanup.h"

/* ---- the store ------------------------------------------------------------------------------ */

/* In the order of publication. */
struct published {
	struct published *next; /* the store's */
	pmix_proc_t owner;
	uint32_t node; /* of the owner */
	uint8_t range;
	uint8_t persistence;
	pmix_proc_t *custom; /* that may see it, with PMIX_RANGE_CUSTOM */
	size_t custom_count;
	pmix_info_t info; /* key and value */
};

/* The reader, and its range. */
struct seeker {
	pmix_proc_t proc;
	uint32_t node;
	uint8_t range;
};

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

static struct store *store_new(void)
{
	struct store *store = calloc(1, sizeof(*store));

	if (store)
		store->last = &store->first;
	return store;
}

static struct store *store_free(struct store *store)
{
	struct published *next;

	for (struct published *p = store ? store->first : NULL; p; p = next) {
		next = p->next;
		(void)published_free(p);
	}
	free(store);
	return NULL;
}

/* ---- visibility ---- */

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

/* The first of that key that the seeker may see, or NULL; the store's. */
static struct published *store_find(
	const struct store *store, const struct seeker *who, const char *key)
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

/* One more, like the first in all but the key and value: these are moved out of info. custom is
 * copied. PMIX_ERR_DUPLICATE_KEY: somebody could see two of that key. */
static pmix_status_t store_add(struct store *store, const struct published *like, pmix_info_t *info)
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

static void store_remove(struct store *store, struct published *gone)
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

/* Those of one owner with one of these keys; all of that owner's where keys_count is 0. */
static void store_remove_own(
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

/* What was to stay as long as the owner, which has ended, or its namespace, if that has too. */
static void store_owner_gone(struct store *store, const pmix_proc_t *owner, bool all_gone)
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

/* ---- node 0 ---------------------------------------------------------------------------------
 *
 * Published data, on node 0: the requests of all nodes, of which its own is one, and those lookups
 * that wait for what is not there yet.
 */

/* A lookup that waits for keys. */
struct lookup {
	struct lookup *next;
	struct px *px;
	struct rpc_request request;
	struct seeker who;
	char **keys;
	size_t keys_count;
	size_t wanted; /* so many of them; 0: what is there now */
	ev_timer timer;
};

/* On node 0. */
struct publishing {
	struct store *store;
	struct lookup *waiting;
};

/* ---- lookup, on node 0 ---- */

static void lookup_free(struct lookup *l)
{
	ev_timer_stop(l->px->loop, &l->timer);
	for (size_t i = 0; i < l->keys_count; i++)
		free(l->keys[i]);
	free(l->keys);
	free(l);
}

/* Answers with what is there. */
static void answer_lookup(struct px *px, struct lookup *l, pmix_status_t status)
{
	struct store *store = px->publishing->store;
	pmix_data_buffer_t result;
	size_t count = 0;
	bool good;

	for (size_t i = 0; i < l->keys_count; i++)
		count += store_find(store, &l->who, l->keys[i]) != NULL;
	PMIX_DATA_BUFFER_CONSTRUCT(&result);
	good = pack(&result, &count, 1, PMIX_SIZE);
	for (size_t i = 0; good && i < l->keys_count; i++) {
		struct published *p = store_find(store, &l->who, l->keys[i]);

		if (!p)
			continue;
		good = pack(&result, &p->owner, 1, PMIX_PROC) &&
			pack(&result, &p->info, 1, PMIX_INFO);
		if (p->persistence == PMIX_PERSIST_FIRST_READ)
			store_remove(store, p);
	}
	if (!good)
		status = PMIX_ERR_NOMEM;
	else if (status == PMIX_SUCCESS && count == 0)
		status = PMIX_ERR_NOT_FOUND;
	rpc_reply(px, &l->request, status, &result);
	lookup_free(l);
}

static bool is_ready(const struct store *store, const struct lookup *l)
{
	size_t count = 0;

	for (size_t i = 0; i < l->keys_count; i++)
		count += store_find(store, &l->who, l->keys[i]) != NULL;
	return count >= l->wanted;
}

static struct lookup **lookup_link(struct px *px, const struct lookup *l)
{
	struct lookup **at = &px->publishing->waiting;

	while (*at && *at != l)
		at = &(*at)->next;
	return at;
}

static void on_timeout(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct lookup *l = timer->data, **at = lookup_link(l->px, l);

	(void)loop;
	(void)revents;
	*at = l->next;
	answer_lookup(l->px, l, PMIX_ERR_TIMEOUT);
}

/* Something was published. */
static void wake(struct px *px)
{
	struct lookup **at = &px->publishing->waiting, *l;

	while ((l = *at)) {
		if (!is_ready(px->publishing->store, l)) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		answer_lookup(px, l, PMIX_SUCCESS);
	}
}

static bool unpack_keys(struct lookup *l, pmix_data_buffer_t *args)
{
	size_t count;

	if (!unpack(args, &count, 1, PMIX_SIZE) || count > PACK_MAX)
		return false;
	l->keys = calloc(count + 1, sizeof(char *));
	if (!l->keys)
		return false;
	for (; l->keys_count < count; l->keys_count++) {
		if (!unpack(args, &l->keys[l->keys_count], 1, PMIX_STRING))
			return false;
	}
	return true;
}

static struct lookup *unpack_lookup(
	struct px *px, const struct rpc_request *request, pmix_data_buffer_t *args)
{
	struct lookup *l = calloc(1, sizeof(*l));
	uint64_t timeout_ms;

	if (!l)
		return NULL;
	l->px = px;
	l->request = *request;
	l->who.node = request->from;
	ev_init(&l->timer, on_timeout);
	l->timer.data = l;
	if (!unpack(args, &l->who.proc, 1, PMIX_PROC) ||
		!unpack(args, &l->who.range, 1, PMIX_UINT8) ||
		!unpack(args, &l->wanted, 1, PMIX_SIZE) ||
		!unpack(args, &timeout_ms, 1, PMIX_UINT64) || !unpack_keys(l, args)) {
		lookup_free(l);
		return NULL;
	}
	if (l->wanted > l->keys_count)
		l->wanted = l->keys_count;
	ev_timer_set(&l->timer, (double)timeout_ms / 1e3, 0.);
	return l;
}

static void serve_lookup(struct px *px, const struct rpc_request *request, pmix_data_buffer_t *args)
{
	struct lookup *l = unpack_lookup(px, request, args);

	if (!l) {
		rpc_reply(px, request, PMIX_ERR_UNPACK_FAILURE, NULL);
		return;
	}
	if (is_ready(px->publishing->store, l)) {
		answer_lookup(px, l, PMIX_SUCCESS);
		return;
	}
	l->next = px->publishing->waiting;
	px->publishing->waiting = l;
	if (ev_timer_remaining(px->loop, &l->timer) > 0)
		ev_timer_start(px->loop, &l->timer);
}

/* ---- publish and unpublish, on node 0 ---- */

static bool is_directive(const pmix_info_t *info)
{
	static const char *const keys[] = {PMIX_RANGE, PMIX_PERSISTENCE, PMIX_TIMEOUT, PMIX_USERID,
		PMIX_GRPID, PMIX_EVENT_CUSTOM_RANGE, PMIX_ACCESS_PERMISSIONS, PMIX_ACCESS_USERIDS,
		PMIX_ACCESS_GRPIDS};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (PMIX_CHECK_KEY(info, keys[i]))
			return true;
	}
	return false;
}

static void read_directives(struct published *like, const pmix_info_t *infos, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const pmix_value_t *v = &infos[i].value;

		if (PMIX_CHECK_KEY(&infos[i], PMIX_RANGE))
			like->range = v->data.range;
		else if (PMIX_CHECK_KEY(&infos[i], PMIX_PERSISTENCE))
			like->persistence = v->data.persist;
		else if (PMIX_CHECK_KEY(&infos[i], PMIX_EVENT_CUSTOM_RANGE) &&
			v->type == PMIX_DATA_ARRAY && v->data.darray &&
			v->data.darray->type == PMIX_PROC) {
			like->custom = v->data.darray->array;
			like->custom_count = v->data.darray->size;
		}
	}
}

static void serve_publish(
	struct px *px, const struct rpc_request *request, pmix_data_buffer_t *args)
{
	struct published like = {.node = request->from,
		.range = PMIX_RANGE_SESSION,
		.persistence = PMIX_PERSIST_SESSION};
	pmix_status_t status = PMIX_SUCCESS;
	pmix_info_t *infos = NULL;
	size_t count = 0;

	if (!unpack(args, &like.owner, 1, PMIX_PROC) || !unpack_infos(args, &infos, &count)) {
		rpc_reply(px, request, PMIX_ERR_UNPACK_FAILURE, NULL);
		return;
	}
	read_directives(&like, infos, count);
	for (size_t i = 0; status == PMIX_SUCCESS && i < count; i++) {
		if (!is_directive(&infos[i]))
			status = store_add(px->publishing->store, &like, &infos[i]);
	}
	if (infos)
		PMIX_INFO_FREE(infos, count);
	rpc_reply(px, request, status, NULL);
	wake(px);
}

/* Of one's own keys only; without keys, all of these. What is not there is no failure. */
static void serve_unpublish(
	struct px *px, const struct rpc_request *request, pmix_data_buffer_t *args)
{
	struct lookup *l = unpack_lookup(px, request, args);

	if (!l) {
		rpc_reply(px, request, PMIX_ERR_UNPACK_FAILURE, NULL);
		return;
	}
	store_remove_own(px->publishing->store, &l->who.proc, l->keys, l->keys_count);
	lookup_free(l);
	rpc_reply(px, request, PMIX_SUCCESS, NULL);
}

void publish_open(struct px *px)
{
	struct publishing *p;

	if (px->node != 0)
		return;
	p = calloc(1, sizeof(*p));
	if (p)
		p->store = store_new();
	if (!p || !p->store) {
		free(p);
		return; /* then it is not supported */
	}
	px->publishing = p;
	rpc_register(px, RPC_PUBLISH, serve_publish);
	rpc_register(px, RPC_LOOKUP, serve_lookup);
	rpc_register(px, RPC_UNPUBLISH, serve_unpublish);
}

void publish_rank_gone(struct px *px, const struct nspace *nspace, uint32_t rank)
{
	pmix_proc_t owner;

	if (!px->publishing)
		return;
	PMIX_LOAD_PROCID(&owner, nspace->name, rank);
	store_owner_gone(px->publishing->store, &owner, nspace->gone == nspace->size);
}

void publish_close(struct px *px)
{
	struct publishing *p = px->publishing;
	struct lookup *l;

	if (!p)
		return;
	while ((l = p->waiting)) {
		p->waiting = l->next;
		lookup_free(l);
	}
	(void)store_free(p->store);
	free(p);
	px->publishing = NULL;
}

/* ---- the requests of ranks ------------------------------------------------------------------
 *
 * Publish, lookup and unpublish, where a rank has called them: they are put to node 0 (publish.c).
 */

static void on_status(
	struct px *px, void *userdata, pmix_status_t status, pmix_data_buffer_t *result)
{
	(void)px;
	(void)result;
	call_answer(userdata, status);
}

void px_publish(struct px *px, struct call *call)
{
	pmix_data_buffer_t args;

	PMIX_DATA_BUFFER_CONSTRUCT(&args);
	if (!pack(&args, &call->proc, 1, PMIX_PROC) ||
		!pack_infos(&args, call->info, call->ninfo)) {
		PMIX_DATA_BUFFER_DESTRUCT(&args);
		call_answer(call, PMIX_ERR_NOMEM);
		return;
	}
	rpc_call(px, 0, RPC_PUBLISH, &args, on_status, call, px->host->timeout_ms);
}

/* The arguments of lookup and unpublish. */
static bool pack_lookup(struct px *px, struct call *call, pmix_data_buffer_t *args)
{
	const pmix_info_t *wait = call_find(call, PMIX_WAIT), *range = call_find(call, PMIX_RANGE);
	uint8_t range_value = range ? range->value.data.range : PMIX_RANGE_SESSION;
	uint64_t timeout_ms = call_timeout_ms(call, px->host->timeout_ms);
	size_t wanted = 0, count = 0;
	int64_t number;

	while (call->keys && call->keys[count])
		count++;
	if (wait) /* for all of them, or for so many; libraries also write a plain "true" */
		wanted = info_number(wait, &number) && number > 0 ? (size_t)number : count;
	if (wait && wait->value.type == PMIX_BOOL && !wait->value.data.flag)
		wanted = 0;
	if (!pack(args, &call->proc, 1, PMIX_PROC) || !pack(args, &range_value, 1, PMIX_UINT8) ||
		!pack(args, &wanted, 1, PMIX_SIZE) || !pack(args, &timeout_ms, 1, PMIX_UINT64) ||
		!pack(args, &count, 1, PMIX_SIZE))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!pack(args, &call->keys[i], 1, PMIX_STRING))
			return false;
	}
	return true;
}

static pmix_status_t take_found(struct call *call, pmix_data_buffer_t *result)
{
	size_t count;
	pmix_info_t info;

	if (!result || !unpack(result, &count, 1, PMIX_SIZE) || count > PACK_MAX || count == 0)
		return PMIX_ERR_UNPACK_FAILURE;
	PMIX_PDATA_CREATE(call->found, count);
	if (!call->found)
		return PMIX_ERR_NOMEM;
	call->nfound = count;
	for (size_t i = 0; i < count; i++) {
		PMIX_INFO_CONSTRUCT(&info);
		if (!unpack(result, &call->found[i].proc, 1, PMIX_PROC) ||
			!unpack(result, &info, 1, PMIX_INFO))
			return PMIX_ERR_UNPACK_FAILURE;
		PMIX_LOAD_KEY(call->found[i].key, info.key);
		call->found[i].value = info.value; /* moved */
	}
	return PMIX_SUCCESS;
}

static void on_found(
	struct px *px, void *userdata, pmix_status_t status, pmix_data_buffer_t *result)
{
	struct call *call = userdata;

	(void)px;
	if (status == PMIX_SUCCESS)
		status = take_found(call, result);
	call_answer(call, status);
}

static void send_lookup(struct px *px, struct call *call, enum rpc_op op, rpc_done_fn done)
{
	pmix_data_buffer_t args;

	PMIX_DATA_BUFFER_CONSTRUCT(&args);
	if (!pack_lookup(px, call, &args)) {
		PMIX_DATA_BUFFER_DESTRUCT(&args);
		call_answer(call, PMIX_ERR_NOMEM);
		return;
	}
	/* The deadline is node 0's. */
	rpc_call(px, 0, op, &args, done, call, 0);
}

void px_lookup(struct px *px, struct call *call)
{
	send_lookup(px, call, RPC_LOOKUP, on_found);
}

void px_unpublish(struct px *px, struct call *call)
{
	send_lookup(px, call, RPC_UNPUBLISH, on_status);
}
