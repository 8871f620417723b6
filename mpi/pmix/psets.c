/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/psets.h"

#include <string.h>

#include "mpi/pmix/rpc.h"

#define ALL_APPS UINT32_MAX

static struct pset *pset_free(struct pset *p)
{
	free(p->name);
	free(p->procs);
	free(p);
	return NULL;
}

const struct pset *psets_first(const struct px *px)
{
	return px->psets;
}

const struct pset *psets_find(const struct px *px, const char *name)
{
	for (const struct pset *p = px->psets; p; p = p->next) {
		if (strcmp(p->name, name) == 0)
			return p;
	}
	return NULL;
}

static struct pset *pset_new(const struct nspace *nspace, const char *name, uint32_t appnum)
{
	struct pset *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->name = strdup(name);
	p->procs = calloc(nspace->size + 1, sizeof(*p->procs));
	if (!p->name || !p->procs)
		return pset_free(p);
	for (uint32_t i = 0; i < nspace->size; i++) {
		if (appnum != ALL_APPS && nspace->ranks[i].appnum != appnum)
			continue;
		PMIX_LOAD_PROCID(&p->procs[p->nprocs], nspace->name, i);
		p->nprocs++;
	}
	return p;
}

/* On every node. libpmix tells its clients of it. */
static void keep(struct px *px, const char *name, const char *nspace_name, uint32_t appnum)
{
	struct nspace *nspace = names_find(&px->names, nspace_name);
	struct pset *p;

	if (!nspace)
		return;
	if (psets_find(px, name)) {
		serve_log(px->serve, LOG_LEVEL_WARNING,
			"there is a process set '%s' already: %s gets no further one, ignoring",
			name, nspace_name);
		return;
	}
	p = pset_new(nspace, name, appnum);
	if (!p)
		return; /* without memory it is not seen */
	p->next = px->psets;
	px->psets = p;
	(void)PMIx_server_define_process_set(p->procs, p->nprocs, p->name); /* queries come here */
}

static void make(struct px *px, const char *name, const char *nspace, uint32_t appnum)
{
	pmix_data_buffer_t args;

	keep(px, name, nspace, appnum);
	PMIX_DATA_BUFFER_CONSTRUCT(&args);
	if (pack(&args, &name, 1, PMIX_STRING) && pack(&args, &nspace, 1, PMIX_STRING) &&
		pack(&args, &appnum, 1, PMIX_UINT32))
		rpc_tell(px, RPC_PSET, &args);
	else
		PMIX_DATA_BUFFER_DESTRUCT(&args);
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

static void serve_pset(struct px *px, const struct rpc_request *request, pmix_data_buffer_t *args)
{
	_cleanup_free_ char *name = NULL, *nspace = NULL;
	uint32_t appnum;

	(void)request;
	if (unpack(args, &name, 1, PMIX_STRING) && unpack(args, &nspace, 1, PMIX_STRING) &&
		unpack(args, &appnum, 1, PMIX_UINT32) && name && nspace)
		keep(px, name, nspace, appnum);
}

void psets_open(struct px *px)
{
	rpc_register(px, RPC_PSET, serve_pset);
}

void psets_close(struct px *px)
{
	struct pset *next;

	for (struct pset *p = px->psets; p; p = next) {
		next = p->next;
		(void)pset_free(p);
	}
	px->psets = NULL;
}
