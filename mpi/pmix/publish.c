/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Published data: publish, lookup, unpublish. All of it is on node 0, in the order of publication;
 * the other nodes ask there. Who may see a key is up to the range that it was published with, and
 * how long it stays up to its persistence.
 */
#include <string.h>

#include "mpi/pmix/rpc.h"

struct published {
	struct published *next;
	pmix_proc_t owner;
	uint32_t node; /* of the owner */
	uint8_t range;
	uint8_t persistence;
	pmix_proc_t *custom; /* who may see it, with PMIX_RANGE_CUSTOM */
	size_t custom_count;
	pmix_info_t info; /* key and value */
};

/* A lookup that waits for keys. */
struct lookup {
	struct lookup *next;
	struct px *px;
	struct rpc_request request;
	pmix_proc_t proc;
	uint32_t node;
	char **keys;
	size_t keys_count;
	size_t wanted; /* so many of them; 0: what is there now */
	uint8_t range;
	ev_timer timer;
};

/* What is kept on node 0. */
struct store {
	struct published *first, **last;
	struct lookup *waiting;
};

static struct published *published_free(struct published *p)
{
	PMIX_INFO_DESTRUCT(&p->info);
	free(p->custom);
	free(p);
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

static bool is_visible(const struct published *p, const struct lookup *l)
{
	if (p->range == PMIX_RANGE_CUSTOM && !is_in(p->custom, p->custom_count, &l->proc))
		return false;
	return reaches(p->range, &p->owner, p->node, &l->proc, l->node) &&
		reaches(l->range, &l->proc, l->node, &p->owner, p->node);
}

static struct published *find(const struct store *store, const struct lookup *l, const char *key)
{
	for (struct published *p = store->first; p; p = p->next) {
		if (PMIX_CHECK_KEY(&p->info, key) && is_visible(p, l))
			return p;
	}
	return NULL;
}

static void remove_one(struct store *store, struct published *gone)
{
	struct published **at = &store->first;

	while (*at != gone)
		at = &(*at)->next;
	*at = gone->next;
	if (store->last == &gone->next)
		store->last = at;
	(void)published_free(gone);
}

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
	struct store *store = px->store;
	pmix_data_buffer_t result;
	size_t count = 0;
	bool good;

	for (size_t i = 0; i < l->keys_count; i++)
		count += find(store, l, l->keys[i]) != NULL;
	PMIX_DATA_BUFFER_CONSTRUCT(&result);
	good = pack(&result, &count, 1, PMIX_SIZE);
	for (size_t i = 0; good && i < l->keys_count; i++) {
		struct published *p = find(store, l, l->keys[i]);

		if (!p)
			continue;
		good = pack(&result, &p->owner, 1, PMIX_PROC) &&
			pack(&result, &p->info, 1, PMIX_INFO);
		if (p->persistence == PMIX_PERSIST_FIRST_READ)
			remove_one(store, p);
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
		count += find(store, l, l->keys[i]) != NULL;
	return count >= l->wanted;
}

static struct lookup **place_of(struct px *px, const struct lookup *l)
{
	struct lookup **at = &px->store->waiting;

	while (*at && *at != l)
		at = &(*at)->next;
	return at;
}

static void on_timeout(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct lookup *l = timer->data, **at = place_of(l->px, l);

	(void)loop;
	(void)revents;
	*at = l->next;
	answer_lookup(l->px, l, PMIX_ERR_TIMEOUT);
}

/* Something was published. */
static void wake(struct px *px)
{
	struct store *store = px->store;
	struct lookup **at = &store->waiting, *l;

	while ((l = *at)) {
		if (!is_ready(store, l)) {
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
	l->node = request->from;
	ev_init(&l->timer, on_timeout);
	l->timer.data = l;
	if (!unpack(args, &l->proc, 1, PMIX_PROC) || !unpack(args, &l->range, 1, PMIX_UINT8) ||
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
	if (is_ready(px->store, l)) {
		answer_lookup(px, l, PMIX_SUCCESS);
		return;
	}
	l->next = px->store->waiting;
	px->store->waiting = l;
	if (ev_timer_remaining(px->loop, &l->timer) > 0)
		ev_timer_start(px->loop, &l->timer);
}

/* ---- publish and unpublish, on node 0 ---- */

/* The same key, of which somebody could see both. */
static bool clashes(const struct published *p, const struct published *other)
{
	return PMIX_CHECK_KEY(&p->info, other->info.key) && p->range == other->range &&
		reaches(p->range, &p->owner, p->node, &other->owner, other->node);
}

static pmix_status_t keep(struct px *px, const struct published *like, pmix_info_t *info)
{
	struct store *store = px->store;
	struct published *p = calloc(1, sizeof(*p));

	if (!p)
		return PMIX_ERR_NOMEM;
	*p = *like;
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
			status = keep(px, &like, &infos[i]);
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
	struct published *next;

	if (!l) {
		rpc_reply(px, request, PMIX_ERR_UNPACK_FAILURE, NULL);
		return;
	}
	for (struct published *p = px->store->first; p; p = next) {
		bool named = l->keys_count == 0;

		next = p->next;
		for (size_t i = 0; !named && i < l->keys_count; i++)
			named = PMIX_CHECK_KEY(&p->info, l->keys[i]);
		if (named && PMIX_CHECK_NSPACE(p->owner.nspace, l->proc.nspace) &&
			p->owner.rank == l->proc.rank)
			remove_one(px->store, p);
	}
	lookup_free(l);
	rpc_reply(px, request, PMIX_SUCCESS, NULL);
}

void publish_open(struct px *px)
{
	struct store *store;

	if (px->node != 0)
		return;
	store = calloc(1, sizeof(*store));
	if (!store)
		return; /* then it is not supported */
	px->store = store;
	store->last = &store->first;
	rpc_register(px, RPC_PUBLISH, serve_publish);
	rpc_register(px, RPC_LOOKUP, serve_lookup);
	rpc_register(px, RPC_UNPUBLISH, serve_unpublish);
}

void publish_rank_gone(struct px *px, const struct nspace *nspace, uint32_t rank)
{
	struct published *next;

	for (struct published *p = px->store ? px->store->first : NULL; p; p = next) {
		next = p->next;
		if (!PMIX_CHECK_NSPACE(p->owner.nspace, nspace->name))
			continue;
		if ((p->persistence == PMIX_PERSIST_PROC && p->owner.rank == rank) ||
			(p->persistence == PMIX_PERSIST_APP && nspace->gone == nspace->size))
			remove_one(px->store, p);
	}
}

void publish_close(struct px *px)
{
	struct store *store = px->store;
	struct lookup *l;

	if (!store)
		return;
	while ((l = store->waiting)) {
		store->waiting = l->next;
		lookup_free(l);
	}
	while (store->first)
		remove_one(store, store->first);
	free(store);
	px->store = NULL;
}

/* ---- who asks ---- */

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

/* What lookup and unpublish say. */
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

static void ask(struct px *px, struct call *call, enum rpc_op op, rpc_done_fn done)
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
	ask(px, call, RPC_LOOKUP, on_found);
}

void px_unpublish(struct px *px, struct call *call)
{
	ask(px, call, RPC_UNPUBLISH, on_status);
}
