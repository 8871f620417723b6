/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Published data: node 0 stores it for the step, and the requests of all nodes, of which its own is
 * one, go there.
 */
#include <pmix.h>
#include <string.h>

#include "mpi/pmix/rpc.h"
#include "stepd/base/strv.h"

/* ---- the store ------------------------------------------------------------------------------ */

struct published {
	struct published *next;
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

/* A lookup that waits for keys. */
struct lookup {
	struct lookup *next;
	struct px *px;
	struct rpc_request request;
	struct seeker who;
	struct strv keys;
	size_t wanted; /* so many of them; 0: what is there now */
	ev_timer timer;
};

/* On node 0. */
struct publishing {
	struct published *first, **last; /* in the order of publication */
	struct lookup *waiting;
};

static void published_free(struct published *p)
{
	PMIX_INFO_DESTRUCT(&p->info);
	free(p->custom);
	free(p);
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

/* The first of that key that the seeker may see, or NULL. */
static struct published *find_visible(
	const struct publishing *all, const struct seeker *who, const char *key)
{
	for (struct published *p = all->first; p; p = p->next) {
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
static pmix_status_t store(struct publishing *all, const struct published *like, pmix_info_t *info)
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
	for (struct published *q = all->first; q; q = q->next) {
		if (clashes(q, p)) {
			published_free(p);
			return PMIX_ERR_DUPLICATE_KEY;
		}
	}
	*all->last = p;
	all->last = &p->next;
	return PMIX_SUCCESS;
}

static void discard(struct publishing *all, struct published *gone)
{
	struct published **at = &all->first;

	while (*at != gone)
		at = &(*at)->next;
	*at = gone->next;
	if (all->last == &gone->next)
		all->last = at;
	published_free(gone);
}

static bool is_owner(const struct published *p, const pmix_proc_t *proc)
{
	return PMIX_CHECK_NSPACE(p->owner.nspace, proc->nspace) && p->owner.rank == proc->rank;
}

/* Discards an owner's data with one of these keys; without keys all of that owner's. */
static void discard_own(struct publishing *all, const pmix_proc_t *owner, const struct strv *keys)
{
	struct published *next;

	for (struct published *p = all->first; p; p = next) {
		bool named = keys->n == 0;

		next = p->next;
		for (size_t i = 0; !named && i < keys->n; i++)
			named = PMIX_CHECK_KEY(&p->info, keys->v[i]);
		if (named && is_owner(p, owner))
			discard(all, p);
	}
}

/* ---- lookup, on node 0 ---- */

static void lookup_free(struct lookup *l)
{
	ev_timer_stop(l->px->loop, &l->timer);
	strv_clear(&l->keys);
	free(l);
}

static size_t count_visible(const struct publishing *all, const struct lookup *l)
{
	size_t count = 0;

	for (size_t i = 0; i < l->keys.n; i++)
		count += find_visible(all, &l->who, l->keys.v[i]) != NULL;
	return count;
}

/* Answers with what is there. */
static void answer_lookup(struct lookup *l, pmix_status_t status)
{
	struct publishing *all = l->px->publishing;
	struct message result = MESSAGE_INIT;
	size_t count = count_visible(all, l);

	pack(&result, &count, PMIX_SIZE);
	for (size_t i = 0; i < l->keys.n; i++) {
		struct published *p = find_visible(all, &l->who, l->keys.v[i]);

		if (!p)
			continue;
		pack(&result, &p->owner, PMIX_PROC);
		pack(&result, &p->info, PMIX_INFO);
		if (p->persistence == PMIX_PERSIST_FIRST_READ)
			discard(all, p);
	}
	if (status == PMIX_SUCCESS && count == 0)
		status = PMIX_ERR_NOT_FOUND;
	rpc_reply(l->px, &l->request, status, &result);
	lookup_free(l);
}

static void on_timeout(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct lookup *l = timer->data, **at = &l->px->publishing->waiting;

	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	answer_lookup(l, PMIX_ERR_TIMEOUT);
}

/* Something was published. */
static void wake(struct publishing *all)
{
	struct lookup **at = &all->waiting, *l;

	while ((l = *at)) {
		if (count_visible(all, l) < l->wanted) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		answer_lookup(l, PMIX_SUCCESS);
	}
}

static bool unpack_keys(struct message *args, struct strv *keys)
{
	size_t count;

	if (!unpack(args, &count, PMIX_SIZE) || count > PACK_MAX)
		return false;
	while (keys->n < count) {
		char *key;

		if (!unpack(args, &key, PMIX_STRING) || strv_add_take(keys, key) < 0)
			return false;
	}
	return true;
}

static struct lookup *unpack_lookup(
	struct px *px, const struct rpc_request *request, struct message *args)
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
	if (!unpack(args, &l->who.proc, PMIX_PROC) || !unpack(args, &l->who.range, PMIX_UINT8) ||
		!unpack(args, &l->wanted, PMIX_SIZE) || !unpack(args, &timeout_ms, PMIX_UINT64) ||
		!unpack_keys(args, &l->keys)) {
		lookup_free(l);
		return NULL;
	}
	if (l->wanted > l->keys.n)
		l->wanted = l->keys.n;
	ev_timer_set(&l->timer, (double)timeout_ms / 1e3, 0.);
	return l;
}

void serve_lookup(struct px *px, const struct rpc_request *request, struct message *args)
{
	struct lookup *l = unpack_lookup(px, request, args);

	if (!l) {
		rpc_reply(px, request, PMIX_ERR_UNPACK_FAILURE, NULL);
		return;
	}
	if (count_visible(px->publishing, l) >= l->wanted) {
		answer_lookup(l, PMIX_SUCCESS);
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

void serve_publish(struct px *px, const struct rpc_request *request, struct message *args)
{
	struct published like = {.node = request->from,
		.range = PMIX_RANGE_SESSION,
		.persistence = PMIX_PERSIST_SESSION};
	pmix_status_t status = PMIX_SUCCESS;
	pmix_info_t *infos = NULL;
	size_t count = 0;

	if (!unpack(args, &like.owner, PMIX_PROC) || !unpack_infos(args, &infos, &count)) {
		rpc_reply(px, request, PMIX_ERR_UNPACK_FAILURE, NULL);
		return;
	}
	read_directives(&like, infos, count);
	for (size_t i = 0; status == PMIX_SUCCESS && i < count; i++) {
		if (!is_directive(&infos[i]))
			status = store(px->publishing, &like, &infos[i]);
	}
	if (infos)
		PMIX_INFO_FREE(infos, count);
	rpc_reply(px, request, status, NULL);
	wake(px->publishing);
}

/* Of one's own keys only; without keys, all of these. What is not there is no failure. */
void serve_unpublish(struct px *px, const struct rpc_request *request, struct message *args)
{
	struct lookup *l = unpack_lookup(px, request, args);

	if (!l) {
		rpc_reply(px, request, PMIX_ERR_UNPACK_FAILURE, NULL);
		return;
	}
	discard_own(px->publishing, &l->who.proc, &l->keys);
	lookup_free(l);
	rpc_reply(px, request, PMIX_SUCCESS, NULL);
}

void publish_open(struct px *px)
{
	struct publishing *all = px->node == 0 && !px->managed ? calloc(1, sizeof(*all)) : NULL;

	if (!all)
		return; /* another node's; or it is not supported, as without memory */
	all->last = &all->first;
	px->publishing = all;
}

/* Data that persists as long as its owner goes with that, or with its namespace. */
void publish_rank_gone(struct px *px, const struct nspace *nspace, uint32_t rank)
{
	struct published *next;
	pmix_proc_t owner;

	PMIX_LOAD_PROCID(&owner, nspace->name, rank);
	for (struct published *p = px->publishing ? px->publishing->first : NULL; p; p = next) {
		next = p->next;
		if ((p->persistence == PMIX_PERSIST_PROC && is_owner(p, &owner)) ||
			(p->persistence == PMIX_PERSIST_APP && nspace->gone == nspace->size &&
				PMIX_CHECK_NSPACE(p->owner.nspace, nspace->name)))
			discard(px->publishing, p);
	}
}

void publish_close(struct px *px)
{
	struct publishing *all = take_ptr(px->publishing);
	struct lookup *l;

	if (!all)
		return;
	while ((l = all->waiting)) {
		all->waiting = l->next;
		lookup_free(l);
	}
	while (all->first)
		discard(all, all->first);
	free(all);
}

/* ---- the requests of ranks, which node 0 gets ---- */

static void on_status(_unused_ struct px *px, void *userdata, const struct rpc_result *result)
{
	call_answer(userdata, result->status);
}

void px_publish(struct px *px, struct call *call)
{
	struct message args = MESSAGE_INIT;

	pack(&args, &call->proc, PMIX_PROC);
	pack_infos(&args, call->info, call->ninfo);
	rpc_call(px, 0, RPC_PUBLISH, &args, on_status, call, px->host->timeout_ms);
}

/* Lookup and unpublish. The deadline is node 0's. */
static void send_lookup(struct px *px, struct call *call, enum rpc_op op, rpc_done_fn done)
{
	const pmix_info_t *wait = call_find(call, PMIX_WAIT), *range = call_find(call, PMIX_RANGE);
	uint8_t range_value = range ? range->value.data.range : PMIX_RANGE_SESSION;
	uint64_t timeout_ms = call_timeout_ms(call, px->host->timeout_ms);
	struct message args = MESSAGE_INIT;
	size_t wanted = 0, count = 0;
	int64_t number;

	while (call->keys && call->keys[count])
		count++;
	if (wait) /* for all of them, or for so many; libraries also write a plain "true" */
		wanted = info_number(wait, &number) && number > 0 ? (size_t)number : count;
	if (wait && wait->value.type == PMIX_BOOL && !wait->value.data.flag)
		wanted = 0;
	pack(&args, &call->proc, PMIX_PROC);
	pack(&args, &range_value, PMIX_UINT8);
	pack(&args, &wanted, PMIX_SIZE);
	pack(&args, &timeout_ms, PMIX_UINT64);
	pack(&args, &count, PMIX_SIZE);
	for (size_t i = 0; i < count; i++)
		pack(&args, &call->keys[i], PMIX_STRING);
	rpc_call(px, 0, op, &args, done, call, 0);
}

static pmix_status_t take_found(struct call *call, struct message *result)
{
	size_t count;
	pmix_info_t info;

	if (!result || !unpack(result, &count, PMIX_SIZE) || count > PACK_MAX || count == 0)
		return PMIX_ERR_UNPACK_FAILURE;
	PMIX_PDATA_CREATE(call->found, count);
	if (!call->found)
		return PMIX_ERR_NOMEM;
	call->nfound = count;
	for (size_t i = 0; i < count; i++) {
		PMIX_INFO_CONSTRUCT(&info);
		if (!unpack(result, &call->found[i].proc, PMIX_PROC) ||
			!unpack(result, &info, PMIX_INFO))
			return PMIX_ERR_UNPACK_FAILURE;
		PMIX_LOAD_KEY(call->found[i].key, info.key);
		call->found[i].value = info.value; /* moved */
	}
	return PMIX_SUCCESS;
}

static void on_found(_unused_ struct px *px, void *userdata, const struct rpc_result *result)
{
	struct call *call = userdata;

	call_answer(call,
		result->status == PMIX_SUCCESS ? take_found(call, result->data) : result->status);
}

void px_lookup(struct px *px, struct call *call)
{
	send_lookup(px, call, RPC_LOOKUP, on_found);
}

void px_unpublish(struct px *px, struct call *call)
{
	send_lookup(px, call, RPC_UNPUBLISH, on_status);
}
