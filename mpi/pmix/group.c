/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Named sets of ranks: groups and process sets.
 */
#include <string.h>

#include "mpi/pmix/keys.h"
#include "mpi/pmix/px.h"
#include "mpi/pmix/rpc.h"
#include "stepd/base/buffer.h"

/* ---- sets ---- */

const struct rank_set *set_find(const struct rank_set *sets, const char *name)
{
	while (sets && strcmp(sets->name, name) != 0)
		sets = sets->next;
	return sets;
}

/* NULL: no memory. */
static const struct rank_set *set_add(
	struct rank_set **sets, const char *name, const pmix_proc_t *procs, size_t count)
{
	struct rank_set *set = calloc(1, sizeof(*set) + count * sizeof(*procs));

	if (set)
		set->name = strdup(name);
	if (!set || !set->name) {
		free(set);
		return NULL;
	}
	memcpy(set->procs, procs, count * sizeof(*procs));
	set->nprocs = count;
	set->next = *sets;
	*sets = set;
	return set;
}

static void set_remove(struct rank_set **sets, const char *name)
{
	struct rank_set *set;

	while (*sets && strcmp((*sets)->name, name) != 0)
		sets = &(*sets)->next;
	set = *sets;
	if (!set)
		return;
	*sets = set->next;
	free(set->name);
	free(set);
}

void groups_close(struct px *px)
{
	while (px->groups)
		set_remove(&px->groups, px->groups->name);
	while (px->psets)
		set_remove(&px->psets, px->psets->name);
}

/* ---- groups ---------------------------------------------------------------------------------
 *
 * The ranks that make one meet in a collective; the context id is the first node's number of that.
 * Groups by invitation are made by libpmix's clients with events, and nothing of them comes here
 * but these (events.c); the last of them names the members.
 */

/* ---- members ---- */

struct members {
	pmix_proc_t *v;
	size_t n, capacity;
};

/* One by one: of a wildcard libpmix 5 thinks that it stands for ranks of this node alone. False: no
 * memory, or one is not known; members.v is the caller's in any case. */
static bool list_members(
	struct px *px, const pmix_proc_t *procs, size_t count, struct members *members)
{
	struct rank_cursor at = {
		.names = &px->names, .procs = procs, .count = count, .node = px->node};

	while (names_next(&at)) {
		if (array_reserve(members->v, members->capacity, members->n + 1) < 0)
			return false;
		PMIX_LOAD_PROCID(&members->v[members->n], at.nspace->name, at.rank);
		members->n++;
	}
	return !at.is_unknown;
}

/* For queries; without memory they do not see it. */
static void remember(struct px *px, const char *name, const struct members *members)
{
	set_remove(&px->groups, name);
	(void)set_add(&px->groups, name, members->v, members->n);
}

/* ---- the collectives ---- */

static void constructed(struct px *px, struct call *call, pmix_status_t status, uint64_t context,
	char *data, size_t size)
{
	struct keys keys = {.v = NULL};
	struct members members = {.v = NULL};
	pmix_byte_object_t all = {.bytes = data, .size = size};
	size_t id = context;

	if (status == PMIX_SUCCESS && !list_members(px, call->procs, call->nprocs, &members))
		status = PMIX_ERR_NOMEM;
	if (status == PMIX_SUCCESS) {
		remember(px, call->text ? call->text : "", &members);
		if (call_is_true(call, PMIX_GROUP_ASSIGN_CONTEXT_ID))
			keys_add(&keys, PMIX_GROUP_CONTEXT_ID, &id, PMIX_SIZE);
		keys_add_data_take(
			&keys, PMIX_GROUP_MEMBERSHIP, take_ptr(members.v), members.n, PMIX_PROC);
		if (size)
			keys_add(&keys, PMIX_GROUP_ENDPT_DATA, &all, PMIX_BYTE_OBJECT);
		if (keys.failed)
			status = PMIX_ERR_NOMEM;
	}
	free(members.v);
	free(data);
	call->results = keys.v;
	call->nresults = keys.n;
	call_answer(call, status);
}

static void destructed(struct px *px, struct call *call, pmix_status_t status,
	_unused_ uint64_t context, char *data, _unused_ size_t size)
{
	free(data);
	if (status == PMIX_SUCCESS && call->text)
		set_remove(&px->groups, call->text);
	call_answer(call, status);
}

void px_group(struct px *px, struct call *call)
{
	const pmix_info_t *info = call_find(call, PMIX_GROUP_ENDPT_DATA);
	bool has_data = info && info->value.type == PMIX_BYTE_OBJECT;

	if (call->code == PMIX_GROUP_CONSTRUCT && !compat_has_groups(px, call))
		call_answer(call, PMIX_ERR_NOT_SUPPORTED);
	else if (call->code == PMIX_GROUP_CONSTRUCT)
		collective_begin(px, COLLECTIVE_GROUP_CONSTRUCT, call, call->text,
			has_data ? info->value.data.bo.bytes : NULL,
			has_data ? info->value.data.bo.size : 0, constructed);
	else if (call->code == PMIX_GROUP_DESTRUCT)
		collective_begin(
			px, COLLECTIVE_GROUP_DESTRUCT, call, call->text, NULL, 0, destructed);
	else
		call_answer(call, PMIX_ERR_NOT_SUPPORTED);
}

/* ---- by invitation ---- */

void group_complete(struct px *px, const pmix_info_t *info, size_t ninfo)
{
	const pmix_data_array_t *procs = NULL;
	struct members members = {.v = NULL};
	const char *name = NULL;

	for (size_t i = 0; i < ninfo; i++) {
		if (PMIX_CHECK_KEY(&info[i], PMIX_GROUP_ID) && info[i].value.type == PMIX_STRING)
			name = info[i].value.data.string;
		else if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_CUSTOM_RANGE) &&
			info[i].value.type == PMIX_DATA_ARRAY)
			procs = info[i].value.data.darray;
	}
	if (!name || !procs || procs->type != PMIX_PROC || !procs->array)
		return; /* not an event of PMIx_Group_invite */
	if (list_members(px, procs->array, procs->size, &members))
		remember(px, name, &members);
	free(members.v);
}

void px_group_left(struct px *px, struct call *call)
{
	if (call->text)
		set_remove(&px->groups, call->text);
	(void)call_free(call);
}

/* ---- process sets --------------------------------------------------------------------------- */

#define ALL_APPS UINT32_MAX

/* On every node. libpmix notifies its clients of it. Without memory it is not seen. */
static void pset_store(struct px *px, const char *name, const char *nspace_name, uint32_t appnum)
{
	const struct nspace *nspace = names_find(&px->names, nspace_name);
	_cleanup_free_ pmix_proc_t *procs = NULL;
	size_t n = 0;

	if (!nspace)
		return;
	if (set_find(px->psets, name)) {
		serve_log(px->serve, LOG_LEVEL_WARNING,
			"there is a process set '%s' already: %s gets no further one, ignoring",
			name, nspace_name);
		return;
	}
	procs = calloc(nspace->size + 1, sizeof(*procs));
	for (uint32_t i = 0; procs && i < nspace->size; i++) {
		if (appnum != ALL_APPS && nspace->ranks[i].appnum != appnum)
			continue;
		PMIX_LOAD_PROCID(&procs[n], nspace->name, i);
		n++;
	}
	if (procs && set_add(&px->psets, name, procs, n))
		(void)PMIx_server_define_process_set(procs, n, name); /* queries come here */
}

static void make(struct px *px, const char *name, const char *nspace, uint32_t appnum)
{
	struct message args = MESSAGE_INIT;

	pset_store(px, name, nspace, appnum);
	pack(&args, &name, PMIX_STRING);
	pack(&args, &nspace, PMIX_STRING);
	pack(&args, &appnum, PMIX_UINT32);
	rpc_notify(px, RPC_PSET, &args);
}

static void make_named(
	struct px *px, const pmix_info_t *info, size_t ninfo, const char *nspace, uint32_t appnum)
{
	for (size_t i = 0; i < ninfo; i++) {
		if (PMIX_CHECK_KEY(&info[i], PMIX_PSET_NAME) && info[i].value.type == PMIX_STRING &&
			info[i].value.data.string)
			make(px, info[i].value.data.string, nspace, appnum);
	}
}

void psets_of_spawn(struct px *px, const struct call *call, const char *nspace)
{
	make_named(px, call->info, call->ninfo, nspace, ALL_APPS);
	for (size_t i = 0; i < call->napps; i++)
		make_named(px, call->apps[i].info, call->apps[i].ninfo, nspace, (uint32_t)i);
}

void serve_pset(struct px *px, _unused_ const struct rpc_request *request, struct message *args)
{
	_cleanup_free_ char *name = NULL, *nspace = NULL;
	uint32_t appnum;

	if (unpack(args, &name, PMIX_STRING) && unpack(args, &nspace, PMIX_STRING) &&
		unpack(args, &appnum, PMIX_UINT32) && name && nspace)
		pset_store(px, name, nspace, appnum);
}
