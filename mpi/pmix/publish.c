/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Published data, on node 0: the requests of all nodes, of which its own is one, and those lookups
 * that wait for what is not there yet.
 */
#include "mpi/pmix/rpc.h"
#include "mpi/pmix/store.h"

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

/* What is kept on node 0. */
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

static struct lookup **place_of(struct px *px, const struct lookup *l)
{
	struct lookup **at = &px->publishing->waiting;

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
