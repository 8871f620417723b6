/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Namespaces and their ranks, as they are made known to libpmix, and what libpmix gives to the
 * ranks' environment. What it is told of them stands in describe.c.
 */
#include <stdio.h>
#include <unistd.h>

#include "mpi/pmix/keys.h"
#include "mpi/pmix/px.h"
#include "mpi/pmix/tmpdir.h"

static int make_directories(struct px *px, const struct nspace *nspace, struct err *err)
{
	char name[PMIX_MAX_NSLEN + 16];
	int r = tmpdir_add(px->tmpdir, nspace->name, err);

	for (uint32_t i = 0; r == 0 && i < nspace->size; i++) {
		if (nspace->ranks[i].node != px->node)
			continue;
		(void)snprintf(name, sizeof(name), "%s/%u", nspace->name, i);
		r = tmpdir_add(px->tmpdir, name, err);
	}
	return r;
}

static int register_clients(struct px *px, const struct nspace *nspace, struct err *err)
{
	pmix_status_t status;
	pmix_proc_t proc;

	for (uint32_t i = 0; i < nspace->size; i++) {
		if (nspace->ranks[i].node != px->node)
			continue;
		PMIX_LOAD_PROCID(&proc, nspace->name, i);
		status = PMIx_server_register_client(&proc, geteuid(), getegid(), NULL, NULL, NULL);
		if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
			return err_say(err, -EIO, "register rank %u of %s with libpmix: %s", i,
				nspace->name, PMIx_Error_string(status));
	}
	return 0;
}

int px_register(struct px *px, struct nspace *nspace, struct err *err)
{
	_cleanup_keys_ struct keys keys = {.v = NULL};
	uint32_t local;
	pmix_status_t status;
	int r = describe(px, nspace, &keys, &local);

	if (r < 0)
		return err_set(err, r, "describe %s to libpmix", nspace->name);
	if (local) {
		r = make_directories(px, nspace, err);
		if (r < 0)
			return r;
	}
	/* Without a function to call back it returns when it is done, on its own thread. */
	status = PMIx_server_register_nspace(nspace->name, (int)local, keys.v, keys.n, NULL, NULL);
	if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
		return err_say(err, -EIO, "register %s with libpmix: %s", nspace->name,
			PMIx_Error_string(status));
	return register_clients(px, nspace, err);
}

void px_deregister(struct px *px, struct nspace *nspace)
{
	(void)px;
	PMIx_server_deregister_nspace(nspace->name, NULL, NULL);
}

int px_setup_fork(
	struct px *px, const struct nspace *nspace, uint32_t rank, char ***ret_env, struct err *err)
{
	pmix_status_t status;
	pmix_proc_t proc;

	/* Without a vector libpmix takes its own environment for it, which it has none of: it looks
	 * at its own libraries' variables first (pmix.c). */
	*ret_env = calloc(1, sizeof(char *));
	if (!*ret_env)
		return err_set(err, -ENOMEM, "make the environment of rank %u", rank);
	PMIX_LOAD_PROCID(&proc, nspace->name, rank);
	status = PMIx_server_setup_fork(&proc, ret_env);
	if (status != PMIX_SUCCESS)
		return err_say(err, -EIO, "ask libpmix for the environment of rank %u: %s", rank,
			PMIx_Error_string(status));
	return door_environ(px, ret_env) < 0
		? err_set(err, -ENOMEM, "make the environment of rank %u", rank)
		: 0;
}
