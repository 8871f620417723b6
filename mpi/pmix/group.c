/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups. The ranks that make one meet in a collective; the context id is the first node's number
 * of that. Groups by invitation are made by libpmix's clients with events, and nothing of them
 * comes here but these (events.c).
 */
#include <string.h>

#include "mpi/pmix/keys.h"
#include "mpi/pmix/group.h"
#include "mpi/pmix/px.h"

static struct group_name *group_free(struct group_name *g)
{
	free(g->name);
	free(g->procs);
	free(g);
	return NULL;
}

static void forget(struct px *px, const char *name)
{
	struct group_name **at = &px->groups, *g;

	while (*at && strcmp((*at)->name, name) != 0)
		at = &(*at)->next;
	g = *at;
	if (g) {
		*at = g->next;
		(void)group_free(g);
	}
}

/* For queries; without memory they do not see it. */
static void remember(struct px *px, const struct call *call)
{
	struct group_name *g = calloc(1, sizeof(*g));

	if (!g)
		return;
	g->name = strdup(call->text ? call->text : "");
	g->procs = calloc(call->nprocs + 1, sizeof(*g->procs));
	if (!g->name || !g->procs) {
		(void)group_free(g);
		return;
	}
	memcpy(g->procs, call->procs, call->nprocs * sizeof(*g->procs));
	g->nprocs = call->nprocs;
	forget(px, g->name);
	g->next = px->groups;
	px->groups = g;
}

void group_close(struct px *px)
{
	while (px->groups)
		forget(px, px->groups->name);
}

static void add_procs(struct keys *keys, const struct call *call)
{
	pmix_proc_t *procs = calloc(call->nprocs + 1, sizeof(*procs));

	if (procs)
		memcpy(procs, call->procs, call->nprocs * sizeof(*procs));
	keys_add_data_take(keys, PMIX_GROUP_MEMBERSHIP, procs, call->nprocs, PMIX_PROC);
}

static void constructed(struct px *px, struct call *call, pmix_status_t status, uint64_t context,
	char *data, size_t size)
{
	struct keys keys = {.v = NULL};
	pmix_byte_object_t all = {.bytes = data, .size = size};
	size_t id = context;

	if (status == PMIX_SUCCESS) {
		if (call_is_true(call, PMIX_GROUP_ASSIGN_CONTEXT_ID))
			keys_add(&keys, PMIX_GROUP_CONTEXT_ID, &id, PMIX_SIZE);
		add_procs(&keys, call);
		if (size)
			keys_add(&keys, PMIX_GROUP_ENDPT_DATA, &all, PMIX_BYTE_OBJECT);
		if (keys.failed)
			status = PMIX_ERR_NOMEM;
		else
			remember(px, call);
	}
	free(data);
	call->results = keys.v;
	call->nresults = keys.n;
	call_answer(call, status);
}

static void destructed(struct px *px, struct call *call, pmix_status_t status, uint64_t context,
	char *data, size_t size)
{
	(void)context;
	(void)size;
	free(data);
	if (status == PMIX_SUCCESS && call->text)
		forget(px, call->text);
	call_answer(call, status);
}

void px_group(struct px *px, struct call *call)
{
	const pmix_info_t *info = call_find(call, PMIX_GROUP_ENDPT_DATA);
	bool has_data = info && info->value.type == PMIX_BYTE_OBJECT;

	if (call->code == PMIX_GROUP_CONSTRUCT)
		collective_begin(px, COLLECTIVE_GROUP_CONSTRUCT, call, call->text,
			has_data ? info->value.data.bo.bytes : NULL,
			has_data ? info->value.data.bo.size : 0, constructed);
	else if (call->code == PMIX_GROUP_DESTRUCT)
		collective_begin(
			px, COLLECTIVE_GROUP_DESTRUCT, call, call->text, NULL, 0, destructed);
	else
		call_answer(call, PMIX_ERR_NOT_SUPPORTED);
}
