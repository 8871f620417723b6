/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Clients of another major version than the server's. From 2 on libpmix speaks with all of them,
 * but of groups each major has an answer of its own, and the client reads nonsense in another's:
 * these are refused, with one sentence. (PMIx 1 has a door of its own, door.c.)
 */
#include <string.h>

#include "mpi/pmix/px.h"
#include "mpi/pmix/version.h"

/* libpmix notes the first client's of a namespace on its node; empty: not known. */
static void find_version(const struct nspace *nspace, char version[VERSION_SIZE])
{
	pmix_value_t *value = NULL;
	pmix_proc_t all;
	pmix_info_t here;
	bool yes = true;

	version[0] = '\0';
	PMIX_LOAD_PROCID(&all, nspace->name, PMIX_RANK_WILDCARD);
	PMIX_INFO_LOAD(&here, PMIX_OPTIONAL, &yes, PMIX_BOOL); /* its host is asked for nothing */
	if (PMIx_Get(&all, PMIX_BFROPS_MODULE, &here, 1, &value) == PMIX_SUCCESS && value) {
		if (value->type == PMIX_STRING && value->data.string)
			version_find(value->data.string, version);
		PMIX_VALUE_RELEASE(value);
	}
	PMIX_INFO_DESTRUCT(&here);
}

static bool is_same(struct px *px, struct nspace *nspace)
{
	char theirs[VERSION_SIZE], own[VERSION_SIZE];

	find_version(nspace, theirs);
	version_find(PMIx_Get_version(), own);
	if (!theirs[0] || version_major(theirs) == version_major(own))
		return true;
	if (!nspace->groups_told)
		serve_log(px->serve, LOG_LEVEL_ERROR,
			"ranks of %s have libpmix %s, with which libpmix %s of this node can't "
			"form groups: run them with a libpmix of major version %u, or a stepd that "
			"is built with %u",
			nspace->name, theirs, own, version_major(own), version_major(theirs));
	nspace->groups_told = true;
	return false;
}

bool compat_has_groups(struct px *px, const struct call *call)
{
	for (size_t i = 0; i < call->nprocs; i++) {
		struct nspace *nspace = names_find(&px->names, call->procs[i].nspace);

		if (i > 0 && PMIX_CHECK_NSPACE(call->procs[i].nspace, call->procs[i - 1].nspace))
			continue;
		if (nspace && !is_same(px, nspace))
			return false;
	}
	return true;
}
