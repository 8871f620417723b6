/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a call keeps of its arguments: deep copies, as libpmix frees its own when the upcall
 * returns. What was copied before memory ran out goes with the call.
 */
#include "mpi/pmix/call.h"

#include <string.h>

bool call_copy_procs(struct call *call, const pmix_proc_t *procs, size_t count)
{
	if (!procs || count == 0)
		return true;
	call->procs = calloc(count, sizeof(*procs));
	if (!call->procs)
		return false;
	memcpy(call->procs, procs, count * sizeof(*procs));
	call->nprocs = count;
	return true;
}

bool call_copy_info(struct call *call, const pmix_info_t *a, size_t a_count, const pmix_info_t *b,
	size_t b_count)
{
	size_t n = (a ? a_count : 0) + (b ? b_count : 0), at = 0;

	if (n == 0)
		return true;
	PMIX_INFO_CREATE(call->info, n);
	if (!call->info)
		return false;
	call->ninfo = n;
	for (size_t i = 0; a && i < a_count; i++)
		PMIX_INFO_XFER(&call->info[at++], &a[i]);
	for (size_t i = 0; b && i < b_count; i++)
		PMIX_INFO_XFER(&call->info[at++], &b[i]);
	return true;
}

bool call_copy_text(struct call *call, const char *text)
{
	call->text = text ? strdup(text) : NULL;
	return call->text || !text;
}

bool call_copy_keys(struct call *call, char *const *keys)
{
	size_t n = 0;

	while (keys && keys[n])
		n++;
	call->keys = calloc(n + 1, sizeof(char *));
	if (!call->keys)
		return false;
	for (size_t i = 0; i < n; i++) {
		call->keys[i] = strdup(keys[i]);
		if (!call->keys[i])
			return false;
	}
	return true;
}

static char **copy_vector(char *const *v)
{
	size_t n = 0;
	char **copy;

	while (v && v[n])
		n++;
	copy = calloc(n + 1, sizeof(char *));
	for (size_t i = 0; copy && i < n; i++) {
		copy[i] = strdup(v[i]);
		if (!copy[i]) {
			while (i-- > 0)
				free(copy[i]);
			free(copy);
			return NULL;
		}
	}
	return copy;
}

static bool copy_app(pmix_app_t *to, const pmix_app_t *from)
{
	to->cmd = from->cmd ? strdup(from->cmd) : NULL;
	to->argv = copy_vector(from->argv);
	to->env = copy_vector(from->env);
	to->cwd = from->cwd ? strdup(from->cwd) : NULL;
	to->maxprocs = from->maxprocs;
	if ((from->cmd && !to->cmd) || !to->argv || !to->env || (from->cwd && !to->cwd))
		return false;
	if (from->ninfo == 0 || !from->info)
		return true;
	PMIX_INFO_CREATE(to->info, from->ninfo);
	if (!to->info)
		return false;
	to->ninfo = from->ninfo;
	for (size_t i = 0; i < from->ninfo; i++)
		PMIX_INFO_XFER(&to->info[i], &from->info[i]);
	return true;
}

bool call_copy_apps(struct call *call, const pmix_app_t *apps, size_t napps)
{
	if (napps == 0)
		return true;
	PMIX_APP_CREATE(call->apps, napps);
	if (!call->apps)
		return false;
	call->napps = napps;
	for (size_t i = 0; i < napps; i++) {
		if (!copy_app(&call->apps[i], &apps[i]))
			return false;
	}
	return true;
}

bool call_copy_queries(struct call *call, const pmix_query_t *queries, size_t count)
{
	if (count == 0)
		return true;
	PMIX_QUERY_CREATE(call->queries, count);
	if (!call->queries)
		return false;
	call->nqueries = count;
	for (size_t i = 0; i < count; i++) {
		call->queries[i].keys = copy_vector(queries[i].keys);
		if (!call->queries[i].keys)
			return false;
		if (queries[i].nqual == 0 || !queries[i].qualifiers)
			continue;
		PMIX_INFO_CREATE(call->queries[i].qualifiers, queries[i].nqual);
		if (!call->queries[i].qualifiers)
			return false;
		call->queries[i].nqual = queries[i].nqual;
		for (size_t j = 0; j < queries[i].nqual; j++)
			PMIX_INFO_XFER(&call->queries[i].qualifiers[j], &queries[i].qualifiers[j]);
	}
	return true;
}
